"""The functions of the modules `cupy` and `cupy.fft`: NumPy's, held to the signatures of CuPy and to its devices."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
from doubles.cupy_double import arrays, devices, surface
from doubles.cupy_double.account import ACCOUNT
from doubles.cupy_double.arrays import bare, launched, ndarray, operand, overlapping, wrapped

OF_HOSTS = frozenset(
    [
        "array_repr",
        "array_str",
        "base_repr",
        "binary_repr",
        "can_cast",
        "common_type",
        "dtype",
        "finfo",
        "get_include",
        "iinfo",
        "isdtype",
        "isfortran",
        "iscomplexobj",
        "isrealobj",
        "isscalar",
        "issubdtype",
        "issubsctype",
        "min_scalar_type",
        "mintypecode",
        "ndim",
        "obj2sctype",
        "promote_types",
        "result_type",
        "shape",
        "size",
        "typename",
        "broadcast_shapes",
        "format_parser",
        "who",
    ]
)
"""Functions of shapes and dtypes, whose results are not arrays."""

SHAPES_ALONE = frozenset({"zeros_like", "ones_like", "full_like"})
"""Functions that read the shape of an array, which may lie anywhere."""

ALWAYS_ARRAYS = frozenset({"allclose", "array_equal", "array_equiv"})
"""Where NumPy returns a number of Python, CuPy an array."""

OF_UFUNCS = {"out", "_where", "dtype", "casting"}
OF_MATMUL = {"out", "dtype", "casting", "axes", "axis", "keepdims", "order", "signature"}


class ufunc:  # noqa: N801 (its name)
    """A function of entries, or `matmul`."""

    __module__ = "cupy"

    def __init__(self, name: str, function: Any) -> None:
        self.function, self.__name__ = function, f"cupy_{name}"
        self.nin, self.nout, self.name = function.nin, function.nout, name
        self.keywords = OF_UFUNCS if function.signature is None else OF_MATMUL

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if set(kwargs) - self.keywords:
            raise TypeError(f"Wrong arguments {kwargs} of cupy.{self.name}")
        if not self.nin <= len(args) <= self.nin + self.nout:
            raise TypeError(f"Wrong number of arguments for {self.name}")
        out = kwargs.pop("out", None) if len(args) == self.nin else args[self.nin]
        plain = [operand(each, f"cupy.{self.name}", ndarray._legacy) for each in args[: self.nin]]
        given = [each for each in (*args, out) if isinstance(each, ndarray)]
        devices.check(*(each._device for each in given))
        with np.errstate(all="ignore"):
            if out is None:
                return wrapped(self.function(*plain, **kwargs))
            if not isinstance(out, ndarray):
                raise TypeError("Output arguments type must be cupy.ndarray")
            if any(overlapping(out._host, each._host) for each in given if each is not out):
                raise arrays.Overlap(f"cupy.{self.name} writes into memory that it reads")
            self.function(*plain, out=out._host, **kwargs)
        return out


def fill(cupy: ModuleType, api: surface.Api) -> None:
    """Give a module the public names of `cupy`, but for its parts."""
    ndarray._namespace = cupy
    ndarray._legacy = api["version"].startswith("13.")
    arrays.give_methods(api)
    cupy.ndarray, cupy.ufunc = ndarray, ufunc
    for name, (kind, told) in api["modules"]["cupy"].items():
        theirs = getattr(np, name, None)
        if kind == "ufunc" and isinstance(theirs, np.ufunc):
            setattr(cupy, name, ufunc(name, theirs))
        elif kind == "function" and callable(theirs):
            setattr(cupy, name, surface.held_to(f"cupy.{name}", told, _function(name, theirs)))
        elif kind in {"class", "constant"} and theirs is not None and not hasattr(cupy, name):
            setattr(cupy, name, theirs)
    for name, function in OWN.items():
        told = api["modules"]["cupy"][name][1]
        setattr(cupy, name, surface.held_to(f"cupy.{name}", told, function))


def _function(name: str, theirs: Callable[..., Any]) -> Callable[..., Any]:
    if name in OF_HOSTS:
        return lambda *args, **kwargs: theirs(*(_described(each) for each in args), **kwargs)
    if name in SHAPES_ALONE:

        def like(a: Any, *args: Any, **kwargs: Any) -> Any:
            ACCOUNT.note("kernel")
            return wrapped(theirs(bare(a, name), *args, **{k: v for k, v in kwargs.items() if v is not None}))

        return like

    def function(*args: Any, **kwargs: Any) -> Any:
        result = launched(name, theirs, args, kwargs)
        return wrapped(np.asarray(result)) if name in ALWAYS_ARRAYS else result

    return function


def _described(thing: Any) -> Any:
    return thing._host if isinstance(thing, ndarray) else thing


def fft(api: surface.Api) -> ModuleType:
    """`cupy.fft`."""
    made = surface.module("cupy.fft")
    for name, (kind, told) in api["modules"]["cupy.fft"].items():
        theirs = getattr(np.fft, name, None)
        if kind == "function" and theirs is not None:

            def function(*args: Any, _name: str = name, _theirs: Any = theirs, **kwargs: Any) -> Any:
                return launched(_name, _theirs, args, kwargs)

            setattr(made, name, surface.held_to(f"cupy.fft.{name}", told, function))
    return made


# ---- what CuPy does in a way of its own -------------------------------------------------------------------


def array(
    obj: Any,
    dtype: Any = None,
    copy: Any = True,
    order: Any = "K",
    subok: bool = False,
    ndmin: int = 0,
    *,
    blocking: bool = False,
) -> Any:
    """An array on the current device: uploaded from the host, copied from another device."""
    if subok:
        raise NotImplementedError
    if isinstance(obj, ndarray):
        if obj._device != devices.current():
            return obj.copy().astype(obj.dtype if dtype is None else dtype, copy=False)
        return obj.astype(obj.dtype if dtype is None else dtype, order=order or "K", copy=copy)
    if isinstance(obj, list | tuple) and arrays.arrays_in(obj):
        if any(not isinstance(each, ndarray) for each in obj):
            raise TypeError("a list must hold arrays of the device alone, or none")
        devices.check(*(each._device for each in obj))
        return wrapped(np.array([each._host for each in obj], dtype=dtype))
    host = np.array(obj, dtype=dtype, order=order, ndmin=ndmin)
    ACCOUNT.note("up", host.nbytes)
    return wrapped(host)


def asarray(a: Any, dtype: Any = None, order: Any = None, *, copy: Any = None, blocking: bool = False) -> Any:
    """Convert to an array, without a copy if it is one on this device already."""
    return array(a, dtype, bool(copy), order or "K")


def ascontiguousarray(a: Any, dtype: Any = None) -> Any:
    """Rows one after the other."""
    return _in_order(a, dtype, "C")


def asfortranarray(a: Any, dtype: Any = None) -> Any:
    """Columns one after the other."""
    return _in_order(a, dtype, "F")


def _in_order(a: Any, dtype: Any, order: Any) -> Any:
    a = asarray(a, dtype)
    flags = a._host.flags
    if flags.f_contiguous if order == "F" else flags.c_contiguous:
        return a
    devices.check(a._device)
    return wrapped(np.array(a._host, order=order))


def asnumpy(a: Any, stream: Any = None, order: str = "C", out: Any = None, *, blocking: bool = True) -> Any:
    """An array of the host."""
    return a.get(order=order, out=out) if isinstance(a, ndarray) else np.asarray(a, order=order)  # type: ignore[call-overload]


def empty(shape: Any, dtype: Any = float, order: str = "C") -> Any:
    """Make an array without values: NaN, so that a read of them is noticed."""
    return ndarray(shape, float if dtype is None else dtype, order=order)


def empty_like(
    prototype: Any, dtype: Any = None, order: str = "K", subok: Any = None, shape: Any = None
) -> Any:
    """Make an array without values, with the shape of another array."""
    return ndarray(prototype.shape if shape is None else shape, prototype.dtype if dtype is None else dtype)


def take(a: Any, indices: Any, axis: Any = None, out: Any = None) -> Any:
    """Entries by their numbers, which may come from the host; those beyond the end wrap around."""
    if isinstance(indices, np.ndarray | list):
        indices = array(indices)
    numbers = indices._host if isinstance(indices, ndarray) else indices
    devices.check(*(each._device for each in arrays.arrays_in(a, indices)))
    return wrapped(np.take(a._host, numbers, axis=axis, mode="wrap"))


def concatenate(
    tup: Any, axis: Any = 0, out: Any = None, *, dtype: Any = None, casting: Any = "same_kind"
) -> Any:
    """Arrays of the device, one after the other."""
    for each in tup:
        if not isinstance(each, ndarray):
            raise TypeError(f"Only cupy arrays can be concatenated; got {type(each)}")
    devices.check(*(each._device for each in tup))
    return wrapped(np.concatenate([each._host for each in tup], axis=axis, dtype=dtype, casting=casting))


class MemoryPool:
    """The memory that the library keeps of what was freed: none."""

    def free_bytes(self) -> int:
        """Bytes that can be used again."""
        return 0


def get_default_memory_pool() -> MemoryPool:
    """The pool of the current device."""
    return MemoryPool()


def get_array_module(*args: Any) -> Any:
    """`cupy` for arrays of the device, else `numpy`."""
    return ndarray._namespace if arrays.arrays_in(args) else np


OWN: dict[str, Callable[..., Any]] = {
    each.__name__: each
    for each in (
        array, asarray, ascontiguousarray, asfortranarray, asnumpy, empty, empty_like, take, concatenate,
        get_array_module, get_default_memory_pool,
    )
}  # fmt: skip
