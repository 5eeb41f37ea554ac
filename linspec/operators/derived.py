"""Operators made of another operator by combining its columns, such as targets of sparse labels.

Rows are read from their source when they are needed, and never copied as a whole.
"""

from __future__ import annotations

from linspec.arrays import Array
from linspec.operators.base import Derived, LinearOperator, Selection


class CombinedColumns(Derived):
    """(A − 1 mᵀ) K, of which only A, m and K are held; blocks of rows are dense.

    Parameters
    ----------
    A : LinearOperator of shape (n, p)
    mean : array of shape (p,)
    factor : array of shape (p, q), optional
        K; by default the identity.

    Examples
    --------
    >>> import numpy as np
    >>> import linspec as ls
    >>> from linspec.operators import CombinedColumns
    >>> A = np.array([[1.0, 5.0], [3.0, 9.0]])
    >>> CombinedColumns(ls.as_operator(A), A.mean(axis=0)).dense()
    array([[-1., -2.],
           [ 1.,  2.]])
    """

    def __init__(self, A: LinearOperator, mean: Array, factor: Array | None = None) -> None:
        super().__init__(A, (A.shape[0], A.shape[1] if factor is None else int(factor.shape[1])))
        self.mean = A.device.blocks.asarray(mean)
        self.factor = None if factor is None else A.device.blocks.asarray(factor)

    def _rows(self, selection: Selection) -> LinearOperator:
        return CombinedColumns(self.operator.rows(selection), self.mean, self.factor)

    def _dense(self) -> Array:
        # Subtract in float64: float32 entries near a large mean would lose the digits of their differences.
        rows = self.device.blocks.asarray(self.operator.dense()) - self.mean[None, :]
        return self.device.asarray(rows if self.factor is None else rows @ self.factor, self.dtype)
