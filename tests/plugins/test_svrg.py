"""Stochastic variance reduced gradients against exact answers and against what theory says of their steps."""

from __future__ import annotations

import numpy as np
import pytest
from planted import factored

import linspec as ls


def random(seed=0):
    return np.random.default_rng(seed).standard_normal


def test_batches_of_all_rows_are_gradient_descent():
    A, b = random()((30, 5)), random(1)(30)
    step, seen = 0.5 / np.linalg.norm(A, 2) ** 2, []
    ls.solve(
        ls.LeastSquares(A, b, ridge=0.4), "svrg", batch=30, step=step, snapshot="last", rng=0,
        callback=lambda p: seen.append(p.current()["x"][:, 0]) or p.iteration == 3,
    )  # fmt: skip
    x = np.zeros(5)
    for found in seen:
        np.testing.assert_allclose(found, x, atol=1e-13)
        x = x + step * (A.T @ (b - A @ x) - 0.4 * x)


def test_tall_data_take_fewer_passes_than_gradient_descent():
    """The purpose of stochastic gradients: many similar rows, where a few determine nearly all."""
    A = random()((20_000, 20)) * np.geomspace(30, 1, 20)
    problem = ls.LeastSquares(A, A @ random(1)(20) + random(2)(20_000))
    stochastic = ls.solve(problem, "svrg", rng=0, tol=1e-7)
    full = ls.solve(problem, "gd", form="implicit", tol=1e-7, max_passes=400)
    assert stochastic.converged
    assert 5 * stochastic.passes < full.passes


@pytest.mark.filterwarnings("ignore::linspec.errors.ConvergenceWarning")
@pytest.mark.parametrize("snapshot", ["best", "last"])
@pytest.mark.parametrize(("dtype", "factor"), [(float, 5.0), (float, 1e200), ("f4", 1e3), ("f4", 1e12)])
def test_a_step_that_diverges_is_caught_and_said(snapshot, dtype, factor):
    """Also where it leaves the range of float32; the objective never rises from snapshot to snapshot."""
    s, seen = np.linspace(4, 1, 20), []
    A, U, V = factored(200, 20, s)
    A, b = A.astype(dtype), random()(200)
    watch = lambda p: seen.append(np.sum((A @ p.current()["x"][:, 0] - b) ** 2))  # noqa: E731
    options = {"step": factor, "snapshot": snapshot, "callback": watch}
    found = ls.solve(ls.LeastSquares(A, b), "svrg", rng=0, **options)
    assert found.converged
    assert "grew with this step=" in found.message
    best = V @ (U.T @ b / s)
    np.testing.assert_allclose(found.x, best, atol=1e-6 if dtype is float else 1e-4)
    if dtype is float:
        assert (np.diff(seen) <= 1e-13 * seen[0]).all()
        assert seen[-1] >= np.sum((A @ best - b) ** 2) * (1 - 1e-13)
        assert "step=" not in ls.solve(ls.LeastSquares(A, b), "svrg", rng=0).message


def test_rows_of_very_unequal_size():
    rng = np.random.default_rng(0)
    A = rng.standard_normal((2000, 10)) * rng.standard_t(2, (2000, 1))
    A[17] *= 100
    b = A @ rng.standard_normal(10) + rng.standard_normal(2000)
    assert ls.solve(ls.LeastSquares(A, b, ridge=1.0), "svrg", rng=0, max_passes=300).converged
