"""Partial least squares against scikit-learn, LSQR and Krylov spaces in extended precision; folds in one pass."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from planted import orthonormal

import linspec as ls

PLS, PLSRegression = ls.get_problem("pls"), ls.get_problem("pls-regression")


def views(n: int, p: int, q: int, seed: int = 0) -> tuple[Any, Any]:
    """Views with five common causes, columns of different sizes, and means."""
    rng = np.random.default_rng(seed)
    causes = rng.standard_normal((n, 5)) * [3, 2, 1.5, 1.2, 1]
    return tuple(
        (causes @ rng.standard_normal((5, m)) + rng.standard_normal((n, m))) * rng.uniform(0.2, 4, m) + 3
        for m in (p, q)
    )


def with_cross_values(n: int, p: int, q: int, s: Any) -> tuple[Any, Any]:
    """Views whose cross product has these singular values."""
    rng, m = np.random.default_rng(1), len(s)
    Q = orthonormal(rng, n, m) * np.sqrt(s)
    return Q @ orthonormal(rng, p, m).T, Q @ orthonormal(rng, q, m).T


def test_the_basis_is_restarted() -> None:
    """Singular values without a gap need more steps than a small basis holds."""
    s = np.linspace(2, 1, 100)
    problem = PLS(*with_cross_values(300, 120, 110, s), 3, center=False)
    found = ls.solve(problem, "block-krylov", rng=0, block=4, basis=20, tol=1e-9)
    np.testing.assert_allclose(found.singular_values, s[:3], rtol=1e-12)
    assert found.iterations > 5


@pytest.mark.parametrize(("solver", "count"), [("gram", 6), ("block-krylov", 4)])
def test_small_singular_values_keep_their_digits(solver: str, count: int) -> None:
    """A method that squares XᵀY, as "block-krylov" does, finds nothing below 1e-8 of the largest."""
    s = 10.0 ** -np.arange(0, 12, 2)
    found = ls.solve(PLS(*with_cross_values(80, 12, 10, s), count, center=False), solver, rng=0)
    np.testing.assert_allclose(found.singular_values, s[:count], rtol=1e-3)


@pytest.mark.parametrize("seed", [0, 3])
def test_values_that_rounding_of_narrow_entries_may_hide_are_spoken_of(seed: int) -> None:
    """A third value of 2e-3 of the first, beside confounds that explain all but a thousandth of the squares."""
    rng = np.random.default_rng(seed)
    U, Z = np.linalg.qr(rng.standard_normal((40, 4)))[0], rng.standard_normal((40, 1))
    U = U - Z @ np.linalg.lstsq(Z, U, rcond=None)[0]
    X, Y = U + 5 * Z, U[:, :3] * [1, 0.1, 2e-3] + 0.2 * Z
    narrow = ls.solve(PLS(X.astype(np.float32), Y.astype(np.float32), 3, center=False, confounds=Z), "gram")
    assert narrow.singular_values.shape == (2,)
    assert narrow.status is ls.Status.ILL_CONDITIONED
    assert "Rounding hides" in narrow.message
    right = np.linalg.svd(U.T @ (U[:, :3] * [1, 0.1, 2e-3]), compute_uv=False)
    found = ls.solve(PLS(X, Y, 3, center=False, confounds=Z), "gram")
    assert found.converged
    np.testing.assert_allclose(found.singular_values, right, rtol=1e-10)


@pytest.mark.parametrize("scale", [False, True])
@pytest.mark.parametrize("solver", ["gram", "nipals"])
@pytest.mark.parametrize("columns", [1, 8])
def test_regression_is_that_of_scikit_learn(solver: str, columns: int, scale: bool) -> None:
    reference = pytest.importorskip("sklearn.cross_decomposition").PLSRegression
    X, Y = views(150, 30, columns)
    new = views(20, 30, columns, seed=1)[0]
    ours = ls.solve(PLSRegression(X, Y, k=10, scale=scale), solver)
    assert ours.converged
    for k in (1, 4, 10):
        theirs = reference(k, scale=scale, tol=1e-30, max_iter=20_000).fit(X, Y)
        right = theirs.predict(new).reshape(20, columns)
        np.testing.assert_allclose(ours.predict(new, k=k), right, rtol=0, atol=1e-10 * np.abs(right).max())
        wanted = theirs.coef_.reshape(columns, 30).T
        np.testing.assert_allclose(ours.coefficients(k), wanted, atol=1e-10 * np.abs(wanted).max())
    np.testing.assert_allclose(ours.x_weights, theirs.x_weights_, atol=1e-10)


def test_scores_are_orthogonal_and_weights_orthonormal() -> None:
    X, Y = views(120, 60, 4)
    found = ls.solve(PLSRegression(X, Y, k=12), "nipals", form="implicit")
    T, W = found.transform(X=X), found.x_weights
    np.testing.assert_allclose(np.corrcoef(T.T), np.eye(12), atol=1e-10)
    np.testing.assert_allclose(W.T @ W, np.eye(12), atol=1e-12)
    np.testing.assert_allclose(found.x_loadings.T @ found.x_rotations, np.eye(12), atol=1e-9)


def test_planted_factors_are_chosen_in_one_pass() -> None:
    rng = np.random.default_rng(3)
    factors = rng.standard_normal((300, 3)) * [3, 2, 1]
    X, Y = (
        factors @ rng.standard_normal((3, m)) + 0.1 * rng.standard_normal((300, m)) + rng.uniform(-1, 1, m)
        for m in (50, 4)
    )
    found = ls.cross_validate(PLSRegression(X, Y, k=8), ks=range(1, 9), rng=0, form="dense")
    assert found.passes == 1
    assert found.one_standard_error.k == 3
    solved = ls.cross_validate(PLSRegression(X, Y, k=8), ks=range(1, 9), rng=0, form="solve")
    np.testing.assert_allclose(found.scores, solved.scores, rtol=1e-9)


@pytest.mark.parametrize("solver", ["gram", "nipals"])
def test_fewer_components_where_y_is_used_up(solver: str) -> None:
    """y lies in the span of two eigenvectors of XᵀX, so its Krylov space has two dimensions."""
    Q = orthonormal(np.random.default_rng(6), 50, 5)
    problem = PLSRegression(Q * [5.0, 4.0, 3.0, 2.0, 1.0], Q[:, 0] + Q[:, 3], k=4, center=False)
    found = ls.solve(problem, solver)
    assert found.status is ls.Status.RANK_DEFICIENT
    np.testing.assert_allclose(found.coefficients(), [1 / 5, 0, 0, 1 / 2, 0], atol=1e-12)


@pytest.mark.parametrize("form", ["auto", "dense", "implicit"])
@pytest.mark.parametrize("seed", [178, 1])
def test_nipals_ends_where_there_are_no_more_components(seed: int, form: str) -> None:
    rng = np.random.default_rng(seed)
    _ = rng.choice([4, 5, 6, 8]), rng.choice([2, 3]), rng.integers(1, 3)
    X, y = rng.standard_normal((6, 1)) @ rng.standard_normal((1, 3)), rng.standard_normal((6, 1))
    problem = PLSRegression(X, y, k=3, sample_weight=10.0 ** rng.uniform(-6, 6, 6))
    found = ls.solve(problem, "nipals", form=form, max_seconds=20)
    assert (found.status, len(found.covariances)) == (ls.Status.RANK_DEFICIENT, 1)
    assert found.iterations < 5
    np.testing.assert_allclose(found.covariances, ls.solve(problem, "gram").covariances, rtol=1e-8)


def krylov(X: Any, y: Any, count: int) -> Any:
    """An orthonormal basis of the span of Xᵀy, XᵀX Xᵀy, ..., in extended precision: the weights of PLS of one y."""
    found: list[Any] = []
    w, X = X.T.astype(np.longdouble) @ y, X.astype(np.longdouble)
    for _ in range(count):
        for v in 2 * found:
            w = w - v * (v @ w)
        found.append(w / np.sqrt(w @ w))
        w = X.T @ (X @ found[-1])
    return np.column_stack(found)


@pytest.mark.skipif(np.finfo(np.longdouble).eps > 1e-18, reason="extended precision judges")
@pytest.mark.parametrize("solver", ["gram", "nipals"])
@pytest.mark.parametrize(
    ("fall", "expected"),
    [(4.0, ("CONVERGED", 8)), (30.0, ("ILL_CONDITIONED", 8)), (100.0, ("ILL_CONDITIONED", 7))],
)
def test_components_far_below_the_first_are_right_or_left_out(
    solver: str, fall: float, expected: Any
) -> None:
    """Columns of falling size leave late components few digits; what is lost is said."""
    Q = orthonormal(np.random.default_rng(7), 60, 8)
    X, y = Q * fall ** -np.arange(8), Q.sum(axis=1)
    found = ls.solve(PLSRegression(X, y, k=8, center=False), solver)
    assert (found.status.name, found.x_weights.shape[1]) == expected
    exact = krylov(X, y, expected[1]).astype(np.float64)
    np.testing.assert_allclose(np.abs(found.x_weights), np.abs(exact), atol=1e-14)
