"""A matrix divided by a power of two, so that squares of its entries, and squares of those, are numbers.

Problem: methods multiply entries with each other, up to four and more. Of entries of 1e-90 or 1e90 that leaves the
range of float64, of float32 much sooner.
Method: a power of two is taken out. It rounds nothing (but for entries that are negligible beside the largest, which
may become subnormal), and what is found is given back in the units of the data by another.
Arrays and sparse matrices in memory are copied; rows of files and streams are divided as they are read; what is known
by its products has them divided, half before and half after, so that neither over- nor underflows.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from linspec.arrays import Array, HostArray, all_finite, largest_magnitude, to_host
from linspec.errors import NonFiniteData
from linspec.operators.adjusted import AdjustedOperator
from linspec.operators.base import CenteredOperator, LinearOperator, Selection
from linspec.operators.dense import DenseOperator, MappedOperator
from linspec.operators.foreign import CupySparseOperator
from linspec.operators.sparse import SparseOperator
from linspec.operators.streamed import ConvertedStream, StreamedOperator

ORDINARY_SINGLE, ORDINARY = 40, 100
"""Binary exponents (about 1e12 and 1e30) up to which float32 and float64 matrices are left as they are.

In float64 everything is summed, squared, and squared again: fourth powers, times rows and columns, are numbers then,
with room for what is 1e-30 of the largest. In float32 rows are multiplied twice at most: their squares are numbers.
"""

ORDINARY_SHARE = 0.25
"""Power of the largest number below which an entry of a block makes no product overflow."""

HALF_AT_MOST = 1000
"""Exponents up to which a power of two is a float64."""

OVERFLOWN = {4: 120, 8: 950}
"""What is taken out of a matrix, by the bytes of its numbers, whose first product overflows."""


def ordinary_exponent(dtype: np.dtype[Any]) -> int:
    """The binary exponent up to which a matrix of a working dtype is left as it is."""
    return ORDINARY_SINGLE if dtype == np.float32 else ORDINARY


def times_power_of_two(x: Array, exponent: int) -> Array:
    """x 2^exponent, in two steps: one factor alone may be no number."""
    if exponent == 0:
        return x
    half = exponent // 2
    if abs(half) > HALF_AT_MOST:  # the factor would be no number itself
        return times_power_of_two(times_power_of_two(x, half), exponent - half)
    with np.errstate(all="ignore"):  # what is beyond the range becomes infinite or zero
        return x * 2.0**half * 2.0 ** (exponent - half)


def rescaled(  # noqa: PLR0911  # one return a kind
    A: LinearOperator, exponent: int, name: str = "data"
) -> LinearOperator:
    """A 2^-exponent, with all that A can do.

    Parameters
    ----------
    A : LinearOperator
    exponent : int
        0: A itself.
    name : str, default "data"
        What messages call it.

    Returns
    -------
    LinearOperator
        Of an array or a sparse matrix in memory, a scaled copy; of everything else, a wrapper.
    """
    if exponent == 0:
        return A
    if isinstance(A, CenteredOperator):
        return CenteredOperator(rescaled(A.parts[0], exponent, name), times_power_of_two(A.mean, -exponent))
    if isinstance(A, RescaledMap):
        return RescaledMap(A._mapped, _unscaled(A.mean, -exponent), A.dtype, A.exponent + exponent)
    if isinstance(A, MappedOperator):
        return RescaledMap(A._mapped, _unscaled(A.mean, -exponent), A.dtype, exponent)
    if isinstance(A, DenseOperator):
        return DenseOperator(times_power_of_two(A.array, -exponent), _unscaled(A.mean, -exponent), A.dtype)
    if isinstance(A, SparseOperator):
        return SparseOperator(_with_data(A.matrix, exponent), A.dtype, checked=True)
    if isinstance(A, CupySparseOperator):
        return CupySparseOperator(_with_data(A.matrix, exponent), A.dtype)
    if isinstance(A, StreamedOperator):
        return RescaledStream(A, exponent)
    if isinstance(A, AdjustedOperator):
        return A.on(rescaled(A.operator, exponent, name))
    return A.divided(exponent) or RescaledOperator(A, exponent, name)


def _unscaled(mean: Array | None, exponent: int) -> Array | None:
    return None if mean is None else times_power_of_two(mean, exponent)


def _with_data(matrix: Any, exponent: int) -> Any:
    """The same sparse matrix with scaled entries."""
    data = times_power_of_two(matrix.data, -exponent)
    return type(matrix)((data, matrix.indices, matrix.indptr), shape=matrix.shape)


class RescaledOperator(LinearOperator):
    """A 2^-exponent for an operator whose entries are not at hand.

    Attributes
    ----------
    name : str
        What messages call it: whose entries cannot be searched for NaN is told by the products that have some.
    """

    def __init__(self, operator: LinearOperator, exponent: int, name: str = "data") -> None:
        self.operator, self.exponent, self.name = operator, exponent, name
        self._products = 0
        self.shape, self.dtype, self.home = operator.shape, operator.dtype, operator.home
        self.sliceable, self.readable = operator.sliceable, operator.readable
        self.sparse, self.centres_entries = operator.sparse, operator.centres_entries
        self.streamed, self.sweeps = operator.streamed, operator.sweeps
        self.rows_together = operator.rows_together

    @property
    def nnz(self) -> int:
        return self.operator.nnz

    def _product(self, multiply: Any, block: Array) -> Array:
        half = -self.exponent // 2
        product = multiply(times_power_of_two(block, half))
        return times_power_of_two(product, -self.exponent - half)

    def _matmat(self, V: Array) -> Array:
        return self._finite(self._product(self.operator.matmat, V), V, "matmat")

    def _rmatmat(self, U: Array) -> Array:
        return self._finite(self._product(self.operator.rmatmat, U), U, "rmatmat")

    def _finite(self, product: Array, block: Array, method: str) -> Array:
        """A product, of a block whose entries are ordinary numbers only where it has such entries itself.

        Others are the iteration's: a run that diverges ends as such.
        """
        self._products += 1
        if all_finite(product):
            return product
        if not largest_magnitude(block) < float(np.finfo(self.dtype).max) ** ORDINARY_SHARE:
            return product
        entries = to_host(product)
        row, column = np.argwhere(~np.isfinite(entries))[0].tolist()
        source = getattr(self.operator, "source", self.operator)
        raise NonFiniteData(
            f"{self.name} must give finite products; {type(source).__name__}.{method} returned "
            f"{entries[row, column]} at row {row}, column {column} of product number {self._products}, for a block of "
            "finite numbers. Try the operator on such blocks; where its products overflow, scale it."
        )

    def _rows(self, selection: Selection) -> LinearOperator:
        return rescaled(self.operator.rows(selection), self.exponent)

    def _dense(self) -> Array:
        return times_power_of_two(self.operator.dense(), -self.exponent)

    def blocks(self) -> Iterator[LinearOperator]:
        """The rows of streamed data, scaled."""
        return (rescaled(block, self.exponent) for block in self.operator.blocks())

    def release(self) -> None:
        self.operator.release()


class RescaledMap(MappedOperator):
    """Rows of a file divided as they are read."""

    def __init__(
        self, array: HostArray, mean: Array | None = None, dtype: Any = None, exponent: int = 0
    ) -> None:
        super().__init__(array, mean, dtype)
        self.exponent = exponent

    def _like(self, array: Array, mean: Array | None = None) -> DenseOperator:
        return RescaledMap(array, mean, self.dtype, self.exponent)

    def _rows(self, selection: Selection) -> LinearOperator:
        stored: Any = super()._rows(selection)
        return DenseOperator(times_power_of_two(stored.array, -self.exponent), self.mean, self.dtype)

    def _dense(self) -> Array:
        entries = super()._dense()
        return times_power_of_two(entries, -self.exponent) if self.mean is None else entries


class RescaledStream(ConvertedStream):
    """Slices divided as they come."""

    def __init__(self, stream: StreamedOperator, exponent: int) -> None:
        super().__init__(stream, stream.dtype)
        self.exponent = exponent

    def _converted(self, block: LinearOperator) -> LinearOperator:
        return rescaled(super()._converted(block), self.exponent)


class OutOfRange(Exception):  # noqa: N818  # no error: a message to whoever started the run
    """What the first product with a matrix tells: its size is beyond the ordinary.

    Attributes
    ----------
    name : str
        The matrix.
    exponent : int
        The power of two that is to be taken out of it.
    """

    def __init__(self, name: str, exponent: int) -> None:
        super().__init__(name, exponent)
        self.name, self.exponent = name, exponent


class WatchedOperator(RescaledOperator):
    """An operator whose entries are not at hand, as it is; the first product or rows that are not zero tell its size.

    Raises
    ------
    OutOfRange
        From these, where the size is beyond the ordinary.
    """

    def __init__(self, operator: LinearOperator, name: str) -> None:
        super().__init__(operator, 0, name)
        self._seen = False

    def _product(self, multiply: Any, block: Array) -> Array:
        product = multiply(block)
        if not self._seen:
            self._look(largest_magnitude(product), largest_magnitude(block))
        return product

    def _dense(self) -> Array:
        entries = super()._dense()
        if not self._seen:
            self._look(largest_magnitude(entries), 1.0)
        return entries

    def _rows(self, selection: Selection) -> LinearOperator:
        rows = self.operator.rows(selection)
        if not self._seen and rows.shape[0] > 0:
            if isinstance(rows, DenseOperator):
                self._look(largest_magnitude(rows.array), 1.0)
            elif isinstance(rows, SparseOperator):
                self._look(largest_magnitude(rows.matrix.data), 1.0)
        return rows

    def _look(self, product: float, block: float) -> None:
        if product == 0 or not 0 < block < math.inf:
            return
        self._seen = True
        if math.isnan(product):
            return
        if math.isinf(product):
            raise OutOfRange(self.name, OVERFLOWN[self.dtype.itemsize])
        exponent = math.frexp(product)[1] - math.frexp(block)[1]
        if abs(exponent) > ordinary_exponent(self.dtype):
            raise OutOfRange(self.name, exponent)
