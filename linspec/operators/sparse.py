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

    CSR is taken as it is, without a copy; other formats are converted once. Duplicate entries add up, as
    everywhere in SciPy. Products are in the working dtype of the data, or in the `dtype` that is given.
    """

    sliceable = True
    sparse = True
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
        """The same rows, converted slab by slab where they are multiplied."""
        return self if dtype == self.dtype else SparseOperator(self.matrix, dtype)

    @cached_property
    def worth_transposing(self) -> bool:
        """Whether `transposed` is worth its memory: asked of the system once."""
        return sparse_kernels.worth_transposing(self.matrix, self.dtype)

    @cached_property
    def gram_entries(self) -> float:
        """Entries of the sparse Gram matrix of the columns, estimated once: it is asked for at every choice."""
        return sparse_kernels.gram_entries(self.matrix, self.matrix)

    @cached_property
    def transposed(self) -> Any:
        """The matrix transposed, as compressed rows: made at the first look and kept, as much memory again."""
        return self.matrix.T.tocsr()

    def _matmat(self, V: Array) -> Array:
        return sparse_kernels.matmat(self.matrix, V, self.dtype)

    def _rmatmat(self, U: Array) -> Array:
        if "transposed" in self.__dict__ and self.dtype == np.float64:  # somebody holds it: no sums to add up
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
        """The adjoint operator: the matrix transposed, which takes as much memory again."""
        return SparseOperator(self.matrix.T, self.dtype)


def is_scipy_sparse(source: Any) -> bool:
    """Whether `source` is a SciPy sparse matrix or array."""
    return bool(scipy.sparse.issparse(source))
