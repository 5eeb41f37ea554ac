"""The first look at the data of a problem: whether its entries are finite, and how large they are.

Problem: methods multiply entries with each other, and laws square the products. For entries of 1e-90 the
results are zeros, and for entries of 1e90 infinities. An answer of zeros with a residual of zero may then
look like the exact one.
Method: the largest magnitude of each matrix is found before the solver begins. Arrays in memory are checked
for finite entries anyway, and the same reading finds it. If the magnitude is out of the ordinary range
(`linspec.operators.rescaled`), the matrix is divided by a power of two, the problem is solved, and the answer
is returned in the units of the data. Other matrices are left as they are. For a file some of its rows are
read, and for a stream its first slice. Operators that give only products, or rows of foreign data, are
watched: their first product or rows show the magnitude. If it is out of the ordinary range, the run begins
again; its costs so far still count.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from linspec.arrays import HostArray, largest_magnitude
from linspec.blocks import BlockOperator
from linspec.errors import NonFiniteData
from linspec.operators import (
    AdjointOperator,
    AdjustedOperator,
    CenteredOperator,
    CupySparseOperator,
    DenseOperator,
    HorizontalStack,
    LinearOperator,
    MappedOperator,
    ScaledOperator,
    SparseOperator,
    StreamedOperator,
    SumOperator,
    VerticalStack,
)
from linspec.operators.rescaled import WatchedOperator, ordinary_exponent, rescaled
from linspec.sweeps.finite import first_non_finite

SAMPLED_ROWS, SAMPLED_NUMBERS = 16, 2**20
"""The number of evenly spread rows of a file that are read for its magnitude, and the most numbers in
them."""

FAINT = {4: 100, 8: 480}
"""By the bytes of a number: a column that is smaller than the largest by at most this many bits can be
squared."""

LARGEST_RIDGE, SMALLEST_RIDGE = 200, 400
"""A ridge keeps its value between these binary exponents, relative to the largest square of an entry."""

COLUMNS_AT_ONCE, ENTRIES_AT_ONCE = 64, 2**16


@dataclass(frozen=True)
class Look:
    """The facts about the entries of a matrix before the solver begins.

    Attributes
    ----------
    largest : float
        The largest magnitude, or an estimate of it; 0 if it is not known.
    known : bool
        Whether it is known. If not, the first product will show it.
    faint : tuple of int
        Nonzero columns that are so small, compared with the largest, that their squares underflow.
    """

    largest: float = 0.0
    known: bool = True
    faint: tuple[int, ...] = ()

    def exponent(self, dtype: np.dtype[Any]) -> int:
        """The power of two to divide by; 0 for ordinary matrices."""
        if not 0 < self.largest < math.inf:
            return 0
        own = math.frexp(self.largest)[1]
        return own if abs(own) > ordinary_exponent(dtype) else 0


def look_at(name: str, A: LinearOperator) -> Look:
    """Look at the entries of a matrix.

    Raises
    ------
    NonFiniteData
        An array in memory has an entry that is not finite; the message names it.
    """
    if (
        type(A) is DenseOperator and A.home.on_host
    ):  # most data, in far less time than the questions below take
        return _finite(_look_at_array(A), name, A)
    if isinstance(A, CenteredOperator | AdjointOperator):
        return Look(*_bare(look_at(name, A.parts[0])))
    if isinstance(A, AdjustedOperator):
        return Look(*_bare(look_at(name, A.operator)))
    if isinstance(A, StreamedOperator | BlockOperator):
        return Look(A.largest)
    if isinstance(A, CupySparseOperator):
        return Look(largest_magnitude(A.matrix.data))
    if isinstance(A, SparseOperator):
        look = _look_at_sparse(A)
    elif isinstance(A, DenseOperator) and not isinstance(A, MappedOperator):
        look = _look_at_array(A) if A.home.on_host else Look(_largest_elsewhere(A))
    elif isinstance(A, MappedOperator):
        return Look(_sampled(A))
    else:
        return _look_at_parts(name, A)
    return _finite(look, name, A)


def _finite(look: Look | None, name: str, A: LinearOperator) -> Look:
    """The look, or an error that names the entry that is not finite."""
    if look is None:
        row, column, value = first_non_finite(A) or (0, 0, math.nan)
        raise NonFiniteData(
            f"{name} must be finite; got {value} at row {row}, column {column}. Drop or impute such rows."
        )
    return look


def _look_at_parts(name: str, A: LinearOperator) -> Look:
    """The look at the parts of sums and stacks; for other operators the first product or rows decide."""
    if not isinstance(A, SumOperator | HorizontalStack | VerticalStack | ScaledOperator):
        return Look(known=False)
    looks = [look_at(name, part) for part in A.parts]
    factor = abs(A.factor) if isinstance(A, ScaledOperator) else 1.0
    return Look(max(look.largest for look in looks) * factor, all(look.known for look in looks))


def _bare(look: Look) -> tuple[float, bool]:
    return look.largest, look.known


def _largest_elsewhere(A: DenseOperator) -> float:
    """The look at an array of another library; the first sweep finds entries that are not finite."""
    floating = A.home.xp.isdtype(A.array.dtype, "real floating")
    return largest_magnitude(A.array) if floating else 1.0


def _look_at_array(A: DenseOperator) -> Look | None:
    """The look at an array in memory; None if an entry is not finite.

    Usually this is one reading, for the sums of squares of the columns.
    """
    x = A.array
    if x.dtype.kind != "f" or 0 in x.shape:
        return Look(1.0)
    if x.dtype.itemsize < 4:  # half precision has no entries out of the ordinary range
        return Look(1.0) if np.isfinite(np.sum(x, dtype=np.float64)) else None
    bits = ordinary_exponent(A.dtype)
    with np.errstate(all="ignore"):
        squares = np.einsum("ij,ij->j", x, x)
        largest, least = math.sqrt(squares.max()), math.sqrt(squares.min())
    if not 2.0**-bits <= largest <= 2.0**bits:
        if not np.isfinite(x).all():
            return None
        largest = largest_magnitude(x)
    digits = FAINT[A.dtype.itemsize]
    below = max(math.ldexp(largest, 1 - digits) * math.sqrt(len(x)), 2.0 * _least_square(x.dtype))
    if least >= below:
        return Look(largest)
    small = np.flatnonzero(np.sqrt(squares) < below)
    return Look(largest, faint=_faint_columns(x, small, largest, A.dtype))


@lru_cache(maxsize=8)
def _least_square(dtype: np.dtype[Any]) -> float:
    """The root of the smallest number of a dtype that has all its digits."""
    return math.sqrt(np.finfo(dtype).tiny)


def _faint_columns(x: HostArray, columns: HostArray, largest: float, dtype: Any) -> tuple[int, ...]:
    """The columns, among some, that are faint compared with the largest entry of the matrix."""
    if largest == 0:
        return ()
    found: list[int] = []
    digits = FAINT[dtype.itemsize]
    for start in range(0, len(columns), COLUMNS_AT_ONCE):
        some = columns[start : start + COLUMNS_AT_ONCE]
        part = x[:, some]
        sizes = np.maximum(part.max(axis=0), -part.min(axis=0))
        found += some[_faint(sizes, largest, digits)].tolist()
    return tuple(found)


def _faint(sizes: HostArray, largest: float, digits: int) -> HostArray:
    level: HostArray = np.frexp(sizes)[1] < math.frexp(largest)[1] - digits
    return (sizes > 0) & level


def _look_at_sparse(A: SparseOperator) -> Look | None:
    """The same of the stored entries, run by run."""
    data = A.matrix.data[: int(A.matrix.indptr[-1])]
    if data.dtype.kind != "f":
        return Look(1.0)
    largest, smallest = 0.0, math.inf
    for start in range(0, len(data), ENTRIES_AT_ONCE):
        sizes = np.abs(data[start : start + ENTRIES_AT_ONCE])
        high, low = float(sizes.max()), float(sizes.min())
        if not high < math.inf:
            return None
        if low == 0:
            low = float(np.min(sizes, initial=math.inf, where=sizes > 0))
        largest, smallest = max(largest, high), min(smallest, low)
    digits = FAINT[A.dtype.itemsize]
    if not (0 < smallest < math.inf) or math.frexp(smallest)[1] >= math.frexp(largest)[1] - digits:
        return Look(largest)
    columns = np.zeros(A.shape[1])
    np.maximum.at(columns, A.matrix.indices[: len(data)], np.abs(data))
    return Look(largest, faint=tuple(np.flatnonzero(_faint(columns, largest, digits)).tolist()))


def _sampled(A: MappedOperator) -> float:
    """The largest magnitude in some rows of a file, evenly spread."""
    n, p = A.shape
    count = max(1, min(n, SAMPLED_ROWS, SAMPLED_NUMBERS // p))
    rows = A.rows(np.linspace(0, n - 1, count).astype(np.intp))
    largest = largest_magnitude(rows.dense())
    A.release()
    return largest if math.isfinite(largest) else 0.0


def divided(
    matrices: Mapping[str, LinearOperator], looks: Mapping[str, Look], exponents: Mapping[str, int]
) -> dict[str, LinearOperator]:
    """The matrices of a problem divided by powers of two; those of unknown magnitude are watched."""
    found = {}
    for name, A in matrices.items():
        look = looks[name]
        if look.known or exponents[name]:
            found[name] = rescaled(A, exponents[name], name)
        else:
            found[name] = _watched(A, name)
    return found


def _watched(A: LinearOperator, name: str) -> LinearOperator:
    if isinstance(A, CenteredOperator):
        return CenteredOperator(_watched(A.parts[0], name), A.mean)
    if isinstance(A, AdjustedOperator):
        return A.on(_watched(A.operator, name))
    return WatchedOperator(A, name)


def reduced_ridge(ridge: float, exponent: int, largest: float) -> tuple[float, int]:
    """A ridge in the units of a matrix divided by 2^exponent, and the (even) power of two by which it is too small.

    The squares of entries add nothing to a ridge that is far above them. A smaller ridge, if it is still far
    above, gives the same answer times a power of two. A ridge far below the squares stays far below.
    """
    if ridge == 0:
        return 0.0, 0
    mantissa, power = math.frexp(ridge)
    power -= 2 * exponent
    unit = 2 * (math.frexp(largest)[1] - exponent) if 0 < largest < math.inf else 0
    excess = 0
    if 0 < largest < math.inf and power > unit + LARGEST_RIDGE:
        excess = power - unit - LARGEST_RIDGE
        excess += excess % 2
    if exponent:
        power = max(power, unit - SMALLEST_RIDGE)
    elif not excess:
        return ridge, 0
    return math.ldexp(mantissa, power - excess), excess
