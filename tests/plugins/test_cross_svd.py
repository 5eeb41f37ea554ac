"""`nw-cca` and `dw-cca`: the SVD of the cross product, unscaled and scaled, against dense SVDs and `d-cca`."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse

import linspec as ls

METHODS = ("nw-cca", "dw-cca")


def word_counts(seed=0, n=3000, p=180, q=140):
    """Sparse counts of two views with shared topics and Zipf's frequencies: columns overlap a little."""
    rng = np.random.default_rng(seed)
    topic = rng.integers(0, 12, n)

    def view(words):
        home, often = rng.integers(0, 12, words), 1.0 / np.arange(1, words + 1) ** 0.8
        rate = 0.3 * often + 0.6 * often**0.5 * (topic[:, None] == home[None, :]) * rng.random(words)
        return scipy.sparse.csr_array((rng.random((n, words)) < rate).astype(float))

    return view(p), view(q)


def by_svd(method, X, Y, k, ridge, center):
    """Weights and singular values by dense SVD."""
    X, Y = (A.toarray() if scipy.sparse.issparse(A) else A for A in (X, Y))
    if center:
        X, Y = X - X.mean(axis=0), Y - Y.mean(axis=0)
    d = [np.ones(A.shape[1]) if method == "nw-cca" else (A**2).sum(axis=0) + ridge for A in (X, Y)]
    w = [1 / np.sqrt(x) for x in d]
    U, s, Vt = np.linalg.svd(w[0][:, None] * (X.T @ Y) * w[1])
    return w[0][:, None] * U[:, :k], w[1][:, None] * Vt[:k].T, s


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("center", [True, False])
@pytest.mark.parametrize("form", ["implicit", "dense"])
def test_the_spans_are_those_of_the_singular_vectors(method, center, form):
    X, Y = word_counts()
    U, V, s = by_svd(method, X, Y, 6, 2.0, center)
    assert s[5] > 1.002 * s[6]
    problem = ls.CCA(X, Y, 6, ridge=2.0, center=center)
    found = ls.solve(problem, method, rng=0, tol=1e-18, form=form)
    assert ls.metrics.subspace_distance(found.x_weights, U) < 1e-7
    assert ls.metrics.subspace_distance(found.y_weights, V) < 1e-7
    assert found.status is ls.Status.APPROXIMATE
    expected = ls.metrics.tcc(X, Y, U, V, ridge=2.0, center=center)
    assert found.correlations.sum() == pytest.approx(expected, abs=1e-8)


def test_the_limit_of_d_cca_is_dw_cca():
    X, Y = word_counts(1)
    problem = ls.CCA(X, Y, 6, ridge=1.0, center=False)
    a = ls.solve(problem, "d-cca", rng=0, tol=1e-18)
    b = ls.solve(problem, "dw-cca", rng=1, tol=1e-18)
    assert ls.metrics.subspace_distance(a.x_weights, b.x_weights) < 1e-7
    assert ls.metrics.subspace_distance(a.y_weights, b.y_weights) < 1e-7
    np.testing.assert_allclose(a.correlations, b.correlations, atol=1e-9)


def one_hot(n=4000, categories=150):
    rng = np.random.default_rng(2)
    first = rng.zipf(1.4, n) % categories
    second = np.where(rng.random(n) < 0.6, (7 * first) % categories, rng.integers(categories, size=n))
    ones, rows = np.ones(n), np.arange(n)
    return tuple(scipy.sparse.csr_array((ones, (rows, c)), shape=(n, categories)) for c in (first, second))


def test_one_hot_rows_are_solved_by_scaling():
    """Their Gram matrices are diagonal, ridge or not: the answer is the exact one, and the status says so."""
    problem = ls.CCA(*one_hot(), 5, ridge=1.0, center=False)
    exact = ls.solve(problem, "direct").correlations
    found = ls.solve(problem, "dw-cca", rng=0, tol=1e-12, form="implicit")
    np.testing.assert_allclose(found.correlations, exact, atol=1e-9)
    assert found.status is ls.Status.CONVERGED
    without = ls.solve(problem, "nw-cca", rng=0, tol=1e-12, form="implicit")
    assert without.status is ls.Status.APPROXIMATE
    assert without.correlations.sum() < exact.sum()


def test_white_views_need_no_whitening():
    """For views with orthonormal columns all three are the same problem."""
    rng = np.random.default_rng(0)
    Q = np.linalg.qr(rng.standard_normal((300, 80)))[0]
    rho = np.linspace(0.95, 0.05, 40)
    X, Y = Q[:, :40], Q[:, :40] * rho + Q[:, 40:] * np.sqrt(1 - rho**2)
    X, Y = (A @ np.linalg.qr(rng.standard_normal((40, 40)))[0] for A in (X, Y))
    for method in METHODS:
        found = ls.solve(ls.CCA(X, Y, 4, center=False), method, rng=0, tol=1e-12)
        np.testing.assert_allclose(found.correlations, rho[:4], atol=1e-10)
        assert found.status is ls.Status.CONVERGED


@pytest.mark.parametrize("method", METHODS)
def test_columns_of_zeros_and_more_pairs_than_the_cross_product_has(method):
    rng = np.random.default_rng(0)
    shared = rng.standard_normal((500, 2))
    X = np.hstack([shared, np.zeros((500, 2)), rng.standard_normal((500, 3))])
    others = np.linalg.qr(np.hstack([X[:, [0, 1, 4, 5, 6]], rng.standard_normal((500, 4))]))[0][:, 5:]
    Y = np.hstack([shared + 0.5 * rng.standard_normal((500, 2)), others])
    found = ls.solve(ls.CCA(X, Y, 4, center=False), method, rng=0)
    assert found.correlations.shape == (4,)
    assert np.isfinite(found.x_weights).all()
    assert (found.correlations[:2] > 0.5).all()
    np.testing.assert_allclose(found.x_weights[2:4], 0, atol=1e-15)


@pytest.mark.parametrize("method", METHODS)
def test_units_do_not_matter_and_nothing_is_found_in_nothing(method):
    X, Y = (A.toarray() for A in word_counts())
    found = [
        ls.solve(ls.CCA(X * unit, Y / unit, 4), method, rng=0, tol=1e-12).correlations
        for unit in (1.0, 1e-55, 1e55)
    ]
    np.testing.assert_allclose(found[1:], [found[0]] * 2, atol=1e-8)
    for views in ((X * 0, Y), (X * 0, Y * 0)):
        empty = ls.solve(ls.CCA(*views, 4), method, rng=0)
        assert empty.status is ls.Status.RANK_DEFICIENT
        assert empty.x_weights.shape == (X.shape[1], 0)
