"""How an iteration for canonical pairs goes on: what the correlations still gain, beside the residual.

Problem: the residual is known in the norm of a preconditioner, which says little of directions that are short in all
columns.
Method: a sequence of sums that grows by a factor q < 1 of the last gain at each step has q/(1 − q) times that gain
before it. The larger of residual and gain to come is what is judged.
Source: Aitken 1926, On Bernoulli's numerical solution of algebraic equations, for the extrapolation.
Where we differ: q comes from gains some steps apart, because single ones waver, and is bounded.
"""

from __future__ import annotations

import numpy as np

USUAL, SLOWEST, APART = 0.5, 0.98, 5
"""By what a gain is taken to follow from the last one, before two gains are known, and at most; sweeps between gains
that are compared."""

OPTIMISTIC = 3.0
"""How far a residual may be below the loss: that of CCA is, where columns hardly depend on each other."""

PATIENCE, PROGRESS = 25, 0.9
"""Sweeps within which the residual must fall by this factor."""


class Course:
    """How the iteration goes: by the residual, and by what the correlations still gain.

    The residual takes a preconditioner for the Gram matrix. Where columns nearly depend on each other, that makes it
    far smaller than the loss; what a step adds to the correlations then shows that they are not there yet. If the last
    gain is q times the one before, gains of q/(1 − q) times the last one are to come.

    Attributes
    ----------
    to_come : float
        Relative gain in the sum of the correlations that is still expected; infinity before there are two sums.
    apart : int
        Steps between the gains from which q is told: more where a step gains little.
    slowest : float
        The largest q that is believed.
    """

    def __init__(self, tol: float, apart: int = APART, slowest: float = SLOWEST) -> None:
        self.apart, self.slowest = apart, slowest
        self.to_come = float("inf")
        self._tol, self._since = tol, 0
        self._least = (float("inf"), float("inf"))
        self._total: float | None = None
        self._gains: list[float] = []

    def judged(self, law: float, total: float, *, whole: bool) -> float:
        """The residual by the law, or by what is to come where that says much more.

        A first sum has nothing to be compared with: it does not end the iteration.

        Parameters
        ----------
        law : float
            In the norm that is at hand.
        total : float
            The sum of the correlations.
        whole : bool
            Whether the law hides nothing: its norm is exact, or the subspaces are all there is.
        """
        if self._total is not None:
            self._gains.append(max(total - self._total, 0.0))
            self.to_come = self._gains[-1] * self._ratio() if total > 0 else 0.0
            self.to_come /= max(total, float(np.finfo(np.float64).tiny))
        self._total = total
        to_come = 0.0 if whole else self.to_come
        residual = max(law, min(to_come / OPTIMISTIC, 1.0) if np.isfinite(to_come) else 2 * self._tol)
        # Beside what they were when one last fell by as much, not beside the sweep before: slow is not stagnant.
        if residual < PROGRESS * self._least[0] or law < PROGRESS * self._least[1]:
            self._since = 0
            self._least = (min(self._least[0], residual), min(self._least[1], law))
        else:
            self._since += 1
        return residual

    def _ratio(self) -> float:
        """Gains to come in units of the last one: q/(1 − q), with q from gains some sweeps apart, for they waver."""
        apart = min(len(self._gains) - 1, self.apart)
        first = self._gains[-1 - apart]
        q = (self._gains[-1] / first) ** (1 / apart) if apart and first > 0 else USUAL
        return min(q, self.slowest) / (1 - min(q, self.slowest))

    @property
    def fell_behind(self) -> bool:
        """Whether the residual has stopped falling, by either account."""
        return self._since > PATIENCE
