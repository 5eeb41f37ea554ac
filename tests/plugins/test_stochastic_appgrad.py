"""Stochastic AppGrad: its first steps by hand, its accounts, what minibatches buy, and that it never diverges."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.linalg
import scipy.sparse

import linspec as ls

NAME = "stochastic-appgrad"


def tall(n=10_000, p=30, q=20, seed=0):
    """Views that share three directions, with columns of sizes from 1 to 1/30."""
    rng = np.random.default_rng(seed)
    shared = rng.standard_normal((n, 3))
    views = []
    for columns in (p, q):
        noise = rng.standard_normal((n, columns)) * np.geomspace(1, 1 / 30, columns)
        views.append(shared @ rng.standard_normal((3, columns)) * 0.5 + noise)
    return views


def words(n=6000, p=400, q=300, seed=0):
    """Sparse counts: a few columns in nearly all rows, and rare ones, which alone depend on the twelve topics."""
    rng = np.random.default_rng(seed)
    topic = rng.integers(0, 12, n)
    views = []
    for columns in (p, q):
        usual = np.geomspace(4, 2e-3, columns)
        rate = usual * (1 + 30 * (usual < 0.05) * (topic[:, None] == np.arange(columns) % 12))
        views.append(scipy.sparse.csr_array(rng.poisson(rate).astype(np.float64)))
    return views


def best_sum(problem):
    """The k largest correlations, added up."""
    return ls.solve(problem, "gram").correlations.sum()


def test_batches_of_all_rows_are_appgrad_by_its_formula():
    """The formulas of the source, in sums over rows divided by n, from the same start."""
    rng = np.random.default_rng(0)
    X, Y = rng.standard_normal((40, 6)), rng.standard_normal((40, 5))
    n, penalty, step, seen = 40, 0.05, 0.3, []
    ls.solve(
        ls.CCA(X, Y, 2, ridge=penalty * n, center=False), NAME, batch=n, step=step, averaging=False, rng=0,
        callback=lambda p: seen.append({k: v.copy() for k, v in p.current().items()}) or p.iteration == 4,
    )  # fmt: skip

    def normalised(V, A):
        metric = A.T @ A / n + penalty * np.eye(A.shape[1])
        return V @ scipy.linalg.inv(scipy.linalg.sqrtm(V.T @ metric @ V))

    # In sums over rows normalised blocks, and with them the auxiliary ones, are shorter by √n.
    tx, ty = (seen[0][f"{view}_weights"] * np.sqrt(n) for view in "xy")
    phi, psi = normalised(tx, X), normalised(ty, Y)
    for found in seen[1:]:
        tx = tx - step * (X.T @ (X @ tx - Y @ psi) / n + penalty * tx)
        phi = normalised(tx, X)
        ty = ty - step * (Y.T @ (Y @ ty - X @ phi) / n + penalty * ty)
        psi = normalised(ty, Y)
        np.testing.assert_allclose(found["x_weights"] * np.sqrt(n), tx, atol=1e-10)
        np.testing.assert_allclose(found["y_weights"] * np.sqrt(n), ty, atol=1e-10)


@pytest.mark.parametrize("center", [False, True])
@pytest.mark.parametrize(("make", "share"), [(tall, 0.97), (words, 0.92)])
@pytest.mark.slow
def test_few_readings_capture_nearly_all(make, share, center):
    problem = ls.CCA(*make(), 3, ridge=20.0, center=center)
    best = best_sum(problem)
    found = [ls.solve(problem, NAME, rng=seed, max_passes=6) for seed in range(3)]
    assert all(s.passes <= 6 for s in found)
    assert all(share * best < s.correlations.sum() <= best * (1 + 1e-9) for s in found)


@pytest.mark.slow
def test_columns_of_very_different_size_get_steps_of_their_own():
    problem = ls.CCA(*words(), 8, ridge=1.0, center=False)
    own, one = (
        ls.solve(problem, NAME, rng=0, max_passes=6, scaling=scaling).correlations.sum()
        for scaling in ("columns", "none")
    )
    best = best_sum(problem)
    assert best - own < 0.5 * (best - one)


@pytest.mark.slow
def test_columns_that_the_first_rows_lack_do_no_harm():
    """Each column is in some five of 8000 rows, so that most are not in the first chunk, which is a sixteenth."""
    rng = np.random.default_rng(0)
    topic = rng.integers(0, 12, 8000)
    views = []
    for columns in (1500, 1200):
        rate = 1e-4 + 6e-3 * (topic[:, None] == np.arange(columns) % 12)
        views.append(scipy.sparse.csr_array((rng.random((8000, columns)) < rate).astype(np.float64)))
    problem = ls.CCA(*views, 8, ridge=1.0, center=False)
    found = [ls.solve(problem, NAME, rng=seed, max_passes=6).correlations.sum() for seed in range(3)]
    # Taking them for columns without rare entries leaves about half.
    assert min(found) > 0.7 * best_sum(problem)


@pytest.mark.parametrize("step", [10.0, 1e200])
@pytest.mark.parametrize("make", [tall, words])
@pytest.mark.slow(keep=1)
def test_a_step_that_is_too_long_is_shortened_and_said(make, step):
    problem = ls.CCA(*make(3000), 3, ridge=5.0, center=False)
    solution = ls.solve(problem, NAME, rng=0, step=step, max_passes=8)
    assert np.isfinite(solution.residual)
    assert "grew with this step=" in solution.message
    assert solution.correlations.sum() > 0.8 * best_sum(problem)


def test_it_ends_by_its_own_rule_without_a_budget():
    solution = ls.solve(ls.CCA(*tall(4000), 3, ridge=5.0), NAME, rng=0, epochs=3)
    assert solution.status is ls.Status.APPROXIMATE
    assert "Raise epochs" in solution.message
    assert solution.passes == pytest.approx(5.0)  # means, three readings, the certificate


@pytest.mark.parametrize("ridge", [4e4, 4e6])
def test_the_loss_of_weak_pairs_is_estimated_where_no_others_are_left_out(ridge):
    """All three pairs, of which none is above 0.02: the residual is small, and a third of their sum is missing."""
    rng = np.random.default_rng(0)
    X, Y = rng.standard_normal((400, 3)), rng.standard_normal((400, 6))
    problem = ls.CCA(X, Y, k=3, ridge=(1e-6, ridge))
    found, exact = ls.solve(problem, NAME, rng=0), ls.solve(problem, "direct")
    short = 1 - found.correlations.sum() / exact.correlations.sum()
    assert found.residual < 0.1 * short
    assert short < found.loss_estimate < 2 * short
