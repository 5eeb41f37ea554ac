"""Gradient descent with exact line search.

Problem: min ‖A x − B‖² + r ‖x‖².
Method: Lu (2015), Algorithms 3 and 13. With w = AᵀB − (AᵀA + rI) x and s = wᵀw / wᵀ(AᵀA + rI)w per column,
x ← x + s w. The gap of the objective shrinks a step by at least ((d₁² − d_p²) / (d₁² + d_p² + 2r))², where d₁
and d_p are the largest and smallest singular values of A (Kantorovich).
Where we differ: the gradient is updated by w ← w − s Mw, which saves a product; what that drifts by rounding, the
residual of the solution shows, which is computed from the answer. A column at rounding stands still.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from linspec import LinearOperator, Moments, Run, Solution, Solver, option
from linspec.arrays import Array
from linspec_lstsq.normal_equations import NormalEquationsState, solve_normal_equations


@dataclass(frozen=True, kw_only=True)
class GradientDescent(Solver):
    """Gradient descent with exact line search (Lu 2015, Algorithms 3 and 13)."""

    tol: float | None = option(None, "relative residual to stop at; none: 1e-8, more for float32", above=0)
    max_iterations: int = option(1000, "iterations at most", at_least=1)
    form: str = option("auto", "hold AᵀA or sweep the data", choices=("auto", "dense", "sparse", "implicit"))

    def solve(self, problem: Any, run: Run) -> Solution:
        """Solve a least-squares problem."""
        return solve_normal_equations(problem, run, gradient_descent, self.form)

    def prepare(self, A: LinearOperator | Moments, ridge: float, run: Run) -> NormalEquationsState:
        """Make ready for many right-hand sides."""
        tol = 1e-8 if self.tol is None else self.tol
        return NormalEquationsState(A, ridge, run, gradient_descent, self.max_iterations, tol)


def gradient_descent(
    multiply: Callable[[Array], Array], x: Array, AtB: Array, floor: Array, xp: Any
) -> Iterator[tuple[Array, Array]]:
    """Iterates of M x = AᵀB by steepest descent, with their negative gradients w = AᵀB − M x."""
    w = AtB - multiply(x) if bool(xp.any(x != 0)) else AtB
    while True:
        yield x, w
        Mw = multiply(w)
        ww, wMw = xp.sum(w * w, axis=0), xp.sum(w * Mw, axis=0)
        safe = (wMw > 0) & (ww > floor)
        s = xp.where(safe, ww / xp.where(safe, wMw, xp.ones_like(wMw)), xp.zeros_like(wMw))
        x = x + w * s[None, :]
        w = w - Mw * s[None, :]
