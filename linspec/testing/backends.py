"""The libraries and kinds of data on which the conformance kit runs every solver.

Problem: "works on any array" is a claim about libraries that the author of a solver may not have.
Method: each backend turns a host array into its own kind of data and declares the properties of the answer.
array-api-strict stands for the libraries that are not installed: its devices cannot be mixed, and one of
them has no float64. Its data are not on the default device, so an array that is made without `device=` is
noticed. Read-only NumPy arrays refuse to be written to.
Source: the backend table of SciPy's array-API tests.
Where we differ: sparse matrices, files and operators that only give products are in the same table, because a
user has such data, too. By default a solver is tested on one backend for each way in which data reach it: entries in
memory, arrays of a library, files, sparse rows, products. Kinds of data for which linspec makes the same operator are
tested on request, with ``backends="all"`` or ``LINSPEC_CONFORMANCE=all``; a test of the operators checks that they are
the same.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import tempfile
import warnings
import weakref
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
import scipy.sparse
import scipy.sparse.linalg

from linspec.arrays import HostArray, to_host, working_dtype
from linspec.testing.operators import ProductsOnly

__all__ = ["ALL", "BACKENDS", "Backend", "Choice", "backends", "missing"]

ALL = "all"
"""In place of names of backends: run every check, on every case, on every available backend."""


@dataclass(frozen=True, kw_only=True)
class Backend:
    """One library, or one kind of data.

    Attributes
    ----------
    name : str
        Part of a test's id.
    wrap : callable
        Turns a host array into data.
    snapshot : callable
        Returns the content of the data as bytes, which shows whether a solver changed them.
    missing : callable
        Returns why the backend cannot be used here, or "" if it can.
    is_array : bool
        Whether the data are arrays in which solvers compute, so that answers belong to the same library and device.
        Answers to other kinds of data are NumPy arrays, or arrays of the library that has lent them (`beside`).
    float64 : bool
        Whether float64 exists there.
    readable : bool
        Whether the entries can be read.
    sparse : bool
        Whether the data are sparse matrices.
    beside : callable or None
        For data that are not arrays: a function that makes the arrays that go with the data, such as right-hand sides,
        from host arrays. None for copies of the host arrays.
    usual : collection of str or None
        The checks that run on this backend if no backends are named; None for all checks. Empty if a solver cannot
        distinguish the data of this backend from those of another one.
    whole : int or None
        The number of cases, from the first, that are solved to convergence; None for all cases. All cases are also
        solved to convergence if the caller asks for the backends "all". Of the remaining cases only one in three runs,
        for a few iterations; each solver gets other ones. The first case always runs. This saves time on backends whose
        products are slow, and on those where only the reading of the data differs from arrays in memory.

    Examples
    --------
    >>> from linspec.testing import BACKENDS
    >>> numpy = next(backend for backend in BACKENDS if backend.name == "numpy")
    >>> numpy.is_array, numpy.sparse, numpy.missing() == ""
    (True, False, True)
    """

    name: str
    wrap: Callable[[HostArray], Any]
    snapshot: Callable[[Any], bytes]
    missing: Callable[[], str] = lambda: ""
    is_array: bool = True
    float64: bool = True
    readable: bool = True
    sparse: bool = False
    beside: Callable[[HostArray], Any] | None = None
    usual: Collection[str] | None = None
    whole: int | None = None

    def companion(self, array: HostArray) -> Any:
        """Turn a host array into a right-hand side: in the library of the data if they are arrays, else by `beside`."""
        if self.is_array:
            return self.wrap(array)
        return array.copy() if self.beside is None else self.beside(array)


def _plain(x: HostArray) -> HostArray:
    return x.copy()


def _readonly(x: HostArray) -> HostArray:
    x = x.copy()
    x.flags.writeable = False
    return x


def _bytes(x: Any) -> bytes:
    return np.ascontiguousarray(to_host(x)).tobytes()


def _strict(device: str) -> Callable[[HostArray], Any]:
    def wrap(x: HostArray) -> Any:
        import array_api_strict

        return array_api_strict.asarray(x.copy(), device=array_api_strict.Device(device))

    return wrap


def _torch(x: HostArray) -> Any:
    import torch

    return torch.from_numpy(x.copy())


def _jax(x: HostArray) -> Any:
    import jax

    return jax.device_put(x.copy(), jax.local_devices(backend="cpu")[0])


def _torch_csr(x: HostArray) -> Any:
    csr = scipy.sparse.csr_array(x)
    import torch

    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Sparse CSR tensor support", UserWarning)
        return torch.sparse_csr_tensor(
            *map(torch.from_numpy, (csr.indptr, csr.indices, csr.data)), size=csr.shape, check_invariants=True
        )


def _torch_bytes(x: Any) -> bytes:
    return b"".join(_bytes(part) for part in (x.values(), x.col_indices(), x.crow_indices()))


def _cupy(x: HostArray) -> Any:
    import cupy

    return cupy.asarray(x)


def _on_device1(wrap: Callable[[HostArray], Any]) -> Callable[[HostArray], Any]:
    """Return a function that makes data by `wrap` on the second CUDA device.

    The second device is the current one only during the call. So a solver gets data that are not on the current device.
    """

    def wrapped(x: HostArray) -> Any:
        import cupy

        with cupy.cuda.Device(1):
            return wrap(x)

    return wrapped


def _cupyx(kind: str) -> Callable[[HostArray], Any]:
    def wrap(x: HostArray) -> Any:
        from cupyx.scipy import sparse

        return getattr(sparse, kind)(scipy.sparse.csr_matrix(x.astype(working_dtype(x.dtype))))

    return wrap


def _file(x: HostArray) -> Any:
    folder = tempfile.mkdtemp(prefix="linspec-")
    path = Path(folder) / "rows.npy"
    np.save(path, x)
    mapped = np.load(path, mmap_mode="r")
    weakref.finalize(mapped, shutil.rmtree, folder, ignore_errors=True)
    return mapped


def _sparse(kind: Callable[[HostArray], Any]) -> Callable[[HostArray], Any]:
    return lambda x: kind(x.copy())


def _sparse_bytes(x: Any) -> bytes:
    return b"".join(_bytes(part) for part in (x.data, x.indices, x.indptr))


def _lacks(module: str) -> Callable[[], str]:
    return lambda: "" if importlib.util.find_spec(module) else f"no {module}"


def _lacks_cupy() -> str:
    if importlib.util.find_spec("cupy") is None:
        return "no cupy"
    import cupy

    try:
        count = cupy.cuda.runtime.getDeviceCount()
    except cupy.cuda.runtime.CUDARuntimeError as error:
        return f"cupy finds no device ({error})"
    return "" if count else "cupy finds no device"


def _lacks_device1() -> str:
    if reason := _lacks_cupy():
        return reason
    import cupy

    return "" if cupy.cuda.runtime.getDeviceCount() > 1 else "cupy finds one device only"


_STRICT = _lacks("array_api_strict")

BACKENDS: tuple[Backend, ...] = (
    Backend(name="numpy", wrap=_plain, snapshot=_bytes),
    Backend(
        name="numpy-readonly",
        wrap=_readonly,
        snapshot=_bytes,
        usual=frozenset({"input-untouched"}),
        whole=1,
    ),
    Backend(name="array-api-strict", wrap=_strict("device1"), snapshot=_bytes, missing=_STRICT, whole=0),
    Backend(
        name="array-api-strict-no-float64",
        wrap=_strict("no_float64"),
        snapshot=_bytes,
        missing=_STRICT,
        float64=False,
        whole=0,
    ),
    Backend(name="torch", wrap=_torch, snapshot=_bytes, missing=_lacks("torch")),
    Backend(name="cupy", wrap=_cupy, snapshot=_bytes, missing=_lacks_cupy),
    Backend(name="cupy-device1", wrap=_on_device1(_cupy), snapshot=_bytes, missing=_lacks_device1),
    Backend(
        name="cupyx-csr",
        wrap=_cupyx("csr_matrix"),
        snapshot=_sparse_bytes,
        missing=_lacks_cupy,
        is_array=False,
        sparse=True,
        beside=_cupy,
    ),
    Backend(
        name="cupyx-csc-device1",
        wrap=_on_device1(_cupyx("csc_matrix")),
        snapshot=_sparse_bytes,
        missing=_lacks_device1,
        is_array=False,
        sparse=True,
        beside=_on_device1(_cupy),
    ),
    Backend(
        name="jax",
        wrap=_jax,
        snapshot=_bytes,
        missing=_lacks("jax"),
        is_array=False,
        float64=os.environ.get("JAX_ENABLE_X64", "").lower() in ("1", "true", "yes", "on"),
        beside=_jax,
        usual=(),
    ),
    Backend(
        name="torch-sparse-csr",
        wrap=_torch_csr,
        snapshot=_torch_bytes,
        missing=_lacks("torch"),
        is_array=False,
        sparse=True,
        beside=_torch,
        usual=(),
    ),
    Backend(name="npy-file", wrap=_file, snapshot=_bytes, is_array=False, whole=1),
    Backend(
        name="scipy-csr",
        wrap=_sparse(scipy.sparse.csr_matrix),
        snapshot=_sparse_bytes,
        is_array=False,
        sparse=True,
        whole=1,
    ),
    Backend(
        name="scipy-csc",
        wrap=_sparse(scipy.sparse.csc_matrix),
        snapshot=_sparse_bytes,
        is_array=False,
        sparse=True,
        usual=(),
    ),
    Backend(
        name="scipy-sparse-array",
        wrap=_sparse(scipy.sparse.csr_array),
        snapshot=_sparse_bytes,
        is_array=False,
        sparse=True,
        usual=(),
    ),
    Backend(
        name="scipy-operator",
        wrap=lambda x: scipy.sparse.linalg.aslinearoperator(x.copy()),
        snapshot=lambda operator: _bytes(operator.A),
        is_array=False,
        readable=False,
        usual=(),
    ),
    Backend(
        name="products-only",
        wrap=ProductsOnly,
        snapshot=lambda operator: operator.snapshot(),
        is_array=False,
        readable=False,
        whole=1,
    ),
)
"""All backends, available or not."""


def backends(names: Sequence[str] | None = None) -> tuple[Backend, ...]:
    """Return backends by name.

    Parameters
    ----------
    names : sequence of str, optional
        By default all, including those that are missing on this machine.

    Returns
    -------
    tuple of Backend

    Raises
    ------
    ValueError
        A name is not known.
    """
    if names is None:
        return BACKENDS
    known = {backend.name: backend for backend in BACKENDS}
    unknown = [name for name in names if name not in known]
    if unknown:
        raise ValueError(f"no backend is named {', '.join(unknown)}; the backends are {', '.join(known)}.")
    return tuple(known[name] for name in names)


def missing() -> dict[str, str]:
    """Return the backends that are missing on this machine, each with the reason."""
    return {backend.name: reason for backend in BACKENDS if (reason := backend.missing())}


ONE_IN = 3
"""On backends with slow products one case in ONE_IN runs, besides those that are solved to convergence."""


class Choice:
    """The backends of a suite, and the checks and cases that run on each of them.

    Parameters
    ----------
    names : sequence of str or "all", optional
        By default one available backend for each way in which data reach a solver; all of them if
        ``LINSPEC_CONFORMANCE`` is "all". Named backends run every check; one that is missing is then skipped.
    """

    def __init__(self, names: Sequence[str] | str | None = None) -> None:
        names = os.environ.get("LINSPEC_CONFORMANCE") or None if names is None else names
        names = [names] if isinstance(names, str) else names
        self.every = names is not None and [*names] == [ALL]
        self.named = not self.every and names is not None
        if names is not None and self.named:
            self.backends = backends(names)
        else:
            self.backends = tuple(backend for backend in BACKENDS if not backend.missing())

    def of(self, *checks: str) -> Iterator[tuple[str, Backend]]:
        """Yield every pair of a check and a backend on which the check runs."""
        for backend in self.backends:
            for check in checks:
                if self.named or self.every or backend.usual is None or check in backend.usual:
                    yield check, backend

    def is_brief(self, backend: Backend, place: int) -> bool:
        """Whether a case gets only a few iterations, given its place among the cases."""
        return backend.whole is not None and place >= backend.whole and not self.every

    def takes(self, solver: str, backend: Backend, place: int) -> bool:
        """Whether a solver is tested on a case, given its place among the cases."""
        whole = place == 0 or not self.is_brief(backend, place)
        return whole or (place + crc32(solver.encode())) % ONE_IN == 0
