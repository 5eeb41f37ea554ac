"""Sparse AppGrad: planted supports, the fixed point by its own conditions, and what is said of the answer."""

from __future__ import annotations

import numpy as np
import pytest

import linspec as ls
from linspec.metrics import auc, f1

NAME = "sparse-appgrad"
SIZE = 5


def planted(seed, n=400, p=120, q=100, rho=(0.9, 0.75)):
    """Rows of a normal law whose canonical weights have five entries each; columns are correlated with neighbours."""
    rng = np.random.default_rng(seed)
    S = [0.3 ** np.abs(np.subtract.outer(np.arange(m), np.arange(m))) for m in (p, q)]
    weights = []
    for metric in S:
        W = np.zeros((len(metric), len(rho)))
        for j in range(len(rho)):
            chosen = 3 * SIZE * j + 3 * np.arange(SIZE)
            W[chosen, j] = rng.choice([-1, 1], SIZE) * rng.uniform(0.7, 1.3, SIZE)
        weights.append(W / np.sqrt(np.einsum("ij,ij->j", W, metric @ W)))
    X = rng.standard_normal((n, p)) @ np.linalg.cholesky(S[0]).T
    B = S[1] @ weights[1] * np.array(rho)
    noise = rng.standard_normal((n, q)) @ np.linalg.cholesky(S[1] - B @ B.T).T
    return X, X @ weights[0] @ B.T + noise, [W != 0 for W in weights]


def scores(W, supports):
    """The mean AUC and F1, of the column that finds each support best."""
    found = [max((auc(w, support), f1(w, support, 0.0)) for w in W.T) for support in supports.T]
    return np.mean(found, axis=0)


@pytest.mark.parametrize("options", [{}, {"x_nonzeros": SIZE, "y_nonzeros": SIZE}])
@pytest.mark.slow(keep=1)
def test_planted_supports_are_found(options):
    X, Y, supports = planted(0)
    problem = ls.CCA(X, Y, 2, ridge=1.0)
    sparse, full = ls.solve(problem, NAME, rng=0, **options), ls.solve(problem, "appgrad", rng=0)
    for view, support in zip(("x_weights", "y_weights"), supports, strict=True):
        found, without = (scores(getattr(s, view), support) for s in (sparse, full))
        assert (found > 0.95).all()
        assert found[0] >= without[0]
        assert found[1] > 2 * without[1]
    assert sparse.status is ls.Status.APPROXIMATE
    # Among many columns the free ones fit chance; few are nearer to the correlations of the law.
    assert abs(sparse.correlations.sum() - 1.65) < abs(full.correlations.sum() - 1.65)


def test_single_weights_obey_the_conditions_of_the_penalty():
    """A column's correlation with what is left of the other variate is τ where it has weight, at most τ elsewhere."""
    X, Y, _ = planted(0)
    X, Y = X - X.mean(axis=0), Y - Y.mean(axis=0)
    tau = 0.2
    s = ls.solve(ls.CCA(X, Y, 1, center=False), NAME, rng=0, x_threshold=tau, y_threshold=tau)
    for A, B, w, v in ((X, Y, s.x_weights, s.y_weights), (Y, X, s.y_weights, s.x_weights)):
        target = (B @ v / np.linalg.norm(B @ v))[:, 0]
        unit = np.linalg.norm(A, axis=0)
        # The block is the minimiser up to its length, which the returned weights have lost: take the best one.
        live = w[:, 0] != 0
        fitted = A @ w[:, 0]
        shape = A[:, live].T @ fitted / unit[live]
        signs = np.sign(w[live, 0])
        lengths = (A[:, live].T @ target / unit[live] - tau * signs) / shape
        assert np.ptp(lengths) < 1e-3 * lengths.mean()
        left = A.T @ (target - lengths.mean() * fitted) / unit
        np.testing.assert_allclose(left[live], tau * signs, atol=1e-3)
        assert (np.abs(left[~live]) <= tau + 1e-3).all()
        assert 0 < live.sum() < len(live)


@pytest.mark.parametrize("count", [1, 8, 1000])
def test_so_many_entries_as_asked_and_correlations_of_the_pairs_as_they_stand(count):
    X, Y, _ = planted(0)
    s = ls.solve(ls.CCA(X, Y, 2, ridge=3.0), NAME, rng=0, x_nonzeros=count, y_nonzeros=7)
    entries = np.count_nonzero(s.x_weights, axis=0)
    assert ((entries >= 1) & (entries <= count)).all()
    assert (np.count_nonzero(s.y_weights, axis=0) <= 7).all()
    P, Q = (X - X.mean(axis=0)) @ s.x_weights, (Y - Y.mean(axis=0)) @ s.y_weights
    for scores_, W in ((P, s.x_weights), (Q, s.y_weights)):
        np.testing.assert_allclose(np.sum(scores_**2, axis=0) + 3.0 * np.sum(W**2, axis=0), 1, rtol=1e-12)
    np.testing.assert_allclose(s.correlations, np.sum(P * Q, axis=0), atol=1e-12)


def test_whole_rows_are_zero_and_pairs_canonical():
    X, Y, supports = planted(0)
    s = ls.solve(ls.CCA(X, Y, 2), NAME, rng=0, penalty="rows", x_nonzeros=2 * SIZE, y_nonzeros=2 * SIZE)
    for W, support in zip((s.x_weights, s.y_weights), supports, strict=True):
        rows = np.any(W != 0, axis=1)
        assert rows.sum() <= 2 * SIZE
        assert (np.count_nonzero(W, axis=0) == rows.sum()).all()
        assert (rows & support.any(axis=1)).sum() >= 0.8 * 2 * SIZE
    X, Y = X - X.mean(axis=0), Y - Y.mean(axis=0)
    np.testing.assert_allclose(s.x_weights.T @ X.T @ X @ s.x_weights, np.eye(2), atol=1e-10)
    np.testing.assert_allclose(s.x_weights.T @ X.T @ Y @ s.y_weights, np.diag(s.correlations), atol=1e-10)


def test_without_a_threshold_it_is_cca():
    X, Y, _ = planted(0, p=35, q=30)
    problem = ls.CCA(X, Y, 2, ridge=1.0)
    s = ls.solve(problem, NAME, rng=0, x_threshold=0.0, y_threshold=0.0, max_iterations=5000)
    np.testing.assert_allclose(s.correlations, ls.solve(problem, "gram").correlations, atol=1e-4)


@pytest.mark.parametrize(
    ("penalty", "stop"), [("entries", 5), ("rows", 15)]
)  # before and after thresholds apply
def test_a_run_that_is_gone_on_from_finds_the_same_zeros(tmp_path, penalty, stop):
    X, Y, _ = planted(0)
    problem, options = ls.CCA(X, Y, 2, ridge=1.0), {"penalty": penalty, "rng": 0}
    whole = ls.solve(problem, NAME, **options)
    path = tmp_path / "run.ckpt"
    ls.solve(problem, NAME, callback=lambda step: step.iteration >= stop, checkpoint=path, **options)
    again = ls.solve(problem, NAME, start=path, penalty=penalty)
    assert again.iterations < whole.iterations
    assert np.array_equal(again.x_weights != 0, whole.x_weights != 0)
    np.testing.assert_allclose(again.correlations, whole.correlations, atol=1e-5)
