"""CCA by cheaper problems: `randomized`, `rpcca`, `nw-cca`, `dw-cca`, `d-cca`, `whitened-svd`, by their definitions."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.linalg
import scipy.sparse
from planted import planted_cca

import linspec as ls
from linspec.metrics import subspace_distance
from linspec_cca import whitened
from linspec_sketches.gaussian import Gaussian

RHO = np.array([0.9, 0.7, 0.4, 0.1])
ONES = np.ones(60)


def planted(sizes_x, sizes_y, n=400):
    """Views with these singular values, whose left singular vectors have inner products RHO, in order."""
    p, q = len(sizes_x), len(sizes_y)
    case = planted_cca(n, p, q, RHO, 4, values_x=sizes_x, values_y=sizes_y, center=False)
    return case.arrays.values()


# ---- randomized: two passes, exact where C has low rank ---------------------------------------------


def as_printed(X, Y, k, columns, powers, ridge, rng):
    """The algorithm of the source, with dense matrices and Cholesky factors."""
    C = X.T @ Y
    Qx, Qy = (Gaussian().draw(A.shape[1], columns, rng) for A in (X, Y))
    for _ in range(powers + 1):
        Qx, Qy = np.linalg.qr(C @ Qy)[0], np.linalg.qr(C.T @ Qx)[0]
    Lx, Ly = (np.linalg.cholesky(Q.T @ (A.T @ (A @ Q)) + ridge * Q.T @ Q) for A, Q in ((X, Qx), (Y, Qy)))
    half = scipy.linalg.solve_triangular(Lx, Qx.T @ C @ Qy, lower=True)
    return np.linalg.svd(scipy.linalg.solve_triangular(Ly, half.T, lower=True))[1][:k]


@pytest.mark.parametrize("powers", [0, 1, 3])
def test_it_is_the_algorithm_of_the_source(powers):
    X, Y = planted(np.geomspace(1, 0.1, 60), ONES)
    X = X + 0.01 * np.random.default_rng(1).standard_normal(X.shape)
    options = {"oversample": 4, "power_sweeps": powers, "form": "implicit"}
    found = ls.solve(ls.CCA(X, Y, 3, ridge=0.02, center=False), "randomized", rng=5, **options)
    expected = as_printed(X, Y, 3, 7, powers, 0.02, np.random.default_rng(5))
    np.testing.assert_allclose(found.correlations, expected, rtol=1e-10)
    assert found.passes == 2 + powers


@pytest.mark.parametrize(("size", "ridge"), [(1.0, (0.0, 0.0)), (2.0, (0.5, 0.25))])
def test_a_cross_product_of_low_rank_is_found_in_two_sweeps(size, ridge):
    """CΩ spans the range of C. With singular values s, 1 and ridges r, q: ρ s/√(s² + r) 1/√(1 + q)."""
    problem = ls.CCA(*planted(size * ONES, ONES), 4, ridge=ridge, center=False)
    found = ls.solve(problem, "randomized", rng=0, oversample=3, form="implicit")
    exact = RHO * size / np.sqrt(size**2 + ridge[0]) / np.sqrt(1 + ridge[1])
    np.testing.assert_allclose(found.correlations, exact, atol=1e-13)
    assert found.status is ls.Status.CONVERGED
    assert found.passes == 2


def test_short_directions_hide_behind_long_ones_and_the_status_says_so():
    """The range of C is not whitened: a correlation of .9 between directions a thousand times shorter is missed."""
    rng = np.random.default_rng(0)
    X, Y = rng.standard_normal((2, 2000, 80)) * np.repeat([1, 1e-3], [10, 70])
    Y[:, 70] = X[:, 70] * 0.9 + Y[:, 70] * np.sqrt(1 - 0.81)
    problem = ls.CCA(X, Y, 1, center=False)
    exact = ls.solve(problem, "direct").correlations[0]
    assert exact > 0.89
    for powers in (0, 2):
        found = ls.solve(problem, "randomized", rng=0, oversample=8, power_sweeps=powers)
        assert found.correlations[0] < 0.5
        assert (found.status, found.converged) == (ls.Status.APPROXIMATE, False)
        assert "oversample" in found.message
    wide = ls.solve(problem, "randomized", rng=0)
    np.testing.assert_allclose(wide.correlations[0], exact, rtol=1e-9)
    assert wide.status is ls.Status.CONVERGED


# ---- rpcca: exact CCA between principal components --------------------------------------------------


@pytest.mark.parametrize("center", [True, False])
@pytest.mark.parametrize("ridge", [0.0, 30.0])
def test_cca_between_components(center, ridge):
    rng = np.random.default_rng(0)
    shared = rng.standard_normal((400, 5))
    X, Y = (
        (shared @ rng.standard_normal((5, p)) + rng.standard_normal((400, p))) * np.geomspace(1, 0.1, p) + 1
        for p in (40, 30)
    )
    problem = ls.CCA(X, Y, 3, ridge=ridge, center=center)
    found = ls.solve(problem, "rpcca", components=7, svd="direct")
    leading = [A @ np.linalg.svd(A - center * A.mean(axis=0))[2][:7].T for A in (X, Y)]
    exact = ls.solve(ls.CCA(*leading, 3, ridge=ridge, center=center), "direct").correlations
    np.testing.assert_allclose(found.correlations, exact, atol=1e-10)
    assert found.status is ls.Status.APPROXIMATE


@pytest.mark.parametrize("svd", ls.solvers("svd"))
def test_any_svd_solver_by_name_and_all_components_are_cca(svd):
    """With all components nothing is lost: ρ s/√(s² + r) t/√(t² + r)."""
    s, t = np.linspace(3, 1, 12), np.linspace(2, 1, 9)
    for ridge in (0.0, 0.5):
        problem = ls.CCA(*planted(s, t, 300), 4, ridge=ridge, center=False)
        found = ls.solve(problem, "rpcca", rng=0, svd=svd)
        exact = RHO * (s / np.sqrt(s**2 + ridge))[:4] * (t / np.sqrt(t**2 + ridge))[:4]
        np.testing.assert_allclose(found.correlations, exact, atol=1e-8)
        assert found.status is ls.Status.CONVERGED


def test_correlation_in_short_directions_is_not_found():
    """The correlated directions are the trailing components, but for a little noise."""
    rng = np.random.default_rng(1)
    views = planted(np.linspace(1, 3, 12), np.linspace(1, 3, 9), 300)
    X, Y = (A + 0.01 * rng.standard_normal(A.shape) for A in views)
    found = ls.solve(ls.CCA(X, Y, 2, center=False), "rpcca", rng=0, components=5, svd="direct")
    assert found.correlations[0] < 0.2
    assert found.status is ls.Status.INCOMPLETE
    assert found.residual > 0.01


# ---- the SVD of the cross product, unscaled and scaled ----------------------------------------------


def word_counts(seed=0, n=3000, p=180, q=140):
    """Sparse counts of two views with shared topics and Zipf's frequencies: columns overlap a little."""
    rng = np.random.default_rng(seed)
    topic = rng.integers(0, 12, n)

    def view(words):
        device, often = rng.integers(0, 12, words), 1.0 / np.arange(1, words + 1) ** 0.8
        rate = 0.3 * often + 0.6 * often**0.5 * (topic[:, None] == device[None, :]) * rng.random(words)
        return scipy.sparse.csr_array((rng.random((n, words)) < rate).astype(float))

    return view(p), view(q)


def by_svd(method, X, Y, k, ridge, center):
    """Weights and singular values by dense SVD."""
    X, Y = (A.toarray() - center * A.toarray().mean(axis=0) for A in (X, Y))
    d = [np.ones(A.shape[1]) if method == "nw-cca" else (A**2).sum(axis=0) + ridge for A in (X, Y)]
    w = [1 / np.sqrt(x) for x in d]
    U, s, Vt = np.linalg.svd(w[0][:, None] * (X.T @ Y) * w[1])
    return w[0][:, None] * U[:, :k], w[1][:, None] * Vt[:k].T, s


@pytest.mark.parametrize("method", ["nw-cca", "dw-cca"])
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


@pytest.mark.parametrize("method", ["nw-cca", "dw-cca", "randomized"])
def test_white_views_with_columns_of_zeros_and_more_pairs_than_the_cross_product_has(method):
    X, Y = planted_cca(500, 5, 6, (0.9, 0.8), 4, center=False).arrays.values()
    X = np.insert(X, [2, 2], 0.0, axis=1)
    found = ls.solve(ls.CCA(X, Y, 4, center=False), method, rng=0)
    np.testing.assert_allclose(found.correlations, [0.9, 0.8, 0, 0], atol=1e-7)
    assert found.converged
    np.testing.assert_allclose(found.x_weights[2:4], 0, atol=1e-15)
    empty = ls.solve(ls.CCA(X * 0, Y, 4), method, rng=0)
    assert (empty.status, empty.x_weights.shape) == (ls.Status.RANK_DEFICIENT, (7, 0))


# ---- whitened ----------------------------------------------------------------------------------


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


def solved(X, Y, k, tol=1e-11, **problem):
    """Correlations of the iterative way, and those by factorisation of the rows."""
    problem = ls.CCA(X, Y, k, **problem)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(whitened, "FEWEST_COLUMNS", 0)  # the iterative way for small problems, too
        found = ls.solve(problem, "whitened-svd", rng=0, tol=tol)
    exact = ls.solve(problem, "direct").correlations
    np.testing.assert_allclose(found.correlations, exact, atol=1e-9)
    return found


@pytest.mark.parametrize("center", [True, False])
@pytest.mark.parametrize("ridge", [(0.0, 0.0), (0.01, 30.0)])
@pytest.mark.parametrize("kind", [{}, {"values": True}, {"empty": 0.3}])
def test_the_correlations_are_exact_in_two_passes(center, ridge, kind):
    X, Y = categories(**kind)
    found = solved(X, Y, 6, ridge=ridge, center=center)
    scored = ls.metrics.tcc(X, Y, found.x_weights, found.y_weights, ridge=ridge, center=center)
    assert scored == pytest.approx(found.correlations.sum(), abs=1e-8)
    assert found.converged
    assert found.residual_kind == "exact"
    assert found.passes <= 2


@pytest.mark.parametrize("scale", [True, False])
def test_weights_confounds_and_scales_of_the_rows(scale):
    X, Y = categories(values=True)
    rng = np.random.default_rng(1)
    weights, confounds = rng.integers(0, 3, X.shape[0]) + 0.0, rng.standard_normal(X.shape[0])
    solved(X, Y, 5, ridge=1.0, scale=scale, sample_weight=weights, confounds=confounds)


def test_all_copies_of_a_repeated_correlation_are_found():
    """Without a ridge, 1 is as often a correlation as the graph of the categories has components."""
    components, each, n = 23, 6, 6000
    rng = np.random.default_rng(0)
    group = rng.integers(0, components, n)
    x, y = (group * each + rng.integers(0, each, n) for _ in range(2))
    X, Y = (scipy.sparse.csr_array((np.ones(n), c, np.arange(n + 1)), (n, components * each)) for c in (x, y))
    found = solved(X, Y, components + 2, center=False)
    np.testing.assert_allclose(found.correlations[:components], 1.0, atol=1e-9)
    assert found.correlations[components] < 0.9


def test_copies_at_the_last_place_do_not_spoil_the_certificate():
    X, Y = (scipy.sparse.block_diag([A] * 12, format="csr") for A in categories())
    assert solved(X, Y, 20, tol=1e-9, ridge=1.0, center=False).converged
