"""gradKCCA: points whose kernel functions are most correlated, by gradients, without a kernel matrix.

Problem: pairs (u, v), one after the other, that maximise the correlation (or HSIC) of k(X, u) and k(Y, v) in their
sets.
Method: all starts of a pair are columns of one block, so a product with X serves all. They are pairs of columns that
are related by themselves, and some random points; each climbs by a spectral projected gradient (see
`linspec_kernel.preimage.ascent`). Where there are many rows, starts climb on 2,000 of them, and what is best on all
rows is polished on all. The variates of a pair are subtracted from those of the next: K is replaced by (I − QQᵀ)HK,
whatever the kernel, and X stays as it is. An iteration takes two sweeps of each view, forward and adjoint.
Source: Uurtio, Bhadra & Rousu 2019, ICML, PMLR 97, Large-scale sparse kernel canonical correlation analysis.
Where we differ: (a) they climb from one random start after the other, and alternate between u and v. (b) Their
gradient is of functions that are not centred in one of the views. (c) They bound |u|₁, which restricts nothing for the
kernels that they use, see `PreimageCCA`. (d) They deflate the data, X(I − uuᵀ/uᵀu), after which variates still
correlate.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from linspec import Run, Solution, Solver, Status, limit_option, option, tol_option
from linspec.arrays import HostArray, to_host
from linspec.cost import Estimate, Sizes, sweeps_estimate
from linspec_kernel.moments import rounded_up
from linspec_kernel.preimage.ascent import STILL, Ended, Search
from linspec_kernel.preimage.objectives import Objective
from linspec_kernel.preimage.starts import Screen, random_points
from linspec_kernel.preimage.views import View

AGREES = 0.01
"""Starts whose value is below the best by at most this share of it agree."""

SAMPLE = 2000
"""Rows on which starts are compared, if there are more."""

ROUGHLY = 1e-5
"""Relative changes of the value that end a start that is polished afterwards, on other rows or with more features."""

RANDOM = 4
"""Of so many screened starts one is random."""

EXPECTED = 60
"""Iterations of a pair, when "auto" compares solvers."""

SCREENED = "Starts were sought among {m} and {w} columns drawn at random, since there are many."


@dataclass(frozen=True, kw_only=True)
class FromStarts(Solver):
    """Pairs of points, each found by projected gradients from many starts at once."""

    repeats: int = option(8, "starts of each pair", at_least=1, at_most=1000)
    sample: int = option(SAMPLE, "rows on which starts climb, if there are more; 0: all", at_least=0)
    tol: float | None = tol_option(1e-4)
    max_iterations: int = limit_option(10_000)

    def solve(self, problem: Any, run: Run) -> Solution:
        """Solve a preimage CCA problem."""
        moments: Any = run.moments("implicit")
        n, given = int(problem.X.shape[0]), _given(run.start)
        seeks = given is None or given[0].shape[1] < problem.k
        rows = self.sample or SAMPLE
        few = seeks and n > rows and all(A.access != "products" for A in (problem.X, problem.Y))
        # Numbers of kernels, the rows of starts, the columns that are compared, and the first gradient.
        streamed = any(view.A.streamed for view in moments.views)
        reading = few * (1.0 if streamed else rounded_up(rows / n))
        screening = float(seeks and not few)
        run.plan(setup=moments.setup_cost + reading + screening + 2.0)
        kernels = moments.settle(run.rng)
        objectives = self.objectives(problem, run)
        climb = Climb(self, problem, run, kernels, objectives, rows if few else None, given)
        climb.every_pair()
        return run.finish(**climb.answer())

    def objectives(self, problem: Any, run: Run) -> tuple[Objective, Objective]:
        """What starts climb, and what the best of them is polished by."""
        return problem.value, problem.value


@dataclass(frozen=True, kw_only=True)
class GradKCCA(FromStarts):
    """Projected gradients from many starts at once (Uurtio, Bhadra & Rousu 2019; Birgin, Martínez & Raydan 2000)."""

    @classmethod
    def estimate(cls, sizes: Sizes) -> Estimate | None:
        """The estimate for iterations with a column on all rows, and with a block of starts on some of them."""
        one = sweeps_estimate(replace(sizes, k=1), EXPECTED * sizes.k)
        share = min(1.0, SAMPLE / max(sizes.n, 1))
        few = replace(sizes, k=8, n=min(sizes.n, SAMPLE), nnz=int(sizes.nnz * share))
        starts = sweeps_estimate(few, EXPECTED * sizes.k)
        held = 8.0 * (6.0 * sizes.n + SAMPLE * min(sizes.p + sizes.q, 2000))
        return Estimate(one.seconds + starts.seconds, one.bytes + held, f"{EXPECTED} iterations a pair")


class Climb:
    """The pairs found so far, and the search of the next.

    Parameters
    ----------
    solver : FromStarts
    problem : PreimageCCA
    run : Run
    kernels : pair of Kernel
        With all their numbers.
    objectives : pair of Objective
        What starts climb, and what the best of them is polished by.
    rows : int or None
        On how many rows starts are compared; None: on all.
    given : pair of numpy.ndarray or None
        Points to begin at, one column for each pair.

    Attributes
    ----------
    found : list of (numpy.ndarray, numpy.ndarray)
        Points u and v of the pairs that are done.
    residual : float
        The largest residual of these and of the pair at hand.
    is_over : bool
        Whether `run.proceed` has said so.
    """

    def __init__(
        self,
        solver: FromStarts,
        problem: Any,
        run: Run,
        kernels: Any,
        objectives: tuple[Objective, Objective],
        rows: int | None,
        given: tuple[HostArray, HostArray] | None,
    ) -> None:
        self.solver, self.problem, self.run, self.kernels, self.given = solver, problem, run, kernels, given
        self.rough, self.exact = objectives
        self.views: tuple[View, View] = run.moments("implicit").views  # type: ignore[attr-defined]
        self.few = self.views
        if rows is not None:
            index = np.sort(run.rng.choice(int(problem.X.shape[0]), rows, replace=False))
            self.few = (self.views[0].on(index), self.views[1].on(index))
        self.found: list[tuple[HostArray, HostArray]] = []
        self.residuals: list[float] = []
        self.agreeing: list[int] = []
        self.residual, self.is_over = 0.0, False
        self.at_hand: tuple[HostArray, HostArray] | None = None
        self.screen: Screen | None = None
        seeks = given is None or given[0].shape[1] < problem.k
        if seeks:
            self.screen = Screen(self.few, problem.value, problem.parities, run.rng)
            if self.screen.is_partial:
                m, w = (len(index) for index in self.screen.columns)
                run.note(None, SCREENED.format(m=m, w=w))
        self.spare = self._starts() if seeks else self._bounded(given)

    def every_pair(self) -> None:
        """Find one pair after the other, and bring the run to its end."""
        run, k = self.run, self.problem.k
        for j in range(k):
            # A product to take variates out, and the first gradient.
            if run.ended or (j and not run.affords(3.0)):
                break
            self.pair(j)
        if not run.ended and len(self.found) < k:
            run.end(Status.BUDGET)
        elif not run.ended and self.residual > run.tol:
            run.end(Status.STAGNATED)
        if not self.is_over:
            run.proceed(residual=self.residual, current=self.answer)

    # ---- one pair -------------------------------------------------------------------------------

    def pair(self, j: int) -> None:
        """Find the next pair."""
        if j:
            self._take_out()
        if self.given is not None and j < self.given[0].shape[1]:
            points, agreeing = self._bounded((self.given[0][:, j : j + 1], self.given[1][:, j : j + 1])), 1
            ended = None
        else:
            ended = self._from_starts(self.spare if j == 0 else self._starts())
            if self.is_rough and self.run.affords(
                3.0
            ):  # chance relations of some rows, or of few features, end here
                ended.values = self._search(self.views, self.exact).at(*ended.points).values
            best = ended.best
            points = ended.points[0][:, [best]], ended.points[1][:, [best]]
            value = ended.values[best]
            agreeing = int(np.sum(ended.values >= value - AGREES * abs(value)))
            if self.is_rough:
                ended = None
            else:
                self.residual = max([*self.residuals, float(ended.residuals[best])])
        done = ended is not None and float(ended.residuals[ended.best]) <= self.run.tol
        if not self.is_over and not done and self.run.affords(2.0):
            polished = self._climbed(self.views, self.exact, points, still=0.0)
            points, residual = polished.points, float(polished.residuals[0])
        else:
            residual = float(ended.residuals[ended.best]) if ended is not None else np.inf
        self.at_hand = None
        self.found.append(points)
        self.residuals.append(residual if np.isfinite(residual) else self.residual)
        self.agreeing.append(agreeing)
        self.residual = max(self.residuals)

    @property
    def is_rough(self) -> bool:
        """Whether starts climb on some of the rows, or by another objective than the one that counts."""
        return self.rough is not self.exact or (self.few is not self.views and self.solver.sample > 0)

    def _from_starts(self, starts: tuple[HostArray, HostArray]) -> Ended:
        """All starts climbed, on some of the rows if that is wanted."""
        views = self.few if self.solver.sample else self.views
        still = ROUGHLY if self.is_rough else STILL
        return self._climbed(views, self.rough, starts, still)

    def _climbed(
        self,
        views: tuple[View, View],
        objective: Objective,
        points: tuple[HostArray, HostArray],
        still: float = STILL,
    ) -> Ended:
        return self._search(views, objective).spectral(*points, still=still)

    def _search(self, views: tuple[View, View], objective: Objective) -> Search:
        return Search(views, objective, self.run.tol, self._proceed)

    def _proceed(self, ended: Ended) -> bool:
        """Tell the run of the best column, and ask whether to go on."""
        best = ended.best
        self.at_hand = ended.points[0][:, [best]], ended.points[1][:, [best]]
        self.residual = max([*self.residuals, float(ended.residuals[best])])
        self.is_over = not self.run.proceed(residual=self.residual, current=self.answer, judged=False)
        return not self.is_over

    def _starts(self) -> tuple[HostArray, HostArray]:
        """Where to look for the next pair."""
        count, rng, views = self.solver.repeats, self.run.rng, self.views
        drawn = count // RANDOM
        U, V = random_points(views[0], drawn, rng), random_points(views[1], drawn, rng)
        assert self.screen is not None  # noqa: S101 (it is made where anything is sought)
        related = self.screen.best(count - drawn)
        return np.hstack([related[0], U]), np.hstack([related[1], V])

    def _bounded(self, points: Any) -> tuple[HostArray, HostArray]:
        x, y = (view.bound.nearest(W) for view, W in zip(self.views, points, strict=True))
        return x, y

    def _take_out(self) -> None:
        """Free what follows of the pair found last."""
        points = self.found[-1]
        for views in {id(views): views for views in (self.views, self.few)}.values():
            for view, U in zip(views, points, strict=True):
                variate = view.at(U).variates
                if view.home.norm(variate) > 0:
                    view.take_out(variate)

    # ---- the answer -----------------------------------------------------------------------------

    def answer(self) -> dict[str, Any]:
        """The pairs so far, and starts in place of those that are still to be found."""
        pairs = [*self.found, *([] if self.at_hand is None else [self.at_hand])][: self.problem.k]
        rest = self.problem.k - len(pairs)
        points = []
        for i, view in enumerate(self.views):
            columns = [pair[i] for pair in pairs] + [self.spare[i][:, len(pairs) : len(pairs) + rest]]
            points.append(view.home.place(np.hstack(columns)))
        agreeing = np.asarray([*self.agreeing, *[0] * self.problem.k], dtype=np.int64)[: points[0].shape[1]]
        return {
            "x_preimages": points[0],
            "y_preimages": points[1],
            "starts": self.solver.repeats if self.given is None else 1,
            "agreeing": agreeing,
            "kernels": self.kernels,
        }


def _given(start: Mapping[str, Any] | None) -> tuple[HostArray, HostArray] | None:
    if start is None:
        return None
    x, y = (np.asarray(to_host(start[name]), dtype=np.float64) for name in ("x_preimages", "y_preimages"))
    return x, y
