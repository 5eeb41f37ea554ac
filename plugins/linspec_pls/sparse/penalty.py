"""Penalties of sparse weights: the best weights within a bound, and how far others are from these.

Problem: for a vector a, maximise aᵀt over tᵀSt ≤ 1 and P(t) ≤ c. P is |t|₁, or for columns in groups g of p_g columns
Σ √p_g ‖t_g‖. All vectors are in units of their columns: S has a unit diagonal, or is the identity.
Law: with r_j the root mean square of t over the group of column j, P(t) = Σ r_j, and r_j = |t_j| without groups. The
problem is convex. For every λ ≥ 0, no weights t have an aᵀt above either of

    λ √(tᵀSt) + c max rms(a − λSt),                                       (1)
    √(tᵀSt) λ + ‖a − λSt‖ in S⁻¹,                                         (2)

by the duals of the two lengths. The violation of t is how far the lower of these lies above aᵀt, relative to it. At the
best weights it is zero: there are λ, μ ≥ 0 with

    a − λSt = μ t/r  where r > 0,    rms(a − λSt) ≤ μ  where r = 0.       (3)

Method: for S = I the best t has soft thresholds of the numbers rms(a), over their length:

    t = a/rms(a) · the unit vector nearest to rms(a) with |·|₁ ≤ c.       (4)

For others, S⁻¹a over its length, or the group of the largest rms(a) alone, where these are within both bounds (5). Else
Newton's method on w = λt. With h = w/r and the derivative K = μ/r (I − hhᵀ/p_g) of μh in the groups in which w is not
zero, which is zero without groups,

    (S + K) w' = a − μ'h,    P(w')² = c² w'ᵀSw',                          (6)

a quadratic equation for μ'. What is not zero next is v = w' + a − Sw' where rms(v) > μ'; w becomes soft thresholds
of v. If ten steps do not end at the best weights, ADMM makes some from the last ones: with RᵀR = S, copies y of Rt in
the unit ball and z of t with P(z) ≤ c,

    t ← (S + I)⁻¹(Rᵀ(y − f) + a + z − g),                                 (7)
    y ← Rt + f over max(1, its length),                                   (8)
    z ← t + g with each r less one number, where r is larger, such that P ≤ c,   (9)
    f ← f + Rt − y,     g ← g + t − z.                                    (10)

Rt and t in (8) to (10) are 1.6 times these less .6 times y and z (over-relaxation).
Source: Witten, Tibshirani & Hastie 2009, doi:10.1093/biostatistics/kxp008, Lemma 2.2 (4); Hintermüller, Ito & Kunisch
2003, doi:10.1137/S1052623401383558 (Newton's method as an active set); Suo, Minden, Nelson, Tibshirani & Saunders 2017,
arXiv:1705.10865, section 3 (ADMM); Boyd et al. 2011, doi:10.1561/2200000016, section 3.4.3 (over-relaxation); Yuan &
Lin 2006, doi:10.1111/j.1467-9868.2005.00532.x (groups).
Where we differ: the threshold of (4) is exact, where the source searches. Suo et al. linearise (7), where one inverse
serves all steps, and have a penalty in place of the bound, which is its multiplier μ.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from linspec.arrays import HostArray, reciprocal
from linspec.certificates import Metric
from linspec.linalg import nearest_unit

NEWTON, STEPS = 10, 40
LONGER, NEXT = 1.5, 0.8
EXACT, RAISED = 1e-9, 1e-12
"""Steps of Newton's method, and of c; their factor at first, the part of the largest rms(a − Sw) that becomes μ where
no μ has P(w) = c√(wᵀSw); the violation of (3) and (4) at the end, and what the diagonal of S gains."""

LOOSE, TINY = 1e100, 1e-300
"""A bound that no weights reach; in place of 0 below a fraction."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Penalty:
    """P(t) ≤ bound for the columns of one matrix, and S = I.

    Attributes
    ----------
    bound : float
        c, at most `LOOSE`.
    index : numpy.ndarray of int, shape (p,)
        The number of the group of each column; without groups each column is one.
    rounding : float, default 0
        What rounding of S does to a value where no bound binds, relative to it.
    """

    bound: float
    index: HostArray
    rounding: float = 0.0

    @cached_property
    def sizes(self) -> HostArray:
        """The number of columns of each group."""
        return np.bincount(self.index)

    def rms(self, T: HostArray) -> HostArray:
        """The root mean square of a vector, or of each column, over the groups of rows."""
        if len(self.sizes) == len(self.index):
            return np.abs(T)
        sums = np.zeros((len(self.sizes), *T.shape[1:]))
        np.add.at(sums, self.index, T * T)
        return np.sqrt(sums.T / self.sizes).T[self.index]

    def best(self, A: HostArray, T: HostArray) -> HostArray:
        """The best weights for each column of A (4); zeros for zeros. T has guesses, where these are of use."""
        A = A * reciprocal(np.max(np.abs(A), axis=0))
        R = self.rms(A)
        return A * nearest_unit(R, self.bound) * reciprocal(R)

    def length(self, g: HostArray) -> float:
        """The length of g in S⁻¹."""
        return float(np.linalg.norm(g))

    def violation(self, a: HostArray, t: HostArray, St: HostArray) -> float:
        """How far aᵀt is below what is proved of the best weights, relative to it; t is within both bounds."""
        if not a.any():
            return 0.0
        h = t * reciprocal(self.rms(t))
        live = h != 0
        fit = np.linalg.lstsq(np.column_stack([St, h])[live], a[live], rcond=None)[0]
        slopes = np.array([a @ t / (t @ St), max(fit[0], 0.0), 0.0])
        left = a[:, None] - St[:, None] * slopes
        most = slopes * np.sqrt(t @ St) + self.bound * np.max(self.rms(left), axis=0)  # (1)
        free = slopes[0] * np.sqrt(t @ St) + self.length(left[:, 0])  # (2)
        return float(min(free / (a @ t) + self.rounding, most.min() / (a @ t)) - 1.0)


@dataclass(frozen=True, eq=False, kw_only=True)
class MetricPenalty(Penalty):
    """P(t) ≤ bound for a matrix S that has a unit diagonal, or zeros for columns that do not vary.

    Attributes
    ----------
    S : numpy.ndarray of shape (p, p)
    metric : Metric
        Of S.
    """

    S: HostArray
    metric: Metric

    def length(self, g: HostArray) -> float:
        return float(self.metric.lengths(g[:, None])[0])

    def reach(self, w: HostArray) -> float:
        """P(w) over the length of w in S."""
        return float(self.rms(w).sum() / np.sqrt(max(w @ (self.S @ w), TINY)))

    def best(self, A: HostArray, T: HostArray) -> HostArray:
        """Multiples of the best weights for each column of A, from guesses T."""
        A = A * reciprocal(np.max(np.abs(A), axis=0))
        return np.column_stack([self._best(*pair) for pair in zip(A.T, T.T, strict=True)])

    def _best(self, a: HostArray, t: HostArray) -> HostArray:
        """A multiple of the best weights for a, from a guess."""
        w: HostArray = self.metric.solve(a)
        if self.reach(w) <= self.bound:
            return w
        found = self._newton(a, t * (a @ t) / max(t @ (self.S @ t), TINY), self.bound)
        if found is not None:
            return found
        w = a * (self.rms(a) == self.rms(a).max())
        w = w * (a @ w) / (w @ (self.S @ w))
        longer = LONGER
        for _ in range(STEPS):
            c = self.reach(w)
            if c >= self.bound * (1.0 - EXACT):  # (5)
                break
            found = self._newton(a, w, min(longer * c, self.bound))
            if found is None:
                longer = np.sqrt(longer)
            else:
                w = found
        return w

    def _newton(self, a: HostArray, w: HostArray, c: float) -> HostArray | None:
        """A multiple of the best weights for a and a bound c, by Newton's method from w; None if it does not end."""
        price = self.rms(a - self.S @ w).max()
        for _ in range(NEWTON):
            live = np.flatnonzero(w)
            group = self.index[live]
            r = self.rms(w)[live]
            h = w[live] / r
            K = np.diag(price / r + RAISED) - (group[:, None] == group) * np.outer(h * price / r, h / self.sizes[group])
            S = self.S[np.ix_(live, live)]
            pair = np.linalg.solve(S + K, np.column_stack([a[live], h]))
            reached = h @ pair
            Q = np.outer(reached, reached) - c**2 * (pair.T @ S @ pair)
            roots = (Q[0, 1] + np.array([-1.0, 1.0]) * np.sqrt(Q[0, 1] ** 2 - Q[0, 0] * Q[1, 1])) / Q[1, 1]
            price = min(roots[(roots > 0) & (reached[0] > roots * reached[1])], default=0.0)  # (6)
            w = np.zeros_like(a)
            w[live] = pair @ [1.0, -price]
            left = a - self.S @ w
            price = price or NEXT * self.rms(left).max()
            before = w
            w = (w + left) * np.maximum(1.0 - price / np.maximum(self.rms(w + left), TINY), 0.0)
            over = self.reach(w) - c
            if max(np.abs(w - before).max(), over, -price * over) <= EXACT:
                return w
        return None
