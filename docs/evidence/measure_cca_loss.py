"""Print what every solver of CCA says of its loss beside the loss itself, and what its certificate costs.

Run `python docs/evidence/measure_cca_loss.py --data FOLDER`; `--quick` takes small data of the same kind. `--sets`,
`--solvers`, `--forms`, `--tols` and `--seeds` choose a part; `--max-passes` and `--max-seconds` end runs that take
longer, and a solver whose first run of a row ends so, or in any status that is no answer, is not repeated.

Uncentred, k = 20 (5 with `--quick`). The truth is computed by NumPy and SciPy: all correlations from Cholesky factors
where the Gram matrices are dense, otherwise a run of `lobpcg` to 1e-12 that carries 40 columns more. The exact law of
what is returned, Σ‖ϱᵢ‖² / Σρᵢ in the norm of the inverses of the Gram matrices, comes from the same factors, or from
conjugate gradients on the sparse Gram matrices until the lengths have four digits.

Median (worst) of the runs of a row. `loss` is 1 - Σρ / Σρ*; ratios to it are left out where it is too small to be
distinguished from rounding. `below` and `above` are `law_bounds` over the exact law, `least` is the lower one of
`loss_bounds` over the loss. `sweep` is how many of a run's passes are its certificate's, `columns` and `CPU` the
shares of products and of processor time that it takes.

Asked, and exit status 1 where it is missed: in every run that ends CONVERGED or CLUSTERED the residual is between 1/3
and 2 of the exact law, and the bounds hold; the loss is at most ten times the residual where a run ends CONVERGED; of
the generated sets, in which 200 correlations are alike behind the k-th, no solver that iterates says CONVERGED unless
its loss is at most ten times its tolerance.
"""

from __future__ import annotations

import functools
import sys
from collections import Counter
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse
from datasets import (
    bigrams,
    clustered,
    digits_halves,
    mnist_halves,
    patch_halves,
    titles_and_queries,
)
from showing import Claim, Report, arguments
from timing import Stopwatch, timed

import linspec as ls

K = 20
PIXELS, WORDS = (300.0, 1.0, 0.005), (100.0, 1.0, 0.01)
SETS: dict[str, tuple[Any, tuple[float, ...]]] = {
    "digits": (digits_halves, PIXELS),
    "patches": (patch_halves, PIXELS),
    "mnist": (mnist_halves, PIXELS),
    "delta 3e-3": (functools.partial(clustered, 3e-3), (0.0,)),
    "delta 3e-4": (functools.partial(clustered, 3e-4), (0.0,)),
    "words": (bigrams, WORDS),
    "titles": (titles_and_queries, WORDS),
}
DRAWN = ("patches", "delta 3e-3", "delta 3e-4")
"""Sets that are drawn anew with every seed."""

SOLVERS: dict[str, dict[str, Any]] = {
    "gram": {},
    "direct": {},
    "lobpcg": {},
    "als": {},
    "l-cca": {"iterations": 40},
    "g-cca": {"iterations": 40},
    "d-cca": {},
    "dw-cca": {},
    "nw-cca": {},
    "rpcca": {},
    "randomized": {},
    "appgrad": {},
    "stochastic-appgrad": {},
    "two-stage": {},
}
NARROW = 64
"""Columns of Y up to which "two-stage", which takes them for targets, is run."""

DIRECT = 2000
"""Columns up to which "direct", whose work grows with their cube, is run."""

RESOLVED = 1e-10
"""Least loss that is distinguishable from the error of the truth."""

ROUNDING = 1e-20
"""Law below which it is rounding."""

SHARE, SMALL = 0.1, 0.1
"""Processor time that a certificate may take: its share of a run, and the seconds that are nothing."""

ANSWERS = ("CONVERGED", "CLUSTERED")

AS_ASKED = "residual, bounds, loss and certificate are as asked"


class Truth:
    """Exact correlations, and the law of weights, by NumPy and SciPy.

    Parameters
    ----------
    X, Y : array or sparse matrix
    ridge : float
    """

    def __init__(self, X: Any, Y: Any, ridge: float, k: int) -> None:
        self.ridge, self.k = ridge, k
        self.S = [X.T @ X, Y.T @ Y]
        self.C = X.T @ Y
        self.sparse = scipy.sparse.issparse(X)
        if self.sparse:
            self.S, self.C = [S.tocsr() for S in self.S], self.C.tocsr()
            problem = ls.CCA(ls.Moments(X, Y, form="sparse"), None, k, ridge=ridge, center=False)
            options = {"tol": 1e-12, "max_iterations": 1500, "oversample": 40}
            self.total = float(ls.solve(problem, "lobpcg", rng=99, **options).correlations.sum())
            return
        self.factors = [np.linalg.cholesky(S + ridge * np.eye(len(S))) for S in self.S]
        half = scipy.linalg.solve_triangular(self.factors[0], self.C, lower=True)
        T = scipy.linalg.solve_triangular(self.factors[1], half.T, lower=True)
        self.total = float(np.linalg.svd(T, compute_uv=False)[:k].sum())

    def law(self, found: Any) -> float:
        """Σ‖ϱᵢ‖² / Σρᵢ."""
        x, y, rho = found.x_weights, found.y_weights, found.correlations
        gaps = (self.C @ y - self.metric(0, x) * rho, self.C.T @ x - self.metric(1, y) * rho)
        return sum(self.squares(i, gap) for i, gap in enumerate(gaps)) / float(rho.sum())

    def metric(self, i: int, V: np.ndarray) -> np.ndarray:
        """S V, ridge included."""
        return self.S[i] @ V + self.ridge * V

    def squares(self, i: int, R: np.ndarray) -> float:
        """‖R‖² in the norm of S⁻¹."""
        if not self.sparse:
            return float(np.sum(scipy.linalg.solve_triangular(self.factors[i], R, lower=True) ** 2))
        weights = 1 / np.maximum(self.S[i].diagonal() + self.ridge, 1e-300)[:, None]
        r, total, gains = R.copy(), 0.0, [np.inf]
        z = weights * r
        p, rz = z, np.sum(r * z, axis=0)
        while sum(gains[-20:]) > 1e-4 * total and len(gains) < 2000:
            q = self.metric(i, p)
            step = rz / np.maximum(np.sum(p * q, axis=0), 1e-300)
            gains.append(float(step @ rz))
            total += gains[-1]
            gains[0] = 0.0 if len(gains) > 20 else np.inf
            r = r - q * step
            z = weights * r
            after = np.sum(r * z, axis=0)
            p, rz = z + p * (after / np.maximum(rz, 1e-300)), after
        return total


@dataclass
class Spent:
    """The cost of judging in one run."""

    watch: Stopwatch = field(default_factory=Stopwatch)
    columns: float = 0.0
    sweeps: float = 0.0
    calls: int = 0


@dataclass
class Row:
    """The runs of one solver on one set."""

    statuses: Counter[str] = field(default_factory=Counter)
    figures: dict[str, list[float]] = field(default_factory=dict)
    missed: list[str] = field(default_factory=list)

    def add(self, name: str, value: float) -> None:
        """One figure of one run."""
        self.figures.setdefault(name, []).append(value)

    def worst(self, name: str) -> str:
        """The largest of a figure."""
        return f"{max(self.figures.get(name, [0.0])):.3g}"

    def cell(self, name: str, worst: Any = max) -> str:
        """Median and worst."""
        values = self.figures.get(name, [])
        if not values:
            return "-"
        median, extreme = float(np.median(values)), worst(values)
        return f"{median:.2g}" if len(values) == 1 else f"{median:.2g} ({extreme:.2g})"


def counted(
    problem: Any, name: str, options: dict[str, Any], given: Any, seed: int
) -> tuple[Any, float, Spent]:
    """A run, its processor time, and what of it is the certificate."""
    spent, judge = Spent(), ls.CCA.conclude

    def conclude(self: Any, *terms: Any, **arrays: Any) -> Any:
        ledgers = [A.ledger for A in (self.X, self.Y)]
        before = [(a.columns, a.sweeps) for a in ledgers]
        with spent.watch:
            conclusion = judge(self, *terms, **arrays)
        spent.columns += sum(a.columns - b[0] for a, b in zip(ledgers, before, strict=True))
        spent.sweeps += max(a.sweeps - b[1] for a, b in zip(ledgers, before, strict=True))
        spent.calls += 1
        return conclusion

    ls.CCA.conclude = conclude
    try:
        limits = {"max_passes": given.max_passes, "max_seconds": given.max_seconds}
        found, watch = timed(ls.solve, problem, name, rng=seed, **limits, **options)
    finally:
        ls.CCA.conclude = judge
    return found, watch.cpu, spent


def enter(row: Row, truth: Truth, found: Any, seconds: float, spent: Spent, tol: float) -> None:
    """The figures of one run, and what of them is not as asked."""
    status = found.status.name
    row.statuses[status] += 1
    row.add("passes", found.passes)
    row.add("sweep", spent.sweeps)
    row.add("columns", spent.columns / max(found.columns, 1.0))
    row.add("CPU", spent.watch.cpu / max(seconds, 1e-9))
    row.add("CPU ms", 1e3 * spent.watch.cpu)
    if spent.sweeps > 1:
        row.missed.append(f"{spent.sweeps:g} sweeps in {spent.calls} certificates")
    if status not in ANSWERS or len(found.correlations) < truth.k:
        return
    loss, law = 1 - float(found.correlations.sum()) / truth.total, truth.law(found)
    row.add("loss", loss)
    lower = found.loss_bounds[0]
    if loss > RESOLVED:
        row.add("loss/residual", loss / found.residual)
        if found.loss_estimate is not None:
            row.add("loss/estimate", loss / max(found.loss_estimate, 1e-300))
        if spent.watch.cpu > max(SHARE * seconds, SMALL):
            row.missed.append(f"certificate {spent.watch.cpu:.2f} of {seconds:.2f} CPU seconds")
        row.add("least", max(lower, 0.0) / loss)
        if status == "CONVERGED" and loss > 10 * found.residual:
            row.missed.append(f"loss / residual {loss / found.residual:.1f}")
        if status == "CONVERGED" and loss > 10 * tol:
            row.missed.append(f"loss {loss:.1e}")
    if lower > loss + RESOLVED:
        row.missed.append(f"loss {loss:.2e} below its bound {lower:.2e}")
    if law > ROUNDING:
        below, above = found.law_bounds
        row.add("residual/law", found.residual / law)
        row.add("below", below / law)
        row.add("above", above / law)
        if law > RESOLVED**2 and not 1 / 3 <= found.residual / law <= 2:
            row.missed.append(f"residual / law {found.residual / law:.2f}")
        # Four digits of the law are known.
        if below > 1.001 * law + ROUNDING or above < 0.999 * law - ROUNDING:
            row.missed.append(f"law {law:.3e} outside of {below:.3e}, {above:.3e}")


@dataclass
class Task:
    """A set with a ridge, a form and a tolerance."""

    name: str
    ridge: float
    form: str
    tol: float
    given: Any
    known: dict[Any, Any]

    def table(self, report: Report) -> None:
        """Measure and print, and say whether all is as asked."""
        name = f"{self.name}, ridge {self.ridge:g}, form {self.form}, tol {self.tol:g}"
        table = report.table(
            "solver", "status", "passes", "loss", "loss / residual", "loss / estimate", "residual / law, least",
            "most", "below", "above", "least", "sweep", "columns", "CPU", "CPU ms", title=name,
        )  # fmt: skip
        missed, others = [], []
        for solver in self.given.solvers:
            row = self.row(solver)
            if not row.statuses:
                continue
            if not row.figures.get("loss"):
                others.append(f"{solver} {row.worst('passes')} {next(iter(row.statuses))}")
                continue
            status = ", ".join(f"{status} {count}" for status, count in row.statuses.items())
            table.row(
                solver, status, row.cell("passes"), row.cell("loss"), row.cell("loss/residual"),
                row.cell("loss/estimate"), row.cell("residual/law", min), row.cell("residual/law"),
                row.cell("below", min), row.cell("above"), row.cell("least"), row.cell("sweep"),
                row.cell("columns"), row.cell("CPU"), row.cell("CPU ms"),
            )  # fmt: skip
            missed += [f"{solver}, {count} times: {text}" for text, count in Counter(row.missed).items()]
        if others:
            print(f"\nWithout an answer to judge (passes, status): {'; '.join(others)}")
        report.say([Claim(AS_ASKED, not missed, "; ".join(missed) or "all", own=True)], name)

    def row(self, solver: str) -> Row:
        """The runs of one solver."""
        row, options, given = Row(), dict(SOLVERS[solver]), self.given
        fields = {option.name for option in ls.describe(f"cca/{solver}").options}
        for name, value, values in (("form", self.form, given.forms), ("tol", self.tol, given.tols)):
            if name in fields:
                options[name] = value
            elif value != values[0]:
                return row  # it would be the same run again
        for seed in range(given.seeds):
            X, Y, truth = self.truth(seed)
            if Y.shape[1] > {"two-stage": NARROW, "direct": DIRECT}.get(solver, np.inf):
                break
            problem = ls.CCA(X, Y, truth.k, ridge=self.ridge, center=False)
            try:
                found, seconds, spent = counted(problem, solver, options, given, seed)
            except ls.errors.LinspecError as error:
                row.statuses[type(error).__name__] += 1
                break
            enter(row, truth, found, seconds, spent, self.tol)
            if found.status.name not in ANSWERS:
                break
        return row

    def truth(self, seed: int) -> tuple[Any, Any, Truth]:
        """The data of a seed, and what is so."""
        read, _ = SETS[self.name]
        drawn = seed if self.name in DRAWN else 0
        if drawn not in self.known:
            self.known[drawn] = (read(self.given, drawn) if self.name in DRAWN else read(self.given))[:2]
        X, Y = self.known[drawn]
        if (drawn, self.ridge) not in self.known:
            self.known[drawn, self.ridge] = Truth(X, Y, self.ridge, 5 if self.given.quick else K)
        return X, Y, self.known[drawn, self.ridge]


def main() -> int:
    """Measure and print."""
    parser = arguments(__doc__)
    parser.add_argument("--sets", nargs="+", default=list(SETS), choices=list(SETS))
    parser.add_argument("--ridges", nargs="+", type=float, default=None, help="instead of those of the set")
    parser.add_argument("--solvers", nargs="+", default=list(SOLVERS), choices=list(SOLVERS))
    parser.add_argument("--forms", nargs="+", default=["auto", "implicit"], choices=["auto", "implicit"])
    parser.add_argument("--tols", nargs="+", type=float, default=[1e-6, 1e-4])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--max-passes", type=float, default=300.0)
    parser.add_argument("--max-seconds", type=float, default=10.0)
    report = Report(parser)
    given = report.given
    for name in given.sets:
        known: dict[Any, Any] = {}
        for ridge, form, tol in product(given.ridges or SETS[name][1], given.forms, given.tols):
            Task(name, ridge, form, tol, given, known).table(report)
    return report.end()


if __name__ == "__main__":
    sys.exit(main())
