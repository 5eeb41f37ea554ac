"""Stochastic variance reduced gradients against exact answers and against what theory says of their steps."""

from __future__ import annotations

import warnings
from itertools import combinations

import numpy as np
import pytest
import scipy.sparse

import linspec as ls
from linspec.errors import BudgetTooSmall, ConvergenceWarning
from linspec.operators import as_operator
from linspec.sweeps import equal_slices
from linspec_lstsq.step_lengths import choose_batch, row_squares, smoothness
from linspec_lstsq.svrg import curvature


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


def test_a_path_has_each_exact_answer():
    rng = np.random.default_rng(0)
    A, B = with_singular_values(300, 20, np.linspace(5, 1, 20), rng), rng.standard_normal((300, 2))
    ridges = [0.0, 0.3, 40.0, 1e5]
    found = ls.solve(ls.LeastSquares(A, B, ridge=ridges), "svrg", rng=0, tol=1e-11)
    assert found.x.shape == (4, 20, 2)
    for x, ridge in zip(found.x, ridges, strict=True):
        exact = ridge_answer(A, B, ridge)
        assert np.linalg.norm(x - exact) < 1e-8 * np.linalg.norm(exact)


def test_batches_of_a_partition_average_to_the_full_product():
    rng = np.random.default_rng(0)
    A, e = rng.standard_normal((60, 7)), rng.standard_normal((7, 2))
    order, operator = rng.permutation(60), as_operator(A)
    parts = [operator.rows(order[batch]) for batch in equal_slices(60, 13)]
    assert sum(part.shape[0] for part in parts) == 60
    mean = sum(curvature(part, e, 60) * (part.shape[0] / 60) for part in parts)
    np.testing.assert_allclose(mean, A.T @ A @ e, atol=1e-12)


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
    assert f"step={factor:g}" in found.message
    np.testing.assert_allclose(found.x, ridge_answer(A, b[:, None], 0.0)[:, 0], atol=1e-6)
    assert "step=" not in ls.solve(ls.LeastSquares(A, b), "svrg", rng=0).message


def test_rows_of_very_unequal_size():
    rng = np.random.default_rng(0)
    A = rng.standard_normal((2000, 10)) * rng.standard_t(2, (2000, 1))
    A[17] *= 100
    b = A @ rng.standard_normal(10) + rng.standard_normal(2000)
    found = ls.solve(ls.LeastSquares(A, b, ridge=1.0), "svrg", rng=0, max_passes=300)
    assert found.converged


def test_zero_right_hand_sides_stay_zero():
    rng = np.random.default_rng(0)
    A, B = rng.standard_normal((50, 8)), rng.standard_normal((50, 3))
    B[:, 1] = 0
    found = ls.solve(ls.LeastSquares(A, B, ridge=[0.0, 1.0]), "svrg", rng=0)
    assert found.converged
    assert (found.x[:, :, 1] == 0).all()
    none = ls.solve(ls.LeastSquares(A, np.zeros(50)), "svrg")
    assert none.residual == 0
    assert (none.x == 0).all()


def test_a_seed_repeats_everything():
    rng = np.random.default_rng(0)
    A, b = rng.standard_normal((300, 8)), rng.standard_normal(300)
    first, second, other = (ls.solve(ls.LeastSquares(A, b), "svrg", rng=seed, tol=1e-6) for seed in (1, 1, 2))
    assert first.x.tobytes() == second.x.tobytes()
    assert first.x.tobytes() != other.x.tobytes()


def test_sparse_matrices_take_the_steps_of_dense_ones():
    rng = np.random.default_rng(0)
    A = scipy.sparse.random(3000, 40, 0.2, format="csr", random_state=0)
    b = rng.standard_normal(3000)
    sparse, dense = (
        ls.solve(ls.LeastSquares(M, b, ridge=0.5), "svrg", rng=0, batch=50) for M in (A, A.toarray())
    )
    assert sparse.converged
    assert sparse.passes == pytest.approx(dense.passes)
    np.testing.assert_allclose(sparse.x, ridge_answer(A.toarray(), b[:, None], 0.5)[:, 0], atol=1e-7)
    squares = row_squares(as_operator(A), np.zeros((40, 1)))
    np.testing.assert_allclose(squares, np.sum(A.toarray() ** 2, axis=1))


def test_a_step_that_leaves_the_range_of_float32():
    rng = np.random.default_rng(0)
    A = with_singular_values(200, 20, np.linspace(4, 1, 20), rng).astype(np.float32)
    b = rng.standard_normal(200)
    for step in (10.0, 1e3, 1e6, 1e12):
        found = ls.solve(ls.LeastSquares(A, b), "svrg", step=step, rng=0)
        assert found.converged
        assert "step=" in found.message


def test_float32_reaches_its_tolerance_and_keeps_its_dtype():
    rng = np.random.default_rng(0)
    A = rng.standard_normal((5000, 20)).astype(np.float32)
    found = ls.solve(ls.LeastSquares(A, A[:, 0] + 1), "svrg", rng=0)
    assert found.x.dtype == np.float32
    assert found.converged
    exact = ridge_answer(A.astype(float), (A[:, :1] + 1).astype(float), 0.0)[:, 0]
    np.testing.assert_allclose(found.x, exact, atol=1e-4)


def test_an_epoch_costs_its_share_of_passes():
    rng = np.random.default_rng(0)
    A = with_singular_values(400, 10, np.linspace(4, 1, 10), rng)
    found = ls.solve(ls.LeastSquares(A, rng.standard_normal(400)), "svrg", rng=0)
    # AᵀB and the row norms, then half of the rows and a full gradient by epoch, and the certificate.
    assert found.passes == pytest.approx(1 + 1.5 * found.iterations + 2)  # the last two are the certificate's


def test_the_budget_is_kept_and_used():
    rng = np.random.default_rng(0)
    A, b = with_singular_values(400, 30, np.geomspace(1e3, 1, 30), rng), rng.standard_normal(400)
    for budget in (4, 7.5, 12):
        _, found = objectives(A, b, 0.0, max_passes=budget)
        assert found.status is ls.Status.BUDGET
        assert budget - 2 < found.passes <= budget + 1e-9
    with pytest.raises(BudgetTooSmall, match="at least 2 passes"):
        ls.solve(ls.LeastSquares(A, b), "svrg", max_passes=1)


def test_batches_follow_the_data():
    """Alike rows give small batches; one that outweighs all others gives large ones."""
    A = as_operator(np.random.default_rng(0).standard_normal((20_000, 40)))
    small = choose_batch(A, curved=2e4, largest=80.0)
    assert 32 <= small < choose_batch(A, curved=2e4, largest=8e3) <= 20_000 // 16


def test_prepared_states_agree_with_solve():
    rng = np.random.default_rng(0)
    A, B = rng.standard_normal((90, 9)), rng.standard_normal((90, 4))
    exact = ridge_answer(A, B, 0.7)
    problem = ls.LeastSquares(A, B, ridge=0.7)
    solver = ls.get_solver("svrg", problem)()
    run = ls.Run(problem, solver, "svrg", rng=0)
    for matrix in (run.problem.A, run.moments("dense").view(0)):
        state = solver.prepare(matrix, 0.7, run)
        np.testing.assert_allclose(state.solve(run.problem.B, tol=1e-11), exact, atol=1e-9)
        warm = state.solve(run.problem.B, x0=exact + 1e-3, tol=1e-11, AtB=A.T @ B)
        np.testing.assert_allclose(warm, exact, atol=1e-9)


def test_it_serves_alternating_least_squares():
    rng = np.random.default_rng(0)
    shared = rng.standard_normal((400, 2)) * [3, 2]
    X, Y = (shared @ rng.standard_normal((2, 6)) + rng.standard_normal((400, 6)) for _ in range(2))
    expected = ls.solve(ls.CCA(X, Y, 2, ridge=1.0), "direct").correlations
    found = ls.solve(ls.CCA(X, Y, 2, ridge=1.0), "als", lstsq="svrg", form="implicit", rng=0)
    np.testing.assert_allclose(found.correlations, expected, atol=1e-5)


@pytest.mark.parametrize("budget", [6, 9, 14])
def test_a_part_keeps_to_the_budget_of_the_whole(budget):
    rng = np.random.default_rng(0)
    X, Y = rng.standard_normal((200, 6)), rng.standard_normal((200, 5))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        problem = ls.CCA(X, Y, 2, ridge=1.0, center=False)
        found = ls.solve(problem, "als", lstsq="svrg", form="implicit", rng=0, max_passes=budget)
    assert found.passes <= budget + 1e-9
