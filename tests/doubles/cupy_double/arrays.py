"""`cupy.ndarray`: an array of the host that claims to be on a device, and permits only what a device permits.

Source: `cupy/_core/core.pyx`, `_routines_indexing.pyx` and `_kernel.pyx` of CuPy.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from doubles.cupy_double import devices, surface
from doubles.cupy_double.account import ACCOUNT

SCALARS = (bool, int, float, complex, np.generic)
"""Scalars that a kernel takes beside arrays of the device (`_scalar.pyx`)."""

NUMBERS = "?bhilqBHILQefdFD"
"""The dtypes that CuPy has."""

READ_BACK = {"nonzero", "flatnonzero", "argwhere", "unique", "isin", "bincount", "histogram"}
"""Functions that read a number back to know the size of their result."""


class Overlap(AssertionError):  # noqa: N818 (it states a fact about the caller)
    """An operation in place reads memory that it writes elsewhere: what it leaves depends on the order of threads."""


def wrapped(result: Any, device: int | None = None) -> Any:
    """Put a result of NumPy on a device, by default the current one. Results without dimensions stay arrays."""
    if isinstance(result, tuple | list):
        parts = [wrapped(each, device) for each in result]
        return type(result)(*parts) if hasattr(result, "_fields") else type(result)(parts)
    if isinstance(result, np.ndarray | np.generic):
        return ndarray(np.asarray(result), devices.current() if device is None else device)
    return result


def bare(thing: Any, where: str) -> Any:
    """The arrays of the host behind those of the device, also within lists; arrays of the host are refused."""
    if isinstance(thing, ndarray):
        return thing._host
    if isinstance(thing, np.ndarray):
        raise TypeError(f"Unsupported type {type(thing)} in {where}: arrays of host and device do not meet.")
    if isinstance(thing, list | tuple) and not hasattr(thing, "_fields"):
        return type(thing)(bare(each, where) for each in thing)
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


def refuse_overlaps(name: str, target: np.ndarray[Any, Any], sources: list[ndarray]) -> None:
    """Raise where an operation writes memory that it reads, entry for entry at other places."""
    for source in sources:
        same = target.__array_interface__ == source._host.__array_interface__
        if target.size > 1 and not same and np.shares_memory(target, source._host):
            raise Overlap(f"{name} writes into memory that it reads")


def launched(name: str, function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """A function of NumPy, as a kernel of the current device; a view launches none, nor does what gives no array."""
    given = arrays_in(*args, *kwargs.values())
    with np.errstate(all="ignore"):
        plain = {key: bare(each, name) for key, each in kwargs.items()}
        result = function(*(bare(each, name) for each in args), **plain)
    parts = result if isinstance(result, tuple | list) else [result]
    if not any(isinstance(each, np.ndarray | np.generic) for each in parts):
        return result
    if given and all(_is_view(each, given) for each in parts):
        return wrapped(result, given[0]._device)
    devices.check(*(each._device for each in given))
    if name in READ_BACK:
        ACCOUNT.note("sync", 8, name)
    return wrapped(result)


def _is_view(result: Any, given: list[ndarray]) -> bool:
    return isinstance(result, np.ndarray) and any(np.may_share_memory(result, each._host) for each in given)


class ndarray:  # noqa: N801 (its name)
    """An array on a device."""

    __module__ = "cupy"
    __slots__ = ("__weakref__", "_device", "_host")
    __array_priority__ = 100
    __array_ufunc__ = None
    __hash__ = None  # type: ignore[assignment]

    _namespace: Any = None
    """The module `cupy` of this process."""

    def __init__(self, host: np.ndarray[Any, Any], device: int) -> None:
        if host.dtype.char not in NUMBERS:
            raise ValueError(f"Unsupported dtype {host.dtype}")
        self._host, self._device = host, device

    # ---- what it is ------------------------------------------------------------------------------------

    shape = property(lambda self: self._host.shape)
    dtype = property(lambda self: self._host.dtype)
    ndim = property(lambda self: self._host.ndim)
    size = property(lambda self: self._host.size)
    nbytes = property(lambda self: self._host.nbytes)
    device = property(lambda self: devices.Device(self._device))
    T = property(lambda self: wrapped(self._host.T, self._device))

    def __len__(self) -> int:
        return len(self._host)

    def __iter__(self) -> Any:
        return (self[i] for i in range(len(self)))

    # ---- to the host and back --------------------------------------------------------------------------

    def get(self, stream: Any = None, order: str = "C", out: Any = None, blocking: bool = True) -> Any:
        """A copy on the host, from any device."""
        ACCOUNT.note("down", self.nbytes)
        return np.array(self._host, order=order)  # type: ignore[call-overload]

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        raise TypeError("Implicit conversion to a NumPy array is not allowed. Please use `.get()`.")

    def __dlpack_device__(self) -> tuple[int, int]:
        return 2, self._device

    def __dlpack__(
        self, *, stream: Any = None, max_version: Any = None, dl_device: Any = None, copy: Any = None
    ) -> Any:
        if dl_device is None or tuple(dl_device) != (1, 0) or copy is False:
            raise BufferError("the double of CuPy exports copies to the host alone.")
        return self.get().__dlpack__(max_version=max_version)

    def __reduce__(self) -> Any:
        return _unpickled, (self.get(),)

    def copy(self, order: str = "C") -> Any:
        """A copy on the current device, from any device."""
        ACCOUNT.note("kernel")
        return wrapped(self._host.copy(order))  # type: ignore[arg-type]

    def astype(
        self, dtype: Any, order: str = "K", casting: Any = None, subok: Any = None, copy: Any = True
    ) -> Any:
        """The array in another dtype."""
        if casting is not None or subok is not None:
            raise TypeError("casting and subok are not supported yet")
        if not copy and self.dtype == np.dtype(dtype) and order == "K":
            return self
        devices.check(*([self._device] if self.size else []))
        with np.errstate(all="ignore"):
            return wrapped(self._host.astype(dtype, order=order))  # type: ignore[call-overload]

    # ---- entries ---------------------------------------------------------------------------------------

    def _key(self, key: Any) -> tuple[Any, bool]:
        """The key for NumPy, and whether it takes entries by their numbers."""
        parts = key if isinstance(key, tuple) else (key,)
        fancy = [isinstance(part, ndarray | np.ndarray | list) for part in parts]
        return tuple(map(_index, parts, fancy)), any(fancy)

    def __getitem__(self, key: Any) -> Any:
        plain, fancy = self._key(key)
        if fancy:
            devices.check(self._device)
        return wrapped(self._host[plain], None if fancy else self._device)

    def __setitem__(self, key: Any, value: Any) -> None:
        if isinstance(value, np.ndarray) and value.ndim:
            raise ValueError("non-scalar numpy.ndarray cannot be used for fill: it lies on the host")
        if not isinstance(value, (ndarray, np.ndarray, *SCALARS)):
            raise TypeError(f"Unsupported type {type(value)}")
        plain, fancy = self._key(key)
        devices.check(self._device, *(each._device for each in arrays_in(value)))
        target = self._host[plain]
        if isinstance(target, np.ndarray) and not fancy:
            refuse_overlaps("an assignment", target, arrays_in(value))
        with np.errstate(all="ignore"):
            self._host[plain] = value._host if isinstance(value, ndarray) else value


def _index(part: Any, fancy: bool) -> Any:
    if not fancy:
        return part
    if isinstance(part, ndarray):
        devices.check(part._device)
        part = part._host
    else:
        part = np.asarray(part)
        ACCOUNT.note("up", part.nbytes)
    if part.dtype.kind == "b":
        ACCOUNT.note("sync", 8, "a mask as an index")
    return part


def _unpickled(host: np.ndarray[Any, Any]) -> Any:
    return ndarray._namespace.asarray(host)


OPERATORS = {
    "add": "add", "sub": "subtract", "mul": "multiply", "truediv": "true_divide", "floordiv": "floor_divide",
    "mod": "remainder", "pow": "power", "matmul": "matmul", "and": "bitwise_and", "or": "bitwise_or",
    "xor": "bitwise_xor",
}  # fmt: skip
OTHERS = {
    "lt": "less", "le": "less_equal", "gt": "greater", "ge": "greater_equal", "eq": "equal", "ne": "not_equal",
    "neg": "negative", "pos": "positive", "abs": "absolute", "invert": "invert",
}  # fmt: skip
READS = (
    "__float__", "__int__", "__complex__", "__bool__", "__format__", "__repr__", "item", "tolist", "tobytes",
)  # fmt: skip
"""What makes the host wait for the entries."""


def _operator(ufunc: str) -> Callable[..., Any]:
    def operation(self: Any, *others: Any) -> Any:
        if any(hasattr(other, "_sparse") for other in others):
            return NotImplemented
        return getattr(self._namespace, ufunc)(self, *others)

    return operation


def _reflected(ufunc: str) -> Callable[[Any, Any], Any]:
    return lambda self, other: getattr(self._namespace, ufunc)(other, self)


def _in_place(ufunc: str) -> Callable[[Any, Any], Any]:
    return lambda self, other: getattr(self._namespace, ufunc)(self, other, out=self)


def _reading(name: str) -> Callable[..., Any]:
    def read(self: Any, *args: Any) -> Any:
        ACCOUNT.note("sync", self.nbytes, name)
        return getattr(self._host, name)(*args)

    return read


for _name, _ufunc in (OPERATORS | OTHERS).items():
    setattr(ndarray, f"__{_name}__", _operator(_ufunc))
for _name, _ufunc in OPERATORS.items():
    setattr(ndarray, f"__r{_name}__", _reflected(_ufunc))
    setattr(ndarray, f"__i{_name}__", _in_place(_ufunc))
for _name in READS:
    setattr(ndarray, _name, _reading(_name))
ndarray.__hash__ = None  # type: ignore[assignment]


def give_methods(api: surface.Api) -> None:
    """The methods that need nothing of their own are NumPy's, as kernels."""

    def method(name: str) -> Callable[..., Any]:
        return lambda self, *args, **kwargs: launched(name, getattr(np.ndarray, name), (self, *args), kwargs)

    attributes = api["classes"]["cupy.ndarray"]
    for name, (kind, _) in attributes.items():
        plain = kind == "method" and not name.startswith("_") and hasattr(np.ndarray, name)
        if plain and not hasattr(ndarray, name):
            setattr(ndarray, name, method(name))
    surface.hold(ndarray, "cupy.ndarray", attributes)
