"""gradKCCA: points whose kernel functions are most correlated, by gradients, without a kernel matrix.

Problem: pairs (u, v), one after the other, that maximise f(u, v) in their sets: the correlation (or HSIC) of k(X, u)
and k(Y, v), for later pairs times the shares of the two functions that earlier pairs leave (`PreimageCCA`).
Method: for each pair, and from each start (u, v), repeat

    u ← Proj(u + a ∂f/∂u),   v ← Proj(v + b ∂f/∂v);

Proj(w) is the nearest point of the set, a and b are step lengths. The best end is the pair. Variates are the values
k(X, u) of a function at the rows, centred by H and made orthogonal to the orthonormal variates Q of the pairs found:
(I − QQᵀ)H k(X, u). So later pairs are not correlated with earlier ones, whatever the kernel; X is not changed. All
starts of a pair are columns of one block, so a product with X serves all. They are pairs of columns that are related as
single variables, and some random points; each climbs by a spectral projected gradient (see
`linspec_kernel.preimage.ascent`). Where there are many rows, starts climb on 2,000 of them, and the one that is best on
all rows makes a final climb on all. An iteration takes two sweeps of each view, forward and adjoint.
Source: Uurtio, Bhadra & Rousu 2019, ICML, PMLR 97, Large-scale sparse kernel canonical correlation analysis, Algorithm
1.
Where we differ: (a) they climb from one random start after the other, and alternate: v takes the new u. (b) Their
gradient is of functions that are not centred in one of the views. (c) They bound |u|₁, which restricts nothing for the
kernels that they use, see `PreimageCCA`. (d) They deflate the data, X(I − uuᵀ/uᵀu), after which variates still
correlate.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from linspec import IterativeSolver, Run, Status, limit_option, option, tol_option
from linspec.arrays import to_host
from linspec.cost import Estimate, Sizes, sweeps_estimate
from linspec.features import drawn_rows
from linspec_kernel.iterate import Functions
from linspec_kernel.preimage.ascent import STILL, Climb, Search
from linspec_kernel.preimage.iterate import Hunt, PointPair, Points
from linspec_kernel.preimage.objectives import Objective
from linspec_kernel.preimage.starts import Screen, drawn_columns, random_points

AGREES = 0.01
"""Starts agree with the best one if their value is below it by at most this share."""

SAMPLE = 2000
"""Number of rows on which starts are compared, if there are more."""

ROUGHLY = 1e-5
"""The climb of a start ends at this relative change of the value, if a final climb (on all rows or with more
features) follows."""

RANDOM = 4
"""One of this many starts is random; the others are screened columns."""

EXPECTED = 60
"""Expected iterations of a pair, for the estimate of costs."""

SCREENED = "Starts were sought among {m} and {w} columns drawn at random, since there are many."


@dataclass(frozen=True)
class ClimbingPair:
    """Pair whose points are being searched.

    Attributes
    ----------
    is_final : bool
        True in the final climb on all rows, from the best start or a given point; False while all starts climb.
    climb : Climb
    agreeing : int
        Number of starts that led to the best value; 0 while they climb.
    """

    is_final: bool
    climb: Climb
    agreeing: int


@dataclass(frozen=True, kw_only=True)
class FromStarts(IterativeSolver):
    """Pairs of points, each found by projected gradients from many starts at once."""

    repeats: int = option(8, "starts of each pair", at_least=1, at_most=1000)
    sample: int = option(SAMPLE, "rows on which starts climb, if there are more; 0: all", at_least=0)
    tol: float | None = tol_option(1e-4)
    max_iterations: int = limit_option(10_000)

    kept: ClassVar = (Functions, PointPair, ClimbingPair, Climb)
    resumes_after_law: ClassVar[bool] = False

    def iterates(self, problem: Any, run: Run, state: Any = None) -> Iterator[Functions]:
        """Yield the pairs found and the best start of the next one, after each step."""
        hunt = PairHunt(self, problem, run, state)
        found: tuple[PointPair, ...] = ()
        now: ClimbingPair | None = None
        residual = 0.0
        if state is not None:
            found, now, residual = state["found"], state["now"], state.residual
        while len(found) < problem.k:
            if now is None:
                if found and not run.budget.affords(3.0):  # to free functions of variates, and to begin
                    break
                now = hunt.next(found)  # Q ← [Q, the last variates], and starts (u, v)
            search = hunt.exact if now.is_final else hunt.rough
            while now.climb.goes_on:
                residual = max(pair.residual for pair in (*found, now.climb.best_pair))
                yield hunt.iterate(residual, found, now, judged=False)
                now = replace(now, climb=search.stepped(now.climb))  # u ← Proj(u + a ∂f/∂u), and v likewise
            best = hunt.best(now)
            if not now.is_final and not best.residual <= run.tol and run.budget.affords(2.0):
                now = ClimbingPair(True, hunt.exact.begun(*best.points), best.agreeing)
                continue
            if not np.isfinite(best.residual):
                best = replace(best, residual=residual)
            found, now = (*found, best), None
        residual = max(pair.residual for pair in found)
        ending = Status.STAGNATED if residual > run.tol else None
        if len(found) < problem.k:
            ending = Status.BUDGET
        yield hunt.iterate(residual, found, None, judged=True, ending=ending)

    def objectives(self, problem: Any, run: Run) -> tuple[Objective, Objective]:
        """Return the objective for the climbs of all starts, and the objective for the best start's final climb."""
        return problem.value, problem.value


@dataclass(frozen=True, kw_only=True)
class GradKCCA(FromStarts):
    """Projected gradients from many starts at once (Uurtio, Bhadra & Rousu 2019; Birgin, Martínez & Raydan 2000)."""

    @classmethod
    def estimate(cls, sizes: Sizes) -> Estimate | None:
        """Estimated cost of iterations with one column on all rows, and with a block of starts on a sample."""
        one = sweeps_estimate(replace(sizes, k=1), EXPECTED * sizes.k)
        share = min(1.0, SAMPLE / max(sizes.n, 1))
        few = replace(sizes, k=8, n=min(sizes.n, SAMPLE), nnz=int(sizes.nnz * share))
        starts = sweeps_estimate(few, EXPECTED * sizes.k)
        held = 8.0 * (6.0 * sizes.n + SAMPLE * min(sizes.p + sizes.q, 2000))
        return Estimate(one.seconds + starts.seconds, one.bytes + held, f"{EXPECTED} iterations a pair")


class PairHunt(Hunt):
    """Search for pairs, one after the other: the views, the starts of a pair, and its climbs.

    Parameters
    ----------
    solver : FromStarts
    problem : PreimageCCA
    run : Run
    state : Functions or None
        Iterate from which the run continues.

    Attributes
    ----------
    rough, exact : Search
        Search from all starts (on a sample of rows if there are many), and search from the best start (on all rows).
    """

    def __init__(self, solver: FromStarts, problem: Any, run: Run, state: Any) -> None:
        super().__init__(problem, run)
        given, seeks, index = None, False, None
        if state is None:
            given = None if run.start is None else _given(run.start)
            seeks = given is None or given[0].shape[1] < problem.k
            n, count = int(problem.X.shape[0]), solver.sample or SAMPLE
            if seeks and n > count and all(view.A.access != "products" for view in self.views):
                index = drawn_rows(n, count, run.rng)
            self.beginning = {"given": given, "rows": index, "columns": None}
        else:
            self.beginning = state["beginning"]
            given, index = self.beginning["given"], self.beginning["rows"]
        self.solver, self.few = solver, self.views
        if index is not None:
            self.few = self.views[0].on(index), self.views[1].on(index)
            self.every_view = (*self.views, *self.few)
        rough, exact = solver.objectives(problem, run)
        self.is_rough = rough is not exact or (index is not None and solver.sample > 0)
        climbing = self.few if solver.sample else self.views
        self.rough = Search(climbing, rough, run.tol, ROUGHLY if self.is_rough else STILL)
        self.exact = Search(self.views, exact, run.tol, still=0.0)
        self.starts = solver.repeats if given is None else 1
        if seeks:
            width = problem.value.width
            self.beginning["columns"] = tuple(drawn_columns(view, width, run.rng) for view in self.few)
        columns = self.beginning["columns"]
        if columns is not None and any(
            len(index) < view.A.shape[1] for index, view in zip(columns, self.views, strict=True)
        ):
            run.note(None, SCREENED.format(m=len(columns[0]), w=len(columns[1])))
        if state is None:
            self.beginning["spare"] = self._starts() if seeks else self._bounded(given)
        else:
            self.resume(state)

    @cached_property
    def screen(self) -> Screen:
        """The functions of single columns: a product, where a pair without given points begins."""
        problem = self.problem
        return Screen(self.few, problem.value, problem.parities, self.beginning["columns"])

    # ---- one pair -------------------------------------------------------------------------------

    def next(self, found: Sequence[PointPair]) -> ClimbingPair:
        """Ascent of the next pair, after removing the variates of the last pair found."""
        given, j = self.beginning["given"], len(found)
        if found:
            points = found[-1].points  # u and v, for the views and again for their samples of rows
            for view, U in zip(self.every_view, (*points, *points), strict=False):
                variate = view.at(U).variates
                if view.home.norm(variate) > 0:
                    view.take_out(variate)
        if given is not None and j < given[0].shape[1]:
            U, V = self._bounded((given[0][:, j : j + 1], given[1][:, j : j + 1]))
            return ClimbingPair(True, self.exact.begun(U, V), 1)
        U, V = self._starts() if found else self.beginning["spare"]
        return ClimbingPair(False, self.rough.begun(U, V), 0)

    def best(self, now: ClimbingPair) -> PointPair:
        """Best start; its residual is infinite if starts climbed on a sample of rows or with fewer features."""
        climb, residual = now.climb, np.inf
        if now.is_final:
            return replace(climb.best_pair, agreeing=now.agreeing)
        if not self.is_rough:
            residual = climb.best_pair.residual
        elif self.run.budget.affords(3.0):  # removes chance relations of the sample, or of few features
            climb = replace(climb, values=self.exact.at(*climb.points).values)
        value = climb.best_pair.value
        agreeing = int(np.sum(climb.values >= value - AGREES * abs(value)))
        return replace(climb.best_pair, residual=residual, agreeing=agreeing)

    def _starts(self) -> Points:
        """Starts of the next pair: screened pairs of columns, and random points."""
        count, rng, views = self.solver.repeats, self.run.rng, self.views
        drawn = count // RANDOM
        U, V = random_points(views[0], drawn, rng), random_points(views[1], drawn, rng)
        related = self.screen.best(count - drawn)
        return np.hstack([related[0], U]), np.hstack([related[1], V])

    def _bounded(self, points: Any) -> Points:
        x, y = (view.bound.nearest(W) for view, W in zip(self.views, points, strict=True))
        return x, y

    def closed(self, found: Sequence[PointPair], now: ClimbingPair) -> PointPair:
        return self.best(now)


def _given(start: Mapping[str, Any]) -> Points:
    x, y = (np.asarray(to_host(start[name]), dtype=np.float64) for name in ("x_preimages", "y_preimages"))
    return x, y
