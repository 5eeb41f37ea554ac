"""Operators made of another operator: some of its rows, or its columns combined, such as targets of sparse labels.

Rows are read from their source when they are needed, and never copied as a whole.
"""

from __future__ import annotations

import copy
from typing import Any

import numpy as np

from linspec.arrays import Array, DType
from linspec.frames import RowNames
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
    """The rows of an operator that a slice or an array of numbers selects.

    Parameters
    ----------
    operator : LinearOperator of shape (n, p)
        Sliceable.
    numbers : slice of step 1, or numpy.ndarray of shape (m,)
        From 0 to n - 1.
    """

    def __init__(self, operator: LinearOperator, numbers: Selection) -> None:
        n, p = operator.shape
        self.numbers: Any = range(n)[numbers] if isinstance(numbers, slice) else np.asarray(numbers, np.intp)
        super().__init__(operator, (len(self.numbers), p))
        share = len(self.numbers) / max(n, 1)
        self.sparse, self._nnz = operator.sparse, round(operator.nnz * share)
        self.rows_together, self.buffer_bytes = operator.rows_together, operator.buffer_bytes
        self.decoded_bytes = round(operator.decoded_bytes * share)

    def _rows(self, selection: Selection) -> LinearOperator:
        numbers = self.numbers
        if not isinstance(numbers, range):
            return self.operator.rows(numbers[selection])
        if isinstance(selection, slice):
            chosen = numbers[selection]
            return self.operator.rows(slice(chosen.start, chosen.stop))
        return self.operator.rows(selection + numbers.start)


def chosen_rows(operator: LinearOperator, numbers: Selection) -> LinearOperator:
    """Select rows of data: a copy of data in memory, a view (`ChosenRows`) of files and other data read by rows.

    Parameters
    ----------
    operator : LinearOperator
    numbers : slice of step 1, or numpy.ndarray of int

    Raises
    ------
    MissingCapability
        When the operator is known by its products only, or its rows come slice by slice.
    """
    copied = operator.resident or operator.access != "rows"
    return operator.rows(numbers) if copied else ChosenRows(operator, numbers)


def named_rows(operator: LinearOperator, numbers: Selection) -> LinearOperator:
    """Select rows of data as `chosen_rows` does, with their labels and the names of the columns."""
    chosen = chosen_rows(operator, numbers).with_names_of(operator)
    if operator.row_names is not None:
        chosen.row_names = RowNames(operator.row_names).chosen(numbers)
    if operator.row_index is not None:
        chosen.row_index = RowNames(operator.row_index).chosen(numbers)
    return chosen


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
