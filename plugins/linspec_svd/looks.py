"""Schedule of looks at the Ritz pairs of a growing basis; computing them takes as long as several steps."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from linspec.algebra import GrowingBasis

GROWTH = 1.15
"""The factor by which the basis grows between two looks, as long as its final width cannot be predicted."""


@dataclass(frozen=True)
class Looks:
    """Schedule of looks: the next one is where a falling residual is expected to meet the tolerance.

    Attributes
    ----------
    at : int
        The width of the basis at the next look.
    rate : float
        The decrease of the logarithm of the residual for each column; 0 while it is unknown.
    last : (int, float)
        The width of the basis at the last look, and its residual.
    restarts : int
        The number of restarts of that basis; a look follows the first step after another restart.
    """

    at: int
    rate: float = 0.0
    last: tuple[int, float] = (0, 1.0)
    restarts: int = 0

    def due(self, basis: GrowingBasis) -> bool:
        """Whether a look at the Ritz pairs is due."""
        return basis.restarts != self.restarts or basis.count >= self.at or basis.is_invariant

    def seen(self, basis: GrowingBasis, residual: float, tol: float) -> Looks:
        """The schedule after a look that found this residual."""
        before, larger = self.last if basis.restarts == self.restarts else (0, 1.0)
        falls = 0 < before < basis.count and 0 < residual < min(0.1, 0.3 * larger)
        rate = float(np.log(larger / residual)) / (basis.count - before) if falls else 0.0
        return Looks(0, rate, (basis.count, residual), basis.restarts).aimed(tol)

    def aimed(self, tol: float) -> Looks:
        """The schedule with the next look where the residual meets a tolerance at its current rate."""
        count, residual = self.last
        step = (GROWTH - 1.0) * count
        if self.rate:
            step = min(0.9 * float(np.log(max(residual / tol, 1.0))) / self.rate, 2 * step)
        return Looks(count + int(step), self.rate, self.last, self.restarts)
