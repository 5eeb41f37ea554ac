"""Gaussian test matrix.

Problem: find the range of a large matrix from its products with a few random vectors.
Method: independent N(0, 1) entries. Their distribution is invariant under rotation, so no direction of the
data can be missed by its position, and the error of the range finder has a bound in expectation.
Source: Halko, Martinsson and Tropp 2011, doi:10.1137/090771806, section 10.2.
Where we differ: it is drawn on the host, in float64, from a stream of its own.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from linspec import TestMatrix
from linspec.arrays import HostArray


@dataclass(frozen=True, kw_only=True)
class Gaussian(TestMatrix):
    """Test matrix of independent standard normal entries."""

    def draw(self, rows: int, columns: int, rng: np.random.Generator) -> HostArray:
        """Draw the matrix.

        Parameters
        ----------
        rows, columns : int
            Its shape.
        rng : numpy.random.Generator
            The source of the seed.

        Returns
        -------
        ndarray, shape (rows, columns)
            The mean square of a column's norm is the number of rows.
        """
        seed = rng.integers(2**63, size=2).tolist()  # what is drawn from `rng` depends on no shape
        generator = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(0,)))
        return generator.standard_normal((rows, columns))
