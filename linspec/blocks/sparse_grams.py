"""Sparse Gram matrices XᵀX and XᵀY of SciPy sparse rows (CSR), and estimates of their cost.

Problem: direct methods need the Gram matrix itself. Its memory and its cost must be known before it is formed.

Method: rows of Xᵀ multiply Y. Each thread computes its own rows of the result, about equal in multiply-adds, so no
partial results are added up. The multiply-adds are counted exactly from the lengths of the rows; the entries of the
result are estimated from some of its columns. If no row has more than one entry, XᵀX is diagonal, and its diagonal is
summed directly. Centring and confounds subtract a matrix of low rank, whose entries would fill a sparse matrix; its
factors do not (`SparseMinusThin`).

Source: the product by rows is Gustavson, "Two fast algorithms for sparse matrices: multiplication and permuted
transposition", ACM TOMS 4(3), 1978, as SciPy implements it.

Where we differ: sums are in float64 whatever the precision of the data. The columns of the estimate are not random:
they are ordered by frequency and taken at equal steps, so the estimate is the same at each call.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from scipy import sparse

from linspec.arrays import HostArray
from linspec.blocks.sparse_slabs import (
    CSR,
    PARTS_PER_THREAD,
    assembled,
    row_block,
    thread_count,
)
from linspec.process import machine

SAMPLED_COLUMNS = 64
"""The number of columns of a Gram matrix from which the number of its entries is estimated.

docs/evidence/measure_sparse_constants.py measures the relative error of the estimated number: 4 % for the word counts
of newsgroup posts ("posts" in that script), 11 % for those of product titles ("titles"), and 10 % for generated word
counts ("zipf"). With 16 columns the error is up to 23 %; with 256 columns the estimate takes 1.4 to 1.6 times as long.
"""


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
    x, y = (np.diff(each.indptr).astype(np.float64) for each in (X, X if Y is None else Y))
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
    kept = np.flatnonzero(place[columns] >= 0)
    rows = np.searchsorted(Y.indptr, kept, side="right") - 1
    ones = np.ones(len(rows), dtype=np.float32)
    picked = sparse.csr_array((ones, (place[columns[kept]], rows)), shape=(count, Y.shape[0]))
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
        diagonal: HostArray = self.G.diagonal() - np.sum(self.P * self.Q, axis=1)
        return diagonal

    def toarray(self) -> HostArray:
        """The dense matrix."""
        dense: HostArray = self.G.toarray()
        dense -= self.P @ self.Q.T
        return dense
