"""Matrices of moments in the forms that direct solvers and certificates need."""

from __future__ import annotations

from linspec.arrays import Array, at_home
from linspec.moments.aspect import Aspect


class Direct(Aspect):
    """Forms of the matrices of `moments` for direct solvers and certificates."""

    @at_home
    def gram_by_identity(self, index: int, product: Array) -> Array:
        """Clean a matrix XᵀX that was computed as a product with the identity, from rounding errors.

        Parameters
        ----------
        index : int
            The view X.
        product : array of shape (p, p)
            The computed product, which rounding has made slightly asymmetric.

        Returns
        -------
        array of shape (p, p)
            The mean of `product` and its transpose. Rows and columns for columns of X that are zero, or with centring
            constant, are zero: their entries in `product` are only rounding.
        """
        live = self._sweeps.varying(index, product)
        d = self._moments.diagonal()[index]
        live = live if d is None else live * self.home.xp.astype(d > 0, live.dtype)
        return (product + product.T) / 2 * live[:, None] * live[None, :]
