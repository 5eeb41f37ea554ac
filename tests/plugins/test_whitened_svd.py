"""`whitened-svd` on rows with one entry: against a dense oracle, graph theory, and the whitener's own definition."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse

import linspec as ls
from linspec_cca import whitened


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """The iterative way for small problems, too."""
    monkeypatch.setattr(whitened, "FEWEST_COLUMNS", 0)


def categories(seed=0, n=2500, p=70, q=50, values=False, empty=0.0):
    """Two sparse views with one entry a row at most, that depend on one another; one column is never met."""
    rng = np.random.default_rng(seed)
    x = rng.integers(0, p - 1, n)
    y = np.where(rng.random(n) < 0.6, (3 * x + rng.integers(0, 3, n)) % (q - 1), rng.integers(0, q - 1, n))

    def view(columns, width):
        kept = rng.random(n) >= empty
        numbers = rng.uniform(-2, 2, n) if values else np.ones(n)
        return scipy.sparse.csr_array((numbers[kept], (np.flatnonzero(kept), columns[kept])), (n, width))

    return view(x, p), view(y, q)


def by_dense(X, Y, k, ridge, *, center, weights=None, confounds=None):
    """Correlations by a pseudo-inverse square root of dense Gram matrices."""
    X, Y = X.toarray(), Y.toarray()
    w = np.ones(len(X)) if weights is None else weights
    out = [np.ones(len(X))] if center else []
    out += [] if confounds is None else [confounds]
    if out:
        Z = np.column_stack(out)
        X, Y = (A - Z @ np.linalg.solve(Z.T @ (w[:, None] * Z), Z.T @ (w[:, None] * A)) for A in (X, Y))
    roots = []
    for A, r in ((X, ridge[0]), (Y, ridge[1])):
        values, vectors = np.linalg.eigh(A.T @ (w[:, None] * A) + r * np.eye(A.shape[1]))
        live = values > 1e-9 * values[-1]
        roots.append(vectors[:, live] / np.sqrt(values[live]))
    return np.linalg.svd(roots[0].T @ (X.T @ (w[:, None] * Y)) @ roots[1], compute_uv=False)[:k]


@pytest.mark.parametrize("center", [True, False])
@pytest.mark.parametrize("ridge", [(0.0, 0.0), (0.01, 30.0)])
@pytest.mark.parametrize("kind", [{}, {"values": True}, {"empty": 0.3}])
def test_the_correlations_are_those_of_dense_gram_matrices(center, ridge, kind):
    X, Y = categories(**kind)
    problem = ls.CCA(X, Y, 6, ridge=ridge, center=center)
    found = ls.solve(problem, "whitened-svd", rng=0, tol=1e-11)
    np.testing.assert_allclose(found.correlations, by_dense(X, Y, 6, ridge, center=center), atol=1e-9)
    scored = ls.metrics.tcc(X, Y, found.x_weights, found.y_weights, ridge=ridge, center=center)
    assert scored == pytest.approx(found.correlations.sum(), abs=1e-8)
    assert found.converged
    assert found.residual_kind == "exact"
    assert found.passes <= 2


@pytest.mark.parametrize("center", [True, False])
def test_weights_and_confounds_of_the_rows(center):
    X, Y = categories(values=True)
    rng = np.random.default_rng(1)
    weights, confounds = rng.uniform(0.5, 2, X.shape[0]), rng.standard_normal(X.shape[0])
    more = {"sample_weight": weights, "confounds": confounds}
    found = ls.solve(ls.CCA(X, Y, 5, ridge=1.0, center=center, **more), "whitened-svd", rng=0, tol=1e-11)
    exact = by_dense(X, Y, 5, (1.0, 1.0), center=center, weights=weights, confounds=confounds)
    np.testing.assert_allclose(found.correlations, exact, atol=1e-9)


@pytest.mark.parametrize(
    ("mix", "scale"), [(np.eye(50), True), (np.random.default_rng(0).random((50, 9)), False)]
)
def test_scaled_columns_and_rows_with_more_entries_are_solved_as_gram_solves_them(mix, scale):
    X, Y = categories(values=True)
    problem = ls.CCA(X, scipy.sparse.csr_array(Y @ mix), 4, ridge=1.0, scale=scale)
    a, b = (ls.solve(problem, name, rng=0, **o) for name, o in (("whitened-svd", {"tol": 1e-11}), ("gram", {})))
    np.testing.assert_allclose(a.correlations, b.correlations, atol=1e-9)


def test_all_copies_of_a_repeated_correlation_are_found():
    """Without a ridge, 1 is as often a correlation as the graph of the categories has components."""
    components, each, n = 23, 6, 6000
    rng = np.random.default_rng(0)
    group = rng.integers(0, components, n)
    x, y = (group * each + rng.integers(0, each, n) for _ in range(2))
    X, Y = (scipy.sparse.csr_array((np.ones(n), c, np.arange(n + 1)), (n, components * each)) for c in (x, y))
    exact = by_dense(X, Y, components + 2, (0, 0), center=False)
    for seed in range(2):
        found = ls.solve(ls.CCA(X, Y, components + 2, center=False), "whitened-svd", rng=seed)
        np.testing.assert_allclose(found.correlations[:components], 1.0, atol=1e-9)
        assert found.correlations[components] < 0.9
        assert found.correlations.sum() == pytest.approx(exact.sum())


def test_copies_at_the_last_place_do_not_spoil_the_certificate():
    X, Y = categories()
    X, Y = (scipy.sparse.block_diag([A] * 12, format="csr") for A in (X, Y))
    found = ls.solve(ls.CCA(X, Y, 20, ridge=1.0, center=False), "whitened-svd", rng=0, tol=1e-9)
    exact = np.repeat(by_dense(*categories(), 3, (1.0, 1.0), center=False), 12)[:20]
    np.testing.assert_allclose(found.correlations, exact, atol=1e-9)
    assert found.converged
