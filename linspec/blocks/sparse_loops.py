"""Loops over SciPy sparse rows (CSR): products in slabs that are added into an array, and sparse Gram matrices.

Problem: products of sparse rows need pieces that fit the cache, and results that are added into a given array. Direct
methods need the Gram matrix itself, whose memory and cost must be known before it is formed.
Method: SciPy's compiled kernels, which release the interpreter lock. The kernels that add into a given array are
private (`scipy.sparse._sparsetools`). If they are missing, the public operators replace them, at the cost of a
temporary block. For Gram matrices rows of Xᵀ multiply Y. Each thread computes its own rows of the result, about equal
in multiply-adds, so no partial results are added up. The multiply-adds are counted from the lengths of the rows; the
entries of the result are estimated from some of its columns. If no row has more than one entry, XᵀX is diagonal, and
its diagonal is summed directly. Centring and confounds subtract a matrix of low rank, whose entries would fill a sparse
matrix; its factors do not (`SparseMinusThin`).
Source: the product by rows is Gustavson, "Two fast algorithms for sparse matrices: multiplication and permuted
transposition", ACM TOMS 4(3), 1978, as SciPy implements it.
Where we differ: sums are in float64 whatever the precision of the data. The columns of the estimate are not random:
they are ordered by frequency and taken at equal steps, so the estimate is the same at each call.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from linspec.arrays import HostArray
from linspec.process import machine
from linspec.process.pauses import pause

try:
    from scipy.sparse._sparsetools import csc_matvec, csc_matvecs, csr_matvec, csr_matvecs
except ImportError:  # pragma: no cover - private: a future SciPy may lack them
    csr_matvecs = None

CSR: TypeAlias = Any
"""A `scipy.sparse.csr_array` or `csr_matrix`; SciPy ships no types."""
Block: TypeAlias = NDArray[Any]

# Measurements are by b68241bf:docs/evidence/measure_sparse_constants.py on two busy cores: ratios of processor seconds,
# with 5 % of noise. Names of matrices are those of the script.

SHORTEST_STRETCH = 2**12
"""Fewest rows over which a float32 sum runs before it is added into float64: more are less exact, fewer are slower. A
quarter takes 1.9 times as long on "few columns" (20 columns); with four times as many errors double."""

ENTRIES_PER_FOLD = 32
"""Entries of rows in such a stretch for each number of the sum that is added into float64. A quarter takes 1.1 times as
long on "titles" and "uniform", and more gain nothing."""

SINGLY = 2
"""Most columns that are multiplied one by one: two take half of the time of a block on "6000 x 2000", and 1.05 on rows
that fill no cache; three take 1.5 times as long there. SciPy's block loop waits for its own sums of few columns."""

LONGEST_STRETCH = 2**15
"""Most such rows. A quarter takes 1.5 to 1.7 times as long on "bigrams"; with four times as many errors quadruple."""

WORK_PER_THREAD = 2**21
"""Multiply-adds that justify a further thread. With a quarter, Aᵀ A takes 1.2 times the processor time on "titles"."""

PARTS_PER_THREAD = 2
"""Parts for each thread. Any thread takes any part, so that a core that is busy with other work delays nothing."""

SAMPLED_COLUMNS = 64
"""The number of columns of a Gram matrix from which the number of its entries is estimated.

b68241bf:docs/evidence/measure_sparse_constants.py measures the relative error of the estimated number: 4 % for the word
counts of newsgroup posts ("posts" in that script), 11 % for those of product titles ("titles"), and 10 % for generated
word counts ("zipf"). With 16 columns the error is up to 23 %; with 256 columns the estimate takes 1.4 to 1.6 times as
long.
"""


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

    """
    pause()
    if stop - start == A.shape[0]:
        return copy.copy(A)  # which shares all arrays, and takes a seventh of the constructor's time
    first, last = int(A.indptr[start]), int(A.indptr[stop])
    indptr = A.indptr[start : stop + 1] - A.indptr[start]
    shape = stop - start, A.shape[1]
    return assembled(type(A), shape, indptr, A.indices[first:last], A.data[first:last])


def thread_count(work: int) -> int:
    """Choose the number of threads for a number of multiply-adds."""
    return int(max(1, min(machine.cpu_count(), work // WORK_PER_THREAD)))


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
        if csr_matvecs is None:
            out += self.matrix @ V
        elif V.shape[1] <= SINGLY:
            for v, y in zip(V.T, out.T, strict=True):
                column = np.ascontiguousarray(y)
                csr_matvec(self.rows, self.columns, *self[2:], np.ascontiguousarray(v), column)
                y[...] = column
        else:
            csr_matvecs(self.rows, self.columns, V.shape[1], *self[2:], V.ravel(), out.ravel())

    def scatter(self, block: Block, out: Block) -> None:
        """Add slabᵀ · block to `out`. All three have the same dtype; `block` and `out` are C-contiguous."""
        # The arrays of the rows of a matrix are the arrays of the columns of its transpose.
        if csr_matvecs is None:
            out += self.matrix.T @ block
        elif block.shape[1] == 1:
            csc_matvec(self.columns, self.rows, *self[2:], block.ravel(), out.ravel())
        else:
            csc_matvecs(self.columns, self.rows, block.shape[1], *self[2:], block.ravel(), out.ravel())


def assembled(kind: Any, shape: tuple[int, int], indptr: Block, indices: Block, data: Block) -> CSR:
    """Make a `csr_array` or a `csr_matrix` (`kind`) that shares the given arrays."""
    # The constructor would copy 64-bit indices that fit 32 bits; setting the three arrays shares them.
    matrix = kind(shape, dtype=data.dtype)
    matrix.data, matrix.indices, matrix.indptr = data, indices, indptr
    return matrix


def pair_count(X: CSR, Y: CSR | None = None) -> int:
    """Count the multiply-adds of XᵀY, or of XᵀX.

    The count is the sum, over the rows, of (number of stored entries of the row of X) x (number of those of Y).

    Parameters
    ----------
    X : csr_array or csr_matrix, n x p
        Only `indptr` is read.
    Y : csr_array or csr_matrix, n x q, optional
        None: Y = X.

    Returns
    -------
    int
        The count is also an upper bound for the number of stored entries of the Gram matrix.

    """
    x, y = (np.diff(matrix.indptr).astype(np.float64) for matrix in (X, X if Y is None else Y))
    return int(x @ y)


def gram_entries(X: CSR, Y: CSR) -> float:
    """Estimate the number of stored entries of the sparse XᵀY from some of its columns.

    A column of XᵀY has the more entries, the more entries the same column of Y has. So the columns of Y that are not
    empty are ordered by their number of entries and sampled at equal steps.

    Parameters
    ----------
    X : csr_array or csr_matrix, n x p
    Y : csr_array or csr_matrix, n x q

    Returns
    -------
    float
        Exact if Y has at most `SAMPLED_COLUMNS` columns that are not empty.

    """
    # The arrays may hold entries behind the last row, which do not count.
    columns = Y.indices[: Y.indptr[-1]]
    frequency = np.bincount(columns, minlength=Y.shape[1])
    used = int(np.count_nonzero(frequency))
    count = min(used, SAMPLED_COLUMNS)
    by_frequency = np.argsort(frequency, kind="stable")[Y.shape[1] - used :]
    chosen = by_frequency[((np.arange(count) + 0.5) * used / max(count, 1)).astype(np.int64)]
    place = np.full(Y.shape[1], -1)
    place[chosen] = np.arange(count)
    sampled = np.flatnonzero(place[columns] >= 0)
    rows = np.searchsorted(Y.indptr, sampled, side="right") - 1
    ones = np.ones(len(rows), dtype=np.float32)
    picked = sparse.csr_array((ones, (place[columns[sampled]], rows)), shape=(count, Y.shape[0]))
    entries: int = (picked @ X).nnz
    return entries * used / max(count, 1)


def gram(X: CSR, Y: CSR | None = None) -> CSR:
    """Compute the sparse XᵀY, or XᵀX, accumulated in float64 whatever the precision of the data.

    Parameters
    ----------
    X : csr_array or csr_matrix, n x p
        Real, integer or boolean (True is 1); duplicate and unsorted entries are fine.
    Y : csr_array or csr_matrix, n x q, optional
        None: Y = X.

    Returns
    -------
    csr_array or csr_matrix
        p x p or p x q, float64; a csr_array if X is one, else a csr_matrix. Each entry is stored once; the column
        indices within a row are not sorted. Before the product is formed, `pair_count` gives the number of its
        multiply-adds, which is also an upper bound for the number of stored entries of the result.

    """
    right = X if Y is None else Y
    left = X.astype(np.float64, copy=False)
    if Y is None and one_entry_rows(X):
        return _diagonal_gram(left)
    right = left if Y is None else Y.astype(np.float64, copy=False)
    left = left.T.tocsr()
    # The multiply-adds up to each row of the result: each thread computes its own rows of it.
    counts = np.diff(right.indptr)
    if len(counts) and (counts == counts[0]).all():  # as in one-hot rows
        work = left.indptr.astype(np.int64) * int(counts[0])
    else:
        work = np.concatenate([[0], np.cumsum(counts[left.indices], dtype=np.int64)])[left.indptr]
    threads = thread_count(int(work[-1]))
    if threads < 2:
        return left @ right
    parts = threads * PARTS_PER_THREAD
    cuts = np.searchsorted(work, [int(work[-1]) * part // parts for part in range(1, parts)])
    bounds = sorted({0, *cuts.tolist(), left.shape[0]})
    pieces = machine.map_parallel(lambda part: row_block(left, *part) @ right, list(pairwise(bounds)))
    return sparse.vstack(pieces, format="csr")


def one_entry_rows(X: CSR) -> bool:
    """Whether no row has more than one stored entry, as in one-hot rows: then XᵀX is diagonal.

    Parameters
    ----------
    X : csr_array or csr_matrix, n x p
        Only `indptr` is read.
    """
    return bool(X.indptr[-1] <= X.shape[0] and (np.diff(X.indptr) <= 1).all())


def _diagonal_gram(X: CSR) -> CSR:
    """XᵀX for float64 rows with at most one entry each: a diagonal matrix of the sums of squares of the columns."""
    columns, stored = X.shape[1], int(X.indptr[-1])
    squares = np.bincount(X.indices[:stored], X.data[:stored] ** 2, minlength=columns)
    met = squares != 0
    indptr = np.concatenate([[0], np.cumsum(met)]).astype(X.indptr.dtype)
    places = np.flatnonzero(met).astype(X.indices.dtype)
    return assembled(type(X), (columns, columns), indptr, places, squares[met].astype(np.float64))


@dataclass(frozen=True, eq=False)
class SparseMinusThin:
    """G - P Qᵀ.

    Parameters
    ----------
    G : SciPy sparse array of shape (p, q)
    P, Q : numpy.ndarray of shapes (p, m) and (q, m)
        Few columns, perhaps none.

    Examples
    --------
    >>> import numpy as np
    >>> import scipy.sparse
    >>> from linspec.rows import SparseMinusThin
    >>> ones = np.ones((2, 1))
    >>> (SparseMinusThin(scipy.sparse.eye_array(2).tocsr(), ones, ones) @ np.array([[1.0], [2.0]])).ravel()
    array([-2., -1.])
    """

    G: Any
    P: HostArray
    Q: HostArray

    @classmethod
    def of(cls, G: Any) -> SparseMinusThin:
        """Return G itself, or a sparse G minus nothing."""
        return G if isinstance(G, cls) else cls(G, *(np.zeros((size, 0)) for size in G.shape))

    @property
    def is_near_diagonal(self) -> bool:
        """Whether all that is stored is on the diagonal, as where no row has two entries."""
        return len(self.G.data) == np.count_nonzero(self.G.diagonal())

    @property
    def shape(self) -> tuple[int, int]:
        """(p, q)."""
        return self.P.shape[0], self.Q.shape[0]

    @property
    def T(self) -> SparseMinusThin:
        """The transpose."""
        return SparseMinusThin(self.G.T, self.Q, self.P)

    def __matmul__(self, V: HostArray) -> HostArray:
        product: HostArray = self.G @ V
        product -= self.P @ (self.Q.T @ V)
        return product

    def diagonal(self) -> HostArray:
        """The diagonal, of shape (p,)."""
        return self.G.diagonal() - np.sum(self.P * self.Q, axis=1)

    def toarray(self) -> HostArray:
        """The dense matrix."""
        dense: HostArray = self.G.toarray()
        dense -= self.P @ self.Q.T
        return dense
