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
from itertools import accumulate, pairwise
from typing import Any

import numpy as np

from linspec.arrays import Array, Device, HostArray, host_dtype
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

__all__ = ["Lagged", "LaggedBlock"]

SHORTEST = 64
"""Rows that a run must have beyond its lags, so that (2) pays."""

WIDE = np.dtype(np.float64)


class LaggedBlock(Block):
    """Some windows of the rows of an array.

    Parameters
    ----------
    array : array of shape (m, p)
        The rows z of the windows, in the precision of products.
    first : numpy.ndarray of int, of shape (n,)
        Where the window of each row begins; rows whose windows begin next to each other are a run.
    places : list of int, of length L
        Where in a window the row at each lag is.
    row : array of shape (pL,), or 0
        What is subtracted from each row.
    """

    def __init__(self, array: Array, first: HostArray, places: list[int], row: Any = 0.0) -> None:
        self.array, self.first, self.places, self.row = array, first, places, row
        self.device = Device.of(array)
        self.channels, self.span = array.shape[1], max(places)
        self.rows, self.columns = len(first), array.shape[1] * len(places)
        self.entries = self.rows * self.columns

    @property
    def subtracts(self) -> bool:  # type: ignore[override]
        """Whether means are far above deviations."""
        return self.far

    def runs(self) -> tuple[HostArray, HostArray]:
        """Return the number of the first row of each run, and the lengths."""
        begins = np.flatnonzero(np.diff(self.first, prepend=-2) != 1)
        return begins, np.diff(begins, append=self.rows)

    def rows_at(self, numbers: HostArray) -> Array:
        """Take rows of the array by their numbers."""
        numbers = self.device.xp.asarray(numbers, device=self.device.native)
        return self.device.xp.take(self.array, numbers, axis=0)

    def _by_lag(self, V: Array) -> Iterator[tuple[Array, Array]]:
        """The rows at each lag, and the rows of a thin block that belong to it."""
        together = len(self.runs()[0]) == 1
        start = 0
        for place in self.places:
            numbers = self.first + place
            rows = self.array[numbers[0] : numbers[-1] + 1, :] if together else self.rows_at(numbers)
            yield rows, V[start : start + self.channels, :]
            start += self.channels

    def origin(self, w: Array | None) -> Array:
        shares = self.device.blocks.asarray(first_shares(w, self.rows))
        return shares @ self.cut(0, shares.shape[0]).dense()

    def about(self, row: Array | None) -> Block:
        if row is None:
            return LaggedBlock(self.array, self.first, self.places)
        if not self.far:
            return LaggedBlock(self.array, self.first, self.places, row)
        dtype = host_dtype(self.array)
        return DenseBlock(self.device.asarray(self.dense(), dtype), dtype, self.device).about(row)

    def _wide(self) -> LaggedBlock:
        """The same rows in float64, about 0."""
        return LaggedBlock(self.device.blocks.asarray(self.array), self.first, self.places)

    def times(self, V: Array) -> Array:
        product = self.device.zeros((self.rows, V.shape[1]), host_dtype(V))
        for rows, part in self._by_lag(V):
            product += rows @ part
        return product if isinstance(self.row, float) else product - self.row[None, :] @ V

    def t_times(self, U: Array, out: Array) -> None:
        for a, b in pairwise([*range(0, self.rows, LONGEST_STRETCH), self.rows]):
            for rows, part in self.cut(a, b)._by_lag(out):
                part += self.device.blocks.asarray(rows.T @ U[a:b, :])

    def sums(self, w: Array | None, *, squares: bool, exact: bool) -> tuple[Array, Array | None]:
        device, wide = self.device.blocks, self._wide()
        ones = DenseBlock(device.ones((self.rows, 1)), WIDE, device)
        total = wide.gram(w, ones)[:, 0]
        row = device.asarray(self.row + 0 * total)
        less = total - row * (self.rows if w is None else device.xp.sum(w))
        if not squares:
            return less, None
        about = LaggedBlock(wide.array**2, self.first, self.places).gram(w, ones)[:, 0]
        about = about - row * (total + less)
        return less, device.xp.maximum(about, TINY * device.xp.astype(total != 0, about.dtype))

    def gram(self, w: Array | None, other: Block) -> Array:
        left = self._wide()
        right: Any = other if other.subtracts else other.about(None)
        G = left.device.zeros((self.columns, other.columns))
        if isinstance(right, DenseBlock):
            U = right.dense()
            left.t_times(U if w is None else U * w[:, None], G)
            return G
        begins, lengths = self.runs()
        if w is None and isinstance(right, LaggedBlock) and np.array_equal(begins, right.runs()[0]):
            long = np.repeat(lengths > max(self.span, right.span) + SHORTEST, lengths)
            some = left.take(long)
            G = by_differences(some, some if other is self else right._wide().take(long))
            left, right = left.take(~long), right.take(~long)
        for a, b in pairwise(left.edges(0)):
            part = DenseBlock(left.cut(a, b).dense(), WIDE, left.device)
            G += part.gram(None if w is None else w[a:b], part if other is self else right.cut(a, b))
        return G

    def cut(self, start: int, stop: int) -> LaggedBlock:
        return self.take(slice(start, stop))

    def take(self, rows: Any) -> LaggedBlock:
        first = self.first[rows]
        low = first.min(initial=self.array.shape[0])
        stop = first.max(initial=-1) + self.span + 1
        block = LaggedBlock(self.array[low:stop, :], first - low, self.places, self.row)
        block.far = self.far
        return block

    def edges(self, sum_bytes: int) -> list[int]:
        height = LARGEST_BLOCK_BYTES // (8 * self.channels)
        if self.far or sum_bytes < 8 * self.columns**2:  # not sums as large as a Gram matrix
            height = rows_per_block(8 * self.channels, sum_bytes)
            height = min(height, LARGEST_BLOCK_BYTES // (8 * self.columns))
        return [*range(0, self.rows, max(height, 1)), self.rows]

    def dense(self) -> Array:
        rows = self.device.concat([rows for rows, _ in self._by_lag(self.array)])
        return self.device.blocks.asarray(rows) - self.row


def by_differences(X: LaggedBlock, Y: LaggedBlock) -> Array:
    """Compute the Gram matrix of runs that are longer than the lags, about 0, by (2).

    Parameters
    ----------
    X, Y : LaggedBlock
        In float64, with the same runs.
    """
    begins, m = X.runs()
    s, t = X.first[begins], Y.first[begins]
    G = X.device.zeros((len(X.places), X.channels, len(Y.places), Y.channels))

    def of_ends(s: HostArray, t: HostArray, a: int, b: int) -> Array:
        """Σ z_s z_tᵀ over rows a to b - 1 from places of all runs on."""
        steps = np.arange(a, b)[:, None]
        return X.rows_at((s + steps).ravel()).T @ Y.rows_at((t + steps).ravel())

    gaps = np.array(Y.places) - np.array(X.places)[:, None]
    for d in np.unique(gaps[gaps >= 0] if X is Y else gaps).tolist():
        pairs = sorted((X.places[i], i, j) for i, j in np.argwhere(gaps == d).tolist())
        steps = list(pairwise(place for place, _, _ in pairs))
        low, high = pairs[0][0], pairs[-1][0]
        core = X.device.zeros((X.channels, Y.channels))
        for i, j, length in zip(s, t + d, m, strict=True):
            rows = X.array[i + high : i + low + length, :]
            core += rows.T @ Y.array[j + high : j + low + length, :]  # (2), the first sum
        heads = accumulate([core, *(of_ends(s, t + d, *step) for step in steps[::-1])])  # (2), the second
        tails = accumulate(
            [0 * core, *(of_ends(s + m, t + d + m, *step) for step in steps)]
        )  # (2), the third
        for (_, i, j), head, tail in zip(pairs, [*heads][::-1], tails, strict=True):
            G[i, :, j, :] = head + tail
            if X is Y:
                G[j, :, i, :] = (head + tail).T
    return X.device.xp.reshape(G, (X.columns, Y.columns))


class Lagged(Rows):
    """The rows of a `linspec.operators.lagged_rows.LaggedOperator`.

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
        lags = self.A.lags
        return super().gram_seconds() * len(np.unique(lags[:, None] - lags)) / len(lags) ** 2

    def blocks(self) -> Iterator[Block]:
        height = LARGEST_BLOCK_BYTES * len(self.A.lags) // (8 * self.shape[1] + 8) + 1
        for start in range(0, int(self.shape[0]), height):
            yield self.take(slice(start, start + height))
            self.A.release()

    def take(self, rows: Any) -> Block:
        array, first = self.A.windows(self.A.numbers[rows])
        places = (self.A.lags.max() - self.A.lags).tolist()
        block = LaggedBlock(self.device.asarray(array, self.dtype), first, places)
        block.far = self.far
        return block
