"""The kinds of data that tests are run on, operators that count their use, and the laws of an operator.

A `Backend` turns a host array into data of its kind and says what an answer may be asked. array-api-strict stands for
libraries that are not installed: its devices cannot be mixed, and one of them has no float64.
"""

from __future__ import annotations

import importlib.util
import itertools
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

from linspec.arrays import to_host, working_dtype
from linspec.operators import LinearOperator, as_operator
from linspec.process.locks import locked


class ProductsOnly:
    """A foreign matrix that gives two products and nothing else."""

    def __init__(self, array: Any) -> None:
        self.__array = array.copy()
        self.shape, self.dtype = array.shape, array.dtype

    def matmat(self, V: Any) -> Any:
        return self.__array @ V

    def rmatmat(self, U: Any) -> Any:
        return self.__array.T @ U

    def snapshot(self) -> bytes:
        return self.__array.tobytes()


class CountingOperator(LinearOperator):
    """An operator that can do what is asked for, and counts products, columns and passes by itself.

    A product with, or the taking of, some of the rows counts as their share of all rows. Rows that were counted when
    they were taken, `of` an operator, count products there and no passes.
    """

    def __init__(
        self,
        data: Any,
        *,
        sliceable: bool = False,
        readable: bool = False,
        of: Any = None,
        share: float = 1.0,
    ) -> None:
        self.inner = as_operator(data)
        self.shape, self.dtype, self.device = self.inner.shape, self.inner.dtype, self.inner.device
        self.access, self.readable = "rows" if sliceable else "products", readable
        self.of, self.share = of or self, share
        self.forward = self.adjoint = self.columns = self.passes = 0.0

    @property
    def nnz(self) -> int:
        return self.inner.nnz

    def _matmat(self, V: Any) -> Any:
        self.count(forward=1.0, columns=V.shape[1], passes=1.0)
        return self.inner.matmat(V)

    def _rmatmat(self, U: Any) -> Any:
        self.count(adjoint=1.0, columns=U.shape[1], passes=1.0)
        return self.inner.rmatmat(U)

    def _rows(self, selection: Any) -> LinearOperator:
        if self.access != "rows":
            return super()._rows(selection)
        rows = self.inner.rows(selection)
        share = rows.shape[0] / max(self.shape[0], 1)
        self.count(passes=share)
        return CountingOperator(
            rows, sliceable=True, readable=self.readable, of=self.of, share=self.share * share
        )

    def _dense(self) -> Any:
        if not self.readable:
            return super()._dense()
        self.count(passes=1.0)
        return self.inner.dense()

    def count(self, *, passes: float = 0.0, **amounts: float) -> None:
        with locked(self.of):  # threads multiply their rows at once
            self.of.passes += passes if self.of is self else 0.0
            for name, amount in amounts.items():
                setattr(self.of, name, getattr(self.of, name) + self.share * amount)


def check_operator(data: Any, *, entries: Any) -> list[str]:
    """Compare products, rows and entries of an operator with those of a dense matrix; return what differs."""
    A, M = as_operator(data), np.asarray(entries, np.float64)
    n, rng = len(M), np.random.default_rng(0)
    issues = [] if tuple(A.shape) == M.shape else [f"shape must be {M.shape}; got {tuple(A.shape)}"]
    selections: list[Any] = [slice(0, n), slice(n // 3, 2 * n // 3 + 1), np.array([n - 1, 0, n // 2, 0])]
    taken = [(A.rows(rows), M[rows]) for rows in (selections if A.gathers else ())]
    for B, exact in [(A, M), *taken]:
        for k, product in itertools.product((3, 1, 0), (B.matmat, B.rmatmat)):
            E, device = (exact, A.device.blocks) if product == B.matmat else (exact.T, A.device)
            V = rng.standard_normal((E.shape[1], k)).astype(A.dtype)
            block = device.asarray(V.copy(), np.float64 if product == B.matmat else A.dtype)
            found, what = to_host(product(block)), f"{product.__name__} of {exact.shape}"
            limit = 8 * np.finfo(A.dtype).eps * (np.sqrt(max(M.shape)) + 4) * (np.abs(E) @ np.abs(V))
            off = np.abs(found - E @ V.astype(float)) if found.shape == limit.shape else np.inf
            issues += [f"{what} is wrong"] if np.any(off > limit + 1e-300) else []
            issues += [] if np.array_equal(to_host(block), V) else [f"{what} writes into its block"]
    if A.readable and not np.array_equal(to_host(A.dense()), M.astype(A.dtype)):
        issues.append("dense is wrong")
    return issues


# ---- the table --------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Backend:
    """One library, or one kind of data.

    `missing` says why it cannot be used here, or "". Of data that `is_array`, answers are arrays of the same library;
    of others they are NumPy arrays, or of the library that `beside` makes right-hand sides in.
    """

    name: str
    wrap: Callable[[Any], Any]
    snapshot: Callable[[Any], bytes] = lambda x: np.ascontiguousarray(to_host(x)).tobytes()
    missing: Callable[[], str] = lambda: ""
    is_array: bool = True
    float64: bool = True
    readable: bool = True
    sparse: bool = False
    beside: Callable[[Any], Any] | None = None

    def companion(self, array: Any) -> Any:
        """Turn a host array into a right-hand side that goes with the data."""
        if self.is_array:
            return self.wrap(array)
        return array.copy() if self.beside is None else self.beside(array)


def _bytes(*parts: str) -> Callable[[Any], bytes]:
    def read(x: Any) -> bytes:
        found = (getattr(x, part) for part in parts)
        arrays = (to_host(part() if callable(part) else part) for part in found)
        return b"".join(np.ascontiguousarray(array).tobytes() for array in arrays)

    return read


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


_cupy, _torch = _by("cupy", "asarray"), _by("torch", "from_numpy")


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
    yield Backend(name="torch", wrap=_torch, missing=torch)
    yield Backend(name="cupy", wrap=_cupy, missing=one)
    yield Backend(name="cupy-device1", wrap=_on_device1(_cupy), missing=two)
    stored = _bytes("data", "indices", "indptr")
    sparse: dict[str, Any] = {"is_array": False, "sparse": True, "snapshot": stored}
    yield Backend(name="cupyx-csr", wrap=_cupyx("csr_matrix"), missing=one, beside=_cupy, **sparse)
    wrap = _on_device1(_cupyx("csc_matrix"))
    yield Backend(name="cupyx-csc-device1", wrap=wrap, missing=two, beside=_on_device1(_cupy), **sparse)
    yield Backend(name="jax", wrap=_jax, missing=_without("jax"), is_array=False, float64=x64, beside=_jax)
    of_torch = {**sparse, "snapshot": _bytes("values", "col_indices", "crow_indices")}
    yield Backend(name="torch-sparse-csr", wrap=_torch_csr, missing=torch, beside=_torch, **of_torch)
    yield Backend(name="npy-file", wrap=_file, is_array=False)
    for name, made in (("csr", "csr_matrix"), ("csc", "csc_matrix"), ("sparse-array", "csr_array")):
        yield Backend(name=f"scipy-{name}", wrap=_by("scipy.sparse", made), **sparse)
    products: dict[str, Any] = {"is_array": False, "readable": False}
    wrap = _by("scipy.sparse.linalg", "aslinearoperator")
    yield Backend(name="scipy-operator", wrap=wrap, snapshot=lambda A: A.A.tobytes(), **products)
    yield Backend(name="products-only", wrap=ProductsOnly, snapshot=ProductsOnly.snapshot, **products)


BACKENDS: tuple[Backend, ...] = tuple(_kinds())


def backends(names: Sequence[str] | None = None) -> tuple[Backend, ...]:
    """The backends of some names, or all, available or not."""
    return tuple(backend for backend in BACKENDS if names is None or backend.name in names)


def missing() -> dict[str, str]:
    """The backends that are missing on this machine, each with the reason."""
    return {backend.name: reason for backend in BACKENDS if (reason := backend.missing())}
