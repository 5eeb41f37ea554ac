"""An iteration whose own residual is too small is sent back by the law, and only while that helps and is allowed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from backends import CountingOperator

import linspec as ls
from linspec import Solver, Status, option
from linspec.arrays import to_host

TOL = 1e-8


@dataclass(frozen=True, kw_only=True)
class Optimist(Solver):
    """Gradient descent that takes its residual for smaller than it is."""

    tol: float | None = option(TOL, "residual to stop at", above=0)
    share: float = option(1e-3, "of the residual that it believes in", above=0)
    step: float = option(1.0, "length of a step; 0: it stays where it is", at_least=0)
    most: float = option(float("inf"), "by so much above the tolerance it still goes on", above=0)

    def solve(self, problem: Any, run: Any) -> Any:
        moments = run.moments("implicit")
        run.plan(setup=2 * moments.cost.sweep)
        AtB = moments.products(None, moments.home.eye(problem.B.shape[1]))[1]
        x = np.full_like(AtB, 1e-9)
        r, size = AtB - moments.gram(x), np.linalg.norm(AtB)
        while run.proceed(
            residual=min(self.share * float(np.linalg.norm(r) / size), 1.0 if self.step else 1e-9),
            current=lambda x=x: {"x": x},
        ) or run.falls_short(self.most, x=x):
            x = x + self.step * r
            r = AtB - moments.gram(x)
        return run.finish(x=x)


def problem():
    rng = np.random.default_rng(0)
    U, V = np.linalg.qr(rng.standard_normal((60, 6)))[0], np.linalg.qr(rng.standard_normal((6, 6)))[0]
    A = U * np.linspace(0.5, 1, 6) @ V
    return A, rng.standard_normal((60, 1))


def residual_of(A, b, solution):
    return np.linalg.norm(A.T @ (b - A @ to_host(solution.x))) / np.linalg.norm(A.T @ b)


@pytest.mark.parametrize("share", [1.0, 1e-1, 1e-3, 1e-6])
def test_it_goes_on_until_the_law_is_met(share):
    A, b = problem()
    found = ls.solve(ls.LeastSquares(A, b), Optimist(share=share))
    honest = ls.solve(ls.LeastSquares(A, b), Optimist(share=1.0))
    assert (found.status, found.converged) == (Status.CONVERGED, True)
    assert residual_of(A, b, found) <= TOL
    # The estimate is corrected when it is found out: hardly an iteration more than by the residual itself.
    assert found.iterations <= honest.iterations + 3
    assert found.history["residual"][-1] == pytest.approx(found.residual, rel=1e-3)


@pytest.mark.parametrize("budget", [4, 6, 9, 14])
def test_its_budget_holds(budget):
    A, b = problem()
    operator = CountingOperator(A, sliceable=True, readable=True)
    found = ls.solve(ls.LeastSquares(operator, b), Optimist(share=1e-9), max_passes=budget)
    assert operator.passes <= found.passes <= budget
    assert (found.status, found.converged) == (Status.BUDGET, False)
    assert found.residual == pytest.approx(residual_of(A, b, found), rel=1e-6)
