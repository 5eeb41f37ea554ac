"""Column means and sums of squares about them, gathered over blocks of rows.

Method: each block is summed about its own mean and merged into the sums of the earlier blocks (Chan, Golub & LeVeque
1983, doi:10.1080/00031305.1983.10483115). So no digits cancel if means are large compared with the spread. Sparse
blocks are summed over their stored entries, about zero. If digits cancel there, the entries are summed again about
the mean found first, and the zeros that are not stored are added.
Where we differ: the very first row is subtracted before any sum. Then a constant column has a spread of exactly zero,
however its value is rounded. Without this step its spread would be rounding noise, which a later division would
amplify. Also, the running means are small, so merging many blocks loses no digits. Rows may have weights, and the
products of the columns with a basis of confounds are gathered about the same row.
"""

from __future__ import annotations

import numpy as np

from linspec.arrays import Array, Home, to_host
from linspec.operators import (
    CenteredOperator,
    ColumnScaledOperator,
    CupySparseOperator,
    DenseOperator,
    LinearOperator,
    SparseOperator,
)
from linspec.operators.row_blocks import RowBuffer, row_blocks

CANCELLED, REPEATS = 1e-2, 3
"""Bounds for sums of squares of sparse columns, which are formed about zero at first.

If less than the fraction CANCELLED of the sum of squares is left when the mean is subtracted, digits have cancelled.
Then the squares are summed again about the mean found so far, at most REPEATS times. The second sum is accurate to
rounding; the third reveals constant columns.
"""


class ColumnStatistics:
    """Running column means and sums of squares about them, float64 at `home`.

    Attributes
    ----------
    count : float
        The number of rows added so far, or the sum of their weights.
    spread : array of shape (p,) or None
        Sums of squares about the column means; None before the first row.
    """

    def __init__(self, home: Home) -> None:
        self.home = home
        self.count: float = 0
        self.spread: Array = None
        self._origin: Array = None
        self._mean: Array = None
        self._buffer = RowBuffer()
        self._beside: Array = None  # Σ w (x − origin) bᵀ, and Σ w bᵀ
        self._sums: Array = None

    @property
    def mean(self) -> Array:
        """Column means; None before the first row."""
        return None if self._mean is None else self._origin + self._mean

    def beside(self, point: Array | None, *, center: bool) -> Array | None:
        """The product (A − 1 pointᵀ)ᵀD²B of shape (p, r) for the basis B that was passed to `add`.

        Parameters
        ----------
        point : array of shape (p,) or None
            None: nothing is subtracted from A.
        center : bool
            Whether the column means are subtracted instead of `point`.

        Returns
        -------
        array of shape (p, r), or None
            None if no basis was passed to `add`.
        """
        if self._beside is None or center:  # B is orthogonal to the constant then
            return self._beside
        step = self._origin if point is None else self._origin - point
        return self._beside + step[:, None] * self._sums[None, :]

    def add(self, block: LinearOperator, weights: Array | None = None, basis: Array | None = None) -> None:
        """Add the rows of a block to the statistics; the entries of the block must be readable.

        Parameters
        ----------
        block : LinearOperator
            n rows.
        weights : array of shape (n,), optional
            How often each row counts; by default once.
        basis : array of shape (n, r), optional
            The rows of B, the basis of the confounds (`RowModel.basis`), for the product that `beside` returns. By
            default there are no confounds.
        """
        bare, offset = without_offset(block)
        if offset is not None:
            self._add_changed(bare, 1.0, offset, weights, basis)
        elif isinstance(block, SparseOperator | CupySparseOperator):
            self._add_sparse(block, weights, basis)
        elif isinstance(block, ColumnScaledOperator):
            self._add_changed(block.parts[0], block.scale, 0.0, weights, basis)
        else:
            # A few rows at a time: their intermediate results stay in the cache, and a sparse slab stays
            # sparse.
            row_bytes = (4 if self.home.on_host else 1) * 8 * block.shape[1]
            for rows in row_blocks(block.shape[0], row_bytes, self.home):
                part = block if rows.stop - rows.start == block.shape[0] else block.rows(rows)
                some = [None if array is None else array[rows, ...] for array in (weights, basis)]
                self._add_entries(part.stored(), *some)

    def _add_entries(self, entries: Array, weights: Array | None, basis: Array | None) -> None:
        home = self.home
        if self._origin is None:
            self._origin = home.place(entries[:1, :])[0, :] + 0.0  # a copy
        rest = self._buffer.less(entries, self._origin, np.dtype(np.float64), home)
        rest, mean = without_mean(rest, home, weights)
        squares = home.column_squares(rest if weights is None else rest * home.xp.sqrt(weights)[:, None])
        if basis is not None:
            B = weighted(basis, weights)
            sums = home.column_sums(B)
            self._add_beside(rest.T @ B + mean[:, None] * sums[None, :], sums)
        self._merge(counted(entries.shape[0], weights, home), mean, squares)

    def _add_sparse(
        self, block: SparseOperator | CupySparseOperator, weights: Array | None, basis: Array | None
    ) -> None:
        """Add sparse rows by sums over stored entries, repeated about provisional means if means are large."""
        xp, count = self.home.xp, counted(block.shape[0], weights, self.home)
        n = count or 1
        total, square = block.column_statistics(weights)
        point, rest = total / n, 0.0 * total
        spread = square - total * point
        for _ in range(REPEATS):
            if to_host(xp.all(spread >= CANCELLED * square)):
                break
            point = point + rest
            gap, square = block.column_deviations(point, weights)
            rest = gap / n
            spread = square - gap * rest
        # The mean is kept as a point and a remainder, because their sum would be rounded. A column is
        # constant if the difference is below its rounding.
        self._origin = point if self._origin is None else self._origin
        mean = (point - self._origin) + rest
        if basis is not None:
            B = weighted(basis, weights)
            sums = self.home.column_sums(B)
            self._add_beside(block.about(point, B) + (point - self._origin)[:, None] * sums[None, :], sums)
        self._merge(count, mean, xp.where(spread > 1e-12 * square, spread, 0.0 * spread))

    def _add_changed(
        self, block: LinearOperator, factor: Array, offset: Array, weights: Array | None, basis: Array | None
    ) -> None:
        """Add the rows of a block, times a factor for each column, minus an offset."""
        inner = ColumnStatistics(self.home)
        inner.add(block, weights, basis)
        if inner._origin is not None:
            factor = factor + 0.0 * inner._origin
            inner._origin, inner._mean = inner._origin * factor - offset, inner._mean * factor
            inner.spread = inner.spread * factor**2
            inner._beside = None if inner._beside is None else inner._beside * factor[:, None]
            self.absorb(inner)

    def _add_beside(self, product: Array, sums: Array) -> None:
        if self._beside is None:
            self._beside, self._sums = 0.0 * product, 0.0 * sums
        self._beside, self._sums = self._beside + product, self._sums + sums

    def _merge(self, count: float, mean: Array, spread: Array) -> None:
        if count == 0 and self._mean is not None:
            return
        if self.count == 0:
            self.count, self._mean, self.spread = count, mean, spread
            return
        step = mean - self._mean
        weight, share = merged(self.count, count)
        self.spread = self.spread + spread + self.home.column_squares(step[None, :]) * weight
        self._mean = self._mean + step * share
        self.count += count

    def absorb(self, other: ColumnStatistics) -> None:
        """Merge the statistics of another instance into this one."""
        if other._origin is None:
            return
        self._origin = other._origin if self._origin is None else self._origin
        step = other._origin - self._origin
        if other._beside is not None:
            self._add_beside(other._beside + step[:, None] * other._sums[None, :], other._sums)
        self._merge(other.count, step + other._mean, other.spread)

    def squares_about(self, point: Array | None) -> Array:
        """Sums of squares of the columns about `point` of shape (p,), or about zero for None."""
        gap = self.mean if point is None else (self._origin - point) + self._mean
        return self.spread + self.count * self.home.column_squares(gap[None, :])


def merged(count: float, more: float) -> tuple[float, float]:
    """Coefficients that merge the moments about means of two sets of rows.

    For second moments S₁, S₂ about the means m₁, m₂ of the two sets, and d = m₂ − m₁,

        the moment of all rows about their mean  =  S₁ + S₂ + weight · d dᵀ,
        the mean of all rows  =  m₁ + share · d.

    Parameters
    ----------
    count, more : float
        The number of rows of each set, or the sum of their weights.

    Returns
    -------
    weight, share : float
        As in Chan, Golub & LeVeque (1983, doi:10.1080/00031305.1983.10483115): no large numbers are subtracted from
        each other.
    """
    share = more / ((count + more) or 1.0)
    return count * share, share


def counted(n: int, weights: Array | None, home: Home) -> float:
    """The total count of n rows: their number, or the sum of their weights."""
    return n if weights is None else float(to_host(home.xp.sum(weights)))


def weighted(columns: Array, weights: Array | None) -> Array:
    """Multiply each row of an n x k array by its weight, if there are weights."""
    return columns if weights is None else columns * weights[:, None]


def without_offset(A: LinearOperator) -> tuple[LinearOperator, Array | None]:
    """Split a centred operator into the operator without centring and the row that it subtracts (or None)."""
    if isinstance(A, CenteredOperator):
        inner, offset = without_offset(A.parts[0])
        return inner, A.mean if offset is None else A.mean + offset
    if isinstance(A, DenseOperator) and A.mean is not None:
        return A.bare, A.mean
    return A, None


def without_mean(rows: Array, home: Home, weights: Array | None = None) -> tuple[Array, Array]:
    """Subtract the (weighted) mean row from each row, in place; return rows and mean (0 if all weights are 0)."""
    count = counted(rows.shape[0], weights, home) or 1.0
    mean = (home.column_sums(rows) if weights is None else weights @ rows) / count
    rows -= mean[None, :]
    return rows, mean


def block_mean(block: LinearOperator, home: Home, weights: Array | None = None) -> Array:
    """(Weighted) column means of a block, rounded to its working dtype: sums about this point lose no digits."""
    if weights is None:
        ones = block.home.ones((block.shape[0], 1), block.dtype)
    else:
        ones = block.home.place(weights[:, None], block.dtype)
    total = home.place(block.rmatmat(ones))[:, 0]
    return total / (counted(block.shape[0], weights, home) or 1.0)
