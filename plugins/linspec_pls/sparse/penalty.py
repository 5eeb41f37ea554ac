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
from linspec.linalg import nearest_in_ball, nearest_unit

NEWTON = 10
ROUNDS = 8
ADMM_STEPS = 20
RELAXED = 1.6
EXACT = 1e-9
"""Steps of Newton's method, rounds of it and of ADMM, its steps in a round, over-relaxation, the violation at the end."""

LOOSE, TINY = 1e100, 1e-300
"""A bound that no weights reach; in place of 0 below a fraction whose numerator is 0, too."""


@dataclass(frozen=True, eq=False)
class Penalty:
    """P(t) ≤ bound for the columns of one matrix, and S = I.

    Attributes
    ----------
    bound : float
        c, at most `LOOSE`.
    index : numpy.ndarray of int, shape (p,)
        The number of the group of each column; without groups each column is one.
    """

    bound: float
    index: HostArray

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

    def dual(self, g: HostArray) -> HostArray:
        """Numbers whose length is that of g in S⁻¹."""
        return g

    def violation(self, a: HostArray, t: HostArray, St: HostArray) -> float:
        """How far aᵀt is below what is proved of the best weights, relative to it; t is within both bounds."""
        if not a.any():
            return 0.0
        a = a / np.max(np.abs(a))
        length = np.sqrt(t @ St)
        value = a @ t
        slopes = np.array([0.0, value / length**2, multipliers(a, St, t / np.maximum(self.rms(t), TINY))[0]])
        left = a[:, None] - St[:, None] * slopes
        most = slopes * length + self.bound * np.max(self.rms(left), axis=0)  # (1)
        free = value / length + np.linalg.norm(self.dual(left[:, 1]))  # (2)
        return float(np.nan_to_num(min(free, most.min()) / value - 1.0, nan=1.0))


def multipliers(a: HostArray, St: HostArray, h: HostArray) -> HostArray:
    """λ and μ of (3) by least squares; none is negative."""
    live = h != 0
    pair = np.column_stack([St[live], h[live]])
    return np.maximum(np.linalg.lstsq(pair, a[live], rcond=None)[0], 0.0)


@dataclass(frozen=True, eq=False)
class MetricPenalty(Penalty):
    """P(t) ≤ bound for a matrix S that has a unit diagonal, or zeros for columns that do not vary.

    Attributes
    ----------
    S : numpy.ndarray of shape (p, p)
    metric : Metric
        Of the columns as they are.
    d : numpy.ndarray of shape (p,)
        The units of the columns.
    """

    S: HostArray
    metric: Metric
    d: HostArray

    @cached_property
    def factors(self) -> tuple[HostArray, HostArray]:
        """R and (S + I)⁻¹."""
        unit = np.eye(len(self.d))
        return self.metric.coordinates(unit * reciprocal(self.d)), np.linalg.inv(self.S + unit)

    def dual(self, g: HostArray) -> HostArray:
        return self.metric.dual(self.d * g)

    def best(self, A: HostArray, T: HostArray) -> HostArray:
        """The best weights for each column of A, from guesses T."""
        A = A * reciprocal(np.max(np.abs(A), axis=0))
        return np.column_stack([self._best(*pair) for pair in zip(A.T, T.T, strict=True)])

    def _best(self, a: HostArray, t: HostArray) -> HostArray:
        """The best weights for a, from a guess."""
        free = self.d * self.metric.lift(self.dual(a))
        free = free / max(np.linalg.norm(self.dual(a)), TINY)
        if self.rms(free).sum() <= self.bound:  # (5)
            return self._scaled(free)
        r = self.rms(a)
        alone = self._scaled(a * (r == r.max()))
        if self.rms(alone).sum() >= self.bound * (1.0 - EXACT):
            return alone
        R, inverse = self.factors
        z, y = t, R @ t
        f, g = 0.0 * y, 0.0 * t
        for _ in range(ROUNDS):
            found = self._newton(a, z)
            if found is not None:
                return found
            for _ in range(ADMM_STEPS):
                w = inverse @ (R.T @ (y - f) + a + z - g)  # (7)
                f = f + RELAXED * (R @ w) + (1.0 - RELAXED) * y
                g = g + RELAXED * w + (1.0 - RELAXED) * z
                y = f / max(np.linalg.norm(f), 1.0)  # (8)
                r = self.rms(g)
                z = g * nearest_in_ball(r[:, None], self.bound)[:, 0] / np.maximum(r, TINY)  # (9)
                f, g = f - y, g - z  # (10)
        return self._scaled(z)

    def _newton(self, a: HostArray, t: HostArray) -> HostArray | None:
        """The best weights for a by Newton's method from t; None if it ends elsewhere."""
        w = t * (a @ t)
        price = self.rms(a - self.S @ w).max()
        for _ in range(NEWTON):
            live = np.flatnonzero(w)
            if not len(live):
                return None
            r = self.rms(w)[live]
            h = w[live] / r
            group = self.index[live]
            K = np.diag(price / r) - (group[:, None] == group) * np.outer(h, h * price / r / self.sizes[group])
            S = self.S[np.ix_(live, live)]
            try:
                pair = np.linalg.solve(S + K, np.column_stack([a[live], h]))
            except np.linalg.LinAlgError:
                return None
            (xx, xy), (_, yy) = pair.T @ S @ pair
            px, py = h @ pair
            c = self.bound**2
            A, B, C = py * py - c * yy, px * py - c * xy, px * px - c * xx
            roots = (B + np.array([-1.0, 1.0]) * np.sqrt(B * B - A * C)) / A  # (6)
            price = roots[(px - roots * py > 0) & (roots > 0)].min(initial=np.inf)
            if not price < np.inf:
                return None
            w = 0.0 * w
            w[live] = pair @ [1.0, -price]
            v = w + a - self.S @ w
            before, w = w, v * np.maximum(1.0 - price / np.maximum(self.rms(v), TINY), 0.0)
            t = self._scaled(w)
            if np.abs(w - before).max() <= EXACT and t @ (self.S @ t) >= 1.0 - EXACT:
                return t
        return None

    def _scaled(self, t: HostArray) -> HostArray:
        """The multiple of t that reaches a bound."""
        length = np.sqrt(max(t @ (self.S @ t), 0.0))
        return t / max(length, self.rms(t).sum() / self.bound, TINY)
