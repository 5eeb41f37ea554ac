"""The search for pairs of points, one after the other: its starts, and what all of its solvers have in common.

Problem: the objective has many stationary points, and from random starts in many columns a search ends at chance ones.
A run that goes on should search as the one before, and begin no climb anew.
Method: single columns are the sparsest points. Their functions are compared, and the best are starts, besides a few
random points. Everything random is drawn from one seed and the number of a pair. The arrays of an iterate are the
points, the seed, and the points of all starts while these climb.
Source: screening by single pairs, Fan & Lv 2008, J. R. Stat. Soc. B 70(5), doi:10.1111/j.1467-9868.2008.00674.x.
Where we differ: Uurtio, Bhadra & Rousu 2019 begin at random points with entries from 0 to 1.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from linspec.arrays import Array, HostArray, to_host
from linspec.iteration import Context, Iterate
from linspec_kernel.preimage.ascent import Climb, PointPair, Points, Search
from linspec_kernel.preimage.views import PreimageMoments, PreimageView

ENDED = "The search had not ended: other points may have larger values."


class Hunt:
    """Search for pairs, one after the other.

    Parameters
    ----------
    problem : PreimageCCA
    moments : PreimageMoments
    context : Context
    start : mapping of str to array
        Arrays of a run that goes on, or of an earlier answer; may be empty.
    repeats : int
        Number of starts of each pair.

    Attributes
    ----------
    views : pair of PreimageView
    kernels : pair of Kernel
        Kernels with all their numbers.
    found : list of PointPair
    given : list of PointPair
        Pairs that `start` has, with residuals that are not known.
    spare : pair of numpy.ndarray of shape (p, k), (q, k)
        Points of both views for pairs that are not found.
    extra : dict of str to array
        More that a later run needs.
    """

    def __init__(
        self,
        problem: Any,
        moments: PreimageMoments,
        context: Context,
        start: Mapping[str, Array],
        repeats: int,
    ) -> None:
        self.problem, self.context, self.start, self.repeats = problem, context, start, repeats
        self.starts = int(start.get("starts", 1 if start else repeats))
        self.seed = int(start["seed"]) if "seed" in start else int(context.rng.integers(2**62))
        rng = self.rng(0)
        self.kernels = moments.settle(rng)
        self.views = moments.views
        self.found, self.given = list[PointPair](), list[PointPair]()
        x, y = (random_points(view, problem.k, rng) for view in moments.views)
        if start:
            U, V = self.of_start("preimages")
            counts = start.get("agreeing", np.ones(U.shape[1]))
            given = min(problem.k, int(np.count_nonzero(counts)))
            self.given = [
                PointPair((U[:, [j]], V[:, [j]]), 0.0, np.inf, int(counts[j])) for j in range(given)
            ]
            x, y = (np.hstack([W, R[:, W.shape[1] :]]) for W, R in ((U, x), (V, y)))
        self.spare: Points = (x, y)

    def of_start(self, what: str) -> Points:
        """Points of the start, moved into their sets."""
        arrays = self.start[f"x_{what}"], self.start[f"y_{what}"]
        x, y = (view.bound.nearest(to_host(W)) for view, W in zip(self.views, arrays, strict=True))
        return x, y

    def climbing(self, j: int) -> Points | None:
        """Where the starts of pair j are, in a run that goes on while they climb."""
        return self.of_start("climbing") if j == len(self.given) and "x_climbing" in self.start else None

    def rng(self, *numbers: int) -> np.random.Generator:
        """Random numbers of one purpose."""
        return np.random.default_rng([self.seed, *numbers])

    def climbed(self, search: Search, points: Points, agreeing: int = 0) -> Generator[Iterate, None, Climb]:
        """Climb from these points; yield the pairs found and the best of these, after each step."""
        climb = search.begun(*points)
        while climb.goes_on:
            best = replace(climb.best_pair, agreeing=agreeing)
            yield self.iterate((*self.found, best), None if agreeing else climb.points)
            climb = search.stepped(climb)
        return climb

    def iterate(self, pairs: Sequence[PointPair], climbing: Points | None = None, **how: Any) -> Iterate:
        """Iterate of these pairs."""
        residual = max((pair.residual for pair in pairs), default=0.0)
        return Iterate(residual, partial(self.arrays, tuple(pairs), climbing), **{"doubt": ENDED, **how})

    def arrays(self, pairs: Sequence[PointPair], climbing: Points | None) -> dict[str, Array]:
        """The pairs, with spare points in place of those not yet found, and what a later run needs."""
        m = len(pairs)
        k = self.problem.k
        x, y = (np.hstack([*(pair.points[i] for pair in pairs), self.spare[i][:, m:k]]) for i in (0, 1))
        agreeing = np.zeros(k, dtype=np.int64)
        agreeing[:m] = [pair.agreeing for pair in pairs]
        found = {"x_preimages": x, "y_preimages": y, "agreeing": agreeing, "starts": np.asarray(self.starts)}
        if climbing is not None:
            found |= {"x_climbing": climbing[0], "y_climbing": climbing[1]}
        return {**found, "seed": np.asarray(self.seed)}


COLUMNS = 1000
"""Largest number of columns of a view that are compared; if a view has more, this many are drawn at random."""

NUMBERS = 2**25
"""Largest number of values of functions that are held for the comparison."""

RANDOM = 4
"""One of this many starts is random; the others are screened columns."""


def random_points(view: PreimageView, count: int, rng: Any) -> HostArray:
    """Points of the set nearest to random normal directions."""
    return view.bound.nearest(rng.standard_normal((view.A.shape[1], count)) * view.bound.radius)


def drawn_columns(view: PreimageView, width: int, rng: Any) -> HostArray:
    """Indices of the columns of a view that are compared, of which each has `width` functions."""
    n, p = (int(size) for size in view.A.shape)
    most = max(min(COLUMNS, NUMBERS // max(n, 1)) // width, 1)
    return np.arange(p) if p <= most else np.sort(rng.choice(p, most, replace=False))


def signed_columns(index: HostArray) -> HostArray:
    """Columns with both signs: each is numbered by twice its index, plus one for the sign −1."""
    return np.concatenate([2 * index, 2 * index + 1])


def single_columns(view: PreimageView, chosen: HostArray) -> HostArray:
    """Points with one nonzero entry, ±b, in columns that are numbered as by `signed_columns`."""
    U = np.zeros((int(view.A.shape[1]), len(chosen)))
    U[chosen // 2, np.arange(len(chosen))] = np.where(chosen % 2, -1.0, 1.0)
    return view.bound.radius * U
