"""The largest entry of rows in memory (`linspec.operators.range_of_entries` explains why it matters)."""

from __future__ import annotations

import math

import numpy as np

from linspec.arrays import column_magnitudes, largest_magnitude, to_host
from linspec.errors import UnsupportedData
from linspec.operators.base import LinearOperator
from linspec.operators.range_of_entries import Magnitude
from linspec.operators.sparse import SparseOperator

SQUARED = 1e16
"""float32 squares neither over- nor underflow if the entries are between 1 / SQUARED and SQUARED in size."""


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
