"""Slabs of SciPy sparse rows (CSR), and the loops that add products of them into an array.

Problem: products of sparse rows need pieces that fit the cache, and results that are added into a given array.
Method: SciPy's compiled kernels, which release the interpreter lock. The kernels that add into a given array are
private (`scipy.sparse._sparsetools`). If they are missing, the public operators replace them, at the cost of a
temporary block.
"""

from __future__ import annotations

import copy
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from linspec.process import machine
from linspec.process.pauses import pause

try:
    from scipy.sparse._sparsetools import csc_matvec, csc_matvecs, csr_matvec, csr_matvecs
except ImportError:  # pragma: no cover - private: a future SciPy may lack them
    csr_matvecs = None

CSR: TypeAlias = Any
"""A `scipy.sparse.csr_array` or `csr_matrix`; SciPy ships no types."""
Block: TypeAlias = NDArray[Any]

# Measurements are by docs/evidence/measure_sparse_constants.py on two busy cores: ratios of processor seconds, with
# 5 % of noise. Names of matrices are those of the script.

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
