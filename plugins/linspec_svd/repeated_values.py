"""Whether a block Krylov space lacks copies of a repeated singular value, and the search for them.

Problem: a block of b random columns finds at most b copies of a repeated value, and at first at most b values that
differ by less than the tolerance. A residual cannot show that there are more.
Method: if that many are found above the k-th value, a second random block, orthogonal to the known vectors, looks for
more. It has searched long enough when its largest Ritz value would be that of another copy except with a small
probability (Kuczyński & Woźniakowski 1992, doi:10.1137/0613066). If it finds as many as it can, a third one follows.
Where we differ: the newest block of the space is discarded when a random block takes its place. Its residual is added
to all later residuals.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from linspec.algebra import EPS, GrowingBasis
from linspec_svd.ending import log_chance

RISK = 1e-6
"""The largest probability of missing another copy."""

SHARP, SINGLE_SHARP = 1e-8, 1e-6
"""The residual at which repeated values are distinguished from close ones, for float64 and float32 data."""

SPREAD, POWER = 10.0, 1.4
"""Two Ritz values count as equal if their difference, relative to the largest Ritz value, is at most the largest of
three bounds: the tolerance, SPREAD times SHARP (SINGLE_SHARP for float32), and the residual to the power POWER. By
theory Ritz values of equal eigenvalues differ by the squared residual over the distance to the next eigenvalue, which
is unknown."""


@dataclass(frozen=True, kw_only=True)
class Copies:
    """State of the search for copies of repeated values.

    Attributes
    ----------
    k : int
        The number of requested values.
    width : int
        The number of columns in a random block.
    tol, rounding : float
        The tolerance, and the machine epsilon of products.
    most : int
        The largest number of copies of a value that the random blocks so far can find.
    may_be_missing : bool
        Whether a Ritz value above the k-th was found `most` times, so that the blocks may have missed a further copy.
    repeated : float
        The smallest Ritz value that was found `most` times; 0 before there is one.
    steps : int
        The number of steps since the last random block began.
    left : float
        The residual of the blocks that random blocks have replaced; it is added to all later residuals.
    """

    k: int
    width: int
    tol: float
    rounding: float
    most: int
    may_be_missing: bool = False
    repeated: float = 0.0
    steps: int = 0
    left: float = 0.0

    @property
    def near_enough(self) -> float:
        """The residual at or below which a random block may replace the newest block of the basis.

        The residual of the replaced block is then added to all later residuals, so it must be small against the
        tolerance.
        """
        return max(0.1 * self.tol, 100 * self.rounding)

    @property
    def resolution(self) -> float:
        """The distance of values, relative to the largest, below which they count as equal."""
        return max(self.tol, SPREAD * (SHARP if self.rounding < SHARP else SINGLE_SHARP))

    def after_step(self) -> Copies:
        """Return the state after another step."""
        return replace(self, steps=self.steps + 1)

    def are_sought(self, basis: GrowingBasis) -> bool:
        """Whether another copy may be missing with a probability above `RISK`."""
        theta = basis.ritz[0]
        if not self.repeated or basis.is_invariant:
            return False
        if len(theta) <= self.k:
            return True
        if theta[self.k - 1] >= self.repeated * (1 - self.resolution):
            return False  # further copies would not change the requested values
        share = max(1.0 - theta[self.k] / self.repeated, self.resolution)
        return bool(self.width * log_chance(basis.length, share, self.steps) > np.log(RISK))

    def counted(self, basis: GrowingBasis, residual: float) -> Copies:
        """Return the state after counting how often each of the k leading Ritz values occurs.

        Copies may be missing if a value occurs `most` times and is above the k-th: `may_be_missing` is then True, and
        `repeated` is the smallest such value. `residual` is that of the Ritz pairs; it limits which values count as
        equal.
        """
        theta, most = basis.ritz[0][: self.k], self.most
        if len(theta) < most or theta[0] <= 0 or basis.count == basis.length:
            return replace(self, may_be_missing=False)
        blur = max(self.resolution, residual**POWER) * theta[0]
        least = theta[-1] if len(theta) == self.k else len(theta) * EPS * theta[0]
        equal = (theta[: len(theta) - most + 1] - theta[most - 1 :] <= blur) & (
            theta[most - 1 :] > least + blur
        )
        if not equal.any():
            return replace(self, may_be_missing=False)
        return replace(self, may_be_missing=True, repeated=float(theta[most - 1 :][equal].min()))

    def look_apart(
        self, basis: GrowingBasis, residual: float, rng: np.random.Generator
    ) -> tuple[GrowingBasis, Copies]:
        """Return the basis of the requested vectors with a random block orthogonal to them, and the new state."""
        theta = basis.ritz[0]
        keep = min(self.k, int(np.sum(theta > len(theta) * EPS * theta[0])))
        fresh = rng.standard_normal((basis.length, min(self.width, basis.length - keep)))
        left = float(np.hypot(self.left, residual))
        apart = replace(self, most=self.most + self.width, steps=0, left=left)
        return basis.restart(keep, basis.home.place(fresh)), apart
