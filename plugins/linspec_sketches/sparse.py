"""Sparse sign test matrix: the same small number of random signs in every row.

Problem: the low cost of the count sketch, with guarantees close to those of Gaussian entries.
Method: every row has ζ entries of equal size and random sign at ζ distinct random places. To embed a subspace of
dimension k, it needs of the order of k log k columns, with ζ of the order of log k; in practice ζ = 8 is enough.
Source: Cohen 2016, doi:10.1137/1.9781611974331.ch21; Tropp, Yurtsever, Udell and Cevher 2019,
doi:10.1137/18M1201068, section 3.3 (ζ = 8).
Where we differ: the entries are ±√(l/ζ) for l columns instead of ±1/√ζ, so they have variance one like those of every
test matrix. Floyd's method of choosing a subset draws the places of all rows together.

Count sketch, also known as feature hashing: every row has one entry, a random sign at a random place.

Problem: a product A Ω that costs one addition for each entry of A, for any number of columns of Ω.
Method: every column of A is added, with a random sign, to one column of the result, chosen at random. With of the order
of k² columns it embeds a k-dimensional subspace.
Source: Clarkson and Woodruff 2013, doi:10.1145/2488608.2488620; Weinberger et al. 2009, doi:10.1145/1553374.1553516.
Where we differ: the entries are ±√l for l columns instead of ±1, so they have variance one like those of every test
matrix. A seed makes them instead of a hash function, so they are fully independent.

Very sparse random projections: three-valued entries, most of them zero.

Problem: a product A Ω at a fraction of its cost, and an Ω that takes hardly any memory.
Method: independent entries, √s times {+1, 0, −1} with probabilities {1/2s, 1 − 1/s, 1/2s}. Inner products keep their
expectation for every s. If s is much smaller than the p rows, and a vector's length is not concentrated in a few
coordinates, their variance is about that of Gaussian entries.
Source: Achlioptas 2003, doi:10.1016/S0022-0000(03)00025-4 (s = 3); Li, Hastie and Church 2006,
doi:10.1145/1150402.1150436 (s = √p, and s = p/log p if the data have light tails).
Where we differ: the gaps between nonzero entries are drawn, which are geometric. So the cost of drawing is that of the
stored entries, and the entries are exactly independent.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import scipy.sparse

from linspec import TestMatrix, option
from linspec.arrays import HostArray
from linspec.operators import Sketch


@dataclass(frozen=True, kw_only=True)
class CountSketch(TestMatrix):
    """Sparse test matrix with one entry ±√columns in every row."""

    def operator(self, rows: int, columns: int, rng: np.random.Generator) -> Sketch:
        """Make the matrix.

        Parameters
        ----------
        rows, columns : int
            Its shape.
        rng : numpy.random.Generator
            The source of the random numbers.

        Returns
        -------
        Sketch, shape (rows, columns)
            Sparse. Unless there are many more rows than columns, some columns have no entry.
        """
        places: HostArray = rng.integers(0, columns, rows)
        entries = _random_signs(rows, math.sqrt(columns), rng)
        return Sketch(scipy.sparse.csr_array((entries, places, np.arange(rows + 1)), shape=(rows, columns)))


def _random_signs(count: int, size: float, rng: np.random.Generator) -> HostArray:
    """Draw ±size with equal probability."""
    return np.where(rng.integers(0, 2, count) == 1, size, -size)


RULES = ("square-root", "logarithm")


@dataclass(frozen=True, kw_only=True)
class VerySparse(TestMatrix):
    """Test matrix of independent entries: √s and −√s with probability 1/2s each, zero otherwise."""

    rule: str = option(
        "square-root", "density for p rows: 1/√p, or log(p)/p, the sparser and more daring", choices=RULES
    )
    density: float | None = option(
        None,
        "share 1/s of entries that are not zero, 1/3 in Achlioptas; None: by the rule",
        above=0,
        at_most=1,
    )

    def operator(self, rows: int, columns: int, rng: np.random.Generator) -> Sketch:
        """Make the matrix.

        Parameters
        ----------
        rows, columns : int
            Its shape.
        rng : numpy.random.Generator
            The source of the random numbers.

        Returns
        -------
        Sketch, shape (rows, columns)
            Sparse. If there are few rows, columns may have no entry.
        """
        density = self.share(rows)
        trials, pieces, last = rows * columns, [np.empty(0, np.int64)], -1
        while last < trials:  # the places of the successes among independent trials, in order
            expected = (trials - last) * density
            gaps = rng.geometric(density, int(expected + 4.0 * math.sqrt(expected)) + 8)
            # With a tiny density a single gap may be huge; all gaps beyond the trials are equivalent.
            pieces.append(last + np.cumsum(np.minimum(gaps, trials + 1)))
            last = int(pieces[-1][-1])
        every = np.concatenate(pieces)
        places = every[: np.searchsorted(every, trials)]
        entries = _random_signs(len(places), math.sqrt(1.0 / density), rng)
        starts = np.searchsorted(places, np.arange(rows + 1) * columns)
        return Sketch(scipy.sparse.csr_array((entries, places % columns, starts), shape=(rows, columns)))

    def share(self, rows: int) -> float:
        """Return the expected fraction of nonzero entries in a matrix with this number of rows.

        Parameters
        ----------
        rows : int

        Returns
        -------
        float
            In (0, 1].
        """
        if self.density is not None:
            return float(self.density)
        p = max(rows, 1)
        # log p / p is no density for p = 1, and a column needs at least one entry on average.
        return 1.0 / math.sqrt(p) if self.rule == "square-root" else max(math.log(p), 1.0) / p


@dataclass(frozen=True, kw_only=True)
class SparseSign(TestMatrix):
    """Sparse test matrix with `nonzeros` entries ±√(columns/nonzeros) in every row."""

    nonzeros: int = option(8, "entries of a row; all of them where there are fewer columns", at_least=1)

    def operator(self, rows: int, columns: int, rng: np.random.Generator) -> Sketch:
        """Make the matrix.

        Parameters
        ----------
        rows, columns : int
            Its shape.
        rng : numpy.random.Generator
            The source of the random numbers.

        Returns
        -------
        Sketch, shape (rows, columns)
            Sparse.
        """
        count = min(self.nonzeros, columns)
        places = np.empty((rows, count), np.int64)  # distinct in each row, all subsets equally likely
        for j, last in enumerate(range(columns - count, columns)):
            candidate = rng.integers(0, last + 1, rows)
            taken = (places[:, :j] == candidate[:, None]).any(axis=1)
            places[:, j] = np.where(taken, last, candidate)
        places.sort(axis=1)
        entries = _random_signs(rows * count, math.sqrt(columns / count), rng)
        starts = np.arange(rows + 1) * count
        return Sketch(scipy.sparse.csr_array((entries, places.ravel(), starts), shape=(rows, columns)))
