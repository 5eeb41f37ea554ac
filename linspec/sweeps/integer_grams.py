"""Gram matrices of integers, computed exactly in float32.

Problem: Gram matrices are formed in float64. float32 products take half the time, but round.
Method: products and sums of integers are integers, and float32 holds those up to 2²⁴ exactly. If no entry is larger
than m in magnitude, the product of 2²⁴/m² rows is exact, in whatever order a BLAS adds; these products are added in
float64, which holds integers up to 2⁵³. An integer near the middle of the entries is subtracted first, which halves m:
for bytes, 1024 rows are multiplied at once. From the Gram matrix S of n rows and their column sums s, that about the
column means is (n S − s sᵀ)/n. The difference is of integers, and exact; so constant columns vanish exactly.

The largest entry of each block is searched for: integers of any width may be small, as counts and genotypes are.
Blocks of fewer than `FEWEST_ROWS` rows do not pay, and are left to float64.

Devices may multiply float32 with fewer bits (TF32 or bfloat16), and do not say so. bfloat16, the shortest of these,
holds integers up to 256 exactly, and the products are added in float32. So larger entries are left to float64 there,
and all entries on devices with full float64, where there is little to gain.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from linspec.arrays import Array, Home, HostArray, cast, to_host_together
from linspec.operators.row_blocks import RowBuffer
from linspec.sweeps.held_grams import Upper

FEWEST_ROWS = 128
"""Smallest number of rows whose float32 product is worth its addition in float64."""

SINGLE_EXACT, DOUBLE_EXACT = 2**24, 2**53
"""Integers up to these are exact in float32 and in float64."""

DEVICE_EXACT = 2**8
"""Integers up to these are exact in every format in which a device may multiply float32."""

STRIP = 256
"""Number of rows of a matrix that are centred at a time, in the cache."""


@dataclass
class IntegerGrams:
    """Exact Gram and cross matrices of n rows of some views of integers, minus an integer for each view.

    Attributes
    ----------
    count : int
        The number n of rows.
    upper : list of list
        The matrices with i ≤ j.
    sums : list of array of shape (p,)
        The column sums of each view.
    shifts : list of float
        The integer that was subtracted from all entries of each view.
    """

    count: int
    upper: Upper
    sums: list[Array]
    shifts: list[float]

    def means_about(self, rows: Sequence[Array | None]) -> list[Array]:
        """The column means of each view, minus a row."""
        given = zip(self.sums, self.shifts, rows, strict=True)
        return [(shift if row is None else shift - row) + s / self.count for s, shift, row in given]

    def about_zero(self) -> Upper:
        """The matrices of the entries as given."""
        for i, row in enumerate(self.upper):
            for j, S in enumerate(row, i):
                a, b, n = self.shifts[i], self.shifts[j], self.count
                for rows in _strips(S):
                    S[rows, :] += b * self.sums[i][rows, None] + (a * self.sums[j] + n * a * b)[None, :]
        return self.upper

    def about_means(self) -> Upper:
        """The matrices about the column means; the differences are exact, and rounded once when divided by n."""
        for i, row in enumerate(self.upper):
            for j, S in enumerate(row, i):
                for rows in _strips(S):
                    S[rows, :] *= self.count
                    S[rows, :] -= self.sums[i][rows, None] * self.sums[j][None, :]
                    S[rows, :] /= self.count
        return self.upper


def integer_grams(blocks: Sequence[Array], buffers: Sequence[RowBuffer]) -> IntegerGrams | None:
    """Compute the Gram matrices of the same rows of some views; None unless float32 computes them exactly and sooner.

    Parameters
    ----------
    blocks : sequence of array of shape (n, p)
        The rows of each view, as stored.
    buffers : sequence of RowBuffer
        Memory for each view.
    """
    home = Home.of(blocks[0])
    if not (home.on_host or home.scarce_float64) or not all(_are_integers(X) for X in blocks):
        return None
    n, ends = blocks[0].shape[0], [_ends(X, home) for X in blocks]
    shifts = [(low + high) // 2 for low, high in ends]
    largest = max(1, *(high - shift for (_, high), shift in zip(ends, shifts, strict=True)))
    height = SINGLE_EXACT // largest**2
    entries = max(max(-low, high) for low, high in ends)
    if height < min(FEWEST_ROWS, n) or max((n * largest) ** 2, entries) > DOUBLE_EXACT:
        return None
    if not home.on_host and (largest > DEVICE_EXACT or entries > SINGLE_EXACT):
        return None
    single = [_shifted(X, c, buffer, home) for X, c, buffer in zip(blocks, shifts, buffers, strict=True)]
    upper: Upper = []
    sums = [home.blocks.zeros((X.shape[1],)) for X in blocks]
    for start in range(0, n, height):
        some = [Z[start : min(start + height, n), :] for Z in single]
        products = [[_summand(Z.T @ W, home) for W in some[i:]] for i, Z in enumerate(some)]
        if not upper:
            upper = [[home.blocks.place(P) for P in row] for row in products]
        else:
            for own, row in zip(upper, products, strict=True):
                for total, P in zip(own, row, strict=True):
                    total += P
        ones = home.ones((1, some[0].shape[0]), np.float32)
        for s, Z in zip(sums, some, strict=True):
            s += _summand(ones @ Z, home)[0, :]
    return IntegerGrams(n, upper, sums, [float(c) for c in shifts])


def _are_integers(X: Array) -> bool:
    """Whether there are entries, and all are integers or bools."""
    if isinstance(X, np.ndarray):
        return X.dtype.kind in "iub" and X.size > 0
    return 0 not in tuple(X.shape) and bool(Home.of(X).xp.isdtype(X.dtype, ("bool", "integral")))


def _ends(X: Array, home: Home) -> tuple[int, int]:
    """The least and the largest entry."""
    if isinstance(X, np.ndarray):
        return int(X.min()), int(X.max())
    xp = home.xp
    if xp.isdtype(X.dtype, "bool"):
        X = cast(X, np.uint8)
    low, high = to_host_together(xp.min(X), xp.max(X))
    return int(low), int(high)


def _summand(P: Array, home: Home) -> Array:
    """A product in float32 as a summand in float64; NumPy converts while it adds."""
    return P if home.on_host else home.blocks.place(P)


def _shifted(X: Array, shift: int, buffer: RowBuffer, home: Home) -> Array:
    """X minus an integer in float32; entries of up to 16 bits are exact in float32 before the subtraction, too."""
    single = np.dtype(np.float32)
    if not home.on_host:
        return home.place(X, single) - float(shift)
    dtype = single if X.dtype.itemsize <= 2 else np.float64
    row = np.full(1, shift, dtype) if shift else None
    return buffer.less(X, row, single, home)


def _strips(S: HostArray) -> list[slice]:
    return [slice(a, a + STRIP) for a in range(0, S.shape[0], STRIP)]
