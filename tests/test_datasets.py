"""Models of regression and pairs of views: what they promise of spectra, risks and correlations, by definition."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from linspec.datasets import (
    RegressionModel,
    flat_spectrum,
    planted_word_views,
    spiked_spectrum,
    steep_spectrum,
)
from linspec.errors import InvalidProblem, NonFiniteData

MODELS = (steep_spectrum, flat_spectrum, spiked_spectrum)
N, P = 90, 60

Make = Callable[..., RegressionModel]

each_model = pytest.mark.parametrize("make", MODELS, ids=lambda make: make.__name__)


@each_model
def test_singular_values_fall_and_alpha_is_beta_along_the_right_singular_vectors(make: Make) -> None:
    model = make(3, n=N, p=P)
    _, d, Vt = np.linalg.svd(model.A, full_matrices=False)
    assert model.A.shape == (N, P)
    assert np.all(np.diff(model.singular_values) <= 0)
    np.testing.assert_allclose(model.singular_values, d, atol=1e-13 * d[0])
    np.testing.assert_allclose(np.abs(Vt @ model.beta), np.abs(model.alpha), atol=1e-8)


def test_spectra_and_coefficients_are_those_of_the_thesis() -> None:
    steep = steep_spectrum(0, n=N, p=P, tail=(2.0, 3.0)).singular_values
    np.testing.assert_allclose(steep[:30], [1.3**i for i in range(40, 10, -1)], rtol=1e-14)
    assert np.all((steep[30:] >= 2.0) & (steep[30:] <= 3.0))
    flat = flat_spectrum(0, n=400, p=300).singular_values
    assert np.all((flat >= 10.0) & (flat <= 20.0))
    # Uniform: the middle of 300 numbers is within four standard errors of the middle of the interval.
    assert abs(np.mean(flat) - 15.0) < 4 * (10 / np.sqrt(12)) / np.sqrt(300)
    model = spiked_spectrum(0)
    spiked = model.singular_values * 20 / np.sqrt(2000)
    assert np.all((spiked[15:] >= 10.0) & (spiked[15:] <= 20.0))
    assert np.all((spiked[:15] >= 10 * spiked[15]) & (spiked[:15] <= 200.0))
    assert model.A.shape == (2000, 1500)
    assert np.flatnonzero(model.beta).tolist() == [*range(15), *range(500, 1500)]
    assert 2.0 < np.abs(model.beta).max() <= 2.5


def test_the_spiked_model_has_orthogonal_columns_in_the_order_of_their_lengths_and_of_either_sign() -> None:
    """QR alone gives the first column of every matrix a first entry of the opposite sign of R's."""
    models = [spiked_spectrum(seed, n=N, p=P) for seed in range(40)]
    d = models[0].singular_values
    np.testing.assert_allclose(models[0].A.T @ models[0].A, np.diag(d**2), atol=1e-13 * d[0] ** 2)
    np.testing.assert_array_equal(models[0].alpha, models[0].beta)
    assert 8 <= sum(model.A[0, 0] > 0 for model in models) <= 32


def test_noise_has_the_promised_deviation() -> None:
    model = flat_spectrum(0, n=4000, p=2, sigma=3.0)
    noise = model.draw(1) - model.A @ model.beta
    assert abs(np.mean(noise)) < 4 * 3 / np.sqrt(4000)
    assert abs(np.var(noise) - 9) < 4 * 9 * np.sqrt(2 / 4000)


@each_model
def test_a_seed_gives_the_same_model_and_a_generator_goes_on(make: Make) -> None:
    first, again, other = make(7, n=N, p=P), make(7, n=N, p=P), make(8, n=N, p=P)
    np.testing.assert_array_equal(first.A, again.A)
    np.testing.assert_array_equal(first.beta, again.beta)
    assert not np.array_equal(first.A, other.A)
    rng = np.random.default_rng(5)
    np.testing.assert_array_equal(first.draw(5), first.draw(rng))
    assert not np.array_equal(first.draw(5), first.draw(rng))


@each_model
def test_risks_are_bias_and_variance_of_predictions(make: Make) -> None:
    model = make(4, n=N, p=P, sigma=1.7)
    U, d, _ = np.linalg.svd(model.A, full_matrices=False)
    for ridge in (0.0, 1.0, 100.0, 1e6):
        H = U * (d**2 / (d**2 + ridge)) @ U.T
        exact = (1.7**2 * np.sum(H * H) + np.sum((H @ model.mean - model.mean) ** 2)) / N
        assert model.ridge_risk(ridge) == pytest.approx(exact, rel=1e-9)
    x = np.random.default_rng(1).standard_normal((P, 3))
    missed = np.mean((model.A @ x - model.mean[:, None]) ** 2, axis=0)
    np.testing.assert_allclose(model.risk(x), missed, rtol=1e-12)
    assert model.risk(x[:, 1]) == pytest.approx(missed[1], rel=1e-12)
    assert model.risk(list(model.beta)) == 0.0
    A, ones = np.array([[2.0, 0.0], [0.0, 0.0]]), np.ones(2)  # a direction that is not there adds no risk
    assert RegressionModel(A, ones, np.array([2.0, 0.0]), ones, 1.0).ridge_risk(0.0) == 0.5


@pytest.mark.parametrize(
    ("make", "options", "message"),
    [
        (steep_spectrum, {"p": 29}, "n ≥ p ≥ 30; got n=40, p=29"),
        (steep_spectrum, {"tail": (5.0, 18.0)}, r"lowest ≤ highest < 17.92; got \(5.0, 18.0\)"),
        (lambda n, p: flat_spectrum(0, n=n, p=p).ridge_risk(-1.0), {}, "at least 0; got -1.0"),
        (lambda n, p: flat_spectrum(0, n=n, p=p).risk(np.zeros(9)), {}, r"\(35,\).*got \(9,\)"),
        (planted_word_views, {"p": 119, "q": 160, "shared": 6}, "20 columns for each topic"),
        (planted_word_views, {"p": 800, "q": 800, "strength": (0.1, 0.3)}, "1 ≥ first ≥ last ≥ 0"),
    ],
)
def test_bad_arguments_are_refused_in_words(make: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises((InvalidProblem, NonFiniteData), match=message):
        make(**({"n": 40, "p": 35} | options))


SMALL = {"n": 3000, "p": 240, "q": 160, "shared": 6, "per_row": 30}


def ridge_correlations(X: Any, Y: Any, ridge: float) -> np.ndarray:
    """Singular values of Sx^(-1/2) C Sy^(-1/2), by Cholesky factors of the dense Gram matrices."""
    X, Y = X.toarray(), Y.toarray()
    Lx, Ly = (np.linalg.cholesky(A.T @ A + ridge * np.eye(A.shape[1])) for A in (X, Y))
    return np.linalg.svd(np.linalg.solve(Lx, np.linalg.solve(Ly, Y.T @ X).T), compute_uv=False)


def test_views_of_words_have_the_shape_and_the_entries_asked_for() -> None:
    views, often = (planted_word_views(0, **SMALL, counts=counts) for counts in (False, True))
    assert (views.X.shape, views.Y.shape, views.topics.shape) == ((3000, 240), (3000, 160), (3000,))
    for view in (views.X, views.Y):
        view.check_format(full_check=True)
        assert view.has_canonical_format
        assert (view.format, view.indices.dtype) == ("csr", np.int32)
        lengths = np.diff(view.indptr)
        assert np.all((lengths > 0) & (lengths <= 30))
        assert np.all(view.data == 1)
    assert set(views.topics) == set(range(6))
    single = planted_word_views(np.random.default_rng(0), **SMALL, dtype=np.float32)  # of the same seed
    assert single.X.dtype == np.float32
    for again in (often, single):
        np.testing.assert_array_equal(views.X.indices, again.X.indices)
    np.testing.assert_array_equal(np.asarray(often.Y.sum(axis=1)).ravel(), 30)
    assert often.X.data.max() > 1


def test_frequencies_fall_like_a_power() -> None:
    """Without topics in them: the expected frequencies are (rank + 50)^-1.1, up to a factor."""
    views = planted_word_views(0, n=40_000, p=2000, q=20, shared=1, per_row=5, strength=(0, 0), counts=True)
    found = np.sort(np.asarray(views.X.sum(axis=0)).ravel())[::-1]
    expected = (np.arange(2000) + 50.0) ** -1.1
    expected *= found.sum() / expected.sum()
    for ranks in (slice(0, 20), slice(20, 200), slice(200, 2000)):
        assert abs(found[ranks].sum() - expected[ranks].sum()) < 5 * np.sqrt(expected[ranks].sum())


def test_as_many_correlations_stand_out_as_there_are_topics() -> None:
    """One of them, uncentred, is that of the means, which permuting the rows of one view leaves."""
    views = planted_word_views(0, **SMALL)
    rho = ridge_correlations(views.X, views.Y, 20.0)
    chance = ridge_correlations(views.X, views.Y[np.random.default_rng(1).permutation(3000)], 20.0)
    assert chance[1] < 0.5 < 0.65 < rho[5]
    assert rho[6] < 0.5 < chance[0]
    assert rho[6] < 1.05 * chance[1]
