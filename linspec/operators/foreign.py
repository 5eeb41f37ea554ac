"""Foreign operators: SciPy's LinearOperator, CuPy's sparse matrices, and any object with their methods."""

from __future__ import annotations

from typing import Any

import numpy as np

from linspec.arrays import Array, Home, HostArray, is_array, working_dtype
from linspec.errors import InvalidProblem, MissingCapability
from linspec.operators.base import LinearOperator, Selection


def quacks(source: Any) -> bool:
    """Whether `source` has the attributes of an operator: `shape`, `dtype`, `matmat` and `rmatmat`."""
    return all(hasattr(source, name) for name in ("shape", "dtype", "matmat", "rmatmat"))


class ForeignOperator(LinearOperator):
    """An object that only has `matmat` and `rmatmat`; its products are NumPy arrays."""

    def __init__(self, source: Any, dtype: Any = None) -> None:
        if len(source.shape) != 2:
            raise InvalidProblem(f"data must have two dimensions; got an operator of shape {source.shape}.")
        self.source = source
        self.shape = (int(source.shape[0]), int(source.shape[1]))
        self.dtype = working_dtype(source.dtype) if dtype is None else np.dtype(dtype)

    @property
    def stored_dtype(self) -> np.dtype[Any]:
        stored: np.dtype[Any] = np.dtype(self.source.dtype)
        return stored

    def in_dtype(self, dtype: np.dtype[Any]) -> LinearOperator | None:
        """The same operator, given blocks of another dtype."""
        return self if dtype == self.dtype else ForeignOperator(self.source, dtype)

    def _matmat(self, V: Array) -> Array:
        return self._product("matmat", V, self.shape[0]).astype(self.dtype, copy=False)

    def _rmatmat(self, U: Array) -> Array:
        return self._product("rmatmat", U, self.shape[1]).astype(np.float64, copy=False)

    def _product(self, name: str, block: Array, rows: int) -> HostArray:
        if block.shape[1] == 0:  # many operators fail for a block without columns
            return np.zeros((rows, 0))
        method, label = getattr(self.source, name), f"{type(self.source).__name__}.{name}"
        block = np.ascontiguousarray(block, dtype=self.dtype)
        try:
            product = np.asarray(method(block))
        except (NotImplementedError, TypeError) as error:
            if isinstance(error, TypeError) and "'NoneType' object is not callable" not in str(error):
                raise  # otherwise SciPy called a function that it was not given
            raise MissingCapability(
                f"{label} is not implemented ({error}). Define it: linspec multiplies by A and by its adjoint."
            ) from error
        if product.shape != (rows, block.shape[1]):
            raise InvalidProblem(f"{label} must return shape {(rows, block.shape[1])}; got {product.shape}.")
        working_dtype(product.dtype, f"the result of {label}")
        return product


class CupySparseOperator(LinearOperator):
    """A sparse matrix of `cupyx.scipy.sparse`, kept as CSR on its device.

    The sparse products of CuPy want column-major blocks.
    """

    sliceable = True

    def __init__(self, matrix: Any, dtype: Any = None) -> None:
        self.matrix = matrix.tocsr()
        self.shape = (int(matrix.shape[0]), int(matrix.shape[1]))
        self._stored: np.dtype[Any] = np.dtype(matrix.dtype)
        self.dtype = working_dtype(matrix.dtype) if dtype is None else np.dtype(dtype)
        if matrix.dtype != self.dtype:
            self.matrix = self.matrix.astype(self.dtype)
        self.home = Home.of(self.matrix.data)

    @property
    def stored_dtype(self) -> np.dtype[Any]:
        return self._stored

    def in_dtype(self, dtype: np.dtype[Any]) -> LinearOperator | None:
        """The same matrix, converted."""
        return self if dtype == self.dtype else CupySparseOperator(self.matrix, dtype)

    @property
    def nnz(self) -> int:
        return int(self.matrix.nnz)

    def _matmat(self, V: Array) -> Array:
        return self.matrix @ self._column_major(V)

    def _rmatmat(self, U: Array) -> Array:
        return self.home.blocks.place(self.matrix.T @ self._column_major(U))

    def _column_major(self, V: Array) -> Array:
        return self.home.place(V, self.dtype).copy(order="F")

    def _rows(self, selection: Selection) -> LinearOperator:
        return CupySparseOperator(self.matrix[selection])


def is_cupy_sparse(source: Any) -> bool:
    """Whether `source` is a sparse matrix of CuPy, without importing CuPy."""
    return type(source).__module__.startswith("cupyx.scipy.sparse") and not is_array(source)
