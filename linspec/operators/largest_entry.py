"""The largest entry of each kind of matrix (`linspec.operators.range_of_entries` explains why it matters).

Method: a row of weight w is multiplied by √w. If a sum of squares shows that the largest entry is ordinary, the entry
itself is not searched for.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from linspec.arrays import HOST, Array, HostArray, largest_magnitude, namespace, to_host
from linspec.errors import UnsupportedData
from linspec.operators.base import ColumnScaledOperator, LinearOperator
from linspec.operators.dense import DenseOperator
from linspec.operators.foreign import CupySparseOperator
from linspec.operators.range_of_entries import ORDINARY, SINGLE, Magnitude
from linspec.operators.row_blocks import row_blocks
from linspec.operators.sparse import SparseOperator

SQUARED = 1e16
"""float32 squares neither over- nor underflow if the entries are between 1 / SQUARED and SQUARED in size."""


def magnitude_of(A: LinearOperator, roots: Array | None = None, *, exact: bool = False) -> Magnitude:
    """Magnitude of the largest √w·|entry| of rows that can be read; zero for other operators.

    Parameters
    ----------
    A : LinearOperator
        An operator that neither counts its use nor subtracts a row from all rows.
    roots : array of shape (n,), optional
        The roots √w of the weights.
    exact : bool, default False
        Whether to search for the largest entry even where a sum of squares would suffice.
    """
    if isinstance(A, SparseOperator):
        return _of_sparse(A.matrix, roots, exact)
    if isinstance(A, CupySparseOperator):  # its weights count as the largest of them
        largest = largest_magnitude(A.matrix.data)
        return Magnitude(largest if roots is None else largest * largest_magnitude(roots))
    if isinstance(A, ColumnScaledOperator) and A.sparse:  # an upper bound: nothing is filled up
        return _times(magnitude_of(A.parts[0], roots, exact=True), largest_magnitude(A.scale))
    if isinstance(A, DenseOperator):
        return _of_array(A.array, roots, exact)
    found = Magnitude()
    if not A.readable:
        return found
    for rows in row_blocks(A.shape[0], 8 * A.shape[1], A.home):
        part = A.rows(rows) if A.access == "rows" else A
        some = None if roots is None else roots[rows]
        entries = part.array if isinstance(part, DenseOperator) else part.dense()
        found = found.merged(_of_array(entries, some, exact))
        if A.access != "rows":
            break
    return found


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


def _times(found: Magnitude, factor: float) -> Magnitude:
    return Magnitude(found.largest * factor, found.column)


def _of_array(x: Array, roots: Array | None, exact: bool) -> Magnitude:
    if 0 in tuple(x.shape):
        return Magnitude()
    if not isinstance(x, np.ndarray):
        return _of_device_array(x, roots)
    narrow = x.dtype.kind != "f" or x.dtype.itemsize < 4
    if roots is None and narrow and not exact:  # such dtypes have no entries out of the range
        return Magnitude(1.0)
    if not (narrow or exact):
        with np.errstate(all="ignore"):
            size = math.sqrt(_sum_of_squares(x, roots))
        if _is_ordinary(size, x.dtype):
            return Magnitude(size)
    sizes = _column_magnitudes(x, roots)
    column = int(np.argmax(sizes))  # the first NaN, if there is one
    return Magnitude(_representable(float(sizes[column]), x), column)


def _is_ordinary(size: float, dtype: np.dtype[Any]) -> bool:
    limit = SINGLE if dtype == np.float32 else ORDINARY
    return 1 / limit <= size <= limit


def _sum_of_squares(x: HostArray, roots: Array | None) -> float:
    """Compute Σ w a² over the entries a with row weights w; the sum may overflow or be NaN."""
    if roots is not None:
        return float(np.einsum("ij,ij->i", x, x).astype(np.float64, copy=False) @ to_host(roots) ** 2)
    if x.flags.c_contiguous or x.flags.f_contiguous:
        flat = x.ravel(order="K")  # a view
        return float(np.dot(flat, flat))
    return float(np.einsum("ij,ij->", x, x))


def _column_magnitudes(x: HostArray, roots: Array | None) -> HostArray:
    """The largest √w·|entry| of each column; NaN where an entry is NaN."""
    with np.errstate(all="ignore"):
        if roots is None:
            sizes: HostArray = np.maximum(np.max(x, axis=0), -1.0 * np.min(x, axis=0))
            return sizes
        found = np.zeros(x.shape[1])
        for rows in row_blocks(x.shape[0], 8 * x.shape[1], HOST):
            sizes = np.abs(x[rows].astype(np.float64, copy=False)) * to_host(roots[rows])[:, None]
            found = np.maximum(found, np.max(sizes, axis=0))
    return found


def _representable(size: float, x: HostArray) -> float:
    """Return the size; the largest float64 if the size is infinite only because a finite entry was multiplied by √w."""
    return float(np.finfo(np.float64).max) if math.isinf(size) and bool(np.isfinite(x).all()) else size


def _of_device_array(x: Array, roots: Array | None) -> Magnitude:
    """Magnitude of an array that is not NumPy's.

    For weighted rows, the largest entry of each row is copied to the host.
    """
    xp = namespace(x)
    if not xp.isdtype(x.dtype, "real floating"):  # integers have no entries out of the range
        largest = 1.0 if roots is None else float(np.max(to_host(roots), initial=0.0))
        return Magnitude(largest)
    if roots is None:
        return Magnitude(largest_magnitude(x))
    rows = to_host(xp.max(xp.abs(x), axis=1)).astype(np.float64)
    return Magnitude(float(np.max(rows * to_host(roots), initial=0.0)))


def _of_sparse(matrix: Any, roots: Array | None, exact: bool) -> Magnitude:
    first, last = int(matrix.indptr[0]), int(matrix.indptr[-1])
    data = matrix.data[first:last]
    if not len(data):
        return Magnitude()
    if roots is None and (data.dtype.kind != "f" or data.dtype.itemsize < 4) and not exact:
        return Magnitude(1.0)
    sizes: HostArray = data
    with np.errstate(all="ignore"):
        if roots is not None:
            sizes = data * np.repeat(to_host(roots), np.diff(matrix.indptr))
        size = 0.0 if exact else math.sqrt(float(np.dot(sizes, sizes)))
        if _is_ordinary(size, sizes.dtype):
            return Magnitude(size)
        sizes = np.abs(sizes.astype(np.float64, copy=False))  # |-128| is no number of eight bits
    at = int(np.argmax(sizes))
    return Magnitude(_representable(float(sizes[at]), data), int(matrix.indices[first + at]))
