"""`cupyx` and `cupyx.scipy.sparse`: CSR and CSC matrices of the device over SciPy's.

Source: `_csr.py`, `_csc.py`, `_compressed.py` and `_index.py` of cupyx 13.4.0 and 14.2.0. Products call
`sum_duplicates`, which puts the indices of the matrix itself in order. Slices of rows read two numbers back. Before 14
all indices are int32.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np
import scipy.sparse
from doubles.cupy_double import devices, functions, surface
from doubles.cupy_double.account import ACCOUNT
from doubles.cupy_double.arrays import SCALARS, ndarray, wrapped

DTYPES = "?fdFD"
ONLY_INT32 = False


class _Compressed:
    format, other = "", ""
    ndim = 2
    __array_priority__ = 101
    __array_ufunc__ = None
    _sparse = True
    _canonical: bool | None = None

    def __init__(self, arg1: Any, shape: Any = None, dtype: Any = None, copy: bool = False) -> None:
        if scipy.sparse.issparse(arg1):
            host = arg1.asformat(self.format)
            arg1, shape = tuple(map(functions.array, (host.data, host.indices, host.indptr))), host.shape
        if not isinstance(arg1, tuple) or not all(isinstance(each, ndarray) for each in arg1) or not shape:
            raise ValueError(f"Unsupported initializer format {type(arg1)}")
        data, indices, indptr = (each.copy() for each in arg1) if copy else arg1
        if data.dtype.char not in DTYPES:
            raise ValueError(
                f"Only bool, float32, float64, complex64 and complex128 are supported (actual: {data.dtype})"
            )
        if ONLY_INT32:
            indices, indptr = (each.astype(np.int32, copy=False) for each in (indices, indptr))
        self.data, self.indices, self.indptr = data, indices, indptr
        self._shape = tuple(int(length) for length in shape)

    shape = property(lambda self: self._shape)
    dtype = property(lambda self: self.data.dtype)
    nnz = property(lambda self: self.data.size)
    T = property(lambda self: self.transpose())

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        raise TypeError("Implicit conversion to a NumPy array is not allowed.")

    def _host(self) -> Any:
        """The matrix of SciPy on the same memory, which knows nothing of the order of its indices."""
        parts = self.data, self.indices, self.indptr
        devices.check(*(each._device for each in parts))
        return HOSTS[self.format](tuple(each._host for each in parts), shape=self._shape)

    # ---- its order -------------------------------------------------------------------------------------

    @property
    def has_canonical_format(self) -> bool:
        """Whether the indices are in order, each once; it is found out once, and read back."""
        if self.nnz and self._canonical is None:
            ACCOUNT.note("inside", 1, "has_canonical_format")
            self._canonical = bool(self._host().has_canonical_format)
        return not self.nnz or bool(self._canonical)

    @has_canonical_format.setter
    def has_canonical_format(self, value: bool) -> None:
        self._canonical = bool(value)

    def sum_duplicates(self) -> None:
        """Put the indices in order, each once: this matrix itself is changed."""
        if not self.has_canonical_format:
            host = self._host().copy()
            host.sum_duplicates()
            self.data, self.indices, self.indptr = map(wrapped, (host.data, host.indices, host.indptr))
            self._canonical = True

    # ---- copies ----------------------------------------------------------------------------------------

    def copy(self) -> Any:
        """A copy on the current device."""
        return type(self)((self.data, self.indices, self.indptr), shape=self._shape, copy=True)

    def astype(self, dtype: Any, copy: bool = True) -> Any:
        """The matrix in another dtype."""
        return type(self)((self.data.astype(dtype), self.indices, self.indptr), shape=self._shape, copy=copy)

    def toarray(self, order: Any = None, out: Any = None) -> Any:
        """The dense array."""
        return wrapped(self._host().toarray(order=order))

    def transpose(self, axes: Any = None, copy: bool = False) -> Any:
        """The transpose in the other format, on the same memory."""
        parts = self.data, self.indices, self.indptr
        made = KINDS[self.other](parts, shape=self._shape[::-1], copy=copy)
        made.has_canonical_format = self.has_canonical_format
        return made

    def tocsr(self, copy: bool = False) -> Any:
        """Compressed rows: this matrix, or a copy."""
        if self.format == "csr":
            return self.copy() if copy else self
        return _made(self._host().tocsr())

    # ---- products and rows -----------------------------------------------------------------------------

    def __matmul__(self, other: Any) -> Any:
        if isinstance(other, SCALARS):
            raise ValueError("Scalar operands are not allowed, use '*' instead")  # noqa: TRY004 (CuPy's)
        if not isinstance(other, ndarray):
            return NotImplemented
        self.sum_duplicates()
        devices.check(other._device)
        dtype = np.result_type(self.dtype, other.dtype)
        with np.errstate(all="ignore"):
            product = self._host().astype(dtype) @ other._host.astype(dtype)
        return wrapped(np.asarray(product, order="F"))

    def __getitem__(self, key: Any) -> Any:
        rows, columns = key if isinstance(key, tuple) else (key, slice(None))
        if columns != slice(None):
            raise NotImplementedError("the double of CuPy selects rows alone.")
        if isinstance(rows, np.ndarray):
            ACCOUNT.note("up", rows.nbytes)
        ACCOUNT.note("inside", 8, "a selection of rows")
        return _made(self._host()[rows._host if isinstance(rows, ndarray) else rows, :])


class csr_matrix(_Compressed):  # noqa: N801 (its name)
    """Compressed rows."""

    __module__ = "cupyx.scipy.sparse._csr"
    format, other = "csr", "csc"


class csc_matrix(_Compressed):  # noqa: N801 (its name)
    """Compressed columns."""

    __module__ = "cupyx.scipy.sparse._csc"
    format, other = "csc", "csr"


KINDS: dict[str, Any] = {"csr": csr_matrix, "csc": csc_matrix}
HOSTS: dict[str, Any] = {"csr": scipy.sparse.csr_matrix, "csc": scipy.sparse.csc_matrix}


def _made(host: Any) -> Any:
    parts = tuple(wrapped(each.copy()) for each in (host.data, host.indices, host.indptr))
    return KINDS[host.format](parts, shape=host.shape)


def vstack(blocks: Any, format: Any = None, dtype: Any = None) -> Any:  # noqa: A002 (its name)
    """Matrices one below the other."""
    host = scipy.sparse.vstack([each._host() for each in blocks], format=format or "csr", dtype=dtype)
    return _made(host)


def modules(api: surface.Api) -> dict[str, ModuleType]:
    """`cupyx` and its parts."""
    global ONLY_INT32  # noqa: PLW0603 (one release in a process)
    ONLY_INT32 = api["version"].startswith("13.")
    told = api["modules"]["cupyx.scipy.sparse"]
    held = surface.held_to("cupyx.scipy.sparse.vstack", told["vstack"][1], vstack)
    sparse = surface.module("cupyx.scipy.sparse", vstack=held)
    for kind in (csr_matrix, csc_matrix):
        attributes = api["classes"][f"cupyx.scipy.sparse.{kind.__name__}"]
        of_class = {
            name: each for name, each in attributes.items() if name not in {"data", "indices", "indptr"}
        }
        surface.hold(kind, kind.__name__, of_class)
        setattr(sparse, kind.__name__, kind)
    surface.stand_for_the_rest(sparse, api)
    scipy_ = surface.module("cupyx.scipy", sparse=sparse)
    text = api["modules"]["cupyx"]["errstate"][1]
    cupyx = surface.module(
        "cupyx", scipy=scipy_, errstate=surface.held_to("errstate", text, functions.errstate)
    )
    for each in (cupyx, scipy_):
        each.__path__ = []
    return {"cupyx": cupyx, "cupyx.scipy": scipy_, "cupyx.scipy.sparse": sparse}
