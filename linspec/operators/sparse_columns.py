"""Column statistics of SciPy sparse rows (CSR): sums, squares and deviations.

Problem: means, norms and spreads of columns are computed before any iteration, from entries that may be of any real
type and stored in several parts.

Method: one sweep over slabs of rows (`sparse_slabs`), which scatters the entries and their squares in float64. For
deviations from a point, stored entries are treated one by one; all zeros that are not stored deviate equally and are
added together.

Source: the deviations from a point near the mean are those of Chan, Golub & LeVeque, "Algorithms for computing the
sample variance", The American Statistician 37(3), 1983.

Where we differ: an entry that is stored in several parts is added up slab by slab before it is squared, not in a copy
of the whole matrix.
"""

from __future__ import annotations

import numpy as np

from linspec.operators import sparse_products
from linspec.operators.sparse_grams import one_entry_rows
from linspec.operators.sparse_slabs import (
    CSR,
    Block,
    Slab,
    add_up,
    partition,
    require_csr,
    row_weights,
    shares,
    slab_bounds,
    slab_limits,
)
from linspec.process import machine


def column_statistics(A: CSR, weights: Block | None = None) -> tuple[Block, Block]:
    """Sum the entries of each column, and their squares.

    Parameters
    ----------
    A : csr_array or csr_matrix, n x p
        An entry that is stored in several parts is squared as a whole. True counts as 1.
    weights : ndarray of shape (n,), optional
        How often each row counts.

    Returns
    -------
    sums, squares : ndarray, p
        Float64.

    Raises
    ------
    UnsupportedData
        A is not CSR, or its entries are not real numbers.
    """
    require_csr(A, "A")
    shape, dtype = (2, A.shape[1], 1), np.dtype(np.float64)
    rows, entries = slab_limits(A, 1, dtype)
    canonical = one_entry_rows(A) or A.has_canonical_format

    def add(part: tuple[int, int]) -> Block:
        statistics = np.zeros(shape)
        for start, stop in slab_bounds(A, *part, rows=rows, entries=entries):
            slab = Slab.of(A, start, stop, dtype)
            slab = slab if canonical else slab.without_duplicates()
            ones = row_weights(weights, start, stop)
            slab.scatter(ones, statistics[0])
            slab._replace(data=slab.data * slab.data).scatter(ones, statistics[1])
        return statistics

    parts = partition(A, shares(A, 2, dtype)[0]) if A.nnz else []
    sums, squares = add_up(machine.map_parallel(add, parts), shape)[..., 0]
    return sums, squares


def column_deviations(A: CSR, point: Block, weights: Block | None = None) -> tuple[Block, Block]:
    """Sum the deviations of each column from a point, and the squares of the deviations, over all rows.

    An entry that is not stored is 0 and deviates like any other. If the point is near the mean, no digits cancel in
    the sums.

    Parameters
    ----------
    A : csr_array or csr_matrix, n x p
        An entry that is stored in several parts deviates as a whole.
    point : ndarray of shape (p,)
    weights : ndarray of shape (n,), optional
        How often each row counts.

    Returns
    -------
    sums, squares : ndarray, p
        Float64.
    """
    require_csr(A, "A")
    shape, dtype = (4, A.shape[1], 1), np.dtype(np.float64)
    rows, entries = slab_limits(A, 1, dtype)

    def add(part: tuple[int, int]) -> Block:
        sums = np.zeros(shape)
        for start, stop in slab_bounds(A, *part, rows=rows, entries=entries):
            slab = Slab.of(A, start, stop, dtype).without_duplicates()
            own, gap = row_weights(weights, start, stop), slab.data - point[slab.indices]
            ones = np.ones_like(gap)
            for values, total in zip((gap, gap * gap, ones), sums[:3], strict=True):
                slab._replace(data=values).scatter(own, total)
            if weights is not None:
                slab._replace(data=ones).scatter(np.ones_like(own), sums[3])
        return sums

    parts = partition(A, shares(A, 3, dtype)[0]) if A.nnz else []
    gaps, squares, counts, stored = add_up(machine.map_parallel(add, parts), shape)[..., 0]
    if weights is None:
        absent = A.shape[0] - counts
    else:  # weights of all rows are not exactly those of the rows that are stored
        absent = np.where(stored == A.shape[0], 0.0, float(np.sum(weights)) - counts)
    return gaps - absent * point, squares + absent * (point * point)


def products_about(matrix: CSR, point: Block, B: Block) -> Block:
    """(A − 1 pointᵀ)ᵀB for sparse A, the point subtracted from stored entries before they are multiplied.

    Parameters
    ----------
    matrix : csr_array or csr_matrix, n x p
    point : ndarray of shape (p,)
    B : ndarray of shape (n, r)

    Returns
    -------
    ndarray of shape (p, r)
        Float64.
    """
    double = np.dtype(np.float64)
    if not point.any():
        return sparse_products.rmatmat(matrix, B, double)
    if not matrix.has_canonical_format:
        matrix = matrix.copy()
        matrix.sum_duplicates()
    indices = matrix.indices[: matrix.indptr[-1]]
    kind, shape = type(matrix), matrix.shape
    entries = matrix.data[: len(indices)] - point[indices]
    product = sparse_products.rmatmat(kind((entries, indices, matrix.indptr), shape=shape), B, double)
    stored = np.bincount(indices, minlength=shape[1])
    if (stored[point != 0] < shape[0]).any():  # zeros that are not stored are less the point, too
        ones = kind((np.ones(len(indices)), indices, matrix.indptr), shape=shape)
        missing = np.sum(B, axis=0)[None, :] - sparse_products.rmatmat(ones, B, double)
        product -= point[:, None] * np.where((stored < shape[0])[:, None], missing, 0.0)
    return product
