"""Threaded products of SciPy sparse rows (CSR) with dense blocks.

Problem: the iterative methods need A V, Aᵀ U and the fused pair V -> Aᵀ A V for n x p sparse A and blocks of
k columns, many times over. SciPy computes them on one thread, in one piece, and in the precision of the data.

Method: contiguous slabs of rows, balanced by their stored entries, on the process's thread pool; SciPy's
compiled kernels release the interpreter lock. A V: each slab writes its own rows of one result. Aᵀ U: the CSR
arrays of A are the CSC arrays of Aᵀ, so each thread scatters its slabs into a p x k accumulator of its own,
and the accumulators are added up; nothing is transposed. The fused sweep takes a slab that fits the cache
through P = X Vx and at once through Xᵀ P, so that no n x k block ever exists and the data are read from
memory once. A float32 sum over rows runs over a bounded number of rows and is then added into float64.
Columns of the block go in tiles where the accumulators of all threads together outgrow half of the cache, and
only there: every tile reads the matrix again.

Source: the row-slab and scatter forms are folklore of sparse linear algebra (Saad, "Iterative Methods for
Sparse Linear Systems", section 3.5); blocking a sum to shorten it is in Higham, "Accuracy and Stability of
Numerical Algorithms", section 4.2.

Where we differ: the assignment of rows to threads is fixed, never first come first served, where sums over
rows are formed: the same data on the same number of threads give the same bits. SciPy's kernels that write
into a given array are private (`scipy.sparse._sparsetools`); they are tried once on a small product and left
for the public operators, at the cost of a temporary block, where they are missing or have changed. Work on
fewer threads where the memory does not hold an accumulator for each. No BLAS is called inside the threads.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import DTypeLike, NDArray
from scipy import sparse

from linspec import machine
from linspec.errors import InvalidProblem, UnsupportedData

try:
    from scipy.sparse import _sparsetools
except ImportError:  # pragma: no cover - a future SciPy
    _sparsetools = None

CSR: TypeAlias = Any
"""A `scipy.sparse.csr_array` or `csr_matrix`; SciPy ships no types."""
Block: TypeAlias = NDArray[Any]

# Rows over which a float32 sum may run before it is added into float64.
FLOAT32_ROWS = 32768
# Bytes of the dense block of one slab, and stored entries of one slab: both together fit a core's own cache.
SLAB_BYTES = 2**19
SLAB_ENTRIES = 2**17
# Multiply-adds below which another thread costs more than it brings.
WORK_PER_THREAD = 2**18
# Narrower tiles would read the matrix again for less than one cache line an entry.
TILE_BYTES = 64
# Slabs a thread where any thread may take any slab: evens out cores that are busy with something else.
SLABS_PER_THREAD = 4
# Rows that a sum in float32 takes before it goes on in float64, where that is cheap.
STRETCH = 64
# A row costs about as much as this many entries, whatever it holds.
ROW_COST = 2


class Products(NamedTuple):
    """What one fused sweep over the rows of X and Y gives; an entry that does not exist is None.

    With P = X Vx - 1 shift_xᵀ and Q = Y Vy - 1 shift_yᵀ: `XtP`, `XtQ`, `YtP`, `YtQ` are p x k, `sum_P` and
    `sum_Q` the k column sums of P and Q. All float64.
    """

    XtP: Block | None
    XtQ: Block | None
    YtP: Block | None
    YtQ: Block | None
    sum_P: Block | None
    sum_Q: Block | None


class _Slab(NamedTuple):
    """Some rows of a CSR matrix, in the working precision, with `indptr` starting at 0."""

    rows: int
    columns: int
    indptr: Block
    indices: Block
    data: Block


# ------------------------------------------------------------------------------------------------------------
# Products
# ------------------------------------------------------------------------------------------------------------


def matmat(A: CSR, V: Block, dtype: DTypeLike) -> Block:
    """A V.

    Parameters
    ----------
    A : csr_array or csr_matrix, n x p
        Real, integer or boolean; duplicate and unsorted entries are fine.
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
        A is not CSR, or its entries are not real numbers.
    """
    dtype = _working(dtype)
    _require_csr(A, "A")
    _require_block(V, A.shape[1], "V", "columns of A")
    n, k = A.shape[0], V.shape[1]
    result = np.zeros((n, k), dtype)
    if result.size == 0 or A.nnz == 0:
        return result
    V = np.ascontiguousarray(V, dtype)

    def fill(rows: tuple[int, int]) -> None:
        for start, stop in _slabs((A,), *rows, rows=n, entries=8 * SLAB_ENTRIES):
            _gather(_slab(A, start, stop, dtype), V, result[start:stop])

    threads = _threads(A.nnz * k)
    machine.map_parallel(fill, _partition((A,), threads * SLABS_PER_THREAD if threads > 1 else 1))
    return result


def rmatmat(A: CSR, U: Block, dtype: DTypeLike) -> Block:
    """Aᵀ U, its sums over rows accumulated in float64.

    Parameters
    ----------
    A : csr_array or csr_matrix, n x p
        Real, integer or boolean; duplicate and unsorted entries are fine.
    U : ndarray, n x k
        Any real dtype and memory order; converted slab by slab.
    dtype : float32 or float64
        The precision of the products, and of sums over at most `FLOAT32_ROWS` rows.

    Returns
    -------
    ndarray, p x k
        C-ordered float64.

    Raises
    ------
    InvalidProblem
        The shapes do not fit, or `dtype` is neither float32 nor float64.
    UnsupportedData
        A is not CSR, or its entries are not real numbers.
    """
    dtype = _working(dtype)
    _require_csr(A, "A")
    _require_block(U, A.shape[0], "U", "rows of A")
    p, k = A.shape[1], U.shape[1]
    if p * k == 0 or A.nnz == 0:
        return np.zeros((p, k))
    threads = _scatter_threads((A,), k, dtype)
    count = _tiles(k, p * dtype.itemsize * threads, dtype)
    tiles = [U[:, k * i // count : k * (i + 1) // count] for i in range(count)]
    return np.concatenate([_rmatmat_tile(A, tile, dtype, threads) for tile in tiles], axis=1)


def _rmatmat_tile(A: CSR, U: Block, dtype: np.dtype[Any], threads: int) -> Block:
    k = U.shape[1]

    def scatter(rows: tuple[int, int]) -> Block:
        accumulator = _Accumulator(A.shape[1], k, dtype)
        for start, stop in _slabs((A,), *rows, rows=_slab_rows(k, dtype), entries=SLAB_ENTRIES):
            accumulator.add(_slab(A, start, stop, dtype), np.ascontiguousarray(U[start:stop], dtype))
        return accumulator.total()

    return _add_up(machine.map_parallel(scatter, _partition((A,), threads)), (A.shape[1], k))


def products(
    X: CSR,
    Y: CSR | None,
    Vx: Block | None,
    Vy: Block | None,
    *,
    shift_x: Block | None = None,
    shift_y: Block | None = None,
    dtype_x: DTypeLike,
    dtype_y: DTypeLike,
) -> Products:
    """Xᵀ[P Q], Yᵀ[P Q] and the column sums of P = X Vx - 1 shift_xᵀ and Q = Y Vy - 1 shift_yᵀ, in one sweep.

    Parameters
    ----------
    X : csr_array or csr_matrix, n x p
    Y : csr_array or csr_matrix, n x q, or None
        None: everything that needs Y is None.
    Vx : ndarray, p x kx, or None
        None: there is no P.
    Vy : ndarray, q x ky, or None
        None: there is no Q.
    shift_x, shift_y : ndarray of kx, of ky numbers, or None
        Subtracted from every row of X Vx, of Y Vy. None: nothing is.
    dtype_x, dtype_y : float32 or float64
        The precision of P, of Q. Where they differ, the products with Xᵀ and Yᵀ are formed in float64.

    Returns
    -------
    Products
        Float64 blocks, a tuple (XtP, XtQ, YtP, YtQ, sum_P, sum_Q).

    Raises
    ------
    InvalidProblem
        Shapes do not fit one another, or a dtype is neither float32 nor float64.
    UnsupportedData
        X or Y is not CSR, or its entries are not real numbers.
    """
    views = [_View.of("X", X, Vx, shift_x, dtype_x)]
    if Y is not None:
        views.append(_View.of("Y", Y, Vy, shift_y, dtype_y))
        _require_same_rows(X, Y)
    elif Vy is not None or shift_y is not None:
        raise InvalidProblem("Vy and shift_y belong to Y, but Y is None. Pass Y, or leave them out.")
    matrices = tuple(view.matrix for view in views)
    dtype = np.result_type(*(view.dtype for view in views if view.V is not None), np.float32)
    width = sum(view.width for view in views)
    threads = _scatter_threads(matrices, width, dtype)
    count = _tiles(width, sum(matrix.shape[1] for matrix in matrices) * dtype.itemsize * threads, dtype)
    pieces = [_sweep([view.tile(i, count) for view in views], dtype, threads) for i in range(count)]
    return Products(*(_side_by_side(parts) for parts in zip(*pieces, strict=True)))


class _View(NamedTuple):
    """One matrix of a fused sweep with the block that it multiplies."""

    matrix: CSR
    V: Block | None
    shift: Block | None
    dtype: np.dtype[Any]

    @classmethod
    def of(cls, name: str, matrix: CSR, V: Block | None, shift: Block | None, dtype: DTypeLike) -> _View:
        dtype = _working(dtype)
        lower = name.lower()
        _require_csr(matrix, name)
        if V is None:
            if shift is not None:
                raise InvalidProblem(
                    f"shift_{lower} was given without V{lower}. Pass V{lower}, or leave it out."
                )
            return cls(matrix, None, None, dtype)
        _require_block(V, matrix.shape[1], f"V{lower}", f"columns of {name}")
        if shift is not None:
            shift = np.asarray(shift, dtype)
            if shift.shape != (V.shape[1],):
                raise InvalidProblem(
                    f"shift_{lower} must hold one number for each of the {V.shape[1]} columns of V{lower}; "
                    f"got shape {shift.shape}."
                )
        return cls(matrix, np.ascontiguousarray(V, dtype), shift, dtype)

    @property
    def width(self) -> int:
        return 0 if self.V is None else int(self.V.shape[1])

    def tile(self, index: int, count: int) -> _View:
        """The view with the `index`-th of `count` runs of its columns."""
        if self.V is None or count == 1:
            return self
        run = slice(self.width * index // count, self.width * (index + 1) // count)
        shift = None if self.shift is None else self.shift[run]
        return self._replace(V=np.ascontiguousarray(self.V[:, run]), shift=shift)

    def multiply(self, slab: _Slab, out: Block) -> None:
        """Write the slab's rows of matrix @ V - shift."""
        if self.V is None or not self.width:
            return
        slab = slab if slab.data.dtype == self.dtype else slab._replace(data=slab.data.astype(self.dtype))
        product = out
        # The kernel needs a block without gaps; a piece of a wider one, or of another precision, goes through
        # a copy.
        if not out.flags.c_contiguous or out.dtype != self.dtype:
            product = np.empty(out.shape, self.dtype)
        product[...] = 0
        _gather(slab, self.V, product)
        if self.shift is not None:
            np.subtract(product, self.shift, out=out)
        elif product is not out:
            out[...] = product


def _sweep(views: list[_View], dtype: np.dtype[Any], threads: int) -> Products:
    """The products of the views' columns, in one pass over the rows."""
    matrices = tuple(view.matrix for view in views)
    ends = np.cumsum([view.width for view in views]).tolist()
    width = ends[-1]
    slab_rows = _slab_rows(width, dtype)

    def sweep(rows: tuple[int, int]) -> tuple[list[Block], Block]:
        accumulators = [_Accumulator(matrix.shape[1], width, dtype) for matrix in matrices]
        sums = np.zeros(width)
        buffer = np.empty((min(slab_rows, rows[1] - rows[0]), width), dtype)
        for start, stop in _slabs(matrices, *rows, rows=slab_rows, entries=SLAB_ENTRIES):
            block = buffer[: stop - start]
            slabs = [_slab(matrix, start, stop, dtype) for matrix in matrices]
            for view, slab, end in zip(views, slabs, ends, strict=True):
                view.multiply(slab, block[:, end - view.width : end])
            sums += _column_sums(block)
            for accumulator, slab in zip(accumulators, slabs, strict=True):
                accumulator.add(slab, block)
        return [accumulator.total() for accumulator in accumulators], sums

    parts = machine.map_parallel(sweep, _partition(matrices, threads)) if width else []
    grams = [
        _add_up([part[0][i] for part in parts], (view.matrix.shape[1], width)) for i, view in enumerate(views)
    ]
    sums = _add_up([part[1] for part in parts], (width,))
    absent: tuple[None, None] = (None, None)
    with_y = _split(grams[1], views) if len(views) == 2 else absent
    return Products(*_split(grams[0], views), *with_y, *_split(sums, views))


def _column_sums(block: Block) -> Block:
    """Column sums in float64; those of float32 go in short stretches first: a converting sum is several times
    slower."""
    if block.dtype == np.float32:
        block = np.add.reduceat(block, np.arange(0, block.shape[0], STRETCH), axis=0)
    sums: Block = block.sum(axis=0, dtype=np.float64)
    return sums


def _split(block: Block, views: list[_View]) -> tuple[Block | None, Block | None]:
    """The columns of P and those of Q."""
    cut = views[0].width
    left = None if views[0].V is None else np.ascontiguousarray(block[..., :cut])
    right = None if len(views) == 1 or views[1].V is None else np.ascontiguousarray(block[..., cut:])
    return left, right


def _side_by_side(parts: tuple[Block | None, ...]) -> Block | None:
    tiles = [part for part in parts if part is not None]
    if len(tiles) < 2:
        return tiles[0] if tiles else None
    return np.concatenate(tiles, axis=-1)


# ------------------------------------------------------------------------------------------------------------
# Statistics, Gram matrices, rows
# ------------------------------------------------------------------------------------------------------------


def column_statistics(A: CSR) -> tuple[Block, Block]:
    """Sums and sums of squares of the columns.

    Parameters
    ----------
    A : csr_array or csr_matrix, n x p
        Entries stored twice count as one, their sum, before squaring. True counts as 1.

    Returns
    -------
    sums, squares : ndarray, p
        Float64.

    Raises
    ------
    UnsupportedData
        A is not CSR, or its entries are not real numbers.
    """
    _require_csr(A, "A")
    p = A.shape[1]

    def add(rows: tuple[int, int]) -> Block:
        statistics = np.zeros((2, p, 1))
        for start, stop in _slabs((A,), *rows, rows=A.shape[0], entries=8 * SLAB_ENTRIES):
            slab = _without_duplicates(_slab(A, start, stop, np.dtype(np.float64)))
            ones = np.ones((slab.rows, 1))
            _scatter(slab, ones, statistics[0])
            _scatter(slab._replace(data=slab.data * slab.data), ones, statistics[1])
        return statistics

    parts = _partition((A,), _scatter_threads((A,), 1, np.dtype(np.float64))) if A.nnz else []
    sums, squares = _add_up(machine.map_parallel(add, parts), (2, p, 1))[..., 0]
    return np.ascontiguousarray(sums), np.ascontiguousarray(squares)


def pair_count(X: CSR, Y: CSR | None = None) -> int:
    """Multiply-adds of XᵀY, or of XᵀX: the sum over the rows of (entries of X's row) x (entries of Y's row).

    Parameters
    ----------
    X : csr_array or csr_matrix, n x p
    Y : csr_array or csr_matrix, n x q, optional

    Returns
    -------
    int
        An upper bound, too, on the entries of the Gram matrix. Found from `indptr` alone.
    """
    _require_csr(X, "X")
    other = X if Y is None else Y
    _require_same_rows(X, other)
    total = 0
    for start in range(0, X.shape[0], SLAB_ENTRIES):
        stop = min(start + SLAB_ENTRIES, X.shape[0])
        x_entries, y_entries = (np.diff(A.indptr[start : stop + 1]).astype(np.int64) for A in (X, other))
        # A row's product stays below 2**63 for any matrix in memory; the Python sum cannot overflow.
        total += int(np.sum(x_entries * y_entries, dtype=np.int64))
    return total


def gram(X: CSR, Y: CSR | None = None) -> CSR:
    """The sparse matrix XᵀY, or XᵀX, accumulated in float64.

    Parameters
    ----------
    X : csr_array or csr_matrix, n x p
    Y : csr_array or csr_matrix, n x q, optional

    Returns
    -------
    csr_array or csr_matrix
        p x q, or p x p, float64, of X's kind, without duplicate entries. `pair_count` bounds its size and
        cost beforehand.

    Raises
    ------
    InvalidProblem
        X and Y have different numbers of rows.
    UnsupportedData
        X or Y is not CSR, or its entries are not real numbers.
    """
    _require_csr(X, "X")
    if Y is not None:
        _require_csr(Y, "Y")
        _require_same_rows(X, Y)
    right = _in_float64(X if Y is None else Y)
    left = _in_float64(X).T.tocsr()
    product = left @ right
    product.sort_indices()
    return product


def row_block(A: CSR, start: int, stop: int) -> CSR:
    """Rows start to stop of A, sharing its entries.

    Parameters
    ----------
    A : csr_array or csr_matrix, n x p
    start, stop : int
        0 <= start <= stop <= n.

    Returns
    -------
    csr_array or csr_matrix
        (stop - start) x p; `data` and `indices` are views of A's, only `indptr` is new.

    Raises
    ------
    InvalidProblem
        The rows are not within the matrix.
    """
    _require_csr(A, "A")
    if not 0 <= start <= stop <= A.shape[0]:
        raise InvalidProblem(
            f"the rows {start} to {stop} are not within a matrix of {A.shape[0]} rows. Give 0 <= start <= stop <= rows."
        )
    first, last = int(A.indptr[start]), int(A.indptr[stop])
    return _assembled(
        _kind(A),
        (stop - start, A.shape[1]),
        A.indptr[start : stop + 1] - A.indptr[start],
        A.indices[first:last],
        A.data[first:last],
    )


def first_non_finite(A: CSR) -> tuple[int, int, float] | None:
    """The first stored entry, in the order of rows, that is infinite or not a number.

    Parameters
    ----------
    A : csr_array or csr_matrix, n x p

    Returns
    -------
    (row, column, value) or None
        None: every stored entry is finite. Costs one reading of the entries.
    """
    _require_csr(A, "A")
    if not np.issubdtype(A.data.dtype, np.inexact):
        return None
    for start in range(0, int(A.indptr[-1]), SLAB_ENTRIES):
        piece = A.data[start : min(start + SLAB_ENTRIES, int(A.indptr[-1]))]
        finite = np.isfinite(piece)
        if not finite.all():
            position = start + int(np.argmin(finite))
            row = int(np.searchsorted(A.indptr, position, side="right")) - 1
            return row, int(A.indices[position]), float(A.data[position])
    return None


# ------------------------------------------------------------------------------------------------------------
# Plan: which rows, which columns, how many threads
# ------------------------------------------------------------------------------------------------------------


def _partition(matrices: tuple[CSR, ...], parts: int) -> list[tuple[int, int]]:
    """At most `parts` runs of rows, none empty, about equal in stored entries over all the matrices."""
    n = matrices[0].shape[0]
    indptrs = [matrix.indptr for matrix in matrices]

    def cost(row: int) -> int:
        return ROW_COST * row + sum(int(indptr[row]) for indptr in indptrs)

    total = cost(n)
    cuts = [bisect_left(range(n + 1), total * part // parts, key=cost) for part in range(parts + 1)]
    return [(start, stop) for start, stop in zip(cuts, cuts[1:], strict=False) if start < stop]


def _slabs(
    matrices: tuple[CSR, ...], start: int, stop: int, *, rows: int, entries: int
) -> Iterator[tuple[int, int]]:
    """Cut a run of rows into slabs of at most `rows` rows and, unless one row has more, `entries` stored
    entries."""
    indptrs = [matrix.indptr for matrix in matrices]

    def stored(row: int) -> int:
        return sum(int(indptr[row]) for indptr in indptrs)

    while start < stop:
        end = min(start + rows, stop)
        allowed = stored(start) + entries
        if stored(end) > allowed:
            end = max(start + 1, start + bisect_right(range(start, end + 1), allowed, key=stored) - 1)
        yield start, end
        start = end


def _slab_rows(k: int, dtype: np.dtype[Any]) -> int:
    return int(min(FLOAT32_ROWS, max(64, SLAB_BYTES // (max(1, k) * dtype.itemsize))))


def _tiles(k: int, column_bytes: float, dtype: np.dtype[Any]) -> int:
    """Into how many tiles to cut k columns, each of which takes `column_bytes` of accumulators over all
    threads."""
    if k * column_bytes <= machine.cache_size() / 2:
        return 1
    narrowest = TILE_BYTES // dtype.itemsize
    tile = max(narrowest, int(machine.cache_size() / 2 / column_bytes))
    return -(-k // tile)


def _threads(work: int) -> int:
    return int(max(1, min(machine.cpu_count(), work // WORK_PER_THREAD)))


def _scatter_threads(matrices: tuple[CSR, ...], k: int, dtype: np.dtype[Any]) -> int:
    """Threads for sums over rows: each keeps an accumulator, which must be worth its making and fit the
    memory."""
    entries = sum(matrix.nnz for matrix in matrices)
    columns = sum(matrix.shape[1] for matrix in matrices)
    threads = min(_threads(entries * k), entries // max(1, columns))
    if threads > 1:
        accumulator = columns * k * (8 if dtype == np.float64 else 12)
        threads = min(threads, machine.available_memory() // 4 // max(1, accumulator))
    return int(max(1, threads))


# ------------------------------------------------------------------------------------------------------------
# Slabs and the compiled kernels
# ------------------------------------------------------------------------------------------------------------


class _Accumulator:
    """A sum over rows of slabᵀ block, in float64 from stretches of rows that are short enough for the working
    precision."""

    def __init__(self, columns: int, k: int, dtype: np.dtype[Any]) -> None:
        self._total = np.zeros((columns, k))
        # In float64 the slabs are scattered straight into the total.
        self._partial = self._total if dtype == np.float64 else np.zeros((columns, k), dtype)
        self._rows = 0

    def add(self, slab: _Slab, block: Block) -> None:
        if self._rows + slab.rows > FLOAT32_ROWS:
            self._fold()
        _scatter(slab, block, self._partial)
        self._rows += slab.rows

    def total(self) -> Block:
        self._fold()
        return self._total

    def _fold(self) -> None:
        if self._partial is not self._total and self._rows:
            np.add(self._total, self._partial, out=self._total)
            self._partial.fill(0)
        self._rows = 0


def _add_up(blocks: list[Block], shape: tuple[int, ...]) -> Block:
    """The sum of the threads' accumulators, in their order; the first one is overwritten."""
    if not blocks:
        return np.zeros(shape)
    total = blocks[0]
    for block in blocks[1:]:
        total += block
    return total


def _slab(A: CSR, start: int, stop: int, dtype: np.dtype[Any]) -> _Slab:
    # Everything is cut to the slab first: whatever must be converted, here or by SciPy, is converted a slab
    # at a time.
    first, last = int(A.indptr[start]), int(A.indptr[stop])
    return _Slab(
        rows=stop - start,
        columns=A.shape[1],
        indptr=A.indptr[start : stop + 1] - A.indptr[start],
        indices=A.indices[first:last],
        data=np.ascontiguousarray(A.data[first:last], dtype),
    )


def _without_duplicates(slab: _Slab) -> _Slab:
    matrix = _assembled(sparse.csr_array, (slab.rows, slab.columns), slab.indptr, slab.indices, slab.data)
    if matrix.has_canonical_format:
        return slab
    matrix = matrix.copy()
    matrix.sum_duplicates()
    return slab._replace(indptr=matrix.indptr, indices=matrix.indices, data=matrix.data)


def _gather(slab: _Slab, V: Block, out: Block) -> None:
    """out += slab V. All of one dtype, `V` and `out` C-ordered without gaps."""
    kernels = _compiled()
    if kernels is None:
        out += _matrix(slab) @ V
    else:
        kernels[0](
            slab.rows, slab.columns, V.shape[1], slab.indptr, slab.indices, slab.data, V.ravel(), out.ravel()
        )


def _scatter(slab: _Slab, block: Block, out: Block) -> None:
    """out += slabᵀ block. All of one dtype, `block` and `out` C-ordered without gaps."""
    kernels = _compiled()
    if kernels is None:
        out += _matrix(slab).T @ block
    else:
        # The arrays of the rows of a matrix are those of the columns of its transpose.
        kernels[1](
            slab.columns,
            slab.rows,
            block.shape[1],
            slab.indptr,
            slab.indices,
            slab.data,
            block.ravel(),
            out.ravel(),
        )


@lru_cache(maxsize=1)
def _compiled() -> tuple[Callable[..., None], Callable[..., None]] | None:
    """SciPy's kernels for CSR and CSC times a block, added into a given block; None where they do not do
    that."""
    gather, scatter = (getattr(_sparsetools, name, None) for name in ("csr_matvecs", "csc_matvecs"))
    if gather is None or scatter is None:
        return None
    # [[0, 2, 0], [3, 0, 5]], once as rows and once as the columns of its transpose.
    indptr, indices, data = (
        np.array([0, 1, 3], np.int32),
        np.array([1, 0, 2], np.int32),
        np.array([2.0, 3.0, 5.0]),
    )
    V, U = np.arange(1.0, 7.0).reshape(3, 2), np.arange(1.0, 5.0).reshape(2, 2)
    AV, AtU = np.ones((2, 2)), np.ones((3, 2))
    try:
        gather(2, 3, 2, indptr, indices, data, V.ravel(), AV.ravel())
        scatter(3, 2, 2, indptr, indices, data, U.ravel(), AtU.ravel())
    except Exception:  # whatever a changed private function may raise
        return None
    right = np.array_equal(AV, [[7, 9], [29, 37]]) and np.array_equal(AtU, [[10, 13], [3, 5], [16, 21]])
    return (gather, scatter) if right else None


def _matrix(slab: _Slab) -> CSR:
    return _assembled(sparse.csr_array, (slab.rows, slab.columns), slab.indptr, slab.indices, slab.data)


def _assembled(kind: Any, shape: tuple[int, int], indptr: Block, indices: Block, data: Block) -> CSR:
    # The constructor would copy 64-bit indices that fit 32 bits; setting the three arrays shares them.
    matrix = kind(shape, dtype=data.dtype)
    matrix.data, matrix.indices, matrix.indptr = data, indices, indptr
    return matrix


def _in_float64(A: CSR) -> CSR:
    if A.dtype == np.float64:
        return A
    return _assembled(_kind(A), A.shape, A.indptr, A.indices, A.data.astype(np.float64))


def _kind(A: CSR) -> Any:
    return sparse.csr_array if isinstance(A, sparse.sparray) else sparse.csr_matrix


# ------------------------------------------------------------------------------------------------------------
# Checks: the compiled kernels check nothing
# ------------------------------------------------------------------------------------------------------------


def _working(dtype: DTypeLike) -> np.dtype[Any]:
    dtype = np.dtype(dtype)
    if dtype not in (np.float32, np.float64):
        raise InvalidProblem(
            f"products are formed in float32 or float64; got dtype {dtype}. Pass one of the two."
        )
    return dtype


def _require_csr(A: CSR, name: str) -> None:
    if not sparse.issparse(A) or A.format != "csr":
        raise UnsupportedData(
            f"{name} must be a SciPy CSR matrix; got {type(A).__name__}. Convert it with .tocsr()."
        )
    if A.data.dtype.kind not in "biuf":
        raise UnsupportedData(
            f"{name} must hold real numbers; got dtype {A.data.dtype}. Convert it with .astype(float), or use its real part."
        )


def _require_block(V: Block, rows: int, name: str, what: str) -> None:
    if V.ndim != 2 or V.shape[0] != rows:
        raise InvalidProblem(
            f"{name} must be a block of {rows} rows, one for each of the {what}; got shape {V.shape}. "
            "Pass a two-dimensional array, a vector as one column."
        )


def _require_same_rows(X: CSR, Y: CSR) -> None:
    if X.shape[0] != Y.shape[0]:
        raise InvalidProblem(
            f"X and Y must have the same rows; got {X.shape[0]} and {Y.shape[0]}. Pass views of the same samples."
        )
