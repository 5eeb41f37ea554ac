"""`gram` and `direct` where the views are ill-conditioned, deficient or wider than long."""

from __future__ import annotations

import numpy as np
import pytest

import linspec as ls

RHO = np.array([0.9, 0.7, 0.4, 0.1])


def planted(n, condition, rng, extra=3):
    """Two views with canonical correlations RHO exactly, their columns mixed by a matrix of that condition."""
    k = len(RHO)
    Q = np.linalg.qr(rng.standard_normal((n, 2 * k + 2 * extra)))[0]
    Q -= Q.mean(axis=0)
    Q = np.linalg.qr(Q)[0]
    U, V = Q[:, :k], Q[:, k : 2 * k]
    X = np.hstack([U, Q[:, 2 * k : 2 * k + extra]])
    Y = np.hstack([U * RHO + V * np.sqrt(1 - RHO**2), Q[:, 2 * k + extra :]])
    return tuple(view @ mixing(view.shape[1], condition, rng) for view in (X, Y))


def mixing(p, condition, rng):
    """A random matrix whose condition no scaling of columns can mend."""
    left, right = (np.linalg.qr(rng.standard_normal((p, p)))[0] for _ in range(2))
    return left @ np.diag(np.geomspace(1, 1 / condition, p)) @ right


@pytest.mark.parametrize("condition", [1, 1e3, 1e6, 1e9])
def test_direct_loses_one_power_of_the_condition(condition):
    views = planted(300, condition, np.random.default_rng(0))
    found = ls.solve(ls.CCA(*views, 4), "direct")
    np.testing.assert_allclose(found.correlations, RHO, atol=1e-13 * condition + 1e-13)
    assert found.ranks == (7, 7)


@pytest.mark.parametrize("condition", [1, 1e2, 1e5, 1e6])
def test_gram_loses_two_and_says_so(condition):
    views = planted(300, condition, np.random.default_rng(0))
    found = ls.solve(ls.CCA(*views, 4), "gram")
    error = np.abs(found.correlations - RHO).max()
    assert error < 1e-14 * condition**2 + 1e-13
    assert error <= found.bounds.max()
    if error > 1e-6:
        assert found.status is ls.Status.ILL_CONDITIONED
        assert "direct" in found.message
    if condition < 1e3:
        assert found.status is ls.Status.CONVERGED


def test_more_columns_than_rows_is_said():
    """With p + q > n every correlation is 1 by chance, and the solution says so."""
    rng = np.random.default_rng(0)
    X, Y = rng.standard_normal((20, 30)), rng.standard_normal((20, 25))
    for solver in ("gram", "direct"):
        found = ls.solve(ls.CCA(X, Y, 3), solver)
        np.testing.assert_allclose(found.correlations, 1, atol=1e-7)
        assert found.status in (ls.Status.DEGENERATE, ls.Status.RANK_DEFICIENT)
        assert "3 of 3 correlations are 1" in found.message
        assert "ridge" in found.message


@pytest.mark.parametrize("solver", ["gram", "direct", "als"])
def test_mean_far_above_spread(solver):
    """Columns with mean/std = 1e4: centring must not cancel."""
    X, Y = planted(300, 10, np.random.default_rng(0))
    options = {"rng": 0, "tol": 1e-10} if solver == "als" else {}
    shift = 1e4 * np.sqrt(np.mean(X**2))
    for dtype, tolerance in ((np.float64, 1e-9), (np.float32, 5e-3)):
        views = (X + shift).astype(dtype), (Y - shift).astype(dtype)
        found = ls.solve(ls.CCA(*views, 4), solver, **options)
        np.testing.assert_allclose(found.correlations, RHO, atol=tolerance)


def test_bounds_hold():
    """|ρ found − nearest exact ρ| ≤ bound, for an answer that is far from done."""
    X, Y = planted(300, 10, np.random.default_rng(0))
    problem = ls.CCA(X, Y, 4, ridge=1e-3)
    exact = ls.solve(ls.CCA(X, Y, 7, ridge=1e-3), "direct").correlations
    for passes in (5, 8, 12, 20):
        found = ls.solve(problem, "als", rng=0, oversample=0, form="implicit", max_passes=passes, tol=1e-15)
        distance = np.abs(found.correlations[:, None] - exact[None, :]).min(axis=1)
        assert (distance <= found.bounds + 1e-12).all()


def test_ridge_pair_and_penalty_units():
    """A ridge of nλ on XᵀX is a penalty of λ on XᵀX/n: the eigenproblem solved densely."""
    X, Y = planted(300, 10, np.random.default_rng(0))
    found = ls.solve(ls.CCA(X, Y, 2, ridge=(0.3, 0.6), center=False), "gram")
    Sx, Sy, C = X.T @ X + 0.3 * np.eye(7), Y.T @ Y + 0.6 * np.eye(7), X.T @ Y
    squares = np.linalg.eigvals(np.linalg.solve(Sx, C) @ np.linalg.solve(Sy, C.T)).real
    np.testing.assert_allclose(found.correlations**2, np.sort(squares)[::-1][:2], atol=1e-12)


def exact_correlations(X, Y, ridge, k):
    """In extended precision, of centred views."""
    mpmath = pytest.importorskip("mpmath", reason="no mpmath")
    with mpmath.workdps(40):
        X, Y = (mpmath.matrix(view.astype(float).tolist()) for view in (X, Y))
        for view in (X, Y):
            for j in range(view.cols):
                mean = mpmath.fsum(view[:, j]) / view.rows
                for i in range(view.rows):
                    view[i, j] -= mean
        L, M = (mpmath.cholesky(view.T * view + ridge * mpmath.eye(view.cols)) for view in (X, Y))
        T = mpmath.inverse(L) * (X.T * Y) * mpmath.inverse(M).T
        return np.array(sorted(map(float, mpmath.svd_r(T, compute_uv=False)), reverse=True)[:k])


@pytest.mark.filterwarnings("ignore::linspec.errors.ConvergenceWarning")
@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("solver", ["gram", "direct", "lobpcg"])
@pytest.mark.slow(keep=9)
def test_bounds_hold_for_float32_with_a_ridge_below_its_rounding(solver, seed):
    """The ridge keeps directions that are shorter than the rounding of float32; entries count as exact."""
    rng = np.random.default_rng(100 + seed)
    p, q = int(rng.integers(2, 5)), int(rng.integers(2, 5))
    condition = 10 ** rng.uniform(5.5, 7.5)
    spectrum = np.diag(np.logspace(0, -np.log10(condition), p))
    X = rng.standard_normal((60, p)) @ spectrum @ np.linalg.qr(rng.standard_normal((p, p)))[0]
    Y = X[:, :1] @ rng.standard_normal((1, q)) + rng.standard_normal((60, q))
    X, Y = X.astype(np.float32), Y.astype(np.float32)
    ridge, k = 10 ** rng.uniform(-16, -9), min(p, q)
    exact = exact_correlations(X, Y, ridge, k)
    found = ls.solve(ls.CCA(X, Y, k, ridge=ridge), solver, rng=0)
    m = len(found.correlations)
    if found.bounds is not None:
        off = np.abs(found.correlations[:, None] - exact[None, :]).min(axis=1)
        assert (off <= found.bounds + 1e-15).all()
    if found.converged:
        np.testing.assert_allclose(found.correlations, exact[:m], atol=1e-6)
    if solver == "direct":
        np.testing.assert_allclose(found.correlations, exact, atol=1e-8)
