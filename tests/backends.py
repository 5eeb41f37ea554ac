"""The kinds of data that tests are run on.

A `Backend` turns a host array into data of its kind and says what an answer may be asked. array-api-strict stands for
libraries that are not installed: its devices cannot be mixed, and one of them has no float64.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import tempfile
import warnings
import weakref
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse

from linspec.arrays import working_dtype


class ProductsOnly:
    """A foreign matrix that gives two products and nothing else."""

    def __init__(self, array: Any) -> None:
        self.__array = array.copy()
        self.shape, self.dtype = array.shape, array.dtype

    def matmat(self, V: Any) -> Any:
        return self.__array @ V

    def rmatmat(self, U: Any) -> Any:
        return self.__array.T @ U


@dataclass(frozen=True, kw_only=True)
class Backend:
    """One library, or one kind of data; `missing` says why it cannot be used here, or ""."""

    name: str
    wrap: Callable[[Any], Any]
    missing: Callable[[], str] = lambda: ""
    is_array: bool = True
    float64: bool = True
    sparse: bool = False


def _readonly(x: Any) -> Any:
    x = x.copy()
    x.flags.writeable = False
    return x


def _strict(device: str) -> Callable[[Any], Any]:
    def wrap(x: Any) -> Any:
        import array_api_strict

        return array_api_strict.asarray(x.copy(), device=array_api_strict.Device(device))

    return wrap


def _by(module: str, function: str) -> Callable[[Any], Any]:
    """Copy an array by a function of a library, which is imported then."""
    return lambda x: getattr(importlib.import_module(module), function)(x.copy())


def _torch_csr(x: Any) -> Any:
    import torch

    csr = scipy.sparse.csr_array(x)
    parts = map(torch.from_numpy, (csr.indptr, csr.indices, csr.data))
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Sparse CSR tensor support", UserWarning)
        return torch.sparse_csr_tensor(*parts, size=csr.shape, check_invariants=True)


def _jax(x: Any) -> Any:
    import jax

    return jax.device_put(x.copy(), jax.local_devices(backend="cpu")[0])


_cupy = _by("cupy", "asarray")


def _cupyx(kind: str) -> Callable[[Any], Any]:
    def wrap(x: Any) -> Any:
        from cupyx.scipy import sparse

        return getattr(sparse, kind)(scipy.sparse.csr_matrix(x.astype(working_dtype(x.dtype))))

    return wrap


def _on_device1(wrap: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Make data on the second CUDA device, which is then not the current one of the solver."""

    def wrapped(x: Any) -> Any:
        import cupy

        with cupy.cuda.Device(1):
            return wrap(x)

    return wrapped


def _file(x: Any) -> Any:
    folder = tempfile.mkdtemp(prefix="linspec-")
    path = Path(folder) / "rows.npy"
    np.save(path, x)
    mapped = np.load(path, mmap_mode="r")
    weakref.finalize(mapped, shutil.rmtree, folder, ignore_errors=True)
    return mapped


def _without(module: str) -> Callable[[], str]:
    return lambda: "" if importlib.util.find_spec(module) else f"no {module}"


def _without_cupy(devices: int) -> Callable[[], str]:
    def reason() -> str:
        if importlib.util.find_spec("cupy") is None:
            return "no cupy"
        import cupy

        try:
            count = cupy.cuda.runtime.getDeviceCount()
        except cupy.cuda.runtime.CUDARuntimeError as error:
            return f"cupy finds no device ({error})"
        return "" if count >= devices else f"cupy finds {('no device', 'one device only')[count]}"

    return reason


def _kinds() -> Iterator[Backend]:
    one, two = _without_cupy(1), _without_cupy(2)
    strict, torch = _without("array_api_strict"), _without("torch")
    x64 = os.environ.get("JAX_ENABLE_X64", "").lower() in ("1", "true", "yes", "on")
    yield Backend(name="numpy", wrap=lambda x: x.copy())
    yield Backend(name="numpy-readonly", wrap=_readonly)
    yield Backend(name="array-api-strict", wrap=_strict("device1"), missing=strict)
    wrap = _strict("no_float64")
    yield Backend(name="array-api-strict-no-float64", wrap=wrap, missing=strict, float64=False)
    yield Backend(name="torch", wrap=_by("torch", "from_numpy"), missing=torch)
    yield Backend(name="cupy", wrap=_cupy, missing=one)
    yield Backend(name="cupy-device1", wrap=_on_device1(_cupy), missing=two)
    sparse: dict[str, Any] = {"is_array": False, "sparse": True}
    yield Backend(name="cupyx-csr", wrap=_cupyx("csr_matrix"), missing=one, **sparse)
    wrap = _on_device1(_cupyx("csc_matrix"))
    yield Backend(name="cupyx-csc-device1", wrap=wrap, missing=two, **sparse)
    yield Backend(name="jax", wrap=_jax, missing=_without("jax"), is_array=False, float64=x64)
    yield Backend(name="torch-sparse-csr", wrap=_torch_csr, missing=torch, **sparse)
    yield Backend(name="npy-file", wrap=_file, is_array=False)
    for name, made in (("csr", "csr_matrix"), ("csc", "csc_matrix"), ("sparse-array", "csr_array")):
        yield Backend(name=f"scipy-{name}", wrap=_by("scipy.sparse", made), **sparse)
    wrap = _by("scipy.sparse.linalg", "aslinearoperator")
    yield Backend(name="scipy-operator", wrap=wrap, is_array=False)
    yield Backend(name="products-only", wrap=ProductsOnly, is_array=False)


BACKENDS: tuple[Backend, ...] = tuple(_kinds())


def backends(names: Sequence[str] | None = None) -> tuple[Backend, ...]:
    """The backends of some names, or all, available or not."""
    return tuple(backend for backend in BACKENDS if names is None or backend.name in names)


def missing() -> dict[str, str]:
    """The backends that are missing on this machine, each with the reason."""
    return {backend.name: reason for backend in BACKENDS if (reason := backend.missing())}
