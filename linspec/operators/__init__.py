"""What can be multiplied: `as_operator` makes one of arrays, sparse matrices, files and foreign objects."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from linspec.arrays import is_array
from linspec.errors import UnsupportedData
from linspec.operators.base import (
    AdjointOperator,
    CenteredOperator,
    ColumnScaledOperator,
    HorizontalStack,
    LinearOperator,
    LowRankUpdate,
    ProductOperator,
    ScaledOperator,
    SumOperator,
    VerticalStack,
)
from linspec.operators.counted import CountedOperator, Ledger, uncounted
from linspec.operators.dense import DenseOperator, MappedOperator, open_npy
from linspec.operators.foreign import CupySparseOperator, ForeignOperator, is_cupy_sparse, quacks
from linspec.operators.sparse import SparseOperator, is_scipy_sparse

__all__ = [
    "AdjointOperator",
    "CenteredOperator",
    "ColumnScaledOperator",
    "CountedOperator",
    "CupySparseOperator",
    "DenseOperator",
    "ForeignOperator",
    "HorizontalStack",
    "Ledger",
    "LinearOperator",
    "LowRankUpdate",
    "MappedOperator",
    "ProductOperator",
    "ScaledOperator",
    "SparseOperator",
    "SumOperator",
    "VerticalStack",
    "as_operator",
    "uncounted",
]


def as_operator(data: Any, name: str = "data") -> LinearOperator:
    """Make an operator of anything that can be multiplied.

    Parameters
    ----------
    data : array, sparse matrix, memory map, path of a `.npy` file, or operator
        NumPy, CuPy, torch and array-api-strict arrays; `scipy.sparse` and `cupyx.scipy.sparse`
        matrices; `numpy.memmap`; a linspec or SciPy LinearOperator, or any object with `shape`, `dtype`,
        `matmat` and `rmatmat`. Nothing is copied; integers and bools become floats block by block.
    name : str, default "data"
        What messages call it.

    Returns
    -------
    LinearOperator

    Raises
    ------
    UnsupportedData
        For complex, object or string dtypes and for things that cannot be multiplied.
    InvalidProblem
        When it has not two dimensions, or a file cannot be read.
    """
    if isinstance(data, LinearOperator):
        return data
    if isinstance(data, str | Path):
        return open_npy(data)
    try:
        if isinstance(data, np.memmap):
            return MappedOperator(data)
        if is_array(data):
            return DenseOperator(data)
        if is_scipy_sparse(data):
            return SparseOperator(data)
        if is_cupy_sparse(data):
            return CupySparseOperator(data)
        if quacks(data):
            return ForeignOperator(data)
    except (UnsupportedData, ValueError) as error:
        message = str(error)
        raise type(error)(f"{name}: {message}" if not message.startswith(name) else message) from error
    remedy = "Pass its values: `.to_numpy()`." if hasattr(data, "to_numpy") else "Pass numpy.asarray(...) of it."
    raise UnsupportedData(
        f"{name} must be an array, a sparse matrix, a .npy file or an object with shape, dtype, matmat and "
        f"rmatmat; got {type(data).__name__}. {remedy}"
    )
