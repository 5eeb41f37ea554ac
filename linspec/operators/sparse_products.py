"""Threaded products of SciPy sparse rows (CSR) with dense blocks.

Problem: the iterative methods need A V and Aᵀ U for n x p sparse A and blocks of k columns, many times over. SciPy
computes them on one thread, in one piece, and in the precision of the data.

Method: slabs of rows (`sparse_slabs`), shared among threads. For A V each slab writes its own rows of one result. For
Aᵀ U the CSR arrays of A are the CSC arrays of Aᵀ. Each part of the rows is scattered into a p x k accumulator of its
own, and the accumulators are added up in their order. A is not transposed, unless A has few rows and U many columns.
Then Aᵀ is made for this product, and each of its rows sums rows of the short U.

Source: the row-slab and scatter forms are folklore of sparse linear algebra (Saad, "Iterative Methods for
Sparse Linear Systems", section 3.5).

Where we differ: for sums over rows the assignment of rows to accumulators is fixed: the same data on the same number
of threads give the same bits. No BLAS is called inside the threads.
"""

from __future__ import annotations

from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from linspec.operators.sparse_slabs import (
    CSR,
    ENTRIES_PER_SLAB,
    NEGLIGIBLE_BYTES,
    PARTS_PER_THREAD,
    Accumulator,
    Block,
    Slab,
    add_up,
    partition,
    product_dtype,
    require_block,
    require_csr,
    shares,
    slab_bounds,
    slab_limits,
    stretch,
    thread_count,
)
from linspec.process import machine

# Measured by docs/evidence/measure_sparse_constants.py on two busy cores, where 5 % are noise.

# If A has few rows, making Aᵀ first is faster from this number of columns of the product on. On "posts", making it for
# 8 columns takes 1.6 times as long, and not making it for 32 takes 1.4 times as long.
COLUMNS_TO_TRANSPOSE = 32


def matmat(A: CSR, V: Block, dtype: DTypeLike) -> Block:
    """Compute A V.

    Parameters
    ----------
    A : csr_array or csr_matrix, n x p
        Real, integer or boolean (True is 1), converted slab by slab; duplicate and unsorted entries are fine.
    V : ndarray, p x k
        Any real dtype and memory order.
    dtype : float32 or float64
        The precision of the product.

    Returns
    -------
    ndarray, n x k
        C-ordered, of `dtype`.

    Raises
    ------
    InvalidProblem
        The shapes do not fit, or `dtype` is neither float32 nor float64.
    UnsupportedData
        A is not CSR, or the entries of A or V are not real numbers.
    """
    dtype = product_dtype(dtype)
    require_csr(A, "A")
    require_block(V, A.shape[1], "V", "columns of A")
    n, k = A.shape[0], V.shape[1]
    result = np.zeros((n, k), dtype)
    if result.size == 0 or A.nnz == 0:
        return result
    V = np.ascontiguousarray(V, dtype)

    def fill(part: tuple[int, int]) -> None:
        for start, stop in slab_bounds(A, *part, rows=n, entries=ENTRIES_PER_SLAB):
            Slab.of(A, start, stop, dtype).gather(V, result[start:stop])

    threads = thread_count(A.nnz * k)
    machine.map_parallel(fill, partition(A, threads * PARTS_PER_THREAD if threads > 1 else 1))
    return result


def rmatmat(A: CSR, U: Block, dtype: DTypeLike) -> Block:
    """Compute Aᵀ U: sums over stretches of rows in the precision `dtype`, which are added up in float64.

    Parameters
    ----------
    A : csr_array or csr_matrix, n x p
        Real, integer or boolean (True is 1), converted slab by slab; duplicate and unsorted entries are fine.
    U : ndarray, n x k
        Any real dtype and memory order. Converted slab by slab.
    dtype : float32 or float64
        The precision of the products, and of the sum over one stretch of at most `LONGEST_STRETCH` rows.

    Returns
    -------
    ndarray, p x k
        C-ordered float64.

    Raises
    ------
    InvalidProblem
        The shapes do not fit, or `dtype` is neither float32 nor float64.
    UnsupportedData
        A is not CSR, or the entries of A or U are not real numbers.
    """
    dtype = product_dtype(dtype)
    require_csr(A, "A")
    require_block(U, A.shape[0], "U", "rows of A")
    p, k = A.shape[1], U.shape[1]
    if p * k == 0 or A.nnz == 0:
        return np.zeros((p, k))
    if k >= COLUMNS_TO_TRANSPOSE and worth_transposing(A, dtype):
        return matmat(A.T.tocsr(), U, dtype)
    parts, tiles = shares(A, k, dtype)
    if tiles == 1:
        return _scatter_all(A, U, dtype, parts)
    result = np.empty((p, k))
    for run in (_run(k, tile, tiles) for tile in range(tiles)):
        result[:, run] = _scatter_all(A, U[:, run], dtype, parts)
    return result


def worth_transposing(A: CSR, dtype: np.dtype[Any]) -> bool:
    """Whether Aᵀ U is faster with a transposed copy of A, and memory has room for the copy.

    True if A has at least twice as many columns as rows, the product is in float64, and the copy takes at most an
    eighth of the available memory or `NEGLIGIBLE_BYTES`. A product with the copy then reads U (n x k) at random places,
    which is smaller than AᵀU (p x k), and threads need no accumulators. The product with the copy sums over all rows of
    A in its own precision. In float32 such long sums would lose digits, so the answer is False for float32.
    """
    if dtype != np.float64 or 2 * A.shape[0] > A.shape[1]:
        return False
    copied = A.nnz * (A.data.dtype.itemsize + A.indices.dtype.itemsize)
    return bool(copied <= NEGLIGIBLE_BYTES or copied <= machine.available_memory() // 8)


def _scatter_all(A: CSR, U: Block, dtype: np.dtype[Any], parts: int) -> Block:
    """Aᵀ U for one tile of columns, with an accumulator for each part of the rows."""
    shape = A.shape[1], U.shape[1]
    rows, entries = slab_limits(A, U.shape[1], dtype)

    def scatter(part: tuple[int, int]) -> list[Block]:
        accumulator = Accumulator(shape, dtype, stretch(A))
        for start, stop in slab_bounds(A, *part, rows=rows, entries=entries):
            accumulator.add(Slab.of(A, start, stop, dtype), np.ascontiguousarray(U[start:stop], dtype))
        return accumulator.parts()

    return add_up(list(chain(*machine.map_parallel(scatter, partition(A, parts)))), shape)


def _run(width: int, index: int, count: int) -> slice:
    """The `index`-th of `count` equal ranges of `width` consecutive columns."""
    return slice(width * index // count, width * (index + 1) // count)
