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
use the same sketch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from linspec import cost, form_option, limit_option, option, part, tol_option
from linspec.arrays import Array
from linspec.cost import Estimate, Sizes
from linspec.iteration import Context, Iterate, solved_by_ridge
from linspec.linalg import Step, Steps, cg_steps, driven, in_variables
from linspec.rows import Moments
from linspec.solving import Solver
from linspec_lstsq.normal_system import rounding_of
from linspec_lstsq.nystrom_costs import Outlook
from linspec_lstsq.nystrom_preconditioner import Nystrom, NystromPreconditioner

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
        place, m = moments.operators[0].backend.blocks, problem.B.shape[1]
        moments.expect(EXPECTED, problem.width, self.form)
        Omega = self._drawn(moments, 0, context)
        (Y, _), (AtB, _) = moments.products(Omega, place.eye(m))  # (1)
        outlook = Outlook(moments, 0, problem.width, context.tol)
        begin = self._preconditioned(outlook, Omega, Y, min(problem.ridges), context)
        x, rounding = (
            None if start is None else place.place(start["x"]),
            rounding_of(moments, AtB, problem.width),
        )
        yield from solved_by_ridge(moments.gram_product, AtB, problem.ridges, context, begin, x, **rounding)

    def _drawn(self, moments: Moments, i: int, context: Context, columns: int | None = None) -> Array:
        """Random columns; by default those of the first sketch."""
        p, place = moments.widths[i], moments.operators[i].backend.blocks.place
        return place(self.test_matrix.draw(p, min(columns or self.rank or FIRST_RANK, p), context.rng))

    def _preconditioned(
        self, outlook: Outlook, Omega: Array, Y: Array, ridge: float, context: Context
    ) -> Callable[[float, Array], Steps]:
        """What begins the iteration for one ridge and a right-hand side.

        The columns of the sketch are doubled while that is expected to save more than it costs.
        """
        N, concat = Nystrom.of(Omega, Y), outlook.moments.operators[outlook.i].backend.blocks.concat
        p, columns = Omega.shape
        most = columns if self.rank else min(MOST_RANK, p)
        while (
            columns < most and context.passes.affords(2) and not N.complete and outlook.pays(N.values, ridge)
        ):
            more = self._drawn(outlook.moments, outlook.i, context, min(columns, most - columns))
            Omega = concat([Omega, more])
            Y = concat([Y, outlook.moments.gram_product(more, outlook.i)])
            N, columns = Nystrom.of(Omega, Y), Omega.shape[1]

        def begin(r: float, G: Array) -> Steps:
            """Conjugate gradients for (AᵀA + rI) x = G, in the variables of the preconditioner if it is useful."""
            asked = self.rank is not None or N.exact(r)
            if not len(N.values) or not (asked or outlook.useful(N.values, r)):
                return cg_steps(G, (r,))
            H = NystromPreconditioner.of(N, r)  # (2)
            return in_variables(cg_steps(H.forward(G)), H)  # (3)

        return begin

    @classmethod
    def estimate(cls, sizes: Sizes) -> Estimate | None:
        """Estimated cost of a sketch and about a hundred products."""
        return cost.sweeps_estimate(sizes, EXPECTED, spare=FIRST_RANK)

    def begins(
        self, moments: Moments, i: int, ridge: float, context: Context
    ) -> Callable[[Array], Iterator[Step]]:
        """Sketch Xᵢ once; return what solves (XᵢᵀXᵢ + rI) x = G for blocks G, from zero."""
        product, Omega = partial(moments.gram_product, i=i), self._drawn(moments, i, context)
        outlook = Outlook(moments, i, WIDTH, context.tol)
        begin = self._preconditioned(outlook, Omega, product(Omega), ridge, context)
        return lambda G: driven(product, begin(ridge, G))
