"""Gradient descent with exact line search.

Problem: min ‖A x − B‖² + r ‖x‖².
Method: Lu (2015), Algorithms 3 and 13. With w = AᵀB − Mx, M = AᵀA + rI, and separately for every column

    s = wᵀw / wᵀMw,  x ← x + s w.

Each step multiplies the gap of the objective by at most ((d₁² − d_p²) / (d₁² + d_p² + 2r))², where d₁ and d_p are the
largest and smallest singular values of A (Kantorovich).
Where we differ: the gradient is updated by w ← w − s Mw, which saves a product. Rounding makes it drift, and the
residual of the solution, which is computed from the answer, shows that. A column stops when its gradient is rounding.
Every ridge of a path is a column with its own step.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

from linspec import IterativeSolver, LinearOperator, Moments, Run, form_option, limit_option, tol_option
from linspec.arrays import Array
from linspec_lstsq.normal_equations import KEPT, Kernel, NormalIterate, Point, System, solved
from linspec_lstsq.prepared import PreparedNormalEquations


@dataclass(kw_only=True, eq=False)
class Descent(Point):
    """The iterates x of all columns, and their gradients w, along which the next step goes."""

    X: Array
    W: Array

    @property
    def V(self) -> Array:
        """The gradients."""
        return self.W

    @property
    def x(self) -> Array:
        """The iterates."""
        return self.X

    @property
    def gradient(self) -> Array:
        """The gradients."""
        return self.W


@dataclass(frozen=True, kw_only=True)
class GradientDescent(IterativeSolver):
    """Gradient descent with exact line search (Lu 2015, Algorithms 3 and 13)."""

    tol: float | None = tol_option(1e-8)
    max_iterations: int = limit_option(1000)
    form: str = form_option()

    kept: ClassVar = (*KEPT, Descent)
    resumes_after_law: ClassVar = False

    def iterates(self, problem: Any, run: Run, state: Any = None) -> Iterator[NormalIterate]:
        """Yield the iterates that solve a least-squares problem."""
        return solved(problem, run, descent, self.form, state)

    def prepare(self, A: LinearOperator | Moments, ridge: float, run: Run) -> PreparedNormalEquations:
        """Return a state that solves for many right-hand sides by this iteration."""
        return PreparedNormalEquations(A, ridge, run, descent, self.max_iterations, self.tol, waits=False)


def descent(system: System, point: Any = None) -> Kernel:
    """Kernel of steepest descent, with the columns of all ridges side by side."""
    home, xp, count = system.home, system.home.xp, len(system.ridges)
    if point is None:
        x, w = (home.concat([V] * count) for V in system.at_start)
    else:
        x, w = point.X, point.W
    r = home.concat([home.ones((1, system.AtB.shape[1])) * ridge for ridge in system.ridges])
    # A gradient of only rounding has parts in the null space of M, and a step along them is unbounded.
    floor = home.concat([xp.sum((system.AtB * system.noise) ** 2, axis=0)[None, :]] * count)[0, :]
    while True:
        AtAw = yield Descent(home=home, X=x, W=w)
        Mw = AtAw + w * r
        ww, wMw = xp.sum(w * w, axis=0), xp.sum(w * Mw, axis=0)
        safe = (wMw > 0) & (ww > floor)
        s = xp.where(safe, ww / xp.where(safe, wMw, xp.ones_like(wMw)), xp.zeros_like(wMw))  # s = wᵀw / wᵀMw
        x = x + w * s  # x ← x + s w
        w = w - Mw * s  # w ← w − s Mw
