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
    Block,
    Rows,
    first_shares,
)
from linspec.blocks.dense import TINY, DenseBlock

__all__ = ["Lagged", "LaggedBlock"]

SHORTEST = 64
"""Rows that a run must have beyond its lags, so that (2) pays."""


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
    """

    row: Any = 0.0
    """What is subtracted from each row."""

    def __init__(self, array: Array, first: HostArray, places: list[int]) -> None:
        self.array, self.first, self.places = array, first, places
        self.device = Device.of(array)
        self.rows, self.channels = len(first), array.shape[1]
        self.columns = len(places) * array.shape[1]
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

    def _taken(self, numbers: HostArray) -> Array:
        numbers = self.device.xp.asarray(numbers, device=self.device.native)
        return self.device.xp.take(self.array, numbers, axis=0)

    def _at_lags(self) -> Iterator[Array]:
        """The rows at each lag; those of one run are a view."""
        together = len(self.lengths) == 1
        for place in self.places:
            numbers = self.first + place
            if together:
                yield self.array[numbers[0] : numbers[-1] + 1, :]
            else:
                yield self._taken(numbers)

    def origin(self, w: Array | None) -> Array:
        shares = self.device.blocks.asarray(first_shares(w, self.rows))
        return shares @ self.cut(0, shares.shape[0]).dense()

    def about(self, row: Array | None) -> Block:
        if self.far and row is not None:
            return DenseBlock(self.dense(), host_dtype(self.array), self.device).about(row)
        block = LaggedBlock(self.array, self.first, self.places)
        block.row = 0.0 if row is None else row
        return block

    def _wide(self) -> LaggedBlock:
        """The same rows in float64, about 0."""
        return LaggedBlock(self.device.blocks.asarray(self.array), self.first, self.places)

    def times(self, V: Array) -> Array:
        product: Any = -(self.row + self.device.zeros((self.columns,), host_dtype(V))) @ V
        for i, rows in enumerate(self._at_lags()):
            product = product + rows @ V[i * self.channels : (i + 1) * self.channels, :]
        return product

    def t_times(self, U: Array, out: Array) -> None:
        for a, b in pairwise([*range(0, self.rows, LONGEST_STRETCH), self.rows]):
            products = [rows.T @ U[a:b, :] for rows in self.cut(a, b)._at_lags()]
            out += self.device.blocks.asarray(self.device.xp.concat(products))

    def sums(self, w: Array | None, *, squares: bool, exact: bool) -> tuple[Any, Any]:
        device, wide = self.device.blocks, self._wide()
        ones = DenseBlock(device.ones((self.rows, 1)), np.dtype(np.float64), device)
        total = wide.gram(w, ones)[:, 0]
        row = device.asarray(self.row + 0 * total)
        less = total - row * ones.gram(w, ones)[0, 0]
        if not squares:
            return less, None
        wide.array = wide.array**2
        about = wide.gram(w, ones)[:, 0] - row * (total + less)
        return less, device.xp.maximum(about, TINY * device.asarray(total != 0))

    def gram(self, w: Array | None, other: Block) -> Array:
        left, same = self._wide(), other is self
        right: Any = other if other.subtracts else other.about(None)
        G = left.device.zeros((self.columns, other.columns))
        if isinstance(right, DenseBlock):
            U = right.dense()
            left.t_times(U if w is None else U * w[:, None], G)
            return G
        lengths = self.lengths
        if w is None and isinstance(right, LaggedBlock) and np.array_equal(lengths, right.lengths):
            long = np.repeat(lengths > max(*self.places, *right.places) + SHORTEST, lengths)
            G = by_differences(left.take(long), right._wide().take(long), same=same)
            left, right = left.take(~long), right.take(~long)
        for a, b in pairwise(left.edges(0) if right.divisible else [0, self.rows]):
            part = DenseBlock(left.cut(a, b).dense(), np.dtype(np.float64), left.device)
            G += part.gram(None if w is None else w[a:b], part if same else right.cut(a, b))
        return G

    def cut(self, start: int, stop: int) -> LaggedBlock:
        return self.take(slice(start, stop))

    def take(self, rows: Any) -> LaggedBlock:
        first = self.first[rows]
        low = first.min(initial=self.array.shape[0])
        stop = first.max(initial=-1) + max(self.places) + 1
        block = LaggedBlock(self.array[low:stop, :], first - low, self.places)
        block.row, block.far = self.row, self.far
        return block

    def edges(self, sum_bytes: int) -> list[int]:
        if self.far or sum_bytes < 8 * self.columns**2:  # sums are smaller than a Gram matrix
            return super().edges(sum_bytes)
        return [*range(0, self.rows, LARGEST_BLOCK_BYTES // (8 * self.channels) + 1), self.rows]

    def dense(self) -> Array:
        return self.device.blocks.asarray(self.device.concat([*self._at_lags()])) - self.row


def by_differences(X: LaggedBlock, Y: LaggedBlock, *, same: bool) -> Array:
    """Compute the Gram matrix of runs that are longer than the lags, about 0, by (2).

    Parameters
    ----------
    X, Y : LaggedBlock
        In float64, with the same runs.
    same : bool
        Whether they are the same.
    """
    lengths = X.lengths
    begins = np.cumsum(lengths) - lengths
    G = X.device.zeros((len(X.places), X.channels, len(Y.places), Y.channels))

    def product(s: HostArray, t: HostArray, step: Any) -> Array:
        """Σ z_s z_tᵀ over some rows from places of all runs on."""
        rows = np.arange(*step)[:, None]
        return X._taken((s + rows).ravel()).T @ Y._taken((t + rows).ravel())

    gaps = np.array(Y.places) - np.array(X.places)[:, None]
    for d in np.unique(gaps[gaps >= 0] if same else gaps):
        pairs = sorted((X.places[i], i, j) for i, j in np.argwhere(gaps == d))
        low, high = pairs[0][0], pairs[-1][0]
        steps = [*pairwise(a for a, _, _ in pairs)]
        s, t = X.first[begins], Y.first[begins] + d
        core = X.device.zeros((X.channels, Y.channels))
        for i, j, length in zip(s + high, t + high, lengths + low - high, strict=True):
            core += X.array[i : i + length, :].T @ Y.array[j : j + length, :]  # (2), the first sum
        heads = [*accumulate([core, *(product(s, t, step) for step in steps[::-1])])]  # (2), the second
        s, t = s + lengths, t + lengths
        tails = accumulate([0 * core, *(product(s, t, step) for step in steps)])  # (2), the third
        for (_, i, j), head, tail in zip(pairs, heads[::-1], tails, strict=True):
            G[i, :, j, :] = head + tail
            if same:
                G[j, :, i, :] = G[i, :, j, :].T
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
        return super().gram_seconds() * float(self.A.gram_share)

    def blocks(self) -> Iterator[Block]:
        whole = LaggedBlock(self.A.numbers[:, None], self.A.first, self.A.places)
        height = LARGEST_BLOCK_BYTES * whole.rows // (8 * self.A.operator.shape[1] * len(self.A.numbers) + 1)
        for start in range(0, whole.rows, height + 1):
            part = whole.cut(start, start + height + 1)
            yield self._block(part.array[:, 0], part.first)
            self.A.release()

    def take(self, rows: HostArray) -> Block:
        windows = self.A.first[rows, None] + np.arange(max(self.A.places) + 1)
        return self._block(self.A.numbers[windows.ravel()], np.arange(len(rows)) * windows.shape[1])

    def _block(self, numbers: HostArray, first: HostArray) -> LaggedBlock:
        array = self.device.asarray(self.A.rows_or_zeros(numbers), self.dtype)
        block = LaggedBlock(array, first, self.A.places)
        block.far = self.far
        return block
