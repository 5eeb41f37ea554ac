"""Sketches: their distribution, what theorems promise of them, and that their structure is used."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.linalg
import scipy.sparse
import scipy.stats

import linspec as ls
from linspec.operators import Sketch
from linspec.registry import get_part
from linspec.registry.options import build
from linspec_sketches.sparse import CountSketch, SparseSign
from linspec_sketches.srht import hadamard, transformed

ALL = {
    "count-sketch": {},
    "gaussian": {},
    "sparse-sign": {},
    "sparse-sign-2": {"nonzeros": 2},
    "srht": {},
    "very-sparse": {},
    "very-sparse-log": {"rule": "logarithm"},
    "very-sparse-3": {"density": 1 / 3},
}


def make(case: str):
    return build(
        get_part("test-matrix", case.removesuffix("-2").removesuffix("-3").removesuffix("-log")), ALL[case]
    )


def draw(case: str, rows: int, columns: int, seed: int = 0) -> np.ndarray:
    return make(case).draw(rows, columns, np.random.default_rng(seed))


def operator(case: str, rows: int, columns: int, seed: int = 0) -> Sketch:
    return make(case).operator(rows, columns, np.random.default_rng(seed))


# ---- distribution -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "case, s", [("very-sparse", 40.0), ("very-sparse-log", 1600 / np.log(1600)), ("very-sparse-3", 3)]
)
def test_very_sparse_entries(case, s):
    entries = draw(case, 1600, 300)
    np.testing.assert_allclose(np.unique(np.abs(entries)), [0, np.sqrt(s)])
    for sign in (1, -1):
        count = np.count_nonzero(sign * entries > 0)
        assert scipy.stats.binomtest(count, entries.size, 1 / (2 * s)).pvalue > 1e-3
    # Positions: the gaps are geometric exactly when entries are independent, all with one probability.
    per_column = np.count_nonzero(entries, axis=0)
    per_row = np.count_nonzero(entries, axis=1)
    for counts, size in ((per_column, 1600), (per_row, 300)):
        expected = size / s * (1 - 1 / s)
        statistic = np.sum((counts - size / s) ** 2) / expected
        assert scipy.stats.chi2(len(counts)).cdf(statistic) == pytest.approx(0.5, abs=0.4995)


@pytest.mark.parametrize("rows, columns, count", [(200, 30, 8), (200, 30, 1), (200, 5, 5), (1, 9, 8)])
def test_sparse_sign_has_so_many_entries_in_every_row(rows, columns, count):
    entries = SparseSign(nonzeros=count).draw(rows, columns, np.random.default_rng(1))
    np.testing.assert_array_equal(np.count_nonzero(entries, axis=1), count)
    np.testing.assert_allclose(np.abs(entries[entries != 0]), np.sqrt(columns / count))


def test_every_subset_of_places_is_equally_likely():
    entries = SparseSign(nonzeros=2).draw(15000, 6, np.random.default_rng(2))
    _, counts = np.unique(entries != 0, axis=0, return_counts=True)
    assert len(counts) == 15
    assert scipy.stats.chisquare(counts).pvalue > 1e-3


def test_count_sketch_has_one_entry_in_every_row():
    entries = CountSketch().draw(5000, 20, np.random.default_rng(3))
    np.testing.assert_array_equal(np.count_nonzero(entries, axis=1), 1)
    np.testing.assert_allclose(np.abs(entries[entries != 0]), np.sqrt(20))
    assert scipy.stats.chisquare(np.count_nonzero(entries, axis=0)).pvalue > 1e-3


# ---- the transform ------------------------------------------------------------------------------


@pytest.mark.parametrize("order", [1, 2, 8, 64, 128, 512])
def test_hadamard_entries_and_transform_are_scipys(order):
    H = scipy.linalg.hadamard(order).astype(float)
    numbers = np.arange(order)
    np.testing.assert_array_equal(hadamard(numbers, numbers), H)
    x = np.random.default_rng(0).integers(-9, 9, (3, order, 2)).astype(float)
    home = ls.as_operator(np.ones((1, 1))).home
    np.testing.assert_array_equal(transformed(x, home), np.einsum("ij,ajb->aib", H, x))
    np.testing.assert_array_equal(transformed(x[:, :, :1], home), np.einsum("ij,ajb->aib", H, x[:, :, :1]))


@pytest.mark.parametrize("rows, columns", [(64, 64), (256, 31), (1, 1)])
def test_columns_of_the_transform_are_exactly_orthogonal(rows, columns):
    entries = draw("srht", rows, columns)
    np.testing.assert_array_equal(np.abs(entries), np.ones((rows, columns)))
    np.testing.assert_array_equal(entries.T @ entries, rows * np.eye(columns))


# ---- theorems -----------------------------------------------------------------------------------


def fourth(x: np.ndarray) -> float:
    return float(np.sum(x**4))


VARIANCES = {
    # Of ‖xΩ‖²/l for ‖x‖ = 1, times l. Gaussian: chi-squared. Very sparse: Li, Hastie and Church 2006, lemma 1.
    "gaussian": lambda x, columns: 2.0,
    "very-sparse": lambda x, columns: 2.0 + (np.sqrt(x.size) - 3) * fourth(x),
    "very-sparse-log": lambda x, columns: 2.0 + (x.size / np.log(x.size) - 3) * fourth(x),
    "very-sparse-3": lambda x, columns: 2.0,
    # Pairs of rows alone meet: Charikar, Chen and Farach-Colton 2004.
    "count-sketch": lambda x, columns: 2 * (1 - fourth(x)),
    "sparse-sign": lambda x, columns: 2 * (1 - fourth(x)),
    "sparse-sign-2": lambda x, columns: 2 * (1 - fourth(x)),
    # The fourth moment of a Rademacher sum, and a sample without replacement.
    "srht": lambda x, columns: 2 * (1 - fourth(x)) * (x.size - columns) / (x.size - 1),
}


@pytest.mark.parametrize("case", ALL)
@pytest.mark.parametrize("decay", [0.0, 0.8])
@pytest.mark.slow(keep=3)
def test_the_length_of_a_vector_has_the_variance_of_its_theorem(case, decay):
    rows, columns, seeds = 256, 24, 1200
    x = np.random.default_rng(0).standard_normal(rows) * np.arange(1, rows + 1) ** -decay
    x /= np.linalg.norm(x)
    lengths = np.array(
        [np.sum((operator(case, rows, columns, s).dense().T @ x[:, None]) ** 2) for s in range(seeds)]
    )
    lengths /= columns
    assert abs(lengths.mean() - 1) < 4.5 * lengths.std() / np.sqrt(seeds)
    variance = VARIANCES[case](x, columns) / columns
    # The error of a sample variance, from the sample's own fourth moment.
    error = np.std((lengths - 1) ** 2) / np.sqrt(seeds)
    assert abs(lengths.var() - variance) < 4.5 * error


@pytest.mark.parametrize("case", ["count-sketch", "gaussian", "sparse-sign", "srht"])
def test_inner_products_of_a_subspace(case):
    """E‖UᵀΩΩᵀU/l − I‖²_F ≤ (k² + k)/l (Nelson and Nguyen 2013; equality for Gaussian entries)."""
    rows, k, columns, seeds = 512, 6, 120, 150
    U = scipy.linalg.qr(np.random.default_rng(0).standard_normal((rows, k)), mode="economic")[0]
    errors = []
    for seed in range(seeds):
        S = operator(case, rows, columns, seed).dense().T @ U / np.sqrt(columns)
        errors.append(np.linalg.norm(S.T @ S - np.eye(k)) ** 2)
    bound, error = (k**2 + k) / columns, np.std(errors) / np.sqrt(seeds)
    assert np.mean(errors) < bound + 4 * error
    if case == "gaussian":
        assert np.mean(errors) > bound - 4 * error


def test_the_transform_embeds_even_the_worst_subspace():
    """Tropp 2011, theorem 3.1: for l ≥ 4(√k + √(8 log(k p)))² log k, singular values within 0.40 and 1.48."""
    rows, k = 1024, 4
    columns = int(np.ceil(4 * (np.sqrt(k) + np.sqrt(8 * np.log(k * rows))) ** 2 * np.log(k)))
    assert columns < rows
    U = np.eye(rows)[:, :k]  # of coordinates: a sample without the signs and the transform would miss it
    for seed in range(20):
        values = np.linalg.svd(
            operator("srht", rows, columns, seed).dense().T @ U, compute_uv=False
        ) / np.sqrt(columns)
        assert values[-1] > 0.40
        assert values[0] < 1.48


@pytest.mark.parametrize("name", ["gaussian", "sparse-sign", "srht", "very-sparse"])
def test_distances_between_points(name):
    """Dasgupta and Gupta 2003: 1 ± ε for all pairs of n points, for l ≥ 4 log(n)/(ε²/2 − ε³/3), with chance 1/n."""
    n, rows, epsilon = 25, 3000, 0.5
    columns = int(np.ceil(4 * np.log(n) / (epsilon**2 / 2 - epsilon**3 / 3)))
    A = np.random.default_rng(0).standard_normal((n, rows))
    pairs = np.triu_indices(n, 1)
    exact = np.sum((A[:, None] - A[None, :]) ** 2, axis=2)[pairs]
    failures = 0
    for seed in range(25):
        P = ls.project(A, columns, name, rng=seed)
        ratios = np.sum((P[:, None] - P[None, :]) ** 2, axis=2)[pairs] / exact
        failures += not np.all(np.abs(ratios - 1) < epsilon)
    assert failures <= 4  # 1 expected at most


# ---- products -----------------------------------------------------------------------------------


# ---- options and use as parts ----------------------------------------------------------------------
