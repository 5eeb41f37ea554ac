"""Conjugate gradients on the normal equations.

Problem: (AᵀA + rI) x = AᵀB, symmetric and positive (semi)definite.
Method: the iteration of Hestenes & Stiefel (1952, section 3), run for all right-hand sides at once: one block
product with AᵀA an iteration, the scalars of each column its own. From x = 0 at ridge 0 it leads to the
solution of least norm.
Where we differ: a column whose gradient has come down to rounding stands still instead of dividing noise by
noise, and nothing is read back to the host inside the iteration.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from linspec import LinearOperator, Moments, Run, Solution, Solver, option
from linspec.arrays import Array
from linspec_lstsq.normal_equations import NormalEquationsState, solve_normal_equations


@dataclass(frozen=True, kw_only=True)
class ConjugateGradients(Solver):
    """Conjugate gradients on the normal equations (Hestenes & Stiefel 1952, doi:10.6028/jres.049.044)."""

    tol: float | None = option(None, "relative residual to stop at; none: 1e-8, more for float32", above=0)
    max_iterations: int = option(1000, "iterations at most", at_least=1)
    form: str = option("auto", "hold AᵀA or sweep the data", choices=("auto", "dense", "sparse", "implicit"))

    def solve(self, problem: Any, run: Run) -> Solution:
        """Solve a least-squares problem."""
        return solve_normal_equations(problem, run, conjugate_gradients, self.form)

    def prepare(self, A: LinearOperator | Moments, ridge: float, run: Run) -> NormalEquationsState:
        """Make ready for many right-hand sides."""
        tol = 1e-8 if self.tol is None else self.tol
        return NormalEquationsState(A, ridge, run, conjugate_gradients, self.max_iterations, tol)


def conjugate_gradients(
    multiply: Callable[[Array], Array], x: Array, AtB: Array, floor: Array, xp: Any
) -> Iterator[tuple[Array, Array]]:
    """Iterates of M x = AᵀB, with their residuals r = AᵀB − M x."""
    r = AtB - multiply(x) if bool(xp.any(x != 0)) else AtB
    p, rr = r, xp.sum(r * r, axis=0)
    while True:
        yield x, r
        Mp = multiply(p)
        pMp = xp.where(rr > floor, xp.sum(p * Mp, axis=0), xp.zeros_like(rr))
        a = _quotient(rr, pMp, xp)  # 1. step length of each column
        x = x + p * a[None, :]
        r = r - Mp * a[None, :]
        rr, rr_old = xp.sum(r * r, axis=0), rr
        p = r + p * _quotient(rr, rr_old, xp)[None, :]  # 2. the next direction, conjugate to the last


def _quotient(a: Array, b: Array, xp: Any) -> Array:
    safe = b > 0
    return xp.where(safe, a / xp.where(safe, b, xp.ones_like(b)), xp.zeros_like(b))
