"""Test matrices: their distribution, what theorems promise of them, and the transform of one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.linalg
import scipy.spatial.distance
import scipy.stats

import linspec as ls
from linspec.registry import get_part
from linspec.registry.options import build
from linspec_sketches.srht import hadamard, transformed

ALL: dict[str, tuple[str, dict[str, Any]]] = {
    "count-sketch": ("count-sketch", {}),
    "gaussian": ("gaussian", {}),
    "sparse-sign": ("sparse-sign", {}),
    "sparse-sign-2": ("sparse-sign", {"nonzeros": 2}),
    "srht": ("srht", {}),
    "very-sparse": ("very-sparse", {}),
    "very-sparse-log": ("very-sparse", {"rule": "logarithm"}),
    "very-sparse-3": ("very-sparse", {"density": 1 / 3}),
}


def draw(case: str, rows: int, columns: int, seed: int = 0) -> Any:
    name, options = ALL[case]
    return build(get_part("test-matrix", name), options).draw(rows, columns, np.random.default_rng(seed))


def test_gaussian_entries_are_standard_normal() -> None:
    assert scipy.stats.kstest(draw("gaussian", 400, 50).ravel(), "norm").pvalue > 0.01
    assert len({draw("gaussian", 1, 1, seed).item() for seed in range(300)}) == 300


@pytest.mark.parametrize(
    ("case", "s"), [("very-sparse", 40.0), ("very-sparse-log", 1600 / np.log(1600)), ("very-sparse-3", 3)]
)
def test_very_sparse_entries(case: str, s: float) -> None:
    entries = draw(case, 1600, 300)
    np.testing.assert_allclose(np.unique(np.abs(entries)), [0, np.sqrt(s)])
    for sign in (1, -1):
        count = np.count_nonzero(sign * entries > 0)
        assert scipy.stats.binomtest(count, entries.size, 1 / (2 * s)).pvalue > 1e-3


@pytest.mark.parametrize(("case", "count"), [("count-sketch", 1), ("sparse-sign", 8), ("sparse-sign-2", 2)])
@pytest.mark.parametrize("columns", [30, 5])
def test_so_many_entries_in_every_row(case: str, count: int, columns: int) -> None:
    entries, count = draw(case, 200, columns), min(count, columns)
    np.testing.assert_array_equal(np.count_nonzero(entries, axis=1), count)
    np.testing.assert_allclose(np.abs(entries[entries != 0]), np.sqrt(columns / count))


@pytest.mark.parametrize("order", [1, 2, 128])
def test_hadamard_entries_and_transform_are_scipys(order: int) -> None:
    H = scipy.linalg.hadamard(order).astype(float)
    numbers = np.arange(order)
    np.testing.assert_array_equal(hadamard(numbers, numbers), H)
    device = ls.as_operator(np.ones((1, 1))).device
    for last in (2, 1):
        x = np.random.default_rng(0).integers(-9, 9, (3, order, last)).astype(float)
        np.testing.assert_array_equal(transformed(x, device), np.einsum("ij,ajb->aib", H, x))


@pytest.mark.parametrize(("rows", "columns"), [(64, 64), (256, 31), (1, 1)])
def test_columns_of_the_transform_are_exactly_orthogonal(rows: int, columns: int) -> None:
    entries = draw("srht", rows, columns)
    np.testing.assert_array_equal(np.abs(entries), np.ones((rows, columns)))
    np.testing.assert_array_equal(entries.T @ entries, rows * np.eye(columns))


VARIANCES = {
    # Of ‖xΩ‖²/l for ‖x‖ = 1, times l. Gaussian: chi-squared. Very sparse: Li, Hastie and Church 2006, lemma 1.
    "gaussian": lambda x, columns: 2.0,
    "very-sparse": lambda x, columns: 2.0 + (np.sqrt(x.size) - 3) * np.sum(x**4),
    "very-sparse-log": lambda x, columns: 2.0 + (x.size / np.log(x.size) - 3) * np.sum(x**4),
    "very-sparse-3": lambda x, columns: 2.0,
    # Pairs of rows alone meet: Charikar, Chen and Farach-Colton 2004.
    "count-sketch": lambda x, columns: 2 * (1 - np.sum(x**4)),
    "sparse-sign": lambda x, columns: 2 * (1 - np.sum(x**4)),
    "sparse-sign-2": lambda x, columns: 2 * (1 - np.sum(x**4)),
    # The fourth moment of a Rademacher sum, and a sample without replacement.
    "srht": lambda x, columns: 2 * (1 - np.sum(x**4)) * (x.size - columns) / (x.size - 1),
}


@pytest.mark.parametrize("case", ALL)
@pytest.mark.slow(keep=3)
def test_the_length_of_a_vector_has_the_variance_of_its_theorem(case: str) -> None:
    rows, columns, seeds = 256, 24, 1200
    x = np.random.default_rng(0).standard_normal(rows) * np.arange(1, rows + 1) ** -0.8
    x /= np.linalg.norm(x)
    lengths = np.array([np.sum((draw(case, rows, columns, s).T @ x) ** 2) for s in range(seeds)]) / columns
    assert abs(lengths.mean() - 1) < 4.5 * lengths.std() / np.sqrt(seeds)
    variance = VARIANCES[case](x, columns) / columns
    # The error of a sample variance, from the sample's own fourth moment.
    error = np.std((lengths - 1) ** 2) / np.sqrt(seeds)
    assert abs(lengths.var() - variance) < 4.5 * error


def test_the_transform_embeds_even_the_worst_subspace() -> None:
    """Tropp 2011, theorem 3.1: for l ≥ 4(√k + √(8 log(k p)))² log k, singular values within 0.40 and 1.48."""
    rows, k = 1024, 4
    columns = int(np.ceil(4 * (np.sqrt(k) + np.sqrt(8 * np.log(k * rows))) ** 2 * np.log(k)))
    assert columns < rows
    for seed in range(20):  # of coordinates: a sample without the signs and the transform would miss it
        values = np.linalg.svd(draw("srht", rows, columns, seed)[:k], compute_uv=False) / np.sqrt(columns)
        assert 0.40 < values[-1] <= values[0] < 1.48
