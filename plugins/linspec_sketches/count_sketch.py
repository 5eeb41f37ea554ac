"""Count sketch, also known as feature hashing: every row has one entry, a random sign at a random place.

Problem: a product A Ω that costs one addition for each entry of A, for any number of columns of Ω.
Method: every column of A is added, with a random sign, to one column of the result, chosen at random. With of the order
of k² columns it embeds a k-dimensional subspace.
Source: Clarkson and Woodruff 2013, doi:10.1145/2488608.2488620; Weinberger et al. 2009, doi:10.1145/1553374.1553516.
Where we differ: the entries are ±√l for l columns instead of ±1, so they have variance one like those of every test
matrix. A seed makes them instead of a hash function, so they are fully independent.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import scipy.sparse

from linspec import TestMatrix
from linspec.arrays import HostArray
from linspec.operators import SeededSketch, Sketch


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
            The source of the seed.

        Returns
        -------
        Sketch, shape (rows, columns)
            Sparse. The entries are not stored: every use draws them again from the seed, so they are always the same.
            Unless there are many more rows than columns, some columns have no entry.
        """
        share = 1.0 / max(columns, 1)
        return SeededSketch(rows, columns, rng, _tile, width=columns, density=share)


def _tile(rows: int, columns: int, rng: np.random.Generator) -> scipy.sparse.csr_array:
    places: HostArray = rng.integers(0, columns, rows)
    size = math.sqrt(columns)
    entries = np.where(rng.integers(0, 2, rows) == 1, size, -size)
    return scipy.sparse.csr_array((entries, places, np.arange(rows + 1)), shape=(rows, columns))
