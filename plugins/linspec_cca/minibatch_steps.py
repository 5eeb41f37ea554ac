"""Step lengths and the rows of a minibatch, from the first rows that are read.

Problem: AppGrad on minibatches needs a step and a batch, which its authors find by cross-validation. One step for all
columns does not suit word counts: they have columns with one entry and columns with tens of thousands, and the largest
column would limit the step.
Method: the sum of squares sⱼ of a column in a batch of b rows, times n/b, estimates Sⱼⱼ. Gradient descent on this
column alone, (1 − η s)² on average, decreases for η below 2 E[s]/E[s²]. So the metric is

    (1)  P = E[s²]/E[s] = diag(S) + (n/b) Σx⁴/Σx² − diag(S)/b, plus the ridge.

A row with an entry x in a rare column weighs (n/b) x² in its batch, which is the second term if all entries of the
column are equal. Nothing depends on the units of a column. The step in this metric is

    (2)  0.7/(λ + V) P⁻¹,   V = (n/b) E‖x̃‖⁴/E‖x̃‖²   for rows x̃ = P^(-1/2) x,

with λ from "appgrad" (3). V is the contribution of the variance of batches to the mean square of their estimates.
Batches are six times the intrinsic dimension Σdiag/λ of the views scaled to unit columns: with fewer rows, no direction
would stand out from others.
Source: Gower et al. 2019, doi:10.48550/arXiv.1901.09401, for V, with the largest row in place of the mean.
Where we differ: all but diag(S) is estimated from the first chunk of rows, and diag(S) is that of the chunk if larger.
Columns that hardly occur in it are taken for columns with one entry, but none longer than a usual row.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from linspec.arrays import Array, Home, HostArray, reciprocal, to_host
from linspec.linalg import ratio
from linspec.rows import Minibatch, Moments, equal_slices, random_order, rows_at_once
from linspec_cca.appgrad import largest_eigenvalue

DIMENSIONS = 6
"""Rows of a batch in units of the intrinsic dimension. On word counts 2 left too much noise; more means fewer steps."""

FEWEST_STEPS, FEWEST_ROWS, ROWS_A_PAIR = 16, 32, 2.5
"""Least number of batches in all rows, which has priority over DIMENSIONS. Least number of rows of a batch: with fewer,
calling a product takes longer than computing it; and for each pair, for a k x k metric near the one of all rows."""

MOST_ENTRIES = 2**22
"""Largest number of entries in a batch."""

STEPS = {"columns": 0.7, "none": 1.3}
"""Step in units of 1/(λ + V), with steps for each column and without, chosen by measurement: below 2 the mean square
error of a quadratic decreases, and a shorter step leaves less noise."""

PIECES, MET = 64, 4.0
"""Pieces of a chunk from which the squares of columns in batches are estimated; and by how much they may be too small
in the chunk."""


def random_chunks(moments: Moments, rng: np.random.Generator, size: int) -> Iterator[list[Minibatch]]:
    """The counted rows of both views in random order, about `size` at a time, without end.

    Of files, runs of neighbours come together, and rows within a chunk in random order.
    """
    numbers, together = counted(moments), max(A.together for A in moments.operators)
    while True:
        order = random_order(numbers, rng, size, together)
        for S in equal_slices(len(order), size):
            yield [moments.minibatch(order[S], i) for i in (0, 1)]


def counted(moments: Moments) -> HostArray:
    """The numbers of the rows whose weight is not 0."""
    w = moments.pre.w
    return np.arange(moments.operators[0].shape[0]) if w is None else np.flatnonzero(w)


def chunk_rows(moments: Moments, n: int, k: int) -> int:
    """Number of rows of a chunk: a small part of all n, so that a budget of passes is met closely."""
    few = min(n // FEWEST_STEPS, *map(rows_at_once, moments.operators))
    return int(min(n, max(few, 2 * FEWEST_ROWS, ROWS_A_PAIR * k)))


class FirstRows:
    """Estimates from the first chunk of rows.

    Parameters
    ----------
    chunk : list of Minibatch
    n : int
        The number of rows.
    ridges : pair of float
    SV : pair of array of shape (p, k)
        Where the power method begins.
    D : pair of array of shape (p, 1)
        diag(S) of both views, ridges included.
    """

    def __init__(
        self, chunk: list[Minibatch], n: int, ridges: Sequence[float], SV: Sequence[Array], D: Sequence[Array]
    ) -> None:
        self.chunk, self.n, self.ridges, self.SV = chunk, n, ridges, SV
        self.met = [rows.column_squares() * (n / rows.rows) for rows in chunk]
        of_each = zip(D, self.met, ridges, strict=True)
        self.D = [
            Home.of(d).xp.maximum(each, d + r) for each, d, r in of_each
        ]  # whose λ is near that of all rows

    def batch(self, k: int) -> int:
        """Rows of a batch: a multiple of the intrinsic dimension of the views scaled to unit columns."""
        fewest = wanted = max(ROWS_A_PAIR * k, FEWEST_ROWS)
        for i, (d, D) in enumerate(zip(self.met, self.D, strict=True)):
            largest, trace = self._largest(i, D), float(to_host(Home.of(D).xp.sum(d * reciprocal(D))))
            wanted = max(wanted, DIMENSIONS * trace / largest) if largest > 0 else wanted
        entries = max(rows.entries / rows.rows for rows in self.chunk)
        return int(max(fewest, min(wanted, MOST_ENTRIES / max(entries, 1.0), self.n / FEWEST_STEPS)))

    def steps(self, batch: int, scaling: str) -> list[Array]:
        """Steps of all columns of both views in batches of so many rows (2)."""
        found = []
        for i, rows in enumerate(self.chunk):
            P = self._metric(i, batch) if scaling == "columns" else self.D[i] * 0.0 + 1.0
            squares = to_host(rows.row_squares(reciprocal(P)[:, 0]))
            variance = ratio(float(squares @ squares), float(squares.sum())) * self.n / batch
            found.append(reciprocal(P) * ratio(STEPS[scaling], self._largest(i, P) + variance))
        return found

    def _largest(self, i: int, D: Array) -> float:
        """λ of one view, as the chunk estimates it."""
        rows, r = self.chunk[i], self.ridges[i]
        weight = self.n / rows.rows
        return largest_eigenvalue(lambda V: rows.gram_product(V) * weight + V * r, self.SV[i], D)

    def _metric(self, i: int, batch: int) -> Array:
        """P (1)."""
        rows, D, xp = self.chunk[i], self.D[i], Home.of(self.D[i]).xp
        pieces = [(S, S.stop - S.start) for S in equal_slices(rows.rows, max(1, rows.rows // PIECES))]
        s = [rows.column_squares(S) * (self.n / r) for S, r in pieces]
        mean, r, d = sum(s) / len(s), rows.rows / len(s), D - self.ridges[i]
        excess = sum(each * each for each in s) / len(s) * reciprocal(mean) - mean
        longest = xp.minimum(d, d * 0.0 + xp.sum(d) / self.n)
        return D + xp.where(mean > d / MET, excess * (r / batch), longest * (self.n / batch))
