"""The functions of `cupy` and `cupy.linalg`: NumPy's, held to the signatures of CuPy and to its devices.

Source: `cupy/linalg/_util.py`. Unless ``cupyx.errstate(linalg="raise")`` is set, cuSOLVER's report of a factorisation
is not read, because reading it makes the host wait. A failure of a shape or of a dtype is reported at once.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import numpy as np
from doubles.cupy_double import arrays, devices, surface
from doubles.cupy_double.account import ACCOUNT
from doubles.cupy_double.arrays import SCALARS, arrays_in, launched, ndarray, refuse_overlaps, wrapped

_STATE = threading.local()
ABSENT = {"allclose", "array_equal", "array_equiv", "count_nonzero", "empty", "empty_like"}
"""Where NumPy returns a number of Python, CuPy an array; and arrays whose entries nobody has written."""

OF_UFUNCS = {"out", "_where", "dtype", "casting"}
OF_MATMUL = {"out", "dtype", "casting", "axes", "axis", "keepdims", "order", "signature"}


class ufunc:  # noqa: N801 (its name)
    """A function of entries, or `matmul`."""

    __module__ = "cupy"

    def __init__(self, name: str, function: Any, legacy: bool) -> None:
        self.function, self.name, self.legacy = function, name, legacy
        self.keywords = OF_UFUNCS if function.signature is None else OF_MATMUL

    def __call__(self, *args: Any, out: Any = None, **kwargs: Any) -> Any:
        if set(kwargs) - self.keywords or len(args) != self.function.nin:
            raise TypeError(f"Wrong arguments of cupy.{self.name}")
        plain = [self._operand(each) for each in args]
        given = arrays_in(*args)
        devices.check(*(each._device for each in arrays_in(*args, out)))
        with np.errstate(all="ignore"):
            if out is None:
                return wrapped(self.function(*plain, **kwargs))
            refuse_overlaps(f"cupy.{self.name}", out._host, given)
            self.function(*plain, out=out._host, **kwargs)
        return out

    def _operand(self, x: Any) -> Any:
        """The host value of an operand (`_preprocess_args`)."""
        if isinstance(x, ndarray):
            return x._host
        if not isinstance(x, SCALARS):
            raise TypeError(
                f"Unsupported type {type(x)} in cupy.{self.name}: arrays of the device and scalars."
            )
        return x.item() if self.legacy and isinstance(x, np.generic) else x


def fill(cupy: ModuleType, api: surface.Api) -> None:
    """Give a module the public names of `cupy`, but for its parts."""
    ndarray._namespace = cupy
    legacy = api["version"].startswith("13.")  # a scalar of NumPy was as weak as one of Python
    arrays.give_methods(api)
    cupy.ndarray, cupy.ufunc = ndarray, ufunc
    for name, (kind, told) in api["modules"]["cupy"].items():
        theirs = getattr(np, name, None)
        if name in OWN:
            setattr(cupy, name, surface.held_to(f"cupy.{name}", told, OWN[name]))
        elif kind == "ufunc" and isinstance(theirs, np.ufunc):
            setattr(cupy, name, ufunc(name, theirs, legacy))
        elif kind == "function" and callable(theirs) and name not in ABSENT:
            setattr(cupy, name, surface.held_to(f"cupy.{name}", told, _kernel(name, theirs)))
        elif kind in {"class", "constant"} and theirs is not None and not hasattr(cupy, name):
            setattr(cupy, name, theirs)


def _kernel(name: str, theirs: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *args, **kwargs: launched(name, theirs, args, kwargs)


# ---- what CuPy does in a way of its own -------------------------------------------------------------------


def array(obj: Any, dtype: Any = None, copy: Any = True, order: Any = "K", **others: Any) -> Any:
    """An array on the current device: uploaded from the host, copied from another device."""
    if isinstance(obj, ndarray):
        obj = obj if obj._device == devices.current() else obj.copy()
        return obj.astype(obj.dtype if dtype is None else dtype, order=order or "K", copy=copy)
    if arrays_in(obj):
        return launched("array", np.array, (obj,), {"dtype": dtype})
    host = np.array(obj, dtype=dtype, order=order)
    ACCOUNT.note("up", host.nbytes)
    return wrapped(host)


def asarray(a: Any, dtype: Any = None, order: Any = None, *, copy: Any = None, blocking: bool = False) -> Any:
    """Convert to an array, without a copy if it is one on this device already."""
    return array(a, dtype, bool(copy), order or "K")


def take(a: Any, indices: Any, axis: Any = None, out: Any = None) -> Any:
    """Entries by their numbers, which may come from the host; those beyond the end wrap around."""
    indices = array(indices) if isinstance(indices, np.ndarray | list) else indices
    return launched("take", np.take, (a, indices), {"axis": axis, "mode": "wrap"})


class MemoryPool:
    """The memory that the library keeps of what was freed: none."""

    def free_bytes(self) -> int:
        """Bytes that can be used again."""
        return 0


OWN: dict[str, Callable[..., Any]] = {
    "array": array,
    "asarray": asarray,
    "take": take,
    "get_default_memory_pool": MemoryPool,
}


# ---- factorisations -----------------------------------------------------------------------------------------


@contextmanager
def errstate(*, linalg: str | None = None, **others: Any) -> Iterator[None]:
    """Set the handling of failures within the block (`cupyx/_ufunc_config.py`)."""
    before = getattr(_STATE, "linalg", "ignore")
    _STATE.linalg = linalg or before
    try:
        yield
    finally:
        _STATE.linalg = before


def linalg(api: surface.Api) -> ModuleType:
    """`cupy.linalg`."""
    made = surface.module("cupy.linalg", LinAlgError=np.linalg.LinAlgError)
    for name, (kind, text) in api["modules"]["cupy.linalg"].items():
        theirs = getattr(np.linalg, name, None)
        if theirs is not None and kind in {"function", "ufunc"}:
            setattr(made, name, surface.held_to(f"cupy.linalg.{name}", text, _factorisation(name, theirs)))
    return made


def _factorisation(name: str, theirs: Callable[..., Any]) -> Callable[..., Any]:
    def function(*args: Any, **kwargs: Any) -> Any:
        given = arrays_in(*args)
        if not given or any(isinstance(each, np.ndarray) for each in args):
            raise TypeError(f"cupy.linalg.{name} takes arrays of the device; got {[*map(type, args)]}")
        if any(each.dtype == np.float16 for each in given):
            raise TypeError("float16 is not supported in linalg")
        devices.check(*(each._device for each in given))
        raises = getattr(_STATE, "linalg", "ignore") == "raise"
        if raises:
            ACCOUNT.note("report", 4)
        plain = [arrays.bare(each, name) for each in args]
        with np.errstate(all="ignore"):
            try:
                return wrapped(_parts(theirs(*plain, **kwargs)))
            except np.linalg.LinAlgError:
                failed = theirs(*map(_harmless, plain), **kwargs)  # a wrong shape is wrong here, too
                if raises:
                    raise
                return wrapped(_unknown(_parts(failed)))

    return function


def _parts(result: Any) -> Any:
    return tuple(result) if isinstance(result, tuple) else result


def _harmless(x: Any) -> Any:
    """The identity in the place of a matrix."""
    square = isinstance(x, np.ndarray) and x.ndim >= 2
    return np.broadcast_to(np.eye(*x.shape[-2:], dtype=x.dtype), x.shape).copy() if square else x


def _unknown(result: Any) -> Any:
    return tuple(map(_unknown, result)) if isinstance(result, tuple) else np.full_like(result, np.nan)
