"""What gradient descent and conjugate gradients share: a loop over the normal equations.

Both solve (AᵀA + rI) x = AᵀB by products with AᵀA alone. The iteration itself is a generator that yields the
iterate and the relative residual of each column; here it is run to an end, either as the solver of a problem
or as a part of an outer method.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from linspec import LeastSquaresState, LinearOperator, Moments, Run, Solution
from linspec.arrays import Array, to_host

Iteration = Callable[[Callable[[Array], Array], Array, Array, Array, Any], Iterator[tuple[Array, Array]]]
"""(M, x, AᵀB, floor, xp) -> iterates with their gradients AᵀB − M x.

A column stands still once the square of its gradient is at `floor`: what is left then is rounding, which has parts
where M vanishes, and a step along those would have no bound.
"""

ROUNDING = 20
"""Relative gradient, in units of the data's rounding, at which a column stands still."""


def solve_normal_equations(problem: Any, run: Run, iteration: Iteration, form: str) -> Solution:
    """Run an iteration as the solver of a least-squares problem."""
    moments = run.moments(form)
    run.plan(setup=moments.setup_cost + moments.sweep_cost, iteration=moments.view(0).sweep_cost)
    home = moments.home
    xp = home.xp
    _, AtB, _, _ = moments.products(None, home.eye(problem.B.shape[1]))
    start = home.zeros(tuple(AtB.shape))
    x = start
    scale = _column_norms(AtB, xp)

    def multiply(V: Array) -> Array:
        return moments.gram_matmat(V) + V * problem.ridge

    floor = _floor(AtB, problem.A, xp)
    for x, gradient in iteration(multiply, start, AtB, floor, xp):
        worst = _worst(gradient, scale, xp)
        if not run.proceed(residual=worst, current=partial(dict, x=x)):
            break
    return run.finish(x=x)


class NormalEquationsState(LeastSquaresState):
    """The same iteration as a part: made ready for one matrix, stopped at a residual or a count."""

    def __init__(
        self,
        A: LinearOperator | Moments,
        ridge: float,
        run: Run,
        iteration: Iteration,
        limit: int,
        tol: float,
    ) -> None:
        self.A, self.ridge, self.run = A, ridge, run
        self.iteration, self.limit, self.tol = iteration, limit, tol
        self.moments = A if isinstance(A, Moments) else Moments(A, form="implicit")

    def solve(
        self, B: LinearOperator, x0: Array | None = None, tol: float | None = None, AtB: Array | None = None
    ) -> Array:
        """See `LeastSquaresState.solve`."""
        home = self.moments.home
        xp = home.xp
        if AtB is None:
            AtB = Moments(self.A, B, form="implicit").products(None, home.eye(B.shape[1]))[1]
        scale = _column_norms(AtB, xp)
        tol = self.tol if tol is None else tol
        start = home.zeros(tuple(AtB.shape)) if x0 is None else home.place(x0)
        x = start

        def multiply(V: Array) -> Array:
            return self.moments.gram_matmat(V) + V * self.ridge

        iterates = self.iteration(multiply, start, AtB, _floor(AtB, self.A, xp), xp)
        for _ in range(self.limit + 1):
            x, gradient = next(iterates)
            if _worst(gradient, scale, xp) <= tol or not self.run.affords(self.moments.sweep_cost):
                break
        return x


def _floor(AtB: Array, A: Any, xp: Any) -> Array:
    dtype = A.X.dtype if isinstance(A, Moments) else A.dtype
    return xp.sum(AtB * AtB, axis=0) * (ROUNDING * float(np.finfo(dtype).eps)) ** 2


def _column_norms(V: Array, xp: Any) -> Array:
    return xp.sqrt(xp.sum(V * V, axis=0))


def _worst(gradient: Array, scale: Array, xp: Any) -> float:
    """The largest relative residual of a column; a column with AᵀB = 0 counts only if it is not solved."""
    norms = to_host(xp.stack([_column_norms(gradient, xp), scale]))
    ratios = np.divide(norms[0], norms[1], out=np.zeros_like(norms[0]), where=norms[1] > 0)
    ratios[(norms[1] == 0) & (norms[0] > 0)] = np.inf
    return float(ratios.max(initial=0.0))
