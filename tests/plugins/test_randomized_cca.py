"""`randomized`: two passes, exact where C has low rank, honest where long directions hide short ones."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.linalg

import linspec as ls
from linspec_sketches.gaussian import Gaussian

RHO = np.array([0.9, 0.7, 0.4, 0.1])


def views(n=400, p=60, sizes=1.0, seed=0):
    """Two views whose left singular vectors have inner products RHO; the singular values of X are `sizes`."""
    rng = np.random.default_rng(seed)
    Q = np.linalg.qr(rng.standard_normal((n, 2 * p)))[0]
    U, V = Q[:, :p], Q[:, p:].copy()
    V[:, :4] = U[:, :4] * RHO + V[:, :4] * np.sqrt(1 - RHO**2)
    left, right = (np.linalg.qr(rng.standard_normal((p, p)))[0] for _ in range(2))
    return (U * sizes) @ left, V @ right


def as_printed(X, Y, k, columns, powers, ridge, rng):
    """The algorithm of the source, with dense matrices and Cholesky factors."""
    C = X.T @ Y
    draw = Gaussian().draw
    Qx, Qy = (draw(A.shape[1], columns, rng) for A in (X, Y))
    for _ in range(powers + 1):
        Qx, Qy = np.linalg.qr(C @ Qy)[0], np.linalg.qr(C.T @ Qx)[0]
    Lx, Ly = (np.linalg.cholesky(Q.T @ (A.T @ (A @ Q)) + ridge * Q.T @ Q) for A, Q in ((X, Qx), (Y, Qy)))
    half = scipy.linalg.solve_triangular(Lx, Qx.T @ C @ Qy, lower=True)
    return np.linalg.svd(scipy.linalg.solve_triangular(Ly, half.T, lower=True))[1][:k]


@pytest.mark.parametrize("powers", [0, 1, 3])
def test_it_is_the_algorithm_of_the_source(powers):
    X, Y = views(sizes=np.geomspace(1, 0.1, 60))
    X = X + 0.01 * np.random.default_rng(1).standard_normal(X.shape)
    found = ls.solve(
        ls.CCA(X, Y, 3, ridge=0.02, center=False),
        "randomized",
        rng=5,
        oversample=4,
        power_sweeps=powers,
        form="implicit",
    )
    expected = as_printed(X, Y, 3, 7, powers, 0.02, np.random.default_rng(5))
    np.testing.assert_allclose(found.correlations, expected, rtol=1e-10)
    assert found.passes == 2 + powers


def test_a_cross_product_of_low_rank_is_found_in_two_sweeps():
    """CΩ spans the range of C, and for views with orthonormal columns that is where the weights are."""
    X, Y = views()
    found = ls.solve(ls.CCA(X, Y, 4, center=False), "randomized", rng=0, oversample=3, form="implicit")
    np.testing.assert_allclose(found.correlations, RHO, atol=1e-13)
    assert found.status is ls.Status.CONVERGED
    assert found.passes == 2


def test_ridge_enters_the_last_sweep():
    """With singular values s, 1 and ridges r, q: ρ s/√(s² + r) 1/√(1 + q)."""
    X, Y = views(sizes=2.0)
    found = ls.solve(ls.CCA(X, Y, 4, ridge=(0.5, 0.25), center=False), "randomized", rng=0, oversample=3)
    np.testing.assert_allclose(found.correlations, RHO * 2 / np.sqrt(4.5) / np.sqrt(1.25), atol=1e-13)


def test_more_pairs_than_the_cross_product_has():
    """Pairs without correlation are pairs: the range of C has four directions, the views have sixty."""
    X, Y = views()
    found = ls.solve(ls.CCA(X, Y, 6, center=False), "randomized", rng=0)
    np.testing.assert_allclose(found.correlations, [*RHO, 0, 0], atol=1e-10)
    np.testing.assert_allclose(found.x_weights.T @ (X.T @ X) @ found.x_weights, np.eye(6), atol=1e-12)


def test_short_directions_hide_behind_long_ones_and_the_status_says_so():
    """The range of C is not whitened: a correlation of .9 between directions a thousand times shorter is missed."""
    rng = np.random.default_rng(0)
    n, p = 2000, 80
    X, Y = rng.standard_normal((2, n, p))
    X[:, 10:] *= 1e-3
    Y[:, 10:] *= 1e-3
    Y[:, 70] = X[:, 70] * 0.9 + Y[:, 70] * np.sqrt(1 - 0.81)
    problem = ls.CCA(X, Y, 1, center=False)
    exact = ls.solve(problem, "direct").correlations[0]
    for powers in (0, 2):
        found = ls.solve(problem, "randomized", rng=0, oversample=8, power_sweeps=powers)
        assert exact > 0.89
        assert found.correlations[0] < 0.5
        assert found.status is ls.Status.APPROXIMATE
        assert not found.converged
        assert "oversample" in found.message
    wide = ls.solve(problem, "randomized", rng=0)
    np.testing.assert_allclose(wide.correlations[0], exact, rtol=1e-9)
    assert wide.status is ls.Status.CONVERGED


def test_power_sweeps_find_long_shared_directions():
    """Where the signal is the leading part of C, each power pass squares away more of the noise."""
    rng = np.random.default_rng(3)
    n, p = 1000, 300
    shared = rng.standard_normal((n, 3))
    X, Y = (shared @ rng.standard_normal((3, p)) / 10 + rng.standard_normal((n, p)) for _ in range(2))
    problem = ls.CCA(X, Y, 3, ridge=20 * n, center=False)
    exact = ls.solve(problem, "direct").correlations.sum()
    loss = [
        1 - ls.solve(problem, "randomized", rng=0, oversample=2, power_sweeps=q).correlations.sum() / exact
        for q in (0, 1, 2)
    ]
    assert loss[0] > 2 * loss[1] > 6 * loss[2] > 0
