"""Reduced-rank regression against its definition and planted ranks; ties, folds in one pass, and refusals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import linspec as ls
from linspec.errors import LinspecError

ReducedRankRegression = ls.get_problem("reduced-rank-regression")

each_solver = pytest.mark.parametrize("solver", ["direct", "two-stage"])


def data(n: int = 200, p: int = 12, m: int = 8, rank: int = 3) -> tuple[Any, Any]:
    """Rows whose right-hand sides share a few combinations of the columns, with noise and means."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, p)) * rng.uniform(0.3, 3, p) + 2
    Y = X @ rng.standard_normal((p, rank)) @ rng.standard_normal((rank, m)) + 3 * rng.standard_normal((n, m))
    return X, Y - 1


def by_definition(X: Any, Y: Any, k: int, ridge: float, center: bool = True) -> Any:
    """The full fit, with the ridge as more rows, projected on its leading right singular vectors."""
    X, Y = (A - A.mean(axis=0) if center else A for A in (X, Y))
    p, m = X.shape[1], Y.shape[1]
    X, Y = np.vstack([X, np.sqrt(ridge) * np.eye(p)]), np.vstack([Y, np.zeros((p, m))])
    full = np.linalg.lstsq(X, Y, rcond=None)[0]
    V = np.linalg.svd(X @ full, full_matrices=False)[2][:k].T
    return full @ V @ V.T


def solved(problem: Any, solver: str) -> Any:
    return ls.solve(problem, solver, rng=0, **({"tol": 1e-12} if solver == "two-stage" else {}))


@pytest.mark.parametrize("center", [True, False])
@pytest.mark.parametrize(
    ("shape", "ridge"),
    [
        ((200, 12, 8), 0.0),
        ((100, 12, 400), 0.0),
        ((60, 300, 8), 4.0),
        ((40, 90, 120), 4.0),
    ],
)
@each_solver
def test_coefficients_are_those_of_the_definition(
    solver: str, shape: Any, center: bool, ridge: float
) -> None:
    X, Y = data(*shape)
    found = solved(ReducedRankRegression(X, Y, 4, ridge, center=center), solver)
    for k in range(1, 5):
        right = by_definition(X, Y, k, ridge, center)
        np.testing.assert_allclose(found.coefficients(k), right, rtol=0, atol=1e-9 * np.abs(right).max())


def test_at_ridge_0_dependent_columns_share_their_coefficients() -> None:
    """Of two equal columns each has half of the coefficient in the solution of least norm."""
    X, Y = data()
    twice = np.hstack([X, X[:, :1]])
    one, two = (ls.solve(ReducedRankRegression(A, Y, 3)) for A in (X, twice))
    right = one.coefficients()
    np.testing.assert_allclose(two.predict(twice), one.predict(X), atol=1e-9)
    for row in (0, -1):
        np.testing.assert_allclose(two.coefficients()[row] * 2, right[0], atol=1e-8 * np.abs(right).max())
    assert two.status is ls.Status.RANK_DEFICIENT


@each_solver
def test_the_next_singular_value_shows_the_gap_and_its_absence(solver: str) -> None:
    X, Y = data()
    every = ls.solve(ReducedRankRegression(X, Y, 8))
    found = ls.solve(ReducedRankRegression(X, Y, 3), solver, rng=0)
    assert np.isclose(found.next_singular_value, every.singular_values[3], rtol=1e-6)
    assert every.next_singular_value == 0
    Q = np.random.default_rng(0).standard_normal((60, 5))
    Q = np.linalg.qr(Q - Q.mean(axis=0))[0]
    found = ls.solve(ReducedRankRegression(Q, Q * [3, 2, 2, 1, 1], 2), solver, rng=0)
    np.testing.assert_allclose([*found.singular_values, found.next_singular_value], [3, 2, 2], rtol=1e-10)
    assert found.converged


@each_solver
def test_right_hand_sides_that_x_does_not_explain_have_no_component(solver: str) -> None:
    Q = np.random.default_rng(0).standard_normal((50, 8))
    Q = np.linalg.qr(Q - Q.mean(axis=0))[0]
    for X, Y in ((Q[:, :4], Q[:, 4:]), (Q[:, :4], np.ones((50, 3))), (np.ones((50, 3)), Q[:, 4:])):
        found = ls.solve(ReducedRankRegression(X, Y, 2, ridge=0.1), solver, rng=0)
        assert found.status is ls.Status.RANK_DEFICIENT
        assert len(found.singular_values) == 0
        np.testing.assert_allclose(found.predict(X), np.tile(Y.mean(axis=0), (50, 1)), atol=1e-12)


def test_the_planted_rank_is_chosen_and_errors_that_are_rounding_are_marked() -> None:
    X, Y = data(400, 20, 15, 4)
    given = {"ridges": [0.1, 1.0], "ks": range(1, 16), "rng": 0}
    found, solved = (
        ls.cross_validate(ReducedRankRegression(X, Y, 15), form=form, **given) for form in ("auto", "solve")
    )
    assert found.best.k == 4
    assert found.passes == 1
    np.testing.assert_allclose(found.scores, solved.scores, rtol=1e-8)
    exact = X @ np.ones((20, 3))  # second moments of an exact fit show rounding alone
    with pytest.warns(ls.errors.AccuracyWarning):
        found = ls.cross_validate(ReducedRankRegression(X, exact, 1), splitter=np.arange(400) % 4)
    assert found.uncertain.all()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"k": 9}, "k must be between 1 and 8"),
        ({"Y": data()[1][:, 0], "k": 2}, "k must be between 1 and 1"),
        ({"ridge": [1.0, 2.0]}, "ridge"),
    ],
)
def test_what_is_no_problem_is_refused(change: Any, words: str) -> None:
    X, Y = data()
    with pytest.raises(LinspecError, match=words):
        ReducedRankRegression(**{"X": X, "Y": Y, "k": 2, **change})
