"""An iteration whose own residual is too small is sent back by the certificate, while that helps and is allowed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pytest
from backends import CountingOperator

import linspec as ls
from linspec import Status, option
from linspec.arrays import to_host
from linspec.errors import ConvergenceWarning
from linspec.iteration import Iterate
from linspec.solving import Solver

TOL = 1e-8


@dataclass(frozen=True, kw_only=True)
class Optimist(Solver):
    """Gradient descent that takes its residual for smaller than it is."""

    tol: float | None = option(TOL, "residual to stop at", above=0)
    max_iterations: int = option(1000, "iterations at most", at_least=1)
    share: float = option(1e-3, "of the residual that it believes in", above=0)
    steps: int = option(10**9, "steps after which the generator ends", at_least=0)
    fails: int = option(10**9, "the step that finds no memory", at_least=1)

    def iterate(self, problem: Any, moments: Any, context: Any, start: Any) -> Iterator[Iterate]:
        AtB = moments.cross()
        x = np.full_like(AtB, 1e-9)
        r, size = AtB - moments.gram_product(x), np.linalg.norm(AtB)
        for step in range(self.steps + 1):
            yield Iterate(self.share * float(np.linalg.norm(r) / size), partial(dict, x=x))
            if step + 1 == self.fails:
                raise MemoryError
            x = x + r
            r = AtB - moments.gram_product(x)


def problem():
    rng = np.random.default_rng(0)
    U, V = np.linalg.qr(rng.standard_normal((60, 6)))[0], np.linalg.qr(rng.standard_normal((6, 6)))[0]
    A = U * np.linspace(0.5, 1, 6) @ V
    return A, rng.standard_normal((60, 1))


def residual_of(A, b, solution):
    return np.linalg.norm(A.T @ (b - A @ to_host(solution.x))) / np.linalg.norm(A.T @ b)


@pytest.mark.parametrize("share", [1.0, 1e-1, 1e-3, 1e-6])
def test_it_goes_on_until_the_certificate_is_met(share):
    A, b = problem()
    found = ls.solve(ls.LeastSquares(A, b), Optimist(share=share))
    honest = ls.solve(ls.LeastSquares(A, b), Optimist(share=1.0))
    assert (found.status, found.converged) == (Status.CONVERGED, True)
    assert residual_of(A, b, found) <= TOL
    # The tolerance falls in proportion when it is found out: hardly an iteration more than by the residual itself.
    assert found.iterations <= honest.iterations + 3


@pytest.mark.parametrize("budget", [4, 6, 9, 14])
def test_its_budget_holds(budget):
    A, b = problem()
    operator = CountingOperator(A, sliceable=True, readable=True)
    found = ls.solve(ls.LeastSquares(operator, b), Optimist(share=1.0), max_passes=budget)
    assert operator.passes <= found.passes <= budget
    assert (found.status, found.converged) == (Status.BUDGET, False)
    assert found.residual == pytest.approx(residual_of(A, b, found), rel=1e-6)


def test_a_generator_that_ends_by_itself_has_stagnated():
    """The last iterate is the answer, judged by the certificate."""
    A, b = problem()
    with pytest.warns(ConvergenceWarning):
        found = ls.solve(ls.LeastSquares(A, b), Optimist(share=1.0, steps=3))
    assert (found.status, found.converged, found.iterations) == (Status.STAGNATED, False, 3)
    x = np.full((6, 1), 1e-9)
    for _ in range(3):
        x = x + A.T @ (b - A @ x)
    np.testing.assert_allclose(found.x, x, rtol=1e-12)
    assert found.residual == pytest.approx(residual_of(A, b, found), rel=1e-9)


def test_a_step_without_memory_ends_with_the_last_iterate():
    A, b = problem()
    seen: list[Any] = []
    with pytest.warns(ConvergenceWarning):
        found = ls.solve(
            ls.LeastSquares(A, b),
            Optimist(share=1.0, fails=4),
            callback=lambda p: seen.append(p.current()["x"]),
        )
    assert found.status is Status.OUT_OF_MEMORY
    np.testing.assert_array_equal(found.x, seen[-1])
    assert len(seen) == 4
