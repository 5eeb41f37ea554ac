"""Penalties of sparse weights: the best weights within a bound, and how far others are from these.

Problem: for a vector a, maximise aᵀt over tᵀSt ≤ 1 and P(t) ≤ c. P is |t|₁, or for columns in groups g of p_g columns
Σ √p_g ‖t_g‖. All vectors are in units of their columns: S has a unit diagonal, or is the identity.
Law: with r_j the root mean square of t over the group of column j, P(t) = Σ r_j, and r_j = |t_j| without groups. The
problem is convex, so t with tᵀSt = 1 and P(t) ≤ c is best exactly if there are λ, μ ≥ 0 with

    a − λSt = μ t/r                        where r > 0,                          (1)
    rms(a − λSt) ≤ μ                       where r = 0,                          (2)
    μ (c − P(t)) = 0.                                                            (3)

The violation is the largest gap of these, in units of the largest rms(a): zero only at the best t.
Method: for S = I the best t has soft thresholds of the numbers rms(a), over their length:

    t = a/rms(a) · the unit vector nearest to rms(a) with |·|₁ ≤ c.              (4)

For others ADMM: with S = VDVᵀ, copies y of D^½Vᵀt in the unit ball and z of t with P(z) ≤ c,

    Vᵀt ← (D + I)⁻¹(D^½(y − f) + Vᵀ(a + z − g)),                                 (5)
    y ← D^½Vᵀt + f over max(1, its length),                                      (6)
    z ← t + g with each r less one number, where r is larger, such that P ≤ c,   (7)
    f ← f + D^½Vᵀt − y,     g ← g + t − z.                                       (8)

until z over its length in S violates nothing. D^½Vᵀt and t in (6) to (8) are 1.6 times these less .6 times y and z
(over-relaxation).
Source: Witten, Tibshirani & Hastie 2009, doi:10.1093/biostatistics/kxp008, Lemma 2.2 (4); Suo, Minden, Nelson,
Tibshirani & Saunders 2017, arXiv:1705.10865, section 3 (ADMM); Boyd et al. 2011, doi:10.1561/2200000016, section 3.4.3
(over-relaxation); Yuan & Lin 2006, doi:10.1111/j.1467-9868.2005.00532.x (groups).
Where we differ: the threshold of (4) is exact, where the source searches. Suo et al. linearise (5), where one
eigendecomposition serves all steps, and have a penalty in place of the bound, which is its multiplier μ. λ and μ of
a violation are the least squares of (1), or μ alone: where t has one group only, St and t/r are
parallel, and do not tell λ from μ.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from linspec.arrays import HostArray, reciprocal
from linspec.linalg import EPS, eigenpairs, nearest_in_ball, nearest_unit

STEPS = 1500
CHECKED = 20
EXACT = 1e-8
RELAXED = 1.6
"""The steps of ADMM, of all columns together, those between two checks, the violation at its end; over-relaxation."""


@dataclass(frozen=True, eq=False)
class Penalty:
    """P(t) ≤ bound for the columns of one matrix, and S = I.

    Attributes
    ----------
    bound : float
        c, infinity for none.
    index : numpy.ndarray of int, shape (p,)
        The number of the group of each column; without groups each column is one.
    """

    bound: float
    index: HostArray

    def rms(self, T: HostArray) -> HostArray:
        """The root mean square of a vector, or of each column, over the groups of rows."""
        sizes = np.bincount(self.index)
        if len(sizes) == len(self.index):
            return np.abs(T)
        sums = np.zeros((len(sizes), *T.shape[1:]))
        np.add.at(sums, self.index, T * T)
        return np.sqrt(sums.T / sizes).T[self.index]

    def best(self, A: HostArray, T: HostArray) -> HostArray:
        """The best weights for each column of A (4); zeros for zeros. T has guesses, where these are of use."""
        A = A * reciprocal(np.max(np.abs(A), axis=0))
        R = self.rms(A)
        return A * nearest_unit(R, self.bound) * reciprocal(R)

    def violation(self, a: HostArray, t: HostArray, St: HostArray) -> float:
        """How far t, which is zero or has tᵀSt = 1, is from the best weights for a."""
        a = a * reciprocal(np.max(self.rms(a)))
        r = self.rms(t)
        h = t * reciprocal(r)
        slack = 1.0 - r.sum() / self.bound
        live = h != 0
        gaps = []
        for slope, price in multipliers(a * live, St * live, h):
            left = a - slope * St
            short = np.max(np.abs(left - price * h)[live], initial=0.0)  # (1)
            long = np.max(self.rms(left)[~live] - price, initial=0.0)  # (2)
            gaps.append(max(short, long, price * slack))  # (3)
        return float(max(min(gaps), -slack))


def multipliers(a: HostArray, St: HostArray, h: HostArray) -> list[HostArray]:
    """Candidates for λ and μ of (1): least squares of both, and of μ alone; none is negative."""
    both = np.linalg.lstsq(np.column_stack([St, h]), a, rcond=None)[0]
    return [np.maximum(both, 0.0), np.array([0.0, np.maximum(a @ h, 0.0) * reciprocal(h @ h)])]


@dataclass(frozen=True, eq=False)
class MetricPenalty(Penalty):
    """P(t) ≤ bound for a matrix S that has a unit diagonal, or zeros for columns that do not vary."""

    S: HostArray

    @cached_property
    def pairs(self) -> tuple[HostArray, HostArray]:
        """The eigenvalues of S, rounding cut off, and its eigenvectors."""
        values, V = eigenpairs(self.S)
        values = np.where(values > len(values) * EPS * values[-1], values, 0.0)
        return values[:, None], V

    def best(self, A: HostArray, T: HostArray) -> HostArray:
        """The best weights for each column of A, from guesses T."""
        A = A * reciprocal(np.max(np.abs(A), axis=0))
        values, V = self.pairs
        roots = np.sqrt(values)
        free = self._unit(V @ (V.T @ A * reciprocal(values)))
        bounded = self.rms(free).sum(axis=0) > self.bound
        Z = self._nearest(T)
        Y = roots * (V.T @ Z)
        F = G = 0.0
        for step in range(1, STEPS // A.shape[1]):
            W = (roots * (Y - F) + V.T @ (A + Z - G)) / (values + 1.0)  # (5)
            F = F + RELAXED * roots * W + (1.0 - RELAXED) * Y
            G = G + RELAXED * (V @ W) + (1.0 - RELAXED) * Z
            Y = F / np.maximum(np.linalg.norm(F, axis=0), 1.0)  # (6)
            Z = self._nearest(G)  # (7)
            F = F - Y  # (8)
            G = G - Z
            if step % CHECKED == 0 and self._exact(A[:, bounded], Z[:, bounded]):
                break
        return np.where(bounded, self._unit(Z), free)

    def _exact(self, A: HostArray, Z: HostArray) -> bool:
        """Whether no column of Z, over its length, violates a condition."""
        T = self._unit(Z)
        columns = zip(A.T, T.T, (self.S @ T).T, strict=True)
        return all(self.violation(*column) <= EXACT for column in columns)

    def _unit(self, T: HostArray) -> HostArray:
        """The multiples of columns of length 1 in S."""
        return T * reciprocal(np.sqrt(np.maximum(np.sum(T * (self.S @ T), axis=0), 0.0)))

    def _nearest(self, T: HostArray) -> HostArray:
        """The nearest points with P ≤ c."""
        R = self.rms(T)
        return T * nearest_in_ball(R, self.bound) * reciprocal(R)
