"""Gaussian test matrices: their distribution, their singular values, and what they promise of a sketch."""

from __future__ import annotations

import doctest

import array_api_strict
import numpy as np
import pytest
import scipy.linalg
import scipy.stats

import linspec.solving.random_test_matrix
from linspec import TestMatrix
from linspec.arrays import from_host, to_host
from linspec.errors import InvalidOption, UnknownOption
from linspec.registry.options import build
from linspec_sketches.gaussian import Gaussian
from linspec_sketches.plugin import linspec_test_matrices


def draw(rows: int, columns: int, seed: int = 0) -> np.ndarray:
    return Gaussian().draw(rows, columns, np.random.default_rng(seed))


def test_entries_are_standard_normal():
    entries = draw(400, 50).ravel()
    assert scipy.stats.kstest(entries, "norm").pvalue > 0.01


def test_columns_are_uncorrelated():
    rows, columns = 4000, 30
    correlations = np.corrcoef(draw(rows, columns), rowvar=False)[np.triu_indices(columns, 1)]
    # Under independence √rows times a correlation is N(0, 1) to good accuracy.
    assert scipy.stats.kstest(np.sqrt(rows) * correlations, "norm").pvalue > 0.01


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


def test_a_seed_means_one_matrix_wherever_it_goes():
    first, again, other = draw(30, 4, seed=7), draw(30, 4, seed=7), draw(30, 4, seed=8)
    assert first.dtype == np.float64
    assert first.shape == (30, 4)
    np.testing.assert_array_equal(first, again)
    assert not np.any(first == other)
    like = array_api_strict.ones(1, device=array_api_strict.Device("device1"))
    np.testing.assert_array_equal(to_host(from_host(first, like=like)), first)


def test_the_generator_moves_on():
    rng = np.random.default_rng(0)
    assert not np.any(Gaussian().draw(5, 3, rng) == Gaussian().draw(5, 3, rng))


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (1, 1)])
def test_small_shapes(shape):
    assert draw(*shape).shape == shape


def test_declaration():
    (spec,) = (spec for spec in linspec_test_matrices() if spec.name == "gaussian")
    module, _, name = spec.target.partition(":")
    assert (module, name) == (Gaussian.__module__, Gaussian.__name__)
    assert issubclass(Gaussian, TestMatrix)
    assert spec.name == "gaussian"


def test_it_has_no_options():
    with pytest.raises(UnknownOption):
        build(Gaussian, {"scale": 2.0})


def test_the_base_class_checks_options_and_its_example_runs():
    from dataclasses import dataclass

    from linspec import option

    @dataclass(frozen=True, kw_only=True)
    class Scaled(TestMatrix):
        scale: float = option(1.0, "standard deviation", above=0)

        def draw(self, rows, columns, rng):
            return self.scale * rng.standard_normal((rows, columns))

    with pytest.raises(InvalidOption):
        Scaled(scale=-1.0)
    with pytest.raises(TypeError):
        TestMatrix()
    assert doctest.testmod(linspec.solving.random_test_matrix).failed == 0
