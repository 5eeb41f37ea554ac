"""Solvers of reduced-rank regression: those of the discriminant directions whose targets are the right-hand sides.

Problem: the span of W in B = W diag(σ) Vᵀ; the law computes σ and V from it.
Method: `directions` of the problem is a `linspec.Discriminant` on the same matrices and the same run. "direct" and
"two-stage" are solvers of it. In the second, the least-squares solver of the first stage is an option, by name.
Source: Izenman 1975, doi:10.1016/0047-259X(75)90042-1 (full least squares, then eigenvectors of its fit); Mukherjee &
Zhu 2011, doi:10.1002/sam.10138 (the same with a ridge).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from linspec import Run, Solution, Solver, form_option, get_solver, limit_option, part, tol_option
from linspec.cost import Estimate, Sizes


@dataclass(frozen=True, kw_only=True)
class Direct(Solver):
    """One pass, a factor of XᵀX and singular vectors of a thin matrix (Mukherjee & Zhu 2011)."""

    def solve(self, problem: Any, run: Run) -> Solution:
        """Solve a reduced-rank regression."""
        found: Solution = solver_of_directions("direct")().solve(problem.directions(), run)
        return found

    @classmethod
    def estimate(cls, sizes: Sizes) -> Estimate | None:
        """Estimated cost of the directions."""
        found: Estimate | None = solver_of_directions("direct").estimate(sizes)
        return found


@dataclass(frozen=True, kw_only=True)
class TwoStage(Solver):
    """Full least squares by any solver, then eigenvectors of its fit (Izenman 1975)."""

    lstsq: Any = part(
        None,
        "least-squares solver of stage 1; none: cg on sparse data, nystrom-pcg on others",
        problem="least-squares",
    )
    tol: float | None = tol_option()
    max_iterations: int = limit_option(10000, "iterations of stage 1")
    form: str = form_option()

    def solve(self, problem: Any, run: Run) -> Solution:
        """Solve a reduced-rank regression."""
        found: Solution = self._inner().solve(problem.directions(), run)
        return found

    def _inner(self) -> Any:
        return solver_of_directions("two-stage")(
            lstsq=self.lstsq, tol=self.tol, max_iterations=self.max_iterations, form=self.form
        )

    @classmethod
    def estimate(cls, sizes: Sizes) -> Estimate | None:
        """Estimated cost of the directions."""
        found: Estimate | None = solver_of_directions("two-stage").estimate(sizes)
        return found


def solver_of_directions(name: str) -> Any:
    """Return the class of a solver of discriminant directions."""
    return get_solver(name, "discriminant")
