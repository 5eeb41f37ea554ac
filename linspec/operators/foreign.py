"""Operators of others: SciPy's LinearOperator, CuPy's sparse matrices, and anything with the right methods."""

from __future__ import annotations

from typing import Any

import numpy as np

from linspec.arrays import Array, Home, is_array, working_dtype
from linspec.errors import InvalidProblem, UnsupportedData
from linspec.operators.base import LinearOperator, Selection


def quacks(source: Any) -> bool:
    """Whether `source` has what an operator needs: `shape`, `dtype`, `matmat` and `rmatmat`."""
    return all(hasattr(source, name) for name in ("shape", "dtype", "matmat", "rmatmat"))


class ForeignOperator(LinearOperator):
    """An object known by its `matmat` and `rmatmat` alone; its products are NumPy arrays."""

    def __init__(self, source: Any) -> None:
        if len(source.shape) != 2:
            raise InvalidProblem(f"an operator must have two dimensions; got shape {source.shape}.")
        self.source = source
        self.shape = (int(source.shape[0]), int(source.shape[1]))
        self.dtype = working_dtype(source.dtype, f"{type(source).__name__}.dtype")

    def _matmat(self, V: Array) -> Array:
        V = np.ascontiguousarray(V, dtype=self.dtype)
        return self._checked(self.source.matmat(V), (self.shape[0], V.shape[1]), self.dtype, "matmat")

    def _rmatmat(self, U: Array) -> Array:
        U = np.ascontiguousarray(U, dtype=self.dtype)
        return self._checked(self.source.rmatmat(U), (self.shape[1], U.shape[1]), np.float64, "rmatmat")

    def _checked(self, product: Any, shape: tuple[int, int], dtype: Any, name: str) -> Array:
        product = np.asarray(product)
        if product.shape != shape:
            raise InvalidProblem(
                f"{type(self.source).__name__}.{name} must answer with shape {shape}; got {product.shape}."
            )
        if product.dtype.kind == "c":
            raise UnsupportedData(f"{type(self.source).__name__}.{name} answered with complex numbers.")
        return product.astype(dtype, copy=False)


class CupySparseOperator(LinearOperator):
    """A sparse matrix of `cupyx.scipy.sparse`, kept as CSR on its device.

    The sparse products of CuPy want column-major blocks.
    """

    sliceable = True

    def __init__(self, matrix: Any) -> None:
        self.matrix = matrix.tocsr()
        self.shape = (int(matrix.shape[0]), int(matrix.shape[1]))
        self.dtype = working_dtype(matrix.dtype)
        if matrix.dtype != self.dtype:
            self.matrix = self.matrix.astype(self.dtype)
        self.home = Home.of(self.matrix.data)

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
    """Whether `source` is a sparse matrix of CuPy, told without importing CuPy."""
    return type(source).__module__.startswith("cupyx.scipy.sparse") and not is_array(source)
