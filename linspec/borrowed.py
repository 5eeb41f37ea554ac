"""Arrays of other libraries that are borrowed as NumPy arrays: those of JAX, sparse ones of torch, and any by DLPack.

Problem: an array of JAX cannot be written to, sparse tensors of torch have few products, and many libraries follow no
standard. Solvers need more. But the entries of all these arrays may be in the memory of the host.
Method: such an array is a loan. Where data enter (`linspec.as_operator`, the constructors of problems, and functions
that `linspec.arrays.at_home` decorates), linspec borrows it: a NumPy array, or a SciPy sparse matrix, on the same
memory. All computations are those with NumPy. Operators, problems and solutions keep the name of the lender, and
`at_home` gives answers back as arrays of this library. A solution that was given back keeps the one with NumPy
arrays, and its methods compute with that one. A library that is known only by its DLPack gets NumPy arrays.
Source: the protocol DLPack, https://dmlc.github.io/dlpack; the array API standard, section on data interchange.
Where we differ: a library is never imported, unless an array of it was passed.
"""

from __future__ import annotations

import copy
import dataclasses
import sys
from collections.abc import Callable, Collection, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Self, TypeVar

import numpy as np

from linspec.errors import UnsupportedData, one_line

if TYPE_CHECKING:
    from linspec.arrays import Array, HostArray

__all__ = [
    "Loanable",
    "borrowed",
    "borrowed_together",
    "check_held",
    "given_back",
    "held_dtype",
    "lender_of",
    "may_lend",
    "with_loans",
]

R = TypeVar("R")

JAX, TORCH, DLPACK = "jax", "torch", "dlpack"

CPU = 1
"""The code of the memory of the host in DLPack."""

NUMBERS = (int, float, str, np.generic)
"""Types of the entries of lists that hold no arrays."""

DEPTH = 2
"""How deep loans are looked for in lists and dicts: a start may be a dict with tuples of arrays."""

TAKEN = ("__array_namespace__", "__arrow_c_array__")
"""Methods of arrays of the standard and of series, which linspec takes as they are."""

COMPRESSED = {"torch.sparse_csr": "csr_array", "torch.sparse_csc": "csc_array"}
"""The class of SciPy for a layout of torch."""


# ---- loans --------------------------------------------------------------------------------------


def _kind(x: Any) -> str:
    """Return how an array is borrowed: "jax", "torch" (a sparse tensor), "dlpack", or "" for any other object."""
    if not may_lend(type(x)):
        return ""
    jax, torch = sys.modules.get(JAX), sys.modules.get(TORCH)
    if jax is not None and isinstance(x, jax.Array):
        return JAX
    if torch is not None and isinstance(x, torch.Tensor):
        sparse = x.layout is not torch.strided and str(x.layout).startswith("torch.sparse")
        return TORCH if sparse else ""
    taken = type(x).__module__.startswith("cupy") or any(hasattr(x, name) for name in TAKEN)
    return DLPACK if hasattr(x, "__dlpack__") and hasattr(x, "__dlpack_device__") and not taken else ""


def _may_lend(kind: Any) -> bool:
    if issubclass(kind, (np.ndarray, np.generic)):
        return False
    of_jax = kind.__module__.partition(".")[0] in (JAX, "jaxlib")  # tracers export nothing
    return of_jax or hasattr(kind, "__dlpack__") or issubclass(kind, (Loanable, list, tuple, dict))


may_lend: Callable[[Any], bool] = lru_cache(1024)(_may_lend)
"""Whether values of a type may be loans or hold some; a small solve asks this a hundred times."""


def borrowed(x: Any, name: str = "data") -> Any:
    """Return a loan as a NumPy array or a SciPy sparse matrix on the same memory, and any other object unchanged.

    Parameters
    ----------
    x : object
    name : str, default "data"
        The name of the array in messages.

    Returns
    -------
    object
        The NumPy array is read-only if its library says so. A sparse tensor of torch shares its values, except
        float16 in COO, which SciPy lacks and which becomes float32.

    Raises
    ------
    UnsupportedData
        The array has no entries in the memory of the host, or its dtype or its layout is not supported.
    """
    kind = _kind(x)
    if not kind:
        return x
    if kind == TORCH:
        return _of_sparse_tensor(x, name)
    try:
        if kind == JAX:
            _check_jax(x, name)
        device = int(x.__dlpack_device__()[0])
        if device == CPU:
            return np.from_dlpack(x)
    except UnsupportedData:
        raise
    except Exception as error:  # any library may fail in its own way
        raise UnsupportedData(
            f"{name} must give its memory by DLPack; {_named(x)} raised {one_line(error)}. Pass a NumPy array."
        ) from error
    raise UnsupportedData(
        f"{name} must be in the memory of the host (device {CPU} of DLPack); got {_named(x)} on device {device}. Move "
        "it to the CPU."
    )


def _named(x: Any) -> str:
    return f"a {type(x).__module__}.{type(x).__qualname__}"


def _check_jax(x: Any, name: str) -> None:
    """Refuse an array of JAX that has no entries, that is not on one CPU, or whose dtype NumPy lacks."""
    import jax

    if isinstance(x, jax.core.Tracer):
        raise UnsupportedData(
            f"{name} must have entries; got a tracer of JAX, which stands for an array inside of jit, grad or vmap. "
            "Call linspec outside of them."
        )
    if not isinstance(x.dtype, np.dtype) or x.dtype.kind not in "biufc":
        raise UnsupportedData(
            f"{name} must hold numbers of a dtype that NumPy has; got a jax.Array of dtype {x.dtype}. Convert it: "
            "x.astype(jax.numpy.float32)."
        )
    places = sorted(x.devices(), key=str)
    if len(places) != 1 or places[0].platform != "cpu":
        raise UnsupportedData(
            f"{name} must be on one CPU; got a jax.Array on {', '.join(map(str, places))}. Move it: jax.device_put(x, "
            'jax.devices("cpu")[0]).'
        )


def _of_sparse_tensor(x: Any, name: str) -> Any:
    """Return a sparse tensor of torch as a SciPy sparse matrix."""
    layout = str(x.layout)
    if layout not in (*COMPRESSED, "torch.sparse_coo"):
        fault, remedy = f"layout {layout}", "x.to_sparse_csr()"
    elif x.requires_grad:
        fault, remedy = "requires_grad=True", "x.detach()"
    elif x.device.type != "cpu":
        fault, remedy = f"device {x.device}", "x.cpu()"
    elif x.ndim != 2 or x.dense_dim():
        fault = f"shape {tuple(x.shape)}, {x.dense_dim()} of its dimensions dense"
        remedy = "a sparse tensor for each matrix"
    elif str(x.dtype) == "torch.bfloat16":
        fault, remedy = f"dtype {x.dtype}", "x.float()"
    else:
        return _compressed(x, layout)
    raise UnsupportedData(
        f"{name} must be a sparse tensor in CSR, CSC or COO on the CPU, with two dimensions, no gradient and a dtype "
        f"that NumPy has; got {fault}. Pass {remedy}."
    )


def _compressed(x: Any, layout: str) -> Any:
    import scipy.sparse

    if layout == "torch.sparse_coo":
        places, values = (
            x._indices().numpy(),
            x._values().numpy(),
        )  # the public ones are of coalesced tensors alone
        values = values.astype(np.float32) if values.dtype == np.float16 else values
        return scipy.sparse.coo_array((values, tuple(places)), shape=tuple(x.shape))
    csr = layout == "torch.sparse_csr"
    indices, starts = (x.col_indices(), x.crow_indices()) if csr else (x.row_indices(), x.ccol_indices())
    parts = (x.values().numpy(), indices.numpy(), starts.numpy())
    return getattr(scipy.sparse, COMPRESSED[layout])(parts, shape=tuple(x.shape))


# ---- values with loans in them ------------------------------------------------------------------


class Loanable:
    """Base class of operators, problems and solutions, which keep the name of the library that has lent their data."""

    lender: str = ""

    def _lent_to(self, lender: str) -> Self:
        """Return a copy whose answers go to another lender; "" for none."""
        twin = copy.copy(self)
        vars(twin).pop("lender", None)  # problems are frozen, and checkpoints compare what they hold
        if lender:
            vars(twin)["lender"] = lender
        return twin


def lender_of(value: Any, depth: int = DEPTH) -> str:
    """Return the library that has lent an array, or the first lent data in a value: "jax", "torch" or ""."""
    if not may_lend(type(value)):
        return ""
    if isinstance(value, Loanable):
        return value.lender
    kind = _kind(value)
    if kind not in ("", DLPACK):
        return kind
    return next(filter(None, (lender_of(each, depth - 1) for each in _entries(value, depth))), "")


def _entries(value: Any, depth: int) -> Collection[Any]:
    """Return the entries of a list, tuple or dict that may be loans."""
    if not depth:
        return ()
    if type(value) is dict:
        return value.values()
    several = type(value) in (list, tuple) and len(value) > 0 and not isinstance(value[0], NUMBERS)
    return value if several else ()


def borrowed_together(values: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
    """Borrow the loans among some values, also those in lists and dicts.

    If torch is a lender, dense tensors on the CPU are borrowed, too: they stand beside sparse ones.

    Parameters
    ----------
    values : mapping of str to object
        The values by their names in messages; a name that is no identifier stands for "data".

    Returns
    -------
    dict of str to object
        The values without loans. Operators, problems and solutions are returned without their lenders.
    dict of str to str
        The lender of each value: "jax", "torch" or "".
    """
    lenders = {name: lender_of(value) for name, value in values.items()}
    dense = TORCH in lenders.values()
    if dense:
        lenders = {
            name: lenders[name] or (TORCH if _is_dense_tensor(value) else "")
            for name, value in values.items()
        }
    return {name: _without_loans(value, name, dense=dense) for name, value in values.items()}, lenders


def _is_dense_tensor(x: Any) -> bool:
    torch: Any = sys.modules[TORCH]
    return (
        isinstance(x, torch.Tensor)
        and x.layout is torch.strided
        and x.device.type == "cpu"
        and not x.is_nested
    )


def _without_loans(value: Any, name: str, depth: int = DEPTH, *, dense: bool) -> Any:
    if not may_lend(type(value)):
        return value
    if isinstance(value, Loanable):
        return value._lent_to("") if value.lender else value
    name = name if name.isidentifier() else "data"
    if _kind(value):
        return borrowed(value, name)
    if dense and _is_dense_tensor(value):
        return (value.float() if str(value.dtype) == "torch.bfloat16" else value).detach().numpy()
    entries = _entries(value, depth)
    found = [_without_loans(each, name, depth - 1, dense=dense) for each in entries]
    if all(new is old for new, old in zip(found, entries, strict=True)):
        return value
    return dict(zip(value, found, strict=True)) if type(value) is dict else type(value)(found)


# ---- answers ------------------------------------------------------------------------------------


def with_loans(
    function: Callable[..., R], args: tuple[Any, ...], named: Mapping[str, Any], *, back: bool = True
) -> R:
    """Call a function with the loans among its arguments borrowed, and give back the arrays that it returns.

    They go to the lender of the first data among the arguments, or else to that of a solution, whose method this may
    be. Arrays that the function declares as `HostArray` stay NumPy's, and all with ``back=False``. Methods of operators
    get their arguments as they are: products with an operator are NumPy arrays.
    """
    given = {**{str(i): value for i, value in enumerate(args)}, **named}
    found, lenders = borrowed_together(given)
    if hasattr(given.get("0"), "matmat") or all(found[name] is value for name, value in given.items()):
        return function(*args, **named)
    answer = function(*(found[str(i)] for i in range(len(args))), **{name: found[name] for name in named})
    stays = "HostArray" in str(function.__annotations__.get("return"))
    if stays or not back or not any(lenders.values()):
        return answer
    data = [lenders[name] for name, value in given.items() if _is_data(value, lenders[name])]
    returned: R = given_back(answer, next(iter(data), next(filter(None, lenders.values()))))
    return returned


def _is_data(value: Any, lender: str) -> bool:
    if hasattr(type(value), "layout"):  # a solution
        return False
    return bool(lender) or (hasattr(value, "shape") and not isinstance(value, np.generic))


def given_back(value: Any, lender: str, *, arrays: bool = True) -> Any:
    """Return a value with its arrays in the library of a lender; unchanged without one.

    Parameters
    ----------
    value : object
        An array, a sparse matrix (which becomes a dense array), an operator, a problem, a solution, or a tuple, list or
        dict of these. Of another dataclass, only the problems and solutions in its fields are given back.
    lender : str
        "jax", "torch" or "".
    arrays : bool, default True
        Whether arrays are given back, beside problems and solutions.
    """
    if not lender:
        return value
    if isinstance(value, Loanable):
        return value._lent_to(lender)
    if arrays and hasattr(value, "toarray"):
        value = value.toarray()
    if isinstance(value, np.ndarray):
        return GIVE_BACK[lender](value) if arrays and value.dtype.kind in "biufc" else value
    if type(value) in (list, tuple):
        return type(value)(given_back(each, lender, arrays=arrays) for each in value)
    if type(value) is dict:
        return {name: given_back(each, lender, arrays=arrays) for name, each in value.items()}
    if dataclasses.is_dataclass(value) and hasattr(value, "__dict__") and not isinstance(value, type):
        twin = copy.copy(value)
        vars(twin).update(
            {name: given_back(each, lender, arrays=False) for name, each in vars(value).items()}
        )
        return twin
    return value


def held_dtype(lender: str, dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the dtype that a lender holds for one of NumPy: without jax_enable_x64, JAX has float32 for float64."""
    if lender != JAX:
        return dtype
    import jax

    held: np.dtype[Any] = jax.dtypes.canonicalize_dtype(dtype)
    return held


def check_held(lender: str, dtype: np.dtype[Any], name: str) -> None:
    """Refuse data that need float64 if their lender does not hold it.

    Parameters
    ----------
    lender : str
    dtype : numpy.dtype
        The working dtype of the data.
    name : str
        The name of the data in messages.

    Raises
    ------
    UnsupportedData
    """
    if held_dtype(lender, dtype) != dtype:
        raise UnsupportedData(
            f"{name} needs {dtype}, which JAX does not hold now. Convert it to float32, or call "
            'jax.config.update("jax_enable_x64", True) first.'
        )


def _to_jax(host: HostArray) -> Array:
    import jax

    copied = np.array(host, dtype=held_dtype(JAX, host.dtype))
    return jax.device_put(copied, jax.local_devices(backend="cpu")[0])


def _to_torch(host: HostArray) -> Array:
    import torch

    return torch.from_numpy(np.array(host))


GIVE_BACK = {JAX: _to_jax, TORCH: _to_torch}
"""The function that copies a NumPy array to the library, by lender."""
