"""Very sparse random projections: three-valued entries, most of them zero.

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
from functools import partial

import numpy as np
import scipy.sparse

from linspec import TestMatrix, option
from linspec.arrays import HostArray
from linspec.operators import SeededSketch, Sketch

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
            The source of the seed.

        Returns
        -------
        Sketch, shape (rows, columns)
            Sparse. The entries are not stored: every use draws them again from the seed, so they are always the same.
            If there are few rows, columns may have no entry.
        """
        density = self.share(rows)
        return SeededSketch(rows, columns, rng, partial(_tile, density), density=density)

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


def _tile(density: float, rows: int, columns: int, rng: np.random.Generator) -> scipy.sparse.csr_array:
    places = _successes(rows * columns, density, rng)
    size = math.sqrt(1.0 / density)
    entries = np.where(rng.integers(0, 2, len(places)) == 1, size, -size)
    starts = np.searchsorted(places, np.arange(rows + 1) * columns)
    return scipy.sparse.csr_array((entries, places % columns, starts), shape=(rows, columns))


def _successes(trials: int, probability: float, rng: np.random.Generator) -> HostArray:
    """Draw the indices of the successes among independent trials, in order."""
    found, last = [np.empty(0, np.int64)], -1
    while last < trials:
        expected = (trials - last) * probability
        gaps = rng.geometric(probability, int(expected + 4.0 * math.sqrt(expected)) + 8)
        # With a tiny probability a single gap may be huge; all gaps beyond the trials are equivalent.
        places = last + np.cumsum(np.minimum(gaps, trials + 1))
        found.append(places)
        last = int(places[-1])
    every = np.concatenate(found)
    return every[: np.searchsorted(every, trials)]
