"""The expected further gain of the sum of correlations in an iteration, and a residual that includes it.

Problem: the residual is known in the norm of a preconditioner. If columns are nearly dependent, it may be far smaller
than the amount by which the sum of the correlations will still grow.
Method: if each gain of the sum is q < 1 times the gain before it, the gains still to come add up to q/(1 − q) times
the last one. The larger of the residual and this expected gain is compared with the tolerance.
Source: Aitken 1926, On Bernoulli's numerical solution of algebraic equations, for the extrapolation.
Where we differ: q comes from gains several steps apart, because single gains fluctuate, and it is bounded.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

USUAL = 0.5
"""The ratio q of successive gains that is assumed until two gains are known, or if the earlier one is zero."""

OPTIMISTIC = 3.0
"""Number by which the expected gain is divided before it is compared with the residual of the pairs.

In CCA with nearly independent columns, where this residual is reliable, the expected gain may be three times as large
as the residual. The division keeps the expected gain from delaying the end of such an iteration.
"""

PATIENCE, PROGRESS = 25, 0.9
"""Within `PATIENCE` steps the residual must fall below this fraction of its value."""


@dataclass(frozen=True)
class ExpectedGain:
    """The history of the sum of correlations in an iteration, with an estimate of its further gain.

    Parameters
    ----------
    tol : float
        The tolerance of the run.
    apart : int, default 5
        The number of steps between the two gains that determine q; fewer while fewer gains are known. Pass a larger
        number for a method with small gains in each step.
    slowest : float, default 0.98
        The upper limit of q.

    Attributes
    ----------
    residual : float
        The residual after the last step that is compared with the tolerance: the larger of `law`, the argument of
        `after`, and the expected gain divided by 3 (`OPTIMISTIC`).
    expected : float
        The gain in the sum of the correlations that is still expected, relative to this sum; infinity before there are
        two sums.
    turned : bool
        Whether `whole` was True in the last two steps, and `law` has not fallen from one to the next. Then further
        steps add only rounding errors.

    Examples
    --------
    >>> from linspec.families.cca import ExpectedGain
    >>> gain = ExpectedGain(tol=1e-6)
    >>> for total in (1.0, 1.5, 1.75):
    ...     gain = gain.after(1e-9, total, whole=False)
    >>> round(gain.expected, 3)  # gains of 1/2 and 1/4: another 1/4 is to come
    0.143
    """

    tol: float
    apart: int = 5
    slowest: float = 0.98
    residual: float = math.inf
    expected: float = math.inf
    turned: bool = False
    total: float | None = None
    gains: tuple[float, ...] = ()
    within: float = math.inf
    least: tuple[float, float] = (math.inf, math.inf)
    since: int = 0

    def after(self, law: float, total: float, *, whole: bool) -> ExpectedGain:
        """Return the state after another step.

        The first gain is known after the second call. Unless `whole`, the residual after the first call is at least
        2 tol, so that the iteration does not end before a gain is known.

        Parameters
        ----------
        law : float
            The residual Σ‖ϱᵢ‖² / Σρᵢ of the pairs after this step (see `CCA`), measured in the norm that the solver
            has: that of S⁻¹, or that of the inverse of a preconditioner of S.
        total : float
            The sum of the correlations after this step.
        whole : bool
            Whether `law` alone is the residual, without the expected gain: the norm is exact, or the subspaces are
            the whole spaces.
        """
        gains, expected = self.gains, self.expected
        if self.total is not None:
            gains = (*gains, max(total - self.total, 0.0))
            expected = gains[-1] * self._to_come(gains) if total > 0 else 0.0
            expected /= max(total, float(np.finfo(np.float64).tiny))
        judged = 0.0 if whole else expected
        residual = max(law, min(judged / OPTIMISTIC, 1.0) if math.isfinite(judged) else 2 * self.tol)
        # Compare with the values at the last such decrease and not with the last step: slow progress is no stagnation.
        least, since = self.least, self.since + 1
        if residual < PROGRESS * least[0] or law < PROGRESS * least[1]:
            least, since = (min(least[0], residual), min(least[1], law)), 0
        return replace(
            self,
            residual=residual,
            expected=expected,
            turned=whole and law >= self.within,
            total=total,
            gains=gains[-self.apart - 1 :],
            within=law if whole else math.inf,
            least=least,
            since=since,
        )

    def _to_come(self, gains: tuple[float, ...]) -> float:
        """Expected gains in units of the last one: q/(1 − q), with q from gains several steps apart."""
        apart = min(len(gains) - 1, self.apart)
        first = gains[-1 - apart]
        q = (gains[-1] / first) ** (1 / apart) if apart and first > 0 else USUAL
        return min(q, self.slowest) / (1 - min(q, self.slowest))

    @property
    def fell_behind(self) -> bool:
        """Whether neither `residual` nor `law` has fallen by a tenth for more than `PATIENCE` steps."""
        return self.since > PATIENCE
