"""The models of regression of the experiments: spectra as the thesis has them, risks by definition."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

MODELS = runpy.run_path(str(Path(__file__).parents[2] / "docs" / "evidence" / "regression_models.py"))
N, P = 90, 60


def made(name: str, seed: int, n: int = N, p: int = P) -> Any:
    return MODELS["model"](name, np.random.default_rng(seed), n, p)


@pytest.mark.parametrize("name", ["steep", "flat", "spiked"])
def test_risks_are_bias_and_variance_of_predictions(name: str) -> None:
    model = made(name, 4)
    U, d, Vt = np.linalg.svd(model.A, full_matrices=False)
    np.testing.assert_allclose(model.singular_values, d, atol=1e-13 * d[0])
    np.testing.assert_allclose(np.abs(Vt @ model.beta), np.abs(model.alpha), atol=1e-8)
    for ridge in (1.0, 100.0, 1e6):
        H = U * (d**2 / (d**2 + ridge)) @ U.T
        exact = (np.sum(H * H) + np.sum((H @ model.mean - model.mean) ** 2)) / N
        assert model.ridge_risk(ridge) == pytest.approx(exact, rel=1e-9)
    x = np.random.default_rng(1).standard_normal((P, 3))
    missed = np.mean((model.A @ x - model.mean[:, None]) ** 2, axis=0)
    np.testing.assert_allclose(model.risk(x), missed, rtol=1e-12)


def test_spectra_and_coefficients_are_those_of_the_thesis() -> None:
    np.testing.assert_allclose(made("steep", 0).singular_values[:30], [1.3**i for i in range(40, 10, -1)])
    flat = made("flat", 0, 400, 300).singular_values
    assert 10.0 <= flat.min() < flat.max() <= 20.0
    model = made("spiked", 0, 2000, 1500)
    spiked = model.singular_values * 20 / np.sqrt(2000)
    assert 10.0 <= spiked[15:].min() < spiked[15:].max() <= 20.0 < 100.0 <= spiked[:15].min()
    assert np.flatnonzero(model.beta).tolist() == [*range(15), *range(500, 1500)]
    noise = np.random.default_rng(1)
    assert abs(np.var(model.draw(noise) - model.mean) - 1) < 4 * np.sqrt(2 / 2000)
