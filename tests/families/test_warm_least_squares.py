"""Least squares begun at an earlier answer: what it saves, what it must not change, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

import linspec as ls
from linspec.errors import InvalidProblem, NonFiniteData

SWEEPING = {"cg": {"form": "implicit"}, "lsqr": {}, "nystrom-pcg": {"form": "implicit", "rank": 10}}
"""Solvers that take a start, with options to pass the data, so that passes count their work."""

each_solver = pytest.mark.parametrize("name", SWEEPING)


def exact(A: np.ndarray, B: np.ndarray, ridge: float) -> np.ndarray:
    return np.linalg.solve(A.T @ A + ridge * np.eye(A.shape[1]), A.T @ B)


def solve(name: str, problem: ls.LeastSquares, **named):
    return ls.solve(problem, name, rng=0, **SWEEPING[name], **named)


@pytest.fixture
def data() -> tuple[np.ndarray, np.ndarray]:
    """A matrix with unequal columns and two right-hand sides."""
    rng = np.random.default_rng(0)
    return rng.standard_normal((300, 60)) * np.geomspace(1, 1e-2, 60), rng.standard_normal((300, 2))


@each_solver
def test_a_bad_start_changes_no_answer(data, name: str):
    A, B = data[0], data[1] * [1.0, 0.0]  # the answer of the second is zero, whatever the start
    start = np.random.default_rng(1).standard_normal((60, 2))
    found = solve(name, ls.LeastSquares(A, B, ridge=0.5), start=start)
    assert found.converged
    np.testing.assert_allclose(found.x, exact(A, B, 0.5), atol=1e-7)


@each_solver
def test_starts_of_paths(data, name: str):
    A, B = data
    ridges = (0.4, 0.5, 2.0)
    path = solve(name, ls.LeastSquares(A, B, ridge=ridges))
    again = solve(name, ls.LeastSquares(A, B, ridge=ridges), start=path)
    np.testing.assert_array_equal(again.x, path.x)
    one = solve(name, ls.LeastSquares(A, B, ridge=(0.5, 0.5)), start=path.x[1])
    vector = solve(name, ls.LeastSquares(A, B[:, 0], ridge=ridges), start=path.x[:, :, 0])
    assert again.iterations == one.iterations == vector.iterations == 0
    assert vector.x.shape == (3, 60)


@each_solver
@pytest.mark.parametrize("unit", [1.0, 1e55])
def test_a_start_is_in_the_units_and_columns_of_the_data(data, name: str, unit: float):
    """Also where columns are scaled, an intercept is fitted, and entries are divided by a power of two."""
    A, B = data
    ridge = 0.5 if unit == 1.0 else 0.0
    problem = ls.LeastSquares(A * unit + unit, B, ridge=ridge, center=True, scale=True)
    cold = solve(name, problem)
    assert cold.iterations > 1
    assert solve(name, problem, start=cold).iterations == 0


def test_without_a_ridge_what_the_data_do_not_see_of_a_start_stays():
    """The solution nearest the start: it differs from that of least norm by the start's part in the null space."""
    rng = np.random.default_rng(3)
    A, b, start = rng.standard_normal((20, 30)), rng.standard_normal(20), rng.standard_normal(30)
    nearest = start + np.linalg.pinv(A) @ (b - A @ start)
    for name in ("cg", "lsqr"):
        np.testing.assert_allclose(ls.solve(ls.LeastSquares(A, b), name, start=start).x, nearest, atol=1e-6)


def test_refusals(data):
    A, B = data
    problem, path = ls.LeastSquares(A, B), ls.LeastSquares(A, B, ridge=(1.0, 2.0))
    for of, start, error, text in (
        (problem, 3, InvalidProblem, "got 3"),
        (problem, np.ones(60), InvalidProblem, r"shape \(60, 2\); got \(60,\)"),
        (path, np.ones((3, 60, 2)), InvalidProblem, r"\(60, 2\) or \(2, 60, 2\); got \(3, 60, 2\)"),
        (problem, np.full((60, 2), np.nan), NonFiniteData, "the x of start"),
    ):
        with pytest.raises(error, match=text):
            ls.solve(of, "cg", start=start)
