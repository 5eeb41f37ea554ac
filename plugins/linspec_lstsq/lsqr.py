"""LSQR: least squares by products with A and Aᵀ, as stable as products allow.

Problem: min ‖A x − b‖² + r ‖x‖²; at r = 0 the solution of least norm.
Method: Paige & Saunders (1982), doi:10.1145/355984.355989, with a ridge r as damping √r. In exact arithmetic
the iterates are those of conjugate gradients on the normal equations. But LSQR makes no product of AᵀA with
an iterate. So its error grows with the condition number of A, and that of conjugate gradients may grow with
the square. All right-hand sides iterate at once, and a path of ridges costs the products of one ridge
(`golub_kahan`).
Where we differ: the residual is ‖Aᵀ(b − A x) − r x‖ relative to ‖Aᵀb‖, which LSQR knows from its recurrences.
Rounding makes these drift. If the drift may exceed the tolerance, a residual that seems to meet it is
computed again, and the iteration restarts from its iterate, as long as that helps.
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
    tol_option,
)
from linspec.arrays import Array, HostArray
from linspec_lstsq.golub_kahan import LSQR, RightHandSides, matrix_of, right_hand_sides, start_of, sweeps_of
from linspec_lstsq.gradients import ROUNDING, column_norms, relative


@dataclass(frozen=True, kw_only=True)
class SimultaneousLSQR(Solver):
    """LSQR for all right-hand sides at once (Paige & Saunders 1982, doi:10.1145/355984.355989)."""

    tol: float | None = tol_option(1e-8)
    max_iterations: int = limit_option(1000)

    def solve(self, problem: Any, run: Run) -> Solution:
        """Solve a least-squares problem."""
        run.plan(setup=run.settling + (1.0 if run.start is None else 2.0), iteration=sweeps_of(problem.A))
        data = right_hand_sides(problem.A, problem.B, problem.ridges)
        iterates, scales = _begun(data, run)
        seen, met = np.inf, iterates.inverse_squares
        while True:
            residual = float(relative(iterates.gradients, scales).max(initial=0.0))
            if residual <= run.tol and _doubtful(iterates, scales, run.tol) and run.affords(data.sweeps):
                met = np.maximum(met, iterates.inverse_squares)
                iterates = LSQR(data, iterates.x())
                residual, before = float(relative(iterates.gradients, scales).max()), seen
                seen = residual
                if residual > max(run.tol, before / 2):
                    run.end(Status.STAGNATED)
            if not run.proceed(residual=residual, current=partial(_current, iterates)):
                met = np.maximum(met, iterates.inverse_squares)
                least = np.divide(1.0, met, out=np.full_like(met, np.inf), where=met > 0)
                return run.finish(x=iterates.x(), least=least)
            _advance(iterates, scales, run.tol)

    def prepare(self, A: LinearOperator | Moments, ridge: float, run: Run) -> LSQRState:
        """Prepare for many right-hand sides."""
        return LSQRState(A, ridge, run, self.max_iterations, 1e-8 if self.tol is None else self.tol)


class LSQRState(LeastSquaresState):
    """LSQR as a part. It uses the matrix itself, even if the Gram matrix is held."""

    def __init__(self, A: LinearOperator | Moments, ridge: float, run: Run, limit: int, tol: float) -> None:
        self.A, self.ridge, self.run, self.limit, self.tol = matrix_of(A), ridge, run, limit, tol

    def solve(
        self,
        B: LinearOperator,
        x0: Array | None = None,
        tol: float | None = None,
        AtB: Array | None = None,
        AtAx0: Array | None = None,
    ) -> Array:
        """See `LeastSquaresState.solve`. The columns of B are formed, because LSQR needs more than AᵀB."""
        extra = 1.0 if x0 is not None and AtB is None else 0.0
        if not self.run.affords(2 * sweeps_of(self.A) + extra):  # no step could be made
            return start_of(self.A, B, x0)
        data = right_hand_sides(self.A, B, (self.ridge,))
        tol = self.tol if tol is None else tol
        if x0 is None:
            iterates = LSQR(data)
            scales = iterates.gradients.copy()
        else:
            scales = column_norms(data.cross() if AtB is None else AtB, data.home)
            live = data.home.place((scales > 0).astype(np.float64))
            iterates = LSQR(data, data.home.place(x0) * live[None, :])
        for _ in range(self.limit):
            residual = float(relative(iterates.gradients, scales).max(initial=0.0))
            if residual <= tol or not len(iterates.live) or not self.run.affords(data.sweeps):
                break
            if not self.watched(residual, iterates.x):
                break
            _advance(iterates, scales, tol)
        return iterates.x()


def _begun(data: RightHandSides, run: Run) -> tuple[LSQR, HostArray]:
    """Iterates from zero, or from the start of the run, and ‖AᵀB‖ of every column and ridge."""
    if run.start is None:
        iterates = LSQR(data)
        return iterates, iterates.gradients.copy()  # at x = 0 they are AᵀB
    norms = column_norms(data.cross(), data.home)
    scales = np.tile(norms, len(data.ridges) // data.columns)
    live = data.home.place((scales > 0).astype(np.float64))  # where AᵀB is zero, the answer is
    return LSQR(data, data.home.place(run.start["x"]) * live[None, :]), scales


def _advance(iterates: LSQR, scales: HostArray, tol: float) -> None:
    """Remove the columns that have converged, and make a step with the others."""
    live = iterates.live
    iterates.leave(iterates.gradients[live] <= tol * scales[live])
    iterates.step()


def _doubtful(iterates: LSQR, scales: HostArray, tol: float) -> bool:
    """Whether rounding may have separated the gradients of the iterates from those of the recurrences."""
    noise = ROUNDING * float(np.finfo(iterates.data.A.dtype).eps)
    size = iterates.norm * (iterates.norm * column_norms(iterates.x(), iterates.home) + iterates.sizes)
    drift = noise * relative(size, scales)[scales > 0]
    return bool(iterates.norm > 0 and drift.max(initial=0.0) > tol / 4)


def _current(iterates: LSQR) -> dict[str, Array]:
    return {"x": iterates.x()}
