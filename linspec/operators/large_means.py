"""Sparse matrices whose column means are large compared with their spreads, made ready to be centred.

Problem: sparse data are centred by correcting their products, and the correction cancels digits of large means.
Method: a column in which every entry is stored can have a constant subtracted from its entries, one of its own
values. Nothing is lost, and nothing is filled up.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from linspec.arrays import HostArray
from linspec.operators import LinearOperator, SparseOperator
from linspec.operators.largest_entry import magnitude_of
from linspec.operators.range_of_entries import check_magnitude

SAMPLED_ROWS = 16
"""The number of evenly spread rows that are read to find such columns."""

LARGE_MEAN = 1e-2
"""The mean of a column counts as large if a few of its entries differ by less than this, in units of their
size."""


def without_large_means(
    A: LinearOperator, weights: HostArray | None = None, name: str = "data"
) -> tuple[LinearOperator, HostArray | None]:
    """A sparse matrix to be centred, with a row subtracted from its stored entries, and that row.

    The size of the entries is checked before, with the weights of their rows.

    Other data, and sparse matrices that do not need it, are returned as they are, with None.

    Products with centred sparse data are corrected by the contribution of the means. This cancels if means
    are large compared with spreads. If every entry of a column is stored, a constant can be subtracted from
    its entries instead. If a column has zeros that are not stored, its mean is at most √n times its spread.
    """
    n = A.shape[0]
    if not isinstance(A, SparseOperator) or n < 2 or A.matrix.nnz < n:
        return A, None
    sample = np.linspace(0, n - 1, min(n, SAMPLED_ROWS)).astype(np.intp)
    if not _in_all_rows(A.matrix, sample):
        return A, None
    rows = A.matrix[sample].astype(np.float64)
    rows.sum_duplicates()
    first = rows[[0]]
    columns, values = first.indices, np.zeros(A.shape[1])
    values[columns] = first.data
    counts = np.bincount(rows.indices, minlength=A.shape[1])
    gaps = np.zeros(A.shape[1])
    with np.errstate(invalid="ignore"):  # what is not finite is found by the check of the first products
        np.maximum.at(gaps, rows.indices, np.abs(rows.data - values[rows.indices]))
    large = (counts == rows.shape[0]) & (gaps < LARGE_MEAN * np.abs(values))
    if not large.any():
        return A, None
    matrix = _canonical(A.matrix)
    indices = matrix.indices[: matrix.nnz]
    large &= np.bincount(indices, minlength=A.shape[1]) == n
    if not large.any():
        return A, None
    check_magnitude(name, magnitude_of(A, None if weights is None else np.sqrt(weights)))
    row = np.where(large, values, 0.0)
    # The subtraction is in float64, before rounding; the difference of nearly equal numbers is exact.
    data = (matrix.data[: matrix.nnz] - row[indices]).astype(A.dtype, copy=False)
    without = type(matrix)((data, indices, matrix.indptr), shape=matrix.shape)
    return SparseOperator(without, A.dtype, checked=True), row


def _in_all_rows(matrix: Any, rows: HostArray) -> set[int]:
    """The columns that have a stored entry in each of some rows."""
    found: set[int] | None = None
    for start, stop in zip(matrix.indptr[rows].tolist(), matrix.indptr[rows + 1].tolist(), strict=True):
        columns = matrix.indices[start:stop].tolist()
        found = set(columns) if found is None else found.intersection(columns)
        if not found:
            break
    return found or set()


def _canonical(matrix: Any) -> Any:
    """The same matrix with every entry stored once."""
    if matrix.has_canonical_format:
        return matrix
    matrix = matrix.copy()
    matrix.sum_duplicates()
    return matrix
