"""Print how `lobpcg` and `auto` end on hard canonical correlations: right, honest about failing, or wrong.

Run `python asv_bench/measure_cca_robustness.py`; `--quick` takes two seeds and fewer cases. It needs no data. Exit code
1 if a wrong answer is called right, or an exception is raised.

400 x 60 and 50 columns, five pairs, centred, twenty seeds, where the case says nothing else. Views are U R diag(s) Vᵀ
with random rotations R and V and chosen s, so canonical directions need long and short ones alike; the bases U of the
two views have chosen correlations. Truth: the rounded data, orthonormalised in extended precision (on a machine that
has it), a ridge as rows √r I below them, and the SVD of the product of the two bases.

RIGHT: the sum of the correlations is within 1e-6 of the true one, 1e-3 for float32. NEAR: within ten times that, which
is as far as a residual that estimates the loss is asked to be off. HONEST: further off, and the status says so:
not converged, ill-conditioned, pairs that may be missing, or, of views that do have full rank, a lower rank found.
SILENT: further off, and called converged. EXCEPTION: something was raised.
"""

from __future__ import annotations

import statistics
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from datasets import arguments
from least_squares_law import print_head, print_row

import linspec as ls

RHO = (0.95, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1)
TIED = (0.9, 0.8, 0.7, 0.6, 0.5, 0.5, 0.5, 0.5, 0.1)
ONES = (1.0, 1.0, 0.8, 0.6, 0.4, 0.2)
SOLVERS: dict[str, tuple[str, dict[str, Any]]] = {
    "lobpcg, Gram": ("lobpcg", {"form": "dense"}),
    "lobpcg, swept": ("lobpcg", {"form": "implicit"}),
    "lobpcg, narrow": ("lobpcg", {"form": "implicit", "oversample": 3, "max_iterations": 100}),
    "auto": ("auto", {}),
}
WORDS = ("RIGHT", "NEAR", "HONEST", "SILENT", "EXCEPTION")
ADMITTED = frozenset({ls.Status.ILL_CONDITIONED, ls.Status.INCOMPLETE, ls.Status.INACCURATE})
"""Findings that take back the claim of a residual below the tolerance."""

RIGHT = {8: 1e-6, 4: 1e-3}
"""By the bytes of a number."""

Views = tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True)
class Case:
    """Views as a function of a generator, and what is asked of them."""

    name: str
    make: Callable[[np.random.Generator], Views]
    k: int = 5
    ridge: float = 0.0
    """In units of the mean squared length of the columns of both views."""
    ranks: tuple[int, int] | None = None
    """Of the centred views, where that is not the number of columns: how many singular values are not rounding."""
    wide: bool = False
    single: bool = False


@dataclass(frozen=True)
class Outcome:
    """How one run ended."""

    verdict: str
    status: str
    error: float = np.nan
    passes: float = np.nan
    iterations: float = np.nan


# ---- data -----------------------------------------------------------------------------------------


def rotation(rng: np.random.Generator, p: int) -> np.ndarray:
    """A random orthogonal matrix."""
    return np.linalg.qr(rng.standard_normal((p, p)))[0]


def planted(
    rng: np.random.Generator,
    rho: tuple[float, ...],
    sx: np.ndarray,
    sy: np.ndarray,
    n: int = 400,
    p: int = 60,
    q: int = 50,
) -> Views:
    """Views with these correlations and singular values."""
    a, b = len(sx), len(sy)
    Q = rng.standard_normal((n, a + b))
    Q = np.linalg.qr(Q - Q.mean(axis=0))[0]
    U, V, r = Q[:, :a], Q[:, a:].copy(), np.asarray(rho[: min(a, b)])
    V[:, : len(r)] = U[:, : len(r)] * r + V[:, : len(r)] * np.sqrt(1 - r**2)
    size = np.sqrt(n)
    return (
        size * (U @ rotation(rng, a) * sx) @ rotation(rng, p)[:, :a].T,
        size * (V @ rotation(rng, b) * sy) @ rotation(rng, q)[:, :b].T,
    )


def condition(kappa: float, rho: tuple[float, ...] = RHO) -> Callable[[np.random.Generator], Views]:
    """Geometric singular values, rotated: no scaling of columns mends them."""
    return lambda rng: planted(rng, rho, np.geomspace(1, 1 / kappa, 60), np.geomspace(1, 1 / kappa, 50))


def ranked(rank: int, rho: tuple[float, ...] = RHO) -> Callable[[np.random.Generator], Views]:
    """Both views of a rank far below their columns."""
    return lambda rng: planted(rng, rho, np.geomspace(1, 0.3, rank), np.geomspace(1, 0.3, rank))


def changed(change: Callable[[np.ndarray], np.ndarray]) -> Callable[[np.random.Generator], Views]:
    """Both views of a gentle problem, changed."""

    def make(rng: np.random.Generator) -> Views:
        X, Y = condition(10)(rng)
        return change(X), change(Y)

    return make


def duplicated(A: np.ndarray) -> np.ndarray:
    """Ten columns a second time."""
    return np.hstack([A, A[:, :10]])


def with_zeros(A: np.ndarray) -> np.ndarray:
    """Columns of zeros, and one that is constant."""
    return np.insert(A, [0, 3, 7], [0.0, 0.0, 0.1], axis=1)


def in_units(A: np.ndarray) -> np.ndarray:
    """Columns in units from 1 to 1e-8."""
    return A * np.geomspace(1, 1e-8, A.shape[1])


def shifted(A: np.ndarray) -> np.ndarray:
    """Means of ten thousand deviations."""
    return A + 1e4 * A.std()


def short(rng: np.random.Generator) -> Views:
    """Fewer rows than columns."""
    return rng.standard_normal((40, 60)), rng.standard_normal((40, 50))


def fewer_than_both(rng: np.random.Generator) -> Views:
    """Fewer rows than both views have columns together, more than either has."""
    return rng.standard_normal((90, 60)), rng.standard_normal((90, 50))


def noise(rng: np.random.Generator) -> Views:
    """Nothing in common."""
    return rng.standard_normal((400, 60)), rng.standard_normal((400, 50))


def cases(*, quick: bool) -> Iterator[Case]:
    """The table."""
    for exponent in (2, 8) if quick else (2, 4, 5, 6, 7, 8, 10, 12):
        kappa = 10.0**exponent
        yield Case(f"κ = 1e{exponent}", condition(kappa))
        yield Case(f"κ = 1e{exponent}, ridge 1e-6", condition(kappa), ridge=1e-6)
    yield Case("κ = 1e8, ridge 1e-10", condition(1e8), ridge=1e-10)
    yield Case("units to 1e-8", changed(in_units))
    yield Case("duplicate columns", changed(duplicated), ranks=(60, 50))
    yield Case("duplicate columns, ridge 1e-6", changed(duplicated), ridge=1e-6)
    yield Case("zero columns", changed(with_zeros), ranks=(60, 50))
    yield Case("zero columns, ridge 1e-6", changed(with_zeros), ridge=1e-6)
    yield Case("two correlations of 1", condition(10, ONES))
    yield Case("two correlations of 1, κ = 1e4", condition(1e4, ONES))
    yield Case("gap zero at k", condition(10, TIED))
    yield Case("gap zero at k, κ = 1e4", condition(1e4, TIED))
    yield Case("k = rank", ranked(5), ranks=(5, 5))
    yield Case("k = rank, ridge 1e-6", ranked(5), ridge=1e-6)
    yield Case("k + oversampling > rank", ranked(9), ranks=(9, 9))
    yield Case("k above rank", ranked(5), k=8, ranks=(5, 5))
    yield Case("k = columns of Y", condition(10), k=50)
    yield Case("n < p", short, ranks=(39, 39))
    yield Case("n < p, ridge 1e-3", short, ridge=1e-3)
    yield Case("n < p + q", fewer_than_both)
    yield Case("nothing in common", noise)
    yield Case("means 1e4", changed(shifted))
    yield Case("float32", condition(10), single=True)
    yield Case("float32, κ = 1e2", condition(1e2), single=True)
    yield Case("float32, κ = 1e3", condition(1e3), single=True)
    yield Case("float32, κ = 1e3, ridge 1e-4", condition(1e3), ridge=1e-4, single=True)
    yield Case("float32, κ = 1e6, ridge 1e-4", condition(1e6), ridge=1e-4, single=True)
    yield Case("float32, duplicate columns", changed(duplicated), ranks=(60, 50), single=True)
    yield Case("float32, zero columns", changed(with_zeros), ranks=(60, 50), single=True)
    yield Case("float32, two correlations of 1", condition(10, ONES), single=True)
    yield Case("float32, gap zero at k", condition(10, TIED), single=True)
    yield Case("float32, k = rank", ranked(5), ranks=(5, 5), single=True)


# ---- truth ----------------------------------------------------------------------------------------


def basis(A: np.ndarray, ridge: float, rank: int | None) -> np.ndarray:
    """The rows of A of an orthonormal basis of the columns of [A; √r I], extended precision."""
    A = A.astype(np.longdouble)
    A = A - A.mean(axis=0)
    if rank is not None:
        # The columns that a pivoted factorisation takes first.
        A = A[:, independent(A, rank)]
    n, p = A.shape
    B = np.vstack([A, np.sqrt(np.longdouble(ridge)) * np.eye(p, dtype=np.longdouble)]) if ridge else A
    Q = np.zeros_like(B)
    for j in range(p):
        v = B[:, j] / np.sqrt(np.sum(B[:, j] ** 2))
        for _ in range(3):
            v = v - Q[:, :j] @ (Q[:, :j].T @ v)
            v = v / np.sqrt(v @ v)
        Q[:, j] = v
    return Q[:n]


def independent(A: np.ndarray, rank: int) -> list[int]:
    """Columns that span the range: each time the one of which most is left."""
    left, chosen = A / np.maximum(np.sqrt(np.sum(A**2, axis=0)), np.longdouble(1e-9)), []
    for _ in range(rank):
        j = int(np.argmax(np.sum(left**2, axis=0)))
        chosen.append(j)
        v = left[:, j] / np.sqrt(np.sum(left[:, j] ** 2))
        left = left - np.outer(v, v @ left)
    return chosen


def true_correlations(case: Case, X: np.ndarray, Y: np.ndarray, ridge: float) -> np.ndarray:
    """The k largest ones, or as many as there are."""
    ranks = case.ranks or (None, None)
    Qx, Qy = (basis(A, ridge, None if ridge else rank) for A, rank in zip((X, Y), ranks, strict=True))
    return np.linalg.svd((Qx.T @ Qy).astype(np.float64), compute_uv=False)[: case.k]


# ---- runs -----------------------------------------------------------------------------------------


def judge(case: Case, found: Any, truth: np.ndarray, size: int) -> Outcome:
    """What a solution is worth."""
    error = abs(found.correlations.sum() - truth.sum()) / truth.sum()
    surplus = len(found.correlations) > len(truth)
    lower = found.status is ls.Status.RANK_DEFICIENT and (
        case.ranks is None or len(found.correlations) < len(truth)
    )
    if error <= RIGHT[size] and not surplus:
        verdict = "RIGHT"
    elif not found.converged or found.status in ADMITTED or lower:
        verdict = "HONEST"
    else:
        verdict = "NEAR" if error <= 10 * RIGHT[size] and not surplus else "SILENT"
    return Outcome(verdict, found.status.name, error, found.passes, found.iterations)


def runs(case: Case, seeds: int, solvers: list[str]) -> Iterator[tuple[str, list[Outcome]]]:
    """All solvers on a case."""
    outcomes: dict[str, list[Outcome]] = {label: [] for label in solvers}
    for seed in range(seeds):
        X, Y = case.make(np.random.default_rng(seed))
        if case.single:
            X, Y = X.astype(np.float32), Y.astype(np.float32)
        ridge = case.ridge * float(np.mean([np.mean(np.sum(A.astype(float) ** 2, axis=0)) for A in (X, Y)]))
        truth = true_correlations(case, X, Y, ridge)
        for label in solvers:
            name, options = SOLVERS[label]
            try:
                found = ls.solve(ls.CCA(X, Y, case.k, ridge=ridge), name, rng=seed, **options)
            except Exception as error:  # noqa: BLE001 (what may be raised is what is being found out)
                outcomes[label].append(Outcome("EXCEPTION", f"{type(error).__name__}: {error}"))
            else:
                outcomes[label].append(judge(case, found, truth, X.dtype.itemsize))
    yield from outcomes.items()


def main() -> None:
    """Measure and print."""
    parser = arguments(main.__doc__ or "")
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--solvers", nargs="+", default=list(SOLVERS), choices=list(SOLVERS))
    parser.add_argument("--only", default="", help="cases whose name has this in it")
    given = parser.parse_args()
    warnings.simplefilter("ignore", ls.errors.ConvergenceWarning)
    warnings.simplefilter("ignore", ls.errors.AccuracyWarning)
    seeds = min(given.seeds, 2) if given.quick else given.seeds
    total: Counter[tuple[str, str]] = Counter()
    print_head("case", "solver", *WORDS, "worst error", "passes", "iterations", "statuses")
    for case in cases(quick=given.quick):
        if given.only not in case.name:
            continue
        for label, found in runs(case, seeds, given.solvers):
            count = Counter(outcome.verdict for outcome in found)
            total.update((label, outcome.verdict) for outcome in found)
            numbers = [
                np.nanmax([outcome.error for outcome in found])
                if count["EXCEPTION"] < len(found)
                else np.nan,
                statistics.median(outcome.passes for outcome in found),
                statistics.median(outcome.iterations for outcome in found),
            ]
            statuses = Counter(outcome.status for outcome in found).most_common()
            cells = [f"{numbers[0]:.1e}", *(f"{number:g}" for number in numbers[1:])]
            cells.append("; ".join(f"{text} {times}" for text, times in statuses))
            print_row([case.name, label, *(count[word] for word in WORDS), *cells])
    for label in given.solvers:
        print(f"{label}: " + ", ".join(f"{total[label, word]} {word}" for word in WORDS))
    sys.exit(any(count for (_, word), count in total.items() if word in ("SILENT", "EXCEPTION")))


if __name__ == "__main__":
    main()
