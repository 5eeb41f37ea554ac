"""LSQR as a part of other methods: one matrix and many right-hand sides.

Problem: min ‖A x − b‖² + r ‖x‖²; at r = 0 the solution of least norm.
Method: Paige & Saunders (1982), doi:10.1145/355984.355989; `linspec.linalg.bidiagonalisation` has the formulas.
Where we differ: with a start, the matrix is [A; √r I], and there is no damping.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from linspec import LeastSquaresState, LinearOperator, Moments, Run
from linspec.arrays import Array
from linspec.linalg import LongStep, golub_kahan, lsqr, stacked
from linspec_lstsq.by_ridge import worst
from linspec_lstsq.parts.prepared_by_ridge import PartIterate
from linspec_lstsq.parts.products import entries_of, long_step, matrix_of, start_of


class PreparedLSQR(LeastSquaresState):
    """LSQR as the least-squares part of an outer method; it uses the matrix, even if the Gram matrix is held."""

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
        tol = self.tol if tol is None else tol
        start = partial(start_of, self.A, B, x0)
        return self.driven(self._iterates(B, x0, AtB), start, tol=tol, limit=self.limit)

    def _iterates(self, B: LinearOperator, x0: Array | None, AtB: Array | None) -> Iterator[PartIterate]:
        """Yield the iterates for one right-hand side."""
        A, home = self.A, self.A.home.blocks
        b = home.place(entries_of(B))
        AtB = A.rmatmat(b) if AtB is None else AtB
        scales, ridge = home.column_norms(AtB), self.ridge
        step: LongStep = partial(long_step, A)
        live = home.place((scales > 0).astype(np.float64))[None, :]  # elsewhere the answer is 0
        x, U = start_of(A, B, x0) * live, b * live
        gradient, beta = AtB, home.column_norms(U)
        if x0 is not None:
            roots = home.place(np.full((1, len(scales)), np.sqrt(ridge)))
            step, ridge = stacked(step, roots), 0.0
            U = home.xp.concat([U, 0.0 * x], axis=0)
            gradient, beta = step(-x, U, -np.ones(len(scales)))
        for (Y,), lengths in lsqr(golub_kahan(step, gradient, U, beta), (ridge,)):
            yield PartIterate(worst(lengths, scales), partial(_sum, x, Y))


def _sum(x: Array, Y: Array) -> dict[str, Array]:
    """The start and its correction."""
    return {"x": x + Y}
