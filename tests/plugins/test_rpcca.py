"""`rpcca`: exact CCA between principal components, found by an SVD solver on the accounts of the run."""

from __future__ import annotations

import numpy as np
import pytest
from planted import planted_cca

import linspec as ls

RHO = np.array([0.9, 0.7, 0.4, 0.1])


def planted(sizes_x, sizes_y):
    """Views with these singular values, whose left singular vectors have inner products RHO, in order."""
    case = planted_cca(300, 12, 9, RHO, 4, values_x=sizes_x, values_y=sizes_y, center=False)
    return case.arrays.values()


def between_components(X, Y, m, k, ridge, center):
    """CCA with a ridge on the weights between the m leading principal components, densely."""
    X, Y = (A - center * A.mean(axis=0) for A in (X, Y))
    halves = []
    for A in (X, Y):
        W = np.linalg.svd(A, full_matrices=False)[2][:m].T
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
    s, t = np.linspace(3, 1, 12), np.linspace(2, 1, 9)
    for ridge in (0.0, 0.5):
        problem = ls.CCA(*planted(s, t), 4, ridge=ridge, center=False)
        found = ls.solve(problem, "rpcca", rng=0, svd=svd)
        exact = RHO * (s / np.sqrt(s**2 + ridge))[:4] * (t / np.sqrt(t**2 + ridge))[:4]
        np.testing.assert_allclose(found.correlations, exact, atol=1e-8)
        assert found.status is ls.Status.CONVERGED


def test_correlation_in_short_directions_is_not_found():
    """The correlated directions are the trailing components, but for a little noise."""
    rng = np.random.default_rng(1)
    X, Y = (A + 0.01 * rng.standard_normal(A.shape) for A in planted(np.linspace(1, 3, 12), np.linspace(1, 3, 9)))
    found = ls.solve(ls.CCA(X, Y, 2, center=False), "rpcca", rng=0, components=5, svd="direct")
    assert found.correlations[0] < 0.2
    assert found.status is ls.Status.INCOMPLETE
    assert found.residual > 0.01


def test_weights_of_wide_slices_beside_an_array():
    rng = np.random.default_rng(0)
    X, Y, w = rng.standard_normal((5, 16)), rng.standard_normal((5, 18)), rng.uniform(0.5, 2, 5)
    found, wanted = (
        ls.solve(ls.CCA(data, Y, 2, ridge=1.0, sample_weight=w), "rpcca", rng=0)
        for data in (lambda: iter([X[:2], X[2:]]), X)
    )
    np.testing.assert_allclose(found.correlations, wanted.correlations, atol=1e-8)
