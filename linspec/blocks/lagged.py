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
    places : list of int, of length L
        Where in a window the row at each lag is.
    row : array of shape (p L,), optional
        What is subtracted from each row.
    far : bool, default False
    """

    def __init__(
        self,
        block: DenseBlock,
        first: HostArray,
        places: list[int],
        row: Array | None = None,
        *,
        far: bool = False,
    ) -> None:
        self.block, self.first, self.places, self.row, self.far = block, first, places, row, far
        self.device, self.rows, self.columns = block.device, len(first), len(places) * block.columns
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

    def at_lags(self) -> Iterator[tuple[DenseBlock, slice]]:
        """The rows at each lag, about the row, and their columns; the rows of one run are a view."""
        single = len(self.lengths) == 1
        for i, place in enumerate(self.places):
            columns = slice(i * self.block.columns, (i + 1) * self.block.columns)
            rows = self.first + place
            part = self.block.cut(rows[0], rows[-1] + 1) if single else self.block.take(rows)
            yield part.about(None if self.row is None else self.row[columns]), columns

    def origin(self, w: Array | None) -> Array:
        parts = [part.origin(w) for part, _ in self.cut(0, ORIGIN_ROWS).at_lags()]
        return self.device.xp.concat(parts)

    def about(self, row: Array | None) -> LaggedBlock:
        return LaggedBlock(self.block, self.first, self.places, row, far=self.far)

    def times(self, V: Array) -> Array:
        return sum(part.times(V[columns, :]) for part, columns in self.at_lags())

    def t_times(self, U: Array, out: Array) -> None:
        block = self if self.far else self.about(None)
        for a, b in pairwise([*range(0, self.rows, LONGEST_STRETCH), self.rows]):
            for part, columns in block.cut(a, b).at_lags():
                part.t_times(U[a:b, :], out[columns, :])

    def sums(self, w: Array | None, *, squares: bool, exact: bool) -> tuple[Array, Array | None]:
        parts = [part.sums(w, squares=squares, exact=exact) for part, _ in self.at_lags()]
        total, about = zip(*parts, strict=True)
        concat = self.device.blocks.xp.concat
        return concat(total), concat(about) if squares else None

    def gram(self, w: Array | None, other: Block) -> Array:
        left = self if self.far else self.about(None)
        right: Any = other if other.subtracts else other.about(None)
        device, lengths, same = self.device.blocks, self.lengths, other is self
        if not isinstance(right, LaggedBlock):
            return device.xp.concat([part.gram(w, right) for part, _ in left.at_lags()])
        G = device.zeros((self.columns, other.columns))
        if w is None and not (left.far or right.far) and np.array_equal(lengths, right.lengths):
            long = np.repeat(lengths > max(*self.places, *right.places) + SHORTEST, lengths)
            G = by_differences(left.take(long), right.take(long), same=same)
            left, right = left.take(~long), right.take(~long)
        for a, b in pairwise(left.edges(0)):
            part = DenseBlock(left.cut(a, b).dense(), np.dtype(np.float64), device)
            G += part.gram(None if w is None else w[a:b], part if same else right.cut(a, b))
        return G

    def cut(self, start: int, stop: int) -> LaggedBlock:
        return self.take(slice(start, stop))

    def take(self, rows: Any) -> LaggedBlock:
        return LaggedBlock(self.block, self.first[rows], self.places, self.row, far=self.far)

    def edges(self, sum_bytes: int) -> list[int]:
        whole = sum_bytes >= 8 * self.columns**2  # of a Gram matrix
        return [0, self.rows] if whole else super().edges(sum_bytes)

    def dense(self) -> Array:
        return self.device.blocks.concat([part.dense() for part, _ in self.at_lags()])


def by_differences(X: LaggedBlock, Y: LaggedBlock, *, same: bool) -> Array:
    """Compute the Gram matrix of runs that are longer than the lags, about 0, by (2).

    Parameters
    ----------
    X, Y : LaggedBlock
        With the same runs.
    same : bool
        Whether they are the same.
    """
    device, lengths = X.device.blocks, X.lengths
    begins = np.cumsum(lengths) - lengths
    G = device.zeros((len(X.places), X.block.columns, len(Y.places), Y.block.columns))

    def running(total: Any, s: HostArray, t: HostArray, steps: list[tuple[int, int]]) -> list[Array]:
        """Σ z_s z_tᵀ of a total and, step by step, of some more rows of all runs."""
        rows = (np.arange(*step)[:, None] for step in steps)
        taken = ((X.block.take((s + more).ravel()), Y.block.take((t + more).ravel())) for more in rows)
        return [*accumulate((left.gram(None, right) for left, right in taken), initial=total)]

    gaps = np.array(Y.places) - np.array(X.places)[:, None]
    for d in np.unique(gaps[gaps >= 0] if same else gaps):
        a, of_x, of_y = zip(*sorted((X.places[i], i, j) for i, j in np.argwhere(gaps == d)), strict=True)
        s, t, steps = X.first[begins], Y.first[begins] + d, [*pairwise(a)]
        runs = zip(s + a[-1], t + a[-1], lengths - (a[-1] - a[0]), strict=True)
        core = sum(
            X.block.cut(i, i + m).gram(None, Y.block.cut(j, j + m)) for i, j, m in runs
        )  # (2), the first sum
        heads = running(core, s, t, steps[::-1])[::-1]  # (2), the second
        tails = running(0, s + lengths, t + lengths, steps)  # (2), the third
        for i, j, head, tail in zip(of_x, of_y, heads, tails, strict=True):
            G[i, :, j, :] = head + tail
            if same:
                G[j, :, i, :] = G[i, :, j, :].T
    return device.xp.reshape(G, (X.columns, Y.columns))


class Lagged(Rows):
    """The rows of a `linspec.operators.lagged_rows.LaggedOperator`.

    Parameters
    ----------
    A : LaggedOperator
    name : str
        The name in messages.
    """

    def __init__(self, A: Any, name: str) -> None:
        self.A, self.name, self.shape, self.device, self.resident = A, name, A.shape, A.device, A.resident

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
        first, within, xp = A.first[rows], np.zeros(len(A.numbers), bool), A.device.xp
        for place in range(max(A.places) + 1):
            within[first + place] = True
        numbers = A.numbers[within]
        read = A.operator.rows(numbers).dense()
        there = xp.asarray(numbers[:, None] >= 0, device=A.device.native)
        array = self.device.asarray(xp.where(there, read, xp.zeros_like(read)), self.dtype)
        first = np.searchsorted(np.flatnonzero(within), first)
        return LaggedBlock(DenseBlock(array, self.dtype, self.device), first, A.places, far=self.far)
