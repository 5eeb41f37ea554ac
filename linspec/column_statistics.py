"""Column means and sums of squares of operators whose entries can be read, gathered block by block."""

from __future__ import annotations

import numpy as np

from linspec.arrays import Array, Home
from linspec.operators import CenteredOperator, DenseOperator, LinearOperator, SparseOperator, sparse_kernels


def has_statistics(operator: LinearOperator) -> bool:
    """Whether exact column norms of this operator can be had."""
    return isinstance(operator, DenseOperator | SparseOperator)


class ColumnStatistics:
    """Column means and sums of squares about them, merged block by block.

    Each block is summed about its own mean and merged (Chan, Golub & LeVeque 1983), so that nothing cancels
    where means are large beside their spread.
    """

    def __init__(self, home: Home) -> None:
        self.home = home
        self.count = 0
        self.mean: Array = None
        self.spread: Array = None

    def add(self, block: LinearOperator) -> None:
        """Take in some rows, centred or not; rows whose entries cannot be read are passed over."""
        inner = block.parts[0] if isinstance(block, CenteredOperator) else block
        if isinstance(inner, SparseOperator):
            total, square = sparse_kernels.column_statistics(inner.matrix)
            mean = total / max(inner.shape[0], 1)
            spread = square - inner.shape[0] * mean**2
            # What is left of a subtraction below rounding is a constant column.
            spread = np.where(spread > 1e-12 * square, spread, 0.0)
            if isinstance(block, CenteredOperator):
                mean = mean - block.mean
        elif isinstance(block, DenseOperator):
            entries = self.home.place(block.dense())
            mean = self.home.xp.mean(entries, axis=0)
            spread = self.home.xp.sum((entries - mean[None, :]) ** 2, axis=0)
        else:
            return
        self._merge(block.shape[0], mean, spread)

    def _merge(self, count: int, mean: Array, spread: Array) -> None:
        if self.count == 0:
            self.count, self.mean, self.spread = count, mean, spread
            return
        step, n = mean - self.mean, self.count + count
        self.spread = self.spread + spread + step**2 * (self.count * count / n)
        self.mean = self.mean + step * (count / n)
        self.count = n

    @property
    def squares(self) -> Array:
        """Sums of squares about zero."""
        return None if self.mean is None else self.spread + self.count * self.mean**2
