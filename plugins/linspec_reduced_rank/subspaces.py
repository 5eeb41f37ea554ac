"""Solvers of reduced-rank regression: those of the discriminant directions whose targets are the right-hand sides.

Problem: the span of W in B = W diag(σ) Vᵀ; the certificate computes σ and V from it.
Method: "direct" and "two-stage" are the solvers of `linspec.Discriminant` on the same rows. In the second, the
least-squares solver of the first stage is an option, by name.
Source: Izenman 1975, doi:10.1016/0047-259X(75)90042-1 (full least squares, then eigenvectors of its fit); Mukherjee &
Zhu 2011, doi:10.1002/sam.10138 (the same with a ridge).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from linspec import form_option, get_solver, limit_option, part, tol_option
from linspec.cost import Estimate, Sizes
from linspec.iteration import Context, Iterate
from linspec.rows import Moments
from linspec.solving import Solver

if TYPE_CHECKING:
    from linspec_reduced_rank.problem import ReducedRankRegression


@dataclass(frozen=True, kw_only=True)
class Direct(Solver):
    """One pass, a factor of XᵀX and singular vectors of a thin matrix (Mukherjee & Zhu 2011)."""

    of_directions: ClassVar[str] = "direct"

    def iterate(
        self, problem: ReducedRankRegression, moments: Moments, context: Context, start: Any
    ) -> Iterator[Iterate]:
        """Yield the iterates of the solver of directions with the same options."""
        solver: Any = get_solver(self.of_directions, "discriminant")(**vars(self))
        return solver.iterate(problem, moments, context, start)

    @classmethod
    def estimate(cls, sizes: Sizes) -> Estimate | None:
        """Estimated cost of the directions."""
        solver: Any = get_solver(cls.of_directions, "discriminant")
        return solver.estimate(sizes)


@dataclass(frozen=True, kw_only=True)
class TwoStage(Direct):
    """Full least squares by any solver, then eigenvectors of its fit (Izenman 1975)."""

    of_directions: ClassVar[str] = "two-stage"

    lstsq: Any = part(
        None,
        "least-squares solver of stage 1; none: cg on sparse data, nystrom-pcg on others",
        problem="least-squares",
        method="begins",
    )
    tol: float | None = tol_option()
    max_iterations: int = limit_option(10000, "iterations of stage 1")
    form: str = form_option()
