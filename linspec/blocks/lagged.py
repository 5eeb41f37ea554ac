"""Rows that are windows of neighbouring rows: (x_{t-l}) for some lags l, side by side, without a copy for each lag.

Problem: L lags of p channels make n x pL numbers of n x p, and a Gram matrix of them takes (pL)² n multiply-adds.
Method: with z_t the rows x_t of an epoch, and zeros outside of it, block (i, j) of the Gram matrix depends, but for the
ends of the epoch, on the difference of the lags alone. For rows t = 0..m-1 of a run of rows, and lags -a and -(a + d),

    G(a, d) = Σ_{s=a}^{a+m-1} z_s z_{s+d}ᵀ.                                                                        (1)

For the places a₀ < ... < a_r at which a difference d occurs, the sums have the rows s = a_r..a₀+m-1 in common, so

    G(aᵢ, d) = Σ_{s=a_r}^{a₀+m-1} + Σ_{s=aᵢ}^{a_r-1} + Σ_{s=m+a₀}^{m+aᵢ-1}.                                        (2)

That is one product of p² n multiply-adds for each difference, and one of p² for each pair of lags and end of a run.
Source: the block-Toeplitz structure of the covariance method of linear prediction (Morf, Dickinson, Kailath & Vieira
1977, doi:10.1109/TASSP.1977.1162994); its use for electrodes and lags: Crosse, Di Liberto, Bednar & Lalor 2016,
doi:10.3389/fnhum.2016.00604.
Where we differ: they carry G(a, d) to G(a + 1, d), and subtract the row that leaves. Here nothing is subtracted, so a
large first row costs no digits. Weights of rows break the structure; rows are then made block by block.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np

from linspec.arrays import Array, HostArray
from linspec.blocks.base import LARGEST_BLOCK_BYTES, LONGEST_STRETCH, ORIGIN_ROWS, Block, Rows
from linspec.blocks.dense import DenseBlock

__all__ = ["Lagged", "LaggedBlock"]

SHORTEST = 64
"""Rows that a run must have beyond its lags, so that (2) pays."""


class LaggedBlock(Block):
    """Some windows of the rows of a dense block.

    Parameters
    ----------
    block : DenseBlock of shape (m, p)
        The rows z of the windows, in the precision of products.
    first : numpy.ndarray of int, of shape (n,)
        Where the window of each row begins; rows whose windows begin next to each other are a run.
    places : dict of int to slice, of length L
        Where in a window the row at each lag is, and its columns.
    row : array of shape (p L,), optional
        What is subtracted from each row.
    """

    def __init__(
        self, block: DenseBlock, first: HostArray, places: dict[int, slice], row: Array | None = None
    ) -> None:
        self.block = block
        self.first = first
        self.places = places
        self.row = row
        self.device = block.device
        self.rows = len(first)
        self.columns = len(places) * block.columns
        self.entries = self.rows * self.columns

    @property
    def subtracts(self) -> bool:  # type: ignore[override]
        """Whether means are far above deviations."""
        return self.far

    @property
    def lengths(self) -> HostArray:
        """The numbers of rows of the runs."""
        begins = np.flatnonzero(np.diff(self.first, prepend=-2) != 1)
        return np.diff(begins, append=self.rows)

    def at_lags(self, row: Array | None) -> Iterator[tuple[slice, DenseBlock]]:
        """The columns of each lag, and the rows at it about a row; those of one run are a view."""
        single = len(self.lengths) == 1
        for place, columns in self.places.items():
            at = self.first + place
            part = self.block.cut(at[0], at[-1] + 1) if single else self.block.take(at)
            yield columns, part.about(None if row is None else row[columns])

    def origin(self, w: Array | None) -> Array:
        head = self.cut(0, ORIGIN_ROWS)
        return self.device.xp.concat([part.origin(w) for _, part in head.at_lags(None)])

    def about(self, row: Array | None) -> Block:
        if self.far and row is not None:
            return DenseBlock(self.dense(), self.block.dtype, self.device).about(row)
        return LaggedBlock(self.block, self.first, self.places, row)

    def times(self, V: Array) -> Array:
        product: Any = sum(part.times(V[columns, :]) for columns, part in self.at_lags(None))
        return product if self.row is None else product - self.row @ V

    def t_times(self, U: Array, out: Array) -> None:
        for a, b in pairwise([*range(0, self.rows, LONGEST_STRETCH), self.rows]):
            for columns, part in self.cut(a, b).at_lags(None):
                part.t_times(U[a:b, :], out[columns, :])

    def sums(self, w: Array | None, *, squares: bool, exact: bool) -> tuple[Array, Array | None]:
        parts = [part.sums(w, squares=squares, exact=exact) for _, part in self.at_lags(self.row)]
        total, about = zip(*parts, strict=True)
        concat = self.device.blocks.xp.concat
        return concat(total), concat(about) if squares else None

    def gram(self, w: Array | None, other: Block) -> Array:
        left: Any = self.about(None)
        right: Any = other if other.subtracts else other.about(None)
        same = other is self
        device = self.device.blocks
        lengths = self.lengths
        G = device.zeros((self.columns, other.columns))
        if isinstance(right, DenseBlock):
            return device.xp.concat([part.gram(w, right) for _, part in self.at_lags(None)])
        if w is None and isinstance(right, LaggedBlock) and np.array_equal(lengths, right.lengths):
            long = np.repeat(lengths > max(*self.places, *right.places) + SHORTEST, lengths)
            G = by_differences(left.take(long), right.take(long), same=same)
            left, right = left.take(~long), right.take(~long)
        for a, b in pairwise(left.edges(0) if right.divisible else [0, self.rows]):
            part = DenseBlock(left.cut(a, b).dense(), np.dtype(np.float64), device)
            G += part.gram(None if w is None else w[a:b], part if same else right.cut(a, b))
        return G

    def cut(self, start: int, stop: int) -> LaggedBlock:
        return self.take(slice(start, stop))

    def take(self, rows: Any) -> LaggedBlock:
        block = LaggedBlock(self.block, self.first[rows], self.places, self.row)
        block.far = self.far
        return block

    def edges(self, sum_bytes: int) -> list[int]:
        if self.far or sum_bytes < 8 * self.columns**2:  # sums are smaller than a Gram matrix
            return super().edges(sum_bytes)
        return [0, self.rows]

    def dense(self) -> Array:
        return self.device.blocks.concat([part.dense() for _, part in self.at_lags(self.row)])


def by_differences(X: LaggedBlock, Y: LaggedBlock, *, same: bool) -> Array:
    """Compute the Gram matrix of runs that are longer than the lags, about 0, by (2).

    Parameters
    ----------
    X, Y : LaggedBlock
        With the same runs.
    same : bool
        Whether they are the same.
    """
    lengths = X.lengths
    begins = np.cumsum(lengths) - lengths
    G = X.device.blocks.zeros((X.columns, Y.columns))

    def running(total: Any, s: HostArray, t: HostArray, steps: Any) -> list[Array]:
        """Σ z_s z_tᵀ of a total and, step by step, of some more rows of all runs."""
        totals = [total]
        for step in steps:
            rows = np.arange(*step)[:, None]
            left = X.block.take((s + rows).ravel())
            right = Y.block.take((t + rows).ravel())
            totals.append(totals[-1] + left.gram(None, right))
        return totals

    for d in {b - a for a in X.places for b in Y.places if b >= a or not same}:
        places = sorted(a for a in X.places if a + d in Y.places)
        low = places[0]
        high = places[-1]
        steps = [*pairwise(places)]
        s = X.first[begins]
        t = Y.first[begins] + d
        runs = zip(s + high, t + high, lengths + low - high, strict=True)
        core = sum(
            X.block.cut(i, i + m).gram(None, Y.block.cut(j, j + m)) for i, j, m in runs
        )  # (2), the first sum
        heads = running(core, s, t, steps[::-1])[::-1]  # (2), the second
        tails = running(0, s + lengths, t + lengths, steps)  # (2), the third
        for a, head, tail in zip(places, heads, tails, strict=True):
            x = X.places[a]
            y = Y.places[a + d]
            G[x, y] = head + tail
            if same:
                G[y, x] = G[x, y].T
    return G


class Lagged(Rows):
    """The rows of a `linspec.operators.lagged_rows.LaggedOperator`.

    Parameters
    ----------
    A : LaggedOperator
    name : str
        The name in messages.
    """

    def __init__(self, A: Any, name: str) -> None:
        self.A = A
        self.name = name
        self.shape = A.shape
        self.device = A.device
        self.resident = A.resident

    def widen(self) -> bool:
        self.device = self.device.blocks
        return super().widen()

    def gram_seconds(self) -> float:
        return super().gram_seconds() * float(self.A.gram_share)

    def blocks(self) -> Iterator[Block]:
        m, p = self.A.operator.shape
        height = LARGEST_BLOCK_BYTES * m // (8 * p * len(self.A.numbers) + 1) + 1
        for start in range(0, int(self.shape[0]), height):
            yield self.take(slice(start, start + height))
            self.A.release()

    def take(self, rows: Any) -> LaggedBlock:
        A = self.A
        first = A.first[rows]
        xp = A.device.xp
        within = np.zeros(len(A.numbers), bool)
        within[first[:, None] + np.arange(max(A.places) + 1)] = True
        numbers = A.numbers[within]
        read = A.operator.rows(numbers).dense()
        there = xp.asarray(numbers[:, None] >= 0, device=A.device.native)
        array = self.device.asarray(xp.where(there, read, xp.zeros_like(read)), self.dtype)
        dense = DenseBlock(array, self.dtype, self.device)
        block = LaggedBlock(dense, np.cumsum(within)[first] - 1, A.places)
        block.far = self.far
        return block
