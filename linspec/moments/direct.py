"""Matrices of moments in the forms that direct solvers and certificates need."""

from __future__ import annotations

from linspec.arrays import Array, at_home
from linspec.moments.aspect import Aspect, one_at_a_time
from linspec.moments.row_reduction import ReducedRows, reduced
from linspec.process.log import timed
from linspec.sweeps.held_grams import ReducedGram


class Direct(Aspect):
    """Forms of the matrices of `moments` for direct solvers and certificates."""

    @one_at_a_time
    def reduced_rows(self, ridges: tuple[float, ...], *, hold: bool = False) -> list[Array]:
        """Reduce the data to a few rows with the same inner products of columns, in one sweep.

        The rows are reduced by orthogonal transformations.

        Parameters
        ----------
        ridges : tuple of float
            One ridge for each view; the rows of √ridge times the identity are appended.
        hold : bool, default False
            Whether the moments keep the reduced rows, without ridges, so that later products cost no sweep.
        """
        moments = self._moments
        if moments._gram is not None and moments._gram.rows is not None:
            widths = [rows.shape[1] for rows in moments._gram.rows]
            rows = ReducedRows(self.home.concat(moments._gram.rows), widths, None, self.home)
            return rows.with_ridges(ridges)
        with timed("sweep of %s for its triangle", self._sweeps.names):
            found = reduced(self._views)
        if hold:
            moments._gram, moments._form = ReducedGram(found.with_ridges()), "dense"
        return found.with_ridges(ridges)

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
