"""A factor of the Gram matrix as a part of other methods."""

from __future__ import annotations

import numpy as np

from linspec import LeastSquaresState, LinearOperator, Moments, Run
from linspec.algebra import whitening
from linspec.arrays import Array, to_host
from linspec_lstsq.factors import factorised
from linspec_lstsq.parts.products import cross_product, start_of


class PreparedFactor(LeastSquaresState):
    """A factorisation of the Gram matrix, applied to each right-hand side."""

    def __init__(self, A: LinearOperator | Moments, ridge: float, run: Run) -> None:
        self.A, self.run = A, run
        moments = A if isinstance(A, Moments) else Moments(A, form="dense")
        self.home, self.X = moments.home, moments.X
        S = moments.dense()[0]
        self.apply = factorised(S, ridge)
        if self.apply is None:
            M = to_host(S).copy()
            M[np.diag_indices_from(M)] += ridge
            T = self.home.place(whitening(M))
            self.apply = lambda rhs: T @ (T.T @ rhs)

    def solve(
        self,
        B: LinearOperator,
        x0: Array | None = None,
        tol: float | None = None,
        AtB: Array | None = None,
        AtAx0: Array | None = None,
    ) -> Array:
        """See `LeastSquaresState.solve`. `tol` is not used; `x0` is returned if the budget allows no sweep for AᵀB."""
        if AtB is None:
            if not self.run.budget.affords(2.0 if self.X.access == "products" else 1.0):
                return start_of(self.X, B, x0)
            AtB = cross_product(self.A, B)
        assert self.apply is not None  # noqa: S101 (one of the two ways above has been found)
        return self.apply(AtB)
