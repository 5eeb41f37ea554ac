"""The search for pairs of points, one after the other: ascents from many starts at once, and what all solvers share.

Problem: max f(u, v) over u and v in their sets, from m starts; f and its gradient take a product with each view. The
objective has many stationary points, and from random starts in many columns a search ends at chance ones. A run that
goes on should search as the one before, and begin no climb anew.
Method: all pairs are columns of one block, with u above v, so a product serves all. A step goes from (u, v) to

    u ← Proj(u + a g),   v ← Proj(v + b h)

with the gradients g, h and Barzilai-Borwein steps a, b of each column and view, |s|²/sᵀy. A step
is taken if the value exceeds the least of the last five values by at least 1e-4 of the increase that the gradient
predicts. Otherwise the column stays, and its step is divided by four for the next iteration: no column waits for the
line search of another. A column rests when its residual is at most the tolerance, or after five steps without progress,
a hundred in a final climb. Once the best column rests, the other columns have as many iterations again.
Single columns are the sparsest points. Their functions are compared, and the best are starts, besides a few random
points. Everything random is drawn from one seed and the number of a pair. The arrays of an iterate are the points, the
seed, and the points of all starts while these climb.
Source: Birgin, Martínez & Raydan 2000, SIAM J. Optim. 10(4), doi:10.1137/S1052623497330963; Barzilai & Borwein 1988,
doi:10.1093/imanum/8.1.141; screening by single pairs, Fan & Lv 2008, J. R. Stat. Soc. B 70(5),
doi:10.1111/j.1467-9868.2008.00674.x.
Where we differ: steps are projected onto a set that need not be convex, where the theory covers convex ones. Uurtio,
Bhadra & Rousu 2019 begin at random points with entries from 0 to 1.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from linspec.arrays import Array, HostArray, to_host
from linspec.iteration import Context, Iterate
from linspec_kernel.preimage.objectives import Objective
from linspec_kernel.preimage.views import PreimageMoments, PreimageView, Sides

MEMORY, GAIN, SHORTER, SHORTENINGS = 5, 1e-4, 4.0, 25
"""Line search: number of past values, share of the predicted gain, divisor of a step, largest number of divisions."""

LONGER = 4.0
"""Factor by which a step grows if the gradient has not fallen along it."""

RANGE = 1e3
"""Largest factor by which a step may differ from the previous step."""

QUIET, STILL = 5, 1e-7
WAITS, RISES = 100, 1e-9
FALLS = 0.9
"""A column rests after QUIET iterations, or WAITS in a final climb, in which its residual has not fallen below FALLS
times its least one, and its value has not risen by the fraction STILL, or RISES, of itself."""
AGREES = 0.01
"""Starts agree with the best one if their value is below it by at most this share."""

PATIENCE, GRACE = 2, 10
"""If the best column came to rest after t iterations, the search ends after PATIENCE · t + GRACE iterations."""

ENDED = "The search had not ended: other points may have larger values."


@dataclass(frozen=True)
class PointPair:
    """Pair of points that a search has found.

    Attributes
    ----------
    points : numpy.ndarray of shape (p + q, 1)
        u above v.
    residual : float
    agreeing : int
        Number of starts that led to the best value; 0 while they climb.
    """

    points: HostArray
    residual: float
    agreeing: int


@dataclass(frozen=True)
class Climb:
    """State of an ascent, with an entry for each column; ``climb[index]`` is the state of the columns `index`.

    Attributes
    ----------
    points, slopes : numpy.ndarray of shape (p + q, m)
        Points of both views, and gradients.
    steps : numpy.ndarray of shape (2, m)
        Lengths of the next step of each view.
    values, residuals : numpy.ndarray of shape (m,)
        Values of the objective, and residuals as the certificate defines them.
    past : numpy.ndarray of shape (MEMORY, m)
        The last values.
    failed, since : numpy.ndarray of shape (m,)
        Consecutive steps not taken, and iterations without progress.
    least, highest : numpy.ndarray of shape (m,)
        Least residual and highest value until now.
    climbs : numpy.ndarray of shape (m,)
        Whether the column still climbs; otherwise it rests.
    age : numpy.ndarray of shape (m,)
        Iterations until the column came to rest.
    """

    points: HostArray
    slopes: HostArray
    steps: HostArray
    values: HostArray
    residuals: HostArray
    past: HostArray
    failed: HostArray
    since: HostArray
    least: HostArray
    highest: HostArray
    climbs: HostArray
    age: HostArray

    def __getitem__(self, index: HostArray) -> Climb:
        """State of the columns `index`."""
        if len(index) == len(self.values):
            return self
        return Climb(*(entry[..., index] for entry in vars(self).values()))

    def put(self, index: HostArray, part: Climb) -> Climb:
        """State with the columns `index` replaced."""
        if len(index) == len(self.values):
            return part
        entries = [entry.copy() for entry in vars(self).values()]
        for entry, new in zip(entries, vars(part).values(), strict=True):
            entry[..., index] = new
        return Climb(*entries)

    @property
    def best(self) -> int:
        """Index of the column with the largest value."""
        return int(np.argmax(self.values))

    @property
    def goes_on(self) -> bool:
        """Whether the search continues: a column climbs, and the best column has not rested for longer than allowed."""
        late = self.age.max() > PATIENCE * self.age[self.best] + GRACE
        return bool(self.climbs.any()) and not (late and not self.climbs[self.best])

    @property
    def best_pair(self) -> PointPair:
        """Column with the largest value, and the number of columns that agree with it."""
        j, value = self.best, float(self.values.max())
        agreeing = int(np.sum(self.values >= value - AGREES * abs(value)))
        return PointPair(self.points[:, [j]], float(self.residuals[j]), agreeing)


class Search:
    """An objective of two views, and the steps of its ascent.

    Parameters
    ----------
    moments : PreimageMoments
    objective : Objective
    tol : float
        A column rests when its residual is at most `tol`.
    still : float, default 1e-7
        Relative changes of the value that end the search of a column; 0: only the residual ends it.
    patience : int, default 5
        Iterations without progress after which a column rests.
    """

    def __init__(
        self,
        moments: PreimageMoments,
        objective: Objective,
        tol: float,
        still: float = STILL,
        patience: int = QUIET,
    ) -> None:
        self.moments, self.objective, self.tol = moments, objective, tol
        self.still, self.patience = still, patience
        self.widths = [int(A.shape[1]) for A in moments.operators]

    # ---- the spectral projected gradient --------------------------------------------------------

    def begun(self, W: HostArray) -> Climb:
        """State of an ascent from these points of the sets: one product with each view, and one with its transpose."""
        sides, m = self.moments.at(W), W.shape[1]
        values = self.values(sides, np.arange(m))
        slopes = self.gradients(sides, np.arange(m))
        lengths, steepest = (np.sqrt(self.sums(V * V)) for V in (W, slopes))
        steps = np.where(lengths > 0, lengths, 1.0) / np.where(steepest > 0, steepest, 1.0)
        failed, since, age = np.zeros((3, m), dtype=int)
        far = np.full(m, np.inf)
        past = np.tile(values, (MEMORY, 1))
        climbs = np.ones(m, dtype=bool)
        return self._with_residuals(
            Climb(W, slopes, steps, values, far, past, failed, since, far, -far, climbs, age)
        )

    def stepped(self, climb: Climb) -> Climb:
        """State after a step of all columns that climb: one product with each view, and one with its transpose."""
        on = np.flatnonzero(climb.climbs)
        c = climb[on]
        W = self.moments.nearest(c.points + np.repeat(c.steps, self.widths, axis=0) * c.slopes)
        promised = np.sum(c.slopes * (W - c.points), axis=0)
        sides = self.moments.at(W)
        values = self.values(sides, on)
        good = values >= c.past.min(axis=0) + GAIN * np.maximum(promised, 0.0)
        # A column that fails tries a shorter step in the next iteration, while the others go on.
        shorter = np.where(good, 1.0, SHORTER)
        c = replace(c, age=c.age + 1, failed=np.where(good, 0, c.failed + 1), steps=c.steps / shorter)
        taken = np.flatnonzero(good)
        if len(taken):
            x, y = (side.columns(taken, self.moments.device) for side in sides)
            part, W, values = c[taken], W[:, taken], values[taken]
            slopes = self.gradients((x, y), on[taken])
            s = W - part.points
            sy = self.sums(
                s * (part.slopes - slopes)
            )  # the gradient decreases along s: Barzilai-Borwein steps
            ss = self.sums(s * s)
            quotient = ss / np.where(sy > 0, sy, 1.0)
            moved = np.where(ss > 0, LONGER * part.steps, part.steps)
            steps = np.clip(np.where(sy > 0, quotient, moved), part.steps / RANGE, part.steps * RANGE)
            past = np.vstack([part.past[1:], values])
            c = c.put(taken, replace(part, points=W, slopes=slopes, steps=steps, values=values, past=past))
        return climb.put(on, self._with_residuals(c))

    def sums(self, V: HostArray) -> HostArray:
        """Sums over the entries of u, and over those of v, of shape (2, m)."""
        return np.add.reduceat(V, [0, self.widths[0]], axis=0)

    def _with_residuals(self, climb: Climb) -> Climb:
        """State of an ascent with new residuals of its columns, and which of them still climb."""
        parts = zip(self.moments.views, *map(self.moments.split, (climb.points, climb.slopes)), strict=True)
        residuals = np.maximum(*(view.distances(U, G) for view, U, G in parts))
        values = climb.values
        gains = (residuals < FALLS * climb.least) | (values > climb.highest + self.still * np.abs(values))
        since = np.where(gains, 0, climb.since + 1)
        rests = (climb.failed >= SHORTENINGS) | (since >= self.patience)
        return replace(
            climb,
            residuals=residuals,
            since=since,
            least=np.minimum(climb.least, residuals),
            highest=np.maximum(climb.highest, values),
            climbs=~rests & (residuals > self.tol),
        )

    # ---- values and gradients -------------------------------------------------------------------

    def values(self, sides: Sides, index: HostArray) -> HostArray:
        """The value of each pair of functions; `index` has their numbers among the starts."""
        return self.moments.shared(self.objective, sides)

    def gradients(self, sides: Sides, index: HostArray) -> HostArray:
        """Gradients of the values with respect to the points: one product with each transpose."""
        return self.moments.gradients(sides, self.moments.shared_slopes(self.objective, sides))


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
    pairs : list of PointPair
        Those found so far.
    start_pairs : list of PointPair
        Pairs that `start` has, with residuals that are not known.
    spare : numpy.ndarray of shape (p + q, k)
        Points for pairs that are not found.
    """

    def __init__(
        self,
        problem: Any,
        moments: PreimageMoments,
        context: Context,
        start: Mapping[str, Array],
        repeats: int,
    ) -> None:
        self.problem, self.moments, self.context, self.start = problem, moments, context, start
        self.repeats = repeats
        self.starts = int(start.get("starts", 1 if start else repeats))
        self.seed = int(start["seed"]) if "seed" in start else int(context.rng.integers(2**62))
        rng = self.rng(0)
        moments.fit(rng)
        self.pairs, self.start_pairs = list[PointPair](), list[PointPair]()
        self.spare = random_points(moments, problem.k, rng)
        if start:
            W = self.of_start("preimages")
            counts = start.get("agreeing", np.ones(W.shape[1]))
            count = min(problem.k, int(np.count_nonzero(counts)))
            self.start_pairs = [PointPair(W[:, [j]], np.inf, int(counts[j])) for j in range(count)]
            self.spare = np.hstack([W, self.spare[:, W.shape[1] :]])

    def of_start(self, what: str) -> HostArray:
        """Points of the start, moved into their sets."""
        return self.moments.nearest(np.vstack([to_host(self.start[f"{name}_{what}"]) for name in "xy"]))

    def rng(self, *numbers: int) -> np.random.Generator:
        """Random numbers of one purpose."""
        return np.random.default_rng([self.seed, *numbers])

    def climbed(
        self, search: Search, points: HostArray, agreeing: int = 0
    ) -> Generator[Iterate, None, Climb]:
        """Climb from these points; yield the pairs found and the best of these, after each step."""
        climb = search.begun(points)
        while climb.goes_on:
            best = replace(climb.best_pair, agreeing=agreeing)
            yield self.iterate((*self.pairs, best), None if agreeing else climb.points)
            climb = search.stepped(climb)
        return climb

    def iterate(self, pairs: Sequence[PointPair], climbing: HostArray | None = None, **how: Any) -> Iterate:
        """Iterate of these pairs."""
        residual = max((pair.residual for pair in pairs), default=0.0)
        return Iterate(residual, partial(self.arrays, tuple(pairs), climbing), **{"doubt": ENDED, **how})

    def arrays(self, pairs: Sequence[PointPair], climbing: HostArray | None) -> dict[str, Array]:
        """The pairs, with spare points in place of those not yet found, and what a later run needs."""
        m, k = len(pairs), self.problem.k
        agreeing = np.zeros(k, dtype=np.int64)
        agreeing[:m] = [pair.agreeing for pair in pairs]
        arrays = {"agreeing": agreeing, "starts": np.asarray(self.starts), "seed": np.asarray(self.seed)}
        blocks = {"preimages": np.hstack([*(pair.points for pair in pairs), self.spare[:, m:k]])}
        for what, W in {**blocks, "climbing": climbing}.items():
            if W is not None:
                arrays[f"x_{what}"], arrays[f"y_{what}"] = self.moments.split(W)
        return arrays


COLUMNS = 1000
"""Largest number of columns of a view that are compared; if a view has more, this many are drawn at random."""

NUMBERS = 2**25
"""Largest number of values of functions that are held for the comparison."""


def random_points(moments: PreimageMoments, count: int, rng: Any) -> HostArray:
    """Points of the sets nearest to random normal directions."""
    drawn = [rng.standard_normal((view.A.shape[1], count)) * view.bound.radius for view in moments.views]
    return moments.nearest(np.vstack(drawn))


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
