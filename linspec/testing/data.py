"""The kinds of data on which the kit runs a solver.

Problem: "works on any data" is a claim about libraries and files that the author of a solver may not have.
Method: each kind turns a NumPy array into its own data. array-api-strict stands for the libraries that are not
installed: its devices cannot be mixed, so that an array made without `device=` is noticed.
Source: the backend table of SciPy's array-API tests.
"""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse
from scipy.sparse.linalg import aslinearoperator

__all__ = ["BACKENDS", "Backend", "Slices", "Stopped"]

Array = np.ndarray[Any, Any]
HEIGHT = 17
"""The number of rows of a slice."""


class Stopped(BaseException):
    """Raised by data in the middle of a pass."""


class Slices:
    """A callable that yields rows in slices and counts its passes; after `until` of them it raises `Stopped`, once."""

    def __init__(self, entries: Array, until: float = math.inf) -> None:
        self.entries, self.until, self.passes, self.stopped = entries, until, 0.0, False

    def __call__(self) -> Iterator[Array]:
        for start in range(0, len(self.entries), HEIGHT):
            if self.passes > self.until and not self.stopped:
                self.stopped = True
                raise Stopped
            part = self.entries[start : start + HEIGHT]
            self.passes += len(part) / len(self.entries)
            yield part.copy()


@dataclass(frozen=True)
class Backend:
    """A kind of data.

    Attributes
    ----------
    name : str
    wrap : callable
        Turns a NumPy array into data.
    library : str, default ""
        The library of the arrays, which the arrays of an answer must belong to; "" if the data are no arrays.

    Examples
    --------
    >>> from linspec.testing import BACKENDS
    >>> [backend.name for backend in BACKENDS if not backend.library]
    ['csr', 'slices', 'iterator', 'products']
    """

    name: str
    wrap: Callable[[Array], Any]
    library: str = ""

    def missing(self) -> str:
        """Return the reason why there are no such data here, or ""."""
        here = not self.library or importlib.util.find_spec(self.library)
        return "" if here else f"no {self.library}"


def _backwards(x: Array) -> Array:
    """Return a read-only copy whose entries lie in memory in reverse order, with gaps."""
    everything = tuple(slice(None, None, -2) for _ in x.shape)
    copy: Array = np.zeros([2 * size for size in x.shape], x.dtype)[everything]
    copy[...] = x
    copy.flags.writeable = False
    return copy


def _strict(x: Array) -> Any:
    import array_api_strict

    return array_api_strict.asarray(x.copy(), device=array_api_strict.Device("device1"))


def _of(library: str) -> Callable[[Array], Any]:
    return lambda x: importlib.import_module(library).asarray(x.copy())


BACKENDS: tuple[Backend, ...] = (
    Backend("numpy", np.array, "numpy"),
    Backend("layout", _backwards, "numpy"),
    Backend("float32", lambda x: x.astype(np.float32), "numpy"),
    Backend("csr", scipy.sparse.csr_array),
    Backend("slices", Slices),
    Backend("iterator", lambda x: Slices(x)()),
    Backend("products", aslinearoperator),
    Backend("array-api-strict", _strict, "array_api_strict"),
    Backend("torch", _of("torch"), "torch"),
    Backend("cupy", _of("cupy"), "cupy"),
)
"""All kinds of data, those that are missing here, too."""
