"""Column means and sums of squares about them, gathered over blocks of rows.

Method: each block is summed about its own mean and merged into the rest (Chan, Golub & LeVeque 1983,
doi:10.1080/00031305.1983.10483115). So nothing cancels if means are large compared with their spread. Sparse
blocks are summed over their stored entries, about zero. If that cancels, they are summed again about the mean
found first, and the zeros that are not stored are added.
Where we differ: the very first row is subtracted before any sum. Then a constant column has a spread of
exactly zero, however its value is rounded. Otherwise its spread would be noise, and a later division would
amplify it. Also, the running means are small, so merging many blocks loses no digits.
"""

from __future__ import annotations

import numpy as np

from linspec.arrays import Array, Home
from linspec.operators import (
    CenteredOperator,
    ColumnScaledOperator,
    DenseOperator,
    LinearOperator,
    ScaledOperator,
    SparseOperator,
    sparse_kernels,
)
from linspec.operators.row_blocks import RowBuffer, row_blocks

CANCELLED, REPEATS = 1e-2, 3
"""The fraction of a sum of squares that must remain when the mean is subtracted afterwards, and how often the
sum is formed again about a better point. The second sum is accurate to rounding; the third shows constant
columns."""


class ColumnStatistics:
    """Running column means and sums of squares about them, float64 at `home`.

    Attributes
    ----------
    count : int
        Rows added so far.
    spread : array of shape (p,) or None
        Sums of squares about the column means; None before the first row.
    """

    def __init__(self, home: Home) -> None:
        self.home = home
        self.count = 0
        self.spread: Array = None
        self._origin: Array = None
        self._mean: Array = None
        self._buffer = RowBuffer()

    @property
    def mean(self) -> Array:
        """Column means; None before the first row."""
        return None if self._mean is None else self._origin + self._mean

    def add(self, block: LinearOperator) -> None:
        """Add the rows of an operator whose entries can be read."""
        bare, offset = without_offset(block)
        if offset is not None:
            self._add_changed(bare, 1.0, offset)
        elif isinstance(block, SparseOperator):
            self._add_sparse(block)
        elif isinstance(block, ScaledOperator):
            self._add_changed(block.parts[0], block.factor, 0.0)
        elif isinstance(block, ColumnScaledOperator):
            self._add_changed(block.parts[0], block.scale, 0.0)
        else:
            # A few rows at a time: their intermediate results stay in the cache, and a sparse slab stays
            # sparse.
            row_bytes = (4 if self.home.on_host else 1) * 8 * block.shape[1]
            for rows in row_blocks(block.shape[0], row_bytes, self.home):
                part = block if rows.stop - rows.start == block.shape[0] else block.rows(rows)
                self._add_entries(part.array if isinstance(part, DenseOperator) else part.dense())

    def _add_entries(self, entries: Array) -> None:
        home = self.home
        if self._origin is None:
            self._origin = home.place(entries[:1, :])[0, :] + 0.0  # a copy
        rest, mean = without_mean(self._buffer.less(entries, self._origin, np.dtype(np.float64), home), home)
        squares = np.einsum("ij,ij->j", rest, rest) if home.on_host else home.xp.sum(rest * rest, axis=0)
        self._merge(entries.shape[0], mean, squares)

    def _add_sparse(self, block: SparseOperator) -> None:
        """Sums over the stored entries, repeated about provisional means if means are large."""
        n = max(block.shape[0], 1)
        total, square = sparse_kernels.column_statistics(block.matrix)
        point, rest = total / n, 0.0 * total
        spread = square - total * point
        for _ in range(REPEATS):
            if np.all(spread >= CANCELLED * square):
                break
            point = point + rest
            gap, square = sparse_kernels.column_deviations(block.matrix, point)
            rest = gap / n
            spread = square - gap * rest
        # The mean is kept as a point and a remainder, because their sum would be rounded. A column is
        # constant if the difference is below its rounding.
        self._origin = point if self._origin is None else self._origin
        mean = (point - self._origin) + rest
        self._merge(block.shape[0], mean, np.where(spread > 1e-12 * square, spread, 0.0))

    def _add_changed(self, block: LinearOperator, factor: Array, offset: Array) -> None:
        """Add the rows of a block, times a factor for each column, minus an offset."""
        inner = ColumnStatistics(self.home)
        inner.add(block)
        if inner.count:
            self._merge_about_zero(inner.count, inner.mean * factor - offset, inner.spread * factor**2)

    def _merge_about_zero(self, count: int, mean: Array, spread: Array) -> None:
        self._origin = mean if self._origin is None else self._origin
        self._merge(count, mean - self._origin, spread)

    def _merge(self, count: int, mean: Array, spread: Array) -> None:
        if count == 0:
            return
        if self.count == 0:
            self.count, self._mean, self.spread = count, mean, spread
            return
        step, n = mean - self._mean, self.count + count
        self.spread = self.spread + spread + step**2 * (self.count * (count / n))
        self._mean = self._mean + step * (count / n)
        self.count = n

    def absorb(self, other: ColumnStatistics) -> None:
        """Add the rows that another instance has added."""
        if other.count:
            self._merge_about_zero(other.count, other.mean, other.spread)

    def squares_about(self, point: Array | None) -> Array:
        """Sums of squares about a point for each column, or about zero without points."""
        gap = self.mean if point is None else (self._origin - point) + self._mean
        return self.spread + self.count * gap**2


def without_offset(A: LinearOperator) -> tuple[LinearOperator, Array | None]:
    """An operator without the row that it subtracts from every row, and that row."""
    if isinstance(A, CenteredOperator):
        inner, offset = without_offset(A.parts[0])
        return inner, A.mean if offset is None else A.mean + offset
    if isinstance(A, DenseOperator) and A.mean is not None:
        return A.bare, A.mean
    return A, None


def without_mean(rows: Array, home: Home) -> tuple[Array, Array]:
    """Some rows minus their mean, computed in place, and the mean."""
    mean = home.xp.mean(rows, axis=0)
    rows -= mean[None, :]
    return rows, mean


def has_statistics(operator: LinearOperator) -> bool:
    """Whether this operator has exact column norms."""
    return operator.readable


def block_mean(block: LinearOperator, home: Home) -> Array:
    """The column means of a block: about them nothing cancels, and that is all they are for."""
    ones = block.home.place(np.ones((block.shape[0], 1)), block.dtype)
    return home.place(block.rmatmat(ones))[:, 0] / block.shape[0]
