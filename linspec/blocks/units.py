"""The units in which entries of a matrix, and what is added to their squares, must be; and that they are finite.

Problem: methods multiply entries with each other, and stopping rules square the products. So they sum fourth powers
over rows and columns, which are zero for entries of 1e-90 and infinite for 1e90. A zero answer with a zero residual
then looks exact.
Method: where the largest entry lies between `SMALLEST` and `LARGEST`, such sums are numbers. A matrix in other units
is refused, with the power of ten to multiply it by. Smaller entries and columns may have any size. float32 has a
shorter range: rows whose entries are not between 1 / `SINGLE` and `SINGLE` are multiplied in float64.
"""

from __future__ import annotations

import math

import numpy as np

from linspec.arrays import HostArray, all_finite
from linspec.errors import DataOutOfRange, NonFiniteData

__all__ = ["LARGEST", "SMALLEST", "check_entries", "check_sizes", "check_square", "fits_single"]

SMALLEST, LARGEST = 1e-60, 1e60
"""Bounds of the largest entry of a matrix: its fourth power, times rows and columns, neither over- nor underflows."""

SINGLE = 1e9
"""float32 entries are multiplied in float32 if their size is between 1 / SINGLE and SINGLE."""


def fits_single(size: float) -> bool:
    """Whether products of entries of a size lose no digits in float32 to over- or underflow."""
    return size == 0 or 1 / SINGLE <= size <= SINGLE


def check_entries(name: str, rows: HostArray, first: int = 0) -> None:
    """Raise an error that names the first entry of some rows that is not finite.

    Parameters
    ----------
    name : str
        The name of the matrix in the message.
    rows : numpy.ndarray of shape (n, p)
    first : int, default 0
        The number of the first of these rows in the matrix.

    Raises
    ------
    NonFiniteData

    Examples
    --------
    >>> import numpy as np
    >>> from linspec.rows import check_entries
    >>> check_entries("X", np.array([[1.0, np.inf]]), first=4)
    Traceback (most recent call last):
        ...
    linspec.errors.NonFiniteData: X must be finite; got inf at row 4, column 1. Drop or impute such rows.
    """
    if not all_finite(rows):
        row, column = np.argwhere(~np.isfinite(rows))[0].tolist()
        raise NonFiniteData(
            f"{name} must be finite; got {rows[row, column]} at row {first + row}, column {column}. Drop or impute "
            "such rows."
        )


def check_sizes(name: str, sizes: HostArray) -> None:
    """Raise an error if the largest size of a column is out of the range; what is not finite is reported elsewhere.

    Parameters
    ----------
    name : str
        The name of the matrix in the message.
    sizes : numpy.ndarray of shape (p,)

    Raises
    ------
    DataOutOfRange
    """
    size = float(np.max(sizes, initial=0.0))
    if not math.isfinite(size) or size == 0 or SMALLEST <= size <= LARGEST:
        return
    power = -round(math.log10(size))
    raise DataOutOfRange(
        f"the entries of {name}, with the roots of their weights, must lie between {SMALLEST:.0e} and {LARGEST:.0e} in "
        f"magnitude; got about {size:.3g} in column {int(np.argmax(sizes))}. Multiply {name} by 1e{power}, and its "
        f"ridge, if it has one, by 1e{2 * power}."
    )


def check_square(name: str, value: float) -> None:
    """Raise an error if the root of a value in units of squared entries, such as a ridge, is out of the range.

    Raises
    ------
    DataOutOfRange
    """
    if value == 0 or SMALLEST <= math.sqrt(value) <= LARGEST:
        return
    power = -round(math.log10(value) / 2)
    raise DataOutOfRange(
        f"{name} must be 0 or lie between {SMALLEST**2:.0e} and {LARGEST**2:.0e}; got {value:.3g}. Multiply the "
        f"matrix by 1e{power}, and {name} by 1e{2 * power}."
    )
