"""SciPy sparse matrices as operators."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse

from linspec.arrays import Array, HostArray, working_dtype
from linspec.blocks import Rows, Sparse, sparse_grams, sparse_slabs
from linspec.errors import InvalidProblem, one_line
from linspec.operators.base import LinearOperator, Selection

COMPRESSED = ("csr", "csc", "bsr")
"""Formats of SciPy whose arrays are `data`, `indices` and `indptr`."""


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

    def __init__(self, matrix: Any, dtype: Any = None, *, checked: bool = False) -> None:
        if matrix.ndim != 2:
            raise InvalidProblem(
                f"data must have two dimensions; got {matrix.ndim} with shape {matrix.shape}. Reshape it."
            )
        self.matrix = _in_rows(matrix) if checked else checked_rows(matrix)
        self.dtype = working_dtype(self.matrix.dtype) if dtype is None else np.dtype(dtype)
        self.shape = (int(matrix.shape[0]), int(matrix.shape[1]))

    @property
    def nnz(self) -> int:
        return int(self.matrix.nnz)

    @property
    def stored_array(self) -> Any:
        return self.matrix

    @property
    def stored_dtype(self) -> np.dtype[Any]:
        stored: np.dtype[Any] = self.matrix.dtype
        return stored

    def in_dtype(self, dtype: np.dtype[Any]) -> LinearOperator | None:
        """The same rows with products in `dtype`; entries are converted slab by slab."""
        return self if dtype == self.dtype else SparseOperator(self.matrix, dtype, checked=True)

    @cached_property
    def one_entry(self) -> bool:
        """Whether no row has more than one stored entry."""
        return sparse_grams.one_entry_rows(self.matrix)

    @cached_property
    def pairs(self) -> int:
        """Number of pairs of entries in the same row: the multiply-adds of AᵀA."""
        return self.nnz if self.one_entry else sparse_grams.pair_count(self.matrix)

    def pairs_with(self, other: SparseOperator) -> int:
        """Number of pairs (entry of A, entry of another matrix B) in the same row: the multiply-adds of AᵀB."""
        if self.one_entry and self.nnz == self.shape[0] == other.shape[0]:
            return other.nnz
        return sparse_grams.pair_count(self.matrix, other.matrix)

    @cached_property
    def gram_entries(self) -> float:
        """Estimated number of entries of the sparse Gram matrix AᵀA; computed once."""
        return sparse_grams.gram_entries(self.matrix, self.matrix)

    def _loaded(self, name: str) -> Rows:
        return Sparse(self.matrix, name)

    def _rows(self, selection: Selection) -> LinearOperator:
        if isinstance(selection, slice):
            if selection.start == 0 and selection.stop == self.shape[0]:
                return self
            block = sparse_slabs.row_block(self.matrix, selection.start, selection.stop)
            return SparseOperator(block, self.dtype, checked=True)
        return SparseOperator(self.matrix[selection], self.dtype, checked=True)

    def _dense(self) -> Array:
        return np.asarray(self.matrix.astype(self.dtype, copy=False).toarray())

    @property
    def H(self) -> LinearOperator:
        """The adjoint operator: the transposed matrix, which doubles the memory."""
        return SparseOperator(self.matrix.T, self.dtype, checked=True)


def is_scipy_sparse(source: Any) -> bool:
    """Whether `source` is a SciPy sparse matrix or array."""
    return bool(scipy.sparse.issparse(source))


def checked_rows(matrix: Any) -> Any:
    """Check that the arrays of a sparse matrix are consistent, and return it as compressed rows.

    The matrix is not modified. A matrix in compressed rows is returned itself, unless its numbers are float16 or not
    in the byte order of the machine, or duplicates of narrow numbers must be added. The indices are read once.

    Raises
    ------
    InvalidProblem
        When the arrays are inconsistent.
    """
    fault = ""
    if matrix.format in COMPRESSED:
        fault = _fault_of_compressed(matrix)
    elif matrix.format == "coo":
        fault = _fault_of_coordinates(matrix)
    elif matrix.format == "dia":
        fault = _fault_of_diagonals(matrix)
    elif matrix.format == "lil":
        fault = _fault_of_lists(matrix)
    if fault:
        raise _unsound(matrix, fault)
    working_dtype(matrix.dtype)
    try:
        rows = merged_rows(matrix)
    except (ValueError, TypeError, IndexError, OverflowError) as error:
        raise _unsound(matrix, one_line(error)) from error
    if matrix.format not in (*COMPRESSED, "coo", "dia"):  # the entries of lists are in arrays now
        fault = _fault_of_compressed(rows)
        if fault:
            raise _unsound(matrix, fault)
    stored = rows.data.dtype
    if not stored.isnative or stored == np.float16:  # SciPy makes no matrix of these
        return rows.astype(working_dtype(stored))
    return rows


def merged_rows(matrix: Any) -> Any:
    """Convert a sound matrix to compressed rows; duplicates of narrow numbers are widened before they are added.

    SciPy adds duplicates in the dtype that is stored: 100 + 100 + 100 is 44 in int8, and True + True is True. The sums
    have this dtype only if all of them are in its range.
    """
    stored = matrix.dtype.newbyteorder("=")
    wide = _dtype_of_sums(stored)
    if wide == stored or (matrix.format == "csr" and matrix.has_canonical_format):
        return _in_rows(matrix)
    rows = matrix.astype(wide).tocsr()
    rows.sum_duplicates()
    narrow = rows.data.astype(stored)
    if wide.kind == "i" and (narrow == rows.data).all():
        rows.data = narrow
    return rows


def _dtype_of_sums(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The dtype in which duplicate entries are added: int64 for narrower integers and bools, float32 for float16."""
    if dtype.kind in "biu" and dtype.itemsize < np.dtype(np.int64).itemsize:
        return np.dtype(np.int64)
    return np.dtype(np.float32) if dtype == np.float16 else dtype


def _in_rows(matrix: Any) -> Any:
    return matrix if matrix.format == "csr" else matrix.tocsr()


def _unsound(matrix: Any, fault: str) -> InvalidProblem:
    return InvalidProblem(
        f"data must be a sparse matrix whose arrays fit together; got a {type(matrix).__name__} in which {fault}. Make "
        "it anew: scipy.sparse.coo_array((values, (rows, columns)), shape=...)."
    )


def _fault_of_compressed(matrix: Any) -> str:
    """Describe an inconsistency in a matrix of compressed rows, columns or blocks; "" if there is none."""
    blocks = matrix.format == "bsr"
    data, indices, indptr = _arrays(matrix, "data", "indices", "indptr")
    fault = _fault_of_array("data", data, 3 if blocks else 1, integers=False)
    fault = fault or _fault_of_array("indices", indices) or _fault_of_array("indptr", indptr)
    if fault:
        return fault
    major, minor = matrix.shape[::-1] if matrix.format == "csc" else matrix.shape
    if blocks:
        high, wide = data.shape[1:]
        if min(high, wide) < 1 or major % high or minor % wide:
            return f"blocks of {high} x {wide} do not fill {major} x {minor}"
        major, minor = major // high, minor // wide
    if len(indptr) != major + 1:
        return f"indptr has {len(indptr)} entries instead of {major + 1}"
    if indptr[0] != 0:
        return f"indptr begins with {indptr[0]} instead of 0"
    if (indptr[1:] < indptr[:-1]).any():
        at = int(np.argmax(indptr[1:] < indptr[:-1]))
        return f"indptr falls from {indptr[at]} to {indptr[at + 1]} at entry {at + 1}"
    if len(indices) != len(data) or indptr[-1] > len(indices):
        return f"indptr ends at {indptr[-1]}, for {len(indices)} indices and {len(data)} data"
    return _fault_of_indices("indices", indices[: int(indptr[-1])], minor)


def _fault_of_coordinates(matrix: Any) -> str:
    data, row, col = _arrays(matrix, "data", "row", "col")
    fault = _fault_of_array("data", data, integers=False)
    for name, numbers, size in zip(("row", "col"), (row, col), matrix.shape, strict=True):
        fault = fault or _fault_of_array(name, numbers)
        if not fault and len(numbers) != len(data):
            fault = f"{name} has {len(numbers)} entries, and data {len(data)}"
        fault = fault or _fault_of_indices(name, numbers, size)
    return fault


def _fault_of_diagonals(matrix: Any) -> str:
    data, offsets = _arrays(matrix, "data", "offsets")
    fault = _fault_of_array("data", data, 2, integers=False) or _fault_of_array("offsets", offsets)
    if not fault and len(offsets) != len(data):
        fault = f"there are {len(offsets)} offsets for {len(data)} diagonals"
    if not fault and len(np.unique(offsets)) != len(offsets):
        fault = "two diagonals have one offset"
    return fault


def _fault_of_lists(matrix: Any) -> str:
    if not len(matrix.rows) == len(matrix.data) == matrix.shape[0]:
        return f"there are {len(matrix.rows)} lists of columns and {len(matrix.data)} of values"
    for i, (columns, values) in enumerate(zip(matrix.rows, matrix.data, strict=True)):
        if len(columns) != len(values):
            return f"row {i} has {len(columns)} columns and {len(values)} values"
    return ""


def _arrays(matrix: Any, *names: str) -> tuple[Any, ...]:
    """The attributes of a matrix with the given names, whatever their type; None for a missing attribute."""
    return tuple(getattr(matrix, name, None) for name in names)


def _fault_of_array(name: str, array: Any, dimensions: int = 1, *, integers: bool = True) -> str:
    """Describe a wrong type, dimension or dtype of one of the arrays; "" if it is right."""
    if not isinstance(array, np.ndarray) or isinstance(array, np.ma.MaskedArray):
        return f"{name} is no array but a {type(array).__name__}"
    if array.ndim != dimensions:
        return f"{name} has {array.ndim} dimensions"
    if integers and array.dtype.kind not in "iu":
        return f"{name} has dtype {array.dtype} and holds no integers"
    return ""


def _fault_of_indices(name: str, indices: HostArray, size: int) -> str:
    """Describe the first index that is not from 0 to size - 1; "" if there is none.

    The indices are read once: as an unsigned integer, a negative index is very large.
    """
    unsigned = indices.view(indices.dtype.str.replace("i", "u"))
    if len(indices) == 0 or unsigned.max() < size:
        return ""
    at = int(np.argmax(unsigned >= size))
    return f"entry {at} of {name} is {indices[at]}, where 0 to {size - 1} are possible"
