"""`lobpcg`: planted pairs found from float32 data, among equal ones, from a start that lacks one, and when stopped."""

from __future__ import annotations

import numpy as np
import pytest
from planted import planted_cca

import linspec as ls
from linspec.metrics import subspace_distance

RHO = (0.95, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2)
TIED = (0.9, 0.8, 0.8, 0.8, 0.8, 0.3, 0.2)
GEOMETRIC = {"values_x": np.geomspace(3, 1, 80), "values_y": np.geomspace(1, 3, 60)}
NARROW = {"oversample": 4}
"""Few enough columns that the subspaces stay far smaller than the views, and are folded often."""


def planted(rho=RHO, **options):
    """300 x 80 and 300 x 60."""
    return planted_cca(300, 80, 60, rho, 4, **(GEOMETRIC | options)).arrays.values()


@pytest.mark.parametrize("oversample", [15, 56])
def test_what_a_whole_subspace_leaves_of_a_block_is_rounding(oversample):
    """With float32 data it is long, and is not reported as columns that depend on others."""
    problem = ls.CCA(*(A.astype(np.float32) for A in planted()), 4)
    found = ls.solve(problem, "lobpcg", rng=0, form="implicit", oversample=oversample)
    assert found.status is ls.Status.CONVERGED
    np.testing.assert_allclose(found.correlations, RHO[:4], atol=1e-5)


@pytest.mark.parametrize("form", ["implicit", "dense"])
@pytest.mark.parametrize("lacking", [0, 2])
def test_a_start_that_lacks_a_pair_finds_it(form, lacking):
    """All pairs of the start are exact, so its residual is zero."""
    X, Y = planted()
    exact = ls.solve(ls.CCA(X, Y, 9), "direct")
    some = [i for i in range(5) if i != lacking]
    start = {"x_weights": exact.x_weights[:, some], "y_weights": exact.y_weights[:, some]}
    for seed in range(3):
        found = ls.solve(ls.CCA(X, Y, 4), "lobpcg", rng=seed, form=form, start=start)
        assert found.converged
        np.testing.assert_allclose(found.correlations, RHO[:4], atol=1e-5)


@pytest.mark.parametrize("k", [2, 5])
@pytest.mark.parametrize("oversample", [0, 2, 15])
@pytest.mark.slow(keep=3)
def test_all_copies_of_a_correlation_are_found(k, oversample):
    """Four equal ones; with k = 2 there is no gap behind the last, with k = 5 there is one."""
    X, Y = planted(TIED)
    exact = ls.solve(ls.CCA(X, Y, k), "direct")
    for seed in range(3):
        options = {"rng": seed, "form": "implicit", "oversample": oversample, "tol": 1e-10}
        found = ls.solve(ls.CCA(X, Y, k), "lobpcg", **options)
        np.testing.assert_allclose(found.correlations, TIED[:k], atol=1e-7)
        for A, name in ((X, "x_weights"), (Y, "y_weights")) if k == 5 else ():
            S = np.cov(A.T)
            assert subspace_distance(getattr(found, name), getattr(exact, name), metric=S) < 1e-3


def test_stopped_early_it_is_honest():
    """Correlations below the exact ones, each within its bound of one of them, a residual near the loss."""
    X, Y = planted(ridge=1.0)
    exact = ls.solve(ls.CCA(X, Y, 60, ridge=1.0), "gram").correlations
    for stop in (1, 2, 3, 5, 8):
        options = {"form": "implicit", "max_iterations": stop, "tol": 1e-14, **NARROW}
        with pytest.warns(ls.errors.ConvergenceWarning):
            found = ls.solve(ls.CCA(X, Y, 4, ridge=1.0), "lobpcg", rng=0, **options)
        assert found.status is ls.Status.ITERATION_LIMIT
        assert (found.correlations <= exact[:4] + 1e-12).all()
        apart = np.abs(found.correlations[:, None] - exact).min(axis=1)
        assert (apart <= found.bounds + 1e-12).all()
        loss = 1 - found.correlations.sum() / exact[:4].sum()
        assert loss <= 10 * found.residual + 1e-13
