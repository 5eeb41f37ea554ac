"""Threaded products of SciPy sparse rows (CSR) with dense blocks.

Problem: the iterative methods need A V, Aᵀ U and the fused pair V -> Aᵀ A V for n x p sparse A and blocks of
k columns, many times over. SciPy computes them on one thread, in one piece, and in the precision of the data.

Method: slabs of rows (`sparse_slabs`), shared among threads. For A V each slab writes its own rows of one result. For
Aᵀ U the CSR arrays of A are the CSC arrays of Aᵀ. Each part of the rows is scattered into a p x k accumulator of its
own, and the accumulators are added up in their order. A is not transposed, unless A has few rows and U many columns.
Then Aᵀ is made for this product, and each of its rows sums rows of the short U. The fused sweep multiplies a slab to
P = X Vx and immediately to Xᵀ P, so no n x k block ever exists, and the data are read from memory once.

Source: the row-slab and scatter forms are folklore of sparse linear algebra (Saad, "Iterative Methods for
Sparse Linear Systems", section 3.5).

Where we differ: for sums over rows the assignment of rows to accumulators is fixed: the same data on the same number
of threads give the same bits. No BLAS is called inside the threads.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike

from linspec.errors import InvalidProblem
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
    require_same_rows,
    row_weights,
    shares,
    slab_bounds,
    slab_limits,
    stretch,
    thread_count,
)
from linspec.process import machine

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

# Measured by docs/evidence/measure_sparse_constants.py on two busy cores, where 5 % are noise.

# If A has few rows, making Aᵀ first is faster from this number of columns of the product on. On "posts", making it for
# 8 columns takes 1.6 times as long, and not making it for 32 takes 1.4 times as long.
COLUMNS_TO_TRANSPOSE = 32
# Rows that are added side by side, as one long row, before they are added to one another. A quarter takes 1.1 times as
# long for one column on "bigrams" and "one-hot"; more gain nothing.
ROWS_ABREAST = 64


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
        for start, stop in slab_bounds((A,), *part, rows=n, entries=ENTRIES_PER_SLAB):
            Slab.of(A, start, stop, dtype).gather(V, result[start:stop])

    threads = thread_count(A.nnz * k)
    machine.map_parallel(fill, partition((A,), threads * PARTS_PER_THREAD if threads > 1 else 1))
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
    parts, tiles = shares((A,), k, dtype)
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
    rows, entries = slab_limits((A,), U.shape[1], dtype)

    def scatter(part: tuple[int, int]) -> list[Block]:
        accumulator = Accumulator(shape, dtype, stretch(A))
        for start, stop in slab_bounds((A,), *part, rows=rows, entries=entries):
            accumulator.add(Slab.of(A, start, stop, dtype), np.ascontiguousarray(U[start:stop], dtype))
        return accumulator.parts()

    return add_up(list(chain(*machine.map_parallel(scatter, partition((A,), parts)))), shape)


def gram_matmat(
    matrices: Sequence[CSR],
    blocks: Sequence[Block | None],
    *,
    shifts: Sequence[Block | None] | None = None,
    dtypes: Sequence[DTypeLike],
    weights: Block | None = None,
    sums: bool = True,
    onto: Sequence[int] | None = None,
) -> tuple[list[Block | None], Block]:
    """Form Xᵢᵀ[P₁ P₂ …] and the column sums of [P₁ P₂ …] in one sweep over the rows, for Pᵢ = Xᵢ Vᵢ - 1 shiftᵢᵀ.

    The rows of Pᵢ are multiplied by the weights, if there are any.

    Parameters
    ----------
    matrices : sequence of csr_array or csr_matrix, n x pᵢ
        As for `matmat`, with equally many rows.
    blocks : sequence of ndarray, pᵢ x kᵢ, or None
        Vᵢ for each matrix; None for a matrix without Pᵢ.
    shifts : sequence of ndarray of kᵢ numbers or None, optional
        Numbers to subtract from every row of Xᵢ Vᵢ; None to subtract nothing.
    dtypes : sequence of float32 or float64
        The precision of each Pᵢ. Where they differ, the products with Xᵢᵀ are formed in float64.
    weights : ndarray of shape (n,), optional
        How often each row counts.
    sums : bool, default True
        Whether to compute the column sums; if not, zeros are returned.
    onto : sequence of int, optional
        The indices i of the matrices whose Xᵢᵀ[P₁ P₂ …] is formed; by default all.

    Returns
    -------
    products : list of ndarray, pᵢ x (k₁ + k₂ + …), or None
        Xᵢᵀ[P₁ P₂ …], float64; None for matrices that are not in `onto`.
    sums : ndarray of k₁ + k₂ + … numbers
        Float64.

    Raises
    ------
    InvalidProblem
        Shapes do not fit one another, or a dtype is neither float32 nor float64.
    UnsupportedData
        A matrix is not CSR, or entries are not real numbers.
    """
    shifts = [None for _ in matrices] if shifts is None else shifts
    onto = range(len(matrices)) if onto is None else onto
    views = [_View.of(*each) for each in zip(matrices, blocks, shifts, dtypes, strict=True)]
    for matrix in matrices[1:]:
        require_same_rows(matrices[0], matrix)
    dtype = np.result_type(np.float32, *(view.dtype for view in views if view.V is not None))
    width = sum(view.width for view in views)
    parts, tiles = shares(tuple(matrices), width, dtype, fused=True)
    if tiles == 1:
        return _sweep(views, dtype, parts, weights, summed=sums, onto=onto)
    products = [np.empty((A.shape[1], width)) if i in onto else None for i, A in enumerate(matrices)]
    totals = np.empty(width)
    for run in (_run(width, tile, tiles) for tile in range(tiles)):
        tile_of_views = list(_columns(views, run))
        found, totals[run] = _sweep(tile_of_views, dtype, parts, weights, summed=sums, onto=onto)
        for product, part in zip(products, found, strict=True):
            if product is not None:
                product[:, run] = part
    return products, totals


class _View(NamedTuple):
    """One matrix X of a fused sweep, with its block V and the shift to subtract from X V."""

    matrix: CSR
    V: Block | None
    shift: Block | None
    dtype: np.dtype[Any]

    @classmethod
    def of(cls, matrix: CSR, V: Block | None, shift: Block | None, dtype: DTypeLike) -> _View:
        dtype = product_dtype(dtype)
        require_csr(matrix, "X")
        if V is None:
            if shift is not None:
                raise InvalidProblem("a shift is subtracted from X V, but V is None. Pass both or none.")
            return cls(matrix, None, None, dtype)
        require_block(V, matrix.shape[1], "V", "columns of X")
        if shift is not None and np.shape(shift) != (V.shape[1],):
            raise InvalidProblem(
                f"a shift must hold one number for each of the {V.shape[1]} columns of V; got shape "
                f"{np.shape(shift)}. Pass a one-dimensional array of that length."
            )
        shift = None if shift is None else np.asarray(shift, dtype)
        return cls(matrix, np.ascontiguousarray(V, dtype), shift, dtype)

    @property
    def width(self) -> int:
        return 0 if self.V is None else int(self.V.shape[1])

    def columns(self, run: slice) -> _View:
        """The same view, with V restricted to a range of its columns."""
        if self.V is None:
            return self
        shift = None if self.shift is None else self.shift[run]
        return self._replace(V=np.ascontiguousarray(self.V[:, run]), shift=shift)

    def multiply(self, slab: Slab, out: Block) -> None:
        """Write slab · V − 1 shiftᵀ, for a slab of rows of the matrix, into `out`."""
        if self.V is None or not self.width:
            return
        # The kernels need a block without gaps: a part of a wider one, or one of another precision, is a
        # copy.
        direct = out.flags.c_contiguous and out.dtype == self.dtype
        product = out if direct else np.empty(out.shape, self.dtype)
        product[...] = 0 if self.shift is None else -self.shift
        slab._replace(data=np.asarray(slab.data, self.dtype)).gather(self.V, product)
        if not direct:
            out[...] = product


def _sweep(
    views: list[_View],
    dtype: np.dtype[Any],
    count: int,
    weights: Block | None,
    *,
    summed: bool,
    onto: Sequence[int],
) -> tuple[list[Block | None], Block]:
    """Form the products of one tile of columns in one pass over the rows, which threads share in `count` ranges."""
    matrices = tuple(view.matrix for view in views)
    ends = np.cumsum([view.width for view in views]).tolist()
    width = ends[-1]
    wanted = [i for i in range(len(views)) if i in onto]
    shapes = [(matrices[i].shape[1], width) for i in wanted]
    rows, entries = slab_limits(matrices, width, dtype)

    def sweep(part: tuple[int, int]) -> list[list[Block]]:
        accumulators = [
            Accumulator((matrices[i].shape[1], width), dtype, stretch(matrices[i])) for i in wanted
        ]
        sums = np.zeros(width)
        buffer = np.empty((min(rows, part[1] - part[0]), width), dtype)
        for start, stop in slab_bounds(matrices, *part, rows=rows, entries=entries):
            block = buffer[: stop - start]
            slabs = [Slab.of(matrix, start, stop, dtype) for matrix in matrices]
            for view, slab, end in zip(views, slabs, ends, strict=True):
                view.multiply(slab, block[:, end - view.width : end])
            if weights is not None:
                block *= row_weights(weights, start, stop)
            if summed:
                sums += _column_sums(block)
            for accumulator, i in zip(accumulators, wanted, strict=True):
                accumulator.add(slabs[i], block)
        return [[sums], *(accumulator.parts() for accumulator in accumulators)]

    parts = machine.map_parallel(sweep, partition(matrices, count)) if width else []
    sums, *grams = (
        add_up(list(chain(*(part[i] for part in parts))), shape)
        for i, shape in enumerate([(width,), *shapes])
    )
    found = dict(zip(wanted, grams, strict=True))
    return [found.get(i) for i in range(len(views))], sums


def _column_sums(block: Block) -> Block:
    """Sum the columns in float64; each float32 sum runs over every `ROWS_ABREAST`-th row of a slab."""
    rows, k = block.shape
    even = rows - rows % ROWS_ABREAST
    # NumPy adds short rows slowly, and adds float32 into float64 slowly: most rows are added as a few long
    # ones.
    abreast = block[:even].reshape(-1, ROWS_ABREAST * k).sum(axis=0).reshape(ROWS_ABREAST, k)
    sums: Block = abreast.sum(axis=0, dtype=np.float64) + block[even:].sum(axis=0, dtype=np.float64)
    return sums


def _columns(views: list[_View], run: slice) -> Iterator[_View]:
    """Yield the views, each Vᵢ restricted to its columns within the range `run` of the columns of [V₁ V₂ …]."""
    before = 0
    for view in views:
        yield view.columns(slice(max(run.start - before, 0), max(run.stop - before, 0)))
        before += view.width


def _run(width: int, index: int, count: int) -> slice:
    """The `index`-th of `count` equal ranges of `width` consecutive columns."""
    return slice(width * index // count, width * (index + 1) // count)
