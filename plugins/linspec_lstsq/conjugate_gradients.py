"""Block conjugate gradients on the normal equations.

Problem: (AᵀA + rI) X = AᵀB, symmetric and positive (semi)definite, for m right-hand sides at once and for one or
several ridges r.
Method: the block iteration of O'Leary (1980) in the form of Dubrulle (2001), for all right-hand sides and ridges
together (block_conjugate_gradients.py). If no ridge is zero, matrices with fewer rows than columns are solved on the
side of the rows (dual.py).
Where we differ: see these two files.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar

from linspec import (
    LinearOperator,
    Moments,
    Run,
    Solution,
    Solver,
    cost,
    form_option,
    limit_option,
    tol_option,
)
from linspec.cost import Estimate, Sizes
from linspec_lstsq.block_conjugate_gradients import BlockConjugateGradients, block_conjugate_gradients
from linspec_lstsq.dual import resume_dual, solve_dual
from linspec_lstsq.normal_equations import NormalEquationsState, go_on, solve_normal_equations
from linspec_lstsq.steps_ahead import steps_ahead

EXPECTED, EXPECTED_SPARSE = 200, 100
"""Iterations of a solve, when "auto" compares it with other methods: on dense data and on counts of words, where
preconditioners save few iterations (measured)."""


ITERATION: Mapping[str, Any] = {
    "ridge": float,
    "seed": int,
    "weights": "right",
    "Q": "side kept",
    "tau": "after before",
    "z": "directions all",
    "shifts": [
        {
            "delta": float,
            "P": "side kept",
            "X": "side targets",
            "z": "rows targets",
            "Delta": "square square",
            "carried": "carried targets",
            "gain": "first second",
        }
    ],
}

STATE: Mapping[str, Any] = {
    "AtB?": "columns targets",
    "iterations?": [ITERATION],
    "seen?": float,
    "spectrum?": {"largest": float},
    "rows?": {
        **ITERATION,
        "own": {
            "AtB?": "columns targets",
            "_KP?": "side before",
            "judged": "side all",
            "_norm": float,
            "_scales": "scaled",
        },
    },
    "residual?": float,
}
"""What a checkpoint has of an iteration on the side of the columns, or of the rows."""


@dataclass(frozen=True, kw_only=True)
class ConjugateGradients(Solver):
    """Block conjugate gradients (O'Leary 1980, doi:10.1016/0024-3795(80)90247-5; Dubrulle 2001)."""

    tol: float | None = tol_option(1e-8)
    max_iterations: int = limit_option(1000)
    form: str = form_option()

    resumes: ClassVar[Mapping[str, Any]] = MappingProxyType(STATE)

    def solve(self, problem: Any, run: Run) -> Solution:
        """Solve a least-squares problem."""
        # Of rows that are read once, only what is held serves every iteration.
        form = "dense" if problem.sweeps == 1 and self.form == "auto" else self.form
        moments = run.moments(form)
        dual = moments.wide and not moments.center and min(problem.ridges) > 0
        if run.resumed is not None:
            resume = resume_dual if "rows" in run.resumed else go_on
            return resume(problem, run, moments, block_conjugate_gradients, BlockConjugateGradients.again)
        if dual and run.start is None:  # a start is not of the form Aᵀz
            return solve_dual(problem, run, moments)
        return solve_normal_equations(problem, run, block_conjugate_gradients, form)

    @classmethod
    def estimate(cls, sizes: Sizes) -> Estimate | None:
        """Some hundred products."""
        return cost.sweeps_estimate(sizes, EXPECTED_SPARSE if sizes.scattered else EXPECTED)

    def prepare(self, A: LinearOperator | Moments, ridge: float, run: Run) -> NormalEquationsState:
        """Prepare for many right-hand sides."""
        tol = 1e-8 if self.tol is None else self.tol
        begin = block_conjugate_gradients
        return NormalEquationsState(A, ridge, run, begin, self.max_iterations, tol, steps_ahead)
