"""KNOI: features drawn anew, the exact CCA of them in the limit of full batches, and its memory."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from planted import related
from truths import kernel_matrix

import linspec as ls
from linspec.errors import InvalidOption, MissingCapability
from linspec_kernel import KernelCCA
from linspec_kernel.knoi import SeededFourierMap

RBF = ls.kernels.rbf(2.0)


def views(n=200, seed=0):
    return related(n, 6, 5, seed)


@pytest.mark.parametrize("kernel", [RBF, ls.kernels.laplacian(4.0)], ids=["rbf", "laplacian"])
def test_inner_products_of_the_features_are_the_kernel(kernel):
    X = views(30)[0]
    F = SeededFourierMap(kernel, 6, 100_000, seed=3)(X).dense()
    np.testing.assert_allclose(F @ F.T, kernel_matrix(kernel, X), atol=0.02)  # five standard deviations


def test_features_are_the_same_however_they_are_read(monkeypatch):
    X = views(40)[0]
    features = SeededFourierMap(RBF, 6, 50, seed=3)
    whole = features(X).dense()
    np.testing.assert_array_equal(features(X).rows(slice(7, 9)).dense(), whole[7:9])
    np.testing.assert_array_equal(SeededFourierMap(RBF, 6, 50, seed=3)(X).dense(), whole)
    assert np.abs(SeededFourierMap(RBF, 6, 50, seed=4)(X).dense() - whole).max() > 0.1
    from linspec_kernel import knoi

    monkeypatch.setattr(knoi, "SLICE", 60)  # ten columns at a time
    parts = SeededFourierMap(RBF, 6, 55, seed=3)
    W, b = (np.hstack(arrays) for arrays in zip(*((part.W, part.b) for part in parts.parts()), strict=True))
    assert W.shape == (6, 55)
    assert len(np.unique(W)) == W.size  # no column comes twice
    np.testing.assert_allclose(parts(X).dense(), np.sqrt(2 / 55) * np.cos(X @ W + b), atol=1e-14)


@pytest.mark.parametrize(
    ("options", "center"),
    [({}, True), ({}, False), ({"memory": 0.5}, True), ({"momentum": 0.0}, True)],
    ids=str,
)
@pytest.mark.slow(keep=1)
def test_with_batches_of_all_rows_it_tends_to_the_exact_cca_of_its_features(options, center):
    X, Y = views()
    problem = KernelCCA(X, Y, 2, RBF, ridge=1.0, center=center)
    found = ls.solve(problem, "knoi", rng=0, features=40, batch=200, epochs=400, **options)
    features = found.x_map.map(X), found.y_map.map(Y)
    exact = ls.solve(ls.CCA(*features, 2, ridge=1.0, center=center), "direct")
    np.testing.assert_allclose(found.correlations, exact.correlations, rtol=0, atol=1e-3)
    assert np.all(found.correlations <= exact.correlations + 1e-12)


def test_minibatches_come_near_the_exact_cca_of_the_features():
    X, Y = views(2000)
    problem = KernelCCA(X, Y, 2, RBF, ridge=2.0)
    found = ls.solve(problem, "knoi", rng=0, features=100)
    exact = ls.solve(ls.CCA(found.x_map.map(X), found.y_map.map(Y), 2, ridge=2.0), "direct")
    assert 0.97 * exact.correlations.sum() < found.correlations.sum() <= exact.correlations.sum() + 1e-12


def test_rows_are_read_once_an_epoch():
    found = ls.solve(KernelCCA(*views(), 2, RBF, ridge=1.0), "knoi", rng=0, features=40, batch=32, epochs=3)
    np.testing.assert_allclose(np.diff(found.history["passes"]), 1.0)
    assert found.history["passes"][0] == pytest.approx(2.0, abs=0.2)  # the rows, their means, the first batch
    assert len(found.history["passes"]) == 4


def test_neither_frequencies_nor_features_are_held():
    X, Y = np.random.default_rng(0).standard_normal((2, 60, 400))
    problem = KernelCCA(X, Y, 1, ls.kernels.rbf(20.0), ridge=1.0)
    count = 8000  # the frequencies of a view would be 26 megabytes
    tracemalloc.start()
    try:
        ls.solve(problem, "knoi", rng=0, features=count, batch=20, epochs=1)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 16e6


def test_it_says_that_it_has_no_residual_and_why_steps_were_too_long():
    problem = KernelCCA(*views(), 2, RBF, ridge=1.0)
    found = ls.solve(problem, "knoi", rng=0, features=40)
    assert found.status is ls.Status.APPROXIMATE
    assert found.residual_kind == "unavailable"
    assert np.isnan(found.residual)
    with pytest.warns(ls.errors.ConvergenceWarning):
        wild = ls.solve(problem, "knoi", rng=0, features=40, step=1e30, epochs=50, batch=20)
    assert wild.status is ls.Status.BREAKDOWN
    assert np.isfinite(wild.x_weights).all()


def test_what_cannot_be_solved_is_said():
    X, Y = views(60)
    with pytest.raises(InvalidOption, match="features must be at least k = 5"):
        ls.solve(KernelCCA(X, Y, 5, RBF, ridge=1.0), "knoi", features=4)
    with pytest.raises(MissingCapability, match="kernels of differences"):
        ls.solve(KernelCCA(X, Y, 2, "polynomial", ridge=1.0), "knoi")
