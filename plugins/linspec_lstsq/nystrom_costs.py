"""Costs and savings of a randomized preconditioner of conjugate gradients.

Problem: a sketch with more columns removes more large eigenvalues, and so saves iterations; but it takes time to make
and to apply.
Method: operations are priced at the rates of `linspec.cost`, and iterations are estimated from the eigenvalues that
the sketch has found, and from how fast they fall.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from linspec import cost
from linspec.arrays import HostArray
from linspec.linalg import EPS
from linspec.rows import Moments

PER_OUTLIER = 2.0
"""Iterations that each eigenvalue far above the others costs conjugate gradients with one right-hand side."""


@dataclass(frozen=True)
class Outlook:
    """The expected number of iterations with and without a preconditioner, and their prices on a typical core.

    The estimate is √κ ln(2/tol)/2. κ is the ratio of the largest eigenvalue that the preconditioner
    leaves to a typical small one. The typical small eigenvalue is the lesser of two numbers. The first is the mean of
    the eigenvalues outside the sketch. The second is λ q²: λ is the smallest eigenvalue in the sketch, and q is the
    ratio of λ to the eigenvalue in the middle of the sketch, by which another doubling is expected to reduce λ.
    A single large eigenvalue costs at most a few iterations, shared among the right-hand sides.

    Attributes
    ----------
    moments, i
        Of the matrix A.
    width : int
        Columns of the iterates.
    tol : float
    """

    moments: Moments
    i: int
    width: int
    tol: float

    def product(self, columns: int) -> float:
        """The seconds of a product with AᵀA, or with the matrix that is held."""
        A = self.moments.operators[self.i]
        if self.moments.holds:
            return float(A.shape[1] ** 2 / 2 * (cost.READING + 4 * columns) / cost.DENSE_RATE)
        return A.product_seconds(columns)

    def iteration(self, rank: int) -> float:
        """The seconds of an iteration with a preconditioner of the given rank."""
        p = self.moments.widths[self.i]
        return self.product(self.width) + 12.0 * p * rank * self.width / cost.DENSE_RATE

    def iterations(self, values: HostArray, ridge: float) -> float:
        """Expected number of iterations, if the preconditioner reduces the eigenvalues `values` to the last of them."""
        trace, size = self.moments.fitted[self.i].squares.sum(), min(self.moments.operators[self.i].shape)
        rest = max(float(trace - values.sum()), 0.0) / max(size - len(values), 1)
        rest = min(rest, values[-1] * _fall(values, 0.0) ** 2)
        last = values[-1] + ridge
        kappa = last / max(min(rest + ridge, last), EPS * last)
        return float(np.sqrt(kappa) * np.log(2 / self.tol) / 2)

    def pays(self, values: HostArray, ridge: float) -> bool:
        """Whether doubling the rank saves more than it costs, if eigenvalues fall as in the last half of `values`."""
        rank, iterations = len(values), self.iterations(values, ridge)
        saved = iterations * (1 - np.sqrt(_fall(values, ridge)))
        fewer = iterations - min(saved, PER_OUTLIER * rank / self.width)
        widening = 6.0 * self.moments.widths[self.i] * (2.0 * rank) ** 2 / cost.DENSE_RATE
        spent = fewer * self.iteration(2 * rank) + self.product(rank) + widening
        return bool(spent < iterations * self.iteration(rank))

    def useful(self, values: HostArray, ridge: float) -> bool:
        """Whether iterations with the preconditioner cost less than those without it; its own cost is not counted."""
        rank, iterations = len(values), self.iterations(values, ridge)
        alone = iterations * np.sqrt((values[0] + ridge) / (values[-1] + ridge))
        alone = min(alone, iterations + PER_OUTLIER * rank / self.width)
        return bool(iterations * self.iteration(rank) < alone * self.iteration(0))


def _fall(values: HostArray, ridge: float) -> float:
    """The factor by which the last doubling of the columns has reduced the last eigenvalue."""
    middle = values[max(len(values) // 2 - 1, 0)]
    return float((values[-1] + ridge) / (middle + ridge))
