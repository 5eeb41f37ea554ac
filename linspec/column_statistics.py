"""Column means and sums of squares about them, gathered over blocks of rows.

Method: each block is summed about its own mean and merged into the rest (Chan, Golub & LeVeque 1983,
doi:10.1080/00031305.1983.10483115), so that nothing cancels where means are large beside their spread.
Sparse blocks are summed over their stored entries: about zero, and where that cancels about the mean that it gives,
with the zeros that are not stored counted in.
Where we differ: the first row of all is subtracted before anything is summed. A constant column then has a
spread of exactly zero, however its value is rounded; else its spread would be noise that a later division by it
would blow up. And the running means are small, so that merging many blocks costs no digits.
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
"""What may be left of a sum of squares when the mean is taken out of it afterwards, and how often it is formed again
about a better point: at the second time all is exact to rounding, at the third constant columns are constant."""


class ColumnStatistics:
    """Running column means and sums of squares about them, float64 at `home`.

    Attributes
    ----------
    count : int
        Rows taken in.
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
        """Take in the rows of an operator whose entries can be read."""
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
            # Few rows at once: what is computed from them stays in the cache, and a sparse slab stays sparse.
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
        """Sums over the stored entries; where means are large beside spreads, once more about provisional means."""
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
        # The mean is the point and the rest: their sum would be rounded. What is left of a subtraction below its
        # rounding is a constant column.
        self._origin = point if self._origin is None else self._origin
        mean = (point - self._origin) + rest
        self._merge(block.shape[0], mean, np.where(spread > 1e-12 * square, spread, 0.0))

    def _add_changed(self, block: LinearOperator, factor: Array, offset: Array) -> None:
        """Take in the rows of a block times a factor (a column), less an offset."""
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
        """Take in the rows that another one has taken in."""
        if other.count:
            self._merge_about_zero(other.count, other.mean, other.spread)

    def squares_about(self, point: Array | None) -> Array:
        """Sums of squares about a point a column, about zero without one."""
        gap = self.mean if point is None else (self._origin - point) + self._mean
        return self.spread + self.count * gap**2


def without_offset(A: LinearOperator) -> tuple[LinearOperator, Array | None]:
    """An operator without the row that it takes out of every row, and that row."""
    if isinstance(A, CenteredOperator):
        inner, offset = without_offset(A.parts[0])
        return inner, A.mean if offset is None else A.mean + offset
    if isinstance(A, DenseOperator) and A.mean is not None:
        return A.bare, A.mean
    return A, None


def without_mean(rows: Array, home: Home) -> tuple[Array, Array]:
    """Some rows about their mean, in their own place, and the mean."""
    mean = home.xp.mean(rows, axis=0)
    rows -= mean[None, :]
    return rows, mean


def has_statistics(operator: LinearOperator) -> bool:
    """Whether exact column norms of this operator can be had."""
    return operator.readable
