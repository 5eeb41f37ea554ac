"""The progress of an iteration for canonical pairs: the residual, and the expected gain of the correlations.

Problem: the residual is known in the norm of a preconditioner. This norm tells little about directions that
are short in all columns.
Method: if each gain of a sum is q < 1 times the gain before it, the gains still to come add up to q/(1 − q)
times the last gain. The larger of the residual and this expected gain is judged.
Source: Aitken 1926, On Bernoulli's numerical solution of algebraic equations, for the extrapolation.
Where we differ: q comes from gains several steps apart, because single gains fluctuate, and it is bounded.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

USUAL, SLOWEST, APART = 0.5, 0.98, 5
"""The ratio of gains before two gains are known, the largest ratio, and the sweeps between compared gains."""

OPTIMISTIC = 3.0
"""A residual may be below the loss by this factor, as the residual of CCA is if columns are nearly
independent."""

PATIENCE, PROGRESS = 25, 0.9
"""Within this number of sweeps the residual must fall by this factor."""


class Course:
    """The progress of an iteration, by the residual and by the expected gain of the correlations.

    The residual is computed with a preconditioner instead of the Gram matrix. If columns are nearly
    dependent, it is far smaller than the loss. Then the gain of a step shows that the correlations have not
    converged. If the last gain is q times the one before, further gains of q/(1 − q) times the last one are
    expected.

    Attributes
    ----------
    expected_gain : float
        Relative gain in the sum of the correlations that is still expected; infinity before there are two sums.
    apart : int
        Steps between the gains that determine q; more if a step gains little.
    slowest : float
        The upper limit of q.
    patience : int
        Steps within which the residual must fall by a tenth.
    turned : bool
        Whether the subspaces were the whole spaces in the last two steps, and the law has not fallen.
    """

    def __init__(
        self, tol: float, apart: int = APART, slowest: float = SLOWEST, patience: int = PATIENCE
    ) -> None:
        self.apart, self.slowest, self.patience = apart, slowest, patience
        self.expected_gain, self.turned = float("inf"), False
        self._within = float("inf")
        self._tol, self._since = tol, 0
        self._least = (float("inf"), float("inf"))
        self._total: float | None = None
        self._gains: list[float] = []

    def state(self) -> dict[str, Any]:
        """What it has seen, for a checkpoint: a copy."""
        return {**vars(self), "_gains": list(self._gains)}

    @classmethod
    def again(cls, state: Mapping[str, Any]) -> Course:
        """That of a checkpoint."""
        found = cls.__new__(cls)
        vars(found).update(state)
        return found

    def judged(self, law: float, total: float, *, whole: bool) -> float:
        """The residual by the law, or the expected gain if that is much larger.

        The first sum cannot be compared with another one, so it does not end the iteration.

        Parameters
        ----------
        law : float
            The law in the known norm.
        total : float
            The sum of the correlations.
        whole : bool
            Whether the law is complete: its norm is exact, or the subspaces are the whole spaces.
        """
        if self._total is not None:
            self._gains.append(max(total - self._total, 0.0))
            self.expected_gain = self._gains[-1] * self._ratio() if total > 0 else 0.0
            self.expected_gain /= max(total, float(np.finfo(np.float64).tiny))
        self._total = total
        self.turned, self._within = whole and law >= self._within, law if whole else float("inf")
        expected_gain = 0.0 if whole else self.expected_gain
        residual = max(
            law, min(expected_gain / OPTIMISTIC, 1.0) if np.isfinite(expected_gain) else 2 * self._tol
        )
        # Compare with the values at the last such decrease and not with the last sweep: slow is not stagnant.
        if residual < PROGRESS * self._least[0] or law < PROGRESS * self._least[1]:
            self._since = 0
            self._least = (min(self._least[0], residual), min(self._least[1], law))
        else:
            self._since += 1
        return residual

    def _ratio(self) -> float:
        """Expected gains in units of the last one: q/(1 − q), with q from gains several sweeps apart."""
        apart = min(len(self._gains) - 1, self.apart)
        first = self._gains[-1 - apart]
        q = (self._gains[-1] / first) ** (1 / apart) if apart and first > 0 else USUAL
        return min(q, self.slowest) / (1 - min(q, self.slowest))

    @property
    def fell_behind(self) -> bool:
        """Whether both the residual and the expected gain have stopped falling."""
        return self._since > self.patience
