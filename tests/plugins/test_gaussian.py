"""Gaussian test matrices: their distribution, their singular values, and what they promise of a sketch."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.linalg
import scipy.stats

from linspec_sketches.gaussian import Gaussian


def draw(rows: int, columns: int, seed: int = 0) -> np.ndarray:
    return Gaussian().draw(rows, columns, np.random.default_rng(seed))


def test_entries_are_standard_normal():
    entries = draw(400, 50).ravel()
    assert scipy.stats.kstest(entries, "norm").pvalue > 0.01


@pytest.mark.parametrize("rows, columns", [(500, 20), (2000, 100)])
def test_singular_values_lie_between_the_theorems_bounds(rows, columns):
    """Davidson and Szarek 2001: outside √rows ± (√columns + t) with probability at most 2 exp(−t²/2)."""
    values = np.linalg.svd(draw(rows, columns), compute_uv=False)
    t = 5.0
    assert np.sqrt(rows) - np.sqrt(columns) - t < values[-1]
    assert values[0] < np.sqrt(rows) + np.sqrt(columns) + t


def test_expected_error_of_the_range_finder():
    """Halko, Martinsson and Tropp 2011, theorem 10.5, for the Frobenius norm."""
    k, oversampling = 8, 6
    values = 1.0 / np.arange(1, 61)
    left = scipy.linalg.qr(draw(90, 60, seed=1), mode="economic")[0]
    right = scipy.linalg.qr(draw(60, 60, seed=2))[0]
    A = (left * values) @ right
    rng = np.random.default_rng(3)
    errors = []
    for _ in range(60):
        Q = scipy.linalg.qr(A @ Gaussian().draw(60, k + oversampling, rng), mode="economic")[0]
        errors.append(np.linalg.norm(A - Q @ (Q.T @ A)))
    bound = np.sqrt(1 + k / (oversampling - 1)) * np.linalg.norm(values[k:])
    assert np.linalg.norm(values[k + oversampling :]) <= np.mean(errors) <= bound
