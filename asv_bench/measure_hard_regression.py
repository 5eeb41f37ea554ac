"""Print how every least-squares solver ends on hard problems: right, honest about failing, or wrong.

Run `python asv_bench/measure_hard_regression.py`; `--quick` takes fewer columns. It needs no data. Exit code 1 if any
solver is wrong.

Matrices are U diag(s) Vᵀ with chosen s, right-hand sides A x* + e with e orthogonal to U and a known x*. κ is the
condition number on the range, a ridge included. The residual, max over columns of ‖Aᵀ(b − A x) − r x‖ / ‖Aᵀb‖, is
recomputed in extended precision. The error is ‖x − x*‖ / ‖x*‖.

RIGHT: the error is within what a backward stable method may have on this data type, 100 √p eps (κ + κ² ρ) with
ρ = ‖e‖ / (‖A‖ ‖x*‖) and κ after the columns are scaled to unit length where the case is one of scaling (Golub & Van
Loan 2013, section 5.3.7; van der Sluis 1969). Or the solver claims convergence, the residual bears it out, and the
error is at most 1 % and within tol ‖Aᵀb‖ / (σ_min² + r), the largest that the tolerance allows.
LOOSE: the same with an error of more than 1 %: the tolerance does not determine x on this problem.
HONEST: the answer is off, and the status says so: not converged, ill-conditioned, approximate, or an error raised.
WRONG: it claims convergence, and the recomputed residual is above the tolerance, or the error is larger than the
tolerance allows: a part of x outside the range of Aᵀ, say, where the least norm is asked for.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from datasets import arguments
from least_squares_law import print_head, print_row

import linspec as ls

ADMITTED = frozenset({ls.Status.ILL_CONDITIONED, ls.Status.APPROXIMATE})
"""Findings that take back the claim of a residual below the tolerance."""

MARGIN = 2.0
"""By how much a recomputed figure may pass a bound: norms of columns and of blocks differ a little."""

DETERMINED = 1e-2
"""A larger error than this is not what one expects of a converged run."""


@dataclass(frozen=True)
class Case:
    """A problem and its exact answer."""

    name: str
    A: np.ndarray
    B: np.ndarray
    x: np.ndarray
    ridge: float
    least: float
    """σ_min² + ridge over the range of Aᵀ."""
    condition: float
    deficient: bool = False

    @property
    def eps(self) -> float:
        return float(np.finfo(self.A.dtype).eps)

    @property
    def stable(self) -> float:
        """The forward error that a backward stable method may have."""
        A, B = self.A.astype(np.float64), self.B.astype(np.float64)
        rest = np.linalg.norm(B - A @ self.x, axis=0) / (
            np.linalg.norm(A, 2) * np.linalg.norm(self.x, axis=0)
        )
        growth = self.condition + self.condition**2 * float(rest.max())
        return float(100 * np.sqrt(A.shape[1]) * self.eps * growth)

    def allowed(self, residual: float) -> float:
        """The largest forward error that a residual leaves to an x in the range of Aᵀ."""
        A, B = self.A.astype(np.float64), self.B.astype(np.float64)
        sizes = np.linalg.norm(A.T @ B, axis=0) / np.linalg.norm(self.x, axis=0)
        return float(residual * sizes.max() / self.least)


@dataclass(frozen=True)
class Row:
    """How one solver ended on one case."""

    verdict: str
    status: str
    residual: float = np.nan
    error: float = np.nan
    passes: float = np.nan


def main() -> None:
    """Measure, print and judge."""
    parser = arguments(main.__doc__ or "")
    parser.add_argument("--solvers", nargs="+", help="all of them, and auto, by default")
    parser.add_argument("--max-seconds", type=float, default=1.0, help="wall time of one solve")
    given = parser.parse_args()
    warnings.simplefilter("ignore")  # the table has a column for what did not converge
    counts: dict[str, int] = {}
    print_head(
        "case",
        "solver",
        "verdict",
        "status",
        "residual",
        "error",
        "stable methods",
        "tol allows",
        "passes",
        "seconds",
    )
    for case in cases(given):
        for name in given.solvers or ("auto", *ls.solvers("least-squares")):
            begin = time.perf_counter()
            row = judged(case, name, given.max_seconds)
            seconds = time.perf_counter() - begin
            counts[row.verdict] = counts.get(row.verdict, 0) + 1
            bounds = (f"{case.stable:.1e}", f"{case.allowed(tolerance(case)):.1e}")
            figures = (f"{row.residual:.1e}", f"{row.error:.1e}", *bounds, f"{row.passes:g}")
            print_row((case.name, name, row.verdict, row.status, *figures, f"{seconds:.3f}"))
    print("\n" + ", ".join(f"{verdict} {count}" for verdict, count in sorted(counts.items())))
    sys.exit(1 if counts.get("WRONG") else 0)


# ---- judging ------------------------------------------------------------------------------------------------


def judged(case: Case, name: str, seconds: float) -> Row:
    """Run a solver and hold its claim against the truth."""
    try:
        problem = ls.LeastSquares(case.A, case.B, ridge=case.ridge)
        s = ls.solve(problem, name, rng=0, max_seconds=seconds)
    except ls.errors.LinspecError as error:
        return Row("HONEST", f"{type(error).__name__} raised")
    x = np.asarray(s.x, dtype=np.float64)
    scale = np.linalg.norm(case.x, axis=0)
    error = float((np.linalg.norm(x - case.x, axis=0) / scale).max()) if np.isfinite(x).all() else np.inf
    gap = law(case, x)
    return Row(verdict(case, s, gap, error), s.status.name, gap, error, s.passes)


def verdict(case: Case, s: Any, gap: float, error: float) -> str:
    """See the head of this file."""
    if error <= case.stable:
        return "RIGHT"
    doubtful = s.status in ADMITTED or (s.status is ls.Status.RANK_DEFICIENT and not case.deficient)
    if not s.converged or doubtful:
        return "HONEST"
    claimed = tolerance(case) + rounding(case)
    if gap > MARGIN * claimed or error > MARGIN * case.allowed(claimed) + case.stable:
        return "WRONG"
    return "RIGHT" if error <= DETERMINED else "LOOSE"


def law(case: Case, x: np.ndarray) -> float:
    """The residual in extended precision."""
    A, B, x = (M.astype(np.longdouble) for M in (case.A, case.B, x))
    gradient = np.linalg.norm((A.T @ (B - A @ x) - case.ridge * x).astype(np.float64), axis=0)
    scale = np.linalg.norm((A.T @ B).astype(np.float64), axis=0)
    return float((gradient / scale).max())


def tolerance(case: Case) -> float:
    """The default: 1e-8, and 100 eps for float32."""
    return max(1e-8, 100 * case.eps) if case.A.dtype == np.float32 else 1e-8


def rounding(case: Case) -> float:
    """What rounding x* itself to the data type does to the residual."""
    A, B = case.A.astype(np.float64), case.B.astype(np.float64)
    moved = np.linalg.norm(np.abs(A.T) @ (np.abs(A) @ np.abs(case.x)), axis=0)
    return float(case.eps * (moved / np.linalg.norm(A.T @ B, axis=0)).max())


# ---- cases --------------------------------------------------------------------------------------------------


def cases(given: argparse.Namespace) -> Iterator[Case]:
    """All problems; the float32 ones are rounded first and solved exactly afterwards."""
    n, p = (120, 16) if given.quick else (400, 60)
    wide = (40, 400) if given.quick else (200, 5000)
    rng = np.random.default_rng(0)
    gentle, scaled, doubled, empty = (
        make(rng, n, p) for make in (mild, badly_scaled, duplicated, zero_column)
    )
    yield gentle
    yield scaled
    yield planted(rng, n, p, spectrum(p, 1e8), "κ = 1e8, rotated")
    yield planted(rng, n, p, spectrum(p, 1e12), "κ = 1e12, rotated")
    yield planted(rng, n, p, spectrum(p, 1e8), "κ = 1e8, rotated, ridge", ridge=1e-10)
    yield planted(rng, n, p, spectrum(2 * p // 3, 10.0), "rank-deficient")
    yield planted(rng, *wide, spectrum(wide[0], 10.0), "wide")
    yield planted(rng, *wide, spectrum(wide[0], 10.0), "wide, ridge", ridge=1e-2)
    yield doubled
    yield empty
    for case in (gentle, scaled, doubled, empty):
        yield in_single(case)
    yield in_single(planted(rng, *wide, spectrum(wide[0], 10.0), "wide, ridge", ridge=1e-2))


def spectrum(count: int, condition: float) -> np.ndarray:
    """Singular values from 1 down, evenly in the logarithm."""
    return np.logspace(0, -np.log10(condition), count)


def orthonormal(rng: np.random.Generator, n: int, k: int) -> np.ndarray:
    return np.linalg.qr(rng.standard_normal((n, k)))[0]


def planted(
    rng: np.random.Generator, n: int, p: int, s: np.ndarray, name: str, ridge: float = 0.0, columns: int = 2
) -> Case:
    """U diag(s) Vᵀ, and right-hand sides that are off by a share 1/κ, so that x* can be known to κ eps."""
    U, V = orthonormal(rng, n, len(s)), orthonormal(rng, p, len(s))
    c = rng.standard_normal((len(s), columns))
    noise = rng.standard_normal((n, columns))
    noise -= U @ (U.T @ noise)
    image = U @ (s[:, None] * c)
    share = s[-1] / s[0] * np.linalg.norm(image) / max(np.linalg.norm(noise), 1e-300) if len(s) < n else 0.0
    A, B = (U * s) @ V.T, image + share * noise
    x = V @ ((s**2 / (s**2 + ridge))[:, None] * c)
    least = s[-1] ** 2 + ridge
    condition = float(np.sqrt((s[0] ** 2 + ridge) / least))
    return Case(name, A, B, x, ridge, least, condition, deficient=len(s) < min(n, p))


def mild(rng: np.random.Generator, n: int, p: int) -> Case:
    return planted(rng, n, p, spectrum(p, 10.0), "κ = 10")


def badly_scaled(rng: np.random.Generator, n: int, p: int, condition: float = 1e8) -> Case:
    """Columns of lengths from 1 to 1e-8, and coefficients that make all of them count alike."""
    case = mild(rng, n, p)
    d = np.logspace(0, -np.log10(condition), p)[rng.permutation(p)]
    A = case.A * d
    least = float(np.linalg.svd(A, compute_uv=False)[-1]) ** 2
    return Case("κ = 1e8, columns", A, case.B, case.x / d[:, None], 0.0, least, case.condition)


def duplicated(rng: np.random.Generator, n: int, p: int) -> Case:
    """Every column twice: the coefficients of least norm share evenly."""
    case = mild(rng, n, p // 2)
    A, x = np.hstack([case.A, case.A]), np.vstack([case.x, case.x]) / 2
    return Case("duplicate columns", A, case.B, x, 0.0, 2 * case.least, case.condition, deficient=True)


def zero_column(rng: np.random.Generator, n: int, p: int) -> Case:
    """A column of zeros, whose coefficient of least norm is 0."""
    case = mild(rng, n, p - 1)
    A, x = np.insert(case.A, 3, 0.0, axis=1), np.insert(case.x, 3, 0.0, axis=0)
    return Case("zero column", A, case.B, x, 0.0, case.least, case.condition, deficient=True)


def in_single(case: Case) -> Case:
    """The case rounded to float32, and the exact answer of what came out."""
    A, B = case.A.astype(np.float32), case.B.astype(np.float32)
    d = np.linalg.norm(A.astype(np.float64), axis=0) if "columns" in case.name and not case.deficient else 1.0
    U, s, Vt = np.linalg.svd(A.astype(np.float64) / d, full_matrices=False)
    keep = s > 1e-6 * s[0]
    U, s, Vt = U[:, keep], s[keep], Vt[keep]
    x = (Vt.T @ ((s / (s**2 + case.ridge))[:, None] * (U.T @ B))) / np.reshape(d, (-1, 1))
    return Case(f"{case.name}, float32", A, B, x, case.ridge, case.least, case.condition, case.deficient)


if __name__ == "__main__":
    main()
