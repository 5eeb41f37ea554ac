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

from collections.abc import Callable
from dataclasses import dataclass

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

    def residuals(self, pairs: Pairs, G: tuple[HostArray, HostArray]) -> HostArray:
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
        live, m = np.arange(U.shape[1]), U.shape[1]
        pairs = self.at(U, V)
        G = self.gradients(pairs)
        steps = [_first_steps(W, g) for W, g in zip(pairs.points, G, strict=True)]
        past = np.tile(pairs.values, (MEMORY, 1))
        quiet, failed, odd = np.zeros(m, dtype=int), np.zeros(m, dtype=int), np.ones(m, dtype=bool)
        least, highest, since = np.full(m, np.inf), np.full(m, -np.inf), np.zeros(m, dtype=int)
        iteration, rests = 0, np.full(m, np.inf)
        while True:
            residuals = self.residuals(pairs, G)
            ended.enter(live, pairs, residuals)
            gains = (residuals < FALLS * least) | (pairs.values > highest + RISES * np.abs(pairs.values))
            least, highest = np.minimum(least, residuals), np.maximum(highest, pairs.values)
            since = np.where(gains, 0, since + 1)
            climbs = (residuals > self.tol) & (quiet < QUIET) & (failed < SHORTENINGS) & (since < WAITS)
            on = np.flatnonzero(climbs)
            rests[live[~climbs]] = iteration
            late = iteration > PATIENCE * rests[ended.best] + GRACE
            if not len(on) or late or not self.proceed(ended):
                return ended
            iteration += 1
            if len(on) < len(live):
                live, pairs, past = live[on], self.chosen(pairs, on), past[:, on]
                quiet, failed, odd = quiet[on], failed[on], odd[on]
                least, highest, since = least[on], highest[on], since[on]
                G, steps = (G[0][:, on], G[1][:, on]), [a[on] for a in steps]
            tried, good = self._tried(pairs, G, steps, past.min(axis=0))
            taken, kept = np.flatnonzero(good), np.flatnonzero(~good)
            # A column that fails tries a shorter step in the next iteration, while the others go on.
            failed, steps = np.where(good, 0, failed + 1), [np.where(good, a, a / SHORTER) for a in steps]
            if not len(taken):
                continue
            new = self.chosen(tried, taken)
            G_new = self.gradients(new)
            for i in (0, 1):
                s, y = new.points[i] - pairs.points[i][:, taken], G[i][:, taken] - G_new[i]
                steps[i][taken] = _spectral_steps(steps[i][taken], s, y, odd[taken])
                G[i][:, taken] = G_new[i]
            change = np.abs(new.values - pairs.values[taken])
            if still:
                quiet[taken] = np.where(change <= still * np.abs(new.values), quiet[taken] + 1, 0)
            odd[taken] ^= True
            past[:, taken] = np.vstack([past[1:, taken], new.values])
            pairs = self.together([(taken, new), (kept, self.chosen(pairs, kept))]) if len(kept) else new

    def _tried(
        self, pairs: Pairs, G: tuple[HostArray, HostArray], steps: list[HostArray], floor: HostArray
    ) -> tuple[Pairs, HostArray]:
        """Pairs a step further, and which columns are so much better that they may be kept."""
        W, promised = [], np.zeros(len(floor))
        for view, P, a, g in zip(self.views, pairs.points, steps, G, strict=True):
            W.append(view.bound.nearest(P + a * g))
            promised += np.sum(g * (W[-1] - P), axis=0)
        tried = self.at(W[0], W[1])
        return tried, tried.values >= floor + GAIN * np.maximum(promised, 0.0)


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
