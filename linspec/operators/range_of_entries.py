"""The range in which the largest entry of a matrix must lie.

Problem: methods multiply entries with each other, and stopping rules square the products. So they sum fourth powers
over rows and columns, which are zero for entries of 1e-90 and infinite for 1e90. A zero answer with a zero residual
then looks exact.
Method: where the largest entry lies between `SMALLEST` and `LARGEST`, such sums are numbers. A matrix in other units
is refused, with the power of ten to multiply it by. Smaller entries and columns may have any size. float32 has a
shorter range: rows whose largest entry is not between 1 / `SINGLE` and `SINGLE` are multiplied in float64.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse

from linspec.arrays import column_magnitudes, largest_magnitude, to_host
from linspec.errors import DataOutOfRange, NonFiniteData, UnsupportedData
from linspec.operators.base import LinearOperator
from linspec.operators.sparse import SparseOperator

SMALLEST, LARGEST = 1e-60, 1e60
"""Bounds of the largest entry of a matrix: its fourth power, times rows and columns, neither over- nor underflows."""

SQUARED = 1e16
"""float32 squares neither over- nor underflow if the entries are between 1 / SQUARED and SQUARED in size."""

SINGLE = 1e9
"""float32 entries are multiplied in float32 if the largest is between 1 / SINGLE and SINGLE."""


@dataclass(frozen=True)
class Magnitude:
    """Size of the largest entry of some rows.

    Attributes
    ----------
    largest : float
        The largest absolute value. NaN or infinity if an entry is not finite; 0 if all entries are 0.
    column : int or None
        The column of the largest entry; None if it is not known.
    """

    largest: float = 0.0
    column: int | None = None

    @property
    def fits_single(self) -> bool:
        """Whether the size is in the range in which products in float32 lose no digits to over- or underflow."""
        return self.largest == 0 or 1 / SINGLE <= self.largest <= SINGLE


def check_magnitude(name: str, found: Magnitude) -> None:
    """Raise an error if the largest entry is out of the range; entries that are not finite are reported elsewhere.

    Parameters
    ----------
    name : str
        The name of the matrix in the message.
    found : Magnitude

    Raises
    ------
    DataOutOfRange
    """
    size = found.largest
    if not math.isfinite(size) or size == 0 or SMALLEST <= size <= LARGEST:
        return
    where = "" if found.column is None else f" in column {found.column}"
    raise DataOutOfRange(
        f"the largest entry of {name}, with the root of its weight, must lie between {SMALLEST:.0e} and {LARGEST:.0e} "
        f"in magnitude; got {size:.3g}{where}. Multiply {name} by "
        f"1e{-round(math.log10(size))}."
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


def not_finite(rows: Any, name: str, first: int = 0) -> NonFiniteData:
    """Make the error for rows that are not finite; it names the first such entry.

    Parameters
    ----------
    rows : array or SciPy CSR matrix of shape (n, p)
        Rows in memory, of which an entry is not finite.
    name : str
        The name of the data in messages.
    first : int, default 0
        The number of the first of the rows.
    """
    if scipy.sparse.issparse(rows):
        at = int(np.argmin(np.isfinite(rows.data[: rows.nnz])))
        row, column = int(np.searchsorted(rows.indptr, at, side="right")) - 1, rows.indices[at]
        value = rows.data[at]
    else:
        entries = to_host(rows)
        row, column = np.argwhere(~np.isfinite(entries))[0]
        value = entries[row, column]
    return NonFiniteData(
        f"{name} must be finite; got {value} at row {first + row}, column {column}. Drop or impute such rows."
    )


def magnitude_of(A: LinearOperator) -> Magnitude:
    """Magnitude of the largest entry of a dense or a sparse matrix in memory."""
    if not A.nnz:
        return Magnitude()
    if isinstance(A, SparseOperator):
        return Magnitude(largest_magnitude(A.matrix.data[: A.nnz]))
    sizes = to_host(column_magnitudes(A.dense()))
    column = int(np.argmax(sizes))  # the first NaN, if there is one
    return Magnitude(float(sizes[column]), column)


def in_float64(name: str, A: LinearOperator, *sizes: Magnitude) -> LinearOperator:
    """Return A with products in float64: float32 entries are converted block by block.

    On a device without float64, A itself is returned if its squares can be computed in float32.

    Parameters
    ----------
    name : str
        The name of the matrix in messages.
    A : LinearOperator
        A matrix with products in float32.
    sizes : Magnitude
        Magnitudes of the entries of A, or of numbers that are computed from the entries, such as values of a kernel.
        They are checked on a device without float64 only.

    Raises
    ------
    UnsupportedData
        The device has no float64, and squares of these sizes over- or underflow in float32.
    """
    if A.home.blocks == A.home:
        return A.in_dtype(np.dtype(np.float64)) or A
    for size in sizes:
        # Entries that are not finite are reported by the first sweep.
        if math.isfinite(size.largest) and not (size.fits_single or 1 / SQUARED <= size.largest <= SQUARED):
            raise UnsupportedData(
                f"{name} has float32 entries of {size.largest:.3g}, or weights so far from 1: squares need "
                "float64, which their device has not. Scale the matrix, or move it to the host."
            )
    return A
