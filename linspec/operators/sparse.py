"""SciPy sparse matrices as operators."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse

from linspec.arrays import Array, working_dtype
from linspec.blocks import Rows, Sparse, sparse_loops
from linspec.errors import InvalidProblem, one_line
from linspec.operators.base import LinearOperator, Selection

COMPRESSED = ("csr", "csc", "bsr")
"""Formats of SciPy whose arrays are `data`, `indices` and `indptr`."""

ARRAYS = dict.fromkeys(COMPRESSED, ("data", "indices", "indptr")) | {
    "coo": ("data", "row", "col"),
    "dia": ("data", "offsets"),
}
"""The arrays of the other formats, too."""


class SparseOperator(LinearOperator):
    """A SciPy sparse matrix or array, kept as compressed rows.

    CSR is used without a copy; other formats are converted once. Duplicate entries add up, as in SciPy, but their sums
    are those of the numbers: narrow integers do not wrap around, and two entries True make 2. Products are in the
    working dtype of the data, or in the given `dtype`.

    Parameters
    ----------
    matrix : SciPy sparse matrix or array
    dtype : float32 or float64, optional
    checked : bool, default False
        Whether the arrays of the matrix are known to be consistent, as for rows or a copy of a checked matrix.

    Raises
    ------
    InvalidProblem
        When the arrays of the matrix are inconsistent. The compiled kernels check nothing: an index out of range
        would read and write memory outside of the arrays.

    Examples
    --------
    >>> import numpy as np
    >>> import scipy.sparse
    >>> from linspec.operators import SparseOperator
    >>> A = SparseOperator(scipy.sparse.csr_array(np.diag([1.0, 2.0, 3.0])))
    >>> A.nnz, A.matmat(np.ones((3, 1))).ravel()
    (3, array([1., 2., 3.]))
    """

    access = "rows"
    sparse = True
    readable = True
    resident = True
    _converts = True

    def __init__(self, matrix: Any, dtype: Any = None, *, checked: bool = False) -> None:
        if matrix.ndim != 2:
            raise InvalidProblem(
                f"data must have two dimensions; got {matrix.ndim} with shape {matrix.shape}. Reshape it."
            )
        self.matrix = matrix.tocsr() if checked else checked_rows(matrix)
        self.dtype = working_dtype(self.matrix.dtype) if dtype is None else np.dtype(dtype)
        self.shape = (int(matrix.shape[0]), int(matrix.shape[1]))
        self._stored_dtype, self._nnz = self.matrix.dtype, int(self.matrix.nnz)

    @property
    def stored_array(self) -> Any:
        return self.matrix

    @cached_property
    def one_entry(self) -> bool:
        """Whether no row has more than one stored entry."""
        return sparse_loops.one_entry_rows(self.matrix)

    @cached_property
    def pairs(self) -> int:
        """Number of pairs of entries in the same row: the multiply-adds of AᵀA."""
        return sparse_loops.pair_count(self.matrix)

    @cached_property
    def gram_entries(self) -> float:
        """Estimated number of entries of the sparse Gram matrix AᵀA; computed once."""
        return sparse_loops.gram_entries(self.matrix, self.matrix)

    def _loaded(self, name: str) -> Rows:
        return Sparse(self.matrix, name)

    def _rows(self, selection: Selection) -> LinearOperator:
        if isinstance(selection, slice):
            block = sparse_loops.row_block(self.matrix, selection.start, selection.stop)
            return SparseOperator(block, self.dtype, checked=True)
        return SparseOperator(self.matrix[selection], self.dtype, checked=True)

    def _dense(self) -> Array:
        return np.asarray(self.matrix.astype(self.dtype, copy=False).toarray())


def is_scipy_sparse(source: Any) -> bool:
    """Whether `source` is a SciPy sparse matrix or array."""
    return bool(scipy.sparse.issparse(source))


def checked_rows(matrix: Any) -> Any:
    """Check that the arrays of a sparse matrix are consistent, and return it as compressed rows.

    The matrix is not modified. A matrix in compressed rows is returned itself, unless its numbers are float16 or not
    in the byte order of the machine. Narrow numbers become floats where duplicates must be added: SciPy adds them in
    the dtype that is stored, where 100 + 100 + 100 is 44 in int8, and True + True is True. The indices are read once.

    Raises
    ------
    InvalidProblem
        When the arrays are inconsistent.
    """
    dtype = working_dtype(matrix.dtype)
    native = matrix.dtype.isnative and matrix.dtype != np.float16  # SciPy makes no matrix of others
    try:
        _check(matrix)
        if matrix.dtype == dtype or (native and matrix.format == "csr" and matrix.has_canonical_format):
            rows = matrix.tocsr()
        else:
            rows = matrix.astype(dtype).tocsr()
            rows.sum_duplicates()
        if matrix.format not in ARRAYS:  # the entries of lists are in arrays now
            _check(rows)
    except (ValueError, TypeError, IndexError, OverflowError, AttributeError) as error:
        raise InvalidProblem(
            f"data must be a sparse matrix whose arrays fit together; got a {type(matrix).__name__} with this fault: "
            f"{one_line(error)}. Make it anew: scipy.sparse.coo_array((values, (rows, columns)), shape=...)."
        ) from error
    return rows


def _check(matrix: Any) -> None:
    """Raise an error of Python unless the arrays of a matrix are consistent; SciPy checks copies that share them."""
    kind: Any = type(matrix)
    if matrix.format == "lil" and [*map(len, matrix.rows)] != [*map(len, matrix.data)]:
        raise ValueError("the lists of columns and of values have other lengths")
    for name in ARRAYS.get(matrix.format, ()):
        array = getattr(matrix, name)
        if not isinstance(array, np.ndarray) or isinstance(array, np.ma.MaskedArray):
            raise TypeError(f"{name} is no array but a {type(array).__name__}")
        if name != "data" and array.dtype.kind not in "iu":
            raise TypeError(f"{name} has dtype {array.dtype} and holds no integers")
    if matrix.format in COMPRESSED:
        if (
            matrix.indptr[1:] < matrix.indptr[:-1]
        ).any():  # SciPy does not look where the last of them is negative
            raise ValueError("indptr falls")
        twin = kind.__new__(kind)  # the check drops what lies behind the entries
        vars(twin).update(vars(matrix))
        twin.check_format(full_check=True)
    elif matrix.format == "coo":
        kind((matrix.data, (matrix.row, matrix.col)), shape=matrix.shape)
    elif matrix.format == "dia":
        kind((matrix.data, matrix.offsets), shape=matrix.shape)
