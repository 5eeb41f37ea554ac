"""Costs and savings of a randomized preconditioner of conjugate gradients.

Problem: a sketch with more columns removes more large eigenvalues, and so saves iterations; but it takes time to make
and to apply.
Method: operations are priced at the rates of `linspec.cost`, and iterations are estimated from the eigenvalues that
the sketch has found, and from how fast they fall.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from linspec import cost
from linspec.arrays import HostArray
from linspec.linalg import EPS

PER_OUTLIER = 2.0
"""Iterations that each eigenvalue far above the others costs conjugate gradients with one right-hand side."""


@dataclass(frozen=True)
class Prices:
    """The cost of products, in seconds of a typical core.

    Attributes
    ----------
    product : callable
        Takes a number of columns; returns the price of a product with AᵀA.
    p, width : int
        Rows and columns of the iterates.
    """

    product: Callable[[int], float]
    p: int
    width: int

    def iteration(self, rank: int) -> float:
        """The price of an iteration with a preconditioner of the given rank."""
        return self.product(self.width) + 12.0 * self.p * rank * self.width / cost.DENSE_RATE

    def widening(self, rank: int) -> float:
        """The price of doubling the rank: of products with the new columns, and of the algebra of the wider sketch."""
        return self.product(rank) + 6.0 * self.p * (2.0 * rank) ** 2 / cost.DENSE_RATE


@dataclass(frozen=True)
class Outlook:
    """The expected number of iterations with and without a preconditioner.

    The estimate is √κ times `digits` = ln(2/tol)/2. κ is the ratio of the largest eigenvalue that the preconditioner
    leaves to a typical small one. The typical small eigenvalue is the lesser of two numbers. The first is the mean of
    the eigenvalues outside the sketch. The second is λ q²: λ is the smallest eigenvalue in the sketch, and q is the
    ratio of λ to the eigenvalue in the middle of the sketch, by which another doubling is expected to reduce λ.
    A single large eigenvalue costs at most a few iterations, shared among the right-hand sides.
    """

    size: int
    trace: float
    prices: Prices
    digits: float
    asked: bool = False  # a rank given by the user is always used

    def iterations(self, values: HostArray, shift: float) -> float:
        """Expected number of iterations, if the preconditioner reduces the eigenvalues `values` to the last of them."""
        rest = max(self.trace - float(values.sum()), 0.0) / max(self.size - len(values), 1)
        rest = min(rest, values[-1] * self._fall(values, 0.0) ** 2)
        last = values[-1] + shift
        return float(self.digits * np.sqrt(last / max(min(rest + shift, last), EPS * last)))

    def pays(self, values: HostArray, shift: float) -> bool:
        """Whether doubling the rank saves more than it costs, if eigenvalues fall as in the last half of `values`."""
        rank = len(values)
        iterations = self.iterations(values, shift)
        saved = iterations * (1 - np.sqrt(self._fall(values, shift)))
        fewer = iterations - min(saved, PER_OUTLIER * rank / self.prices.width)
        without = iterations * self.prices.iteration(rank)
        return bool(fewer * self.prices.iteration(2 * rank) + self.prices.widening(rank) < without)

    @staticmethod
    def _fall(values: HostArray, shift: float) -> float:
        """The factor by which the last doubling of the columns has reduced the last eigenvalue."""
        middle = values[max(len(values) // 2 - 1, 0)]
        return float((values[-1] + shift) / (middle + shift))

    def useful(self, values: HostArray, shift: float) -> bool:
        """Whether iterations with the preconditioner cost less than those without it; its own cost is not counted."""
        rank, iterations = len(values), self.iterations(values, shift)
        alone = iterations * np.sqrt((values[0] + shift) / (values[-1] + shift))
        alone = min(alone, iterations + PER_OUTLIER * rank / self.prices.width)
        return self.asked or bool(iterations * self.prices.iteration(rank) < alone * self.prices.iteration(0))
