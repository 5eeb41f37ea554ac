"""`cupyx` and `cupyx.scipy.sparse`: CSR and CSC matrices of the device over SciPy's.

Source: `_csr.py`, `_csc.py`, `_compressed.py` and `_index.py` of cupyx 13.4.0 and 14.2.0. Products, scalings and sums
call `sum_duplicates`, which puts the indices of the matrix itself in order. Slices of rows read two numbers back. A
product with a CSC matrix, and so with the transpose of a CSR matrix, adds up by atomic operations, in no fixed order:
it is counted. Before 14 all indices are int32.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np
import scipy.sparse
from doubles.cupy_double import devices, elementwise, factorisations, surface
from doubles.cupy_double.account import ACCOUNT
from doubles.cupy_double.arrays import SCALARS, ndarray, wrapped

DTYPES = "?fdFD"
ONLY_INT32 = False


class _Compressed:
    format = ""
    ndim = 2
    __array_priority__ = 101
    __array_ufunc__ = None
    _canonical: bool | None = None

    def __init__(self, arg1: Any, shape: Any = None, dtype: Any = None, copy: bool = False) -> None:
        if scipy.sparse.issparse(arg1):
            host = arg1.asformat(self.format)
            parts = [elementwise.array(each) for each in (host.data, host.indices, host.indptr)]
            shape = host.shape
        elif isinstance(arg1, _Compressed):
            other = getattr(arg1, f"to{self.format}")()
            parts, shape = [other.data, other.indices, other.indptr], other.shape
        elif isinstance(arg1, ndarray) and arg1.ndim == 2:
            devices.check(arg1._device)
            ACCOUNT.note("inside", 8, "the number of entries")
            host = self._kind()(arg1._host)
            parts, shape = [wrapped(each) for each in (host.data, host.indices, host.indptr)], host.shape
        elif isinstance(arg1, tuple) and len(arg1) == 2:
            host = self._kind()(arg1)
            parts = [wrapped(each) for each in (host.data, host.indices, host.indptr)]
            shape = host.shape
        elif isinstance(arg1, tuple) and len(arg1) == 3:
            if not all(isinstance(each, ndarray) for each in arg1):
                raise ValueError("data, indices and indptr must be arrays of the device")
            parts = list(arg1)
            if shape is None:
                raise ValueError("unable to infer matrix dimensions")
        else:
            raise ValueError(f"Unsupported initializer format {type(arg1)}")
        if copy:
            parts = [each.copy() for each in parts]
        data, indices, indptr = parts
        data = data if dtype is None else data.astype(dtype, copy=False)
        if data.dtype.char not in DTYPES:
            raise ValueError(
                f"Only bool, float32, float64, complex64 and complex128 are supported (actual: {data.dtype})"
            )
        if ONLY_INT32:
            indices, indptr = (each.astype(np.int32, copy=False) for each in (indices, indptr))
        self.data, self.indices, self.indptr = data, indices, indptr
        self._shape = tuple(int(length) for length in shape)

    # ---- what it is ------------------------------------------------------------------------------------

    shape = property(lambda self: self._shape)
    dtype = property(lambda self: self.data.dtype)
    device = property(lambda self: self.data.device)
    nnz = property(lambda self: self.data.size)
    size = property(lambda self: self.data.size)
    T = property(lambda self: self.transpose())

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        raise TypeError("Implicit conversion to a NumPy array is not allowed.")

    def __bool__(self) -> bool:
        raise ValueError("The truth value of an array with more than one element is ambiguous.")

    def __len__(self) -> int:
        raise TypeError("sparse matrix length is ambiguous; use getnnz()")

    @classmethod
    def _kind(cls) -> Any:
        return scipy.sparse.csr_matrix if cls.format == "csr" else scipy.sparse.csc_matrix

    def _host(self) -> Any:
        """The matrix of SciPy on the same memory."""
        devices.check(*(each._device for each in (self.data, self.indices, self.indptr)))
        parts = tuple(each._host for each in (self.data, self.indices, self.indptr))
        return self._kind()(parts, shape=self._shape)

    def _made(self, host: Any, kind: Any = None) -> Any:
        kind = type(self) if kind is None else kind
        parts = tuple(wrapped(each.copy()) for each in (host.data, host.indices, host.indptr))
        return kind(parts, shape=host.shape)

    # ---- its order -------------------------------------------------------------------------------------

    @property
    def has_canonical_format(self) -> bool:
        """Whether the indices are in order, each once; it is found out once, and read back."""
        if self.nnz == 0:
            return True
        if self._canonical is None:
            ACCOUNT.note("inside", 1, "has_canonical_format")
            self._canonical = bool(_fresh(self._host()).has_canonical_format)
        return self._canonical

    @has_canonical_format.setter
    def has_canonical_format(self, value: bool) -> None:
        self._canonical = bool(value)

    @property
    def has_sorted_indices(self) -> bool:
        """Whether the indices are in order."""
        ACCOUNT.note("inside", 1, "has_sorted_indices")
        return bool(_fresh(self._host()).has_sorted_indices)

    def sum_duplicates(self) -> None:
        """Put the indices in order, each once: this matrix itself is changed."""
        if not self.has_canonical_format:
            host = _fresh(self._host()).copy()
            host.sum_duplicates()
            self.data, self.indices, self.indptr = (
                wrapped(each) for each in (host.data, host.indices, host.indptr)
            )
            self._canonical = True

    def sort_indices(self) -> None:
        """Put the indices in order: this matrix itself is changed."""
        host = _fresh(self._host()).copy()
        host.sort_indices()
        self.data, self.indices = wrapped(host.data), wrapped(host.indices)

    # ---- copies ----------------------------------------------------------------------------------------

    def get(self, stream: Any = None) -> Any:
        """A matrix of SciPy on the host."""
        parts = tuple(each.get() for each in (self.data, self.indices, self.indptr))
        return self._kind()(parts, shape=self._shape)

    def copy(self) -> Any:
        """A copy on the current device."""
        parts = (self.data.copy(), self.indices.copy(), self.indptr.copy())
        return type(self)(parts, shape=self._shape)

    def astype(self, dtype: Any, copy: bool = True) -> Any:
        """The matrix in another dtype."""
        if not copy and self.dtype == np.dtype(dtype):
            return self
        return self._with_data(self.data.astype(dtype, copy=copy), copy)

    def _with_data(self, data: Any, copy: bool = True) -> Any:
        indices, indptr = (self.indices.copy(), self.indptr.copy()) if copy else (self.indices, self.indptr)
        return type(self)((data, indices, indptr), shape=self._shape)

    def toarray(self, order: Any = None, out: Any = None) -> Any:
        """The dense array."""
        return wrapped(self._host().toarray(order=order))

    def todense(self, order: Any = None, out: Any = None) -> Any:
        """The dense array."""
        return self.toarray(order)

    def transpose(self, axes: Any = None, copy: bool = False) -> Any:
        """The transpose in the other format, on the same memory."""
        kind = csc_matrix if self.format == "csr" else csr_matrix
        made = kind((self.data, self.indices, self.indptr), shape=self._shape[::-1], copy=copy)
        made.has_canonical_format = self.has_canonical_format
        return made

    # ---- sums and products -----------------------------------------------------------------------------

    def diagonal(self, k: int = 0) -> Any:
        """The diagonal."""
        return wrapped(self._host().diagonal(k))

    def sum(self, axis: Any = None, dtype: Any = None, out: Any = None) -> Any:
        """Sums, by a product with ones."""
        self.sum_duplicates()
        return wrapped(np.asarray(self._host().sum(axis, dtype=dtype)))

    def dot(self, other: Any) -> Any:
        """The product."""
        return self * other if isinstance(other, SCALARS) else self @ other

    def __matmul__(self, other: Any) -> Any:
        if isinstance(other, SCALARS):
            raise ValueError("Scalar operands are not allowed, use '*' instead")  # noqa: TRY004 (CuPy's)
        if isinstance(other, _Compressed):
            self.sum_duplicates()
            other.sum_duplicates()
            return self._made((self._host() @ other._host()).tocsr(), csr_matrix)
        if not isinstance(other, ndarray):
            return NotImplemented
        self.sum_duplicates()
        devices.check(other._device)
        if self.format == "csc":
            ACCOUNT.note("atomics")
        dense = elementwise.asfortranarray(other)
        dtype = np.result_type(self.dtype, dense.dtype)
        with np.errstate(all="ignore"):
            product = self._host().astype(dtype) @ dense._host.astype(dtype)
        return wrapped(np.asarray(product, order="F"))

    def __mul__(self, other: Any) -> Any:
        if isinstance(other, SCALARS):
            self.sum_duplicates()
            return self._with_data(self.data * other)
        return self @ other

    def __rmul__(self, other: Any) -> Any:
        return self * other if isinstance(other, SCALARS) else NotImplemented

    def __truediv__(self, other: Any) -> Any:
        return self * (1.0 / other) if isinstance(other, SCALARS) else NotImplemented

    def __neg__(self) -> Any:
        return self._with_data(-self.data)

    def __abs__(self) -> Any:
        return self._with_data(abs(self.data))

    # ---- rows ------------------------------------------------------------------------------------------

    def __getitem__(self, key: Any) -> Any:
        rows, columns = key if isinstance(key, tuple) else (key, slice(None))
        plain = [self._part(each, length) for each, length in zip((rows, columns), self._shape, strict=True)]
        ACCOUNT.note("inside", 8, "a selection of rows")
        return self._made(self._kind()(self._host()[plain[0], :][:, plain[1]]))

    def _part(self, key: Any, length: int) -> Any:
        if isinstance(key, slice):
            return key
        if isinstance(key, ndarray):
            devices.check(key._device)
            key = key._host
        elif isinstance(key, np.ndarray | list):
            key = np.asarray(key)
            ACCOUNT.note("up", key.nbytes)
        elif not isinstance(key, int | np.integer):
            raise IndexError(f"Index dimension must be 1 or 2; got {type(key)}")
        if np.asarray(key).dtype.kind == "b":
            return key
        if np.any(np.asarray(key) >= length) or np.any(np.asarray(key) < -length):
            raise IndexError("index out of bounds")
        return np.atleast_1d(key)


def _fresh(host: Any) -> Any:
    """SciPy keeps what it knew of the order: ask a matrix that knows nothing."""
    return type(host)((host.data, host.indices, host.indptr), shape=host.shape)


class csr_matrix(_Compressed):  # noqa: N801 (its name)
    """Compressed rows."""

    __module__ = "cupyx.scipy.sparse._csr"
    format = "csr"

    def tocsr(self, copy: bool = False) -> Any:
        """This matrix, or a copy."""
        return self.copy() if copy else self

    def tocsc(self, copy: bool = False) -> Any:
        """Compressed columns."""
        return self._made(self._host().tocsc(), csc_matrix)


class csc_matrix(_Compressed):  # noqa: N801 (its name)
    """Compressed columns."""

    __module__ = "cupyx.scipy.sparse._csc"
    format = "csc"

    def tocsc(self, copy: bool = False) -> Any:
        """This matrix, or a copy."""
        return self.copy() if copy else self

    def tocsr(self, copy: bool = False) -> Any:
        """Compressed rows."""
        return self._made(self._host().tocsr(), csr_matrix)


def modules(cupy: ModuleType, api: surface.Api) -> dict[str, ModuleType]:
    """`cupyx` and its parts."""
    global ONLY_INT32  # noqa: PLW0603 (one release in a process)
    ONLY_INT32 = api["version"].startswith("13.")
    told = api["modules"]["cupyx.scipy.sparse"]
    own = {"issparse": issparse, "isspmatrix": issparse, "vstack": vstack}
    for name, function in own.items():
        own[name] = surface.held_to(f"cupyx.scipy.sparse.{name}", told[name][1], function)
    sparse = surface.module("cupyx.scipy.sparse", **own)
    for kind in (csr_matrix, csc_matrix):
        attributes = api["classes"][f"cupyx.scipy.sparse.{kind.__name__}"]
        of_instances = {"data", "indices", "indptr"}
        of_class = {name: each for name, each in attributes.items() if name not in of_instances}
        surface.hold(kind, kind.__name__, of_class)
        setattr(sparse, kind.__name__, kind)
    for name in told:
        if not hasattr(sparse, name):
            setattr(sparse, name, surface.partial_absence(f"cupyx.scipy.sparse.{name}"))
    scipy_ = surface.module("cupyx.scipy", sparse=sparse)
    cupyx = surface.module("cupyx", scipy=scipy_)
    for name in ("errstate", "seterr"):
        text = api["modules"]["cupyx"][name][1]
        setattr(cupyx, name, surface.held_to(f"cupyx.{name}", text, getattr(factorisations, name)))
    for each in (cupyx, scipy_):
        each.__path__ = []
    return {"cupyx": cupyx, "cupyx.scipy": scipy_, "cupyx.scipy.sparse": sparse}


def vstack(blocks: Any, format: Any = None, dtype: Any = None) -> Any:  # noqa: A002 (its name)
    """Matrices one below the other."""
    devices.check()
    host = scipy.sparse.vstack([each._host() for each in blocks], format=format or "csr", dtype=dtype)
    kind = csr_matrix if host.format == "csr" else csc_matrix
    return kind(tuple(wrapped(each) for each in (host.data, host.indices, host.indptr)), shape=host.shape)


def issparse(x: Any) -> bool:
    """Whether it is a sparse matrix of the device."""
    return isinstance(x, _Compressed)
