"""KNOI: features drawn anew, the exact CCA of them in the limit of full batches, and its memory."""

from __future__ import annotations

import numpy as np
import pytest
from planted import related
from truths import kernel_matrix

import linspec as ls
from linspec.errors import MissingCapability
from linspec_kernel.knoi import SeededFourierMap
from linspec_kernel.problem import KernelCCA

RBF = ls.kernels.rbf(2.0)


def views(n=200, seed=0):
    return related(n, 6, 5, seed)


@pytest.mark.parametrize("kernel", [RBF, ls.kernels.laplacian(4.0)], ids=["rbf", "laplacian"])
def test_inner_products_of_the_features_are_the_kernel(kernel):
    X = views(30)[0]
    F = SeededFourierMap(kernel, 6, 100_000, seed=3)(X).dense()
    np.testing.assert_allclose(F @ F.T, kernel_matrix(kernel, X), atol=0.02)  # five standard deviations


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
    found = ls.solve(KernelCCA(X, Y, 5, RBF, ridge=1.0), "knoi", rng=0, features=4)
    assert len(found.correlations) == 4
    assert found.status is ls.Status.RANK_DEFICIENT
    with pytest.raises(MissingCapability, match="kernels of differences"):
        ls.solve(KernelCCA(X, Y, 2, "polynomial", ridge=1.0), "knoi")
