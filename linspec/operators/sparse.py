"""SciPy sparse matrices as operators, on the threaded kernels of `sparse_kernels`."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse

from linspec.arrays import Array, working_dtype
from linspec.errors import InvalidProblem
from linspec.operators import sparse_kernels
from linspec.operators.base import LinearOperator, Selection


class SparseOperator(LinearOperator):
    """A SciPy sparse matrix or array, kept as compressed rows.

    CSR is used without a copy; other formats are converted once. Duplicate entries add up, as in SciPy.
    Products are in the working dtype of the data, or in the given `dtype`.
    """

    sliceable = True
    readable = True

    def __init__(self, matrix: Any, dtype: Any = None) -> None:
        if matrix.ndim != 2:
            raise InvalidProblem(
                f"data must have two dimensions; got {matrix.ndim} with shape {matrix.shape}. Reshape it."
            )
        self.dtype = working_dtype(matrix.dtype) if dtype is None else np.dtype(dtype)
        self.matrix = matrix if matrix.format == "csr" else matrix.tocsr()
        self.shape = (int(matrix.shape[0]), int(matrix.shape[1]))

    @property
    def nnz(self) -> int:
        return int(self.matrix.nnz)

    @property
    def stored_dtype(self) -> np.dtype[Any]:
        stored: np.dtype[Any] = self.matrix.dtype
        return stored

    def in_dtype(self, dtype: np.dtype[Any]) -> LinearOperator | None:
        """The same rows, which are converted slab by slab for products."""
        return self if dtype == self.dtype else SparseOperator(self.matrix, dtype)

    @cached_property
    def worth_transposing(self) -> bool:
        """Whether there is memory for `transposed`; the system is asked once."""
        return sparse_kernels.worth_transposing(self.matrix, self.dtype)

    @cached_property
    def gram_entries(self) -> float:
        """Entries of the sparse Gram matrix of the columns, estimated once for all choices."""
        return sparse_kernels.gram_entries(self.matrix, self.matrix)

    @cached_property
    def transposed(self) -> Any:
        """The transposed matrix as compressed rows, made at the first use and kept; it doubles the memory."""
        return self.matrix.T.tocsr()

    def _matmat(self, V: Array) -> Array:
        return sparse_kernels.matmat(self.matrix, V, self.dtype)

    def _rmatmat(self, U: Array) -> Array:
        if "transposed" in self.__dict__ and self.dtype == np.float64:  # it exists, and needs no partial sums
            return sparse_kernels.matmat(self.transposed, U, self.dtype)
        return sparse_kernels.rmatmat(self.matrix, U, self.dtype)

    def _rows(self, selection: Selection) -> LinearOperator:
        if isinstance(selection, slice):
            block = sparse_kernels.row_block(self.matrix, selection.start, selection.stop)
            return SparseOperator(block, self.dtype)
        return SparseOperator(self.matrix[selection], self.dtype)

    def _dense(self) -> Array:
        return np.asarray(self.matrix.astype(self.dtype).toarray())

    @property
    def H(self) -> LinearOperator:
        """The adjoint operator: the transposed matrix, which doubles the memory."""
        return SparseOperator(self.matrix.T, self.dtype)


def is_scipy_sparse(source: Any) -> bool:
    """Whether `source` is a SciPy sparse matrix or array."""
    return bool(scipy.sparse.issparse(source))
