"""Foreign operators: SciPy's LinearOperator, CuPy's sparse matrices, and any object with their methods."""

from __future__ import annotations

import operator
from contextlib import suppress
from copy import copy
from functools import cached_property
from typing import Any

import numpy as np

from linspec.arrays import (
    Array,
    Device,
    DType,
    HostArray,
    check_bare,
    is_array,
    on_device,
    with_device,
    working_dtype,
)
from linspec.blocks import DeviceSparse, Rows
from linspec.errors import InvalidProblem, MissingCapability, shown
from linspec.operators.base import LinearOperator, Selection
from linspec.operators.dense import DenseOperator, MappedOperator, memory_map
from linspec.operators.sparse import SparseOperator, is_scipy_sparse
from linspec.registry.objects import line_for


class ForeignOperator(LinearOperator):
    """An object that only has `matmat` and `rmatmat`; its products are NumPy arrays.

    The methods may change their block, and return it, or the same array at every product. So they are given a copy, and
    each result is copied.

    Examples
    --------
    >>> import numpy as np
    >>> import linspec as ls
    >>> from linspec.operators import ForeignOperator
    >>> from scipy.sparse.linalg import aslinearoperator
    >>> A = ForeignOperator(aslinearoperator(np.arange(6.0).reshape(3, 2)))
    >>> A.matmat(np.ones((2, 1))).ravel()
    array([1., 5., 9.])
    >>> A.readable
    False
    """

    _converts = True

    def __init__(self, source: Any, dtype: Any = None) -> None:
        self.source, self._stored_dtype = source, np.dtype(source.dtype)
        self.shape = _stated_shape(source.shape)
        self.dtype = working_dtype(source.dtype) if dtype is None else np.dtype(dtype)

    def _matmat(self, V: Array) -> Array:
        return self._product("matmat", V, self.shape[0]).astype(self.dtype, copy=False)

    def _rmatmat(self, U: Array) -> Array:
        return self._product("rmatmat", U, self.shape[1]).astype(np.float64, copy=False)

    def _product(self, name: str, block: Array, rows: int) -> HostArray:
        """Compute and check one product, in memory that no other code writes to."""
        if block.shape[1] == 0:  # many operators fail for a block without columns
            return np.zeros((rows, 0))
        label = f"{type(self.source).__name__}.{name}"
        try:
            result = getattr(self.source, name)(np.array(block, self.dtype, order="C"))
        except (NotImplementedError, TypeError) as error:
            if isinstance(error, TypeError) and "'NoneType' object is not callable" not in str(error):
                raise  # otherwise SciPy called a function that it was not given
            raise MissingCapability(
                f"{label} is not implemented ({error}). Define it: linspec multiplies by A and by its adjoint."
            ) from error
        check_bare(result, f"the result of {label}")
        try:
            product = np.array(result)
        except ValueError as error:
            raise InvalidProblem(f"{label} must return an array; got {error}.") from error
        if product.shape != (rows, block.shape[1]):
            raise InvalidProblem(f"{label} must return shape {(rows, block.shape[1])}; got {product.shape}.")
        working_dtype(product.dtype, f"the result of {label}")
        return product


def _stated_shape(shape: Any) -> tuple[int, int]:
    """Check the shape that a foreign operator states, and return it as two integers."""
    n = p = -1
    with suppress(TypeError, ValueError):
        n, p = (operator.index(length) for length in shape)
    if min(n, p) < 0:
        raise InvalidProblem(
            f"data must have two dimensions, rows and columns; got an operator whose shape is {shown(shape)}. Give it "
            "a shape of two integers."
        )
    return n, p


class CupySparseOperator(LinearOperator):
    """A sparse matrix of `cupyx.scipy.sparse`, kept as CSR on its device, with its rows in blocks (`DeviceSparse`)."""

    access = "rows"
    readable = True
    resident = True

    def __init__(self, matrix: Any, dtype: Any = None, *, checked: bool = False) -> None:
        self.shape = (int(matrix.shape[0]), int(matrix.shape[1]))
        self._stored_dtype = np.dtype(matrix.dtype)
        self.dtype = working_dtype(matrix.dtype) if dtype is None else np.dtype(dtype)
        self.matrix = (matrix if matrix.dtype == self.dtype else matrix.astype(self.dtype)).tocsr()
        self.device = Device.of(self.matrix.data)
        if not checked and not self.matrix.has_canonical_format:
            self.matrix = self.matrix.copy()
            self.matrix.sum_duplicates()
        self.matrix.has_canonical_format = True  # CuPy looks again otherwise
        self._nnz = int(self.matrix.nnz)

    @with_device
    def in_dtype(self, dtype: DType) -> LinearOperator | None:
        """The same matrix, converted."""
        return self if dtype == self.dtype else CupySparseOperator(self.matrix, dtype, checked=True)

    @property
    def stored_array(self) -> Any:
        return self.matrix

    def _loaded(self, name: str) -> Rows:
        rows = copy(self._transposed)
        rows.name = name
        return rows

    @cached_property
    def _transposed(self) -> DeviceSparse:
        return DeviceSparse(self.matrix)

    def _dense(self) -> Array:
        return self.matrix.toarray()

    def _rows(self, selection: Selection) -> LinearOperator:
        return CupySparseOperator(self.matrix[selection], checked=True)


def is_cupy_sparse(source: Any) -> bool:
    """Whether `source` is a sparse matrix of CuPy, without importing CuPy."""
    return type(source).__module__.startswith("cupyx.scipy.sparse") and not is_array(source)


def known(data: Any) -> LinearOperator | None:
    """Make the operator of data that linspec itself knows; None for other data."""
    if isinstance(data, np.ndarray):
        return DenseOperator(data) if memory_map(data) is None else MappedOperator(data)
    if is_array(data):
        with on_device(data):
            return DenseOperator(data)
    if is_scipy_sparse(data):
        return SparseOperator(data)
    if is_cupy_sparse(data):
        with on_device(data.data):
            return CupySparseOperator(data)
    # The methods come first: a dataset of a closed file raises when its shape is read.
    parts = ("matmat", "rmatmat", "shape", "dtype")
    return None if line_for(data) or not all(hasattr(data, name) for name in parts) else ForeignOperator(data)
