"""A matrix by what it can do: multiply, or also give its rows in blocks.

Problem: data are dense, sparse, on a device, in slices that are read, or known by products alone. What is computed with
them should be written once.
Method: there are two capabilities. A `LinearOperator` has A V and Aᵀ U. `Rows` also yields its rows in blocks, and a
`Block` has eight methods; statistics, products, Gram matrices, triangles and sketches are sums over blocks that use
these alone. A matrix known by its products is one block that cannot be cut.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import numpy as np

from linspec.arrays import HOST, Array, Device, DType, HostArray, namespace, to_host
from linspec.errors import InvalidProblem, MissingCapability
from linspec.process import machine

__all__ = ["Block", "LinearOperator", "Rows"]

BLOCK_BYTES, DEVICE_BLOCK_BYTES, LARGEST_BLOCK_BYTES = 4 << 20, 256 << 20, 64 << 20
"""Bytes of a block that stays in a cache of the host, of one that keeps a device busy, and of the largest here."""

RUN_BYTES = 1 << 18
"""Bytes of neighbouring rows that a minibatch takes together, where single rows cost a page, or a message."""

LONGEST_STRETCH, LONGEST_DEVICE_STRETCH = 2**12, 2**17
"""Most rows over which the host and a device sum in float32 before the sum is added into float64."""

FEWEST_ROWS = 256
"""Fewest rows of a block: to add a product of fewer to the sum costs as much as the product."""


DENSE_RATE, SPARSE_RATE, READING_RATE, ASSUMED_ROWS = 2e10, 5e9, 1e9, 10**6
"""Operations a second of dense and of sparse products, bytes a second of files, and rows of what has not been counted
yet."""

MET = 14
"""How often each number of a sum must be added to, so that a sum for a further thread pays."""

ORIGIN_ROWS = 256
"""Rows whose mean sums are about until the mean of all rows is known."""


class LinearOperator(ABC):
    """A matrix A of n x p, known by its products with thin blocks.

    Attributes
    ----------
    shape : tuple
        (n, p); n is infinite until the rows of slices have been counted.
    dtype : numpy.dtype
        The precision of products, float32 or float64.
    backend : Device, default the host
        The library and the device of the data.
    readings : float, default infinity
        How often the data can be read: 1 for a stream.
    resident : bool, default False
        Whether all rows are in memory, so that they can be had in any order.
    cheap_columns : int, default 24
        Columns of a thin block below which a product costs about as much.
    readable : bool, default True
        Whether entries can be read, and not only multiplied.
    inconsistency : str
        How products contradict each other, if they do: they are not those of a matrix.
    far : bool, default False
        Whether means are far above deviations, so that digits would be lost in products about 0.
    estimated : bool, default False
        Whether `sums` estimates squares unless they are asked for exactly.
    rounding : float
        The relative rounding of entries; that of float32 if they are stored so, or multiplied so.
    """

    shape: tuple[float, int]
    dtype: DType = np.dtype(np.float64)
    device: Device = HOST
    readings: float = math.inf
    resident: bool = False
    cheap_columns: int = 24
    readable: bool = True
    inconsistency: str = ""
    far: bool = False
    estimated: bool = False
    rounding: float = float(np.finfo(np.float64).eps)

    @abstractmethod
    def matmat(self, V: Array) -> Array:
        """Compute A V for V of shape (p, k)."""

    @abstractmethod
    def rmatmat(self, U: Array) -> Array:
        """Compute Aᵀ U for U of shape (n, k), in float64."""

    def widen(self) -> bool:
        """Multiply in float64 from now on, if that is possible; whether it is."""
        self.dtype = np.dtype(np.float64)
        return True

    def product_seconds(self, columns: int) -> float:
        """About the time of AᵀA V for so many columns, with that of reading what is not in memory."""
        entries = min(self.shape[0], ASSUMED_ROWS) * self.shape[1]
        reading = 0.0 if self.resident else 8 * entries / READING_RATE
        return 4 * entries * max(columns, self.cheap_columns / 4) / DENSE_RATE + reading

    def gram_entries(self, other: LinearOperator) -> float:
        """About the entries of AᵀB that are stored."""
        return float(self.shape[1]) * other.shape[1]

    def gram_seconds(self) -> float:
        """About the time of AᵀA."""
        n, p = min(self.shape[0], ASSUMED_ROWS), self.shape[1]
        return n * float(p) ** 2 / DENSE_RATE + (0.0 if self.resident else 8 * n * p / READING_RATE)

    def thin(self, V: Array) -> Array:
        """Return a thin block in the precision and at the place in which the data are multiplied."""
        return self.device.asarray(V, self.dtype)


class Block(ABC):
    """Some rows X in memory. What a kind of data implements.

    Attributes
    ----------
    rows, columns : int
        The shape of X.
    entries : int
        The numbers that are stored.
    divisible : bool, default True
        Whether `cut` works.
    subtracts : bool, default True
        Whether `t_times` and `gram` are about the row, too. If not, as where zeros must stay zeros, they are about 0.
    far : bool, default False
        Set where means are so far above deviations that a block must subtract, whatever it takes.
    """

    rows: int
    columns: int
    entries: int
    divisible: bool = True
    subtracts: bool = True
    far: bool = False

    @abstractmethod
    def origin(self, w: Array | None) -> Array:
        """Return a row near the weighted mean of the first rows."""

    @abstractmethod
    def about(self, row: Array | None) -> Block:
        """Return the block as it is multiplied: in the working precision, and about a row."""

    @abstractmethod
    def times(self, V: Array) -> Array:
        """Compute X V, about the row; V has the working precision."""

    @abstractmethod
    def t_times(self, U: Array, out: Array) -> None:
        """Add Xᵀ U to `out`, which is float64."""

    @abstractmethod
    def sums(self, w: Array | None, *, squares: bool, exact: bool) -> tuple[Array, Array | None]:
        """Compute the weighted sums of columns and, if asked for, of their squares, about the row, in float64.

        Estimates of squares will do unless `exact`. Squares that underflow stay positive.
        """

    @abstractmethod
    def gram(self, w: Array | None, other: Block) -> Array:
        """Compute Xᵀ diag(w) Y in float64, for the same rows Y of another matrix, or of this one."""

    @abstractmethod
    def cut(self, start: int, stop: int) -> Block:
        """Return rows start to stop - 1, about the same row, without a copy."""

    @abstractmethod
    def dense(self) -> Array:
        """Return the entries in float64, about the row."""

    def inner(self, other: Block, D: Array | None) -> Array:
        """Compute X diag(D) Yᵀ in float64 for other rows Y of the same matrix, about the row."""
        Y = other.dense()
        return self.dense() @ (Y if D is None else Y * D[None, :]).T

    def is_far(self, row: Array, ratio: float) -> bool:
        """Whether squares of some of the first rows are `ratio` times those about a row: digits are lost about 0."""
        head = self.cut(0, min(self.rows, ORIGIN_ROWS)).about(row)
        _, squares = head.sums(None, squares=True, exact=True)
        about = to_host(squares)
        sizes = head.rows * to_host(row).astype(np.float64) ** 2
        return bool((sizes[about > 0] > ratio * about[about > 0]).any())

    def row_squares(self, D: Array | None) -> Array:
        """Compute the diagonal of X diag(D) Xᵀ in float64, about the row."""
        X = self.dense()
        return namespace(X).sum(X * X if D is None else X * X * D[None, :], axis=1)

    def take(self, rows: HostArray) -> Block:
        """Return the rows of the given numbers, in that order."""
        raise MissingCapability(
            "these rows cannot be chosen one by one: this kind of data has no `take`. Pass an array, a sparse matrix, "
            "or rows in slices of these."
        )

    def edges(self, sum_bytes: int) -> list[int]:
        """Return the numbers of rows at which to cut, from 0 to `rows`, if products are added to sums of that size."""
        height = max(self.rows, 1)
        if self.divisible:
            height = rows_per_block(self.entries * 8 // max(self.rows, 1), sum_bytes)
        return [*range(0, self.rows, height), self.rows]


def first_shares(w: Array | None, rows: int) -> HostArray:
    """Return the shares of the first rows in their weighted mean; equal ones if none of them counts."""
    rows = min(rows, ORIGIN_ROWS)
    counts = 0.0 if w is None else to_host(w[:rows])
    return counts / np.sum(counts) if np.any(counts) else np.full(rows, 1 / max(rows, 1))


def row_blocks(rows: int, row_bytes: int, sum_bytes: int = 0, *, on_host: bool = True) -> Iterator[slice]:
    """Yield slices of so many rows as `rows_per_block` says."""
    height = rows_per_block(row_bytes, sum_bytes, on_host=on_host)
    return (slice(start, min(start + height, rows)) for start in range(0, rows, height))


def rows_per_block(row_bytes: int, sum_bytes: int = 0, *, on_host: bool = True) -> int:
    """Return how many rows to multiply at once: a block should fit a cache, and exceed the sum that it is added to."""
    usual, largest = (
        (BLOCK_BYTES, LARGEST_BLOCK_BYTES) if on_host else (DEVICE_BLOCK_BYTES, DEVICE_BLOCK_BYTES)
    )
    row_bytes = max(row_bytes, 1)
    fewest = min(FEWEST_ROWS, largest // row_bytes)
    longest = LONGEST_STRETCH if on_host else LONGEST_DEVICE_STRETCH
    return int(min(max(min(max(usual, 4 * sum_bytes), largest) // row_bytes, fewest, 1), longest))


class Rows(LinearOperator):
    """A matrix whose rows come in blocks; products with it are made block by block.

    Attributes
    ----------
    name : str, default "data"
        The name in messages.
    executor : linspec.rows.Executor, optional
        What makes passes over these rows; by default they are read in this process.
    less : array of shape (p,), optional
        Subtracted from each row of an array, in float64.
    together : int, default 1
        Neighbouring rows that are read in about the time of one.
    column_names : tuple of str, optional
    """

    name: str = "data"
    executor: Any = None
    less: Array | None = None
    together: int = 1
    column_names: tuple[str, ...] | None = None

    @abstractmethod
    def blocks(self) -> Iterator[Block]:
        """Yield all rows in order. A block is used up before the next one is asked for."""

    def pieces(self) -> Iterator[Any]:
        """Yield all rows in order, in blocks that are ready to be multiplied."""
        for block in self.blocks():
            yield from (block.cut(a, b).about(None) for a, b in pairwise(block.edges(0)))

    def take(self, rows: HostArray) -> Block:
        """Return the rows of the given numbers, in that order, in memory."""
        block = next(iter(self.blocks()))
        if block.rows != self.shape[0]:
            raise MissingCapability(
                "these rows cannot be chosen one by one: they are read in slices. Pass an array or a sparse matrix, or "
                "choose a solver that reads rows in order."
            )
        return block.take(rows)

    def matmat(self, V: Array) -> Array:
        """Compute A V: the products with the blocks, one below the other."""
        V, parts = self.thin(V), [self.device.zeros((0, V.shape[1]), self.dtype)]
        for block in self.blocks():

            def multiply(a: int, b: int, block: Block = block) -> Array:
                return block.cut(a, b).about(None).times(V)

            parts += self._on_threads(multiply, block.edges(0))
        return self.device.xp.concat(parts, axis=0)

    def rmatmat(self, U: Array) -> Array:
        """Compute Aᵀ U: the sum over the blocks, of which each thread sums a run."""
        shape = (self.shape[1], U.shape[1])
        row = 0
        out = self.device.blocks.zeros(shape)
        for block in self.blocks():
            edges = block.edges(8 * shape[0] * shape[1])
            count = max(
                min(machine.cpu_count(), len(edges) - 1, block.entries // (MET * max(shape[0], 1))), 1
            )
            ends = [(len(edges) - 1) * i // count for i in range(count + 1)]

            def add(first: int, last: int, block: Block = block, row: int = row, edges: Any = edges) -> Array:
                total = self.device.blocks.zeros(shape)
                for a, b in pairwise(edges[first : last + 1]):
                    block.cut(a, b).about(None).t_times(self.thin(U[row + a : row + b, :]), total)
                return total

            if row + block.rows <= U.shape[0]:
                out = sum(self._on_threads(add, ends), out)
            row += block.rows
        if row != U.shape[0]:
            raise InvalidProblem(
                f"rmatmat of {self.name} takes a block with as many rows as the slices have together, {row}; got "
                f"{U.shape[0]}."
            )
        return out

    def _on_threads(self, work: Callable[[int, int], Array], edges: list[int]) -> list[Array]:
        """Do some work for each pair of neighbouring edges, on the threads of the host."""
        mapper = machine.map_parallel if self.device.on_host else map
        return list(mapper(lambda ends: work(*ends), pairwise(edges)))
