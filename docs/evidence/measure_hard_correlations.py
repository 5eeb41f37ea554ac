"""Print how many wrong correlations are called converged, and how many right ones are not, on hard pairs of views.

Run `OPENBLAS_NUM_THREADS=1 python docs/evidence/measure_hard_correlations.py`; `--quick` takes a tenth of the cases,
`--seed` draws others, and `--solvers` chooses. All data are generated.

The cases are clustered and equal correlations, correlations near one and near zero, columns and singular values that
fall steeply, dependent columns, fewer rows than columns, means of up to 1e8 deviations, float32, sparse and one-hot
views, weights with confounds and scale, few passes and loose tolerances. The exact correlations are those of
Björck & Golub (1973) in extended precision. At last answers without one of the leading pairs are judged, where
Gram matrices are held and where the proof is asked for.

wrong: a correlation is off by more than a thousandth, or a larger one is missing. right: every correlation is off by
less than a millionth. An answer counts as called right if its status is CONVERGED, RANK_DEFICIENT or DEGENERATE.
"overstated" are answers called right that have over ten times the error of the digits that they claim.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from beds import concluded, counted_cases, with_spectrum
from showing import Claim

import linspec as ls
from linspec.iteration import Iterate
from linspec.solving import Solver

SOLVERS = "auto", "gram", "direct", "als", "lobpcg"
ITERATIVE = "als", "lobpcg"
WRONG, RIGHT, FLOOR = 1e-3, 1e-6, 1e-13
KINDS = "silent", "alarm", "overstated", "told", "right", "refused"
CALLED_RIGHT = "CONVERGED", "RANK_DEFICIENT", "DEGENERATE"


@dataclass(frozen=True)
class Case:
    """Views, how many pairs are asked for, and options of the problem and of iterations."""

    name: str
    X: Any
    Y: Any
    k: int
    problem: dict[str, Any] = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=dict)

    def exact(self) -> np.ndarray:
        """The leading correlations of the views that are meant."""
        given = self.problem
        w = np.asarray(given.get("sample_weight", np.ones(self.X.shape[0])), dtype=np.longdouble)
        Z = np.ones((len(w), 1)) if given.get("center", True) else np.zeros((len(w), 0))
        if "confounds" in given:
            Z = np.hstack([Z, given["confounds"]])
        bases = []
        for view in (self.X, self.Y):
            A = np.asarray(view.toarray() if sp.issparse(view) else view, dtype=np.longdouble)
            A = A - (w @ A) / w.sum() if given.get("center", True) else A
            A = np.sqrt(w)[:, None] * A
            Q, _ = np.linalg.qr(np.asarray(np.sqrt(w)[:, None] * Z, dtype=np.float64))
            A = (
                np.asarray(A - Q @ (Q.T @ A), dtype=np.float64)
                if Z.shape[1] > 1
                else np.asarray(A, np.float64)
            )
            size = np.sqrt((A**2).sum(axis=0) / float(w.sum()))
            A = A / size if given.get("scale") else A
            ridge = given.get("ridge", 0.0)
            lengths = np.where(size > 0, np.sqrt((A**2).sum(axis=0) + ridge), 1.0)
            U, s, _ = np.linalg.svd(A / lengths, full_matrices=False)
            if ridge:
                stacked = np.vstack([A / lengths, np.sqrt(ridge) * np.diag(1 / lengths)])
                U = np.linalg.qr(stacked)[0][: len(A)]
            else:
                U = U[:, s > 1e-11 * s[0]]
            bases.append(U)
        return np.linalg.svd(bases[0].T @ bases[1], compute_uv=False)[: self.k]


def views(
    n: int, rho: Any, p: int, q: int, s: Any, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Views of mean zero with these correlations, and with singular values s of both."""
    Q = np.linalg.qr(np.hstack([np.ones((n, 1)), rng.standard_normal((n, p + q))]))[0][:, 1:]
    U, V, m = Q[:, :p], Q[:, p:].copy(), len(rho)
    V[:, :m] = U[:, :m] * rho + V[:, :m] * np.sqrt(1 - np.asarray(rho) ** 2)
    X, Y = (
        basis
        @ np.linalg.qr(rng.standard_normal((d, d)))[0]
        * np.resize(s, d)
        @ with_spectrum(d, d, np.ones(d), rng)
        for basis, d in ((U, p), (V, q))
    )
    return X, Y


def correlations(rng: np.random.Generator) -> Iterator[Case]:
    """Correlations that are hard to tell apart, or to find."""
    for name, rho in {
        "clear": [0.9, 0.8, 0.7, 0.3, 0.2],
        "flat": np.linspace(0.5, 0.4, 12),
        "clusters": np.r_[0.9 * np.ones(3), 0.5 + 1e-7 * rng.standard_normal(8)],
        "tie at the cut": [0.9, 0.8, 0.5, 0.5, 0.5, 0.5, 0.2],
        "near one": 1 - 10.0 ** -np.arange(2, 9),
        "near zero": 10.0 ** -np.arange(0.2, 6),
        "all equal": 0.6 * np.ones(12),
        "close after the cut": [0.9, 0.8, 0.7, 0.6999, 0.6998, 0.1],
    }.items():
        for e in (0, 2, 4):
            s = np.geomspace(1, 10.0**-e, 40)
            yield Case(f"{name}, condition 1e{e}", *views(400, rho, 40, 25, s, rng), 3)
    for e in (2, 4, 6, 8):
        X, Y = views(400, [0.9, 0.8, 0.3], 15, 12, [1.0], rng)
        yield Case(f"graded columns 1e-{e}", X * np.geomspace(1, 10.0**-e, 15), Y, 3)
    for e in (5, 6, 7):
        X, Y = views(400, [0.9, 0.8, 0.3], 15, 12, np.geomspace(1, 10.0**-e, 15), rng)
        yield Case(f"singular values to 1e-{e}", X, Y, 3)
    X, Y = views(400, [0.9, 0.8, 0.3], 15, 12, [1.0], rng)
    yield Case("dependent columns", np.hstack([X, X[:, :4] @ rng.standard_normal((4, 3))]), Y, 3)
    yield Case("a view of rank 2", X, Y[:, :2] @ rng.standard_normal((2, 9)), 4)
    yield Case("shared columns", X, np.hstack([Y, X[:, :2]]), 4)


def kinds_of_data(rng: np.random.Generator) -> Iterator[Case]:
    """Large means, float32, sparse views, ridges, weights, units."""
    X, Y = views(500, [0.95, 0.8, 0.6, 0.2], 30, 20, np.geomspace(1, 1e-2, 30), rng)
    X, Y = X * 30, Y * 20
    for e in (2, 5, 8):
        far = 10.0**e * (1 + rng.random(30)) * X.std(axis=0)
        yield Case(f"means of 1e{e} deviations", X + far, Y, 4)
    yield Case("float32", X.astype(np.float32), Y.astype(np.float32), 4)
    yield Case("float32 and float64", X.astype(np.float32), Y, 4)
    for unit in (1e-50, 1e-25, 1e25, 1e50):
        yield Case(f"units of {unit:g}", X * unit, Y / unit, 4)
    for ridge in (1e-6, 1e-2, 1.0):
        yield Case(f"ridge {ridge:g}", X, Y, 4, {"ridge": ridge})
        wide = rng.standard_normal((60, 90)), rng.standard_normal((60, 80))
        yield Case(f"fewer rows, ridge {ridge:g}", *wide, 4, {"ridge": ridge})
    w, Z = rng.uniform(0, 3, 500), rng.standard_normal((500, 2))
    w[:50] = 0
    yield Case("weights", X, Y, 4, {"sample_weight": w})
    yield Case("confounds", X + Z @ rng.standard_normal((2, 30)) * 5, Y + Z[:, :1], 4, {"confounds": Z})
    yield Case("weights, confounds, scale", X, Y, 4, {"sample_weight": w, "confounds": Z, "scale": True})
    for center in (False, True):
        S, T = (sp.random(800, d, 0.05, random_state=rng, format="csr") for d in (200, 150))
        T = sp.csr_array(T + S[:, :150] * 0.5)
        yield Case(f"sparse, center={center}", sp.csr_array(S), T, 5, {"center": center})
        words, after = rng.integers(60, size=3000), rng.integers(50, size=3000)
        after = np.where(rng.random(3000) < 0.5, words % 50, after)
        hot = (
            sp.csr_array((np.ones(3000), (np.arange(3000), c)), shape=(3000, m))
            for c, m in ((words, 60), (after, 50))
        )
        yield Case(f"one-hot, center={center}", *hot, 5, {"center": center})


def ended_early(rng: np.random.Generator) -> Iterator[Case]:
    """Few passes and loose tolerances."""
    X, Y = views(600, np.linspace(0.9, 0.1, 30), 60, 40, np.geomspace(1, 1e-2, 60), rng)
    for passes in (3, 5, 9):
        yield Case(f"{passes} passes", X, Y, 4, options={"max_passes": passes, "form": "implicit"})
    for tol in (1e-1, 1e-2, 1e-4, 1e-8):
        yield Case(f"tolerance {tol:g}", X, Y, 4, options={"tol": tol, "form": "implicit"})


def cases(seed: int) -> Iterator[Case]:
    """All cases, each family with random numbers of its own."""
    for number, family in enumerate((correlations, kinds_of_data, ended_early)):
        yield from family(np.random.default_rng([seed, number]))


def counted(name: str, case: Case, exact: np.ndarray) -> tuple[str, Any, float]:
    """How a solver ends on a case, in one of the `KINDS`; its answer, and its error."""
    options = case.options if name in ITERATIVE else {}
    seed = {} if name in ("auto", "gram", "direct") else {"rng": 0}
    form = {"form": "implicit"} if name in ITERATIVE else {}
    try:
        found = ls.solve(ls.CCA(case.X, case.Y, case.k, **case.problem), name, **{**seed, **form, **options})
    except ls.errors.LinspecError:
        return "refused", None, np.nan
    values = np.zeros(max(case.k, len(exact)))
    values[: len(found.correlations)] = found.correlations
    gaps = np.abs(values[: len(exact)] - exact)
    error = float(gaps.max())
    if not (found.converged and found.status.name in CALLED_RIGHT):
        stopped = found.status.name in ("BUDGET", "ITERATION_LIMIT")
        return ("alarm" if not stopped and error <= RIGHT else "told"), found, error
    if error > max(WRONG, 10 * found.tol * exact.sum()):
        return "silent", found, error
    digits = re.search(r"about (\d+)", found.accuracy)
    claimed = 10.0 ** -float(digits[1]) if digits else 1.0
    return ("overstated" if error - FLOOR > 10 * claimed else "right"), found, error


@dataclass(frozen=True, kw_only=True)
class Dropped(Solver):
    """The pairs that are set."""

    pairs: ClassVar[dict[str, Any]] = {}
    held: bool = ls.option(False, "whether Gram matrices are held")

    def iterate(self, problem: Any, moments: Any, context: Any, start: Any) -> Iterator[Iterate]:
        """Yield them."""
        if self.held:
            moments.gram()
        yield Iterate(0.0, partial(dict, self.pairs), final=True)


def dropped(seed: int) -> Counter[str]:
    """How often a missing pair is seen, of 45 answers: where Gram matrices are held, and where proof is asked for."""
    rng, count = np.random.default_rng([seed, 9]), Counter[str]()
    for p, q in ((40, 30), (150, 100), (400, 260)):
        X, Y = views(1500, np.linspace(0.9, 0.3, 12), p, q, np.geomspace(1, 1e-2, p), rng)
        problem = ls.CCA(X, Y, 4)
        whole = ls.solve(ls.CCA(X, Y, 8), "direct")
        exact = float(whole.correlations[:4].sum())
        for _ in range(3):
            for drop in range(5):
                kept = [i for i in rng.permutation(8) if i != drop][:4] if drop < 4 else [0, 1, 2, 4]
                Dropped.pairs = {"x_weights": whole.x_weights[:, kept], "y_weights": whole.y_weights[:, kept]}
                for name, held, options in (("held", True, {}), ("proof", False, {"complete": True})):
                    found = ls.solve(problem, Dropped(held=held), rng=0, **options)
                    missing = exact - float(found.correlations.sum())
                    said = re.search(r"about (\S+) too small", found.message)
                    near = said is not None and abs(float(said[1]) - missing) <= 0.1 * missing
                    count[name] += found.status.name == "INCOMPLETE" and near
    return count


def main() -> int:
    """Solve every case by every solver, and count."""
    left_out = lambda name, case: bool(case.options) and name not in ITERATIVE  # noqa: E731
    report, counts, made = counted_cases(__doc__, SOLVERS, cases, counted, left_out)
    seen = dropped(report.given.seed)
    report.say(
        [
            Claim(
                f"every missing pair is seen, and how much: {where}",
                seen[key] == 45,
                f"{seen[key]} of 45",
                own=True,
            )
            for key, where in (("held", "Gram matrices held"), ("proof", "complete=True"))
        ]
    )
    return concluded(report, counts, KINDS, made, "correlations")


if __name__ == "__main__":
    sys.exit(main())
