"""Reduced-rank regression against its definition, alternating minimisation, scikit-learn and planted ranks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import linspec as ls
from linspec.errors import InvalidProblem, LinspecError
from linspec.iteration import Iterate
from linspec.solving import Solver

ReducedRankRegression = ls.get_problem("reduced-rank-regression")

SOLVERS = ("direct", "two-stage")


def data(n: int = 200, p: int = 12, m: int = 8, rank: int = 3, seed: int = 0) -> tuple[Any, Any]:
    """Rows whose right-hand sides share a few combinations of the columns, with noise and means."""
    rng = np.random.default_rng(seed)
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


def objective(X: Any, Y: Any, B: Any, ridge: float) -> float:
    """The sum of squares about the means, and the ridge."""
    X, Y = X - X.mean(axis=0), Y - Y.mean(axis=0)
    return float(np.linalg.norm(Y - X @ B) ** 2 + ridge * np.linalg.norm(B) ** 2)


# ---- the answer --------------------------------------------------------------------------------


@pytest.mark.parametrize("ridge", [0.0, 5.0])
@pytest.mark.parametrize("center", [True, False])
@pytest.mark.parametrize("solver", SOLVERS)
def test_coefficients_are_those_of_the_definition(solver: str, center: bool, ridge: float) -> None:
    X, Y = data()
    found = ls.solve(ReducedRankRegression(X, Y, 4, ridge, center=center), solver, rng=0, **tight(solver))
    assert found.converged
    for k in range(1, 5):
        right = by_definition(X, Y, k, ridge, center)
        np.testing.assert_allclose(found.coefficients(k), right, rtol=0, atol=1e-11 * np.abs(right).max())


def tight(solver: str) -> dict[str, Any]:
    """Options for an answer to rounding."""
    return {"tol": 1e-12} if solver == "two-stage" else {}


@pytest.mark.parametrize("solver", SOLVERS)
def test_alternating_minimisation_ends_at_the_same_coefficients(solver: str) -> None:
    """Two factors of B in turns, each by its own normal equations, from a random start."""
    X, Y = data(rank=4)
    ridge, k = 2.0, 3
    A, R = X - X.mean(axis=0), Y - Y.mean(axis=0)
    S = A.T @ A + ridge * np.eye(12)
    V = np.linalg.qr(np.random.default_rng(1).standard_normal((8, k)))[0]
    for _ in range(3000):
        L = np.linalg.solve(S, A.T @ R @ V)  # for orthonormal V, ‖L Vᵀ‖ = ‖L‖
        U, _, Wt = np.linalg.svd(R.T @ A @ L, full_matrices=False)
        V = U @ Wt
    B = L @ V.T
    found = ls.solve(ReducedRankRegression(X, Y, k, ridge), solver, rng=0, **tight(solver))
    np.testing.assert_allclose(found.coefficients(), B, rtol=0, atol=1e-12 * np.abs(B).max())
    least = np.linalg.norm(R) ** 2 - np.sum(found.singular_values**2)
    assert np.isclose(objective(X, Y, found.coefficients(), ridge), least, rtol=1e-12)


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("ridge", [0.0, 3.0])
def test_full_rank_is_the_regression_of_scikit_learn(solver: str, ridge: float) -> None:
    models = pytest.importorskip("sklearn.linear_model")
    X, Y = data()
    theirs = (models.Ridge(ridge) if ridge else models.LinearRegression()).fit(X, Y)
    ours = ls.solve(ReducedRankRegression(X, Y, 8, ridge), solver, rng=0, **tight(solver))
    np.testing.assert_allclose(ours.coefficients(), theirs.coef_.T, rtol=0, atol=1e-10)
    np.testing.assert_allclose(ours.predict(X), theirs.predict(X), rtol=0, atol=1e-10)


def test_explained_shares_sum_to_r2() -> None:
    X, Y = data()
    found = ls.solve(ReducedRankRegression(X, Y, 8))
    assert np.isclose(found.explained.sum(), found.score(X, Y), rtol=1e-12)
    for k in (1, 3):
        assert np.isclose(found.explained[:k].sum(), found.score(X, Y, k=k), rtol=1e-10)


def test_one_right_hand_side_is_least_squares() -> None:
    X, Y = data()
    found = ls.solve(ReducedRankRegression(X, Y[:, 0], 1, 2.0))
    full = ls.solve(ls.LeastSquares(X, Y[:, 0], 2.0, center=True), "direct")
    np.testing.assert_allclose(found.coefficients(), full.x, atol=1e-12)
    assert found.predict(X).shape == (200,)
    with pytest.raises(InvalidProblem, match="k must be between 1 and 1"):
        ReducedRankRegression(X, Y[:, 0], 2)


@pytest.mark.parametrize("shape", [(100, 12, 400), (60, 300, 8), (40, 90, 120)])
@pytest.mark.parametrize("solver", SOLVERS)
def test_many_right_hand_sides_and_wide_data(shape: tuple[int, int, int], solver: str) -> None:
    X, Y = data(*shape)
    found = ls.solve(ReducedRankRegression(X, Y, 3, 4.0), solver, rng=0, **tight(solver))
    right = by_definition(X, Y, 3, 4.0)
    np.testing.assert_allclose(found.coefficients(), right, rtol=0, atol=1e-9 * np.abs(right).max())


def test_at_ridge_0_dependent_columns_share_their_coefficients() -> None:
    """Of two equal columns each has half of the coefficient in the solution of least norm."""
    X, Y = data()
    twice = np.hstack([X, X[:, :1]])
    one, two = (ls.solve(ReducedRankRegression(A, Y, 3)) for A in (X, twice))
    right = one.coefficients().copy()
    np.testing.assert_allclose(two.predict(twice), one.predict(X), atol=1e-9)
    np.testing.assert_allclose(two.coefficients()[0], two.coefficients()[-1], atol=1e-10)
    np.testing.assert_allclose(two.coefficients()[0] * 2, right[0], atol=1e-8 * np.abs(right).max())
    assert two.status is ls.Status.RANK_DEFICIENT


def test_directions_are_those_of_cca_zoo_for_whitened_right_hand_sides() -> None:
    """CCA as reduced-rank regression (Donnat & Tuzhilina 2024), without its penalty and shrinkage."""
    CCAR3 = pytest.importorskip("cca_zoo.linear").CCAR3
    X, Y = data()
    theirs = CCAR3(n_components=3, alpha=0.0, ledoit_wolf=False).fit([X, Y]).weights_[0]
    about = Y - Y.mean(axis=0)
    values, vectors = np.linalg.eigh(about.T @ about)
    ours = ls.solve(ReducedRankRegression(X, about @ (vectors / np.sqrt(values)) @ vectors.T, 3)).weights
    units = [W / np.linalg.norm(W, axis=0) for W in (theirs, ours)]
    np.testing.assert_allclose(np.abs(np.sum(units[0] * units[1], axis=0)), 1, rtol=1e-12)


# ---- what the certificate sees ------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Skipping(Solver):
    """Returns exact directions without the first."""

    def iterate(self, problem: Any, moments: Any, context: Any, start: Any) -> Any:
        S, C = moments.gram()[0]
        L = np.linalg.cholesky(S)
        U, s, _ = np.linalg.svd(np.linalg.solve(L, C), full_matrices=False)
        W = np.linalg.solve(L.T, U[:, 1 : 1 + problem.k])
        yield Iterate(0.0, lambda: {"weights": W, "eigenvalues": s[1 : 1 + problem.k] ** 2}, final=True)


def test_stationary_directions_that_are_not_the_leading_ones_are_no_answer() -> None:
    X, Y = data()
    found = ls.solve(ReducedRankRegression(X, Y, 2), Skipping())
    assert found.residual < 1e-10
    assert not found.converged
    assert found.status is ls.Status.INCOMPLETE


@pytest.mark.parametrize("solver", SOLVERS)
def test_the_next_singular_value_shows_the_gap(solver: str) -> None:
    X, Y = data()
    every = ls.solve(ReducedRankRegression(X, Y, 8))
    found = ls.solve(ReducedRankRegression(X, Y, 3), solver, rng=0)
    assert np.isclose(found.next_singular_value, every.singular_values[3], rtol=1e-6)
    assert every.next_singular_value == 0


def test_equal_singular_values_at_the_cut_are_seen() -> None:
    rng = np.random.default_rng(0)
    Q = np.linalg.qr(rng.standard_normal((60, 10)) - rng.standard_normal((60, 1)))[0]
    Q = np.linalg.qr(Q - Q.mean(axis=0))[0]
    X, Y = Q[:, :5], Q[:, :5] * [3, 2, 2, 1, 1]
    for solver in SOLVERS:
        found = ls.solve(ReducedRankRegression(X, Y, 2), solver, rng=0)
        np.testing.assert_allclose([*found.singular_values, found.next_singular_value], [3, 2, 2], rtol=1e-10)
        assert found.converged


@pytest.mark.parametrize("solver", SOLVERS)
def test_right_hand_sides_that_x_does_not_explain_have_no_component(solver: str) -> None:
    rng = np.random.default_rng(0)
    Q = rng.standard_normal((50, 8))
    Q = np.linalg.qr(Q - Q.mean(axis=0))[0]
    for X, Y in ((Q[:, :4], Q[:, 4:]), (Q[:, :4], np.ones((50, 3))), (np.ones((50, 3)), Q[:, 4:])):
        found = ls.solve(ReducedRankRegression(X, Y, 2, ridge=0.1), solver, rng=0)
        assert found.status is ls.Status.RANK_DEFICIENT
        assert len(found.singular_values) == 0
        np.testing.assert_allclose(found.predict(X), np.tile(Y.mean(axis=0), (50, 1)), atol=1e-12)


# ---- weights, confounds, scale, names -------------------------------------------------------------


@pytest.mark.parametrize("solver", SOLVERS)
def test_confounds_are_regressed_out_and_put_back(solver: str) -> None:
    X, Y = data()
    rng = np.random.default_rng(4)
    Z = rng.standard_normal((200, 2))
    A, R = X + Z @ rng.standard_normal((2, 12)), Y + 5 * Z @ rng.standard_normal((2, 8))
    basis = np.column_stack([np.ones(200), Z])
    left = [M - basis @ np.linalg.lstsq(basis, M, rcond=None)[0] for M in (A, R)]
    found = ls.solve(ReducedRankRegression(A, R, 3, 1.0, confounds=Z), solver, rng=0, **tight(solver))
    right = by_definition(*left, 3, 1.0)
    np.testing.assert_allclose(found.coefficients(), right, atol=1e-10)
    np.testing.assert_allclose(found.predict(A, confounds=Z), R - left[1] + left[0] @ right, atol=1e-9)
    with pytest.raises(InvalidProblem, match="confounds"):
        found.predict(A)


@pytest.mark.parametrize("solver", SOLVERS)
def test_scaled_columns_give_coefficients_in_given_units(solver: str) -> None:
    X, Y = data()
    a, b = X.std(axis=0), Y.std(axis=0)
    found = ls.solve(ReducedRankRegression(X, Y, 3, 1.0, scale=True), solver, rng=0, **tight(solver))
    right = by_definition(X / a, Y / b, 3, 1.0) / a[:, None] * b
    np.testing.assert_allclose(found.coefficients(), right, atol=1e-10)
    np.testing.assert_allclose(found.y_weights.T @ found.y_weights, np.eye(3), atol=1e-10)
    assert np.isclose(found.total_squares, 200 * 8)
    predicted = (X - X.mean(axis=0)) @ right + Y.mean(axis=0)
    np.testing.assert_allclose(found.predict(X), predicted, atol=1e-9)


# ---- ranks and ridges ------------------------------------------------------------------------------


@pytest.mark.parametrize("scale", [False, True])
@pytest.mark.parametrize("center", [False, True])
def test_every_rank_and_ridge_is_cross_validated_in_one_pass(center: bool, scale: bool) -> None:
    X, Y = data(90)
    labels = np.arange(90) % 3
    ridges, ks = [0.0, 1.0, 30.0], [1, 3, 8]
    problem = ReducedRankRegression(X, Y, 8, center=center, scale=scale)
    found = ls.cross_validate(problem, ridges=ridges, ks=ks, splitter=labels)
    assert found.passes == 1
    explained = ls.cross_validate(problem, ridges=ridges, ks=ks, splitter=labels, score="r2")
    for fold in range(3):
        train, held = labels != fold, labels == fold
        about = np.sum((Y[held] - Y[held].mean(axis=0)) ** 2)
        for i, ridge in enumerate(ridges):
            one = ls.solve(ReducedRankRegression(X[train], Y[train], 8, ridge, center=center, scale=scale))
            for j, k in enumerate(ks):
                squares = (Y[held] - one.predict(X[held], k=k)) ** 2
                assert np.isclose(found.scores[fold, i, j], squares.mean(), rtol=1e-9)
                assert np.isclose(explained.scores[fold, i, j], 1 - squares.sum() / about, rtol=1e-8)
    solved = ls.cross_validate(problem, ridges=ridges, ks=ks, splitter=labels, form="solve")
    np.testing.assert_allclose(solved.scores, found.scores, rtol=1e-8)


def test_the_planted_rank_is_chosen() -> None:
    X, Y = data(400, 20, 15, 4)
    found = ls.cross_validate(ReducedRankRegression(X, Y, 15), ridges=[0.1, 1.0], ks=range(1, 16), rng=0)
    assert found.best.k == 4


def test_errors_that_are_rounding_are_marked() -> None:
    """An exact fit leaves nothing: what second moments show of it is rounding."""
    X, _ = data(100)
    Y = X @ np.ones((12, 3))
    with pytest.warns(ls.errors.AccuracyWarning):
        found = ls.cross_validate(ReducedRankRegression(X, Y, 1), splitter=np.arange(100) % 4)
    assert found.uncertain.all()


# ---- bad input --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"k": 0}, InvalidProblem, "k must be"),
        ({"k": 9}, InvalidProblem, "k must be between 1 and 8"),
        ({"k": 2.5}, InvalidProblem, "k must be"),
        ({"ridge": -1.0}, InvalidProblem, "ridge"),
        ({"ridge": np.nan}, InvalidProblem, "ridge"),
        ({"ridge": [1.0, 2.0]}, InvalidProblem, "ridge"),
        ({"Y": np.ones((7, 8))}, InvalidProblem, "rows"),
        ({"Y": np.ones((200, 0))}, LinspecError, "column|empty"),
        ({"sample_weight": -np.ones(200)}, InvalidProblem, "sample_weight"),
        ({"sample_weight": np.ones(3)}, InvalidProblem, "sample_weight"),
        ({"confounds": np.ones((3, 1))}, InvalidProblem, "confounds"),
        ({"Y": None}, InvalidProblem, "Y"),
    ],
)
def test_what_is_no_problem_is_refused(change: Any, error: type, words: str) -> None:
    X, Y = data()
    with pytest.raises(error, match=words):
        ReducedRankRegression(**{"X": X, "Y": Y, "k": 2, **change})
