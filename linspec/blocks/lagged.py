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
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np

from linspec.arrays import Array, Device, DType, HostArray, to_host
from linspec.blocks.base import (
    LARGEST_BLOCK_BYTES,
    LONGEST_STRETCH,
    MULTIPLY_RATE,
    Block,
    Rows,
    first_shares,
    rows_per_block,
)
from linspec.blocks.dense import TINY, DenseBlock

__all__ = ["Lagged", "LaggedBlock", "chosen_runs", "cut_runs"]

SHORTEST = 64
"""Rows that a run must have beyond its lags, so that (2) pays."""


def cut_runs(runs: HostArray, start: int, stop: int) -> HostArray:
    """Return the runs of rows `start` to `stop` - 1."""
    ends = np.cumsum(runs[:, 1] - runs[:, 0])
    begins = ends - (runs[:, 1] - runs[:, 0])
    cut = runs.copy()
    cut[:, 0] += np.maximum(start - begins, 0)
    cut[:, 1] -= np.maximum(ends - stop, 0)
    return cut[cut[:, 0] < cut[:, 1]]


def chosen_runs(runs: HostArray, numbers: HostArray) -> HostArray:
    """Return the runs of rows of the given numbers, in that order."""
    ends = np.cumsum(runs[:, 1] - runs[:, 0])
    run = np.searchsorted(ends, numbers, "right")
    rows = numbers - ends[run] + runs[run, 1]
    follows = (np.diff(rows) == 1) & (np.diff(run) == 0)
    first = np.flatnonzero(np.append(True, ~follows)[: len(rows)])
    last = np.append(first[1:], len(rows)) - 1
    return np.column_stack([rows[first], rows[last[: len(first)]] + 1, runs[run[first], 2:]])


class LaggedBlock(Block):
    """Some windows of the rows of an array.

    Parameters
    ----------
    array : array of shape (m, p)
    lags : numpy.ndarray of int, of shape (L,)
    runs : numpy.ndarray of int, of shape (r, 4)
        Of each run of neighbouring rows: the first, the one after the last, and those of its epoch.
    dtype : numpy.dtype
        The precision of products.
    device : Device
    row : array of shape (pL,), optional
        What is subtracted from each row.
    """

    def __init__(
        self,
        array: Array,
        lags: HostArray,
        runs: HostArray,
        dtype: DType,
        device: Device,
        row: Array | None = None,
    ) -> None:
        self.array, self.lags, self.runs, self.row = array, lags, runs, row
        self.dtype, self.device, self.channels = dtype, device, int(array.shape[1])
        self.lengths = runs[:, 1] - runs[:, 0]
        self.rows, self.columns = int(self.lengths.sum()), self.channels * len(lags)
        self.entries = self.rows * self.columns
        self.places = lags.max() - lags
        self.span = int(self.places.max())
        self.starts = np.cumsum(self.lengths + self.span) - self.lengths - self.span

    def _of(self, runs: HostArray) -> LaggedBlock:
        return LaggedBlock(self.array, self.lags, runs, self.dtype, self.device, self.row)

    @cached_property
    def base(self) -> Array:
        """What is subtracted of each channel: the row at the lag next to 0."""
        if self.row is None:
            return self.device.zeros((self.channels,), self.dtype)
        return self.row[self._columns(int(np.abs(self.lags).argmin()))]

    @cached_property
    def rest(self) -> Array | None:
        """What is left to subtract at each lag, as one column; None if that is nothing."""
        if self.row is None:
            return None
        device = self.device.blocks
        rest = device.asarray(self.row) - device.asarray(self.device.xp.concat([self.base] * len(self.lags)))
        return rest[:, None] if to_host(rest).any() else None

    @property
    def _meets(self) -> HostArray:
        """Whether a run meets any row of its epoch at a lag."""
        first, stop, begin, end = (self.runs[:, k, None] for k in range(4))
        return (first - self.lags < end) & (stop - self.lags > begin)

    @cached_property
    def _met(self) -> Array:
        """Whether a column has a row of an epoch, as one column; else it is exactly minus the row."""
        return self.device.blocks.asarray(np.repeat(self._meets.any(axis=0), self.channels))[:, None] > 0

    def _columns(self, i: int) -> slice:
        return slice(i * self.channels, (i + 1) * self.channels)

    @cached_property
    def padded(self) -> Array:
        """The rows z_s of all runs, one run after the other, less the base, in the precision of products."""
        lengths = self.lengths + self.span
        shifts = self.runs[:, 0] - self.lags.max() - self.starts
        numbers = np.repeat(shifts, lengths) + np.arange(lengths.sum())
        begin, end = (np.repeat(self.runs[:, k], lengths) for k in (2, 3))
        rows = self.device.asarray(self._taken(self.array, np.clip(numbers, begin, end - 1)), self.dtype)
        outside = (numbers < begin) | (numbers >= end)
        if outside.any():
            rows[self._numbers(np.flatnonzero(outside)), :] = 0.0
        if self.row is not None:
            rows -= self.base
        return rows

    def _numbers(self, numbers: HostArray) -> Array:
        return self.device.xp.asarray(numbers, device=self.device.native)

    def _taken(self, rows: Array, numbers: HostArray) -> Array:
        if isinstance(rows, np.ndarray):
            return rows[numbers, :]
        return self.device.xp.take(rows, self._numbers(numbers), axis=0)

    def _at(self, rows: Array, place: int) -> Array:
        """The rows at a place of the windows: a view of those of one run."""
        if len(self.runs) == 1:
            return rows[place : place + self.rows, :]
        return self._taken(rows, self._first + place)

    @cached_property
    def _first(self) -> HostArray:
        """Where the window of each row begins."""
        return np.repeat(self.starts - np.cumsum(self.lengths) + self.lengths, self.lengths) + np.arange(self.rows)

    def _stretches(self) -> Iterator[tuple[slice, LaggedBlock]]:
        """Parts that stay in a cache, and whose float32 sums are short."""
        for a, b in pairwise([*range(0, self.rows, LONGEST_STRETCH), self.rows]):
            yield slice(a, b), self.cut(a, b)

    def _adjoint(self, rows: Array, U: Array) -> Array:
        products = [self._at(rows, place).T @ U for place in self.places.tolist()]
        return self.device.xp.concat(products, axis=0)

    def origin(self, w: Array | None) -> Array:
        shares = first_shares(w, self.rows)
        head = LaggedBlock(self.array, np.zeros(1, int), self.runs, self.dtype, self.device)
        some = head.cut(0, len(shares)).padded
        row = some[0, :] + self.device.asarray(shares, self.dtype) @ (some - some[0, :])
        met = self.device.asarray(np.repeat(self._meets.any(axis=0), self.channels), self.dtype)
        return self.device.xp.concat([row] * len(self.lags)) * met

    def about(self, row: Array | None) -> LaggedBlock:
        return LaggedBlock(self.array, self.lags, self.runs, self.dtype, self.device, row)

    def times(self, V: Array) -> Array:
        product = self.device.zeros((self.rows, V.shape[1]), self.dtype)
        for i, place in enumerate(self.places.tolist()):
            product += self._at(self.padded, place) @ V[self._columns(i), :]
        return product if self.rest is None else product - self.device.asarray(self.rest, self.dtype).T @ V

    def t_times(self, U: Array, out: Array) -> None:
        if self.rows > LONGEST_STRETCH:
            for rows, part in self._stretches():
                part.t_times(U[rows, :], out)
            return
        product, counts = self._adjoint(self.padded, U), self.device.column_sums(U)
        out += self._less(self.device.blocks.asarray(product), self.device.blocks.asarray(counts))

    def _less(self, product: Array, counts: Array) -> Array:
        """Products with these rows less what is left to subtract, from those about the base."""
        if self.rest is None:
            return product
        row = self.device.blocks.asarray(self.row)[:, None]
        return self.device.blocks.xp.where(self._met, product - self.rest * counts, -row * counts)

    def sums(self, w: Array | None, *, squares: bool, exact: bool) -> tuple[Array, Array | None]:
        device = self.device.blocks
        if self.rows > LONGEST_STRETCH:
            parts = [
                part.sums(None if w is None else w[rows], squares=squares, exact=exact)
                for rows, part in self._stretches()
            ]
            return sum(part[0] for part in parts), sum(part[1] for part in parts) if squares else None
        counts = device.ones((self.rows, 1)) if w is None else w[:, None]
        rows, count = device.asarray(self.padded), device.xp.sum(counts)
        total = self._adjoint(rows, counts)
        less = self._less(total, count)
        if not squares:
            return less[:, 0], None
        about = self._adjoint(rows * rows, counts)
        if self.rest is not None:
            row = device.asarray(self.row)[:, None]
            about = device.xp.where(self._met, about - self.rest * (total + less), count * row**2)
        return less[:, 0], self._positive(about[:, 0])

    def gram(self, w: Array | None, other: Block) -> Array:
        device = self.device.blocks
        G = device.zeros((self.columns, other.columns))
        left: LaggedBlock = self
        right: Any = other if other.subtracts else other.about(None)
        if isinstance(right, DenseBlock):
            U = right.dense()
            self._wide().t_times(U if w is None else U * w[:, None], G)
            return G
        if w is None and isinstance(right, LaggedBlock) and np.array_equal(self.lengths, right.lengths):
            long = self._meets.all(axis=1) & (self.lengths > max(self.span, right.span) + SHORTEST)
            if long.any():
                X = self._of(self.runs[long])
                G += X._by_differences(X if other is self else right._of(right.runs[long]))
            left = self._of(self.runs[~long])
            right = left if other is self else right._of(right.runs[~long])
        for a, b in pairwise(left.edges(0)):
            part = DenseBlock(left.cut(a, b).dense(), np.dtype(np.float64), device)
            G += part.gram(None if w is None else w[a:b], part if right is left else right.cut(a, b))
        if other is self:
            diagonal = device.xp.linalg.diagonal(G)
            positive = self._positive(diagonal)
            G = G if positive is diagonal else G + device.eye(self.columns) * (positive - diagonal)[:, None]
        return G

    def _wide(self) -> LaggedBlock:
        return LaggedBlock(
            self.array, self.lags, self.runs, np.dtype(np.float64), self.device.blocks, self.row
        )

    def _by_differences(self, other: LaggedBlock) -> Array:
        """The Gram matrix of runs that are longer than the lags, by (2)."""
        same, device = other is self, self.device.blocks
        X, Y = device.asarray(self.padded), device.asarray(other.padded)
        heads = [block._ends(Z, 0 * block.lengths) for block, Z in ((self, X), (other, Y))]
        tails = [block._ends(Z, block.lengths) for block, Z in ((self, X), (other, Y))]
        count = len(self.runs)

        def of_ends(ends: list[Array], d: int, a: int, b: int) -> Array:
            return ends[0][a * count : b * count, :].T @ ends[1][(a + d) * count : (b + d) * count, :]

        G = device.zeros((len(self.lags), self.channels, len(other.lags), other.channels))
        gaps = other.places[None, :] - self.places[:, None]
        for d in np.unique(gaps[gaps >= 0] if same else gaps).tolist():
            i, j = np.nonzero(gaps == d)
            order = np.argsort(self.places[i])
            pairs = list(zip(i[order].tolist(), j[order].tolist(), strict=True))
            a = self.places[i[order]].tolist()
            total = device.zeros((self.channels, other.channels))
            for s, t, m in zip(self.starts.tolist(), other.starts.tolist(), self.lengths.tolist(), strict=True):
                total += X[s + a[-1] : s + m + a[0], :].T @ Y[t + d + a[-1] : t + d + m + a[0], :]  # (2)
            G[pairs[-1][0], :, pairs[-1][1], :] = total
            for (u, v), (first, last) in zip(pairs[-2::-1], list(pairwise(a))[::-1], strict=True):
                total = total + of_ends(heads, d, first, last)
                G[u, :, v, :] = total
            total = 0.0
            for (u, v), (first, last) in zip(pairs[1:], pairwise(a), strict=True):
                total = total + of_ends(tails, d, first, last)
                G[u, :, v, :] += total
            for u, v in pairs if same and d > 0 else ():
                G[v, :, u, :] = G[u, :, v, :].T
        return self._about(other, device.xp.reshape(G, (self.columns, other.columns)))

    def _ends(self, rows: Array, after: HostArray) -> Array:
        """As many rows as the lags span, from the first of each run or from after its last, by their distance."""
        return self._taken(rows, (np.arange(self.span)[:, None] + self.starts + after).ravel())

    def _about(self, other: LaggedBlock, G: Array) -> Array:
        """A Gram matrix about the rows, from that about the bases."""
        if self.rest is None and other.rest is None:
            return G
        x, y = self._halfway(), other._halfway()
        G -= x[0] * y[1].T + x[1] * y[0].T
        return G

    def _halfway(self) -> tuple[Array, Array]:
        """What is left to subtract, and the sums of columns after half of it is subtracted."""
        total = self._wide().sums(None, squares=False, exact=False)[0][:, None]
        rest = 0 * total if self.rest is None else self.rest
        return rest, total + self.rows / 2 * rest

    def _positive(self, squares: Array) -> Array:
        """Squares of columns, with a positive number where they underflow."""
        xp = self.device.blocks.xp
        if to_host(xp.all(squares != 0)):
            return squares
        met = xp.concat([xp.any(self.device.blocks.asarray(self.padded) != 0, axis=0)] * len(self.lags))
        return xp.where(squares == 0, xp.astype(met & self._met[:, 0], squares.dtype) * TINY, squares)

    def cut(self, start: int, stop: int) -> LaggedBlock:
        return self._of(cut_runs(self.runs, start, stop))

    def take(self, rows: HostArray) -> LaggedBlock:
        return self._of(chosen_runs(self.runs, rows))

    def edges(self, sum_bytes: int) -> list[int]:
        height = rows_per_block(self.channels * self.dtype.itemsize, sum_bytes)
        height = min(height, max(LARGEST_BLOCK_BYTES // (8 * self.columns), 1))
        if sum_bytes >= 8 * self.columns**2:  # sums as large as a Gram matrix
            height = max(LARGEST_BLOCK_BYTES // (8 * self.channels), 1)
        return [*range(0, self.rows, height), self.rows]

    def dense(self) -> Array:
        asarray = self.device.blocks.asarray
        rows = self.device.blocks.concat([asarray(self._at(self.padded, a)) for a in self.places.tolist()])
        return rows if self.rest is None else rows - self.rest.T


class Lagged(Rows):
    """The rows of `linspec.operators.lagged_rows.LaggedOperator`.

    Parameters
    ----------
    A : LaggedOperator
    name : str
        The name in messages.
    """

    def __init__(self, A: Any, name: str) -> None:
        self.A, self.name, self.shape, self.device = A, name, A.shape, A.device
        self.dtype, self.resident = A.dtype, A.resident

    def widen(self) -> bool:
        self.device = self.device.blocks
        return super().widen()

    def gram_seconds(self) -> float:
        n, p = self.A.operator.shape
        lags = self.A.lags
        differences = len(np.unique(lags[:, None] - lags[None, :]))
        return float(n * p**2 * differences / MULTIPLY_RATE)

    def blocks(self) -> Iterator[Block]:
        p = self.A.operator.shape[1]
        height = max(int(self.shape[0]) if self.resident else LARGEST_BLOCK_BYTES // (8 * p), 1)
        for start in range(0, int(self.shape[0]), height):
            yield self._block(cut_runs(self.A.runs, start, start + height))
            self.A.release()

    def take(self, rows: HostArray) -> Block:
        return self._block(chosen_runs(self.A.runs, rows))

    def _block(self, runs: HostArray) -> LaggedBlock:
        array, runs = self.A.needed(runs)
        return LaggedBlock(array, self.A.lags, runs, self.dtype, self.device)
