"""Frames and lists of rows as operators; errors name the place of an entry that is no number."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Real
from typing import Any

import numpy as np

from linspec.arrays import HostArray, check_bare
from linspec.errors import InvalidProblem, NonFiniteData, UnsupportedData, shown
from linspec.frames import index_of, numbers_of
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
    frame = numbers_of(data, name)
    sparse = is_scipy_sparse(frame.values)
    operator = SparseOperator(frame.values, checked=True) if sparse else DenseOperator(frame.values)
    operator.column_names, operator.row_names = frame.columns, frame.rows
    operator.row_index = index_of(data)
    operator.frame_library = frame.library
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
    """Make an array of a list of rows, or of a list of numbers.

    Raises
    ------
    InvalidProblem
        The list is empty, or its rows have different lengths.
    NonFiniteData
        An entry is None.
    UnsupportedData
        An entry is no number.
    """
    kind = type(data).__name__
    check_bare(data)
    if not data:
        raise InvalidProblem(f"data must have rows and columns; got an empty {kind}.")
    if any(map(_is_row, data)):
        lengths = [len(row) if _is_row(row) else -1 for row in data]
        odd = next((i for i, length in enumerate(lengths) if length != lengths[0]), None)
        if odd is not None:
            got = f"{lengths[odd]} entries" if lengths[odd] >= 0 else f"{shown(data[odd])}, which is no row"
            raise InvalidProblem(
                f"data must have equally many numbers in every row; row {odd} has {got}, and row 0 has {lengths[0]}. "
                "Fill or drop rows."
            )
    try:
        array = np.asarray(data)
        if array.dtype.kind in "OUS":
            _refuse_entry(data)
            array = array.astype(np.float64)  # large integers, fractions, decimals
    except (ValueError, TypeError, OverflowError) as error:
        if isinstance(error, UnsupportedData | InvalidProblem):
            raise
        raise InvalidProblem(f"data must be rows of numbers; got a {kind} that is none: {error}.") from error
    return array


def _refuse_entry(data: Sequence[Any]) -> None:
    """Raise an error that names the place of the first entry that is no number."""
    for i, row in enumerate(data):
        flat = not _is_row(row)
        for j, entry in enumerate([row] if flat else row):
            place = f"row {i}" if flat else f"row {i}, column {j}"
            if entry is None:
                raise NonFiniteData(f"data must be finite; got None at {place}. Drop or impute such rows.")
            if not isinstance(entry, Real | np.number | np.bool_) and not hasattr(entry, "as_integer_ratio"):
                raise UnsupportedData(f"data must hold numbers; got {shown(entry)} at {place}. Leave it out.")
