"""Arrays of other libraries that are borrowed as NumPy arrays: those of JAX, sparse ones of torch, and any by DLPack.

Problem: an array of JAX cannot be written to, sparse tensors of torch have few products, and many libraries follow no
standard. Solvers need more. But the entries of all these arrays may be in the memory of the host.
Method: one conversion where data enter (`linspec.as_operator`, the constructors of problems, and functions that
`linspec.arrays.with_device` decorates): a NumPy array, or a SciPy sparse matrix, on the same memory. All computations
are those with NumPy, and all results are NumPy arrays.
Source: the protocol DLPack, https://dmlc.github.io/dlpack; the array API standard, section on data interchange.
Where we differ: a library is never imported, unless an array of it was passed.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from linspec.errors import UnsupportedData, one_line

if TYPE_CHECKING:
    pass

JAX, TORCH, DLPACK = "jax", "torch", "dlpack"

CPU = 1
"""The code of the memory of the host in DLPack."""

TAKEN = ("__array_namespace__", "__arrow_c_array__")
"""Methods of arrays of the standard and of series, which linspec takes as they are."""

COMPRESSED = {"torch.sparse_csr": "csr_array", "torch.sparse_csc": "csc_array"}
"""The class of SciPy for a layout of torch."""


def _may_lend(kind: Any) -> bool:
    if issubclass(kind, (np.ndarray, np.generic)):
        return False
    of_jax = kind.__module__.partition(".")[0] in (JAX, "jaxlib")  # tracers export nothing
    return of_jax or hasattr(kind, "__dlpack__")


may_lend: Callable[[Any], bool] = lru_cache(1024)(_may_lend)
"""Whether values of a type may be borrowed; a small solve asks this a hundred times."""


def _kind(x: Any) -> str:
    """Return how an array is borrowed: "jax", "torch" (a sparse tensor), "dlpack", or "" for any other object."""
    if not may_lend(type(x)):
        return ""
    jax = sys.modules.get(JAX)
    torch = sys.modules.get(TORCH)
    if jax is not None and isinstance(x, jax.Array):
        return JAX
    if torch is not None and isinstance(x, torch.Tensor):
        return TORCH if str(x.layout).startswith("torch.sparse") else ""
    taken = type(x).__module__.startswith("cupy") or any(hasattr(x, name) for name in TAKEN)
    return DLPACK if hasattr(x, "__dlpack__") and hasattr(x, "__dlpack_device__") and not taken else ""


def borrowed(x: Any, name: str = "data") -> Any:
    """Return a loan as a NumPy array or a SciPy sparse matrix on the same memory, and any other object unchanged.

    Parameters
    ----------
    x : object
        A solution with arrays of another library is a loan, too.
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
        device = int(x.__dlpack_device__()[0])
        if device == CPU:
            return np.from_dlpack(x)
    except Exception as error:  # any library may fail in its own way
        raise UnsupportedData(
            f"{name} must give its memory by DLPack; {_named(x)} raised {one_line(error)}. Pass a NumPy array: a "
            "tracer of JAX, inside of jit, grad or vmap, has no entries. NumPy has no bfloat16: pass "
            "`data.astype('float32')`."
        ) from error
    raise UnsupportedData(
        f"{name} must be in the memory of the host (device {CPU} of DLPack); got {_named(x)} on device {device}. Move "
        "it to the CPU."
    )


def _named(x: Any) -> str:
    return f"a {type(x).__module__}.{type(x).__qualname__}"


def _of_sparse_tensor(x: Any, name: str) -> Any:
    """Return a sparse tensor of torch as a SciPy sparse matrix."""
    import scipy.sparse

    layout = str(x.layout)
    known = layout in (*COMPRESSED, "torch.sparse_coo") and str(x.dtype) != "torch.bfloat16"
    if not known or x.requires_grad or x.device.type != "cpu" or x.ndim != 2 or x.dense_dim():
        raise UnsupportedData(
            f"{name} must be a sparse tensor in CSR, CSC or COO on the CPU, with two dimensions, no gradient and a "
            f"dtype that NumPy has; got layout {layout}, dtype {x.dtype}, shape {tuple(x.shape)} with {x.dense_dim()} "
            f"of its dimensions dense, device {x.device} and requires_grad={x.requires_grad}. Pass "
            "`data.detach().cpu().to_sparse_coo()`, of bfloat16 `data.float()`, one for each matrix."
        )
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


def borrowed_together(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return values by name without loans."""
    return {name: borrowed(x, name) for name, x in values.items()}
