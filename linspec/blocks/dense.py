"""Arrays of any library that follows the array API standard, in memory or mapped from a file.

Products are in float32 or float64, sums in float64: a float32 product runs over at most `LONGEST_STRETCH` rows before
it is added. Narrow integers and bools are multiplied in float32, which holds them exactly.

Gram matrices are in float64; those of integers are exact in float32 as long as all sums stay below 2²⁴, in whatever
order a BLAS adds, and take half the time there.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

import numpy as np

from linspec.arrays import Array, Device, DType, HostArray, host_dtype, to_host, working_dtype
from linspec.blocks.base import FEWEST_ROWS, Block, Rows, first_shares, rows_per_block
from linspec.errors import InvalidProblem

__all__ = ["Dense", "DenseBlock"]

TINY = float(np.finfo(np.float64).tiny)

EXACT = 2**24
"""Integers up to this are exact in float32."""


class DenseBlock(Block):
    """Some rows of an array, less a row; `array` is as it was passed until `about` has made the working copy."""

    def __init__(self, array: Array, dtype: DType, device: Device, less: Array | None = None) -> None:
        self.array, self.dtype, self.device, self.less = array, dtype, device, less
        self.rows, self.columns = array.shape
        self.entries = self.rows * self.columns

    def origin(self, w: Array | None) -> Array:
        shares = self.device.asarray(first_shares(w, self.rows), self.dtype)
        some = self.device.asarray(self.array[: shares.shape[0], :], self.dtype)
        gaps = some - some[0, :]  # so a column that does not vary is met exactly
        row = some[0, :] + shares @ gaps
        return row if self.less is None else row - self.less

    def about(self, row: Array | None) -> DenseBlock:
        if self.less is not None:  # both rows are subtracted as one: large ones cancel, and cost no digits
            row = self.less if row is None else self.less + self.device.blocks.asarray(row)
            array = self.device.asarray(self.dense() - row, self.dtype)
        elif isinstance(self.array, np.ndarray) and row is not None:
            array = np.subtract(self.array, row, dtype=self.dtype)
        else:
            array = self.device.asarray(self.array, self.dtype)
            array = array if row is None else array - row
        return type(self)(array, self.dtype, self.device)

    def times(self, V: Array) -> Array:
        return self.array @ V

    def t_times(self, U: Array, out: Array) -> None:
        out += self._summed(self.array.T @ U)

    def sums(self, w: Array | None, *, squares: bool, exact: bool) -> tuple[Array, Array | None]:
        asarray = self.device.blocks.asarray
        total = asarray(self.device.column_sums(self.array)) if w is None else w @ self.dense()
        if not squares:
            return total, None
        X, xp = self.dense(), self.device.blocks.xp
        weighted = X if w is None else X * w[:, None]
        on_host = isinstance(X, np.ndarray)
        about = np.einsum("ij,ij->j", weighted, X) if on_host else xp.sum(weighted * X, axis=0)
        return total, self._positive(about, w)

    def gram(self, w: Array | None, other: Block) -> Array:
        if not isinstance(other, DenseBlock):  # the other knows its own form
            return other.gram(w, self).T
        if other is not self:
            return (self.dense() if w is None else self.dense() * w[:, None]).T @ other.dense()
        X = self.dense() if w is None else self.dense() * self.device.blocks.xp.sqrt(w)[:, None]
        return self._with_positive_diagonal(X.T @ X, w)

    def cut(self, start: int, stop: int) -> DenseBlock:
        return type(self)(self.array[start:stop, :], self.dtype, self.device, self.less)

    def take(self, rows: HostArray) -> DenseBlock:
        numbers = self.device.xp.asarray(rows, device=self.device.native)
        chosen = self.device.xp.take(self.array, numbers, axis=0)
        return type(self)(chosen, self.dtype, self.device, self.less)

    def edges(self, sum_bytes: int) -> list[int]:
        height = rows_per_block(self.columns * self.dtype.itemsize, sum_bytes, on_host=self.device.on_host)
        return [*range(0, self.rows, height), self.rows]

    def dense(self) -> Array:
        return self.device.blocks.asarray(self.array)

    def _positive(self, squares: Array, w: Array | None) -> Array:
        """Squares of columns of rows that count, with a positive number where they underflow."""
        xp = self.device.blocks.xp
        if squares.all() if isinstance(squares, np.ndarray) else to_host(xp.all(squares != 0)):
            return squares
        met = self.dense() != 0
        met = xp.any(met if w is None else met & (w > 0)[:, None], axis=0)
        return xp.where(squares == 0, xp.astype(met, squares.dtype) * TINY, squares)

    def _with_positive_diagonal(self, G: Array, w: Array | None) -> Array:
        squares = G.diagonal() if isinstance(G, np.ndarray) else self.device.blocks.xp.linalg.diagonal(G)
        positive = self._positive(squares, w)
        return G if positive is squares else G + self.device.blocks.eye(self.columns) * (positive - squares)

    def _summed(self, product: Array) -> Array:
        """A product as it is added into float64; NumPy converts on the way."""
        return product if isinstance(product, np.ndarray) else self.device.blocks.asarray(product)


class IntegerBlock(DenseBlock):
    """Rows of integers of at most 16 bits on the host, whose Gram matrices are exact in float32."""

    def origin(self, w: Array | None) -> Array:
        return np.rint(super().origin(w))

    @cached_property
    def largest(self) -> float:
        """The largest magnitude of an entry, at least 1."""
        return max(1.0, float(self.array.max(initial=0)), -float(self.array.min(initial=0)))

    def sums(self, w: Array | None, *, squares: bool, exact: bool) -> tuple[Array, Array | None]:
        if squares or w is not None or self.largest * self.rows > EXACT:
            return super().sums(w, squares=squares, exact=exact)
        return (np.ones(self.rows, np.float32) @ self.array).astype(np.float64), None

    def gram(self, w: Array | None, other: Block) -> Array:
        if w is not None or not isinstance(other, IntegerBlock):
            return super().gram(w, other)
        height = int(EXACT / max(self.largest, other.largest) ** 2)
        if height < FEWEST_ROWS:
            return super().gram(w, other)
        product = np.zeros((self.columns, other.columns))
        for start in range(0, self.rows, height):
            rows = slice(start, start + height)
            product += self.array[rows].T @ other.array[rows]
        return product


class Dense(Rows):
    """A matrix in an array of n x p.

    Parameters
    ----------
    array : array of shape (n, p)
        Real numbers of any dtype.
    name : str, default "data"
        The name in messages.

    Raises
    ------
    UnsupportedData
        Entries are complex, or no numbers.
    InvalidProblem
        There are not two dimensions.
    """

    def __init__(self, array: Array, name: str = "data") -> None:
        if len(array.shape) != 2:
            raise InvalidProblem(
                f"{name} must be a matrix; got shape {tuple(array.shape)}. Pass a vector as one column, x[:, None]."
            )
        self.array, self.shape, self.resident, self.name = array, tuple(array.shape), True, name
        self.dtype, self.device = working_dtype(host_dtype(array), name), Device.of(array)

    def widen(self) -> bool:
        self.device = self.device.blocks  # blocks are brought to the host where their device has no float64
        return super().widen()

    def blocks(self) -> Iterator[Block]:
        narrow = (
            isinstance(self.array, np.ndarray) and self.array.dtype.kind in "iub" and self.dtype == np.float32
        )
        kind = IntegerBlock if narrow and self.less is None else DenseBlock
        yield kind(self.array, self.dtype, self.device, self.less)
