"""LING: the variant that converges, those that are printed, and principal component regression beside them."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from planted import factored

import linspec as ls
from linspec import datasets
from linspec.registry.options import with_parts
from linspec_lstsq.principal_components import OVERSAMPLING, PrincipalComponents


@pytest.mark.parametrize("variant", ["ridge", "simplified", "projection"])
@pytest.mark.parametrize("ridge", [0.5, 100.0])
def test_coefficients_reproduce_the_printed_predictions(variant, ridge):
    """Algorithms 1 and 5 step by step with n x k matrices, their second stage by factorisation."""
    model = datasets.spiked_spectrum(0, n=240, p=160)
    A, y = model.A, model.draw(np.random.default_rng(1))
    # The randomized SVD that the solver makes with seed 0, U formed, is one of a projection of A.
    test_matrix = with_parts(ls.get_solver("ling", ls.LeastSquares(A, y))()).test_matrix
    Omega = test_matrix.draw(160, 20 + OVERSAMPLING, np.random.default_rng(0))
    leading = PrincipalComponents.of(A.T @ (A @ Omega), lambda V: A.T @ (A @ V), 20)
    U, d = A @ leading.Z, leading.d
    np.testing.assert_allclose(U.T @ U, np.eye(20), atol=1e-10)
    np.testing.assert_allclose(A.T @ U, leading.V * d, atol=1e-11 * d[0])
    gamma = U.T @ y
    second = A if variant == "projection" else A - U @ (U.T @ A)
    rest = np.linalg.solve(second.T @ second + ridge * np.eye(160), second.T @ (y - U @ gamma))
    shrink = d**2 / (d**2 + ridge) if variant == "ridge" else 1.0
    expected = U @ (shrink * gamma) + second @ rest
    found = ls.solve(ls.LeastSquares(A, y, ridge=ridge), "ling", rng=0, variant=variant, tol=1e-14)
    assert np.linalg.norm(A @ found.x - expected) < 1e-11 * np.linalg.norm(expected)
    assert found.status is ls.Status.APPROXIMATE
    assert "do not correct errors of their components" in found.message


def test_the_second_stage_contracts_as_the_source_says():
    """(2.2.3): the gap of its objective shrinks a step by at least (d²/(d² + 2r))², d = d_(k+1), for exact U."""
    n, p, k, ridge = 90, 40, 3, 4.0
    # The gap below the components lets the randomized SVD find them to rounding.
    s = np.concatenate([np.full(k, 1e7), np.linspace(5, 1, p - k)])
    A, U, V = factored(n, p, s)
    y = np.random.default_rng(3).standard_normal(n)
    Ar, yr = U[:, k:] * s[k:] @ V[:, k:].T, y - U[:, :k] @ (U[:, :k].T @ y)
    best = V[:, k:] @ (s[k:] / (s[k:] ** 2 + ridge) * (U[:, k:].T @ y))

    def objective(x):
        x = V[:, k:] @ (V[:, k:].T @ x)  # the second stage's share of the coefficients
        return np.sum((Ar @ x - yr) ** 2) + ridge * np.sum(x**2)

    gaps = []
    ls.solve(
        ls.LeastSquares(A, y, ridge=ridge), "ling", rng=0, rank=k, variant="ridge", inner="gd", tol=1e-13,
        callback=lambda now: gaps.append(objective(now.current()["x"][:, 0]) - objective(best)) or len(gaps) == 12,
    )  # fmt: skip
    factor = (s[k] ** 2 / (s[k] ** 2 + 2 * ridge)) ** 2
    for before, after in pairwise(gaps):
        assert after <= factor * before + 1e-9 * gaps[0]


# ---- principal component regression -----------------------------------------------------------


def test_pcr_regresses_on_the_leading_components_alone():
    s = np.concatenate([[1e6, 7e5, 5e5], np.linspace(3, 1, 27)])
    A, U, V = factored(80, 30, s)
    y = np.random.default_rng(1).standard_normal(80)
    found = ls.solve(ls.LeastSquares(A, y), "pcr", rng=0, rank=3)
    np.testing.assert_allclose(found.x, V[:, :3] @ (U[:, :3].T @ y / s[:3]), atol=1e-13)
    assert "3 principal components" in found.message
