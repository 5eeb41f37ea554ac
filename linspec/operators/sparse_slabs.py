"""Slabs of SciPy sparse rows (CSR): the division of rows among threads, and the loops that add into an array.

Problem: kernels on sparse rows need equal work for each thread, pieces that fit the cache, memory for the sums of each
thread, and products that add into a given array.

Method: contiguous slabs of rows, balanced by their stored entries, run on the process's thread pool; SciPy's compiled
kernels release the interpreter lock. There are more parts than threads, and each thread takes the next free part, so
that a core that is busy with other work does not delay the other cores. A float32 sum over rows runs over a stretch
of rows and is then added into float64. Columns of the block are cut into tiles only if the memory that all threads
together access at random is more than half of the cache, and if tiles that fit there are not narrow: every tile reads
the matrix again. Rows of the block that are seldom used do not count: in word counts, for example, most entries are
in a few columns.

Source: Higham, "Accuracy and Stability of Numerical Algorithms", chapter 4, explains why a blocked sum is more
accurate.

Where we differ: SciPy's kernels that add into a given array are private (`scipy.sparse._sparsetools`). They are tested
once on a small product. If they are missing or have changed, the public operators replace them, at the cost of a
temporary block. Slabs are sized by entries, not by a core's own cache: a slab must use each column several times, or
else the blocks V and Xᵀ P evict each other from the cache at every slab. If the accumulators do not fit into memory,
tiles of columns are processed one after the other, or there are fewer parts.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import DTypeLike, NDArray
from scipy import sparse

from linspec.errors import InvalidProblem, UnsupportedData
from linspec.process import machine
from linspec.process.pauses import pause

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

try:
    from scipy.sparse import _sparsetools
except ImportError:  # pragma: no cover - private: a future SciPy may lack it
    _sparsetools = None

CSR: TypeAlias = Any
"""A `scipy.sparse.csr_array` or `csr_matrix`; SciPy ships no types."""
Block: TypeAlias = NDArray[Any]

# Measurements are by docs/evidence/measure_sparse_constants.py on two busy cores: ratios of processor seconds, with
# 5 % of noise. Names of matrices are those of the script.

# Fewest rows over which a float32 sum runs before it is added into float64: more are less exact, fewer are slower.
# A quarter takes 1.9 times as long on "few columns" (Aᵀ A V, 20 columns); with four times as many errors double.
SHORTEST_STRETCH = 2**12
# Most such rows. A quarter takes 1.5 to 1.7 times as long on "bigrams"; with four times as many errors quadruple.
LONGEST_STRETCH = 2**15
# Entries of A in a stretch of rows for each row of the sum that is added into float64. A quarter takes 1.1 times as
# long on "titles" and "uniform", and more gain nothing.
ENTRIES_PER_FOLD = 32
# Most entries and most dense bytes of a slab: bounds on memory. A quarter of the entries takes 1.1 times as long on
# "posts" with one column. A quarter of the bytes takes 1.1 times as long on "few columns" with 100 columns, and 0.8
# times on "bigrams" with 20.
ENTRIES_PER_SLAB = 2**21
MOST_DENSE_BYTES = 2**23
# Multiply-adds that justify a further thread. With a quarter, A V of two to four million takes 1.1 to 1.3 times the
# processor time on "titles", and Aᵀ A 1.2 times. Wall-clock ratios vary between 0.8 and 1.4 on busy cores.
WORK_PER_THREAD = 2**21
# Parts for each thread. Any thread takes any part, so that a core that is busy with other work delays nothing. On busy
# cores one part takes 1.3 times the wall-clock time for A V on "titles", and eight take 1.3 times on "bookmarks".
PARTS_PER_THREAD = 2
# A part of a sum over rows justifies its accumulators if each of their numbers is updated this many times. A quarter
# takes 1.3 to 1.5 times the processor time on the first 30 thousand rows of "titles", "zipf" and "uniform". For a half,
# wall-clock ratios vary between 0.7 and 1.3 on busy cores.
MET = 14
# Bytes of accumulators, or of a transposed copy, for which every machine is assumed to have memory. With a quarter Aᵀ U
# takes 1.3 times as long on "titles" with 100 columns.
NEGLIGIBLE_BYTES = 2**24
# Fewest columns of a tile: narrower ones read the matrix too often. Tiles of 8 columns took twice as long as no tiles
# on "many columns"; tiles of 50 columns take 0.87 times as long as none on "uniform" with 100.
WIDE_TILE = 16
# The bytes of last-level cache that tiles are made for: a modest one.
CACHE = 32 * 2**20
# The most frequent columns with this share of the entries are worth keeping in the cache; they are counted on a sample
# of this many entries (more make no difference). If all columns counted, blocks for word counts would be cut into
# tiles, each held beside the whole: lobpcg on 4000 x (12000 + 12000) word counts in float32 takes 1.2 times the memory,
# and Aᵀ A V of 40 and 100 columns up to 1.2 times as long on "posts" and "zipf wide".
FREQUENT, SAMPLED_ENTRIES = 0.9, 2**18


def row_block(A: CSR, start: int, stop: int) -> CSR:
    """Return rows start to stop - 1 of A, sharing its entries.

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
    require_csr(A, "A")
    if not 0 <= start <= stop <= A.shape[0]:
        raise InvalidProblem(
            f"the rows {start} to {stop} are not within a matrix of {A.shape[0]} rows. "
            "Give 0 <= start <= stop <= the number of rows."
        )
    pause()
    first, last = int(A.indptr[start]), int(A.indptr[stop])
    indptr = A.indptr[start : stop + 1] - A.indptr[start]
    shape = stop - start, A.shape[1]
    return assembled(kind_of(A), shape, indptr, A.indices[first:last], A.data[first:last])


def partition(A: CSR, parts: int) -> list[tuple[int, int]]:
    """Cut the rows into at most `parts` non-empty ranges, about equal in rows and in entries."""
    n, stored = A.shape[0], A.indptr.item

    def cost(row: int) -> int:
        return row + int(stored(row))

    inner = [bisect_left(range(n + 1), cost(n) * part // parts, key=cost) for part in range(1, parts)]
    cuts = [0, *inner, n] if cost(n) else [0]
    return [(start, stop) for start, stop in pairwise(cuts) if start < stop]


def slab_bounds(A: CSR, start: int, stop: int, *, rows: int, entries: int) -> Iterator[tuple[int, int]]:
    """Yield bounds of slabs of at most `rows` rows and, unless one row has more, `entries` entries."""
    stored = A.indptr.item
    while start < stop:
        end = min(start + rows, stop)
        allowed = stored(start) + entries
        if stored(end) > allowed:
            end = max(start + 1, start + bisect_right(range(start, end + 1), allowed, key=stored) - 1)
        pause()
        yield start, end
        start = end


def slab_limits(A: CSR, k: int, dtype: np.dtype[Any]) -> tuple[int, int]:
    """Return the most rows and the most entries of a slab that is multiplied with k columns."""
    rows = max(1, MOST_DENSE_BYTES // (max(1, k) * dtype.itemsize))
    return min(rows, stretch(A)) if dtype == np.float32 else rows, ENTRIES_PER_SLAB


def stretch(A: CSR) -> int:
    """Choose the largest number of rows of A over which a float32 sum runs before it is added into float64."""
    rows = ENTRIES_PER_FOLD * A.shape[1] * A.shape[0] // max(1, A.nnz)
    return int(min(max(rows, SHORTEST_STRETCH), LONGEST_STRETCH))


def _tile_count(k: int, A: CSR, copies: int, dtype: np.dtype[Any]) -> int:
    """Choose into how many tiles the k columns are cut: the memory accessed at random shall fit in half of the cache.

    This memory consists of `copies` blocks, each with one row for each column of A and the columns of one
    tile. Of these rows, only those of the most frequent columns count (`_frequent_columns`). The result is 1 if no cut
    is needed, and if tiles would have fewer than `WIDE_TILE` columns.
    """
    room = CACHE // 2
    if k * copies * A.shape[1] * dtype.itemsize <= room:
        return 1
    width = room // max(1, copies * _frequent_columns(A) * dtype.itemsize)
    return 1 if width < WIDE_TILE else -(-k // width)


def _frequent_columns(A: CSR) -> int:
    """Estimate from a sample how many columns together have most (the share `FREQUENT`) of the entries."""
    if A.nnz == 0:
        return 0
    step = max(1, A.nnz // SAMPLED_ENTRIES)
    met = np.bincount(A.indices[: A.nnz : step], minlength=A.shape[1])
    by_times = np.bincount(met)  # number of columns with one entry, two entries, ...
    entries = np.cumsum((by_times * np.arange(len(by_times)))[::-1])
    least = int(np.searchsorted(entries, FREQUENT * entries[-1]))
    return int(by_times[::-1][: least + 1].sum())


def thread_count(work: int) -> int:
    """Choose the number of threads for a number of multiply-adds."""
    return int(max(1, min(machine.cpu_count(), work // WORK_PER_THREAD)))


def shares(A: CSR, k: int, dtype: np.dtype[Any]) -> tuple[int, int]:
    """Choose the pair (number of parts of the rows, number of tiles of the k columns) for a sum over rows.

    Each part has accumulators of its own, which must be zeroed, held in memory and added up. So a part must update each
    number of its accumulators at least `MET` times on average. Within this limit there are `PARTS_PER_THREAD` parts for
    each thread: each thread takes the next free part, so a core that is busy with other work takes fewer parts. There
    is one part if one thread does all the work, or if the limit allows only two parts: a busy core would then still
    have half of the work.

    If the accumulators of all parts do not fit into memory together, there are more tiles, or fewer parts.
    """
    entries, columns = int(A.nnz), int(A.shape[1])
    threads = thread_count(entries * k)
    worth = entries // (max(1, columns) * MET)
    parts = min(threads * PARTS_PER_THREAD, worth) if threads > 1 and worth > 2 else 1
    tiles = _tile_count(k, A, min(threads, parts), dtype)
    each = columns * k * (8 if dtype == np.float64 else 12)
    # Reading the available memory from the system costs as much as a small product.
    if parts == 1 or parts * each <= tiles * NEGLIGIBLE_BYTES:
        return parts, tiles
    spare = machine.available_memory() // 4
    room = min(spare, max(NEGLIGIBLE_BYTES, 4 * columns * k))  # half of the result
    tiles = max(tiles, min(-(-parts * each // max(1, room)), k // WIDE_TILE))
    held = max(room * tiles // each, min(2, spare * tiles // each))
    return int(max(1, min(parts, held))), int(tiles)


class Slab(NamedTuple):
    """Some rows of a CSR matrix in a working precision, with an `indptr` that begins with 0."""

    rows: int
    columns: int
    indptr: Block
    indices: Block
    data: Block

    @classmethod
    def of(cls, A: CSR, start: int, stop: int, dtype: np.dtype[Any]) -> Slab:
        """The slab of rows start to stop - 1 of A; only these rows are converted to `dtype`."""
        first, last = int(A.indptr[start]), int(A.indptr[stop])
        indptr = A.indptr[start : stop + 1]
        indptr = indptr - A.indptr[start] if first else indptr
        data = np.ascontiguousarray(A.data[first:last], dtype)
        return cls(stop - start, A.shape[1], indptr, A.indices[first:last], data)

    @property
    def matrix(self) -> CSR:
        """The slab as a SciPy matrix that shares its arrays."""
        return assembled(sparse.csr_array, (self.rows, self.columns), self.indptr, self.indices, self.data)

    def without_duplicates(self) -> Slab:
        """The same rows with each entry stored once."""
        matrix = self.matrix
        if matrix.has_canonical_format:
            return self
        matrix = matrix.copy()
        matrix.sum_duplicates()
        return self._replace(indptr=matrix.indptr, indices=matrix.indices, data=matrix.data)

    def gather(self, V: Block, out: Block) -> None:
        """Add slab · V to `out`. All three have the same dtype; `V` and `out` are C-contiguous."""
        kernels = _compiled()
        if kernels is None:
            out += self.matrix @ V
        elif V.shape[1] == 1:
            kernels.gather_one(self.rows, self.columns, *self[2:], V.ravel(), out.ravel())
        else:
            kernels.gather(self.rows, self.columns, V.shape[1], *self[2:], V.ravel(), out.ravel())

    def scatter(self, block: Block, out: Block) -> None:
        """Add slabᵀ · block to `out`. All three have the same dtype; `block` and `out` are C-contiguous."""
        kernels = _compiled()
        # The arrays of the rows of a matrix are the arrays of the columns of its transpose.
        if kernels is None:
            out += self.matrix.T @ block
        elif block.shape[1] == 1:
            kernels.scatter_one(self.columns, self.rows, *self[2:], block.ravel(), out.ravel())
        else:
            kernels.scatter(self.columns, self.rows, block.shape[1], *self[2:], block.ravel(), out.ravel())


class Accumulator:
    """The sum of slabᵀ · block over slabs in float64; float32 sums run over at most `stretch` rows."""

    def __init__(self, shape: tuple[int, int], dtype: np.dtype[Any], stretch: int) -> None:
        self._current = np.zeros(shape, dtype)
        self._folded: Block | None = None
        self._stretch = stretch
        self._rows = 0

    def add(self, slab: Slab, block: Block) -> None:
        if self._rows + slab.rows > self._stretch and self._current.dtype == np.float32:
            if self._folded is None:
                self._folded = self._current.astype(np.float64)
            else:
                self._folded += self._current
            self._current.fill(0)
            self._rows = 0
        slab.scatter(block, self._current)
        self._rows += slab.rows

    def parts(self) -> list[Block]:
        """Return one or two arrays; their sum is the accumulated product."""
        return [self._current] if self._folded is None else [self._folded, self._current]


def add_up(blocks: list[Block], shape: tuple[int, ...]) -> Block:
    """Add up the blocks of the threads in order, in float64; the first float64 block is overwritten."""
    total = next((block for block in blocks if block.dtype == np.float64), None)
    total = np.zeros(shape) if total is None else total
    others = [block for block in blocks if block is not total]
    if not others or not total.size:
        return total

    def add(part: tuple[int, int]) -> None:
        rows = slice(*part)
        for other in others:
            total[rows] += other[rows]

    count = thread_count(total.size * len(others))
    machine.map_parallel(add, list(pairwise(len(total) * i // count for i in range(count + 1))))
    return total


class _Kernels(NamedTuple):
    """SciPy's compiled loops that add the product of a CSR or CSC matrix with a block or a column to a given array."""

    gather: Callable[..., None]
    scatter: Callable[..., None]
    gather_one: Callable[..., None]
    scatter_one: Callable[..., None]


@lru_cache(maxsize=1)
def _compiled() -> _Kernels | None:
    """Return SciPy's compiled loops; None if they are missing or have changed."""
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
    except (MemoryError, RecursionError):  # which proves nothing about the functions
        raise
    except Exception:  # noqa: BLE001  # a private function may change in any way; the public ones stand in
        return False
    expected = [7, 9, 29, 37, 10, 13, 3, 5, 16, 21, 7, 29, 10, 3, 16]
    return bool(np.array_equal(np.concatenate([AV.ravel(), AtU.ravel(), Av, Atu]), expected))


def assembled(kind: Any, shape: tuple[int, int], indptr: Block, indices: Block, data: Block) -> CSR:
    """Make a `csr_array` or a `csr_matrix` (`kind`) that shares the given arrays."""
    # The constructor would copy 64-bit indices that fit 32 bits; setting the three arrays shares them.
    matrix = kind(shape, dtype=data.dtype)
    matrix.data, matrix.indices, matrix.indptr = data, indices, indptr
    return matrix


def kind_of(A: CSR) -> Any:
    """The SciPy class of a CSR matrix: `csr_array` or `csr_matrix`."""
    return sparse.csr_array if isinstance(A, sparse.sparray) else sparse.csr_matrix


def product_dtype(dtype: DTypeLike) -> np.dtype[Any]:
    """Return the dtype of a product; raise if it is neither float32 nor float64."""
    dtype = np.dtype(dtype)
    if dtype not in (np.float32, np.float64):
        raise InvalidProblem(
            f"products are formed in float32 or float64; got dtype {dtype}. Pass one of the two."
        )
    return dtype


def require_csr(A: CSR, name: str) -> None:
    """Raise an error unless A is a CSR matrix of real numbers."""
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


def require_block(V: Block, rows: int, name: str, what: str) -> None:
    """Raise an error unless V is a two-dimensional array of real numbers with the given number of rows."""
    if np.ndim(V) != 2 or V.shape[0] != rows:
        raise InvalidProblem(
            f"{name} must be a block of {rows} rows, one for each of the {what}; got shape {np.shape(V)}. "
            "Pass a two-dimensional array, a vector as one column."
        )
    _require_real(V, name)


def require_same_rows(X: CSR, Y: CSR) -> None:
    """Raise an error if two matrices differ in their number of rows."""
    if X.shape[0] != Y.shape[0]:
        raise InvalidProblem(
            f"X and Y must have the same rows; got {X.shape[0]} and {Y.shape[0]}. Pass views of one sample."
        )
