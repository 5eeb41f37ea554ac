"""A kernel on the normal equations as a part of an outer method, prepared for one matrix and many right-hand sides.

Problem: (AᵀA + rI) x = AᵀB for one right-hand side after the other, each to a residual or for a number of steps.
Method: the points of the kernel (normal_equations.py), one after the other, until one is accurate enough.
Where we differ: some kernels never need a number on the host. If their products cost no sweep, a device makes as many
steps as the last solve took without waiting, and all their residuals are transferred together. Steps beyond the last
one needed are wasted.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import Any

from linspec import Iterate, LeastSquaresState, LinearOperator, Moments, Run, Status
from linspec.arrays import Array
from linspec_lstsq.parts.dual import on_rows, row_iterates, system_of_rows
from linspec_lstsq.parts.golub_kahan import cross_product, moments_of, start_of
from linspec_lstsq.parts.normal_equations import Begin, System, points

MOST_STEPS = 24
"""Largest number of steps that a device makes without waiting; for each step it keeps a few blocks."""

MOST_COLUMNS = 4096
"""Largest number of columns of A for such steps: beyond it, a wasted product takes longer than the saved transfers."""


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
    waits : bool, default True
        Whether the kernel needs numbers on the host to make its steps.
    rows : bool, default False
        Whether the kernel's points are `Blocks`, so that it serves on the side of the rows (dual.py), too.
    """

    def __init__(
        self,
        A: LinearOperator | Moments,
        ridge: float,
        run: Run,
        begin: Begin,
        limit: int,
        tol: float | None,
        *,
        waits: bool = True,
        rows: bool = False,
    ) -> None:
        self.A, self.ridge, self.run = A, ridge, run
        self.begin, self.limit, self.waits = begin, limit, waits
        self._usual = 0  # steps of the last solve
        self.tol = 1e-8 if tol is None else tol
        self.moments = moments_of(A)
        self.rows = rows

    def solve(
        self,
        B: LinearOperator,
        x0: Array | None = None,
        tol: float | None = None,
        AtB: Array | None = None,
        AtAx0: Array | None = None,
    ) -> Array:
        """See `LeastSquaresState.solve`."""
        start, tol = partial(start_of, self.moments.X, B, x0), self.tol if tol is None else tol
        if x0 is None and self.rows and on_rows(self.moments, self.ridge, B.shape[1]):
            iterates = self._on_rows(B, tol)
        else:
            iterates = self._from_the_start(B, x0, AtB, AtAx0)
        return self.driven(iterates, start, tol=tol, limit=self.limit)

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
        system = System.of(self.moments, AtB, self.ridge)
        system = replace(system, start=self.moments.home.place(x0), gradient=gradient)
        return self.driven(self._iterates(system), lambda: x0, tol=factor, limit=self.limit, relative=True)

    def _on_rows(self, B: LinearOperator, tol: float) -> Iterator[Iterate]:
        """Yield the iterates on the side of the rows; x is computed from the last one."""
        A = self.moments.X
        system = system_of_rows(self.moments, B, self.ridge)
        for now in row_iterates(A, self.moments, self.begin, system):
            within = now.residual <= tol and now.known
            yield Iterate(now.residual, x=A.rmatmat(now.z)) if within else now

    def _from_the_start(
        self, B: LinearOperator, x0: Array | None, AtB: Array | None, AtAx0: Array | None
    ) -> Iterator[Iterate]:
        """Compute AᵀB and AᵀA x₀ unless they are given, and yield the iterates for one block of right-hand sides."""
        moments = self.moments
        system = System.of(moments, cross_product(self.A, B) if AtB is None else AtB, self.ridge)
        if x0 is not None:
            start = moments.home.place(x0)
            AtAx0 = moments.gram(start) if AtAx0 is None else AtAx0
            system = system.starting_from(start, AtAx0)
        yield from self._iterates(system)

    def _iterates(self, system: System) -> Iterator[Iterate]:
        """Yield the iterates of the kernel down to the noise of the system, below which steps only follow rounding."""
        for made, point in enumerate(self._points(system)):
            self._usual = max(made, 1)
            residual = system.residual(point)
            ending = Status.STAGNATED if residual <= system.noise else None
            yield Iterate(residual, ending=ending, x=point.x)

    def _points(self, system: System) -> Iterator[Any]:
        """Yield the points of the kernel; if a device need not wait, the residuals of the first ones come together."""
        made = points(self.begin(system), self.moments.gram)
        short, free = system.AtB.shape[0] <= MOST_COLUMNS, self.moments.cost.sweep == 0 and self.watch is None
        if not self.waits and self._usual and short and free and not system.home.on_host:
            first = list(islice(made, min(self._usual, self.limit, MOST_STEPS) + 1))
            system.know_norms(first)
            yield from first
        yield from made
