"""`nw-cca` and `dw-cca`: the SVD of the cross product, unscaled and scaled, against dense SVDs and `d-cca`."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse
from planted import planted_cca

import linspec as ls
from linspec.metrics import subspace_distance

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
    X, Y = (A.toarray() - center * A.toarray().mean(axis=0) for A in (X, Y))
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
    found = ls.solve(ls.CCA(X, Y, 6, ridge=2.0, center=center), method, rng=0, tol=1e-18, form=form)
    assert subspace_distance(found.x_weights, U) < 1e-7
    assert subspace_distance(found.y_weights, V) < 1e-7
    assert found.status is ls.Status.APPROXIMATE
    expected = ls.metrics.tcc(X, Y, U, V, ridge=2.0, center=center)
    assert found.correlations.sum() == pytest.approx(expected, abs=1e-8)


def test_the_limit_of_d_cca_is_dw_cca():
    problem = ls.CCA(*word_counts(1), 6, ridge=1.0, center=False)
    a = ls.solve(problem, "d-cca", rng=0, tol=1e-18)
    b = ls.solve(problem, "dw-cca", rng=1, tol=1e-18)
    assert subspace_distance(a.x_weights, b.x_weights) < 1e-7
    assert subspace_distance(a.y_weights, b.y_weights) < 1e-7
    np.testing.assert_allclose(a.correlations, b.correlations, atol=1e-9)


def test_one_hot_rows_are_solved_by_scaling():
    """Their Gram matrices are diagonal, ridge or not: the answer is the exact one, and the status says so."""
    rng = np.random.default_rng(2)
    x = rng.zipf(1.4, 4000) % 150
    y = np.where(rng.random(4000) < 0.6, (7 * x) % 150, rng.integers(150, size=4000))
    X, Y = (scipy.sparse.csr_array(np.eye(150)[c]) for c in (x, y))
    problem = ls.CCA(X, Y, 5, ridge=1.0, center=False)
    exact = ls.solve(problem, "direct").correlations
    found = ls.solve(problem, "dw-cca", rng=0, tol=1e-12, form="implicit")
    np.testing.assert_allclose(found.correlations, exact, atol=1e-9)
    assert found.status is ls.Status.CONVERGED
    without = ls.solve(problem, "nw-cca", rng=0, tol=1e-12, form="implicit")
    assert without.status is ls.Status.APPROXIMATE
    assert without.correlations.sum() < exact.sum()


@pytest.mark.parametrize("method", METHODS)
def test_white_views_need_no_whitening(method):
    """For views with orthonormal columns all three are the same problem."""
    rho = np.linspace(0.95, 0.05, 40)
    X, Y = planted_cca(300, 40, 40, rho, 4, center=False).arrays.values()
    found = ls.solve(ls.CCA(X, Y, 4, center=False), method, rng=0, tol=1e-12)
    np.testing.assert_allclose(found.correlations, rho[:4], atol=1e-10)
    assert found.status is ls.Status.CONVERGED


@pytest.mark.parametrize("method", METHODS)
def test_columns_of_zeros_and_more_pairs_than_the_cross_product_has(method):
    X, Y = planted_cca(500, 5, 6, (0.9, 0.8), 4, center=False).arrays.values()
    X = np.insert(X, [2, 2], 0.0, axis=1)
    found = ls.solve(ls.CCA(X, Y, 4, center=False), method, rng=0)
    np.testing.assert_allclose(found.correlations, [0.9, 0.8, 0, 0], atol=1e-7)
    np.testing.assert_allclose(found.x_weights[2:4], 0, atol=1e-15)
    empty = ls.solve(ls.CCA(X * 0, Y, 4), method, rng=0)
    assert (empty.status, empty.x_weights.shape) == (ls.Status.RANK_DEFICIENT, (7, 0))
