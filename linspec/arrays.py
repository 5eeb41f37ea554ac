"""Arrays of any library that follows the array API standard: the only file that depends on the library.

Everything specific to an array library is done here: its namespace, its dtypes, transfers to the
host and back. The rest of linspec uses products, sums and norms of arrays, and NumPy matrices on
the host that are no wider than a block.
"""

from __future__ import annotations

import importlib
import math
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import cached_property, wraps
from types import ModuleType
from typing import Any, ParamSpec, TypeVar

import array_api_compat as compat
import numpy as np
from scipy.linalg import lapack

from linspec.borrowed import borrowed, borrowed_together
from linspec.errors import InvalidOption, UnsupportedData, shown
from linspec.process import machine
from linspec.registry.objects import WITHIN, instead_of, line_for

__all__ = [
    "HOST",
    "Array",
    "DType",
    "Device",
    "HostArray",
    "all_finite",
    "cast",
    "from_host",
    "host_dtype",
    "is_array",
    "largest_magnitude",
    "namespace",
    "on_device",
    "random_generator",
    "reciprocal",
    "to_host",
    "to_host_together",
    "with_device",
    "working_dtype",
]

Array = Any
"""An array of any supported library: NumPy, CuPy, torch, array-api-strict. It may be on a device."""

DType = np.dtype[Any]
"""A dtype of NumPy, by which dtypes of all libraries are named."""

HostArray = np.ndarray[Any, DType]
"""A NumPy array, in the memory of the host."""

P = ParamSpec("P")
R = TypeVar("R")

INDICATORS = (
    "Convert it to float64. If it holds classes, pass an indicator column for each: numpy.reshape(labels, (-1, 1)) == "
    "numpy.unique(labels); or see linspec.Discriminant."
)
"""What is said of texts."""

LEAST_SQUARE = 1e-280
"""Sum of squares below which digits may be lost by underflow."""


def is_array(x: object) -> bool:
    """Whether `x` is an array that can be multiplied here.

    The answer is False for SciPy sparse matrices, and for the lazy, immutable or sparse arrays of dask, JAX,
    ndonnx, blosc2 and pydata/sparse. These follow the standard in part, and linspec needs more of it.

    Parameters
    ----------
    x : object

    Returns
    -------
    bool

    Raises
    ------
    UnsupportedData
        The array has a mask or a unit: see `check_bare`.

    Examples
    --------
    >>> import numpy as np
    >>> from linspec.arrays import is_array
    >>> is_array(np.ones(3)), is_array([1.0, 1.0, 1.0])
    (True, False)
    """
    if type(x) is np.ndarray:
        return True
    if not isinstance(x, list | tuple):
        check_bare(x)
    if isinstance(x, np.ndarray):
        return True
    known = bool(compat.is_array_api_obj(x)) and not isinstance(x, type) and not line_for(x)
    return known and not any(is_other(x) for is_other in _OTHER_LIBRARIES)


_OTHER_LIBRARIES = (
    compat.is_jax_array,
    compat.is_ndonnx_array,
)


def check_bare(x: Any, what: str = "data", depth: int = 3, within: str = "{}") -> None:
    """Refuse an array that has a mask or a unit, also in lists: a conversion would drop them without a word.

    Whether a mask is set, and what the unit is, does not matter. Other objects pass. `what` is the name of the data in
    messages; in lists, arrays are looked for `depth` levels deep. `within` is the line for what holds `x`: see
    `linspec.registry.objects`.
    """
    kind: Any = type(x)
    library = kind.__module__.partition(".")[0]
    if kind in _BARE or library == "pandas":  # whose indexes of times have a unit that is a resolution
        return
    if isinstance(x, list | tuple):
        for entry in x if depth else ():
            check_bare(entry, what, depth - 1)
        return
    if not any(hasattr(kind, name) for name in ("__array__", "__array_namespace__", "__array_function__")):
        return
    if library in ("dask", "xarray"):  # of the class of the arrays that they stand for
        inner = getattr(x, "_meta", getattr(getattr(x, "variable", x), "_data", None))
        check_bare(inner, what, depth, within.format(WITHIN[library]))
        return
    for name in ("mask", "get_mask", "unit", "units"):
        mark = getattr(x, name, None)
        if mark is not None and callable(mark) == name.startswith("get_"):
            raise UnsupportedData(
                f"{what} must be plain numbers, not masked and without a unit, which would be ignored; got a "
                f"{library}.{kind.__name__} with {name}. "
                f"{instead_of(x, 'its numbers with NaN in the gaps, in one unit', within)}"
            )


_BARE = frozenset(
    {np.ndarray, np.float64, np.float32, np.int64, np.bool_, float, int, bool, str, bytes, type(None)}
)
"""Types of values that have neither mask nor unit, by far the most frequent ones."""


_ELSEWHERE = frozenset({"cupy", "jax", "torch"})
"""Libraries whose arrays `with_device` looks for, once they are imported."""

_OF_NUMPY: ModuleType = compat.array_namespace(np.empty(0))
"""The namespace of NumPy, computed once because small problems need it dozens of times."""


def namespace(*arrays: Array) -> ModuleType:
    """The array API namespace that arrays share.

    Parameters
    ----------
    *arrays : array
        At least one.

    Returns
    -------
    module
        The namespace of array-api-compat, with the functions of the standard for any supported library.

    Raises
    ------
    UnsupportedData
        The arrays come from several libraries, or from none.

    Examples
    --------
    >>> import numpy as np
    >>> from linspec.arrays import namespace
    >>> x = np.array([3.0, 4.0])
    >>> xp = namespace(x)
    >>> float(xp.sqrt(xp.sum(x * x)))
    5.0
    """
    if all(type(x) is np.ndarray for x in arrays) and arrays:
        return _OF_NUMPY
    try:
        xp: ModuleType = compat.array_namespace(*arrays)
    except TypeError as error:
        kinds = ", ".join(sorted({type(a).__module__.split(".")[0] for a in arrays}))
        raise UnsupportedData(
            f"the arrays of one problem must come from one library; got {kinds}. "
            "Convert them to one library first."
        ) from error
    return xp


def device_of(x: Array) -> Any:
    """The device that holds `x`."""
    return compat.device(x)


def on_device(*things: Any) -> AbstractContextManager[Any]:
    """A context in which the CuPy device of the first CuPy argument is the current one of this thread.

    CuPy computes and allocates on the current device, wherever its arrays are, and array-api-compat passes no device
    to it. Factorisations that fail raise LinAlgError in this context; otherwise CuPy would return invalid numbers. For
    arguments of other libraries nothing happens.

    Parameters
    ----------
    *things : array, sparse matrix, or anything with a `device`
        For example operators, moments, problems, solutions.

    Returns
    -------
    context manager

    Examples
    --------
    >>> import numpy as np
    >>> from linspec.arrays import on_device
    >>> A = np.ones((3, 2))
    >>> with on_device(A):  # on the host it is nothing
    ...     A.sum(axis=0)
    array([3., 3.])
    """
    if "cupy" in sys.modules:
        for thing in things:
            device = _declared_device(thing)
            if isinstance(device, Device) and compat.is_cupy_namespace(device.xp):
                return _current(device.native)
    return nullcontext()


def _declared_device(thing: Any) -> Any:
    if compat.is_cupy_array(thing):
        return Device.of(thing)
    if type(thing).__module__.startswith("cupyx."):
        return Device.of(thing.data)
    device = getattr(thing, "device", None)  # arrays of other libraries have devices of these
    return device if isinstance(device, Device) else None


@contextmanager
def _current(device: Any) -> Iterator[None]:
    import cupyx

    with device, cupyx.errstate(linalg="raise"):
        yield


def with_device(function: Callable[P, R]) -> Callable[P, R]:
    """Decorate a function so that it runs where its arguments are.

    On the device of the first argument that has one: see `on_device`. Arrays that are borrowed, such as those of JAX,
    reach the function as NumPy arrays: see `linspec.borrowed`.

    Parameters
    ----------
    function : callable

    Returns
    -------
    callable
        With the same signature.

    Examples
    --------
    >>> import numpy as np
    >>> from linspec.arrays import with_device, namespace
    >>> @with_device
    ... def lengths(V):
    ...     xp = namespace(V)
    ...     return xp.sqrt(xp.sum(V * V, axis=0))
    >>> lengths(np.array([[3.0, 0.0], [4.0, 1.0]]))
    array([5., 1.])
    """

    @wraps(function)
    def entered(*args: P.args, **kwargs: P.kwargs) -> R:
        if sys.modules.keys().isdisjoint(_ELSEWHERE):
            return function(*args, **kwargs)
        with on_device(*args, *kwargs.values()):
            named: Any = borrowed_together(kwargs)
            return function(*map(borrowed, args), **named)

    return entered


def host_dtype(x: Array) -> DType:
    """The NumPy dtype that corresponds to the dtype of an array.

    Parameters
    ----------
    x : array

    Returns
    -------
    numpy.dtype
        float32 for bfloat16, which NumPy lacks.

    Raises
    ------
    UnsupportedData
        The dtype is not one of real or complex numbers or bools.

    Examples
    --------
    >>> import numpy as np
    >>> from linspec.arrays import host_dtype
    >>> host_dtype(np.ones(3, dtype=np.float32))
    dtype('float32')
    """
    if isinstance(x.dtype, np.dtype):
        return x.dtype
    try:
        # an attribute: by its name, NumPy has what ml_dtypes adds, too
        return np.dtype(getattr(np, str(x.dtype).rpartition(".")[2].replace("bfloat16", "float32")))
    except AttributeError as error:
        message = f"arrays of dtype {x.dtype} are not supported; convert to float32, as `data.float()` of torch does."
        raise UnsupportedData(message) from error


def working_dtype(dtype: Any, what: str = "data") -> DType:
    """The dtype of products with data of `dtype`.

    float32 and float64 stay. bool, float16 and integers of up to 16 bits become float32, which represents
    them exactly. Wider integers and extended floats become float64.

    Parameters
    ----------
    dtype : numpy.dtype or its name
    what : str, default "data"
        The name of the data in messages.

    Returns
    -------
    numpy.dtype
        float32 or float64.

    Raises
    ------
    UnsupportedData
        For complex, object, string and other dtypes that are not real numbers.

    Examples
    --------
    >>> from linspec.arrays import working_dtype
    >>> working_dtype("int16"), working_dtype("int32")
    (dtype('float32'), dtype('float64'))
    """
    try:
        # NumPy would read None as float64.
        dtype = np.dtype("O" if dtype is None else dtype)
    except TypeError as error:
        message = f"{what} must hold numbers; got dtype {dtype!r}. Convert it to float64."
        raise UnsupportedData(message) from error
    if dtype.kind == "c":
        raise UnsupportedData(
            f"{what} must be real; got dtype {dtype}. Pass the real and imaginary parts as columns."
        )
    if dtype.kind not in "fiub":
        remedy = "Convert it to float64; of records pass `pandas.DataFrame(data[:])`, with a column for each field."
        raise UnsupportedData(
            f"{what} must hold numbers; got dtype {dtype}. {INDICATORS if dtype.kind in 'OSU' else remedy}"
        )
    if dtype.kind == "f":
        return np.dtype(np.float32 if dtype.itemsize <= 4 else np.float64)
    return np.dtype(np.float32 if dtype.itemsize <= 2 else np.float64)


def to_host(x: Array) -> HostArray:
    """Return an array, or a list of numbers, as a NumPy array. All transfers from a device to the host are made here.

    Parameters
    ----------
    x : array, or anything else that `numpy.asarray` takes
        Of any library, also one whose arrays are only borrowed (`linspec.borrowed`).

    Returns
    -------
    numpy.ndarray
        `x` itself if it is one. The result for other arrays may share memory with `x`.

    Raises
    ------
    UnsupportedData
        There is a mask or a unit: see `check_bare`.

    Examples
    --------
    >>> import numpy as np
    >>> from linspec.arrays import to_host
    >>> x = np.ones(3)
    >>> to_host(x) is x
    True
    """
    if type(x) is np.ndarray and x.dtype.kind != "O":
        return x
    x = x.data if type(x).__module__.startswith("xarray.") else x  # its conversion drops masks and units
    check_bare(x)
    if isinstance(x, np.ndarray):
        check_bare(x.tolist() if x.dtype.kind == "O" else None)
        return x
    if isinstance(x, np.generic):
        return np.asarray(x)
    if compat.is_cupy_array(x):
        return x.get()
    if compat.is_torch_array(x):
        x = x.detach().cpu()
        return np.asarray((x.float() if str(x.dtype) == "torch.bfloat16" else x).numpy())
    if not is_array(x):
        array = np.asanyarray(borrowed(x))  # which keeps the mask of what is read, as from netCDF
        check_bare(array)
        return np.asarray(array)
    xp = namespace(x)
    devices = xp.__array_namespace_info__().devices()
    return np.asarray(compat.to_device(x, devices[0]))


@with_device
def to_host_together(*arrays: Array) -> list[HostArray]:
    """Return small arrays of one device and one dtype as NumPy arrays, in one transfer.

    A transfer waits for the device, however small it is. So the small matrices of a step are transferred together;
    `Device.place_together` transfers in the other direction.

    Parameters
    ----------
    *arrays : array
        NumPy arrays among them are returned unchanged.

    Returns
    -------
    list of numpy.ndarray
        Arrays of the same shapes.

    Examples
    --------
    >>> import numpy as np
    >>> from linspec.arrays import to_host_together
    >>> G, d = to_host_together(np.eye(2), np.ones(3))
    >>> G.shape, d.shape
    ((2, 2), (3,))
    """
    there = [x for x in arrays if not isinstance(x, np.ndarray)]
    if len(there) < 2:
        return [to_host(x) for x in arrays]
    xp = namespace(*there)
    packed = to_host(xp.concat([xp.reshape(x, (-1,)) for x in there]))
    brought = iter(_unpacked(packed, [tuple(x.shape) for x in there]))
    return [x if isinstance(x, np.ndarray) else next(brought) for x in arrays]


def _unpacked(packed: Array, shapes: list[tuple[int, ...]]) -> Iterator[Array]:
    """Yield arrays of the given shapes from one vector of their entries."""
    first = 0
    for shape in shapes:
        last = first + math.prod(shape)
        yield namespace(packed).reshape(packed[first:last], shape)
        first = last


def plain_array(x: Array, what: str = "data") -> Array:
    """Return an array without subclass or gradient.

    The result is a NumPy array of the base class on the same memory, or a tensor of torch detached from gradients.
    Arrays of other libraries are returned unchanged.

    Raises
    ------
    UnsupportedData
        When entries are masked, have a unit, are not stored densely, or are missing altogether.
    """
    check_bare(x, what)
    if isinstance(x, np.ndarray):
        return np.asarray(x)
    if not compat.is_torch_array(x):
        return x
    if x.is_nested or x.is_meta or str(x.layout) != "torch.strided":
        raise UnsupportedData(
            f"{what} must be a dense torch tensor with entries; got one of layout {x.layout} on the device {x.device}. "
            "Pass a scipy.sparse matrix, tensor.to_dense(), or a tensor that is no nested and no meta one."
        )
    return x.detach() if x.requires_grad else x


@with_device
def copied(x: Array) -> Array:
    """A copy of `x` in new memory."""
    return np.array(x) if isinstance(x, np.ndarray) else namespace(x).asarray(plain_array(x), copy=True)


def cast(x: Array, dtype: Any) -> Array:
    """Convert an array to another dtype, without a copy if it has this dtype.

    Parameters
    ----------
    x : array
    dtype : numpy.dtype or its name

    Returns
    -------
    array
        An array of the same library and device.

    Examples
    --------
    >>> import numpy as np
    >>> from linspec.arrays import cast
    >>> cast(np.array([1, 2]), "float32")
    array([1., 2.], dtype=float32)
    """
    if isinstance(x, np.ndarray):
        return x.astype(dtype, copy=False)
    xp = namespace(x)
    return xp.astype(x, getattr(xp, np.dtype(dtype).name), copy=False)


@dataclass(frozen=True)
class Device:
    """The library and device of arrays, and whether the device has float64.

    Solvers iterate on p x k blocks of float64. On a device without float64, the device of these blocks is the host.

    Parameters
    ----------
    xp : module
        The namespace of the library: see `namespace`.
    device : object
        The library's own device object.

    Examples
    --------
    >>> import numpy as np
    >>> from linspec.arrays import Device
    >>> device = Device.of(np.ones((3, 2), dtype=np.float32))
    >>> str(device), device.on_host, device.blocks == device
    ('numpy on cpu', True, True)
    >>> device.column_norms(device.asarray(np.array([[3.0, 0.0], [4.0, 2.0]])))
    array([5., 2.])
    """

    xp: Any
    native: Any

    def __hash__(self) -> int:
        return hash((self.xp.__name__, str(self.native)))  # devices of CuPy have no hash

    def __reduce__(self) -> tuple[Any, ...]:
        return _device_by_name, (
            self.xp.__name__,
            self.native,
        )  # the name, because a module cannot be pickled

    @classmethod
    def of(cls, x: Array) -> Device:
        """The library and device of the array `x`; `HOST` for a NumPy array."""
        return HOST if isinstance(x, np.ndarray) else cls(namespace(x), device_of(x))

    @property
    def device(self) -> Device:
        """The object itself, so that `on_device` accepts it."""
        return self

    @cached_property
    def on_host(self) -> bool:
        """Whether arrays in this device are NumPy arrays."""
        return self is HOST or bool(compat.is_numpy_namespace(self.xp))

    @cached_property
    def blocks(self) -> Device:
        """The device of float64 blocks for data in this device."""
        if self.on_host:
            return HOST
        if compat.is_array_api_strict_namespace(self.xp):
            dtypes = self.xp.__array_namespace_info__().dtypes(device=self.native, kind="real floating")
            return self if "float64" in dtypes else HOST
        return HOST if getattr(self.native, "type", "") == "mps" else self

    def free_memory(self) -> int:
        """The bytes that can be allocated in this device; on a device including the free part of its memory pool."""
        if compat.is_cupy_namespace(self.xp):
            import cupy

            with self.native:
                pooled = cupy.get_default_memory_pool().free_bytes()
            return int(self.native.mem_info[0] + pooled)
        if getattr(self.native, "type", "") == "cuda":
            import torch

            pooled = torch.cuda.memory_reserved(self.native) - torch.cuda.memory_allocated(self.native)
            return int(torch.cuda.mem_get_info(self.native)[0] + pooled)
        return machine.available_memory()

    def asarray(self, x: Array, dtype: Any = np.float64) -> Array:
        """Move an array of the host or of this library to this device, converted to `dtype`.

        Parameters
        ----------
        x : array
        dtype : numpy.dtype or its name, default float64

        Returns
        -------
        array
            `x` itself if it has this device and dtype.

        Raises
        ------
        UnsupportedData
            The array is of another library, and no NumPy array.
        """
        if isinstance(x, np.ndarray) and self.on_host:
            return np.asarray(x, dtype=dtype)
        with on_device(self, x):
            if self.on_host:
                return np.asarray(to_host(x), dtype=dtype)
            if isinstance(x, np.ndarray):
                name = np.dtype(dtype).name
                host = np.array(x, dtype=name)  # a copy: some libraries refuse read-only memory
                return self.xp.asarray(host, dtype=getattr(self.xp, name), device=self.native)
            if namespace(x) is not self.xp:
                raise UnsupportedData(
                    f"an array of {type(x).__module__.split('.')[0]} cannot be multiplied with data of "
                    f"{self.xp.__name__}. Convert one of them first."
                )
            if device_of(x) != self.native:
                # Convert to float32 before the transfer, and to float64 after it: a device may lack float64.
                if np.dtype(dtype).itemsize < host_dtype(x).itemsize:
                    with on_device(x):
                        x = cast(x, dtype)
                x = compat.to_device(x, self.native)
            return cast(x, dtype)

    @with_device
    def asarrays(self, *arrays: HostArray) -> list[Array]:
        """Move small NumPy arrays to this device as float64, in one transfer: see `to_host_together`."""
        if self.on_host or len(arrays) < 2:
            return [self.asarray(x) for x in arrays]
        packed = self.asarray(np.concatenate([np.ravel(x) for x in arrays]))
        return list(_unpacked(packed, [x.shape for x in arrays]))

    def norm(self, V: Array) -> float:
        """The Frobenius norm of an array of this device."""
        return float(self.column_norms(self.xp.reshape(V, (-1, 1)))[0])

    @with_device
    def column_norms(self, V: Array) -> HostArray:
        """Euclidean norms of columns, on the host. They are correct even if squares overflow or underflow.

        Parameters
        ----------
        V : array of shape (p, k)

        Returns
        -------
        numpy.ndarray of shape (k,)
        """
        with np.errstate(all="ignore"):
            squares = to_host(self.column_sums(V * V))
            norms: HostArray = np.sqrt(squares)
        if ((squares > LEAST_SQUARE) & (squares < math.inf)).all() or 0 in tuple(V.shape):
            return norms
        sizes = to_host(self.xp.max(self.xp.abs(V), axis=0))
        units = np.where((sizes > 0) & np.isfinite(sizes), sizes, 1.0)
        scaled = V / self.asarray(units)[None, :]
        return units * np.sqrt(to_host(self.column_sums(scaled * scaled)))

    def column_sums(self, U: Array) -> Array:
        """The sum of each column of an array of this device, in float64 if the device has it.

        On a device it is a product with ones: CuPy's reduction over rows takes ten times as long.
        """
        if self.on_host:
            return np.add.reduce(U, axis=0, dtype=np.float64)
        with on_device(self):
            if self.blocks != self:
                return self.xp.sum(U, axis=0)
            return (self.ones((1, U.shape[0])) @ self.asarray(U))[0, :]

    def zeros(self, shape: tuple[int, ...], dtype: Any = np.float64) -> Array:
        """An array of zeros in this device."""
        return np.zeros(shape, dtype) if self.on_host else self._created(self.xp.zeros, dtype, shape)

    def ones(self, shape: tuple[int, ...], dtype: Any = np.float64) -> Array:
        """An array of ones in this device."""
        return np.ones(shape, dtype) if self.on_host else self._created(self.xp.ones, dtype, shape)

    def eye(self, n: int, columns: int | None = None, first: int = 0, dtype: Any = np.float64) -> Array:
        """The n x n identity, or `columns` columns of it from number `first` on."""
        host = self.on_host
        return (
            np.eye(n, columns, -first, dtype)
            if host
            else self._created(self.xp.eye, dtype, n, columns, k=-first)
        )

    @with_device
    def _created(self, function: Callable[..., Array], dtype: Any, *sizes: Any, **words: Any) -> Array:
        """An array that a function of the library makes on the device."""
        return function(*sizes, dtype=getattr(self.xp, np.dtype(dtype).name), device=self.native, **words)

    @with_device
    def concat(self, blocks: list[Array]) -> Array:
        """Concatenate blocks by columns: shapes (p, a) and (p, b) give (p, a + b)."""
        return blocks[0] if len(blocks) == 1 else self.xp.concat(blocks, axis=1)

    def __str__(self) -> str:
        return f"{self.xp.__name__.split('.')[-1]} on {self.native}"


def _device_by_name(library: str, device: Any) -> Device:
    """Restore a pickled device."""
    return Device(importlib.import_module(library), device)


HOST = Device(compat.array_namespace(np.empty(0)), "cpu")
"""The device of SciPy sparse matrices, files and foreign operators."""


def from_host(host: HostArray, *, like: Array) -> Array:
    """Move a NumPy array to the library and the device of another array.

    Parameters
    ----------
    host : numpy.ndarray
    like : array

    Returns
    -------
    array
        With the dtype of `host`, except that float64 becomes float32 on a device that has no float64.

    Examples
    --------
    >>> import numpy as np
    >>> from linspec.arrays import from_host
    >>> from_host(np.ones(2), like=np.zeros(3, dtype=np.float32))
    array([1., 1.])
    """
    device = Device.of(like)
    narrow = host.dtype == np.float64 and device.blocks != device
    return device.asarray(host, dtype=np.float32 if narrow else host.dtype)


@with_device
def reciprocal(d: Array) -> Array:
    """1/d where d is a positive normal number, 0 elsewhere: a column of zeros gets the weight 0, not infinity.

    Parameters
    ----------
    d : array
        Numbers of a floating dtype.

    Returns
    -------
    array
        An array of the same shape and dtype.

    Examples
    --------
    >>> import numpy as np
    >>> from linspec.arrays import reciprocal
    >>> reciprocal(np.array([4.0, 0.0, -1.0]))
    array([0.25, 0.  , 0.  ])
    """
    xp = namespace(d)
    live = d >= xp.finfo(d.dtype).smallest_normal
    return xp.where(live, 1.0 / xp.where(live, d, xp.ones_like(d)), xp.zeros_like(d))


@with_device
def all_finite(x: Array) -> bool:
    """Whether every entry is finite. For a NumPy array of finite entries the test costs one sum.

    Parameters
    ----------
    x : array

    Returns
    -------
    bool

    Examples
    --------
    >>> import numpy as np
    >>> from linspec.arrays import all_finite
    >>> all_finite(np.array([1.0, 2.0])), all_finite(np.array([1.0, np.inf]))
    (True, False)
    """
    if isinstance(x, np.ndarray):
        if x.dtype.kind not in "fc":
            return True
        with np.errstate(all="ignore"):
            total = np.sum(x) if x.dtype.itemsize >= 4 else np.sum(x, dtype=np.float64)
        return bool(np.isfinite(total) or np.isfinite(x).all())
    xp = namespace(x)
    if not xp.isdtype(x.dtype, "real floating"):
        return True
    return bool(to_host(xp.all(xp.isfinite(x))))


@with_device
def largest_magnitude(x: Array) -> float:
    """The largest absolute value of the entries: the larger of the maximum and of minus the minimum.

    So the entries are read twice, and no array of absolute values is formed.

    Parameters
    ----------
    x : array
        Real numbers.

    Returns
    -------
    float
        NaN if an entry is NaN, 0 without entries.

    Examples
    --------
    >>> import numpy as np
    >>> from linspec.arrays import largest_magnitude
    >>> largest_magnitude(np.array([[1.0, -3.0], [2.0, 0.0]]))
    3.0
    """
    if 0 in tuple(x.shape):
        return 0.0
    if isinstance(x, np.ndarray):
        high = float(np.max(x))
        low = float(np.min(x))
        return high if math.isnan(high) else max(high, -low)
    xp = namespace(x)
    return float(to_host(xp.maximum(xp.max(x), -xp.min(x))))


def column_magnitudes(x: Array) -> Array:
    """The largest absolute value of each column of a matrix with rows, as an array of its library; NaN if one is NaN.

    Parameters
    ----------
    x : array of shape (n, p)
        Real numbers; n is not 0.

    Returns
    -------
    array of shape (p,)

    Examples
    --------
    >>> import numpy as np
    >>> from linspec.arrays import column_magnitudes
    >>> column_magnitudes(np.array([[1.0, -3.0], [2.0, 0.0]]))
    array([2., 3.])
    """
    xp = namespace(x)
    return xp.maximum(xp.max(x, axis=0), -xp.min(x, axis=0))


@with_device
def triangular_factor(M: Array) -> Array:
    """R of the QR factorisation of a matrix, without forming Q; the array API standard has no function for this."""
    if isinstance(M, np.ndarray):
        return np.linalg.qr(M, mode="r")
    if compat.is_cupy_array(M):
        import cupy

        return cupy.linalg.qr(M, mode="r")
    if compat.is_torch_array(M):
        import torch

        return torch.linalg.qr(M, mode="r")[1]
    return namespace(M).linalg.qr(M, mode="reduced")[1]


def triangle_below(R: Array, X: Array) -> Array:
    """R of the QR factorisation of [R; X]; on the host LAPACK's TPQRT makes use of the zeros of R.

    Parameters
    ----------
    R : array of shape (m, p)
        Upper triangular if m >= p.
    X : array of shape (n, p)
    """
    p = X.shape[1]
    if not isinstance(X, np.ndarray) or R.shape[0] < max(p, 1):
        return triangular_factor(namespace(X).concat([R, X], axis=0))
    copies = [np.array(matrix, dtype=np.float64, order="F") for matrix in (R, X)]
    # 32 columns whose reflections are applied together: measured best for 60 to 2000 columns
    return lapack.dtpqrt(0, min(32, p), *copies, overwrite_a=1, overwrite_b=1)[0]


def random_generator(seed: Any, name: str = "rng") -> np.random.Generator:
    """Make a random generator from a seed; return a generator itself.

    Parameters
    ----------
    seed : None, int, sequence of int, numpy.random.SeedSequence, BitGenerator or Generator
    name : str, default "rng"
        The name of the argument in messages.

    Returns
    -------
    numpy.random.Generator

    Raises
    ------
    InvalidOption
        When `seed` is none of these.

    Examples
    --------
    >>> from linspec.arrays import random_generator
    >>> int(random_generator(0).integers(100)) == int(random_generator(0).integers(100))
    True
    """
    try:
        if not isinstance(seed, bool):
            return np.random.default_rng(seed)
    except (TypeError, ValueError):
        pass  # the error is raised below
    raise InvalidOption(
        f"{name} must be None, an integer of at least 0 (or a sequence of these), or a numpy.random.Generator; got "
        f"{shown(seed)}."
    )
