"""gradKCCA and SCCA-HSIC: points whose kernel functions depend most on each other, without a kernel matrix.

Problem: pairs (u, v), one after the other, that maximise f(u, v) in their sets: the correlation or the Hilbert-Schmidt
independence criterion (HSIC) of k(X, u) and k(Y, v), for later pairs times the shares of the two functions that earlier
pairs leave (`PreimageCCA`).
Method: for each pair, and from each start (u, v), repeat

    u ← Proj(u + a ∂f/∂u),   v ← Proj(v + b ∂f/∂v);

Proj(w) is the nearest point of the set, a and b are step lengths. The best end is the pair. Variates are the values
k(X, u) of a function at the rows, centred by H and made orthogonal to the orthonormal variates Q of the pairs found:
(I − QQᵀ)H k(X, u). So later pairs are not correlated with earlier ones, whatever the kernel; X is not changed. All
starts of a pair are columns of one block, so a product with X serves all. They are pairs of columns that are related as
single variables, and some random points. The functions k(X, eᵢ) and k(Y, eⱼ) are compared, all with all by one product.
Each start climbs by a spectral projected gradient (see
`linspec_kernel.preimage.search`). Where there are many rows, starts climb on 2,000 of them, and the one that is best on
all rows makes a final climb on all. For HSIC they climb with few features of the Gaussian kernel of a variate (see
`linspec_kernel.preimage.objectives`), and the best makes a final climb with many. An iteration takes two passes over
each view, forward and adjoint.
Source: Uurtio, Bhadra & Rousu 2019, ICML, PMLR 97, Large-scale sparse kernel canonical correlation analysis, Algorithm
1; for HSIC Uurtio, Bhadra & Rousu 2018, ICDM, doi:10.1109/ICDM.2018.00172, and Chang, Krüger, Kustra & Zhang 2013,
ICML, Canonical correlation analysis based on HSIC and centered kernel target alignment.
Where we differ: (a) they climb from one random start after the other, and alternate: v takes the new u. (b) Their
gradient is of functions that are not centred in one of the views, or of HSIC uses a part of the pairs of rows, or
Nyström features of a tenth of the rows. (c) They bound |u|₁, which restricts nothing for the kernels that they use, see
`PreimageCCA`. (d) They deflate the data, X(I − uuᵀ/uᵀu), after which variates still correlate. (e) Kernels of HSIC have
the width of the variate's standard deviation, so that the length of u does not matter, where the source takes a median
of distances, held constant in the gradient.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from linspec import limit_option, option, tol_option
from linspec.arrays import Array, HostArray
from linspec.cost import Estimate, Sizes, sweeps_estimate
from linspec.features import drawn_rows
from linspec.iteration import Context, Iterate
from linspec.solving import Solver
from linspec_kernel.preimage.objectives import HSIC
from linspec_kernel.preimage.problem import PreimageCCA
from linspec_kernel.preimage.search import (
    RISES,
    STILL,
    WAITS,
    Hunt,
    Search,
    drawn_columns,
    random_points,
    signed_columns,
    single_columns,
)

SAMPLE = 2000
"""Number of rows on which starts are compared, if there are more."""

ROUGHLY = 1e-5
"""The climb of a start ends at this relative change of the value, if a final climb (on all rows or with more
features) follows."""

EXPECTED = 60
"""Expected iterations of a pair, for the estimate of costs."""

CLIMBING_FEATURES = 16
"""Number of features of each variate with which starts climb for HSIC."""

RANDOM = 4
"""One of this many starts is random; the others are screened columns."""


@dataclass(frozen=True, kw_only=True)
class GradKCCA(Solver):
    """Projected gradients from many starts at once (Uurtio, Bhadra & Rousu 2019; Birgin, Martínez & Raydan 2000)."""

    repeats: int = option(8, "starts of each pair", at_least=1, at_most=1000)
    sample: int = option(SAMPLE, "rows on which starts climb, if there are more; 0: all", at_least=0)
    tol: float | None = tol_option(1e-4)
    max_iterations: int = limit_option(10_000)

    def iterate(self, problem: PreimageCCA, moments: Any, context: Context, start: Any) -> Iterator[Iterate]:
        """Yield the pairs found and the best start of the next one, after each step."""
        hunt = PairHunt(self, problem, moments, context, start or {})
        while (j := len(hunt.pairs)) < problem.k:
            hunt.take_out()  # Q ← [Q, the last variates]
            if j < len(hunt.start_pairs):
                pair = hunt.start_pairs[j]
            else:
                if j == len(hunt.start_pairs) and "x_climbing" in hunt.start:  # of a run that goes on
                    points = hunt.of_start("climbing")
                else:
                    drawn = self.repeats // RANDOM
                    random = random_points(moments, drawn, hunt.rng(3, j))
                    points = np.hstack([hunt.related(self.repeats - drawn), random])
                climb = yield from hunt.climbed(hunt.rough, points)
                if hunt.is_rough:  # on all rows there are no chance relations of the sample
                    sides = moments.at(climb.points)
                    values = moments.shared(problem.value, sides)
                    climb = replace(climb, values=values, residuals=values + np.inf)
                pair = climb.best_pair
            if not pair.residual <= context.tol:
                climb = yield from hunt.climbed(hunt.exact, pair.points, pair.agreeing)
                pair = replace(climb.best_pair, agreeing=pair.agreeing)
            hunt.pairs.append(pair)
        yield hunt.iterate(hunt.pairs, doubt="")

    @classmethod
    def estimate(cls, sizes: Sizes) -> Estimate:
        """Estimated cost of iterations with a few columns on all rows."""
        steps = sweeps_estimate(replace(sizes, k=4), EXPECTED * sizes.k)
        held = 8.0 * (6.0 * sizes.n + SAMPLE * min(sizes.p + sizes.q, 2000))
        return Estimate(steps.seconds, steps.bytes + held, "iterations for each pair")


class PairHunt(Hunt):
    """Search for pairs from many starts.

    Parameters
    ----------
    solver : GradKCCA
    problem, moments, context, start
        As for `Hunt`.

    Attributes
    ----------
    few : PreimageMoments
        A sample of the rows if there are many, else all.
    rough, exact : Search
        Search from all starts (on the sample), and search from the best start (on all rows).
    is_rough : bool
        Whether the former does not search for the same as the latter.
    """

    def __init__(
        self, solver: GradKCCA, problem: PreimageCCA, moments: Any, context: Context, start: Mapping[str, Any]
    ) -> None:
        super().__init__(problem, moments, context, start, solver.repeats)
        n, count, self.few = int(problem.X.shape[0]), solver.sample or SAMPLE, moments
        if len(self.start_pairs) < problem.k and n > count and all(view.A.readable for view in moments.views):
            self.few = moments.on(drawn_rows(n, count, self.rng(1)))
        climbing = self.few if solver.sample else moments
        rough = HSIC(CLIMBING_FEATURES) if problem.objective == "hsic" else problem.value
        self.is_rough = rough is not problem.value or climbing is not moments
        self.rough = Search(climbing, rough, context.tol, ROUGHLY if self.is_rough else STILL)
        self.exact = Search(moments, problem.value, context.tol, RISES, WAITS)

    @cached_property
    def screened(self) -> list[tuple[HostArray, Array]]:
        """For each view the compared single columns, and their functions: a product, which only new pairs need."""
        problem, rng = self.problem, self.rng(2)
        x, y = (drawn_columns(view, problem.value.width, rng) for view in self.few.views)
        # A sign of u matters where the kernel is neither even nor odd, unless the sign of v is free.
        signed = problem.parities[0] == 0 and problem.parities[1] != -1
        columns = signed_columns(x) if signed else 2 * x, 2 * y
        return [
            (numbers, view.at(single_columns(view, numbers)).values)
            for view, numbers in zip(self.few.views, columns, strict=True)
        ]

    def related(self, count: int) -> HostArray:
        """Points of the best pairs of columns, whose functions are compared without their parts along earlier variates.

        There are fewer than `count` if there are fewer pairs.
        """
        (x, y), ((x_columns, K), (y_columns, L)), parities = (
            self.few.views,
            self.screened,
            self.problem.parities,
        )
        P, Q = x.variates(K), y.variates(L)
        C = self.problem.value.of_all(x.centred(P), y.centred(Q), x.device)
        odd, signs = -1 in parities, np.where(C < 0, -1.0, 1.0)
        size = np.abs(C) if odd else C
        size *= np.outer(x.share(K, P), y.share(L, Q))
        best, count = np.arange(size.size), min(count, size.size)
        if count < size.size:
            best = np.argpartition(-size, count - 1, axis=None)[:count]
        best = best[np.argsort(-size.reshape(-1)[best], kind="stable")]
        i, j = np.unravel_index(best, size.shape)
        points = [single_columns(x, x_columns[i]), single_columns(y, y_columns[j])]
        if odd:
            points[parities.index(-1)] *= signs[i, j]
        return np.vstack(points)

    def take_out(self) -> None:
        """Remove the variates of the last pair found from all later ones."""
        for pair in self.pairs[-1:]:
            for moments in (self.moments,) if self.few is self.moments else (self.moments, self.few):
                for view, side in zip(moments.views, moments.at(pair.points), strict=True):
                    view.take_out(side.variates)


@dataclass(frozen=True, kw_only=True)
class SCCAHSIC(GradKCCA):
    """Projected gradients of HSIC by features of one variable (Uurtio, Bhadra & Rousu 2018)."""

    repeats: int = option(32, "starts of each pair", at_least=1, at_most=1000)
