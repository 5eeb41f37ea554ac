"""Ascent from many pairs of points at once: the spectral projected gradient.

Problem: max f(u, v) over u and v in their sets, from m starts; f and its gradient take a product with each view.
Method: all pairs are columns of one block, so a product serves all. A step goes from (u, v) to
Proj(u + a g), Proj(v + b h) with the gradients g, h and Barzilai-Borwein steps a, b of each column and view, |s|²/sᵀy
and sᵀy/|y|² in turn. A step is taken if the value is above the least of the last five values by 1e-4 of what the
gradient promises; else the column stays, and the step is divided by four for the next iteration: no column waits for
the line search of another. A column rests when the law holds, or after five steps that change the
value by less than 1e-7 of itself, or a hundred that bring nothing. Columns below the best one, when that rests, have as
many iterations again.
Source: Birgin, Martínez & Raydan 2000, SIAM J. Optim. 10(4), doi:10.1137/S1052623497330963; Barzilai & Borwein 1988,
doi:10.1093/imanum/8.1.141.
Where we differ: steps are projected onto a set that need not be convex, where the theory covers convex ones.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from linspec.arrays import Array, HostArray
from linspec_kernel.preimage.certificate import distances
from linspec_kernel.preimage.objectives import Objective
from linspec_kernel.preimage.views import Functions, View, joined, shared, shared_slopes

MEMORY, GAIN, SHORTER, SHORTENINGS = 5, 1e-4, 4.0, 25
"""Of the line search: values looked back at, the share of the promised gain, the factor, and how often."""

LONGER = 4.0
"""Factor of a step along which the gradient has not fallen."""

RANGE = 1e3
"""By this factor may a step differ from the one before."""

QUIET, STILL = 5, 1e-7
"""Steps with a smaller relative change than this end the search of a column."""

WAITS, FALLS, RISES = 100, 0.9, 1e-9
"""So many iterations without a residual below this share of the least or a relative rise of the value are the last."""

PATIENCE, GRACE = 2, 10
"""The search ends after so many times the iterations that the best column took to rest, and these."""


@dataclass(frozen=True)
class Pairs:
    """Pairs of points, and what belongs to them.

    Attributes
    ----------
    sides : pair of Functions
    values : numpy.ndarray of shape (m,)
    """

    sides: tuple[Functions, Functions]
    values: HostArray

    @property
    def points(self) -> tuple[HostArray, HostArray]:
        """U and V."""
        return self.sides[0].points, self.sides[1].points


class Search:
    """Two views, an objective, and what the run has to say.

    Parameters
    ----------
    views : pair of View
    objective : Objective
    tol : float
        Columns whose residual is at most this rest.
    proceed : callable
        Takes where all columns are; returns whether to go on.
    """

    def __init__(
        self,
        views: tuple[View, View],
        objective: Objective,
        tol: float,
        proceed: Callable[[Ended], bool],
    ) -> None:
        self.views, self.objective, self.tol = views, objective, tol
        self.proceed = proceed
        self.home = views[0].home

    # ---- pairs ----------------------------------------------------------------------------------

    def at(self, U: HostArray, V: HostArray) -> Pairs:
        """Pairs of points of the sets: one product with each view."""
        return self.of((self.views[0].at(U), self.views[1].at(V)))

    def of(self, sides: tuple[Functions, Functions]) -> Pairs:
        """Pairs of functions."""
        x, y = sides
        found = shared(self.objective, self.views, (x.values, y.values), (x.variates, y.variates))
        return Pairs(sides, found)

    def slopes(self, pairs: Pairs) -> tuple[Array, Array]:
        """The derivatives of the values by the functions at the rows."""
        x, y = pairs.sides
        return shared_slopes(self.objective, self.views, (x.values, y.values), (x.variates, y.variates))

    def gradients(self, pairs: Pairs) -> tuple[HostArray, HostArray]:
        """The gradients of the values: one product with each transpose."""
        x, y = (
            view.gradient(side, S, freed=False)
            for view, side, S in zip(self.views, pairs.sides, self.slopes(pairs), strict=True)
        )
        return x, y

    def residuals(self, pairs: Pairs, G: Sequence[HostArray]) -> HostArray:
        """The law, of each column."""
        x, y = (distances(view.bound, U, g) for view, U, g in zip(self.views, pairs.points, G, strict=True))
        return np.maximum(x, y)

    def chosen(self, pairs: Pairs, index: HostArray) -> Pairs:
        """Some of the pairs."""
        x, y = (side.columns(index, self.home) for side in pairs.sides)
        return Pairs((x, y), pairs.values[index])

    def together(self, parts: list[tuple[HostArray, Pairs]]) -> Pairs:
        """Pairs of which the parts have the columns with these numbers, in order."""
        order = np.argsort(np.concatenate([index for index, _ in parts]))
        x, y = (joined([pairs.sides[i] for _, pairs in parts], self.home) for i in (0, 1))
        found = Pairs((x, y), np.concatenate([pairs.values for _, pairs in parts]))
        return found if np.array_equal(order, np.arange(len(order))) else self.chosen(found, order)

    # ---- the spectral projected gradient --------------------------------------------------------

    def spectral(self, U: HostArray, V: HostArray, *, still: float = STILL) -> Ended:
        """Ascend from all columns at once until each rests, or the run says that it is enough.

        Parameters
        ----------
        U, V : numpy.ndarray of shape (p, m), (q, m)
            Points of the sets.
        still : float, default 1e-7
            Relative changes of the value that end the search of a column; 0: the law alone does.
        """
        ended = Ended.of(U, V)
        pairs = self.at(U, V)
        c = Columns.of(pairs, self.gradients(pairs))
        iteration, rests = 0, np.full(U.shape[1], np.inf)
        while True:
            residuals = self.residuals(pairs, c.gradients)
            ended.enter(c.numbers, pairs, residuals)
            climbs = c.judged(residuals, pairs.values) & (residuals > self.tol)
            on = np.flatnonzero(climbs)
            rests[c.numbers[~climbs]] = iteration
            late = iteration > PATIENCE * rests[ended.best] + GRACE
            if not len(on) or late or not self.proceed(ended):
                return ended
            iteration += 1
            if len(on) < len(climbs):
                pairs, c = self.chosen(pairs, on), c.chosen(on)
            tried, good = self._tried(pairs, c)
            taken, kept = np.flatnonzero(good), np.flatnonzero(~good)
            # A column that fails tries a shorter step in the next iteration, while the others go on.
            c.failed = np.where(good, 0, c.failed + 1)
            c.steps = [np.where(good, a, a / SHORTER) for a in c.steps]
            if not len(taken):
                continue
            new = self.chosen(tried, taken)
            for i, g in enumerate(self.gradients(new)):
                s, y = new.points[i] - pairs.points[i][:, taken], c.gradients[i][:, taken] - g
                c.steps[i][taken] = _spectral_steps(c.steps[i][taken], s, y, c.odd[taken])
                c.gradients[i][:, taken] = g
            if still:
                change = np.abs(new.values - pairs.values[taken])
                c.quiet[taken] = np.where(change <= still * np.abs(new.values), c.quiet[taken] + 1, 0)
            c.odd[taken] ^= True
            c.past[:, taken] = np.vstack([c.past[1:, taken], new.values])
            pairs = self.together([(taken, new), (kept, self.chosen(pairs, kept))]) if len(kept) else new

    def _tried(self, pairs: Pairs, c: Columns) -> tuple[Pairs, HostArray]:
        """Pairs a step further, and which columns are so much better that they may be kept."""
        floor = c.past.min(axis=0)
        W, promised = [], np.zeros(len(floor))
        for view, P, a, g in zip(self.views, pairs.points, c.steps, c.gradients, strict=True):
            W.append(view.bound.nearest(P + a * g))
            promised += np.sum(g * (W[-1] - P), axis=0)
        tried = self.at(W[0], W[1])
        return tried, tried.values >= floor + GAIN * np.maximum(promised, 0.0)


@dataclass
class Columns:
    """What the search keeps of the columns that climb.

    Attributes
    ----------
    numbers : numpy.ndarray of shape (m,)
        Which they are.
    gradients : list of two numpy.ndarray of shape (p, m), (q, m)
    steps : list of two numpy.ndarray of shape (m,)
        Lengths of the next step, for each view.
    past : numpy.ndarray of shape (MEMORY, m)
        The last values.
    odd : numpy.ndarray of shape (m,)
        Which of the two formulas the next length comes from.
    quiet, failed, since : numpy.ndarray of shape (m,)
        Steps that changed the value little, steps in a row that were not taken, and iterations that brought nothing.
    least, highest : numpy.ndarray of shape (m,)
        The least residual and the highest value.
    """

    numbers: HostArray
    gradients: list[HostArray]
    steps: list[HostArray]
    past: HostArray
    odd: HostArray
    quiet: HostArray
    failed: HostArray
    since: HostArray
    least: HostArray
    highest: HostArray

    @classmethod
    def of(cls, pairs: Pairs, gradients: tuple[HostArray, HostArray]) -> Columns:
        """Columns of which nothing is known but where they are."""
        m = len(pairs.values)
        steps = [_first_steps(W, g) for W, g in zip(pairs.points, gradients, strict=True)]
        quiet, failed, since = np.zeros((3, m), dtype=int)
        return cls(
            numbers=np.arange(m),
            gradients=list(gradients),
            steps=steps,
            past=np.tile(pairs.values, (MEMORY, 1)),
            odd=np.ones(m, dtype=bool),
            quiet=quiet,
            failed=failed,
            since=since,
            least=np.full(m, np.inf),
            highest=np.full(m, -np.inf),
        )

    def chosen(self, on: HostArray) -> Columns:
        """Some of them."""
        found: dict[str, Any] = {
            name: [one[..., on] for one in value] if isinstance(value, list) else value[..., on]
            for name, value in vars(self).items()
        }
        return Columns(**found)

    def judged(self, residuals: HostArray, values: HostArray) -> HostArray:
        """Whether each column, which is now here, may climb on."""
        gains = (residuals < FALLS * self.least) | (values > self.highest + RISES * np.abs(values))
        self.least, self.highest = np.minimum(self.least, residuals), np.maximum(self.highest, values)
        self.since = np.where(gains, 0, self.since + 1)
        climbs: HostArray = (self.quiet < QUIET) & (self.failed < SHORTENINGS) & (self.since < WAITS)
        return climbs


@dataclass
class Ended:
    """Where a search has led its columns.

    Attributes
    ----------
    points : pair of numpy.ndarray
    values, residuals : numpy.ndarray of shape (m,)
        The residual is that of the law.
    """

    points: tuple[HostArray, HostArray]
    values: HostArray
    residuals: HostArray

    @classmethod
    def of(cls, U: HostArray, V: HostArray) -> Ended:
        """Nothing known of these columns yet."""
        m = U.shape[1]
        return cls((U.copy(), V.copy()), np.full(m, -np.inf), np.full(m, np.inf))

    def enter(self, live: HostArray, pairs: Pairs, residuals: HostArray) -> None:
        """The columns that are still searched."""
        points = tuple(W.copy() for W in self.points)  # an iterate that was told of stays as it is
        for W, new in zip(points, pairs.points, strict=True):
            W[:, live] = new
        self.points = points  # type: ignore[assignment]
        self.values, self.residuals = self.values.copy(), self.residuals.copy()
        self.values[live], self.residuals[live] = pairs.values, residuals

    @property
    def best(self) -> int:
        """The column with the largest value."""
        return int(np.argmax(self.values))


def _first_steps(W: HostArray, G: HostArray) -> HostArray:
    lengths, slopes = np.linalg.norm(W, axis=0), np.linalg.norm(G, axis=0)
    found: HostArray = np.where(lengths > 0, lengths, 1.0) / np.where(slopes > 0, slopes, 1.0)
    return found


def _spectral_steps(steps: HostArray, s: HostArray, y: HostArray, odd: HostArray) -> HostArray:
    """Barzilai-Borwein steps for a maximum: y is the fall of the gradient along s."""
    sy, ss, yy = (np.sum(a * b, axis=0) for a, b in ((s, y), (s, s), (y, y)))
    falls = sy > 0
    quotient = np.where(odd, ss / np.where(falls, sy, 1.0), sy / np.where(falls, yy, 1.0))
    moved = np.where(ss > 0, LONGER * steps, steps)
    found: HostArray = np.clip(np.where(falls, quotient, moved), steps / RANGE, steps * RANGE)
    return found
