"""`rpcca`: exact CCA between principal components, found by an SVD solver on the accounts of the run."""

from __future__ import annotations

import numpy as np
import pytest

import linspec as ls

RHO = np.array([0.9, 0.7, 0.4, 0.1])


def planted(n=300, p=12, q=9, seed=0, sizes_x=None, sizes_y=None):
    """Views with singular values `sizes` whose left singular vectors have inner products RHO, in order."""
    rng = np.random.default_rng(seed)
    Q = np.linalg.qr(rng.standard_normal((n, p + q)))[0]
    U, V = Q[:, :p], Q[:, p:].copy()
    V[:, :4] = U[:, :4] * RHO + V[:, :4] * np.sqrt(1 - RHO**2)
    X = (U * (np.linspace(3, 1, p) if sizes_x is None else sizes_x)) @ np.linalg.qr(
        rng.standard_normal((p, p))
    )[0]
    return X, (V * (np.linspace(2, 1, q) if sizes_y is None else sizes_y)) @ np.linalg.qr(
        rng.standard_normal((q, q))
    )[0]


def between_components(X, Y, m, k, ridge, center):
    """CCA with a ridge on the weights between the m leading principal components, densely."""
    if center:
        X, Y = X - X.mean(axis=0), Y - Y.mean(axis=0)
    U, V = (np.linalg.svd(A, full_matrices=False)[2][:m].T for A in (X, Y))
    halves = []
    for A, W in ((X, U), (Y, V)):
        values, vectors = np.linalg.eigh(W.T @ (A.T @ A) @ W + ridge * np.eye(m))
        halves.append(W @ (vectors / np.sqrt(values)) @ vectors.T)
    return np.linalg.svd(halves[0].T @ (X.T @ Y) @ halves[1])[1][:k]


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
    np.testing.assert_allclose(found.correlations, between_components(X, Y, 7, 3, ridge, center), atol=1e-10)
    assert found.status is ls.Status.APPROXIMATE


@pytest.mark.parametrize("svd", ls.solvers("svd"))
def test_any_svd_solver_by_name_and_all_components_are_cca(svd):
    """With all components nothing is lost: ρ s/√(s² + r) t/√(t² + r)."""
    X, Y = planted()
    s, t = np.linspace(3, 1, 12)[:4], np.linspace(2, 1, 9)[:4]
    for ridge in (0.0, 0.5):
        found = ls.solve(ls.CCA(X, Y, 4, ridge=ridge, center=False), "rpcca", rng=0, svd=svd)
        exact = RHO * s / np.sqrt(s**2 + ridge) * t / np.sqrt(t**2 + ridge)
        np.testing.assert_allclose(found.correlations, exact, atol=1e-8)
        assert found.status is ls.Status.CONVERGED


def test_correlation_in_short_directions_is_not_found():
    """The correlated directions are the trailing components, but for a little noise."""
    X, Y = planted(sizes_x=np.linspace(1, 3, 12), sizes_y=np.linspace(1, 3, 9))
    rng = np.random.default_rng(1)
    X, Y = (A + 0.01 * rng.standard_normal(A.shape) for A in (X, Y))
    problem = ls.CCA(X, Y, 2, center=False)
    exact = ls.solve(problem, "direct").correlations
    found = ls.solve(problem, "rpcca", rng=0, components=5, svd="direct")
    assert exact[0] > 0.85
    assert found.correlations[0] < 0.2
    assert found.status is ls.Status.INCOMPLETE
    assert found.residual > 0.01
    options = {"components": 5, "iterations": 40, "inner_iterations": 10}
    np.testing.assert_allclose(ls.solve(problem, "l-cca", rng=0, **options).correlations, exact, atol=1e-5)


@pytest.mark.parametrize("ridge", [0.0, 1.0])
def test_weights_of_wide_slices_beside_an_array(ridge):
    rng = np.random.default_rng(0)
    X, Y, w = rng.standard_normal((5, 16)), rng.standard_normal((5, 18)), rng.uniform(0.5, 2, 5)
    slices = ls.CCA(lambda: iter([X[:2], X[2:]]), Y, 2, ridge=ridge, sample_weight=w)
    rows = ls.CCA(X, Y, 2, ridge=ridge, sample_weight=w)
    found, wanted = (ls.solve(problem, "rpcca", rng=0) for problem in (slices, rows))
    np.testing.assert_allclose(found.correlations, wanted.correlations, atol=1e-8)
