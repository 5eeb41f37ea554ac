"""`whitened-svd` on rows with one entry: against a dense oracle, graph theory, and the whitener's own definition."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse

import linspec as ls
from linspec.algebra.whitener import DiagonalWhitener
from linspec.operators import sparse_grams
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
@pytest.mark.parametrize("ridge", [(0.0, 0.0), (1.0, 1.0), (0.01, 30.0)])
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


def test_columns_divided_by_their_scale():
    X, Y = categories(values=True)
    problem = ls.CCA(X, Y, 5, ridge=1.0, center=True, scale=True)
    a, b = ls.solve(problem, "whitened-svd", rng=0, tol=1e-11), ls.solve(problem, "gram")
    np.testing.assert_allclose(a.correlations, b.correlations, atol=1e-9)


@pytest.mark.parametrize("seed", range(4))
def test_all_copies_of_a_repeated_correlation_are_found(seed):
    """Without a ridge, 1 is as often a correlation as the graph of the categories has components."""
    components, each, n = 23, 6, 6000
    rng = np.random.default_rng(seed)
    group = rng.integers(0, components, n)
    x, y = (group * each + rng.integers(0, each, n) for _ in range(2))
    X, Y = (scipy.sparse.csr_array((np.ones(n), c, np.arange(n + 1)), (n, components * each)) for c in (x, y))
    found = ls.solve(ls.CCA(X, Y, components + 2, center=False), "whitened-svd", rng=seed)
    np.testing.assert_allclose(found.correlations[:components], 1.0, atol=1e-9)
    assert found.correlations[components] < 0.9
    assert found.correlations.sum() == pytest.approx(
        by_dense(X, Y, components + 2, (0, 0), center=False).sum()
    )


def test_copies_at_the_last_place_do_not_spoil_the_certificate():
    X, Y = categories()
    X, Y = (scipy.sparse.block_diag([A] * 12, format="csr") for A in (X, Y))
    found = ls.solve(ls.CCA(X, Y, 20, ridge=1.0, center=False), "whitened-svd", rng=0, tol=1e-9)
    exact = np.repeat(by_dense(*categories(), 3, (1.0, 1.0), center=False), 12)[:20]
    np.testing.assert_allclose(found.correlations, exact, atol=1e-9)
    assert found.converged


def test_rows_with_more_entries_are_solved_as_gram_solves_them():
    X, _ = categories()
    problem = ls.CCA(X, scipy.sparse.csr_array(X @ np.random.default_rng(0).random((70, 9))), 4, ridge=1.0)
    a, b = (ls.solve(problem, name, rng=0) for name in ("whitened-svd", "gram"))
    np.testing.assert_allclose(a.correlations, b.correlations, atol=1e-12)


def test_a_tighter_tolerance_reaches_the_svd():
    X, Y = categories()
    loose, tight = (
        ls.solve(ls.CCA(X, Y, 6, ridge=1.0), "whitened-svd", rng=0, tol=tol, svd="block-krylov").residual
        for tol in (1e-6, 1e-13)
    )
    assert tight <= loose <= 1e-6
    assert tight < 1e-24


def test_automatic_takes_it_for_wide_one_hot_rows(monkeypatch):
    monkeypatch.undo()
    rng = np.random.default_rng(0)
    n, p = 50_000, 3000
    X, Y = (
        scipy.sparse.csr_array((np.ones(n), rng.integers(0, p, n), np.arange(n + 1)), (n, p)) for _ in "XY"
    )
    assert ls.select(ls.CCA(X, Y, 5, ridge=1.0)).name == "whitened-svd"
    assert ls.select(ls.CCA(X[:, :40], Y[:, :40], 5, ridge=1.0)).name == "gram"
    assert ls.select(ls.CCA(scipy.sparse.csr_array(X + Y), Y, 5, ridge=1.0)).name == "lobpcg"


@pytest.mark.parametrize("columns", [0, 1, 3])
def test_the_factor_of_a_diagonal_less_few_columns(columns):
    rng = np.random.default_rng(columns)
    d, ridge = rng.uniform(0, 5, 40), 0.3
    L = rng.standard_normal((40, columns)) * 0.3 * np.sqrt(d)[:, None] / 40**0.5
    found = DiagonalWhitener(d, L, ridge, 1e-12)
    S = np.diag(d + ridge) - L @ L.T
    F = found.solve_adjoint(np.eye(40))
    np.testing.assert_allclose(F.T @ S @ F, np.eye(40), atol=1e-12)
    np.testing.assert_allclose(found.solve(np.eye(40)), F.T, atol=1e-12)
    assert (found.rank, found.cut) == (40, None)
    root = np.sqrt(d + ridge)
    assert found.condition >= 0.99 / np.linalg.eigvalsh(S / np.outer(root, root))[0]


def test_the_factor_leaves_out_null_directions():
    counts = np.array([4.0, 0.0, 3.0, 1.0])
    found = DiagonalWhitener(counts, (counts / np.sqrt(8))[:, None], 0.0, 1e-12)
    S = np.diag(counts) - np.outer(counts, counts) / 8
    F = found.solve_adjoint(np.eye(4))
    assert found.rank == 2
    np.testing.assert_allclose(S @ (F @ F.T) @ S, S, atol=1e-12)
    direction = found.cut[:, 0] / np.linalg.norm(found.cut)
    np.testing.assert_allclose(np.abs(direction), np.array([1, 0, 1, 1]) / np.sqrt(3), atol=1e-12)


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int32, bool])
def test_a_gram_matrix_of_rows_with_one_entry(dtype):
    X, Y = categories(values=dtype in (np.float64, np.float32), empty=0.2)
    X = X.astype(dtype)
    assert sparse_grams.one_entry_rows(X)
    assert not sparse_grams.one_entry_rows(scipy.sparse.hstack([X, Y], format="csr"))
    dense = X.toarray().astype(np.float64)
    S = sparse_grams.gram(X)
    assert S.dtype == np.float64
    np.testing.assert_allclose(S.toarray(), dense.T @ dense, rtol=1e-12)


@pytest.mark.parametrize("form", ["dense", "sparse", "implicit"])
@pytest.mark.parametrize("center", [True, False])
def test_cross_products_alone(form, center):
    X, Y = categories(values=True)
    moments = ls.Moments(X, Y, center=center, form=form)
    x, y = (A.toarray() - center * A.toarray().mean(axis=0) for A in (X, Y))
    rng = np.random.default_rng(0)
    U, V = rng.standard_normal((70, 3)), rng.standard_normal((50, 4))
    np.testing.assert_allclose(moments.cross(V), x.T @ y @ V, atol=1e-9)
    np.testing.assert_allclose(moments.products(U, None)[2], y.T @ x @ U, atol=1e-9)
