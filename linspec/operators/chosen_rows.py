"""Selected rows of data in any order, read from their source when needed and never copied as a whole."""

from __future__ import annotations

import numpy as np

from linspec.arrays import HostArray
from linspec.operators.base import LinearOperator, RowOperator, Selection


class ChosenRows(RowOperator):
    """The rows of an operator that an array of numbers selects.

    Parameters
    ----------
    operator : LinearOperator of shape (n, p)
        Sliceable.
    numbers : numpy.ndarray of shape (m,)
        From 0 to n - 1.
    """

    def __init__(self, operator: LinearOperator, numbers: HostArray) -> None:
        self.operator, self.numbers = operator, np.asarray(numbers, dtype=np.intp)
        self.shape = (len(self.numbers), operator.shape[1])
        self.dtype, self.home = operator.dtype, operator.home
        self.sparse, self.readable = operator.sparse, operator.readable
        self.rows_together = operator.rows_together
        self.buffer_bytes, self.decoded_bytes = operator.buffer_bytes, operator.decoded_bytes

    @property
    def stored_dtype(self) -> np.dtype[np.generic]:
        return self.operator.stored_dtype

    def in_dtype(self, dtype: np.dtype[np.generic]) -> LinearOperator | None:
        found = self.operator.in_dtype(dtype)
        return None if found is None else ChosenRows(found, self.numbers)

    def _rows(self, selection: Selection) -> LinearOperator:
        return self.operator.rows(self.numbers[selection])

    def release(self) -> None:
        self.operator.release()


def chosen_rows(operator: LinearOperator, numbers: HostArray) -> LinearOperator:
    """Select rows of data: a copy of data in memory, a view (`ChosenRows`) of files and other data read by rows.

    Parameters
    ----------
    operator : LinearOperator
    numbers : numpy.ndarray of int

    Raises
    ------
    MissingCapability
        When the operator is known by its products only, or its rows come slice by slice.
    """
    kept = operator.resident or operator.access != "rows"
    return operator.rows(numbers) if kept else ChosenRows(operator, numbers)
