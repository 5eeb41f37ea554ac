"""`cupy.linalg`: NumPy's factorisations, which do not report that they have failed.

Source: `cupy/linalg/_util.py`. Unless ``cupyx.errstate(linalg="raise")`` is set, cuSOLVER's report is not read, because
reading it makes the host wait. A failure of a shape or of a dtype is reported at once.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import numpy as np
from doubles.cupy_double import devices, surface
from doubles.cupy_double.account import ACCOUNT
from doubles.cupy_double.arrays import launched, ndarray, wrapped

_STATE = threading.local()
FACTORISATIONS = frozenset(
    [
        "cholesky",
        "eig",
        "eigh",
        "eigvals",
        "eigvalsh",
        "inv",
        "lstsq",
        "pinv",
        "qr",
        "solve",
        "svd",
        "svdvals",
        "tensorinv",
        "tensorsolve",
        "matrix_rank",
    ]
)


def raises() -> bool:
    """Whether a failure is an error."""
    return bool(getattr(_STATE, "linalg", "ignore") == "raise")


@contextmanager
def errstate(*, linalg: str | None = None, **others: Any) -> Iterator[None]:
    """Set the handling of failures within the block (`cupyx/_ufunc_config.py`)."""
    before = getattr(_STATE, "linalg", "ignore")
    seterr(linalg=linalg)
    try:
        yield
    finally:
        _STATE.linalg = before


def seterr(*, linalg: str | None = None, **others: Any) -> None:
    """Set the handling of failures from here on."""
    if linalg not in {None, "ignore", "raise"}:
        raise NotImplementedError(f"linalg={linalg!r}")
    if linalg is not None:
        _STATE.linalg = linalg


def linalg(api: surface.Api) -> ModuleType:
    """`cupy.linalg`."""
    made = surface.module("cupy.linalg", LinAlgError=np.linalg.LinAlgError)
    told = api["modules"]["cupy.linalg"]
    for name, (kind, text) in told.items():
        theirs = getattr(np.linalg, name, None)
        if theirs is None or hasattr(made, name) or kind not in {"function", "ufunc"}:
            continue
        function = _factorisation(name, theirs) if name in FACTORISATIONS else _plain(name, theirs)
        setattr(made, name, surface.held_to(f"cupy.linalg.{name}", text, function))
    return made


def _plain(name: str, theirs: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *args, **kwargs: launched(name, theirs, args, kwargs)


def _factorisation(name: str, theirs: Callable[..., Any]) -> Callable[..., Any]:
    def function(*args: Any, **kwargs: Any) -> Any:
        given = [each for each in args if isinstance(each, ndarray)]
        if not given or any(isinstance(each, np.ndarray) for each in args):
            raise TypeError(
                f"cupy.linalg.{name} takes arrays of the device; got {[type(each) for each in args]}"
            )
        devices.check(*(each._device for each in given))
        plain = [each._host if isinstance(each, ndarray) else each for each in args]
        if any(each.dtype == np.float16 for each in plain if isinstance(each, np.ndarray)):
            raise TypeError("float16 is not supported in linalg")
        if raises():
            ACCOUNT.note("report", 4)
        with np.errstate(all="ignore"):
            try:
                return wrapped(_tuple(theirs(*plain, **kwargs)))
            except np.linalg.LinAlgError:
                failed = theirs(
                    *map(_harmless, plain), **kwargs
                )  # what is wrong with a shape is wrong here, too
                if raises():
                    raise
                return wrapped(_unknown(_tuple(failed)))

    return function


def _tuple(result: Any) -> Any:
    return tuple(result) if isinstance(result, tuple) else result


def _harmless(x: Any) -> Any:
    """The identity in the place of a matrix."""
    if not isinstance(x, np.ndarray) or x.ndim < 2:
        return x
    return np.broadcast_to(np.eye(*x.shape[-2:], dtype=x.dtype), x.shape).copy()


def _unknown(result: Any) -> Any:
    if isinstance(result, tuple):
        return tuple(_unknown(each) for each in result)
    return np.full_like(result, np.nan) if np.asarray(result).dtype.kind in "fc" else result
