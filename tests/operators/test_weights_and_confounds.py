"""Weights are repeated rows, and confounds are residuals: in answers, on new rows, in tests and in predictions."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from scipy.sparse.linalg import aslinearoperator
from truths import adjusted, extended

import linspec as ls
from linspec import errors
from linspec.operators import as_operator

N, P, Q, C = 700, 9, 5, 3


def data(n: int = N) -> tuple[Any, Any, Any, Any]:
    """Two views with means, a shared part, and confounds in both; and weights."""
    rng = np.random.default_rng(0)
    shared, Z = rng.standard_normal((n, 2)), rng.standard_normal((n, C)) @ rng.standard_normal((C, C)) + 4

    def view(p: int, mean: float) -> Any:
        return (
            shared @ rng.standard_normal((2, p))
            + Z @ rng.standard_normal((C, p))
            + rng.standard_normal((n, p))
            + mean
        )

    w = rng.integers(0, 4, n).astype(float)
    w[: n // 5] = 0  # a whole block of rows that count nothing
    return view(P, 2), view(Q, -1), Z, w


def left(A: Any, Z: Any, w: Any = None, *, center: bool = False) -> Any:
    """Return the weighted rows less the fit to the confounds, with more digits than float64 has."""
    w = np.ones(len(A), np.longdouble) if w is None else w.astype(np.longdouble)
    return adjusted(extended(A), w, extended(Z), center=center).entries.astype(float)


def residual(A: Any, Z: Any, w: Any = None) -> Any:
    """D A less its projection on the columns of D [1 Z]."""
    return left(A, Z, w, center=True)


def slices(A: Any) -> Any:
    return lambda: (A[start : start + 61] for start in range(0, len(A), 61))


@pytest.mark.parametrize("solver", ["gram", "lobpcg", "als"])
def test_what_an_earlier_solve_has_read_of_slices_is_not_taken_for_weighted(solver: str) -> None:
    """`als` counts the rows of a callable and keeps their means; they are no weighted means, and know no confounds."""
    X, Y, Z, w = data()
    views = [as_operator(slices(A)) for A in (X, Y)]
    ls.solve(ls.CCA(*views, 2, ridge=1.0), "als", rng=0)
    options = {"ridge": 1.0, "sample_weight": w, "confounds": Z}
    found = ls.solve(ls.CCA(*views, 2, **options), solver, rng=0)
    wanted = ls.solve(ls.CCA(X, Y, 2, **options), "direct")
    np.testing.assert_allclose(found.correlations, wanted.correlations, rtol=1e-5)
    np.testing.assert_allclose(found.x_mean, wanted.x_mean, rtol=1e-12)


@pytest.mark.parametrize("solver", ["lobpcg", "gram", "whitened-svd", "auto"])
@pytest.mark.parametrize("center", [False, True])
def test_an_operator_known_by_products_stands_beside_slices(solver: str, center: bool) -> None:
    """Slices of integers are multiplied in the dtype of the operator."""
    X, Y, Z, w = data(n=300)
    Y = np.rint(10 * Y).astype(np.int16)
    given = {"ridge": 1.0, "sample_weight": w, "confounds": Z, "center": center}
    wanted = ls.solve(ls.CCA(X, Y, 2, **given), "direct").correlations
    for views in (aslinearoperator(X), slices(Y)), (slices(X), aslinearoperator(Y.astype(float))):
        found = ls.solve(ls.CCA(*views, 2, **given), solver, rng=0).correlations
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)
    for rows in (250, 350):
        words = f"300 rows, .*; its slices gave {rows}|beside {rows} of 300"
        with pytest.raises(errors.InvalidProblem, match=words):
            ls.solve(ls.CCA(aslinearoperator(X), slices(np.resize(Y, (rows, Q))), 2, **given), rng=0)


ROWS = 90
RNG = np.random.default_rng(3)
YEAR = np.column_stack([RNG.uniform(1990, 2020, ROWS), 1013 + 5 * RNG.standard_normal(ROWS)])
SECONDS = np.column_stack([1.7e9 + RNG.uniform(0, 3e7, ROWS), 2024 + RNG.uniform(0, 1, ROWS)])
ONE = 1e3 + RNG.standard_normal((ROWS, 1))
CONSTANT = np.column_stack([np.ones(ROWS), 300 + RNG.standard_normal(ROWS)])
CONFOUNDS = {"year": YEAR, "seconds": SECONDS, "one": ONE, "constant": CONSTANT}


@pytest.mark.parametrize("solver", ["cg", "lsqr", "direct", "sketch-precondition"])
@pytest.mark.parametrize("confounds", CONFOUNDS)
@pytest.mark.parametrize(("mean", "center"), [(1e5, True), (1e3, False)])
def test_coefficients_beside_confounds(confounds: str, solver: str, mean: float, center: bool) -> None:
    """Without centring, digits are lost in proportion to the means."""
    A, Z = mean + RNG.standard_normal((ROWS, 3)), CONFOUNDS[confounds]
    b = A @ [1.0, 2.0, 3.0] + RNG.standard_normal(ROWS)
    about = np.column_stack([np.ones(ROWS), Z[:, int(confounds == "constant") :]]) if center else Z
    R, r = left(A, about, None), left(b[:, None], about, None)[:, 0]
    found = ls.solve(ls.LeastSquares(A, b, confounds=Z, center=center), solver, rng=0)
    gap = R.T @ (r - R @ found.x)
    assert np.linalg.norm(gap) <= 1e-8 * np.linalg.norm(R.T @ r)
    # New rows: what the confounds explain of them is known from the slopes.
    fitted = found.predict(A, confounds=Z)
    columns = np.hstack([A, about])
    columns /= np.linalg.norm(columns, axis=0)
    exact = columns @ np.linalg.lstsq(columns, b, rcond=None)[0]
    assert np.allclose(fitted, exact, rtol=1e-9)


@pytest.mark.parametrize("solver", ["cg", "lsqr", "direct"])
def test_digits_that_confounds_take_without_centring_are_told(solver: str) -> None:
    A = 1e5 + RNG.standard_normal((ROWS, 3))
    b = A @ [1.0, 2.0, 3.0] + RNG.standard_normal(ROWS)
    with warnings.catch_warnings(action="ignore", category=errors.ConvergenceWarning):
        found = ls.solve(ls.LeastSquares(A, b, confounds=CONSTANT), solver, rng=0)
    assert found.status in (ls.Status.ILL_CONDITIONED, ls.Status.STAGNATED)
    assert "The confounds explain 3 of the columns of A" in found.message


@pytest.mark.parametrize("solver", ["direct", "cg", "ling", "nystrom-pcg", "lsqr", "sketch-precondition"])
def test_small_columns_beside_a_nearly_constant_confound_are_right_or_doubted(solver: str) -> None:
    """Regression on columns and confounds together gives the same coefficients (Frisch & Waugh 1933; Lovell 1963)."""
    Z = 5.56 + 0.005 * RNG.standard_normal((ROWS, 1))
    A = 5e4 * RNG.uniform(0.5, 1, 6) + RNG.standard_normal((ROWS, 6)) * np.geomspace(1, 1e-2, 6)
    b = (A - A.mean(axis=0)) @ RNG.standard_normal(6) + RNG.standard_normal(ROWS)
    exact = np.linalg.lstsq(np.hstack([A, Z]), b, rcond=1e-16)[0][:6]
    with warnings.catch_warnings(action="ignore", category=errors.ConvergenceWarning):
        found = ls.solve(ls.LeastSquares(A, b, confounds=Z), solver, rng=0)
    off = np.linalg.norm(found.x - exact) / np.linalg.norm(exact)
    assert off < 1e-7 or not found.converged
    if solver == "direct":
        assert off < 1e-7
        assert found.status is ls.Status.CONVERGED


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("apart", [1e-5, 1e-8])
def test_a_confound_that_is_nearly_a_copy_costs_the_others_no_digits(apart: float, weighted: bool) -> None:
    """Rounding where the copies differ grows by 1/apart, and stays there; confounds explain 300² of the squares."""
    rng = np.random.default_rng(7)
    Z = rng.standard_normal((ROWS, 4))
    Z[:, 3] = Z[:, 0] + apart * Z[:, 3]
    A = rng.standard_normal((ROWS, 3)) + 300 * Z @ rng.standard_normal((4, 3))
    b = rng.standard_normal(ROWS)
    w = rng.uniform(0.5, 2.0, ROWS) if weighted else None
    R, r = left(A, Z, w), left(b[:, None], Z, w)[:, 0]
    found = ls.solve(ls.LeastSquares(A, b, confounds=Z, sample_weight=w), "direct")
    law = np.linalg.norm(R.T @ (r - R @ found.x)) / np.linalg.norm(R.T @ r)
    assert law <= 4 * np.finfo(float).eps * (300**2 + 1 / apart)


@pytest.mark.parametrize("solver", ["spca", "lazy-spca", "direct", "gram", "lanczos", "block-krylov"])
def test_what_confounds_leave_has_no_more_rank_than_the_columns(solver: str) -> None:
    """Four directions are left; the others are rounding of what was subtracted, 1e3 times longer."""
    rng = np.random.default_rng(1)
    Z = rng.standard_normal((ROWS, 1))
    A = (rng.standard_normal((ROWS, 4)) + 1e3 * Z) @ rng.standard_normal((4, 12))
    exact = np.linalg.svd(left(A, Z, None), compute_uv=False)[:2]
    found = ls.solve(ls.SVD(A, 2, confounds=Z), solver, rng=0)
    assert np.allclose(found.S, exact, rtol=1e-7)


@pytest.mark.parametrize(
    ("given", "error", "said"),
    [
        ({"sample_weight": -np.ones(N)}, errors.InvalidProblem, "zero or more; got -1 for row 0"),
        ({"sample_weight": np.zeros(N)}, errors.InvalidProblem, "zeros only"),
        ({"sample_weight": np.ones(3)}, errors.InvalidProblem, r"each of the 700 rows; got shape \(3,\)"),
        ({"sample_weight": np.full(N, np.nan)}, errors.NonFiniteData, "got nan for row 0"),
        ({"confounds": np.ones((3, 2))}, errors.InvalidProblem, r"each of the 700 rows; got shape \(3, 2\)"),
        ({"confounds": np.full((N, 2), np.inf)}, errors.NonFiniteData, "row 0, column 0"),
        ({"scale": "yes"}, errors.InvalidProblem, "scale must be True or False"),
    ],
)
def test_bad_rows_are_refused(given: dict[str, Any], error: type[Exception], said: str) -> None:
    X, Y, _, _ = data()
    for make in (
        lambda: ls.CCA(X, Y, 2, **given),
        lambda: ls.SVD(X, 2, **given),
        lambda: ls.LeastSquares(X, Y, **given),
    ):
        with pytest.raises(error, match=said):
            make()


@pytest.mark.parametrize("sliced", [False, True])
def test_a_column_that_confounds_explain_is_named(sliced: bool) -> None:
    X, Y, Z, _ = data()
    X[:, 4] = Z @ [1.0, -2.0, 0.5] + 3
    found = ls.solve(ls.CCA(slices(X) if sliced else X, Y, 2, confounds=Z, ridge=1e-6), "gram")
    assert found.status is ls.Status.ILL_CONDITIONED
    assert "columns of X" in found.message
    assert ": 4." in found.message
    rest = residual(np.delete(X, 4, axis=1), Z), residual(Y, Z)
    wanted = ls.solve(ls.CCA(*rest, 2, ridge=1e-6, center=False), "direct")
    np.testing.assert_allclose(found.correlations, wanted.correlations, rtol=1e-9)
    assert found.x_weights[4].max() == 0.0


def test_as_many_columns_as_rows_that_count_are_said() -> None:
    """Twelve rows that count, a mean and three confounds leave eight directions, which twenty columns fill."""
    rng = np.random.default_rng(0)
    X, y, Z = rng.standard_normal((40, 20)), rng.integers(0, 3, 40), rng.standard_normal((40, C))
    w = np.where(np.arange(40) < 12, 2.0, 0.0)
    H = ls.targets.lda(y, sample_weight=w)
    found = ls.solve(ls.Discriminant(X, H, sample_weight=w, confounds=Z), "direct")
    assert found.rank == np.linalg.matrix_rank(residual(X, Z, w)[:12]) == 8
    assert "any targets are met exactly" in found.message


def test_new_rows_lose_what_the_training_rows_say_of_their_confounds() -> None:
    X, Y, Z, w = data()
    train, test = slice(0, 500), slice(500, N)
    solution = ls.solve(ls.CCA(X[train], Y[train], 2, sample_weight=w[train], confounds=Z[train]), "gram")
    roots, beside = np.sqrt(w[train])[:, None], np.column_stack([np.ones(N), Z])
    B = np.linalg.lstsq(roots * beside[train], roots * X[train], rcond=None)[0]
    found = solution.transform(X[test], confounds=Z[test])
    np.testing.assert_allclose(found, (X - beside @ B)[test] @ solution.x_weights, atol=1e-12)
    score = solution.score(X[test], Y[test], confounds=Z[test])
    assert score.total > 1.0  # the shared part is found again
    A = residual(X[test], Z[test])
    wanted = [np.corrcoef(A[:, 0], A @ v)[0, 1] for v in solution.x_weights.T]
    np.testing.assert_allclose(solution.loadings(X[test], confounds=Z[test])[0], wanted, atol=1e-12)
    for given, got in ({}, "0 columns"), ({"confounds": Z[test, :2]}, "2"):
        with pytest.raises(errors.InvalidProblem, match=rf"a row for each row and 3 columns, .*; got {got}"):
            solution.transform(X[test], **given)
    with pytest.raises(errors.InvalidProblem, match=r"each row and 0 columns, as the solved problem had"):
        ls.solve(ls.CCA(X, Y, 2)).transform(X, confounds=Z)


@pytest.mark.parametrize("scale", [False, True], ids=["plain", "scaled"])
def test_predictions_contain_the_confounds(scale: bool) -> None:
    """Regressions predict like a regression on [1 Z A]; CCAs like one on the variates beside [1 Z]."""
    X, Y, Z, w = data()
    train, test = slice(0, 500), slice(500, N)
    roots, beside = np.sqrt(w[train])[:, None], np.column_stack([Z, np.ones(N)])
    options = {"sample_weight": w[train], "confounds": Z[train], "scale": scale}

    def fitted(columns: Any, target: Any) -> Any:
        return np.linalg.lstsq(roots * columns[train], roots * target[train], rcond=None)[0]

    solution = ls.solve(ls.LeastSquares(X[train], Y[train], center=True, **options), "direct")
    whole = np.hstack([X, beside])
    beta = fitted(whole, Y)
    np.testing.assert_allclose(solution.x, beta[:P], atol=1e-9)
    np.testing.assert_allclose(solution.confound_coefficients, beta[P : P + C], atol=1e-9)
    np.testing.assert_allclose(solution.predict(X[test], confounds=Z[test]), whole[test] @ beta, atol=1e-9)
    solution = ls.solve(ls.CCA(X[train], Y[train], 2, ridge=1.0, **options), "gram")
    variates = solution.transform(X, confounds=Z)
    whole = np.hstack([variates, beside])
    for target, found in (
        (Y, solution.predict(X[test], confounds=Z[test])),
        (X, solution.inverse_transform(variates[test], confounds=Z[test])),
    ):
        np.testing.assert_allclose(found, whole[test] @ fitted(whole, target), atol=1e-8)


@pytest.mark.parametrize("scale", [False, True], ids=["plain", "scaled"])
def test_scores_of_components_restore_rows(scale: bool) -> None:
    X, _, Z, w = data()
    solution = ls.solve(ls.SVD(X, P, center=True, sample_weight=w, confounds=Z, scale=scale), "direct")
    scores = solution.transform(X, confounds=Z)
    np.testing.assert_allclose(solution.inverse_transform(scores, confounds=Z), X, atol=1e-10)
    np.testing.assert_allclose(np.sum(w[:, None] * scores**2, axis=0), solution.S**2, rtol=1e-10)


def test_permutations_of_rows_that_count_are_those_of_repeated_rows() -> None:
    X, Y, Z, w = data(n=120)
    R = np.repeat(np.arange(120), w.astype(int))
    one = ls.permutation_test(ls.CCA(X, Y, sample_weight=w, confounds=Z), permutations=50, rng=0)
    other = ls.permutation_test(ls.CCA(X[R], Y[R], confounds=Z[R]), permutations=50, rng=0)
    np.testing.assert_array_equal(one.p_values, other.p_values)
    A, B = (residual(V[R], Z[R]) for V in (X, Y))
    exact = np.linalg.svd(np.linalg.qr(A)[0].T @ np.linalg.qr(B)[0])[1]
    np.testing.assert_allclose(one.correlations, exact, atol=1e-12)
    for function in (ls.permutation_test, ls.null_correlations):
        with pytest.raises(errors.InvalidProblem, match=r"got 0\.5 for row 0"):
            function(ls.CCA(X, Y, 2, sample_weight=np.full(120, 0.5)), permutations=2)


def test_correlations_by_chance_do_not_contain_the_confounds() -> None:
    X, Y, Z, w = data(n=300)
    views = Z @ np.ones((C, P)) + 1e-1 * X, Z @ np.ones((C, Q)) + 1e-1 * Y
    for given in ({"confounds": Z, "sample_weight": w}, {}):
        chance = ls.null_correlations(ls.CCA(*views, 2, **given), "gram", permutations=5, rng=0)
        assert chance.max() < 0.5
