"""`randomized`: two passes, exact where C has low rank, honest where long directions hide short ones."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.linalg
from planted import planted_cca

import linspec as ls
from linspec_sketches.gaussian import Gaussian

RHO = np.array([0.9, 0.7, 0.4, 0.1])


def views(sizes=1.0):
    """Two views whose left singular vectors have inner products RHO; the singular values of X are `sizes`."""
    case = planted_cca(400, 60, 60, RHO, 4, values_x=sizes * np.ones(60), center=False)
    return case.arrays.values()


def as_printed(X, Y, k, columns, powers, ridge, rng):
    """The algorithm of the source, with dense matrices and Cholesky factors."""
    C = X.T @ Y
    Qx, Qy = (Gaussian().draw(A.shape[1], columns, rng) for A in (X, Y))
    for _ in range(powers + 1):
        Qx, Qy = np.linalg.qr(C @ Qy)[0], np.linalg.qr(C.T @ Qx)[0]
    Lx, Ly = (np.linalg.cholesky(Q.T @ (A.T @ (A @ Q)) + ridge * Q.T @ Q) for A, Q in ((X, Qx), (Y, Qy)))
    half = scipy.linalg.solve_triangular(Lx, Qx.T @ C @ Qy, lower=True)
    return np.linalg.svd(scipy.linalg.solve_triangular(Ly, half.T, lower=True))[1][:k]


@pytest.mark.parametrize("powers", [0, 1, 3])
def test_it_is_the_algorithm_of_the_source(powers):
    X, Y = views(np.geomspace(1, 0.1, 60))
    X = X + 0.01 * np.random.default_rng(1).standard_normal(X.shape)
    options = {"oversample": 4, "power_sweeps": powers, "form": "implicit"}
    found = ls.solve(ls.CCA(X, Y, 3, ridge=0.02, center=False), "randomized", rng=5, **options)
    expected = as_printed(X, Y, 3, 7, powers, 0.02, np.random.default_rng(5))
    np.testing.assert_allclose(found.correlations, expected, rtol=1e-10)
    assert found.passes == 2 + powers


@pytest.mark.parametrize(("size", "ridge"), [(1.0, (0.0, 0.0)), (2.0, (0.5, 0.25))])
def test_a_cross_product_of_low_rank_is_found_in_two_sweeps(size, ridge):
    """CΩ spans the range of C. With singular values s, 1 and ridges r, q: ρ s/√(s² + r) 1/√(1 + q)."""
    problem = ls.CCA(*views(size), 4, ridge=ridge, center=False)
    found = ls.solve(problem, "randomized", rng=0, oversample=3, form="implicit")
    exact = RHO * size / np.sqrt(size**2 + ridge[0]) / np.sqrt(1 + ridge[1])
    np.testing.assert_allclose(found.correlations, exact, atol=1e-13)
    assert found.status is ls.Status.CONVERGED
    assert found.passes == 2


def test_more_pairs_than_the_cross_product_has():
    """Pairs without correlation are pairs: the range of C has four directions, the views have sixty."""
    X, Y = views()
    found = ls.solve(ls.CCA(X, Y, 6, center=False), "randomized", rng=0)
    np.testing.assert_allclose(found.correlations, [*RHO, 0, 0], atol=1e-10)
    np.testing.assert_allclose(found.x_weights.T @ (X.T @ X) @ found.x_weights, np.eye(6), atol=1e-12)


def test_short_directions_hide_behind_long_ones_and_the_status_says_so():
    """The range of C is not whitened: a correlation of .9 between directions a thousand times shorter is missed."""
    rng = np.random.default_rng(0)
    X, Y = rng.standard_normal((2, 2000, 80)) * np.repeat([1, 1e-3], [10, 70])
    Y[:, 70] = X[:, 70] * 0.9 + Y[:, 70] * np.sqrt(1 - 0.81)
    problem = ls.CCA(X, Y, 1, center=False)
    exact = ls.solve(problem, "direct").correlations[0]
    assert exact > 0.89
    for powers in (0, 2):
        found = ls.solve(problem, "randomized", rng=0, oversample=8, power_sweeps=powers)
        assert found.correlations[0] < 0.5
        assert (found.status, found.converged) == (ls.Status.APPROXIMATE, False)
        assert "oversample" in found.message
    wide = ls.solve(problem, "randomized", rng=0)
    np.testing.assert_allclose(wide.correlations[0], exact, rtol=1e-9)
    assert wide.status is ls.Status.CONVERGED
