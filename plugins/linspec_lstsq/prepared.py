"""A kernel on the normal equations as a part of an outer method, prepared for one matrix and many right-hand sides.

Problem: (AᵀA + rI) x = AᵀB for one right-hand side after the other, each to a residual or for a number of steps.
Method: the points of the kernel (normal_equations.py), one after the other, until one is accurate enough.
Where we differ: if products cost no sweep and no callback sees the iterates, steps are made ahead. Half steps of an
outer method take a few steps each, on blocks so small that a device waits for the host longer than it computes. So the
device makes as many steps as in the last solve without waiting, and the host checks them together. Steps beyond the
last one needed are wasted.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import Any

import numpy as np

from linspec import Iterate, LeastSquaresState, LinearOperator, Moments, Run, Status
from linspec.arrays import Array, HostArray, to_host_together
from linspec_lstsq.golub_kahan import cross_product, start_of
from linspec_lstsq.normal_equations import Begin, System, points


@dataclass(frozen=True)
class Seen:
    """Iterate of a step that was made ahead, and the norms of its gradient on the host."""

    x: Array
    norms: HostArray


StepsAhead = Generator[Seen, None, Any]
"""Generator that yields the start and the steps from it. It returns the point after the last step, from which the usual
kernel continues, or None if there was no sound step."""

Ahead = Callable[[System, Callable[[Array], Array], int], StepsAhead]
"""Function that makes steps ahead, from a system with one ridge, products with AᵀA, and a number of steps."""

MOST_STEPS = 24
"""Largest number of steps that a device makes ahead; for each step it keeps a few blocks."""

MOST_COLUMNS = 4096
"""Largest number of columns of A for steps ahead: beyond it, a wasted product reads 100 MB and takes longer than the
transfers that are saved."""


class PreparedNormalEquations(LeastSquaresState):
    """A kernel as the least-squares part of an outer method; it ends at a residual or after a number of steps.

    Parameters
    ----------
    A : LinearOperator of shape (n, p), or Moments
    ridge : float
    run : Run
        The run of the outer method.
    begin : callable
        Makes the kernel.
    limit, tol : int, float
        The largest number of steps, and the residual at which to stop.
    ahead : callable, optional
        Makes steps ahead: see `Ahead`.
    """

    def __init__(
        self,
        A: LinearOperator | Moments,
        ridge: float,
        run: Run,
        begin: Begin,
        limit: int,
        tol: float | None,
        ahead: Ahead | None = None,
    ) -> None:
        self.A, self.ridge, self.run = A, ridge, run
        self.begin, self.limit, self.ahead = begin, limit, ahead
        self.tol = 1e-8 if tol is None else tol
        self.moments = A if isinstance(A, Moments) else Moments(A, form="implicit")
        self._usual = 0  # steps of the last solve

    def solve(
        self,
        B: LinearOperator,
        x0: Array | None = None,
        tol: float | None = None,
        AtB: Array | None = None,
        AtAx0: Array | None = None,
    ) -> Array:
        """See `LeastSquaresState.solve`."""
        iterates, start = self._from_the_start(B, x0, AtB, AtAx0), partial(start_of, self.moments.X, B, x0)
        return self.driven(iterates, start, tol=self.tol if tol is None else tol, limit=self.limit)

    def reduce(
        self,
        B: LinearOperator,
        factor: float,
        gradient: Array,
        AtB: Array,
        x0: Array | None = None,
        AtAx0: Array | None = None,
    ) -> Array:
        """See `LeastSquaresState.reduce`. With `x0`, the residual of the first iterate costs no further product."""
        if x0 is None:
            return super().reduce(B, factor, gradient, AtB)
        system = System.of(self.moments, AtB, (self.ridge,))
        system = replace(system, start=self.moments.home.place(x0), gradient=gradient)
        return self.driven(self._iterates(system), lambda: x0, tol=factor, limit=self.limit, relative=True)

    def _from_the_start(
        self, B: LinearOperator, x0: Array | None, AtB: Array | None, AtAx0: Array | None
    ) -> Iterator[Iterate]:
        """Compute AᵀB and AᵀA x₀ unless they are given, and yield the iterates for one block of right-hand sides."""
        moments = self.moments
        system = System.of(moments, cross_product(self.A, B) if AtB is None else AtB, (self.ridge,))
        if x0 is not None:
            start = moments.home.place(x0)
            AtAx0 = moments.gram(start) if AtAx0 is None else AtAx0
            (system,) = system.starting_from(start, AtAx0)
        yield from self._iterates(system)

    def _iterates(self, system: System) -> Iterator[Iterate]:
        """Yield the iterates of the kernel down to the noise of the system, below which steps only follow rounding."""
        for made, point in enumerate(self._points(system)):
            self._usual = max(made, 1)
            residual = float(system.residuals(point).max(initial=0.0))
            ending = Status.STAGNATED if residual <= system.noise else None
            yield Iterate(residual, ending=ending, x=point.x)

    def _points(self, system: System) -> Iterator[Any]:
        """Yield the points of the kernel; the first ones are made ahead if that saves time."""
        multiply = self.moments.gram
        if self.ahead is None or not self._may_go_ahead(system):
            yield from points(self.begin(system, None), multiply)
        else:
            point = yield from self.ahead(system, multiply, min(self._usual, self.limit, MOST_STEPS))
            yield from islice(points(self.begin(system, point), multiply), 1, None)

    def _may_go_ahead(self, system: System) -> bool:
        """Whether to make steps ahead: on a device, with few columns, products that cost no sweep, and no callback."""
        short = self._usual > 0 and system.AtB.shape[0] <= MOST_COLUMNS
        free = self.moments.cost.sweep == 0 and self.watch is None
        return short and free and not system.home.on_host


def steps_unseen(begin: Begin, system: System, multiply: Callable[[Array], Array], count: int) -> StepsAhead:
    """Make steps with a kernel that needs nothing from the host; the norms of all gradients take one transfer."""
    xp = system.home.xp
    with np.errstate(over="ignore", invalid="ignore"):
        found = list(islice(points(begin(system, None), multiply), count + 1))
        squares = [xp.sum(V * V, axis=0) for V in (system.AtB, *(point.gradient for point in found))]
        scales, *norms = to_host_together(*squares)
    system.know(scales)
    for point, each in zip(found, norms, strict=True):
        yield Seen(point.x, np.sqrt(each))
    return found[-1]
