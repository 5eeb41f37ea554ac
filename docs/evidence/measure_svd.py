"""Print how near the leading singular triplets each method comes, with how many products and in how long.

Run `python docs/evidence/measure_svd.py --data FOLDER`; `--quick` takes small generated data. `--sets` chooses among

- newsgroups: 11314 posts x 75878 words, tf-idf, sparse, not centred;
- reuters: 9603 stories x 19425 words, tf-idf, sparse, not centred;
- homedepot: 74067 titles x 18608 words, counts, sparse, not centred;
- mnist: 60000 images of 784 pixels, dense, centred (the others are given entries centred beforehand).

σ: the largest relative error of the singular values; space: sine of the largest angle between the spans of the right
vectors. Both are against SciPy's ARPACK at machine precision. residual: max ‖AᵀA v − σ² v‖ / σ₁² of what is returned,
by products with the data. sweeps: readings of the data, linspec's as it counts them
with its certificate; columns: products with one column, forward and adjoint. Those of others are by their formulas, and
counted in a run apart for SciPy. CPU s, worst: processor seconds of all threads, median and largest over `--rounds`
rounds, in each of which every method has one turn (one that took over ten seconds has no other); with
OPENBLAS_NUM_THREADS=1 those of another library are those of one thread. clock: the median of the clock.

`--starts` prints what a start saves instead: `block-krylov` without one, and with the answer of the same matrix, of a
run to the tolerance 1e-3, of 1 % more rows, and with vectors that have nothing to do with it.

`--k` and `--methods` choose how many triplets and who runs. The last table takes each run of another library, and the
quickest of the others that comes as near, and beside them the quickest run of linspec that comes as near, and the
median of the ratios of their paired runs. Errors below 1e-13 (σ) and 1e-10 (space) count as none.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse.linalg
from datasets import images, news_stories, newsgroups, titles_and_queries
from showing import Report, arguments
from sklearn.utils.extmath import randomized_svd
from timing import Turns, alternate, timed

import linspec as ls

K = 50
LONG = 10.0
NOTHING = 1e-13, 1e-10
SETS = {
    "newsgroups": lambda given: newsgroups(given)[0],
    "reuters": news_stories,
    "homedepot": lambda given: titles_and_queries(given)[0],
    "mnist": images,
}


@dataclass(frozen=True)
class Case:
    """A matrix and its leading triplets."""

    name: str
    A: Any
    center: bool
    plain: Any
    S: np.ndarray
    Vh: np.ndarray


@dataclass
class Method:
    """One way to the triplets, and what came of it."""

    name: str
    solve: Callable[[], tuple[Any, Any, Any, Any, str]]
    count: Callable[[], tuple[int, int]] | None = None
    turns: Turns = field(default_factory=Turns)
    errors: tuple[float, float] = (np.inf, np.inf)
    residual: float = np.inf

    @property
    def own(self) -> bool:
        """Whether it is linspec's."""
        return self.name.startswith("linspec")

    @property
    def time(self) -> float:
        """Median seconds of the processor."""
        return self.turns.median

    def judge(self, case: Case, turns: Turns) -> None:
        """Keep the runs, the errors and the residual of their answer."""
        S, Vh, *_ = turns.answer
        self.turns, self.errors, self.residual = turns, errors(case, S, Vh), residual(case, S, Vh)


def main() -> int:
    """Measure and print."""
    parser = arguments(__doc__)
    parser.add_argument("--sets", nargs="+", default=list(SETS), choices=list(SETS))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--k", type=int, default=K, help="triplets wanted")
    parser.add_argument("--methods", nargs="+", default=[""], help="parts of the names of those that run")
    parser.add_argument("--starts", action="store_true", help="what a start saves, and nothing else")
    report = Report(parser)
    given = report.given
    for case in cases(given):
        if given.starts:
            show_starts(report, case)
            continue
        methods = [m for m in (*own(case), *rivals(case)) if any(part in m.name for part in given.methods)]
        calls = {method.name: method.solve for method in methods}
        turns = alternate(calls, 1 if given.quick else given.rounds, enough=LONG)
        table = report.table(
            "method", "σ::.1e", "space::.1e", "residual::.1e", "sweeps", "columns", "CPU s::.3f", "worst::.3f",
            "clock::.3f", "status", title=case.name,
        )  # fmt: skip
        for method in methods:
            method.judge(case, turns[method.name])
            _, _, sweeps, columns, status = method.turns.answer
            sweeps, columns = (sweeps, columns) if method.count is None else method.count()
            times = method.time, max(method.turns.cpu), float(np.median(method.turns.clock))
            table.row(method.name, *method.errors, method.residual, sweeps, columns, *times, status)
        show_verdict(report, case, methods)
    return report.end()


def show_verdict(report: Report, case: Case, methods: list[Method]) -> None:
    """For each run of another library: the quickest as near, theirs and linspec's."""
    table = report.table(
        "as near as", "quickest of the others", "CPU s::.3f", "quickest of linspec", "CPU s::.3f", "ratio::.1f",
        title=case.name,
    )  # fmt: skip
    for level in methods:
        if level.own or not np.isfinite(level.errors[0]):
            continue
        near = [
            m
            for m in methods
            if all(e <= max(l, n) for e, l, n in zip(m.errors, level.errors, NOTHING, strict=True))
        ]
        theirs = min((m for m in near if not m.own), key=lambda m: m.time)
        ours = min((m for m in near if m.own), key=lambda m: m.time, default=None)
        pair = () if ours is None else (ours.name, ours.time, theirs.turns.over(ours.turns)[0])
        table.row(level.name, theirs.name, theirs.time, *pair)


def show_starts(report: Report, case: Case) -> None:
    """Show the cost of runs without and with a start."""
    k, rng = len(case.S), np.random.default_rng(0)
    kept = np.sort(rng.permutation(case.A.shape[0])[: int(0.99 * case.A.shape[0])])
    table = report.table(
        "tol::g", "rows", "start", "block", "passes::g", "columns::g", "CPU::.2f", "σ::.1e", "residual::.1e", "status",
        title=case.name,
    )  # fmt: skip
    for tol in (1e-6, 1e-10):

        def run(
            A: Any, rows: str, begun: str, tol: float = tol, block: int | None = None, **given: Any
        ) -> Any:
            options = {"rng": 0, "tol": tol, "block": block, "form": "implicit", **given}
            s, watch = timed(ls.solve, ls.SVD(A, k, center=case.center), "block-krylov", **options)
            worst = errors(case, s.S, s.Vh)[0] if rows == "all" else ""
            spent = s.passes, s.columns, watch.cpu
            table.row(tol, rows, begun, block or "", *spent, worst, s.residual, s.status.name)
            return s

        own = run(case.A, "all", "none")
        run(case.A, "all", "none", block=k + 10)
        run(case.A, "all", "its own answer", start=own)
        rough = run(case.A, "all", "none", tol=1e-3, block=k + 10)
        run(case.A, "all", "that to 1e-3", start=rough)
        run(case.A, "all", "random vectors", start=rng.standard_normal((k, case.A.shape[1])))
        run(case.A, "all", "all but the first", start=case.Vh[1:])
        run(case.A[kept], "99 %", "none")
        run(case.A[kept], "99 %", "none", block=k + 10)
        run(case.A[kept], "99 %", "the answer of all rows", start=own)


def residual(case: Case, S: np.ndarray, Vh: np.ndarray) -> float:
    """By products with the data."""
    V = np.asarray(Vh).T
    gap = case.plain.T @ (case.plain @ V) - V * np.asarray(S) ** 2
    return float(np.linalg.norm(gap, axis=0).max() / np.max(S) ** 2)


def cases(given: argparse.Namespace) -> Iterator[Case]:
    """The matrices, one at a time."""
    for name in given.sets:
        A, center = SETS[name](given), name == "mnist"
        plain = A - A.mean(axis=0) if center else A
        k = 10 if given.quick else given.k
        _, S, Vh = scipy.sparse.linalg.svds(plain, k=k, tol=0, random_state=0)
        yield Case(name, A, center, plain, S[::-1], Vh[::-1])


def errors(case: Case, S: np.ndarray, Vh: np.ndarray) -> tuple[float, float]:
    """Return the relative error of the singular values, and the error of the space; infinite if some are missing."""
    if len(S) < len(case.S):
        return np.inf, np.inf
    order = np.argsort(-S)
    Q = np.linalg.qr(Vh[order].T)[0]
    rest = case.Vh.T - Q @ (Q.T @ case.Vh.T)
    return float(np.max(np.abs(S[order] - case.S) / case.S)), float(np.linalg.norm(rest, 2))


def own(case: Case) -> list[Method]:
    """linspec's solvers; blocks a little wider than k sweep least often."""
    wide = len(case.S) + 10
    settings: list[tuple[str, dict[str, Any]]] = [("auto", {})]
    settings += [("block-krylov", {"tol": tol}) for tol in (1e-1, 1e-2, 1e-3, 1e-4, 1e-6, 1e-9, 1e-12)]
    settings += [("block-krylov", {"tol": tol, "block": wide}) for tol in (1e-1, 1e-2, 1e-3, 1e-6)]
    settings += [("spca", {"power_iterations": q}) for q in (0, 2, 5, 10)]
    settings += [("lazy-spca", {}), ("lanczos", {}), ("lanczos", {"tol": 1e-12})]
    settings += [("gram", {})] if min(case.A.shape) < 2000 else []
    label = lambda name, options: name + "".join(f", {key} {value}" for key, value in options.items())  # noqa: E731
    return [
        Method(f"linspec {label(name, options)}", partial(by_linspec, case, name, options))
        for name, options in settings
    ]


def by_linspec(case: Case, name: str, options: dict[str, Any]) -> tuple[Any, Any, Any, Any, str]:
    """One of ours."""
    s = ls.solve(ls.SVD(case.A, len(case.S), center=case.center), name, rng=0, **options)
    status = f"{s.status.name}, {s.solver}" if name == "auto" else s.status.name
    return s.S, s.Vh, f"{s.passes:g}", f"{s.columns:g}", status


def rivals(case: Case) -> list[Method]:
    """scikit-learn, fbpca where it is installed, and SciPy."""
    found = [
        Method(f"scikit-learn randomized_svd, n_iter {q}", partial(by_scikit_learn, case, q))
        for q in (0, 2, 5, 10, 20)
    ]
    try:
        import fbpca
    except ImportError:
        print("fbpca is not installed: its rows are missing.\n")
    else:
        found += [Method(f"fbpca, n_iter {q}", partial(by_fbpca, case, fbpca, q)) for q in (0, 2, 5, 10)]
    for solver, tols in (
        ("arpack", (1e-2, 1e-4, 0.0)),
        ("propack", (1e-2, 1e-4, 0.0)),
        ("lobpcg", (1e-1, 1e-3)),
    ):
        for tol in tols:
            runs = (partial(make, case, solver, tol) for make in (by_scipy, counted))
            found.append(Method(f"SciPy svds, {solver}, tol {tol:g}", *runs))
    return found


def by_scikit_learn(case: Case, powers: int) -> tuple[Any, Any, Any, Any, str]:
    """Two sweeps a power, and two for the basis and its products; ten columns more than wanted."""
    k = len(case.S)
    _, S, Vh = randomized_svd(case.plain, k, n_iter=powers, random_state=0)
    return S, Vh, 2 + 2 * powers, (2 + 2 * powers) * (k + 10), ""


def by_fbpca(case: Case, fbpca: Any, powers: int) -> tuple[Any, Any, Any, Any, str]:
    """Solve by fbpca: the same scheme with two columns more than requested."""
    np.random.seed(0)  # noqa: NPY002 (it knows no other way)
    k = len(case.S)
    _, S, Vh = fbpca.pca(case.plain, k, raw=True, n_iter=powers)
    return S, Vh, 2 + 2 * powers, (2 + 2 * powers) * (k + 2), ""


def by_scipy(case: Case, solver: str, tol: float) -> tuple[Any, Any, Any, Any, str]:
    """Its products are counted in a run apart."""
    _, S, Vh = scipy.sparse.linalg.svds(case.plain, len(case.S), solver=solver, tol=tol, random_state=0)
    return S, Vh, "", "", ""


def counted(case: Case, solver: str, tol: float) -> tuple[int, int]:
    """Sweeps and columns of products that `svds` makes."""
    calls: list[int] = []

    def multiply(M: Any, V: np.ndarray) -> Any:
        calls.append(1 if V.ndim == 1 else V.shape[1])
        return M @ V

    A = case.plain
    forward, adjoint = partial(multiply, A), partial(multiply, A.T)
    operator = scipy.sparse.linalg.LinearOperator(
        A.shape, matvec=forward, rmatvec=adjoint, matmat=forward, rmatmat=adjoint, dtype=np.float64
    )
    scipy.sparse.linalg.svds(operator, len(case.S), solver=solver, tol=tol, random_state=0)
    return len(calls), sum(calls)


if __name__ == "__main__":
    main()
