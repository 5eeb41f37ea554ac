"""Threaded products of SciPy sparse rows (CSR) with dense blocks.

Problem: the iterative methods need A V, Aᵀ U and the fused pair V -> Aᵀ A V for n x p sparse A and blocks of
k columns, many times over. SciPy computes them on one thread, in one piece, and in the precision of the data.

Method: contiguous slabs of rows, balanced by their stored entries, run on the process's thread pool; SciPy's
compiled kernels release the interpreter lock. For A V each slab writes its own rows of one result. For Aᵀ U the
CSR arrays of A are the CSC arrays of Aᵀ. Each part of the rows is scattered into a p x k accumulator of its own, and
the accumulators are added up in their order. There are more parts than threads, and any thread takes any of them, so
that a core that is busy with other work does not hold up the others. Nothing is transposed, unless A has few rows and
U many columns. Then Aᵀ is made for this product, and its rows gather from the short U. The fused sweep multiplies a
slab to P = X Vx and immediately to Xᵀ P, so no n x k block ever exists, and the data are read from memory once. A
float32 sum over rows runs over a stretch of rows and is then added into float64. Columns of the block are cut into
tiles only if all threads together read and write more at random than half of the cache holds, because every tile reads
the matrix again. Rows of the block that are seldom met do not count: nine tenths of the entries of word counts are in
a few columns, and tiles would take up to 1.6 times as long (measured).

Source: the row-slab and scatter forms are folklore of sparse linear algebra (Saad, "Iterative Methods for
Sparse Linear Systems", section 3.5). Higham, "Accuracy and Stability of Numerical Algorithms", chapter 4,
explains why a blocked sum is more accurate.

Where we differ: for sums over rows the assignment of rows to accumulators is fixed, and not first come, first served:
the same data on the same number of threads give the same bits. SciPy's kernels that add into a given array are
private (`scipy.sparse._sparsetools`). They are tried once on a small product. If they are missing or have
changed, the public operators replace them, at the cost of a temporary block. The slabs of the fused sweep are
sized by entries, and not by a core's own cache: a slab must meet each column several times, or else the blocks
V and Xᵀ P evict each other from the cache at every slab (up to 1.7 times slower, measured). If memory does not
hold the accumulators, tiles of columns come one after the other, or there are fewer parts. No BLAS is called inside
the threads.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from functools import lru_cache
from itertools import chain, pairwise
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import DTypeLike, NDArray
from scipy import sparse

from linspec.errors import InvalidProblem, UnsupportedData
from linspec.process import machine
from linspec.process.faults import is_at_limit
from linspec.process.pauses import pause

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

try:
    from scipy.sparse import _sparsetools
except ImportError:  # pragma: no cover - private: a future SciPy may lack it
    _sparsetools = None

CSR: TypeAlias = Any
"""A `scipy.sparse.csr_array` or `csr_matrix`; SciPy ships no types."""
Block: TypeAlias = NDArray[Any]

# Rows over which a float32 sum runs before it is added into float64. More rows make it less exact, fewer rows
# slower. Between these bounds the additions cost about a tenth of the product.
SHORTEST_STRETCH, LONGEST_STRETCH = 2**12, 2**15
ENTRIES_PER_FOLD = 32
# A slab meets each column this many times on average, within bounds on its entries and on its dense rows.
VISITS_PER_SLAB = 32
FEWEST_ENTRIES, MOST_ENTRIES = 2**16, 2**21
MOST_DENSE_BYTES = 2**23
# Below this number of multiply-adds a further thread costs more than it saves: half a millisecond is lost on it.
WORK_PER_THREAD = 2**21
# The same for a product of two sparse matrices, whose multiply-adds are slower.
PAIRS_PER_THREAD = 2**19
# A core's own cache holds twice this many numbers.
CACHED_NUMBERS = 2**14
# Any machine has memory for this many accumulators.
NEGLIGIBLE_BYTES = 2**24
# Narrower tiles would read the matrix again for less than one cache line for each entry.
NARROWEST_TILE_BYTES = 64
# Columns that have this share of the entries are worth keeping in the cache; it is told from so many entries.
FREQUENT, SAMPLED_ENTRIES = 0.9, 2**18
# The same for a sum over rows, where each part has accumulators. A part is worth them if each of their numbers is met
# this many times, or this many times in a fused sweep, which also gathers.
SHARES_PER_THREAD, MET, MET_FUSED = 2, 14, 7
# Tiles are not narrower than this to save memory.
WIDE_TILE = 16
# Parts for each thread if any thread may take any part: this balances cores that are busy with other work.
PARTS_PER_THREAD = 4
# A row costs about as much as this many entries, in addition to its entries.
ROW_COST = 2
# If A has few rows, making Aᵀ first is faster from this number of columns of the product on.
COLUMNS_TO_TRANSPOSE = 32
# Rows that are added side by side, as one long row, before they are added to one another.
ROWS_ABREAST = 64


class Products(NamedTuple):
    """The results of one fused sweep over the rows of X and Y; a result that does not exist is None.

    With P = X Vx - 1 shift_xᵀ and Q = Y Vy - 1 shift_yᵀ: `XtP`, `XtQ`, `YtP`, `YtQ` are the float64 products
    of the transposes, `sum_P` and `sum_Q` the float64 column sums of P and Q.
    """

    XtP: Block | None
    XtQ: Block | None
    YtP: Block | None
    YtQ: Block | None
    sum_P: Block | None
    sum_Q: Block | None


# --------------------------------------------------------------------------------------------------- products


def matmat(A: CSR, V: Block, dtype: DTypeLike) -> Block:
    """Multiply A V.

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
    dtype = _working(dtype)
    _require_csr(A, "A")
    _require_block(V, A.shape[1], "V", "columns of A")
    n, k = A.shape[0], V.shape[1]
    result = np.zeros((n, k), dtype)
    if result.size == 0 or A.nnz == 0:
        return result
    V = np.ascontiguousarray(V, dtype)

    def fill(part: tuple[int, int]) -> None:
        for start, stop in _slabs((A,), *part, rows=n, entries=MOST_ENTRIES):
            _gather(_slab(A, start, stop, dtype), V, result[start:stop])

    threads = _threads(A.nnz * k)
    machine.map_parallel(fill, _partition((A,), threads * PARTS_PER_THREAD if threads > 1 else 1))
    return result


def rmatmat(A: CSR, U: Block, dtype: DTypeLike) -> Block:
    """Multiply Aᵀ U, its sums over rows accumulated in float64.

    Parameters
    ----------
    A : csr_array or csr_matrix, n x p
        Real, integer or boolean (True is 1), converted slab by slab; duplicate and unsorted entries are fine.
    U : ndarray, n x k
        Any real dtype and memory order. Converted slab by slab.
    dtype : float32 or float64
        The precision of the products, and of sums over at most `LONGEST_STRETCH` rows.

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
    dtype = _working(dtype)
    _require_csr(A, "A")
    _require_block(U, A.shape[0], "U", "rows of A")
    p, k = A.shape[1], U.shape[1]
    if p * k == 0 or A.nnz == 0:
        return np.zeros((p, k))
    if k >= COLUMNS_TO_TRANSPOSE and worth_transposing(A, dtype):
        return matmat(A.T.tocsr(), U, dtype)
    parts, tiles = _shares((A,), k, dtype)
    if tiles == 1:
        return _scatter_all(A, U, dtype, parts)
    result = np.empty((p, k))
    for run in (_run(k, tile, tiles) for tile in range(tiles)):
        result[:, run] = _scatter_all(A, U[:, run], dtype, parts)
    return result


def worth_transposing(A: CSR, dtype: np.dtype[Any]) -> bool:
    """Whether Aᵀ U is faster by rows of a transposed copy, and memory has room for the copy.

    The rows of the copy gather from U, which is much smaller than the result here, and no sums are added up between
    threads. The sums over the rows of A have the precision of the product, so this form is not for float32.
    """
    if dtype != np.float64 or 2 * A.shape[0] > A.shape[1]:
        return False
    copied = A.nnz * (A.data.dtype.itemsize + A.indices.dtype.itemsize)
    return bool(copied <= NEGLIGIBLE_BYTES or copied <= machine.available_memory() // 8)


def _scatter_all(A: CSR, U: Block, dtype: np.dtype[Any], parts: int) -> Block:
    """Aᵀ U for one tile of columns, with an accumulator for each part of the rows."""
    shape = A.shape[1], U.shape[1]
    rows, entries = _slab_limits((A,), U.shape[1], dtype)

    def scatter(part: tuple[int, int]) -> list[Block]:
        accumulator = _Accumulator(shape, dtype, _stretch(A))
        for start, stop in _slabs((A,), *part, rows=rows, entries=entries):
            accumulator.add(_slab(A, start, stop, dtype), np.ascontiguousarray(U[start:stop], dtype))
        return accumulator.parts()

    return _add_up(list(chain(*machine.map_parallel(scatter, _partition((A,), parts)))), shape)


def products(  # noqa: PLR0913 (two views, and what is done to their rows)
    X: CSR,
    Y: CSR | None,
    Vx: Block | None,
    Vy: Block | None,
    *,
    shift_x: Block | None = None,
    shift_y: Block | None = None,
    dtype_x: DTypeLike,
    dtype_y: DTypeLike | None = None,
    weights: Block | None = None,
    sums: bool = True,
    onto: tuple[int, ...] = (0, 1),
) -> Products:
    """Form Xᵀ[P Q], Yᵀ[P Q] and the column sums of P and Q in one sweep over the rows.

    P = X Vx - 1 shift_xᵀ and Q = Y Vy - 1 shift_yᵀ, whose rows are multiplied by weights where there are any.

    Parameters
    ----------
    X : csr_array or csr_matrix, n x p
        As for `matmat`.
    Y : csr_array or csr_matrix, n x q, or None
        None: everything that needs Y is None.
    Vx : ndarray, p x kx, or None
        None: there is no P.
    Vy : ndarray, q x ky, or None
        None: there is no Q.
    shift_x, shift_y : ndarray of kx, of ky numbers, or None
        Subtracted from every row of X Vx, of Y Vy. None: nothing is.
    dtype_x, dtype_y : float32 or float64
        The precision of P, of Q (None: that of P). Where they differ, the products with Xᵀ and Yᵀ are formed
        in float64.
    weights : ndarray of shape (n,), optional
        How often each row counts.
    sums : bool, default True
        Whether the column sums are wanted; without, they are zero.
    onto : tuple of int, default (0, 1)
        The matrices by whose transpose is multiplied, 0 for X and 1 for Y.

    Returns
    -------
    Products
        Float64 arrays, a tuple (XtP, XtQ, YtP, YtQ, sum_P, sum_Q); what does not exist is None.

    Raises
    ------
    InvalidProblem
        Shapes do not fit one another, or a dtype is neither float32 nor float64.
    UnsupportedData
        X or Y is not CSR, or entries are not real numbers.
    """
    if Y is None and (Vy is not None or shift_y is not None):
        raise InvalidProblem("Vy and shift_y belong to Y, but Y is None. Pass Y, or leave them out.")
    views = 1 if Y is None else 2
    *grams, totals = _found(
        side_by_side(
            [X, Y][:views],
            [Vx, Vy][:views],
            shifts=[shift_x, shift_y][:views],
            dtypes=[dtype_x, dtype_x if dtype_y is None else dtype_y][:views],
            weights=weights,
            sums=sums,
            onto=onto,
        )
    )
    width = None if Vx is None else int(Vx.shape[1])
    pairs = [_split(block, width, Vy is not None) for block in (*(*grams, None)[:2], totals)]
    return Products(*(part for pair in pairs for part in pair))


def _found(found: tuple[list[Block | None], Block | None]) -> list[Block | None]:
    """What `side_by_side` returns, as one list."""
    return [*found[0], found[1]]


def side_by_side(
    matrices: Sequence[CSR],
    blocks: Sequence[Block | None],
    *,
    shifts: Sequence[Block | None] | None = None,
    dtypes: Sequence[DTypeLike],
    weights: Block | None = None,
    sums: bool = True,
    onto: Sequence[int] | None = None,
) -> tuple[list[Block | None], Block | None]:
    """Form Xᵢᵀ[P₁ P₂ …] and the column sums of [P₁ P₂ …] as `products` does, and copy nothing to tell Pᵢ from Pⱼ.

    Pᵢ = Xᵢ Vᵢ - 1 shiftᵢᵀ, whose rows are multiplied by weights where there are any.

    Parameters
    ----------
    matrices : sequence of csr_array or csr_matrix
        With equally many rows.
    blocks : sequence of ndarray or None
        One for each matrix, or None: it has no Pᵢ.
    shifts : sequence of ndarray or None, optional
        Subtracted from every row of Xᵢ Vᵢ.
    dtypes : sequence of float32 or float64
        The precision of each Pᵢ. Where they differ, the products with Xᵢᵀ are formed in float64.
    weights, sums
        As for `products`.
    onto : sequence of int, optional
        The matrices by whose transpose is multiplied; by default all.

    Returns
    -------
    products : list of ndarray or None
        Xᵢᵀ[P₁ P₂ …], float64; None where it is not wanted.
    sums : ndarray or None
    """
    shifts = [None for _ in matrices] if shifts is None else shifts
    onto = range(len(matrices)) if onto is None else onto
    names = ["X", "Y"] if len(matrices) <= len("XY") else [f"X{i + 1}" for i in range(len(matrices))]
    views = [_View.of(*each) for each in zip(names, matrices, blocks, shifts, dtypes, strict=False)]
    for matrix in matrices[1:]:
        _require_same_rows(matrices[0], matrix)
    dtype = np.result_type(np.float32, *(view.dtype for view in views if view.V is not None))
    width = sum(view.width for view in views)
    parts, count = _shares(tuple(matrices), width, dtype, fused=True)
    if count == 1:
        return _sweep(views, dtype, parts, weights, summed=sums, onto=onto)
    results: list[Block | None] = []
    for tile in range(count):
        tiles = [view.tile(tile, count) for view in views]
        found = _found(_sweep(tiles, dtype, parts, weights, summed=sums, onto=onto))
        if not results:
            results = [None if part is None else np.empty((*part.shape[:-1], width)) for part in found]
        begun = start = 0
        for view, some in zip(views, tiles, strict=True):
            own = _run(view.width, tile, count)
            place = slice(start + own.start, start + own.stop)
            for result, part in zip(results, found, strict=True):
                if result is not None and part is not None:
                    result[..., place] = part[..., begun : begun + some.width]
            begun, start = begun + some.width, start + view.width
    return results[:-1], results[-1]


class _View(NamedTuple):
    """One matrix of a fused sweep and the block that it multiplies."""

    matrix: CSR
    V: Block | None
    shift: Block | None
    dtype: np.dtype[Any]

    @classmethod
    def of(cls, name: str, matrix: CSR, V: Block | None, shift: Block | None, dtype: DTypeLike) -> _View:
        dtype = _working(dtype)
        _require_csr(matrix, name)
        block = f"V{name.lower()}"
        if V is None:
            if shift is not None:
                raise InvalidProblem(
                    f"shift_{name.lower()} shifts {name} {block}, but {block} is None. Pass both or none."
                )
            return cls(matrix, None, None, dtype)
        _require_block(V, matrix.shape[1], block, f"columns of {name}")
        if shift is not None and np.shape(shift) != (V.shape[1],):
            raise InvalidProblem(
                f"shift_{name.lower()} must hold one number for each of the {V.shape[1]} columns of {block}; "
                f"got shape {np.shape(shift)}. Pass a one-dimensional array of that length."
            )
        shift = None if shift is None else np.asarray(shift, dtype)
        return cls(matrix, np.ascontiguousarray(V, dtype), shift, dtype)

    @property
    def width(self) -> int:
        return 0 if self.V is None else int(self.V.shape[1])

    def tile(self, index: int, count: int) -> _View:
        """Keep the `index`-th of `count` runs of the columns of V."""
        if self.V is None or count == 1:
            return self
        run = _run(self.width, index, count)
        shift = None if self.shift is None else self.shift[run]
        return self._replace(V=np.ascontiguousarray(self.V[:, run]), shift=shift)

    def multiply(self, slab: _Slab, out: Block) -> None:
        """Write the slab's rows of matrix V - 1 shiftᵀ."""
        if self.V is None:
            return
        # The kernels need a block without gaps: a part of a wider one, or one of another precision, is a
        # copy.
        direct = out.flags.c_contiguous and out.dtype == self.dtype
        product = out if direct else np.empty(out.shape, self.dtype)
        product[...] = 0 if self.shift is None else -self.shift
        _gather(slab._replace(data=np.asarray(slab.data, self.dtype)), self.V, product)
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
) -> tuple[list[Block | None], Block | None]:
    """Form the products of one tile of columns in one pass over the rows, which are cut into so many parts."""
    matrices = tuple(view.matrix for view in views)
    ends = np.cumsum([view.width for view in views]).tolist()
    width = ends[-1]
    wanted = [i for i in range(len(views)) if i in onto]
    shapes = [(matrices[i].shape[1], width) for i in wanted]
    rows, entries = _slab_limits(matrices, width, dtype)

    def sweep(part: tuple[int, int]) -> list[list[Block]]:
        accumulators = [
            _Accumulator((matrices[i].shape[1], width), dtype, _stretch(matrices[i])) for i in wanted
        ]
        sums = np.zeros(width)
        buffer = np.empty((min(rows, part[1] - part[0]), width), dtype)
        for start, stop in _slabs(matrices, *part, rows=rows, entries=entries):
            block = buffer[: stop - start]
            slabs = [_slab(matrix, start, stop, dtype) for matrix in matrices]
            for view, slab, end in zip(views, slabs, ends, strict=True):
                view.multiply(slab, block[:, end - view.width : end])
            if weights is not None:
                block *= _often(weights, start, stop)
            if summed:
                sums += _column_sums(block)
            for accumulator, i in zip(accumulators, wanted, strict=True):
                accumulator.add(slabs[i], block)
        return [[sums], *(accumulator.parts() for accumulator in accumulators)]

    parts = machine.map_parallel(sweep, _partition(matrices, count)) if width else []
    sums, *grams = (
        _add_up(list(chain(*(part[i] for part in parts))), shape)
        for i, shape in enumerate([(width,), *shapes])
    )
    found = dict(zip(wanted, grams, strict=True))
    return [found.get(i) for i in range(len(views))], sums


def _column_sums(block: Block) -> Block:
    """Sum the columns in float64; a float32 sum runs over one row in `ROWS_ABREAST` of a slab."""
    rows, k = block.shape
    even = rows - rows % ROWS_ABREAST
    # NumPy adds short rows slowly, and adds float32 into float64 slowly: most rows are added as a few long
    # ones.
    abreast = block[:even].reshape(-1, ROWS_ABREAST * k).sum(axis=0).reshape(ROWS_ABREAST, k)
    sums: Block = abreast.sum(axis=0, dtype=np.float64) + block[even:].sum(axis=0, dtype=np.float64)
    return sums


def _split(block: Block | None, first: int | None, second: bool) -> tuple[Block | None, Block | None]:
    """Cut into the columns of P, of which there are so many, and those of Q; None where there is none."""
    if block is None:
        return None, None
    cut = first or 0
    left = None if first is None else np.ascontiguousarray(block[..., :cut])
    return left, np.ascontiguousarray(block[..., cut:]) if second else None


def _run(width: int, index: int, count: int) -> slice:
    """The `index`-th of `count` runs of columns."""
    return slice(width * index // count, width * (index + 1) // count)


# ---------------------------------------------------------------------------- statistics, Gram matrices, rows


def column_statistics(A: CSR, weights: Block | None = None) -> tuple[Block, Block]:
    """Sum the columns and the squares of the columns.

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
    _require_csr(A, "A")
    shape, dtype = (2, A.shape[1], 1), np.dtype(np.float64)
    canonical = one_entry_rows(A) or A.has_canonical_format

    def add(part: tuple[int, int]) -> Block:
        statistics = np.zeros(shape)
        for start, stop in _slabs((A,), *part, rows=LONGEST_STRETCH, entries=MOST_ENTRIES):
            slab = _slab(A, start, stop, dtype)
            slab = slab if canonical else _without_duplicates(slab)
            ones = _often(weights, start, stop)
            _scatter(slab, ones, statistics[0])
            _scatter(slab._replace(data=slab.data * slab.data), ones, statistics[1])
        return statistics

    parts = _partition((A,), _shares((A,), 2, dtype)[0]) if A.nnz else []
    sums, squares = _add_up(machine.map_parallel(add, parts), shape)[..., 0]
    return sums, squares


def _often(weights: Block | None, start: int, stop: int) -> Block:
    """How often each of some rows counts, as a column."""
    return np.ones((stop - start, 1)) if weights is None else np.ascontiguousarray(weights[start:stop, None])


def column_deviations(A: CSR, point: Block, weights: Block | None = None) -> tuple[Block, Block]:
    """Sum the deviations of the columns from a point, and the squares of the deviations: over all rows.

    An entry that is not stored is 0 and deviates like any other. If the point is near the mean, neither sum has
    cancellation.

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
    _require_csr(A, "A")
    shape, dtype = (3, A.shape[1], 1), np.dtype(np.float64)

    def add(part: tuple[int, int]) -> Block:
        sums = np.zeros(shape)
        for start, stop in _slabs((A,), *part, rows=LONGEST_STRETCH, entries=MOST_ENTRIES):
            slab = _without_duplicates(_slab(A, start, stop, dtype))
            ones, gap = _often(weights, start, stop), slab.data - point[slab.indices]
            for values, total in zip((gap, gap * gap, np.ones_like(gap)), sums, strict=True):
                _scatter(slab._replace(data=values), ones, total)
        return sums

    parts = _partition((A,), _shares((A,), 3, dtype)[0]) if A.nnz else []
    gaps, squares, counts = _add_up(machine.map_parallel(add, parts), shape)[..., 0]
    absent = (A.shape[0] if weights is None else float(np.sum(weights))) - counts
    return gaps - absent * point, squares + absent * (point * point)


def pair_count(X: CSR, Y: CSR | None = None) -> int:
    """Count the multiply-adds of XᵀY, or of XᵀX: over the rows, (X's entries) x (Y's entries).

    Parameters
    ----------
    X : csr_array or csr_matrix, n x p
        Only `indptr` is read.
    Y : csr_array or csr_matrix, n x q, optional
        None: Y = X.

    Returns
    -------
    int
        It bounds the entries of the Gram matrix, too.

    Raises
    ------
    InvalidProblem
        X and Y have different numbers of rows.
    UnsupportedData
        X or Y is not CSR, or its entries are not real numbers.
    """
    matrices = (X, X) if Y is None else (X, Y)
    _require_csr(X, "X")
    _require_csr(matrices[1], "Y")
    _require_same_rows(*matrices)
    total = 0
    for start in range(0, X.shape[0], LONGEST_STRETCH):
        stop = min(start + LONGEST_STRETCH, X.shape[0])
        x, y = (np.diff(matrix.indptr[start : stop + 1]).astype(np.int64) for matrix in matrices)
        if float(x.max()) * float(y.max()) * len(x) < 2**62:
            total += int((x * y).sum())
        else:  # 64 bits might not hold the sum
            total += sum(a * b for a, b in zip(x.tolist(), y.tolist(), strict=True))
    return total


SAMPLED_COLUMNS = 64
"""The number of columns of a Gram matrix from which the number of its entries is estimated."""


def gram_entries(X: CSR, Y: CSR) -> float:
    """Estimate the entries of the sparse XᵀY from some of its columns.

    The non-empty columns of Y are ordered by frequency and taken at equal steps, because their entries depend on it.

    Parameters
    ----------
    X : csr_array or csr_matrix, n x p
    Y : csr_array or csr_matrix, n x q

    Returns
    -------
    float
        Exact if Y has at most `SAMPLED_COLUMNS` columns that are not empty.

    Raises
    ------
    InvalidProblem
        X and Y have different numbers of rows.
    UnsupportedData
        X or Y is not CSR, or its entries are not real numbers.
    """
    _require_csr(X, "X")
    _require_csr(Y, "Y")
    _require_same_rows(X, Y)
    # The arrays may hold entries behind the last row, which do not count.
    columns = Y.indices[: Y.indptr[-1]]
    frequency = np.bincount(columns, minlength=Y.shape[1])
    used = int(np.count_nonzero(frequency))
    count = min(used, SAMPLED_COLUMNS)
    by_frequency = np.argsort(frequency, kind="stable")[Y.shape[1] - used :]
    chosen = by_frequency[((np.arange(count) + 0.5) * used / max(count, 1)).astype(np.int64)]
    place = np.full(Y.shape[1], -1)
    place[chosen] = np.arange(count)
    kept = np.flatnonzero(place[columns] >= 0)
    rows = np.searchsorted(Y.indptr, kept, side="right") - 1
    ones = np.ones(len(rows), dtype=np.float32)
    picked = sparse.csr_array((ones, (place[columns[kept]], rows)), shape=(count, Y.shape[0]))
    entries: int = (picked @ X).nnz
    return entries * used / max(count, 1)


def gram(X: CSR, Y: CSR | None = None) -> CSR:
    """Multiply the sparse XᵀY, or XᵀX, accumulated in float64 whatever the precision of the data.

    Parameters
    ----------
    X : csr_array or csr_matrix, n x p
        Real, integer or boolean (True is 1); duplicate and unsorted entries are fine.
    Y : csr_array or csr_matrix, n x q, optional
        None: Y = X.

    Returns
    -------
    csr_array or csr_matrix
        p x p or p x q, float64, of X's kind; each entry is stored once, those of a row in no order.
        `pair_count` bounds its size and its cost beforehand.

    Raises
    ------
    InvalidProblem
        X and Y have different numbers of rows.
    UnsupportedData
        X or Y is not CSR, or its entries are not real numbers.
    """
    _require_csr(X, "X")
    right = X if Y is None else Y
    _require_csr(right, "Y")
    _require_same_rows(X, right)
    left = _in_float64(X)
    if Y is None and one_entry_rows(X):
        return _diagonal_gram(left)
    right = left if Y is None else _in_float64(Y)
    left = left.T.tocsr()
    # The multiply-adds up to each row of the result: the threads take rows of it, so nothing is added up twice.
    counts = np.diff(right.indptr)
    if len(counts) and (counts == counts[0]).all():  # as of one-hot rows
        work = left.indptr.astype(np.int64) * int(counts[0])
    else:
        work = np.concatenate([[0], np.cumsum(counts[left.indices], dtype=np.int64)])[left.indptr]
    threads = min(machine.cpu_count(), int(work[-1]) // PAIRS_PER_THREAD)
    if threads < 2:
        return left @ right
    parts = threads * PARTS_PER_THREAD
    cuts = np.searchsorted(work, [int(work[-1]) * part // parts for part in range(1, parts)])
    bounds = sorted({0, *cuts.tolist(), left.shape[0]})
    return _stacked(
        machine.map_parallel(lambda part: row_block(left, *part) @ right, list(pairwise(bounds))), _kind(X)
    )


def one_entry_rows(X: CSR) -> bool:
    """Whether no row has more than one stored entry, as of one-hot rows: then XᵀX is diagonal.

    Parameters
    ----------
    X : csr_array or csr_matrix, n x p
        Only `indptr` is read.
    """
    return bool(X.indptr[-1] <= X.shape[0] and (np.diff(X.indptr) <= 1).all())


def _diagonal_gram(X: CSR) -> CSR:
    """XᵀX of float64 rows with one entry at most: the squares of each column are added up."""
    columns, stored = X.shape[1], int(X.indptr[-1])
    squares = np.bincount(X.indices[:stored], X.data[:stored] ** 2, minlength=columns)
    met = squares != 0
    indptr = np.concatenate([[0], np.cumsum(met)]).astype(X.indptr.dtype)
    places = np.flatnonzero(met).astype(X.indices.dtype)
    return _assembled(_kind(X), (columns, columns), indptr, places, squares[met].astype(np.float64))


def _stacked(parts: list[CSR], kind: Any) -> CSR:
    """Stack CSR matrices by rows. The list is emptied, so that at most one part is held twice."""
    shape = sum(part.shape[0] for part in parts), parts[0].shape[1]
    total = sum(part.nnz for part in parts)
    index = np.int64 if total > np.iinfo(np.int32).max else parts[0].indices.dtype
    indptr, indices, data = np.zeros(shape[0] + 1, index), np.empty(total, index), np.empty(total)
    row, entry = 0, 0
    while parts:
        part = parts.pop(0)
        indptr[row + 1 : row + 1 + part.shape[0]] = entry + part.indptr[1:].astype(index)
        indices[entry : entry + part.nnz] = part.indices
        data[entry : entry + part.nnz] = part.data
        row, entry = row + part.shape[0], entry + part.nnz
    return _assembled(kind, shape, indptr, indices, data)


def row_block(A: CSR, start: int, stop: int) -> CSR:
    """Take the rows from start to stop of A, sharing its entries.

    Parameters
    ----------
    A : csr_array or csr_matrix, n x p
        The matrix.
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
    UnsupportedData
        A is not CSR, or its entries are not real numbers.
    """
    _require_csr(A, "A")
    if not 0 <= start <= stop <= A.shape[0]:
        raise InvalidProblem(
            f"the rows {start} to {stop} are not within a matrix of {A.shape[0]} rows. "
            "Give 0 <= start <= stop <= the number of rows."
        )
    pause()
    first, last = int(A.indptr[start]), int(A.indptr[stop])
    indptr = A.indptr[start : stop + 1] - A.indptr[start]
    shape = stop - start, A.shape[1]
    return _assembled(_kind(A), shape, indptr, A.indices[first:last], A.data[first:last])


def first_non_finite(A: CSR) -> tuple[int, int, float] | None:
    """Find the first stored entry, row by row, that is infinite or not a number.

    Parameters
    ----------
    A : csr_array or csr_matrix, n x p
        The matrix. Where every entry is finite the entries are read once and nothing is copied.

    Returns
    -------
    (row, column, value) or None
        None: every stored entry is finite.

    Raises
    ------
    UnsupportedData
        A is not CSR, or its entries are not real numbers.
    """
    _require_csr(A, "A")
    if A.data.dtype.kind != "f":
        return None
    stored = int(A.indptr[-1])
    for start in range(0, stored, FEWEST_ENTRIES):
        finite = np.isfinite(A.data[start : min(start + FEWEST_ENTRIES, stored)])
        if not finite.all():
            position = start + int(np.argmin(finite))
            row = int(np.searchsorted(A.indptr, position, side="right")) - 1
            return row, int(A.indices[position]), float(A.data[position])
    return None


# ---------------------------------------------------------- plan: which rows, which columns, how many threads


def _partition(matrices: tuple[CSR, ...], parts: int) -> list[tuple[int, int]]:
    """Cut the rows into at most `parts` runs, none empty, about equal in entries over all the matrices."""
    n, stored = matrices[0].shape[0], _stored(matrices)

    def cost(row: int) -> int:
        return ROW_COST * row + stored(row)

    inner = [bisect_left(range(n + 1), cost(n) * part // parts, key=cost) for part in range(1, parts)]
    cuts = [0, *inner, n] if cost(n) else [0]
    return [(start, stop) for start, stop in pairwise(cuts) if start < stop]


def _stored(matrices: tuple[CSR, ...]) -> Callable[[int], int]:
    """The number of entries before a row, over all the matrices."""
    if len(matrices) == 1:  # a product with one column takes hardly longer than a search by sums
        alone: Callable[[int], int] = matrices[0].indptr.item
        return alone
    indptrs = [matrix.indptr for matrix in matrices]
    return lambda row: sum(int(indptr[row]) for indptr in indptrs)


def _slabs(
    matrices: tuple[CSR, ...], start: int, stop: int, *, rows: int, entries: int
) -> Iterator[tuple[int, int]]:
    """Cut rows into slabs of at most `rows` rows and, unless one row has more, `entries` entries."""
    stored = _stored(matrices)
    while start < stop:
        end = min(start + rows, stop)
        allowed = stored(start) + entries
        if stored(end) > allowed:
            end = max(start + 1, start + bisect_right(range(start, end + 1), allowed, key=stored) - 1)
        pause()
        yield start, end
        start = end


def _slab_limits(matrices: tuple[CSR, ...], k: int, dtype: np.dtype[Any]) -> tuple[int, int]:
    """Bound the rows and the entries of a slab that is multiplied with k columns."""
    rows = max(1, MOST_DENSE_BYTES // (max(1, k) * dtype.itemsize))
    if dtype == np.float32:
        rows = min(rows, *(_stretch(matrix) for matrix in matrices))
    wanted = VISITS_PER_SLAB * sum(matrix.shape[1] for matrix in matrices)
    return rows, min(max(wanted, FEWEST_ENTRIES), MOST_ENTRIES)


def _stretch(A: CSR) -> int:
    """Choose over how many rows a float32 sum may run."""
    rows = ENTRIES_PER_FOLD * A.shape[1] * A.shape[0] // max(1, A.nnz)
    return int(min(max(rows, SHORTEST_STRETCH), LONGEST_STRETCH))


def _tile_count(k: int, matrices: tuple[CSR, ...], copies: int, dtype: np.dtype[Any]) -> int:
    """Choose into how many tiles to cut k columns so that what is met at random stays in half of the cache.

    These are `copies` blocks with a row for each column of the matrices; only rows that are met often count.
    """
    room = machine.cache_size() // 2
    columns = sum(matrix.shape[1] for matrix in matrices)
    if k * copies * columns * dtype.itemsize <= room:
        return 1
    column_bytes = copies * sum(_frequent_columns(matrix) for matrix in matrices) * dtype.itemsize
    if k * column_bytes <= room:
        return 1
    return -(-k // max(NARROWEST_TILE_BYTES // dtype.itemsize, room // column_bytes))


def _frequent_columns(A: CSR) -> int:
    """Count the columns that together have most of the entries, from a sample: of words there are few."""
    if A.nnz == 0:
        return 0
    step = max(1, A.nnz // SAMPLED_ENTRIES)
    met = np.bincount(A.indices[: A.nnz : step], minlength=A.shape[1])
    by_times = np.bincount(met)  # how many columns are met once, twice, ...
    entries = np.cumsum((by_times * np.arange(len(by_times)))[::-1])
    least = int(np.searchsorted(entries, FREQUENT * entries[-1]))
    return int(by_times[::-1][: least + 1].sum())


def _threads(work: int) -> int:
    return int(max(1, min(machine.cpu_count(), work // WORK_PER_THREAD)))


def _shares(
    matrices: tuple[CSR, ...], k: int, dtype: np.dtype[Any], *, fused: bool = False
) -> tuple[int, int]:
    """Choose how to share a sum over rows with k columns: the parts of the rows, and the tiles of columns.

    Each part has accumulators, to be filled with zeros, held and added up. Any thread takes any part, and there are
    more parts than threads where accumulators are met often enough: a core that is busy with other work takes fewer.
    As many parts as two threads would leave one thread with half of the work, however busy its core is: where not even
    three parts are worth their accumulators, there is one.
    """
    entries, columns = _entries(matrices), sum(matrix.shape[1] for matrix in matrices)
    threads = _threads(entries * k)
    worth = entries // (max(1, columns) * (MET_FUSED if fused else MET))
    parts = min(threads * SHARES_PER_THREAD, worth) if threads > 1 and worth > 2 else 1
    # All threads read one V at random. It is as large as one accumulator.
    tiles = _tile_count(k, matrices, min(threads, parts) + fused, dtype)
    each = columns * k * (8 if dtype == np.float64 else 12)
    # Asking the system costs as much as a small product.
    if parts == 1 or parts * each <= tiles * NEGLIGIBLE_BYTES:
        return parts, tiles
    spare = machine.available_memory() // 4
    room = min(spare, max(NEGLIGIBLE_BYTES, 4 * columns * k))  # half of the result
    tiles = max(tiles, min(-(-parts * each // max(1, room)), k // WIDE_TILE))
    held = max(room * tiles // each, min(2, spare * tiles // each))
    return int(max(1, min(parts, held))), int(tiles)


def _entries(matrices: tuple[CSR, ...]) -> int:
    return sum(int(matrix.nnz) for matrix in matrices)


# ----------------------------------------------------------------------------- slabs and the compiled kernels


class _Slab(NamedTuple):
    """Some rows of a CSR matrix, in a working precision, their `indptr` beginning with 0."""

    rows: int
    columns: int
    indptr: Block
    indices: Block
    data: Block


class _Accumulator:
    """A float64 sum of slabᵀ block over slabs; in float32 over no more than a stretch of rows."""

    def __init__(self, shape: tuple[int, int], dtype: np.dtype[Any], stretch: int) -> None:
        self._current = np.zeros(shape, dtype)
        self._folded: Block | None = None
        self._stretch = stretch
        self._rows = 0

    def add(self, slab: _Slab, block: Block) -> None:
        if self._rows + slab.rows > self._stretch and self._current.dtype == np.float32:
            if self._folded is None:
                self._folded = self._current.astype(np.float64)
            else:
                self._folded += self._current
            self._current.fill(0)
            self._rows = 0
        _scatter(slab, block, self._current)
        self._rows += slab.rows

    def parts(self) -> list[Block]:
        """Give the arrays whose sum it is."""
        return [self._current] if self._folded is None else [self._folded, self._current]


def _add_up(blocks: list[Block], shape: tuple[int, ...]) -> Block:
    """Add up the sums of the threads in their order, in float64; a float64 sum among them is overwritten."""
    total = next((block for block in blocks if block.dtype == np.float64), None)
    total = np.zeros(shape) if total is None else total
    others = [block for block in blocks if block is not total]
    if not others or not total.size:
        return total
    # A few rows of all blocks at a time: the sum of these stays in a core's cache.
    step = max(1, CACHED_NUMBERS * len(total) // total.size)

    def add(part: tuple[int, int]) -> None:
        for start in range(*part, step):
            rows = slice(start, min(start + step, part[1]))
            for other in others:
                total[rows] += other[rows]

    count = _threads(total.size * len(others))
    machine.map_parallel(add, list(pairwise(len(total) * i // count for i in range(count + 1))))
    return total


def _slab(A: CSR, start: int, stop: int, dtype: np.dtype[Any]) -> _Slab:
    # Cut first, then convert: then at most a slab is converted, here or by SciPy.
    first, last = int(A.indptr[start]), int(A.indptr[stop])
    indptr = A.indptr[start : stop + 1] - A.indptr[start]
    data = np.ascontiguousarray(A.data[first:last], dtype)
    return _Slab(stop - start, A.shape[1], indptr, A.indices[first:last], data)


def _without_duplicates(slab: _Slab) -> _Slab:
    matrix = _matrix(slab)
    if matrix.has_canonical_format:
        return slab
    matrix = matrix.copy()
    matrix.sum_duplicates()
    return slab._replace(indptr=matrix.indptr, indices=matrix.indices, data=matrix.data)


def _gather(slab: _Slab, V: Block, out: Block) -> None:
    """Add slab V to `out`. All of one dtype; `V` and `out` C-ordered, without gaps."""
    kernels = _compiled()
    if kernels is None:
        out += _matrix(slab) @ V
    elif V.shape[1] == 1:
        kernels.gather_one(slab.rows, slab.columns, *slab[2:], V.ravel(), out.ravel())
    else:
        kernels.gather(slab.rows, slab.columns, V.shape[1], *slab[2:], V.ravel(), out.ravel())


def _scatter(slab: _Slab, block: Block, out: Block) -> None:
    """Add slabᵀ block to `out`. All of one dtype; `block` and `out` C-ordered, without gaps."""
    kernels = _compiled()
    # The arrays of the rows of a matrix are the arrays of the columns of its transpose.
    if kernels is None:
        out += _matrix(slab).T @ block
    elif block.shape[1] == 1:
        kernels.scatter_one(slab.columns, slab.rows, *slab[2:], block.ravel(), out.ravel())
    else:
        kernels.scatter(slab.columns, slab.rows, block.shape[1], *slab[2:], block.ravel(), out.ravel())


class _Kernels(NamedTuple):
    """SciPy's compiled loops that add CSR times, and CSC times, a block or one column into a given array."""

    gather: Callable[..., None]
    scatter: Callable[..., None]
    gather_one: Callable[..., None]
    scatter_one: Callable[..., None]


@lru_cache(maxsize=1)
def _compiled() -> _Kernels | None:
    """Find SciPy's compiled loops; None if they are missing or have changed."""
    names = ("csr_matvecs", "csc_matvecs", "csr_matvec", "csc_matvec")
    if not all(callable(getattr(_sparsetools, name, None)) for name in names):
        return None
    kernels = _Kernels(*(getattr(_sparsetools, name) for name in names))
    return kernels if _as_expected(kernels) else None


def _as_expected(kernels: _Kernels) -> bool:
    # [[0, 2, 0], [3, 0, 5]] as rows, which are also the columns of its transpose.
    csr = np.array([0, 1, 3], np.int32), np.array([1, 0, 2], np.int32), np.array([2.0, 3.0, 5.0])
    V, U = np.arange(1.0, 7.0).reshape(3, 2), np.arange(1.0, 5.0).reshape(2, 2)
    AV, AtU, Av, Atu = np.ones((2, 2)), np.ones((3, 2)), np.ones(2), np.ones(3)
    try:
        kernels.gather(2, 3, 2, *csr, V.ravel(), AV.ravel())
        kernels.scatter(3, 2, 2, *csr, U.ravel(), AtU.ravel())
        kernels.gather_one(2, 3, *csr, np.ascontiguousarray(V[:, 0]), Av)
        kernels.scatter_one(3, 2, *csr, np.ascontiguousarray(U[:, 0]), Atu)
    except Exception as error:  # a private function may change in any way; the public ones stand in
        if is_at_limit(error):  # which says nothing of the functions
            raise
        return False
    expected = [7, 9, 29, 37, 10, 13, 3, 5, 16, 21, 7, 29, 10, 3, 16]
    return bool(np.array_equal(np.concatenate([AV.ravel(), AtU.ravel(), Av, Atu]), expected))


def _matrix(slab: _Slab) -> CSR:
    return _assembled(sparse.csr_array, (slab.rows, slab.columns), slab.indptr, slab.indices, slab.data)


def _assembled(kind: Any, shape: tuple[int, int], indptr: Block, indices: Block, data: Block) -> CSR:
    # The constructor would copy 64-bit indices that fit 32 bits; setting the three arrays shares them.
    matrix = kind(shape, dtype=data.dtype)
    matrix.data, matrix.indices, matrix.indptr = data, indices, indptr
    return matrix


def _in_float64(A: CSR) -> CSR:
    if A.data.dtype == np.float64:
        return A
    return _assembled(_kind(A), A.shape, A.indptr, A.indices, A.data.astype(np.float64))


def _kind(A: CSR) -> Any:
    return sparse.csr_array if isinstance(A, sparse.sparray) else sparse.csr_matrix


# ----------------------------------------------------------------- checks: the compiled kernels check nothing


def _working(dtype: DTypeLike) -> np.dtype[Any]:
    dtype = np.dtype(dtype)
    if dtype not in (np.float32, np.float64):
        raise InvalidProblem(
            f"products are formed in float32 or float64; got dtype {dtype}. Pass one of the two."
        )
    return dtype


def _require_csr(A: CSR, name: str) -> None:
    if not sparse.issparse(A) or A.format != "csr" or A.ndim != 2:
        raise UnsupportedData(
            f"{name} must be a SciPy CSR matrix; got {type(A).__name__}. Convert it with .tocsr()."
        )
    _require_real(A.data, name)


def _require_real(values: Block, name: str) -> None:
    if values.dtype.kind not in "biuf":
        raise UnsupportedData(
            f"{name} must hold real numbers; got dtype {values.dtype}. Convert it, or pass its real part."
        )


def _require_block(V: Block, rows: int, name: str, what: str) -> None:
    if np.ndim(V) != 2 or V.shape[0] != rows:
        raise InvalidProblem(
            f"{name} must be a block of {rows} rows, one for each of the {what}; got shape {np.shape(V)}. "
            "Pass a two-dimensional array, a vector as one column."
        )
    _require_real(V, name)


def _require_same_rows(X: CSR, Y: CSR) -> None:
    if X.shape[0] != Y.shape[0]:
        raise InvalidProblem(
            f"X and Y must have the same rows; got {X.shape[0]} and {Y.shape[0]}. Pass views of one sample."
        )
