"""Base class for user-defined data that are read by rows."""

from __future__ import annotations

from linspec.operators.base import LinearOperator


class RowOperator(LinearOperator):
    """An n x p matrix defined by its rows.

    A subclass sets `shape`, `dtype` and, where its arrays are not NumPy's, `home`, and defines `_rows`, which returns a
    `DenseOperator` or a `SparseOperator` for a slice of step 1 or for an array of numbers from 0 to n - 1. The rows are
    then read like those of an array: block by block, in one pass for each product. A subclass sets `sparse` if its
    rows are sparse. It may define `release`.

    Examples
    --------
    >>> import numpy as np
    >>> from linspec.operators import DenseOperator, RowOperator
    >>> class Squares(RowOperator):
    ...     shape, dtype = (5, 1), np.dtype(np.float64)
    ...
    ...     def _rows(self, selection):
    ...         return DenseOperator(np.arange(5.0)[selection, None] ** 2)
    >>> Squares().rmatmat(np.ones((5, 1)))  # 0 + 1 + 4 + 9 + 16
    array([[30.]])
    """

    access = "rows"
    readable = True
