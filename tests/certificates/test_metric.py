"""Norms of S⁻¹: of a diagonal matrix that is changed in few directions, against dense algebra."""

from __future__ import annotations

import numpy as np
import pytest

from linspec.arrays import HOST
from linspec.certificates import Metric, NearDiagonal, Preconditioned

P = 30


def near_diagonal(seed=0, columns=2):
    """D and L with D - L Lᵀ positive definite."""
    rng = np.random.default_rng(seed)
    d = rng.uniform(1, 50, P)
    L = np.linalg.qr(rng.standard_normal((P, columns)))[0] * [0.99, 0.5][:columns] * np.sqrt(d)[:, None]
    return d, L


@pytest.mark.parametrize("ridge", [0.0, 0.3])
def test_lengths_solutions_and_coordinates_are_those_of_dense_matrices(ridge):
    d, L = near_diagonal()
    S = np.diag(d) - L @ L.T + ridge * np.eye(P)
    metric, g = NearDiagonal.of_thin(d, L, ridge, 2.0**-52), np.random.default_rng(1).standard_normal((P, 4))
    exact = np.linalg.solve(S, g)
    np.testing.assert_allclose(metric.solve(g), exact, rtol=1e-9)
    np.testing.assert_allclose(metric.lengths(g) ** 2, np.sum(g * exact, axis=0), rtol=1e-9)
    np.testing.assert_allclose(metric.N @ metric.N.T, np.linalg.inv(S), atol=1e-9)
    np.testing.assert_allclose(metric.lift(metric.coordinates(g)), g, atol=1e-9)
    np.testing.assert_allclose(
        np.sum(metric.coordinates(g) ** 2, axis=0), np.sum(g * (S @ g), axis=0), rtol=1e-9
    )
    dense = Metric.of_gram(np.diag(d) - L @ L.T, ridge, 2.0**-52)
    assert metric.rank == dense.rank == P
    assert metric.reach >= np.linalg.norm(metric.N, 2) * (1 - 1e-12)


def test_ones_are_null_in_centred_indicators_and_so_are_columns_never_met():
    """All indicators of a category add up to 1, which centring takes away."""
    codes = np.random.default_rng(0).integers(0, P - 2, 500)
    X = np.eye(P)[codes]
    mean = X.mean(axis=0)
    metric = NearDiagonal.of_thin(np.sum(X**2, axis=0), np.sqrt(500) * mean[:, None], 0.0, 2.0**-52)
    S = (X - mean).T @ (X - mean)
    assert metric.rank == np.linalg.matrix_rank(S) == P - 3
    null = np.append(np.ones(P - 2), [0, 0]) / np.sqrt(P - 2)
    np.testing.assert_allclose(np.abs(null @ metric.null), 1.0, rtol=1e-12)
    g = S @ np.random.default_rng(1).standard_normal((P, 3))
    exact = np.sum(g * (np.linalg.pinv(S) @ g), axis=0)
    np.testing.assert_allclose(metric.lengths(g) ** 2, exact, rtol=1e-9)


def test_the_norm_of_a_preconditioner():
    rng = np.random.default_rng(0)
    F, E = rng.standard_normal((P, 3)) * 5, rng.uniform(1, 2, P)
    T = F @ F.T + np.diag(E)
    values, vectors = np.linalg.eigh(F.T @ (F / E[:, None]))
    L = F @ (vectors / np.sqrt(1 + values)) / E[:, None]
    metric, g = Preconditioned(1 / E, L, HOST), rng.standard_normal((P, 4))
    np.testing.assert_allclose(metric.solve(g), np.linalg.solve(T, g), rtol=1e-8)
    np.testing.assert_allclose(metric.lengths(g) ** 2, np.sum(g * np.linalg.solve(T, g), axis=0), rtol=1e-8)
    assert metric.source == "preconditioned"
