"""The search for pairs of points, one after the other: what all of its solvers have in common.

Problem: a run that goes on should search as the one before, and begin no climb anew.
Method: everything random is drawn from one seed and the number of a pair. The arrays of an iterate are the points, the
seed, and the points of all starts while these climb.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from linspec.arrays import Array
from linspec.iteration import Context, Iterate
from linspec_kernel.preimage.ascent import Climb, PointPair, Points, Search
from linspec_kernel.preimage.starts import random_points
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
    starts : int
        Number of starts of each pair.

    Attributes
    ----------
    views : pair of PreimageView
    every_view : sequence of PreimageView
        The views, and their samples of rows if there are any.
    kernels : pair of Kernel
        Kernels with all their numbers.
    found : list of PointPair
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
        starts: int,
    ) -> None:
        self.problem, self.context, self.start, self.starts = problem, context, start, starts
        self.seed = int(start["seed"]) if "seed" in start else int(context.rng.integers(2**62))
        rng = self.rng(0)
        self.kernels = moments.settle(rng)
        self.views = moments.views
        self.every_view: Sequence[PreimageView] = moments.views
        self.found: list[PointPair] = []
        x, y = (random_points(view, problem.k, rng) for view in moments.views)
        self.spare: Points = (x, y)
        self.extra: dict[str, Array] = {}

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
        """Iterate of these pairs, and of the points of starts that climb."""
        residual = max((pair.residual for pair in pairs), default=0.0)
        return Iterate(residual, partial(self.arrays, tuple(pairs), climbing), **{"doubt": ENDED, **how})

    def arrays(self, pairs: Sequence[PointPair], climbing: Points | None) -> dict[str, Array]:
        """The pairs, with spare points in place of those not yet found, and what a later run needs."""
        m, k = len(pairs), self.problem.k
        x, y = (np.hstack([*(pair.points[i] for pair in pairs), self.spare[i][:, m:k]]) for i in (0, 1))
        agreeing = np.zeros(k, dtype=np.int64)
        agreeing[:m] = [pair.agreeing for pair in pairs]
        found = {"x_preimages": x, "y_preimages": y, "agreeing": agreeing, "starts": np.asarray(self.starts)}
        if climbing is not None:
            found |= {"x_climbing": climbing[0], "y_climbing": climbing[1]}
        return {**found, "seed": np.asarray(self.seed), **self.extra}
