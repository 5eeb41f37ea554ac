"""Frames and lists of rows as operators; errors name the place of an entry that is no number."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from linspec.arrays import INDICATORS, HostArray, check_bare
from linspec.errors import InvalidProblem, UnsupportedData, one_line
from linspec.frames import index_of, library_of, numbers_of, row_names_of
from linspec.operators.base import LinearOperator
from linspec.operators.dense import DenseOperator
from linspec.operators.sparse import SparseOperator, is_scipy_sparse

__all__ = ["array_of_list", "is_flat_list", "of_frame"]


def of_frame(data: Any, name: str) -> LinearOperator:
    """Make the operator of a frame or a series, with the names of its columns and rows.

    Parameters
    ----------
    data : frame or series
    name : str
        The name of the data in messages.
    """
    values, names = numbers_of(data, name)
    operator = SparseOperator(values, checked=True) if is_scipy_sparse(values) else DenseOperator(values)
    operator.column_names, operator.frame_library = names, library_of(data)
    operator.row_names, operator.row_index = row_names_of(data), index_of(data)
    return operator


def is_flat_list(data: Any) -> bool:
    """Whether `data` is a list or a tuple of numbers or of texts: a vector, not a matrix."""
    return isinstance(data, list | tuple) and not any(map(_is_row, data))


def _is_row(entry: Any) -> bool:
    if isinstance(entry, str | bytes):
        return False
    shape = getattr(entry, "shape", ())
    # A delayed block of dask has a delayed shape.
    return isinstance(entry, Sequence) or not isinstance(shape, tuple) or bool(shape)


def array_of_list(data: Sequence[Any]) -> HostArray:
    """Make an array of a list of rows, or of a list of numbers, with NaN in place of None.

    Raises
    ------
    InvalidProblem
        The rows of the list have different lengths.
    UnsupportedData
        An entry is no number, or there is none.
    """
    check_bare(data)
    try:
        array = np.asarray(data)
        if array.dtype.kind == "O":
            array = array.astype(np.float64)  # large integers, fractions, decimals
    except (ValueError, TypeError, OverflowError, RuntimeError) as error:
        raise InvalidProblem(
            f"data must be rows of equally many numbers; got a {type(data).__name__} that is none: {one_line(error)} "
            "Fill or drop rows."
        ) from error
    if array.dtype.kind not in "biufc" or not array.size:
        remedy = INDICATORS if array.dtype.kind in "SU" else "Leave out what is none."
        raise UnsupportedData(
            f"data must hold numbers; got a {type(data).__name__} of shape {array.shape}, {array.dtype}. {remedy}"
        )
    return array
