"""`cupy.ndarray`: an array of the host that claims to be on a device, and permits only what a device permits.

Source: `cupy/_core/core.pyx`, `_routines_indexing.pyx` and `_kernel.pyx` of CuPy.
"""

from __future__ import annotations

import builtins
import types
from collections.abc import Callable
from typing import Any

import numpy as np
from doubles.cupy_double import devices, surface
from doubles.cupy_double.account import ACCOUNT

SCALARS = (builtins.bool, int, float, complex, np.generic)
"""Scalars that a kernel takes beside arrays of the device (`_scalar.pyx`)."""

NUMBERS = "?bhilqBHILQefdFD"
"""The dtypes that CuPy has."""

VIEWS = frozenset(
    [
        "T",
        "mT",
        "reshape",
        "transpose",
        "swapaxes",
        "ravel",
        "squeeze",
        "view",
        "diagonal",
        "moveaxis",
        "rollaxis",
        "expand_dims",
        "broadcast_to",
        "flip",
        "fliplr",
        "flipud",
        "atleast_1d",
        "atleast_2d",
        "atleast_3d",
        "real",
        "rot90",
        "broadcast_arrays",
        "matrix_transpose",
        "permute_dims",
    ]
)
"""Functions that launch no kernel where a view will do."""

READ_BACK = frozenset(
    [
        "nonzero",
        "flatnonzero",
        "argwhere",
        "unique",
        "extract",
        "compress",
        "intersect1d",
        "union1d",
        "setdiff1d",
        "setxor1d",
        "in1d",
        "isin",
        "bincount",
        "histogram",
        "trim_zeros",
        "unique_all",
        "unique_counts",
        "unique_inverse",
        "unique_values",
    ]
)
"""Functions that read a number back to know the size of their result."""


class Overlap(AssertionError):  # noqa: N818 (it states a fact about the caller)
    """An operation in place reads memory that it writes elsewhere: what it leaves depends on the order of threads."""


def wrapped(result: Any, device: int | None = None) -> Any:
    """Put a result of NumPy on a device, by default the current one. Results without dimensions stay arrays."""
    if isinstance(result, tuple | list):
        parts = [wrapped(each, device) for each in result]
        return type(result)(*parts) if hasattr(result, "_fields") else type(result)(parts)
    if isinstance(result, np.ndarray | np.generic):
        return ndarray._of(np.asarray(result), devices.current() if device is None else device)
    return result


def bare(thing: Any, where: str) -> Any:
    """The arrays of the host behind those of the device, also within lists; arrays of the host are refused."""
    if isinstance(thing, ndarray):
        return thing._host
    if isinstance(thing, np.ndarray):
        raise TypeError(f"Unsupported type {type(thing)} in {where}: arrays of host and device do not meet.")
    if isinstance(thing, list | tuple) and not hasattr(thing, "_fields"):
        return type(thing)(bare(each, where) for each in thing)
    if hasattr(thing, "__array_interface__") and not isinstance(thing, np.generic | type):
        raise TypeError(f"Unsupported type {type(thing)} in {where}.")
    return thing


def arrays_in(*things: Any) -> list[ndarray]:
    """The arrays of the device among arguments."""
    found: list[ndarray] = []
    for thing in things:
        if isinstance(thing, ndarray):
            found.append(thing)
        elif isinstance(thing, list | tuple):
            found += arrays_in(*thing)
    return found


def overlapping(target: np.ndarray[Any, Any], source: np.ndarray[Any, Any]) -> bool:
    """Whether two arrays share memory, entry for entry at other places."""
    if not np.may_share_memory(target, source) or target.size <= 1:
        return False
    same = target.__array_interface__["data"] == source.__array_interface__["data"]
    if same and target.shape == source.shape and target.strides == source.strides:
        return False
    return np.shares_memory(target, source)


def launched(name: str, function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """A function of NumPy, as a kernel of the current device."""
    given = arrays_in(*args, *kwargs.values())
    with np.errstate(all="ignore"):
        plain_args = [bare(each, name) for each in args]
        plain = {key: bare(each, name) for key, each in kwargs.items()}
        out = kwargs.get("out")
        if isinstance(out, ndarray) and any(
            overlapping(out._host, each._host) for each in given if each is not out
        ):
            raise Overlap(f"{name} writes into memory that it reads")
        result = function(*plain_args, **plain)
    if name in VIEWS and given and _all_views(result, given):
        return wrapped(result, given[0]._device)
    devices.check(*(each._device for each in given))
    if name in READ_BACK:
        ACCOUNT.note("sync", 8, name)
    return out if isinstance(out, ndarray) else wrapped(result)


def _all_views(result: Any, given: list[ndarray]) -> bool:
    parts = result if isinstance(result, tuple | list) else [result]
    return all(
        isinstance(each, np.ndarray)
        and any(np.may_share_memory(each, one._host) or not each.size for one in given)
        for each in parts
    )


def _scalar(x: Any, legacy: bool) -> Any:
    """Before CuPy 14 a scalar of NumPy was as weak as one of Python."""
    return x.item() if legacy and isinstance(x, np.generic) else x


def operand(x: Any, name: str, legacy: bool = False) -> Any:
    """Check an operand of a ufunc, and return its host value (`_preprocess_args`)."""
    if isinstance(x, ndarray):
        return x._host
    if isinstance(x, SCALARS):
        return _scalar(x, legacy)
    raise TypeError(f"Unsupported type {type(x)} in {name}: only arrays of the device and scalars.")


class ndarray:  # noqa: N801 (its name)
    """An array on a device."""

    __module__ = "cupy"
    __slots__ = ("__weakref__", "_device", "_host")
    __array_priority__ = 100
    __hash__ = None  # type: ignore[assignment]

    _namespace: Any = None
    """The module `cupy` of this process."""

    _legacy = False
    """Whether scalars of NumPy are weak."""

    def __init__(
        self, shape: Any, dtype: Any = float, memptr: Any = None, strides: Any = None, order: str = "C"
    ):
        if memptr is not None or strides is not None:
            raise NotImplementedError("the double of CuPy has no pointers to memory.")
        self._host = np.empty(shape, _supported(dtype), order=order)  # type: ignore[call-overload]
        self._host.fill(np.nan if self._host.dtype.kind in "fc" else 77)
        self._device = devices.current()

    @classmethod
    def _of(cls, host: np.ndarray[Any, Any], device: int) -> ndarray:
        _supported(host.dtype)
        made: ndarray = object.__new__(cls)
        made._host, made._device = host, device
        return made

    # ---- what it is ------------------------------------------------------------------------------------

    dtype = property(lambda self: self._host.dtype)
    ndim = property(lambda self: self._host.ndim)
    size = property(lambda self: self._host.size)
    nbytes = property(lambda self: self._host.nbytes)
    itemsize = property(lambda self: self._host.itemsize)
    strides = property(lambda self: self._host.strides)
    device = property(lambda self: devices.Device(self._device))
    T = property(lambda self: wrapped(self._host.T, self._device))
    mT = property(lambda self: wrapped(self._host.mT, self._device))
    real = property(lambda self: wrapped(self._host.real, self._device))

    @property
    def shape(self) -> tuple[int, ...]:
        return self._host.shape

    @shape.setter
    def shape(self, shape: Any) -> None:
        self._host.shape = shape

    @property
    def flags(self) -> Any:
        flags = self._host.flags
        names = ("c_contiguous", "f_contiguous", "owndata")
        return types.SimpleNamespace(**{name: getattr(flags, name) for name in names})

    def __len__(self) -> int:
        if self.ndim == 0:
            raise TypeError("len() of unsized object")
        return self.shape[0]

    # ---- to the host and back --------------------------------------------------------------------------

    def get(self, stream: Any = None, order: str = "C", out: Any = None, blocking: bool = True) -> Any:
        """A copy on the host, from any device."""
        ACCOUNT.note("down", self.nbytes)
        if out is not None:
            np.copyto(out, self._host, casting="no")
            return out
        return np.array(self._host, order=order)  # type: ignore[call-overload]

    def set(self, arr: Any, stream: Any = None) -> None:
        """Take the entries of an array of the host."""
        if not isinstance(arr, np.ndarray):
            raise TypeError("Only numpy.ndarray can be set to cupy.ndarray")
        if arr.dtype != self.dtype or arr.shape != self.shape:
            raise ValueError(
                f"{arr.dtype} array of shape {arr.shape} cannot be set to {self.dtype} of {self.shape}"
            )
        ACCOUNT.note("up", self.nbytes)
        self._host[...] = arr

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        raise TypeError(
            "Implicit conversion to a NumPy array is not allowed. Please use `.get()` to construct a NumPy array "
            "explicitly."
        )

    def __dlpack_device__(self) -> tuple[int, int]:
        return 2, self._device

    def __dlpack__(
        self, *, stream: Any = None, max_version: Any = None, dl_device: Any = None, copy: Any = None
    ) -> Any:
        if dl_device is None or tuple(dl_device) != (1, 0) or copy is False:
            raise BufferError("the double of CuPy exports copies to the host alone.")
        return self.get().__dlpack__(max_version=max_version)

    def _read(self, what: str) -> np.ndarray[Any, Any]:
        ACCOUNT.note("sync", self.nbytes, what)
        return self._host

    def __float__(self) -> float:
        return float(self._read("float()"))

    def __int__(self) -> int:
        return int(self._read("int()"))

    def __complex__(self) -> complex:
        return complex(self._read("complex()"))

    def __bool__(self) -> builtins.bool:
        return builtins.bool(self._read("bool()"))

    def __format__(self, how: str) -> str:
        return format(self._read("format()"), how)

    def __repr__(self) -> str:
        return repr(self._read("repr()"))

    def item(self) -> Any:
        """The only entry, as a number of Python."""
        return self._read("item()").item()

    def tolist(self) -> Any:
        """The entries as lists."""
        return self._read("tolist()").tolist()

    def tobytes(self, order: str = "C") -> bytes:
        """The entries as bytes."""
        return self._read("tobytes()").tobytes(order)  # type: ignore[arg-type]

    def __iter__(self) -> Any:
        if self.ndim == 0:
            raise TypeError("iteration over a 0-d array")
        return (self[i] for i in range(self.shape[0]))

    def __reduce__(self) -> Any:
        return _unpickled, (self.get(order="A"),)

    def __copy__(self) -> ndarray:
        return self.copy()

    def __deepcopy__(self, memo: Any) -> ndarray:
        return wrapped(self._host.copy(), self._device)  # type: ignore[no-any-return]

    def copy(self, order: str = "C") -> ndarray:
        """A copy on the current device, from any device."""
        if self._device == devices.current():
            ACCOUNT.note("kernel")
        else:
            ACCOUNT.note("across", self.nbytes)
        return wrapped(self._host.copy(order))  # type: ignore[no-any-return,arg-type]

    def astype(
        self, dtype: Any, order: str = "K", casting: Any = None, subok: Any = None, copy: Any = True
    ) -> ndarray:
        """The array in another dtype."""
        if casting is not None or subok is not None:
            raise TypeError("casting and subok are not supported yet")
        if not copy and self.dtype == np.dtype(dtype) and order == "K":
            return self
        with np.errstate(all="ignore"):
            made = self._host.astype(_supported(dtype), order=order, copy=True)  # type: ignore[call-overload]
        devices.check(*([self._device] if self.size else []))
        return wrapped(made)  # type: ignore[no-any-return]

    def view(self, dtype: Any = None, array_class: Any = None) -> ndarray:
        """Return an array on this memory."""
        made = self._host.view() if dtype is None else self._host.view(dtype)
        return wrapped(made, self._device)  # type: ignore[no-any-return]

    def fill(self, value: Any) -> None:
        """Set all entries to one value."""
        if isinstance(value, np.ndarray) and value.ndim:
            raise ValueError("non-scalar numpy.ndarray cannot be used for fill")
        devices.check(self._device)
        self._host.fill(value._host if isinstance(value, ndarray) else value)

    def dot(self, b: Any, out: Any = None) -> Any:
        """The product with another array."""
        return self._namespace.dot(self, b, out)

    # ---- entries ---------------------------------------------------------------------------------------

    def _key(self, key: Any) -> tuple[Any, builtins.bool]:
        """The key for NumPy, and whether it takes entries by their numbers. Those beyond the end wrap around."""
        parts = key if isinstance(key, tuple) else (key,)
        found, fancy, axis = [], False, 0
        for part in parts:
            if isinstance(part, ndarray | np.ndarray | list):
                fancy = True
                part, axes = self._index(part, axis)
                axis += axes
            elif part is Ellipsis:
                axis = self.ndim - (len(parts) - parts.index(part) - 1) if len(parts) > 1 else self.ndim
            elif part is not None:
                axis += 1
            found.append(part)
        return (tuple(found) if isinstance(key, tuple) else found[0]), fancy

    def _index(self, part: Any, axis: int) -> tuple[Any, int]:
        if isinstance(part, ndarray):
            devices.check(part._device)
            entries = part._host
        else:
            entries = np.asarray(part) if len(part) else np.zeros(0, int)
            ACCOUNT.note("up", entries.nbytes)
        if entries.dtype.kind == "b":
            ACCOUNT.note("sync", 8, "a mask as an index")
            return entries, entries.ndim
        if entries.dtype.kind not in "iu":
            raise IndexError("arrays used as indices must be of integer (or boolean) type")
        length = self.shape[axis] if axis < self.ndim else 0
        return (entries % length if length else entries), 1

    def __getitem__(self, key: Any) -> Any:
        plain, fancy = self._key(key)
        if fancy:
            devices.check(self._device)
            return wrapped(self._host[plain])
        return wrapped(
            np.asarray(self._host[plain]) if _basic_scalar(self._host, plain) else self._host[plain],
            self._device,
        )

    def __setitem__(self, key: Any, value: Any) -> None:
        if isinstance(value, np.ndarray) and value.ndim:
            raise ValueError("non-scalar numpy.ndarray cannot be used for fill: it lies on the host")
        if not isinstance(value, (ndarray, np.ndarray, *SCALARS)):
            raise TypeError(f"Unsupported type {type(value)}")
        plain, fancy = self._key(key)
        devices.check(self._device, *(each._device for each in arrays_in(value)))
        host = value._host if isinstance(value, ndarray) else value
        if isinstance(value, ndarray) and not fancy:
            target = self._host[plain if isinstance(plain, tuple) else (plain,)]
            if isinstance(target, np.ndarray) and overlapping(target, value._host):
                raise Overlap("an assignment reads memory that it writes")
        with np.errstate(all="ignore"):
            self._host[plain] = host

    # ---- functions of NumPy that are given it ----------------------------------------------------------

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        found = getattr(self._namespace, ufunc.__name__, None)
        if found is None or method != "__call__":
            return NotImplemented
        for each in inputs:
            if not isinstance(each, (ndarray, np.ndarray, *SCALARS)):
                return NotImplemented
        if "out" in kwargs:
            (kwargs["out"],) = kwargs["out"]
        if ufunc.__name__ in {"greater", "greater_equal", "less", "less_equal", "equal", "not_equal"}:
            inputs = tuple(x.item() if isinstance(x, np.ndarray) and x.ndim == 0 else x for x in inputs)
        return found(*inputs, **kwargs)

    def __array_function__(self, function: Any, kinds: Any, args: Any, kwargs: Any) -> Any:
        home = self._namespace
        for part in function.__module__.split(".")[1:]:
            home = getattr(home, part, None)
        found = getattr(home, function.__name__, None)
        if found is None or not all(issubclass(kind, ndarray | np.ndarray) for kind in kinds):
            return NotImplemented
        return found(*args, **kwargs)


def _basic_scalar(host: np.ndarray[Any, Any], key: Any) -> builtins.bool:
    return not isinstance(host[key], np.ndarray)


def _supported(dtype: Any) -> np.dtype[Any]:
    found = np.dtype(dtype)
    if found.char not in NUMBERS:
        raise ValueError(f"Unsupported dtype {found}")
    return found


def _unpickled(host: np.ndarray[Any, Any]) -> Any:
    return ndarray._namespace.array(host)


OPERATORS = {
    "add": "add", "sub": "subtract", "mul": "multiply", "truediv": "true_divide", "floordiv": "floor_divide",
    "mod": "remainder", "pow": "power", "matmul": "matmul", "and": "bitwise_and", "or": "bitwise_or",
    "xor": "bitwise_xor", "lshift": "left_shift", "rshift": "right_shift",
}  # fmt: skip
COMPARISONS = {
    "lt": "less", "le": "less_equal", "gt": "greater", "ge": "greater_equal", "eq": "equal", "ne": "not_equal",
}  # fmt: skip
UNARY = {"neg": "negative", "pos": "positive", "abs": "absolute", "invert": "invert"}


def _binary(ufunc: str) -> Callable[[Any, Any], Any]:
    def operation(self: Any, other: Any) -> Any:
        if getattr(other, "__array_ufunc__", 0) is None or hasattr(other, "_defers"):
            return NotImplemented
        if ufunc in {"equal", "not_equal"} and not isinstance(other, (ndarray, np.ndarray, *SCALARS)):
            return wrapped(np.full(self.shape, ufunc == "not_equal"))
        if ufunc in COMPARISONS.values() and isinstance(other, np.ndarray) and other.ndim == 0:
            other = other.item()
        return getattr(self._namespace, ufunc)(self, other)

    return operation


def _reflected(ufunc: str) -> Callable[[Any, Any], Any]:
    return lambda self, other: getattr(self._namespace, ufunc)(other, self)


def _in_place(ufunc: str) -> Callable[[Any, Any], Any]:
    def operation(self: Any, other: Any) -> Any:
        if ufunc == "matmul":
            self[...] = getattr(self._namespace, ufunc)(self, other)
            return self
        return getattr(self._namespace, ufunc)(self, other, out=self)

    return operation


def _unary(ufunc: str) -> Callable[[Any], Any]:
    return lambda self: getattr(self._namespace, ufunc)(self)


for _name, _ufunc in OPERATORS.items():
    setattr(ndarray, f"__{_name}__", _binary(_ufunc))
    setattr(ndarray, f"__r{_name}__", _reflected(_ufunc))
    setattr(ndarray, f"__i{_name}__", _in_place(_ufunc))
for _name, _ufunc in COMPARISONS.items():
    setattr(ndarray, f"__{_name}__", _binary(_ufunc))
for _name, _ufunc in UNARY.items():
    setattr(ndarray, f"__{_name}__", _unary(_ufunc))
ndarray.__hash__ = None  # type: ignore[assignment]


def give_methods(api: surface.Api) -> None:
    """The methods that need nothing of their own are NumPy's, as kernels."""
    attributes = api["classes"]["cupy.ndarray"]
    for name, (kind, _) in attributes.items():
        if (
            name.startswith("_")
            or kind != "method"
            or hasattr(ndarray, name)
            or not hasattr(np.ndarray, name)
        ):
            continue

        def method(self: Any, *args: Any, _name: str = name, **kwargs: Any) -> Any:
            return launched(_name, getattr(np.ndarray, _name), (self, *args), kwargs)

        setattr(ndarray, name, method)
    surface.hold(ndarray, "cupy.ndarray", attributes)
