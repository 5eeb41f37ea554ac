"""The kinds of data on which the kit runs a solver.

Problem: "works on any data" is a claim about libraries and files that the author of a solver may not have.
Method: each kind turns a NumPy array into its own data. array-api-strict stands for the libraries that are not
installed: its devices cannot be mixed, so that an array made without `device=` is noticed. Products are counted by an
operator of SciPy, readings by a callable of slices.
Source: the backend table of SciPy's array-API tests.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse
import scipy.sparse.linalg

__all__ = ["BACKENDS", "Backend", "Products", "Slices"]

Array = np.ndarray[Any, Any]
HEIGHT = 17
"""The number of rows of a slice."""


class Products(scipy.sparse.linalg.LinearOperator):
    """A matrix that is known by its products alone, and counts them."""

    def __init__(self, entries: Array) -> None:
        super().__init__(entries.dtype, entries.shape)
        self.entries, self.forward, self.adjoint = entries, 0, 0

    def _matmat(self, V: Array) -> Array:
        self.forward += 1
        return self.entries @ V

    def _rmatmat(self, U: Array) -> Array:
        self.adjoint += 1
        return self.entries.T @ U

    @property
    def passes(self) -> int:
        """The number of passes that the products are: one has a product with the matrix and one with its transpose."""
        return max(self.forward, self.adjoint)


class Slices:
    """A callable that yields the rows of a matrix in slices, and counts its readings."""

    def __init__(self, entries: Array) -> None:
        self.entries, self.passes = entries, 0.0

    def __call__(self) -> Iterator[Array]:
        for start in range(0, len(self.entries), HEIGHT):
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
    absent : callable
        Returns the reason why there are none here, or "".

    Examples
    --------
    >>> from linspec.testing import BACKENDS
    >>> [backend.name for backend in BACKENDS if not backend.library]
    ['csr', 'slices', 'products']
    """

    name: str
    wrap: Callable[[Array], Any]
    library: str = ""
    absent: Callable[[], str] = lambda: ""

    def missing(self) -> str:
        """Return the reason why there are no such data here, or ""."""
        if self.library and importlib.util.find_spec(self.library) is None:
            return f"no {self.library}"
        return self.absent()


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


def _torch(x: Array) -> Any:
    import torch

    return torch.from_numpy(x.copy())


def _cupy(x: Array) -> Any:
    import cupy

    return cupy.asarray(x)


def _no_device() -> str:
    import cupy

    try:
        return "" if cupy.cuda.runtime.getDeviceCount() else "cupy finds no device"
    except cupy.cuda.runtime.CUDARuntimeError as error:
        return f"cupy finds no device ({error})"


BACKENDS: tuple[Backend, ...] = (
    Backend("numpy", np.array, "numpy"),
    Backend("layout", np.asfortranarray, "numpy"),
    Backend("read-only", _backwards, "numpy"),
    Backend("float32", lambda x: x.astype(np.float32), "numpy"),
    Backend("csr", scipy.sparse.csr_array),
    Backend("slices", Slices),
    Backend("products", Products),
    Backend("array-api-strict", _strict, "array_api_strict"),
    Backend("torch", _torch, "torch"),
    Backend("cupy", _cupy, "cupy", _no_device),
)
"""All kinds of data, those that are missing here, too."""
