"""Conjugate gradients with a randomized Nyström preconditioner.

Problem: (AᵀA + rI) x = AᵀB, if few large eigenvalues of AᵀA slow down iterations that use only products.
Method: one sweep multiplies a random block Ω. With Y = AᵀAΩ, the Nyström approximation Y(ΩᵀY)⁺Yᵀ = UΛUᵀ
has accurate leading eigenvectors, and

    P = U (Λ + r)/(λ_l + r) Uᵀ + (I − UUᵀ)

reduces the large eigenvalues to λ_l + r. Conjugate gradients then run on P^(-1/2) (AᵀA + rI) P^(-1/2).
Source: Frangella, Tropp & Udell 2023, doi:10.1137/21M1466244, Algorithms 2.1, 5.1 and E.2.

Where we differ. A rule of costs determines the rank. The rank is doubled, in one sweep for only the new columns, as
long as the next doubling is expected to save more than it costs. The expectation comes from the effect of the last
doubling on the spectrum. If the iteration handles the large eigenvalues more cheaply by itself, there is no
preconditioner. All right-hand sides run in one block, and all ridges use the same sketch. If columns of dense data
differ much in length and there is a ridge, they are first scaled to equal length (Jacobi); at ridge 0 the scaled
iteration would not lead to the least norm. (Counts of words have one unit, and scaling them was measured to cost up to
twice the iterations.) If the sketch covers the whole range, eigenvalues are reduced to r and not to λ_l + r.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar

import numpy as np

from linspec import (
    IterativeSolver,
    LinearOperator,
    Moments,
    Run,
    cost,
    form_option,
    limit_option,
    option,
    part,
    tol_option,
)
from linspec.arrays import Array, to_host
from linspec.cost import Estimate, Sizes
from linspec_lstsq.block_step import Blocks
from linspec_lstsq.conjugate_gradients import block_conjugate_gradients
from linspec_lstsq.normal_equations import KEPT, Kernel, NormalIterate, System, iterates
from linspec_lstsq.nystrom_costs import Outlook, Prices
from linspec_lstsq.nystrom_preconditioner import NystromPreconditioner, NystromSketch
from linspec_lstsq.prepared import PreparedNormalEquations
from linspec_lstsq.transformed import Transformed, transformed

FIRST_RANK = 50
"""Number of columns of the first sketch."""

MOST_RANK = 800
"""Largest number of columns to which a sketch grows by doubling."""

EXPECTED = 100
"""Expected number of iterations, with which "auto" compares a solve with a factorisation."""


@dataclass(frozen=True, kw_only=True)
class NystromPCG(IterativeSolver):
    """Nyström preconditioned conjugate gradients (Frangella, Tropp & Udell 2023, doi:10.1137/21M1466244)."""

    preparation: ClassVar[float] = 1.0

    tol: float | None = tol_option(1e-8)
    max_iterations: int = limit_option(1000)
    rank: int | None = option(
        None, "columns of the sketch; none: doubled while it pays", kind=int, at_least=1
    )
    test_matrix: Any = part("gaussian", "what the sketch multiplies", kind="test-matrix")
    form: str = form_option()

    kept: ClassVar = (*KEPT, Blocks, Transformed, NystromSketch, Outlook, Prices)
    resumes_after_law: ClassVar = False

    def iterates(self, problem: Any, run: Run, state: Any = None) -> Iterator[NormalIterate]:
        """Yield the iterates that solve a least-squares problem."""
        moments = run.moments(self.form)
        if state is not None:
            return iterates(
                run,
                moments,
                partial(preconditioned, state.before),
                state.system,
                state=state,
            )
        sweep = moments.view(0).cost.sweep
        begun = sweep if run.start is not None else 0.0
        with run.budget.reserving(begun):
            sketch, AtB = self._sketch(moments, run, problem.ridges, problem.width)
        system = replace(System.of(moments, AtB, problem.ridges), norm=sketch.norm)
        parts = system.separately()
        if run.start is not None:
            x = system.wanted(moments.home.place(run.start["x"]))
            parts = system.starting_from(x, moments.gram(x))
        return iterates(run, moments, partial(preconditioned, sketch), system, parts, before=sketch)

    @classmethod
    def estimate(cls, sizes: Sizes) -> Estimate | None:
        """Estimated cost of a sketch and about a hundred products."""
        return cost.sweeps_estimate(sizes, EXPECTED, spare=FIRST_RANK)

    def prepare(self, A: LinearOperator | Moments, ridge: float, run: Run) -> PreparedNormalEquations:
        """Compute one sketch, and return a state that uses it to solve for many right-hand sides."""
        moments = A if isinstance(A, Moments) else Moments(A, form="implicit")
        sketch, _ = self._sketch(moments, run, (ridge,), run.problem.width)
        return PreparedNormalEquations(
            A, ridge, run, partial(preconditioned, sketch), self.max_iterations, self.tol
        )

    def _sketch(
        self, moments: Moments, run: Run, ridges: tuple[float, ...], width: int
    ) -> tuple[NystromSketch, Array | None]:
        """Return a sketch, and AᵀB from its first sweep; None instead of AᵀB if there is no B.

        The sketch has `rank` columns if this option is set. Otherwise the number of its columns is doubled, up to
        MOST_RANK and as far as the budget allows, while a doubling is expected to save more time than it costs.
        `width` is the number of right-hand sides, on which the cost of an iteration depends.
        """
        home, test_matrix, ridge = moments.home, run.part(self.test_matrix), min(ridges)
        n, p, _ = moments.shape

        def draw(columns: int) -> Array:
            return home.place(test_matrix.draw(p, columns, run.rng))

        first = min(self.rank or FIRST_RANK, p)
        Omega = draw(first)
        products = moments.products(Omega, cross=moments.Y is not None)
        Y, AtB = products[0], products.cross
        outlook = Outlook(
            size=min(n, p),
            trace=float(to_host(home.xp.sum(moments.diagonal()[0]))),
            prices=Prices.of(moments, width),
            digits=float(np.log(2 / run.tol)) / 2,
            asked=self.rank is not None,
        )
        sketch = NystromSketch(Omega, Y, moments.diagonal()[0], home, outlook)
        sweep = moments.view(0).cost.sweep
        dense = moments.X.readable and moments.X.nnz == n * p
        if dense and sketch.unequal(ridge) and run.budget.affords(sweep):
            Omega = draw(first) / sketch.roots(ridge)[:, None]
            sketch = NystromSketch(Omega, moments.gram(Omega), sketch.diagonal, home, outlook, scaled=True)
        most = first if self.rank else min(MOST_RANK, p)
        while sketch.columns < most and run.budget.affords(2 * sweep) and sketch.pays(ridge):
            more = draw(min(sketch.columns, most - sketch.columns))
            more = more / sketch.roots(ridge)[:, None] if sketch.scaled else more
            sketch = sketch.widened(more, moments.gram(more))
        return sketch, AtB


def preconditioned(sketch: NystromSketch, system: System, point: Any = None) -> Kernel:
    """Kernel of conjugate gradients for one ridge, preconditioned by a sketch."""
    return transformed(
        system, NystromPreconditioner.of(sketch, system.ridges[0]), block_conjugate_gradients, point
    )
