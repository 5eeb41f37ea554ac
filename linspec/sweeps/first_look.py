"""The first look at the data of a problem: whether its entries are finite, and whether their size is in the range.

Problem: methods multiply entries with each other (`linspec.operators.largest_entry`), and an entry that is not finite
spoils every product.
Method: arrays and sparse matrices in memory are read once before the solver begins. In files some rows are read, and
all rows only if the entries of these rows are far from 1. For streams and blocks the largest entry of some rows is
known already. All rows are checked in the first sweep (`linspec.sweeps.first_sweep`). Operators that give only
products are watched (`linspec.operators.watched`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np

from linspec.arrays import HostArray, column_magnitudes, host_dtype, to_host
from linspec.errors import NonFiniteData
from linspec.operators import (
    AdjointOperator,
    AdjustedOperator,
    CenteredOperator,
    CupySparseOperator,
    DenseOperator,
    LinearOperator,
    MappedOperator,
    SparseOperator,
    StreamedOperator,
)
from linspec.operators.largest_entry import in_float64, magnitude_of
from linspec.operators.range_of_entries import ORDINARY, SINGLE, Magnitude, check_magnitude
from linspec.operators.watched import WatchedOperator
from linspec.sweeps.blocks import BlockOperator
from linspec.sweeps.finite import first_non_finite

SAMPLED_ROWS, SAMPLED_NUMBERS = 16, 2**20
"""Largest numbers of evenly spread rows, and of entries in them, that are read of a file to estimate its magnitude."""

UNDERFLOW = {4: 100, 8: 480}
"""For each itemsize of a dtype, a number b: squares of a column underflow if its largest entry is below about 2⁻ᵇ times
the largest entry of the matrix."""

COLUMNS_AT_ONCE, ENTRIES_AT_ONCE = 64, 2**16


UNKNOWN = Magnitude()
"""Magnitude of a matrix of zeros, or of a matrix whose entries are not known yet."""


@dataclass(frozen=True)
class FirstLook:
    """Size of the entries of a matrix, as far as it is known before the solver begins.

    Attributes
    ----------
    size : Magnitude
        The magnitude of the entries times the roots of the weights of their rows, as far as it is known.
    complete : bool
        Whether `size` covers all rows.
    watched : bool
        Whether the entries cannot be read yet: the first products or the first sweep will show their size.
    underflowing : tuple of int
        Nonzero columns that are so small, compared with the largest column, that their squares underflow.
    """

    size: Magnitude = UNKNOWN
    complete: bool = True
    watched: bool = False
    underflowing: tuple[int, ...] = ()

    def safe(self, name: str, A: LinearOperator) -> LinearOperator:
        """Return A, with products in float64 if float32 products would over- or underflow (see `in_float64`)."""
        if A.dtype != np.float32 or (self.size.fits_single and _weights_fit_single(A)):
            return A
        return in_float64(name, A, self.size)


def look_at(  # noqa: PLR0911  # one return a kind
    name: str, A: LinearOperator, roots: HostArray | None = None
) -> FirstLook:
    """Check those entries of a matrix that can be read before the first sweep, and return what is known of their size.

    Arrays and sparse matrices in memory are read as a whole. Of a file some rows are read, and all rows only if the
    entries of these rows are far from 1. For streams and blocks, the largest entry of some rows is known already.
    Operators that give only products are not read.

    Parameters
    ----------
    name : str
        The name of the matrix in messages.
    A : LinearOperator
    roots : numpy.ndarray of shape (n,), optional
        The roots of the weights of its rows.

    Returns
    -------
    FirstLook

    Raises
    ------
    NonFiniteData
        An array in memory has an entry that is not finite; the message names it.
    """
    if type(A) is DenseOperator and A.home.on_host:  # most data, in far less time than the tests below take
        return _finite(_look_at_array(A, roots), name, A)
    if isinstance(A, CenteredOperator):
        return _without_underflowing(look_at(name, A.parts[0], roots))
    if isinstance(A, AdjointOperator):
        look = replace(look_at(name, A.parts[0]), underflowing=())
        return look if roots is None else replace(look, size=UNKNOWN, complete=False)
    if isinstance(A, AdjustedOperator):
        weights, shift = A.model.weights, A.adjustment.shift
        look = look_at(name, A.operator, None if weights is None else np.sqrt(weights))
        if shift is None:
            return look
        # Entries less a row are small: the original entries have the size of that row.
        root = 1.0 if weights is None else math.sqrt(float(np.max(weights, initial=0.0)))
        given = Magnitude(root * float(np.max(np.abs(to_host(shift)), initial=0.0)))
        return replace(look, size=look.size.merged(given))
    if isinstance(A, StreamedOperator | BlockOperator):  # the size of some rows, without their weights
        return FirstLook(Magnitude(A.largest) if roots is None else UNKNOWN, complete=False)
    if isinstance(A, MappedOperator):
        return _look_at_file(A, roots)
    if isinstance(A, SparseOperator):
        return _finite(_look_at_sparse(A, roots), name, A)
    if isinstance(A, DenseOperator):
        return _look_at_foreign_array(A, roots)
    if isinstance(A, CupySparseOperator):
        return FirstLook(magnitude_of(A, None if roots is None else A.home.blocks.place(roots)))
    return _look_at_parts(A, roots)


def _without_underflowing(look: FirstLook) -> FirstLook:
    return replace(look, underflowing=())


def _finite(look: FirstLook | None, name: str, A: LinearOperator) -> FirstLook:
    """Return `look`; if it is None, raise an error that names the entry that is not finite."""
    if look is None:
        row, column, value = first_non_finite(A) or (0, 0, math.nan)
        raise NonFiniteData(
            f"{name} must be finite; got {value} at row {row}, column {column}. Drop or impute such rows."
        )
    return look


def _look_at_parts(A: LinearOperator, roots: HostArray | None) -> FirstLook:
    """The first look at an operator of a kind not treated in `look_at`.

    It is to be watched: its first products show the size of its entries. If its rows are float32 and can be
    read, the first `SAMPLED_ROWS` rows are also measured, to decide whether products need float64.
    """
    if (
        A.dtype == np.float32 and A.access == "rows" and A.readable
    ):  # a file: decide whether float64 is needed
        first = min(A.shape[0], SAMPLED_ROWS)
        own = magnitude_of(A.rows(slice(0, first)), None if roots is None else roots[:first])
        return FirstLook(own, complete=False, watched=True)
    return FirstLook(complete=False, watched=True)


def _look_at_array(A: DenseOperator, roots: HostArray | None) -> FirstLook | None:
    """Look at an array in memory; None if an entry is not finite.

    The array is usually read once, for the sums of squares of the columns; if it has weights, twice.
    """
    x = A.array
    if 0 in x.shape:
        return FirstLook()
    if x.dtype.kind != "f":
        return FirstLook(magnitude_of(A, roots))
    if x.dtype.itemsize < 4:  # half precision has no entries out of the range
        return FirstLook(magnitude_of(A, roots)) if np.isfinite(np.sum(x, dtype=np.float64)) else None
    with np.errstate(all="ignore"):
        squares = np.einsum("ij,ij->j", x, x)
        largest, least = math.sqrt(squares.max()), math.sqrt(squares.min())
    limit = SINGLE if x.dtype == np.float32 else ORDINARY
    size = Magnitude(largest)
    if not 1 / limit <= largest <= limit:
        if not np.isfinite(x).all():
            return None
        size = magnitude_of(A)
        largest = size.largest
    digits = UNDERFLOW[A.dtype.itemsize]
    below = max(math.ldexp(largest, 1 - digits) * math.sqrt(len(x)), 2.0 * _least_square(x.dtype))
    underflowing: tuple[int, ...] = ()
    if least < below:
        small = np.flatnonzero(np.sqrt(squares) < below)
        underflowing = _underflowing_columns(x, small, largest, A.dtype)
    return FirstLook(size if roots is None else magnitude_of(A, roots), underflowing=underflowing)


def _look_at_foreign_array(A: DenseOperator, roots: HostArray | None) -> FirstLook:
    """Look at an array of another library, or a vector of a file; the first sweep checks that entries are finite.

    Two numbers are transferred to the host; those of all columns only if one of them underflows.
    """
    x, weighted = A.array, None if roots is None else A.home.blocks.place(roots)
    if 0 in tuple(x.shape) or A.dtype.kind != "f" or host_dtype(x).kind != "f":
        return FirstLook(magnitude_of(A, weighted))
    xp, sizes = A.home.xp, column_magnitudes(x)
    ends = xp.stack([xp.max(sizes), xp.min(xp.where(sizes > 0, sizes, xp.max(sizes)))])
    largest, least = (float(end) for end in to_host(ends))
    size = Magnitude(largest) if roots is None else magnitude_of(A, weighted)
    digits = UNDERFLOW[A.dtype.itemsize]
    underflowing: tuple[int, ...] = ()
    if least < math.ldexp(largest, 1 - digits):
        columns = _is_underflowing(to_host(sizes).astype(np.float64), largest, digits)
        underflowing = tuple(np.flatnonzero(columns).tolist())
    return FirstLook(size, underflowing=underflowing)


@lru_cache(maxsize=8)
def _least_square(dtype: np.dtype[Any]) -> float:
    """The smallest positive number whose square is a normal number of a dtype, and has lost no digits to underflow."""
    return math.sqrt(np.finfo(dtype).tiny)


def _underflowing_columns(x: HostArray, columns: HostArray, largest: float, dtype: Any) -> tuple[int, ...]:
    """Return those of the given columns that are so small beside `largest` that their squares underflow."""
    if largest == 0:
        return ()
    found: list[int] = []
    digits = UNDERFLOW[dtype.itemsize]
    # Most of them are zeros, which have no bit but a sign. To gather these columns takes three times as long.
    bits = np.bitwise_or.reduce(x.view(f"u{x.dtype.itemsize}"), axis=0)
    columns = columns[(bits[columns] << 1) != 0]
    for start in range(0, len(columns), COLUMNS_AT_ONCE):
        some = columns[start : start + COLUMNS_AT_ONCE]
        part = x[:, some]
        sizes = np.maximum(part.max(axis=0), -part.min(axis=0))
        found += some[_is_underflowing(sizes, largest, digits)].tolist()
    return tuple(found)


def _is_underflowing(sizes: HostArray, largest: float, digits: int) -> HostArray:
    level: HostArray = np.frexp(sizes)[1] < math.frexp(largest)[1] - digits
    return (sizes > 0) & level


def _look_at_sparse(A: SparseOperator, roots: HostArray | None) -> FirstLook | None:
    """Look at the stored entries of a sparse matrix; None if an entry is not finite."""
    data = A.matrix.data[: int(A.matrix.indptr[-1])]
    if data.dtype.kind != "f":
        return FirstLook(magnitude_of(A, roots))
    largest, smallest = 0.0, math.inf
    for start in range(0, len(data), ENTRIES_AT_ONCE):
        sizes = np.abs(data[start : start + ENTRIES_AT_ONCE])
        high, low = float(sizes.max()), float(sizes.min())
        if not high < math.inf:
            return None
        if low == 0:
            low = float(np.min(sizes, initial=math.inf, where=sizes > 0))
        largest, smallest = max(largest, high), min(smallest, low)
    size = Magnitude(largest)
    if roots is not None or not 1 / ORDINARY <= largest <= ORDINARY:
        size = magnitude_of(A, roots)
    digits = UNDERFLOW[A.dtype.itemsize]
    if not (0 < smallest < math.inf) or math.frexp(smallest)[1] >= math.frexp(largest)[1] - digits:
        return FirstLook(size)
    columns = np.zeros(A.shape[1])
    np.maximum.at(columns, A.matrix.indices[: len(data)], np.abs(data))
    return FirstLook(
        size, underflowing=tuple(np.flatnonzero(_is_underflowing(columns, largest, digits)).tolist())
    )


def _look_at_file(A: MappedOperator, roots: HostArray | None) -> FirstLook:
    """Look at some evenly spread rows of a file, and at all rows if the entries of these rows are far from 1."""
    n, p = A.shape
    count = max(1, min(n, SAMPLED_ROWS, SAMPLED_NUMBERS // p))
    chosen = np.linspace(0, n - 1, count).astype(np.intp)
    rows = A.rows(chosen)
    size = magnitude_of(rows, None if roots is None else roots[chosen])
    limit = SINGLE if A.dtype == np.float32 else ORDINARY
    if 1 / limit <= size.largest <= limit:
        A.release()
        return FirstLook(size, complete=False)
    size = Magnitude()
    for start in range(0, n, max(1, SAMPLED_NUMBERS // p)):
        stop = min(n, start + max(1, SAMPLED_NUMBERS // p))
        some = None if roots is None else roots[start:stop]
        size = size.merged(magnitude_of(A.rows(slice(start, stop)), some))
        A.release()
    return FirstLook(size)


def ranged(name: str, A: LinearOperator, look: FirstLook) -> LinearOperator:
    """Check that the largest entry of a matrix is in the range, and return the matrix as solvers multiply it.

    The range is that of `linspec.operators.range_of_entries`.

    Parameters
    ----------
    name : str
        The name of the matrix in messages.
    A : LinearOperator
    look : FirstLook
        The result of `look_at` for A.

    Returns
    -------
    LinearOperator
        A; or A with products in float64, if A is float32 and has entries far from 1. If the entries cannot be read yet
        (`FirstLook.watched`), the result is a `WatchedOperator`, which checks the entries by its first products.

    Raises
    ------
    DataOutOfRange
        The largest entry of the matrix is out of the range.
    UnsupportedData
        A float32 matrix is out of the range of float32, and its device has no float64.
    """
    check_magnitude(name, look.size, complete=look.complete)
    A = look.safe(name, A)
    return _watched(name, A, None) if look.watched else A


def _weights_fit_single(A: LinearOperator) -> bool:
    weights = A.model.weights if isinstance(A, AdjustedOperator) else None
    return weights is None or Magnitude(math.sqrt(float(weights.max(initial=0.0)))).fits_single


def _watched(name: str, A: LinearOperator, roots: HostArray | None) -> LinearOperator:
    if isinstance(A, CenteredOperator):
        return CenteredOperator(_watched(name, A.parts[0], roots), A.mean)
    if isinstance(A, AdjustedOperator):
        weights = A.model.weights
        return A.on(_watched(name, A.operator, None if weights is None else np.sqrt(weights)))
    return WatchedOperator(A, name, roots)
