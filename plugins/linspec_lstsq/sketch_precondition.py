"""Sketch, precondition, iterate, refine: least squares as accurate as by QR, in a few dozen sweeps.

Problem: min ‖A x − b‖² + r ‖x‖² for A with far more rows than columns, of any condition number; at r = 0 the
solution of least norm.
Method: a sketch S A of a few p rows has nearly the singular values of A and its right singular vectors, S A = U Σ Vᵀ.
With N = V (Σ² + r)^(−1/2) the columns of [A; √r I] N are nearly orthonormal for any A. Then the sketch alone determines
the number of LSQR iterations: each reduces the error by a factor of about √(p/d) for d rows (Rokhlin & Tygert 2008;
Blendenpik: Avron, Maymon & Toledo 2010, doi:10.1137/090767911). With the SVD, A may be rank deficient (LSRN: Meng,
Saunders & Mahoney 2014, doi:10.1137/120866580). The start is the solution of the sketched problem. LSQR on the
correction, from a newly computed residual, makes the whole method backward stable (Epperly, Meier & Nakatsukasa 2024,
arXiv:2406.03468).
Where we differ: one SVD serves all ridges, and all pairs of a right-hand side and a ridge iterate in one block. For an
ill-conditioned A a small residual shows little about x, so by default the iteration goes on beyond the tolerance until
its steps are rounding, and again after the refinement. The history ends at the tolerance. If A has no more rows than
the sketch would have, A itself is decomposed: then the start is the solution, and N is computed from A.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np

from linspec import (
    Iterate,
    IterativeSolver,
    LeastSquaresState,
    LinearOperator,
    Moments,
    Run,
    Status,
    limit_option,
    option,
    tol_option,
)
from linspec.algebra import rank_cut
from linspec.arrays import Array, HostArray, to_host
from linspec.cost import FACTOR_RATE, SPARSE_RATE, Estimate, Sizes, sweeps_estimate
from linspec_lstsq.golub_kahan import Long, RightHandSides, RightPreconditioner, Stacked, matrix_of, start_of
from linspec_lstsq.gradients import column_norms
from linspec_lstsq.lsqr import begun, lsqr, within
from linspec_lstsq.lsqr_iterate import LSQRIterate
from linspec_lstsq.sketched import Rounding, SketchedFactor, SketchedIterate, decomposed

NONZEROS = 8
"""Number of rows of the sketch to which each row is added."""

LONGEST = 200
"""Largest number of iterations after the tolerance is met; the limit holds before and again after the refinement."""

EXPECTED_SWEEPS = 60
"""Number of sweeps of a typical solve, for the estimate of costs."""


@dataclass(frozen=True, kw_only=True)
class SketchPrecondition(IterativeSolver):
    """LSQR preconditioned by a sketch (Epperly, Meier & Nakatsukasa 2024, arXiv:2406.03468)."""

    oversampling: float = option(4.0, "rows of the sketch in units of the columns", above=1)
    refinements: int = option(
        1, "times to solve for the correction once steps are rounding; 0: stop at tol", at_least=0
    )
    tol: float | None = tol_option(1e-8)
    max_iterations: int = limit_option(1000)

    kept: ClassVar = (SketchedIterate, LSQRIterate, Long, RightPreconditioner)
    resumes_after_law: ClassVar = False

    def iterates(self, problem: Any, run: Run, state: Any = None) -> Iterator[Iterate]:
        """Yield the solution of the sketched problem, iterates of LSQR from it, and iterates for the correction."""
        data = RightHandSides(problem.A, problem.B, problem.ridges)
        if state is None:
            factor, UtSB, AtB = self._factor(data, run)  # S A = U Σ Vᵀ
            A = Stacked(data, factor.preconditioner(data.ridges))  # N = V (Σ² + r)^(−1/2)
            it = _begun(A, factor.solution(UtSB, data.ridges), AtB)
            rank, norms, left, known = factor.rank, factor.column_norms, self.refinements, None
        else:
            it, rank, norms, left, known = state.lsqr, state.rank, state.column_norms, state.left, state.known
            A = Stacked(data, it.N)
        rounding = Rounding(data, norms, known)
        met: float | None = None  # the residual that met the tolerance
        while True:
            beyond = 0
            for it in lsqr(A, it, rounding.leaves):  # noqa: B020 (it continues from this iterate)
                if met is None and it.residual <= run.tol and self.refinements:
                    met = it.residual
                    yield SketchedIterate(met, it, rank, norms, left, rounding.known, shown=False)
                if met is None:
                    yield SketchedIterate(it.residual, it, rank, norms, left, rounding.known)
                elif beyond == LONGEST or not run.budget.affords(1.0):
                    break
                else:
                    beyond += 1
            if not left or not run.budget.affords(2.0):
                break
            left -= 1
            it = begun(A, it.solution(), it.scales)  # LSQR on the correction, from b − A x computed anew
        found = SketchedIterate(it.residual if met is None else met, it, rank, norms, left, rounding.known)
        found.ending = Status.STAGNATED if met is None else None
        yield found  # the history ends at the tolerance

    def _factor(self, data: RightHandSides, run: Run) -> tuple[SketchedFactor, HostArray, Array]:
        """SVD U Σ Vᵀ of the sketch S A (of A if A is no larger), UᵀS B, and AᵀB."""
        n, p = data.A.shape
        size = int(np.ceil(min(self.oversampling * p, n))) + NONZEROS
        with np.errstate(all="ignore"):  # non-finite values appear in the sums
            if n > size:
                moments = Moments(data.A, data.B, form="implicit", names=("A", "B"))
                sketch = moments.sketch(size, run.rng, nonzeros=NONZEROS, cross=True)
                (SA, SB), AtB = map(to_host, sketch), sketch.cross
            else:
                SA, SB, AtB = _whole(data)
        data.check_finite(AtB)
        cut = rank_cut((n, p), data.A.rounded_dtype)
        factor, U = decomposed(SA, data.home, cut, scaled=not data.ridges.any())
        return factor, U.T @ SB, AtB

    def prepare(self, A: LinearOperator | Moments, ridge: float, run: Run) -> PreparedSketch:
        """Prepare one sketch and its SVD for many right-hand sides."""
        return PreparedSketch(A, ridge, run, self)

    @classmethod
    def estimate(cls, sizes: Sizes) -> Estimate | None:
        """Estimated cost of a sketch, its SVD, and a few dozen sweeps."""
        if not sizes.readable or sizes.n <= 5 * sizes.p:
            return None
        rows = 4.0 * sizes.p
        sweeps = sweeps_estimate(sizes, EXPECTED_SWEEPS)
        svd = 6.0 * rows * sizes.p**2
        entries = float(sizes.n) * (sizes.p + sizes.q)  # also for sparse rows, which become dense in blocks
        seconds = 8.0 * entries / SPARSE_RATE + sweeps.seconds + svd / FACTOR_RATE
        memory = sweeps.bytes + 8.0 * (3 * rows * sizes.p + 4 * sizes.n * sizes.k)
        return Estimate(seconds, memory, f"SVD of a sketch of {rows:.0f} rows and {EXPECTED_SWEEPS} sweeps")


class PreparedSketch(LeastSquaresState):
    """One sketch for many right-hand sides."""

    def __init__(
        self, A: LinearOperator | Moments, ridge: float, run: Run, solver: SketchPrecondition
    ) -> None:
        self.A, self.ridge, self.run, self.solver = matrix_of(A), ridge, run, solver
        self.factor: SketchedFactor | None = None

    def solve(
        self,
        B: LinearOperator,
        x0: Array | None = None,
        tol: float | None = None,
        AtB: Array | None = None,
        AtAx0: Array | None = None,
    ) -> Array:
        """See `LeastSquaresState.solve`. The columns of B are formed, because LSQR needs more than AᵀB."""
        tol = tol or self.solver.tol or 1e-8
        iterates, start = self._iterates(B, x0, tol, AtB), partial(start_of, self.A, B, x0)
        return self.driven(iterates, start, tol=tol, limit=self.solver.max_iterations)

    def _iterates(
        self, B: LinearOperator, x0: Array | None, tol: float, AtB: Array | None
    ) -> Iterator[LSQRIterate]:
        """Iterates for one right-hand side; the first call makes the sketch."""
        data = RightHandSides(self.A, B, (self.ridge,))
        start = start_of(self.A, B, x0)
        if self.factor is None:
            self.factor, UtSB, found = self.solver._factor(data, self.run)
            AtB = found if AtB is None else AtB
            start = self.factor.solution(UtSB, data.ridges) if x0 is None else start
        if AtB is None:
            AtB = self.A.rmatmat(data.B)
        A = Stacked(data, self.factor.preconditioner(data.ridges))
        yield from lsqr(A, _begun(A, start, AtB), partial(within, tol))


def _whole(data: RightHandSides) -> tuple[HostArray, HostArray, Array]:
    """Entries of A and B on the host, and AᵀB."""
    A, B = data.A.rows(slice(0, data.A.shape[0])), data.B
    entries, AtB = to_host(data.home.place(A.dense())), A.rmatmat(B)
    data.A.release()
    return entries, to_host(data.home.place(B)), AtB


def _begun(A: Stacked, x0: Array, AtB: Array) -> LSQRIterate:
    """First iterate; columns whose solution is zero begin at zero."""
    data = A.data
    scales = np.tile(column_norms(AtB, data.home), len(data.ridges) // data.columns)
    there = data.home.place((scales > 0).astype(np.float64))
    return begun(A, x0 * there[None, :], scales)
