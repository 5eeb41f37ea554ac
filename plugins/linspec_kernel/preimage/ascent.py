"""Ascent from many pairs of points at once: the spectral projected gradient.

Problem: max f(u, v) over u and v in their sets, from m starts; f and its gradient take a product with each view.
Method: all pairs are columns of one block, so a product serves all. A step goes from (u, v) to

    u ← Proj(u + a g),   v ← Proj(v + b h)

with the gradients g, h and Barzilai-Borwein steps a, b of each column and view, |s|²/sᵀy. A step
is taken if the value exceeds the least of the last five values by at least 1e-4 of the increase that the gradient
predicts. Otherwise the column stays, and its step is divided by four for the next iteration: no column waits for the
line search of another. A column rests when its residual is at most the tolerance, or after five steps without progress,
a hundred in a final climb. Once the best column rests, the other columns have as many iterations again.
Source: Birgin, Martínez & Raydan 2000, SIAM J. Optim. 10(4), doi:10.1137/S1052623497330963; Barzilai & Borwein 1988,
doi:10.1093/imanum/8.1.141.
Where we differ: steps are projected onto a set that need not be convex, where the theory covers convex ones.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from linspec.arrays import HostArray
from linspec_kernel.preimage.certificate import distances
from linspec_kernel.preimage.objectives import Objective
from linspec_kernel.preimage.views import Sides, Views, shared, shared_slopes

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


Points = tuple[HostArray, HostArray]
"""Points of both views, column by column."""


@dataclass(frozen=True)
class PointPair:
    """Pair of points that a search has found.

    Attributes
    ----------
    points : pair of numpy.ndarray of shape (p, 1), (q, 1)
        u and v.
    value, residual : float
    agreeing : int
        Number of starts that led to the best value; 0 while they climb.
    """

    points: Points
    value: float
    residual: float
    agreeing: int


@dataclass(frozen=True)
class Climb:
    """State of an ascent, with an entry for each column; ``climb[index]`` is the state of the columns `index`.

    Attributes
    ----------
    U, V : numpy.ndarray of shape (p, m), (q, m)
        Points.
    g, h : numpy.ndarray of shape (p, m), (q, m)
        Gradients.
    a, b : numpy.ndarray of shape (m,)
        Lengths of the next step.
    values, residuals : numpy.ndarray of shape (m,)
        Values of the objective, and residuals as the certificate defines them.
    past : numpy.ndarray of shape (MEMORY, m)
        The last values.
    odd : numpy.ndarray of shape (m,)
        Whether the next length is |s|²/sᵀy, otherwise sᵀy/|y|².
    quiet, failed, since : numpy.ndarray of shape (m,)
        Consecutive steps that changed the value little, consecutive steps not taken, and iterations without progress.
    least, highest : numpy.ndarray of shape (m,)
        Least residual and highest value until now.
    climbs : numpy.ndarray of shape (m,)
        Whether the column still climbs; otherwise it rests.
    age : numpy.ndarray of shape (m,)
        Iterations until the column came to rest.
    """

    U: HostArray
    V: HostArray
    g: HostArray
    h: HostArray
    a: HostArray
    b: HostArray
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
        for entry, other in zip(entries, vars(part).values(), strict=True):
            entry[..., index] = other
        return Climb(*entries)

    @property
    def points(self) -> Points:
        """U and V."""
        return self.U, self.V

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
        return PointPair((self.U[:, [j]], self.V[:, [j]]), value, float(self.residuals[j]), agreeing)


class Search:
    """An objective of two views, and the steps of its ascent.

    Parameters
    ----------
    views : pair of PreimageView
    objective : Objective
    tol : float
        A column rests when its residual is at most `tol`.
    still : float, default 1e-7
        Relative changes of the value that end the search of a column; 0: only the residual ends it.
    """

    def __init__(
        self,
        views: Views,
        objective: Objective,
        tol: float,
        still: float = STILL,
        patience: int = QUIET,
    ) -> None:
        self.views, self.objective, self.tol = views, objective, tol
        self.still, self.patience = still, patience
        self.home = views[0].home

    # ---- the spectral projected gradient --------------------------------------------------------

    def begun(self, U: HostArray, V: HostArray) -> Climb:
        """State of an ascent from these points of the sets: one product with each view, and one with its transpose."""
        sides, index = self.at(U, V), np.arange(U.shape[1])
        values, (g, h), m = self.values(sides, index), self.gradients(sides, index), len(index)
        failed, since, age = np.zeros((3, m), dtype=int)
        return self._judged(
            Climb(
                U=U,
                V=V,
                g=g,
                h=h,
                a=_first_steps(U, g),
                b=_first_steps(V, h),
                values=values,
                residuals=np.full(m, np.inf),
                past=np.tile(values, (MEMORY, 1)),
                failed=failed,
                since=since,
                least=np.full(m, np.inf),
                highest=np.full(m, -np.inf),
                climbs=np.ones(m, dtype=bool),
                age=age,
            )
        )

    def stepped(self, climb: Climb) -> Climb:
        """State after a step of all columns that climb: one product with each view, and one with its transpose."""
        on = np.flatnonzero(climb.climbs)
        c, (x, y) = climb[on], self.views
        U, V = x.bound.nearest(c.U + c.a * c.g), y.bound.nearest(c.V + c.b * c.h)
        promised = np.sum(c.g * (U - c.U), axis=0) + np.sum(c.h * (V - c.V), axis=0)
        sides = self.at(U, V)
        values = self.values(sides, on)
        good = values >= c.past.min(axis=0) + GAIN * np.maximum(promised, 0.0)
        # A column that fails tries a shorter step in the next iteration, while the others go on.
        shorter = np.where(good, 1.0, SHORTER)
        c = replace(
            c, age=c.age + 1, failed=np.where(good, 0, c.failed + 1), a=c.a / shorter, b=c.b / shorter
        )
        taken = np.flatnonzero(good)
        if len(taken):
            tried = sides[0].columns(taken, self.home), sides[1].columns(taken, self.home)
            gradients = self.gradients(tried, on[taken])
            c = c.put(taken, self._moved(c[taken], (U[:, taken], V[:, taken]), gradients, values[taken]))
        return climb.put(on, self._judged(c))

    def _moved(self, c: Climb, points: Points, gradients: Points, values: HostArray) -> Climb:
        """Columns at new points, with the lengths of the next step."""
        (U, V), (g, h) = points, gradients
        return replace(
            c,
            U=U,
            V=V,
            g=g,
            h=h,
            a=_spectral_steps(c.a, U - c.U, c.g - g),
            b=_spectral_steps(c.b, V - c.V, c.h - h),
            values=values,
            past=np.vstack([c.past[1:], values]),
        )

    def _judged(self, climb: Climb) -> Climb:
        """State of an ascent with new residuals of its columns, and which of them still climb."""
        x, y = self.views
        residuals = np.maximum(distances(x.bound, climb.U, climb.g), distances(y.bound, climb.V, climb.h))
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

    def at(self, U: HostArray, V: HostArray) -> Sides:
        """Return the functions of the points U and V; they take one product with each view."""
        return self.views[0].at(U), self.views[1].at(V)

    def values(self, sides: Sides, index: HostArray) -> HostArray:
        """The value of each pair of functions; `index` has their numbers among the starts."""
        return shared(self.objective, self.views, sides)

    def gradients(self, sides: Sides, index: HostArray) -> Points:
        """Gradients of the values with respect to the points: one product with each transpose."""
        S, T = shared_slopes(self.objective, self.views, sides)
        return self.views[0].gradient(sides[0], S), self.views[1].gradient(sides[1], T)


def _first_steps(W: HostArray, G: HostArray) -> HostArray:
    lengths, slopes = np.linalg.norm(W, axis=0), np.linalg.norm(G, axis=0)
    found: HostArray = np.where(lengths > 0, lengths, 1.0) / np.where(slopes > 0, slopes, 1.0)
    return found


def _spectral_steps(steps: HostArray, s: HostArray, y: HostArray) -> HostArray:
    """Barzilai-Borwein steps for a maximum, where y is the decrease of the gradient along s."""
    sy, ss = np.sum(s * y, axis=0), np.sum(s * s, axis=0)
    falls = sy > 0
    quotient = ss / np.where(falls, sy, 1.0)
    moved = np.where(ss > 0, LONGER * steps, steps)
    found: HostArray = np.clip(np.where(falls, quotient, moved), steps / RANGE, steps * RANGE)
    return found
