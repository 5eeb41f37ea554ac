"""Conjugate gradients with a randomized Nyström preconditioner.

Problem: (AᵀA + rI) x = AᵀB, if few large eigenvalues of AᵀA slow down iterations that use only products.
Method: one pass multiplies a random block Ω; what follows from it reduces the large eigenvalues:

    Y = AᵀAΩ                                                                 (1)
    P from Y (ΩᵀY)⁺ Yᵀ, an approximation of AᵀA (nystrom_preconditioner.py)  (2)
    P^(-1/2) (AᵀA + rI) P^(-1/2) y = P^(-1/2) AᵀB,  x = P^(-1/2) y           (3)

where (3) is solved by conjugate gradients.
Source: Frangella, Tropp & Udell 2023, doi:10.1137/21M1466244, Algorithms 2.1, 5.1 and E.2.
Where we differ. A rule of costs determines the rank (nystrom_costs.py). The rank is doubled, in one pass for only the
new columns, as long as the next doubling is expected to save more than it costs. If the iteration handles the large
eigenvalues more cheaply by itself, there is no preconditioner. All right-hand sides run in one block, and all ridges
use the same sketch. If columns of dense data differ much in length and there is a ridge, they are first scaled to equal
length (Jacobi); at ridge 0 the scaled iteration would not lead to the least norm. (Counts of words have one unit, and
scaling them was measured to cost up to twice the iterations.)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from linspec import cost, form_option, limit_option, option, part, tol_option
from linspec.arrays import Array, HostArray
from linspec.cost import Estimate, Sizes
from linspec.iteration import Context, Iterate, solved_by_ridge
from linspec.linalg import Step, Steps, cg_steps, driven, in_variables
from linspec.rows import Moments
from linspec.solving import Solver
from linspec_lstsq.normal_system import rounding_of
from linspec_lstsq.nystrom_costs import Outlook, Prices
from linspec_lstsq.nystrom_preconditioner import NystromPreconditioner, NystromSketch

SPREAD = 1e4
"""Columns count as badly scaled above this ratio of the largest to the smallest squared norm, ridge included: to scale
them takes a pass."""

FIRST_RANK = 50
"""Columns of the first sketch."""

MOST_RANK = 800
"""Most columns to which a sketch grows by doubling."""

EXPECTED = 100
"""Expected number of iterations, with which "auto" compares a solve with a factorisation."""


WIDTH = 10
"""Right-hand sides that are expected of a solver that has this one as a part."""


@dataclass(frozen=True, kw_only=True)
class NystromPCG(Solver):
    """Nyström preconditioned conjugate gradients (Frangella, Tropp & Udell 2023, doi:10.1137/21M1466244)."""

    tol: float | None = tol_option(1e-8)
    max_iterations: int = limit_option(1000)
    rank: int | None = option(
        None, "columns of the sketch; none: doubled while it pays", kind=int, at_least=1
    )
    test_matrix: Any = part("gaussian", "what the sketch multiplies", kind="test-matrix")
    form: str = form_option()

    def iterate(self, problem: Any, moments: Moments, context: Context, start: Any) -> Iterator[Iterate]:
        """Yield the iterates of all ridges."""
        A = moments.operators[0]
        m = problem.B.shape[1]
        p, place = A.shape[1], A.backend.blocks
        moments.expect(EXPECTED, problem.width, self.form)
        product = moments.gram_product
        Omega = self._drawn(p, context.rng, place)
        (Y, _), (AtB, _) = moments.products(Omega, place.eye(m))  # (1)
        squares, ridge = moments.fitted[0].squares, min(problem.ridges)
        outlook = self._outlook(
            A.shape, squares, Prices(partial(price, moments), p, problem.width), context.tol
        )
        sketch = NystromSketch(Omega, Y, squares, outlook)
        if (
            A.readable
            and moments.subtracts[0]
            and _unequal(squares, ridge, SPREAD)
            and context.passes.affords(2)
        ):
            sketch = sketch.scaled_anew(ridge, product)
        draw = partial(self._drawn, p, context.rng, place)
        sketch = self._grown(sketch, draw, ridge, product, partial(context.passes.affords, 2))
        x = None if start is None else place.place(start["x"])
        begin, rounding = partial(preconditioned, sketch), rounding_of(moments, AtB, problem.width)
        yield from solved_by_ridge(product, AtB, problem.ridges, context, begin, x, **rounding)

    def _drawn(self, p: int, rng: np.random.Generator, place: Any, columns: int | None = None) -> Array:
        """Random columns; by default those of the first sketch."""
        return place.place(self.test_matrix.draw(p, min(columns or self.rank or FIRST_RANK, p), rng))

    def _outlook(self, shape: Any, squares: Any, prices: Prices, tol: float) -> Outlook:
        return Outlook(
            size=int(min(shape)),
            trace=float(squares.sum()),
            prices=prices,
            digits=float(np.log(2 / tol)) / 2,
            asked=self.rank is not None,
        )

    def _grown(
        self,
        sketch: NystromSketch,
        draw: Callable[..., Array],
        ridge: float,
        product: Callable[[Array], Array],
        affords: Callable[[], bool],
    ) -> NystromSketch:
        """The sketch with its columns doubled while that is expected to save more than it costs."""
        p, columns = sketch.Omega.shape
        most = columns if self.rank else min(MOST_RANK, p)
        while columns < most and affords() and sketch.pays(ridge):
            sketch = sketch.widened(draw(columns=min(columns, most - columns)), ridge, product)
            columns = sketch.Omega.shape[1]
        return sketch

    @classmethod
    def estimate(cls, sizes: Sizes) -> Estimate | None:
        """Estimated cost of a sketch and about a hundred products."""
        return cost.sweeps_estimate(sizes, EXPECTED, spare=FIRST_RANK)

    def begins(
        self, moments: Moments, i: int, ridge: float, context: Context
    ) -> Callable[[Array], Iterator[Step]]:
        """Sketch Xᵢ once; return what solves (XᵢᵀXᵢ + rI) x = G for blocks G, from zero."""
        A, product = moments.operators[i], partial(moments.gram_product, i=i)
        place, p = A.backend.blocks, A.shape[1]
        Omega = self._drawn(p, context.rng, place)
        Y, squares = product(Omega), moments.fitted[i].squares
        prices = Prices(partial(price, moments, i=i), p, WIDTH)
        sketch = NystromSketch(Omega, Y, squares, self._outlook(A.shape, squares, prices, context.tol))
        if A.readable and moments.subtracts[i] and _unequal(squares, ridge, SPREAD):
            sketch = sketch.scaled_anew(ridge, product)
        draw = partial(self._drawn, p, context.rng, place)
        sketch = self._grown(sketch, draw, ridge, product, partial(context.passes.affords, 2))
        return lambda G: driven(product, preconditioned(sketch, ridge, G))


def preconditioned(sketch: NystromSketch, ridge: float, G: Array) -> Steps:
    """Conjugate gradients for (AᵀA + rI) x = G in the variables of the preconditioner."""
    H = NystromPreconditioner.of(sketch, ridge)  # (2)
    return in_variables(cg_steps(H.adjoint(G)), H)  # (3)


def price(moments: Moments, columns: int, i: int = 0) -> float:
    """The time of a product with AᵀA, or with the matrix that is held."""
    A = moments.operators[i]
    if moments.holds:
        return float(A.shape[1] ** 2 / 2 * (cost.READING + 4 * columns) / cost.DENSE_RATE)
    return A.product_seconds(columns)


def _unequal(squares: HostArray, ridge: float, spread: float) -> bool:
    """Whether squares of columns, ridge included, differ by a factor; never at ridge 0, for the least norm."""
    d = squares + ridge
    return ridge > 0 and bool(d.max() > spread * d.min())
