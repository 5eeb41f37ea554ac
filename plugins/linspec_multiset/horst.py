"""SUMCOR by Horst's iteration from many starts.

Problem: maximise uᵀMu/2 over u whose blocks uᵢ have length 1 (`linspec_multiset.sumcor`); the maxima are many.
Method: one pass forms the Gram matrices. One step replaces uᵢ by block i of Mu, scaled to length 1, for one view after
the other with what is new: the best weights of a view with the others held. So no step lowers the sum. All starts are
iterated together. The starts are drawn at random, and one is the leading eigenvector of M, which is that of MAXVAR;
the best end is returned, and the next component is sought outside of it. Where its sum is larger, the earlier component
was not the best: it is sought again from there.
Source: Horst 1961, doi:10.1007/BF02289707; the Gauss-Seidel order, and its limits, Chu & Watterson 1993,
doi:10.1137/0914066, algorithm 3.2.
Where we differ: the matrix has zeros on its diagonal, so that a step is exact for its view; starts.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from linspec import Status, limit_option, option
from linspec.arrays import HostArray, reciprocal
from linspec.cost import CHOLESKY_RATE, FACTOR_RATE, Estimate, Sizes
from linspec.iteration import Context, Iterate
from linspec.linalg import leading_eigenpairs
from linspec.process import pause
from linspec.rows import Moments
from linspec.solving import Solver
from linspec_multiset.pencil import forming, slices_of
from linspec_multiset.sumcor import SumcorCCA, most_components, whitened

SETTLED = 0.01
"""A start has ended if its residual is below this fraction of the tolerance."""

ALIKE = 1e-6
"""Ends with this relative difference of their sums count as one."""


@dataclass(frozen=True, kw_only=True)
class Horst(Solver):
    """Horst's iteration in the order of Gauss and Seidel from many starts (Chu & Watterson 1993)."""

    starts: int = option(20, "starts of each component, one of them that of MAXVAR", at_least=1)
    max_iterations: int = limit_option(2000, "steps of each component")

    def iterate(
        self, problem: SumcorCCA, moments: Moments, context: Context, start: Any
    ) -> Iterator[Iterate]:
        """Yield the components; the first iterate has all of them."""
        pencil, metrics, M = whitened(problem, moments)
        slices = slices_of(metrics)
        components = np.zeros((len(M), 0))
        agreeing, sums, extra, cut = list[int](), list[float](), components, False
        most = most_components(problem.k, metrics)
        while components.shape[1] < most:
            outside = _outside(_outside(M, components, slices).T, components, slices)
            first = leading_eigenpairs(outside, 1)[1]
            drawn = np.hstack([first, context.rng.standard_normal((len(M), self.starts - 1))])
            u = _outside(drawn, components, slices)
            u = np.concatenate([u[view] * reciprocal(np.linalg.norm(u[view], axis=0)) for view in slices])
            u = np.hstack([u, extra])
            u, value, settled = self._ascended(M, u, components, slices, SETTLED * context.tol)
            best = int(np.argmax(value))
            if sums and value[best] > sums[-1] * (1 + ALIKE):
                components = components[:, :-1]
                extra = u[:, best : best + 1]
                del sums[-1], agreeing[-1]
                continue
            cut = cut or not settled[best]
            agreeing.append(int(np.sum(value >= value[best] * (1 - ALIKE))))
            sums.append(float(value[best]))
            components = np.hstack([components, u[:, best : best + 1]])
            extra = u[:, :0]
        if cut:
            context.note(Status.ITERATION_LIMIT, Status.ITERATION_LIMIT.value)
        answer = {
            "weights": pencil.split(components, metrics),
            "starts": self.starts,
            "agreeing": np.array(agreeing, dtype=np.float64),
        }
        yield Iterate(0.0, lambda: answer, final=True)

    def _ascended(
        self, M: HostArray, u: HostArray, components: HostArray, slices: list[slice], tol: float
    ) -> tuple[HostArray, HostArray, HostArray]:
        """Iterate all columns until none moves; return them, their sums, and which have settled."""
        settled = np.zeros(u.shape[1], dtype=bool)
        for _ in range(self.max_iterations):
            active = np.flatnonzero(~settled)
            if not len(active):
                break
            pause()
            v = u[:, active]
            gap, total = np.zeros(len(active)), np.zeros(len(active))
            for view in slices:
                g = M[view] @ v
                Q = components[view]
                g = g - Q @ (Q.T @ g)
                length = np.linalg.norm(g, axis=0)
                gap += np.linalg.norm(g - v[view] * length, axis=0) ** 2
                total += length
                v[view] = np.where(length > 0, g * reciprocal(length), v[view])
            u[:, active] = v
            settled[active] = np.sqrt(gap) <= tol * total
        return u, np.sum(u * (M @ u), axis=0) / 2, settled

    @classmethod
    def estimate(cls, sizes: Sizes) -> Estimate:
        """Estimated cost of the Gram matrices, their factors, and some hundreds of steps from each start."""
        side = float(sizes.p + sizes.q)
        seconds = forming(sizes) + side**3 * (1.0 / CHOLESKY_RATE + 8.0 * sizes.k / FACTOR_RATE)
        return Estimate(seconds, 8.0 * 5.0 * side**2, "Gram matrices and steps")


def _outside(u: HostArray, components: HostArray, slices: list[slice]) -> HostArray:
    """Subtract the part of each view along its components."""
    parts = [u[view] - components[view] @ (components[view].T @ u[view]) for view in slices]
    return np.concatenate(parts)
