"""Best weights of one side with those of the other held: maximise aᵀt over tᵀSt ≤ 1 and P(t) ≤ c.

Problem: the half steps of sparse methods, S = I (`UnitSteps`) and S a correlation matrix (`MetricSteps`).
Method: for S = I, t is a with soft thresholds over its length (Witten, Tibshirani & Hastie 2009, Algorithm 3), with the
exact threshold of `linspec.linalg.nearest_unit`. With groups the thresholds are those of the root mean squares r.
For others, ADMM: with S = VDVᵀ, copies y of D^½Vᵀt in the unit ball and z of t with P(z) ≤ c,

    Vᵀt ← (D + I)⁻¹(D^½(y − f) + Vᵀ(a + z − g)),                                 (1)
    y ← D^½Vᵀt + f over max(1, its length),     z ← the nearest point of t + g with P ≤ c,     (2)
    f ← f + D^½Vᵀt − y,     g ← g + t − z.                                       (3)

z has the zeros of the solution long before it is accurate. So every few steps Newton's method solves the conditions
of `Penalty` with these zeros, for t, λ and μ, and an exact solution ends the iteration.
Source: Suo, Minden, Nelson, Tibshirani & Saunders 2017, arXiv:1705.10865, section 3; Boyd et al. 2011,
doi:10.1561/2200000016 (ADMM).
Where we differ: the source linearises (1), where one eigendecomposition serves all steps; it has a penalty in place of
the bound c, which is its multiplier; and it has no Newton steps.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from linspec.arrays import HostArray, reciprocal
from linspec.linalg import EPS, eigenpairs, nearest_in_ball, nearest_unit
from linspec_pls.sparse.penalty import Penalty, multipliers

STEPS, TRIES, NEWTON = 2000, 20, 12
"""The largest number of steps of ADMM, the steps between two tries of Newton's method, and its iterations."""

EXACT = 1e-10
"""The violation up to which a solution is exact."""


class UnitSteps(NamedTuple):
    """Half steps with S = I."""

    penalty: Penalty

    def best(self, A: HostArray, T: HostArray | None) -> HostArray:
        """The best weights for each column of A, of any length."""
        A = A * reciprocal(np.max(np.abs(A), axis=0))
        R = self.penalty.rms(A)
        return A * nearest_unit(R, self.penalty.bound) * reciprocal(R)

    def image(self, T: HostArray) -> HostArray:
        """S T."""
        return T


@dataclass(frozen=True, eq=False)
class MetricSteps:
    """Half steps with a matrix S that has a unit diagonal, or zeros for columns that do not vary."""

    penalty: Penalty
    S: HostArray

    def image(self, T: HostArray) -> HostArray:
        """S T."""
        return self.S @ T

    @cached_property
    def pairs(self) -> tuple[HostArray, HostArray]:
        """The eigenvalues of S, rounding cut off, and its eigenvectors."""
        values, V = eigenpairs(self.S)
        return np.where(values > len(values) * EPS * values[-1], values, 0.0), V

    def best(self, A: HostArray, T: HostArray | None) -> HostArray:
        """The best weights for each column of A; T has guesses."""
        A = A * reciprocal(np.max(np.abs(A), axis=0))
        starts = self._free(A) if T is None else T
        return np.column_stack([self._best(a, t) for a, t in zip(A.T, starts.T, strict=True)])

    def _free(self, A: HostArray) -> HostArray:
        """The best weights without a bound: S⁺A, of length 1 in S."""
        values, V = self.pairs
        T = V @ ((V.T @ A) * reciprocal(values)[:, None])
        return T * reciprocal(np.sqrt(np.sum(A * T, axis=0)))

    def _best(self, a: HostArray, guess: HostArray) -> HostArray:
        """The best weights for a."""
        free = self._free(a[:, None])
        if not a.any() or self.penalty.rms(free).sum() <= self.penalty.bound:
            return free[:, 0]
        values, V = self.pairs
        roots, z = np.sqrt(values), self._within(guess)
        y, f, g = roots * (V.T @ z), np.zeros(len(values)), np.zeros(len(values))
        for step in range(STEPS):
            if step % TRIES == 0 and (exact := self._exact(a, z)) is not None:
                return exact
            t = (roots * (y - f) + V.T @ (a + z - g)) / (values + 1.0)  # (1)
            image, t = roots * t, V @ t
            y = image + f
            y = y / max(1.0, float(np.linalg.norm(y)))  # (2)
            z = self._within(t + g)
            f, g = f + image - y, g + t - z  # (3)
        return self._unit(z)

    def _unit(self, t: HostArray) -> HostArray:
        """The multiple of t of length 1 in S."""
        return t * float(reciprocal(np.sqrt(max(t @ self.S @ t, 0.0))))

    def _within(self, t: HostArray) -> HostArray:
        """The nearest point with P ≤ c: r less one number where it is larger."""
        r = self.penalty.rms(t[:, None])
        return t * (nearest_in_ball(r, self.penalty.bound) * reciprocal(r))[:, 0]

    def _exact(self, a: HostArray, z: HostArray) -> HostArray | None:
        """The solution with the zeros of z by Newton's method, if there is one."""
        live = z != 0
        if not live.any():
            return None
        S, index, t = self.S[np.ix_(live, live)], self.penalty.index[live], self._unit(z)[live]
        same, sizes = index[:, None] == index, self.penalty.sizes[index]
        slope, price = multipliers(a[live], S @ t, t / np.sqrt(same @ (t * t) / sizes))[0]
        for _ in range(NEWTON):
            r = np.sqrt(same @ (t * t) / sizes)
            h, image = t / r, S @ t
            gaps = [
                a[live] - slope * image - price * h,
                [(1 - t @ image) / 2],
                [self.penalty.bound - r.sum()],
            ]
            curved = price * (np.diag(1 / r) - same * np.outer(h, h) / (sizes * r))
            edge = np.column_stack([image, h])
            K = np.block([[slope * S + curved, edge], [edge.T, np.zeros((2, 2))]])
            change = np.linalg.lstsq(K, np.concatenate(gaps), rcond=None)[0]
            t, slope, price = t + change[:-2], slope + change[-2], price + change[-1]
            if not (np.isfinite(t).all() and t.all()):
                return None
            if np.max(np.abs(change)) <= EXACT * np.max(np.abs(t)):
                break
        whole = np.zeros_like(z)
        whole[live] = t
        whole = self._unit(whole)
        return whole if self.penalty.violation(a, whole, self.S @ whole) <= EXACT else None
