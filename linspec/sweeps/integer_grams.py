"""Gram matrices of integers, computed exactly in float32.

Problem: Gram matrices are formed in float64. float32 products take half the time, but round.
Method: products and sums of integers are integers, and float32 holds those up to 2²⁴ exactly. If no entry is larger
than m in magnitude, the product of 2²⁴/m² rows is exact, in whatever order a BLAS adds; these products are added in
float64, which holds integers up to 2⁵³. An integer near the middle of the entries is subtracted first, which halves m:
for bytes, 1024 rows are multiplied at once. From the Gram matrix S of n rows and their column sums s, that about the
column means is (n S − s sᵀ)/n. The difference is of integers, and exact; so constant columns vanish exactly.

The largest entry of each block is searched for: integers of any width may be small, as counts and genotypes are.
Blocks of fewer than `FEWEST_ROWS` rows do not pay, and are left to float64, and so are arrays on devices, which
may multiply float32 with fewer bits (TF32 or bfloat16).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from linspec.arrays import HOST, Array, HostArray
from linspec.operators.row_blocks import RowBuffer
from linspec.sweeps.held_grams import Upper

FEWEST_ROWS = 128
"""Smallest number of rows whose float32 product is worth its addition in float64."""

SINGLE_EXACT, DOUBLE_EXACT = 2**24, 2**53
"""Integers up to these are exact in float32 and in float64."""

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
    if not all(_are_integers(X) for X in blocks):
        return None
    n, ends = blocks[0].shape[0], [(int(X.min()), int(X.max())) for X in blocks]
    shifts = [(low + high) // 2 for low, high in ends]
    largest = max(1, *(high - shift for (_, high), shift in zip(ends, shifts, strict=True)))
    height = SINGLE_EXACT // largest**2
    entries = max(max(-low, high) for low, high in ends)
    if height < min(FEWEST_ROWS, n) or max((n * largest) ** 2, entries) > DOUBLE_EXACT:
        return None
    single = [_shifted(X, c, buffer) for X, c, buffer in zip(blocks, shifts, buffers, strict=True)]
    upper: Upper = []
    sums = [np.zeros(X.shape[1]) for X in blocks]
    for start in range(0, n, height):
        some = [Z[start : min(start + height, n), :] for Z in single]
        products = [[Z.T @ W for W in some[i:]] for i, Z in enumerate(some)]
        if not upper:
            upper = [[P.astype(np.float64) for P in row] for row in products]
        else:
            for own, row in zip(upper, products, strict=True):
                for total, P in zip(own, row, strict=True):
                    total += P
        ones = np.ones(some[0].shape[0], np.float32)
        for s, Z in zip(sums, some, strict=True):
            s += ones @ Z
    return IntegerGrams(n, upper, sums, [float(c) for c in shifts])


def _are_integers(X: Array) -> bool:
    """Whether this is an array of the host with entries, and all are integers or bools."""
    return isinstance(X, np.ndarray) and X.dtype.kind in "iub" and X.size > 0


def _shifted(X: HostArray, shift: int, buffer: RowBuffer) -> HostArray:
    """X minus an integer in float32; entries of up to 16 bits are exact in float32 before the subtraction, too."""
    single = np.dtype(np.float32)
    dtype = single if X.dtype.itemsize <= 2 else np.float64
    row = np.full(1, shift, dtype) if shift else None
    rows: HostArray = buffer.less(X, row, single, HOST)
    return rows


def _strips(S: HostArray) -> list[slice]:
    return [slice(a, a + STRIP) for a in range(0, S.shape[0], STRIP)]
