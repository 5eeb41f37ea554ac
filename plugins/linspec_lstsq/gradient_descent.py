"""Gradient descent with exact line search.

Problem: min ‖A x − B‖² + r ‖x‖².
Method: Lu (2015), Algorithms 3 and 13. With w = AᵀB − (AᵀA + rI) x and s = wᵀw / wᵀ(AᵀA + rI)w per column,
x ← x + s w. The gap of the objective shrinks a step by at least ((d₁² − d_p²) / (d₁² + d_p² + 2r))², where d₁
and d_p are the largest and smallest singular values of A (Kantorovich).
Where we differ: the gradient is updated by w ← w − s Mw, which saves a product. Rounding makes it drift, and
the residual of the solution, which is computed from the answer, shows that. A column stops when its gradient
is rounding. Every ridge of a path is a column with its own step.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from linspec import LinearOperator, Moments, Run, Solution, Solver, form_option, limit_option, tol_option
from linspec.arrays import Array, HostArray
from linspec_lstsq.gradients import column_norms
from linspec_lstsq.normal_equations import (
    Iteration,
    NormalEquationsState,
    System,
    solve_normal_equations,
    steps_unseen,
)


@dataclass(frozen=True, kw_only=True)
class GradientDescent(Solver):
    """Gradient descent with exact line search (Lu 2015, Algorithms 3 and 13)."""

    tol: float | None = tol_option(1e-8)
    max_iterations: int = limit_option(1000)
    form: str = form_option()

    def solve(self, problem: Any, run: Run) -> Solution:
        """Solve a least-squares problem."""
        return solve_normal_equations(problem, run, descents, self.form)

    def prepare(self, A: LinearOperator | Moments, ridge: float, run: Run) -> NormalEquationsState:
        """Prepare for many right-hand sides."""
        tol = 1e-8 if self.tol is None else self.tol
        ahead = partial(steps_unseen, descents)
        return NormalEquationsState(A, ridge, run, descents, self.max_iterations, tol, ahead)


def descents(system: System) -> Sequence[Iteration]:
    """One iteration for all columns and ridges."""
    return [Descent(system)]


class Descent(Iteration):
    """Steepest descent; the columns of all ridges side by side."""

    def __init__(self, system: System) -> None:
        home, count = system.home, len(system.ridges)
        self.home, self.xp = home, home.xp
        start, gradient = system.at_start
        self.w, self.iterate = home.concat([gradient] * count), home.concat([start] * count)
        ridges = [home.ones((system.AtB.shape[1],)) * ridge for ridge in system.ridges]
        self.ridge = ridges[0] if count == 1 else home.xp.concat(ridges)
        # A gradient of only rounding has parts in the null space of M, and a step along them is unbounded.
        floor = home.xp.sum((system.AtB * system.noise) ** 2, axis=0)
        self.floor = floor if count == 1 else home.xp.concat([floor] * count)

    def ask(self) -> Array:
        """The gradients."""
        return self.w

    def tell(self, AtAV: Array) -> None:
        """A step along each gradient to the lowest point."""
        xp, w = self.xp, self.w
        Mw = AtAV + w * self.ridge[None, :]
        ww, wMw = xp.sum(w * w, axis=0), xp.sum(w * Mw, axis=0)
        safe = (wMw > 0) & (ww > self.floor)
        s = xp.where(safe, ww / xp.where(safe, wMw, xp.ones_like(wMw)), xp.zeros_like(wMw))
        self.iterate = self.iterate + w * s[None, :]
        self.w = w - Mw * s[None, :]

    def x(self) -> Array:
        """The iterate."""
        return self.iterate

    def gradient(self) -> Array:
        """AᵀB − (AᵀA + rI) x."""
        return self.w

    def gradient_norms(self) -> HostArray:
        """‖w‖ of every column."""
        return column_norms(self.w, self.home)

    def gradient_squares(self) -> Array:
        """Their squares."""
        return self.xp.sum(self.w * self.w, axis=0)
