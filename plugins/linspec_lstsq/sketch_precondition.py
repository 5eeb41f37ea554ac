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
the sketch would have, A itself is decomposed: then the start is the solution, and N is that of A.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from linspec import (
    LeastSquaresState,
    LinearOperator,
    Moments,
    Run,
    Solution,
    Solver,
    Status,
    limit_option,
    option,
    tol_option,
)
from linspec.algebra import rank_cut
from linspec.arrays import Array, Home, HostArray, to_host
from linspec.cost import FACTOR_RATE, SPARSE_RATE, Estimate, Sizes, sweeps_estimate
from linspec_lstsq.golub_kahan import LSQR, Preconditioner, RightHandSides, matrix_of, start_of
from linspec_lstsq.gradients import column_norms, relative
from linspec_lstsq.row_sketch import SparseSigns, sketch_rows

NONZEROS = 8
"""Rows of the sketch to which every row is added."""

LONGEST = 200
"""The largest number of iterations beyond the tolerance, before and after a refinement."""

EXPECTED_SWEEPS, THIN = 60, 4
"""Sweeps of a typical solve, for the estimate. Products of fewer columns take as long, because they wait for memory."""


@dataclass(frozen=True, kw_only=True)
class SketchPrecondition(Solver):
    """LSQR preconditioned by a sketch (Epperly, Meier & Nakatsukasa 2024, arXiv:2406.03468)."""

    oversampling: float = option(4.0, "rows of the sketch in units of the columns", above=1)
    refinements: int = option(
        1, "times to solve for the correction once steps are rounding; 0: stop at tol", at_least=0
    )
    tol: float | None = tol_option(1e-8)
    max_iterations: int = limit_option(1000)

    def solve(self, problem: Any, run: Run) -> Solution:
        """Solve a least-squares problem."""
        run.plan(setup=run.settling + 2.0, iteration=1.0)
        data = RightHandSides(problem.A, problem.B, problem.ridges)
        factor, SB, AtB = self._factor(data, run)
        scales = np.tile(column_norms(AtB, data.home), len(problem.ridges))
        N = factor.preconditioner(data.ridges)
        iterates = LSQR(data, factor.solution(SB, data.ridges) * _live(scales, data.home), N)
        x = self._run(iterates, scales, Rounding(data, factor.column_norms), run)
        return run.finish(x=x, rank=factor.rank)

    def _factor(self, data: RightHandSides, run: Run) -> tuple[SketchedFactor, HostArray, Array]:
        """The SVD of the sketch (of A if A is no larger), the sketched right-hand sides, and AᵀB."""
        n, p = data.A.shape
        size = int(np.ceil(min(self.oversampling * p, n))) + NONZEROS
        with np.errstate(all="ignore"):  # values that are not finite show in the sums
            if n > size:
                signs = SparseSigns(n, size, NONZEROS, int(run.rng.integers(2**63)))
                SA, SB, AtB = sketch_rows(data, signs)
            else:
                SA, SB, AtB = _whole(data)
        data.check_finite(AtB)
        cut = rank_cut((n, p), data.A.rounded_dtype)
        return SketchedFactor(SA, data.home, cut, scaled=not data.ridges.any()), SB, AtB

    def _run(self, iterates: LSQR, scales: HostArray, rounding: Rounding, run: Run) -> Array:
        """Iterate to the tolerance and beyond, refine, and give x."""
        data, N, reached = iterates.data, iterates.preconditioner, False
        for left in range(self.refinements, -1, -1):
            beyond = 0
            while beyond < LONGEST:
                if not reached:
                    residual = _worst(iterates, scales)
                    if not run.proceed(residual=residual, current=partial(_current, iterates)):
                        if residual > run.tol or self.refinements == 0:
                            return iterates.x()
                        reached = True
                iterates.leave(rounding.reached(iterates))
                if not len(iterates.live) or not run.affords(1.0):
                    break
                iterates.step()
                beyond += reached
            if not left or not run.affords(2.0):
                break
            iterates = LSQR(data, iterates.x(), N)
        if not reached:
            run.end(Status.STAGNATED)
            run.proceed(residual=_worst(iterates, scales), current=partial(_current, iterates))
        return iterates.x()

    def prepare(self, A: LinearOperator | Moments, ridge: float, run: Run) -> SketchedState:
        """Sketch and decompose once for many right-hand sides."""
        return SketchedState(A, ridge, run, self)

    @classmethod
    def estimate(cls, sizes: Sizes) -> Estimate | None:
        """The estimate for a sketch, its SVD, and a few dozen sweeps."""
        if not sizes.readable or sizes.n <= 5 * sizes.p:
            return None
        rows = 4.0 * sizes.p
        sweeps = sweeps_estimate(sizes, EXPECTED_SWEEPS)
        svd = 6.0 * rows * sizes.p**2
        entries = float(sizes.n) * (sizes.p + sizes.q)  # of sparse rows, too: they are made dense in blocks
        seconds = 8.0 * entries / SPARSE_RATE + sweeps.seconds + svd / FACTOR_RATE
        memory = sweeps.bytes + 8.0 * (3 * rows * sizes.p + 3 * sizes.n * sizes.k)
        return Estimate(seconds, memory, f"SVD of a sketch of {rows:.0f} rows and {EXPECTED_SWEEPS} sweeps")


class SketchedFactor:
    """The SVD of a sketch, and the preconditioner that it gives for a ridge.

    Parameters
    ----------
    SA : numpy.ndarray of shape (d, p)
    home : Home
        The place of blocks.
    cut : float
        Singular values below this fraction of the largest count as zero.
    scaled : bool
        Decompose with columns of unit length. If these have full rank, the solution is the same, and the rank is more
        reliable. If they have not, the columns keep their lengths: the least norm is that of the unscaled variables.

    Attributes
    ----------
    rank : int
    column_norms : array of shape (p,)
        The approximate column norms of A.
    """

    def __init__(self, SA: HostArray, home: Home, cut: float, *, scaled: bool) -> None:
        p = SA.shape[1]
        norms = np.linalg.norm(SA, axis=0)
        d = np.where(norms > 0, norms, 1.0) if scaled else np.ones(p)
        U, s, Vt = np.linalg.svd(SA / d, full_matrices=False)
        self.rank = int(np.sum(s > cut * s[0]))
        if scaled and self.rank < p:
            d = np.ones(p)
            U, s, Vt = np.linalg.svd(SA, full_matrices=False)
            self.rank = min(self.rank, int(np.sum(s > 0)))
        self.home, self._U, self._s = home, U, s
        self.column_norms = home.place(norms)
        self._Q, self._scale = home.place(Vt.T), home.place(1.0 / d)

    def lengths(self, ridges: HostArray) -> HostArray:
        """1/√(σ² + r) for every direction and ridge; 0 instead of a division by rounding."""
        kept = np.arange(len(self._s))[:, None] < self.rank
        squares = self._s[:, None] ** 2 + ridges
        keep = (kept | (ridges > 0)) & (squares > 0)
        lengths: HostArray = np.divide(1.0, np.sqrt(squares), out=np.zeros_like(squares), where=keep)
        return lengths

    def preconditioner(self, ridges: HostArray) -> Preconditioner:
        """N for columns with these ridges."""
        return Preconditioner(self._Q, self.lengths(ridges), self._scale, self.home)

    def solution(self, SB: HostArray, ridges: HostArray) -> Array:
        """The solution of the sketched problem for right-hand sides repeated ridge by ridge."""
        parts = np.tile(self._U.T @ SB, (1, len(ridges) // SB.shape[1]))
        y = self._s[:, None] * self.lengths(ridges) ** 2 * parts
        return self._scale[:, None] * (self._Q @ self.home.place(y))


class Rounding:
    """Detects that steps have become rounding.

    A backward-stable method may solve for data with an error of one unit of rounding: b relative to its length, and
    column j of A relative to its own length. The error of A x is then that of the columns times the entries of x. A
    step that changes A x by less than an eighth of this error is the last.
    """

    def __init__(self, data: RightHandSides, norms: Array) -> None:
        self._norms, self._home = norms[:, None], data.home
        sizes = np.sqrt(to_host(data.squares(data.B)))
        self._least = np.tile(sizes, len(data.ridges) // data.columns)
        self._unit = float(np.finfo(data.A.dtype).eps) / 8
        self._known = np.full(len(data.ridges), np.inf)

    def reached(self, iterates: LSQR) -> HostArray:
        """Whether the last step of every live pair was rounding."""
        live = iterates.live
        if (
            iterates.steps[live] <= self._known[live]
        ).any():  # x changes: compute its error again before deciding
            sizes = column_norms(self._norms * iterates.x(), self._home)
            self._known = self._unit * np.maximum(sizes, self._least)
        reached: HostArray = iterates.steps[live] <= self._known[live]
        return reached


class SketchedState(LeastSquaresState):
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
        """See `LeastSquaresState.solve`; B is multiplied out, because LSQR needs more than AᵀB."""
        unknown = self.factor is None or AtB is None
        if not self.run.affords(3.0 if unknown else 2.0):  # no step could be made
            return start_of(self.A, B, x0)
        data = RightHandSides(self.A, B, (self.ridge,))
        start = start_of(self.A, B, x0)
        if self.factor is None:
            self.factor, SB, found = self.solver._factor(data, self.run)
            AtB = found if AtB is None else AtB
            start = self.factor.solution(SB, data.ridges) if x0 is None else start
        if AtB is None:
            AtB = self.A.rmatmat(data.B)
        scales = column_norms(AtB, data.home)
        tol = tol or self.solver.tol or 1e-8
        iterates = LSQR(data, start * _live(scales, data.home), self.factor.preconditioner(data.ridges))
        for _ in range(self.solver.max_iterations):
            live = iterates.live
            iterates.leave(iterates.gradients[live] <= tol * scales[live])
            if not len(iterates.live) or not self.run.affords(1.0):
                break
            if not self.watched(_worst(iterates, scales), iterates.x):
                break
            iterates.step()
        return iterates.x()


def _whole(data: RightHandSides) -> tuple[HostArray, HostArray, Array]:
    """A and B themselves, on the host, and AᵀB."""
    A, B = data.A.rows(slice(0, data.A.shape[0])), data.B
    entries, AtB = to_host(data.home.place(A.dense())), A.rmatmat(B)
    data.A.release()
    return entries, to_host(data.home.place(B)), AtB


def _live(scales: HostArray, home: Home) -> Array:
    """1 for columns with a nonzero solution, 0 for columns whose solution is zero."""
    return home.place((scales > 0).astype(np.float64))[None, :]


def _worst(iterates: LSQR, scales: HostArray) -> float:
    return float(relative(iterates.gradients, scales).max(initial=0.0))


def _current(iterates: LSQR) -> dict[str, Array]:
    return {"x": iterates.x()}
