"""Operators made of another operator: some of its rows, or its columns combined, such as targets of sparse labels.

Rows are read from their source when they are needed, and never copied as a whole.
"""

from __future__ import annotations

import copy

import numpy as np

from linspec.arrays import Array, DType, HostArray
from linspec.operators.base import LinearOperator, Selection


class Derived(LinearOperator):
    """An operator whose rows are made of those of another one when they are read.

    Parameters
    ----------
    operator : LinearOperator
    shape : tuple of int
    """

    def __init__(self, operator: LinearOperator, shape: tuple[int, int]) -> None:
        self.operator, self.shape, self._stored_dtype = operator, shape, operator.stored_dtype
        self.dtype, self.device, self.readings = operator.dtype, operator.device, operator.readings
        self.access, self.readable = operator.access, operator.readable

    def in_dtype(self, dtype: DType) -> LinearOperator | None:
        twin = copy.copy(self)
        twin.operator, twin.dtype = self.operator.in_dtype(dtype) or self.operator, dtype
        return twin

    def release(self) -> None:
        self.operator.release()


class ChosenRows(Derived):
    """The rows of an operator that an array of numbers selects.

    Parameters
    ----------
    operator : LinearOperator of shape (n, p)
        Sliceable.
    numbers : numpy.ndarray of shape (m,)
        From 0 to n - 1.
    """

    def __init__(self, operator: LinearOperator, numbers: HostArray) -> None:
        super().__init__(operator, (len(numbers), operator.shape[1]))
        self.numbers, self.sparse = np.asarray(numbers, dtype=np.intp), operator.sparse
        self.rows_together = operator.rows_together
        self.buffer_bytes, self.decoded_bytes = operator.buffer_bytes, operator.decoded_bytes

    def _rows(self, selection: Selection) -> LinearOperator:
        return self.operator.rows(self.numbers[selection])


def chosen_rows(operator: LinearOperator, numbers: HostArray) -> LinearOperator:
    """Select rows of data: a copy of data in memory, a view (`ChosenRows`) of files and other data read by rows.

    Parameters
    ----------
    operator : LinearOperator of shape (n, p)
    numbers : numpy.ndarray of int, of shape (m,)
        From 0 to n - 1.

    Returns
    -------
    LinearOperator of shape (m, p)
        Without names of rows and columns.

    Raises
    ------
    MissingCapability
        When the operator is known by its products only, or its rows come slice by slice.

    Examples
    --------
    >>> import numpy as np
    >>> import linspec as ls
    >>> from linspec.operators import chosen_rows
    >>> chosen_rows(ls.as_operator(np.array([[1.0], [2.0], [3.0]])), np.array([2, 0])).dense().ravel()
    array([3., 1.])
    """
    copied = operator.resident or operator.access != "rows"
    return operator.rows(numbers) if copied else ChosenRows(operator, numbers)


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
