"""Penalties of sparse weights: the best weights within a bound, and how far others are from these.

Problem: for a vector a, maximise aᵀt over tᵀSt ≤ 1 and P(t) ≤ c. P is |t|₁, or for columns in groups g of p_g columns
Σ √p_g ‖t_g‖. All vectors are in units of their columns: S has a unit diagonal, or is the identity.
Law: with r_j the root mean square of t over the group of column j, P(t) = Σ r_j, and r_j = |t_j| without groups. The
problem is convex. For every λ ≥ 0, no weights t have an aᵀt above either of

    λ √(tᵀSt) + c max rms(a − λSt),                                       (1)
    λ √(tᵀSt) + ‖a − λSt‖ in S⁻¹,                                         (2)

by the duals of the two lengths. The violation of t is how far aᵀt is below the lower of these, relative to it. At the
best weights it is zero: there are λ, μ ≥ 0 with

    a − λSt = μ t/r  where r > 0,    rms(a − λSt) ≤ μ  where r = 0.       (3)

Method: for S = I the best t has soft thresholds of the numbers rms(a), over their length:

    t = a/rms(a) · the unit vector nearest to rms(a) with |·|₁ ≤ c.       (4)

For others, S⁻¹a where its P is within the bound, or the group of the largest rms(a) alone, where that has P ≥ c at
length 1 (5). Else Newton's method on w = λt. With h = w/r and the derivative K = μ/r (I − hhᵀ/p_g) of μh in the groups
in which w is not zero, which is zero without groups,

    (S + K)(x, y) = (a, h),    w' = x − μ'y,    (hᵀw')² = c² w'ᵀSw',       (6)

a quadratic equation for μ'. Then w becomes v = w' + a − Sw' with soft thresholds μ' of rms(v): so groups come and go.
It ends where w' stays and (3) holds. If it does not end, c grows from that of one group, and each solution begins at
the one before.
Source: Witten, Tibshirani & Hastie 2009, doi:10.1093/biostatistics/kxp008, Lemma 2.2 (4); Hintermüller, Ito & Kunisch
2003, doi:10.1137/S1052623401383558 (Newton's method as an active set); Fan, Jiao & Lu 2014, IEEE Trans. Signal Process.
62:6276 (along a path); Suo, Minden, Nelson, Tibshirani & Saunders 2017, arXiv:1705.10865 (the convex problem); Yuan &
Lin 2006, doi:10.1111/j.1467-9868.2005.00532.x (groups).
Where we differ: the threshold of (4) is exact, where the source searches. Suo et al. have a penalty in place of the
bound, which is its multiplier μ, and ADMM, whose steps are hundreds for the digits that few of Newton's give.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from linspec.arrays import HostArray, reciprocal
from linspec.certificates import Metric
from linspec.linalg import nearest_unit

NEWTON = 10
STEPS = 40
LONGER = 2.0
NEXT = 0.8
EXACT = 1e-9
RAISED = 1e-12
"""Steps of Newton's method, and of c; their factor at first, the part of the largest rms(a − Sw) that becomes μ where
no μ has P(w) = c√(wᵀSw); the violation of (3) and (4) at the end, and what the diagonal of S gains."""

LOOSE = 1e100
TINY = 1e-300
"""A bound that no weights reach; in place of 0 below a fraction."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Penalty:
    """P(t) ≤ bound for the columns of one matrix.

    Attributes
    ----------
    bound : float
        c, at most `LOOSE`.
    index : numpy.ndarray of int, shape (p,)
        The number of the group of each column; without groups each column is one.
    sizes : numpy.ndarray of int
        The number of columns of each group.
    metric : Metric or None
        Of S; None for S = I.
    S : numpy.ndarray of shape (p, p), or None
        It has a unit diagonal, or zeros for columns that do not vary.
    rounding : float, default 0
        What rounding of S does to a value where no bound binds, relative to it.
    """

    bound: float
    index: HostArray
    sizes: HostArray
    metric: Metric | None = None
    S: Any = None
    rounding: float = 0.0

    def rms(self, T: HostArray) -> HostArray:
        """The root mean square of a vector, or of each column, over the groups of rows."""
        if len(self.sizes) == len(self.index):
            return np.abs(T)
        sums = np.zeros((len(self.sizes), *T.shape[1:]))
        np.add.at(sums, self.index, T * T)
        return np.sqrt(sums.T / self.sizes).T[self.index]

    def violation(self, a: HostArray, t: HostArray, St: HostArray) -> float:
        """How far aᵀt is below the lowest of (1) and (2), relative to it; t is within both bounds."""
        h = t * reciprocal(self.rms(t))
        live = h != 0
        fit = np.linalg.lstsq(np.column_stack([St, h])[live], a[live], rcond=None)[0]
        slopes = np.array([a @ t * reciprocal(t @ St), max(fit[0], 0.0), 0.0])
        left = a[:, None] - St[:, None] * slopes
        most = slopes * np.sqrt(t @ St) + self.bound * np.max(self.rms(left), axis=0)  # (1)
        gap = left[:, 0] if self.metric is None else self.metric.dual(left[:, 0])
        free = slopes[0] * np.sqrt(t @ St) + np.linalg.norm(gap)  # (2)
        above = np.maximum([free, most.min()], TINY)
        return float(np.min(1.0 - a @ t / above + [self.rounding, 0.0])) if a.any() else 0.0

    def best(self, A: HostArray, T: HostArray) -> HostArray:
        """Multiples of the best weights for each column of A; zeros for zeros. T has guesses."""
        A = A * reciprocal(np.max(np.abs(A), axis=0))
        if self.metric is None:
            R = self.rms(A)
            return A * nearest_unit(R, self.bound) * reciprocal(R)
        W = self.metric.solve(A)
        for i in range(A.shape[1]):
            if not self.reach(W[:, i]) <= self.bound:
                W[:, i] = self._bounded(A[:, i], T[:, i])
        return W

    def reach(self, w: HostArray) -> float:
        """P(w) over the length of w in S."""
        return float(self.rms(w).sum() / np.sqrt(max(w @ (self.S @ w), TINY)))

    def _bounded(self, a: HostArray, t: HostArray) -> HostArray:
        """A multiple of the best weights for a: from a guess, or along bounds c that grow from that of one group."""
        w = a * (self.rms(a) == self.rms(a).max())
        c = self.bound
        longer = LONGER
        for _ in range(STEPS):
            if self.reach(w) >= self.bound * (1.0 - EXACT):  # (5)
                break
            nearer = self._newton(a, t, c)
            if nearer is None:
                longer = np.sqrt(longer)
            else:
                w = nearer
            t = w
            c = min(longer * self.reach(w), self.bound)
        return w

    def _newton(self, a: HostArray, w: HostArray, c: float) -> HostArray | None:
        """A multiple of the best weights for a and a bound c, by Newton's method from w; None if it does not end."""
        w = w * (a != 0) * (a @ w) / max(w @ (self.S @ w), TINY)
        price = self.rms(a - self.S @ w).max()
        for _ in range(NEWTON):
            live = np.flatnonzero(w)
            group = self.index[live]
            r = self.rms(w)[live]
            h = w[live] / r
            unit = np.eye(len(live))
            S = self.S[np.ix_(live, live)] + RAISED * unit
            K = (unit - (group[:, None] == group) * np.outer(h, h / self.sizes[group])) * (price / r)
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
