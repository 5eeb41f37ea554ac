"""Stochastic variance reduced gradients against exact answers and against what theory says of their steps."""

from __future__ import annotations

import warnings
from itertools import combinations

import numpy as np
import pytest
import scipy.sparse

import linspec as ls
from linspec.errors import ConvergenceWarning
from linspec.iteration import Context
from linspec.rows import Passes
from linspec.solving.on_rows import moments_of
from linspec_lstsq.svrg import choose_batch, smoothness


def with_singular_values(n, p, s, rng):
    """A matrix with given singular values."""
    U = np.linalg.qr(rng.standard_normal((n, len(s))))[0]
    V = np.linalg.qr(rng.standard_normal((p, len(s))))[0]
    return U * s @ V.T


def ridge_answer(A, B, ridge):
    """Through the SVD of A; at ridge 0 the solution of least norm."""
    U, s, Vt = np.linalg.svd(A, full_matrices=False)
    keep = s > 1e-10 * s[0]
    weight = s[keep] / (s[keep] ** 2 + ridge)
    return Vt[keep].T @ (weight[:, None] * (U[:, keep].T @ B))


def objectives(A, b, ridge, **options):
    """Half the objective at every snapshot, and the solution; no ending warns."""
    seen = []

    def watch(progress):
        x = progress.current()["x"][:, 0]
        seen.append((np.sum((A @ x - b) ** 2) + ridge * np.sum(x**2)) / 2)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        found = ls.solve(ls.LeastSquares(A, b, ridge=ridge), "svrg", rng=0, callback=watch, **options)
    return np.array(seen), found


@pytest.mark.parametrize("snapshot", ["best", "last"])
@pytest.mark.parametrize("ridge", [0.0, 2.5])
@pytest.mark.parametrize(("n", "p", "rank"), [(400, 12, 12), (12, 80, 12), (40, 40, 25), (300, 12, 5)])
@pytest.mark.slow(keep=5)
def test_exact(snapshot, ridge, n, p, rank):
    """Also the least norm: nothing leaves the row space."""
    rng = np.random.default_rng(0)
    A = with_singular_values(n, p, np.linspace(3, 1, rank), rng)
    B = rng.standard_normal((n, 3))
    found = ls.solve(ls.LeastSquares(A, B, ridge=ridge), "svrg", rng=0, snapshot=snapshot, tol=1e-10)
    assert found.converged
    exact = ridge_answer(A, B, ridge)
    assert np.linalg.norm(found.x - exact) < 1e-8 * np.linalg.norm(exact)


@pytest.mark.parametrize("batch", [1, 2, 3, 6])
def test_smoothness_bounds_the_mean_square_over_all_batches(batch):
    """L_b AᵀA − E[H_S²] has no negative eigenvalue, over every subset of `batch` rows."""
    rng = np.random.default_rng(1)
    A = rng.standard_normal((6, 4)) * np.array([1, 1, 1, 2, 3, 0.1])[:, None]
    H = A.T @ A
    samples = [6 / batch * A[list(S)].T @ A[list(S)] for S in combinations(range(6), batch)]
    np.testing.assert_allclose(np.mean(samples, axis=0), H)
    square = np.mean([M @ M for M in samples], axis=0)
    bound = smoothness(np.linalg.eigvalsh(H)[-1], np.max(np.sum(A**2, axis=1)), 6, batch)
    assert np.linalg.eigvalsh(bound * H - square)[0] > -1e-10 * bound
    if batch == 6:  # all rows: the constant of gradient descent
        assert bound == pytest.approx(np.linalg.eigvalsh(H)[-1])


def test_batches_of_all_rows_are_gradient_descent():
    rng = np.random.default_rng(0)
    A, b = rng.standard_normal((30, 5)), rng.standard_normal(30)
    step, seen = 0.5 / np.linalg.norm(A, 2) ** 2, []
    ls.solve(
        ls.LeastSquares(A, b, ridge=0.4),
        "svrg",
        batch=30,
        step=step,
        snapshot="last",
        rng=0,
        callback=lambda p: seen.append(p.current()["x"][:, 0]) or p.iteration == 3,
    )
    x = np.zeros(5)
    for found in seen:
        np.testing.assert_allclose(found, x, atol=1e-13)
        x = x + step * (A.T @ (b - A @ x) - 0.4 * x)


def test_tall_data_take_fewer_passes_than_gradient_descent():
    """The purpose of stochastic gradients: many similar rows, where a few determine nearly all."""
    rng = np.random.default_rng(0)
    A = rng.standard_normal((20_000, 20)) * np.geomspace(30, 1, 20)
    b = A @ rng.standard_normal(20) + rng.standard_normal(20_000)
    problem = ls.LeastSquares(A, b)
    stochastic = ls.solve(problem, "svrg", rng=0, tol=1e-7)
    full = ls.solve(problem, "gd", form="implicit", tol=1e-7, max_passes=400)
    assert stochastic.converged
    assert 5 * stochastic.passes < full.passes


@pytest.mark.parametrize("seed", range(3))
def test_the_best_snapshot_never_raises_the_objective(seed):
    rng = np.random.default_rng(seed)
    A = with_singular_values(300, 40, np.geomspace(100, 1, 40), rng)
    b = rng.standard_normal(300)
    seen, _ = objectives(A, b, 0.1, max_iterations=30)
    assert (np.diff(seen) <= 1e-13 * seen[0]).all()
    exact = ridge_answer(A, b[:, None], 0.1)[:, 0]
    least = (np.sum((A @ exact - b) ** 2) + 0.1 * np.sum(exact**2)) / 2
    assert (seen >= least * (1 - 1e-13)).all()


@pytest.mark.parametrize("snapshot", ["best", "last"])
@pytest.mark.parametrize("factor", [5.0, 1e3, 1e200])
def test_a_step_that_diverges_is_caught_and_said(snapshot, factor):
    rng = np.random.default_rng(0)
    A, b = with_singular_values(200, 20, np.linspace(4, 1, 20), rng), rng.standard_normal(200)
    seen, found = objectives(A, b, 0.0, step=factor, snapshot=snapshot)
    assert (np.diff(seen) <= 1e-13 * seen[0]).all()
    assert found.converged
    assert "grew with this step=" in found.message
    np.testing.assert_allclose(found.x, ridge_answer(A, b[:, None], 0.0)[:, 0], atol=1e-6)
    assert "step=" not in ls.solve(ls.LeastSquares(A, b), "svrg", rng=0).message


def test_rows_of_very_unequal_size():
    rng = np.random.default_rng(0)
    A = rng.standard_normal((2000, 10)) * rng.standard_t(2, (2000, 1))
    A[17] *= 100
    b = A @ rng.standard_normal(10) + rng.standard_normal(2000)
    found = ls.solve(ls.LeastSquares(A, b, ridge=1.0), "svrg", rng=0, max_passes=300)
    assert found.converged


def test_a_step_that_leaves_the_range_of_float32():
    rng = np.random.default_rng(0)
    A = with_singular_values(200, 20, np.linspace(4, 1, 20), rng).astype(np.float32)
    b = rng.standard_normal(200)
    for step in (10.0, 1e3, 1e6, 1e12):
        found = ls.solve(ls.LeastSquares(A, b), "svrg", step=step, rng=0)
        assert found.converged
        assert "step=" in found.message


def test_batches_follow_the_data():
    """Alike rows give small batches; one that outweighs all others gives large ones."""
    small = choose_batch(20_000, 40, 40, curved=2e4, largest=80.0)
    assert 32 <= small < choose_batch(20_000, 40, 40, curved=2e4, largest=8e3) <= 20_000 // 16


@pytest.mark.parametrize("kind", [np.asarray, scipy.sparse.csr_array])
def test_preprocessed_rows(kind):
    """Weights, means, confounds and scales of minibatches are those of all rows."""
    rng = np.random.default_rng(0)
    A = rng.standard_normal((600, 8)) * (rng.random((600, 8)) < 0.4)
    b, w, Z = (
        rng.standard_normal((600, 2)),
        rng.integers(0, 3, 600).astype(float),
        rng.standard_normal((600, 2)),
    )
    options = {"ridge": [0.5, 2.0], "center": True, "scale": True, "sample_weight": w, "confounds": Z}
    problem = ls.LeastSquares(kind(A), b, **options)
    exact = ls.solve(problem, "cg", tol=1e-13).x
    np.testing.assert_allclose(
        ls.solve(problem, "svrg", rng=0, tol=1e-11).x, exact, atol=1e-9 * np.abs(exact).max()
    )


def test_a_start_is_gone_on_from():
    rng = np.random.default_rng(0)
    A, b = with_singular_values(300, 12, np.linspace(3, 1, 12), rng), rng.standard_normal(300)
    first = ls.solve(ls.LeastSquares(A, b), "svrg", rng=0)
    assert next(iter(steps_of(A, b, {"x": first.x[:, None]}))).residual <= 1e-8


def steps_of(A, b, start):
    problem = ls.LeastSquares(A, b)
    passes = Passes()
    context = Context(1e-8, np.random.default_rng(0), passes)
    return ls.get_solver("svrg", problem)().iterate(problem, moments_of(problem, passes), context, start)
