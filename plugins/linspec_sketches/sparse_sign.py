"""Sparse sign test matrix: the same small number of random signs in every row.

Problem: the low cost of the count sketch, with guarantees close to those of Gaussian entries.
Method: every row has ζ entries of equal size and random sign at ζ distinct random places. To embed a subspace of
dimension k, it needs of the order of k log k columns, with ζ of the order of log k; in practice ζ = 8 is enough.
Source: Cohen 2016, doi:10.1137/1.9781611974331.ch21; Tropp, Yurtsever, Udell and Cevher 2019,
doi:10.1137/18M1201068, section 3.3 (ζ = 8).
Where we differ: the entries are ±√(l/ζ) for l columns instead of ±1/√ζ, so they have variance one like those of every
test matrix. Floyd's method of choosing a subset draws the places of all rows together.
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
            The source of the seed.

        Returns
        -------
        Sketch, shape (rows, columns)
            Sparse. The entries are not stored: every use draws them again from the seed, so they are always the same.
        """
        count = min(self.nonzeros, columns)
        share = count / max(columns, 1)
        return SeededSketch(rows, columns, rng, partial(_tile, count), width=columns, density=share)


def _tile(count: int, rows: int, columns: int, rng: np.random.Generator) -> scipy.sparse.csr_array:
    places = _subsets(rows, columns, count, rng)
    size = math.sqrt(columns / count)
    entries = np.where(rng.integers(0, 2, rows * count) == 1, size, -size)
    starts = np.arange(rows + 1) * count
    return scipy.sparse.csr_array((entries, places.ravel(), starts), shape=(rows, columns))


def _subsets(rows: int, columns: int, count: int, rng: np.random.Generator) -> HostArray:
    """Draw `count` distinct numbers below `columns` for each row, with all subsets equally likely."""
    chosen = np.empty((rows, count), np.int64)
    for j, last in enumerate(range(columns - count, columns)):
        candidate = rng.integers(0, last + 1, rows)
        taken = (chosen[:, :j] == candidate[:, None]).any(axis=1)
        chosen[:, j] = np.where(taken, last, candidate)
    return np.sort(chosen, axis=1)
