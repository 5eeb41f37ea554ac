"""The normal equations of a problem: what solvers by products with AᵀA begin with, and the answer of what they end
with.

Problem: (AᵀA + rI) x = AᵀB for the columns of B and for one or several ridges r, perhaps from a start.
Method: one pass makes AᵀB, the product of AᵀA with a start x₀, and that with planted columns Z. A ridge r then solves
for the correction of its x₀, whose right-hand side is AᵀB − (AᵀA + rI) x₀.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

import linspec as ls
from linspec import limit_option, tol_option
from linspec.arrays import Array, HostArray
from linspec.certificates import metric_pays, needs_metric
from linspec.iteration import Context, Iterate, solved_by_ridge
from linspec.linalg import EPS, Step, Steps, cg_steps, driven
from linspec.rows import Moments
from linspec.solving import Solver

Begin = Callable[[float, Array], Steps]
"""What begins an iteration for a ridge and a right-hand side."""


@dataclass(frozen=True, kw_only=True)
class ByProducts(Solver):
    """A solver of the normal equations by products with AᵀA, which may be a part of another solver."""

    tol: float | None = tol_option(1e-8)
    max_iterations: int = limit_option(5000)

    def begins(
        self, moments: Moments, i: int, ridge: float, context: Context
    ) -> Callable[[Array], Iterator[Step]]:
        """Prepare once; return what solves (XᵢᵀXᵢ + rI) x = G for blocks G, from zero."""
        begin = self.prepared(moments, i, ridge, context)
        return lambda G: driven(partial(moments.gram_product, i=i), begin(ridge, G))

    def prepared(self, moments: Moments, i: int, ridge: float, context: Context) -> Begin:
        """What begins the iterations: conjugate gradients by default."""
        return lambda ridge, G: cg_steps(G, (ridge,))

    def solved(
        self,
        problem: ls.LeastSquares,
        moments: Moments,
        context: Context,
        start: Any,
        AtB: Array,
        begin: Begin,
    ) -> Iterator[Iterate]:
        """Yield the iterates of all ridges, each of which `begin` begins anew where rounding has falsified it."""
        x = None if start is None else moments.device.asarray(start["x"])
        rounding = rounding_of(moments, AtB, problem.width)
        return solved_by_ridge(moments.gram_product, AtB, problem.ridges, context, begin, x, **rounding)


EXPECTED = 20
"""Products that an iteration makes at least: for so many a Gram matrix may pay."""

PLANTED = 1
"""Planted columns: one finds 49 of 51 wrong answers (measured)."""


class NormalEquations:
    """The equations of all ridges, with the columns of B for the first ridge first.

    Parameters
    ----------
    problem : LeastSquares
    moments : Moments
    form : str
        How moments are held.
    """

    def __init__(self, problem: ls.LeastSquares, moments: Moments, form: str = "auto") -> None:
        self.moments = moments
        self.ridges = problem.ridges
        self.m = moments.widths[1]
        self.p = moments.widths[0]
        self.asarray = moments.device
        self.least = self.ridges.index(min(self.ridges))
        # Of rows that are read once, iterations need what is held.
        moments.expect(EXPECTED, self.m, "dense" if moments.once and form == "auto" else form)
        self.scales: HostArray  # of `begin`

    def plant(self, context: Context) -> Array:
        """Random columns z, to be planted as AᵀAz; none where the certificate has a metric, or needs none."""
        wanted = not (self.moments.holds or metric_pays(self.moments))
        if wanted and min(self.ridges) > 0:
            self.moments.fit()
        wanted = wanted and needs_metric(self.moments, self.ridges, context.tol)
        return self.asarray.asarray(context.rng.standard_normal((self.p, PLANTED * wanted)))

    def begin(self, x: Array | None, Z: Array) -> tuple[Array, Array]:
        """AᵀB − (AᵀA + rI) x for all ridges, or AᵀB without x, and AᵀA Z, in one pass."""
        parts = [V for V in (x, Z) if V is not None and V.shape[1]]
        AtV, AtB = (
            products[0]
            for products in self.moments.products(
                self.asarray.concat(parts) if parts else None, self.asarray.eye(self.m)
            )
        )
        self.scales = np.tile(self.asarray.column_norms(AtB), len(self.ridges))
        self.live = self.asarray.asarray((self.scales > 0).astype(np.float64))[
            None, :
        ]  # elsewhere the answer is 0
        if x is None:
            return AtB, Z if AtV is None else AtV
        ridges = self.asarray.asarray(np.repeat(self.ridges, self.m))[None, :]
        w = x.shape[1]
        R = self.asarray.concat([AtB] * len(self.ridges)) - AtV[:, :w] - x * ridges
        return R * self.live, AtV[:, w:]

    def columns(self, width: int, planted: int) -> list[HostArray]:
        """The columns of [R AᵀAZ …] that each ridge solves: all have the same without a start, else each its part."""
        starts = range(0, width, self.m) if width > self.m else [0] * len(self.ridges)
        solved = [np.arange(a, a + self.m) for a in starts]
        solved[self.least] = np.append(solved[self.least], np.arange(width, width + planted))
        return solved

    def answer(self, X: list[Array], x: Array | None, Z: Array) -> dict[str, Array]:
        """The answer from the solutions of each ridge, or of all at once, and what is left of planted columns."""
        w, solutions = len(self.scales), X[0]
        if len(X) > 1:  # the planted columns of the least ridge are left
            solutions = self.asarray.concat([*(V[:, : self.m] for V in X), X[self.least][:, self.m :]])
        answer = solutions if x is None else x * self.live + solutions[:, :w]
        return {"x": answer[:, :w]} | ({"planted": solutions[:, w:] - Z} if Z.shape[1] else {})


def rounding_of(moments: Moments, AtB: Array, width: int) -> dict[str, Any]:
    """How the residual of x with so many columns is computed, and the relative rounding of products with AᵀA."""
    if moments.holds:
        return {"unit": EPS}
    copies = width // AtB.shape[1]
    unit = moments.operators[1].device.blocks.asarray(np.tile(np.eye(AtB.shape[1]), copies))
    return {
        "left": lambda x: moments.residual(-x, unit)[0][0],
        "unit": float(np.finfo(moments.operators[0].dtype).eps),
    }
