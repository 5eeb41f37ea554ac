"""The least-squares solvers against exact answers, and against what theory says of their steps."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse
from linspec.registry.parts import with_parts

import linspec as ls

SOLVERS = ("direct", "cg", "gd")


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


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("ridge", [0.0, 2.5])
@pytest.mark.parametrize(("n", "p", "rank"), [(80, 12, 12), (12, 80, 12), (40, 40, 25), (80, 12, 5)])
def test_exact(solver, ridge, n, p, rank):
    rng = np.random.default_rng(0)
    A = with_singular_values(n, p, np.linspace(3, 1, rank), rng)
    B = rng.standard_normal((n, 3))
    found = ls.solve(
        ls.LeastSquares(A, B, ridge=ridge), solver, **({} if solver == "direct" else {"tol": 1e-12})
    )
    np.testing.assert_allclose(found.x, ridge_answer(A, B, ridge), atol=1e-10)
    assert found.converged
    deficient = ridge == 0 and rank < min(n, p) and solver == "direct"
    assert (found.status is ls.Status.RANK_DEFICIENT) == deficient


@pytest.mark.parametrize("solver", SOLVERS)
def test_sparse_vector_and_integers(solver):
    rng = np.random.default_rng(0)
    A = scipy.sparse.random(
        200, 30, 0.2, format="csc", random_state=0, data_rvs=lambda m: rng.integers(1, 9, m)
    )
    b = rng.integers(-5, 6, 200)
    found = ls.solve(ls.LeastSquares(A.astype(np.int64), b, ridge=1.0), solver)
    assert found.x.shape == (30,)
    dense = A.toarray().astype(float)
    np.testing.assert_allclose(found.x, ridge_answer(dense, b[:, None].astype(float), 1.0)[:, 0], atol=1e-6)


@pytest.mark.parametrize("solver", ["cg", "lsqr", "nystrom-pcg", "svrg"])
@pytest.mark.parametrize("wrap", [np.asarray, scipy.sparse.csr_array])
def test_wide_sparse_rows_with_targets_given_less_a_row(solver, wrap):
    rng = np.random.default_rng(0)
    A = scipy.sparse.random(40, 200, 0.1, format="csr", random_state=rng)
    B = rng.standard_normal((40, 2)) + 5
    targets = ls.as_operator(wrap(B)).centered(B.mean(axis=0))
    found = ls.solve(ls.LeastSquares(A, targets, ridge=1.0), solver, rng=0, tol=1e-10)
    dense = A.toarray()
    exact = np.linalg.solve(dense.T @ dense + np.eye(200), dense.T @ (B - B.mean(axis=0)))
    np.testing.assert_allclose(found.x, exact, rtol=1e-7, atol=1e-8)


@pytest.mark.parametrize("solver", SOLVERS)
def test_zero_right_hand_sides_stay_zero(solver):
    rng = np.random.default_rng(0)
    A, B = rng.standard_normal((50, 8)), rng.standard_normal((50, 3))
    B[:, 1] = 0
    found = ls.solve(ls.LeastSquares(A, B), solver)
    assert (found.x[:, 1] == 0).all()
    assert found.converged
    assert ls.solve(ls.LeastSquares(A, np.zeros(50)), solver).residual == 0


def test_cg_ends_after_as_many_steps_as_there_are_singular_values():
    """Hestenes & Stiefel: with m distinct eigenvalues the exact answer comes at step m."""
    rng = np.random.default_rng(0)
    A = with_singular_values(120, 60, np.repeat([1.0, 2.0, 5.0, 7.0], 15), rng)
    found = ls.solve(ls.LeastSquares(A, rng.standard_normal((120, 4))), "cg", tol=1e-12)
    assert found.iterations <= 5


@pytest.mark.parametrize("ridge", [0.0, 3.0])
def test_gd_contracts_as_kantorovich_says(ridge):
    """The gap of the objective shrinks a step by at least ((d₁² − d_p²)/(d₁² + d_p² + 2r))²."""
    rng = np.random.default_rng(0)
    s = np.linspace(4, 1, 10)
    A, b = with_singular_values(60, 10, s, rng), rng.standard_normal(60)
    best = ridge_answer(A, b[:, None], ridge)[:, 0]

    def objective(x):
        return np.sum((A @ x - b) ** 2) + ridge * np.sum(x**2)

    gaps = []
    ls.solve(
        ls.LeastSquares(A, b, ridge=ridge),
        "gd",
        tol=1e-7,
        callback=lambda p: gaps.append(objective(p.current()["x"][:, 0]) - objective(best)),
    )
    factor = ((s[0] ** 2 - s[-1] ** 2) / (s[0] ** 2 + s[-1] ** 2 + 2 * ridge)) ** 2
    for before, after in pairwise(gaps):
        assert after <= factor * before + 1e-12 * gaps[0]


def test_direct_escalates_where_squaring_would_cost_too_much():
    """κ = 1e7: the normal equations would lose 14 digits, orthogonal transformations 7."""
    rng = np.random.default_rng(0)
    A = with_singular_values(200, 20, np.geomspace(1, 1e-7, 20), rng)
    x = rng.standard_normal(20)
    found = ls.solve(ls.LeastSquares(A, A @ x), "direct")
    assert np.linalg.norm(found.x - x) < 1e-7 * np.linalg.norm(x)
    assert found.passes == 2


def test_badly_scaled_columns_are_no_reason_to_escalate():
    rng = np.random.default_rng(0)
    A = rng.standard_normal((200, 20)) * np.geomspace(1, 1e12, 20)
    x = rng.standard_normal(20) / np.geomspace(1, 1e12, 20)
    found = ls.solve(ls.LeastSquares(A, A @ x), "direct")
    np.testing.assert_allclose(found.x, x, rtol=1e-10)
    assert found.passes == 1


@pytest.mark.parametrize("solver", SOLVERS)
def test_float32_reaches_its_tolerance_and_keeps_its_dtype(solver):
    rng = np.random.default_rng(0)
    A = rng.standard_normal((5000, 20)).astype(np.float32)
    found = ls.solve(ls.LeastSquares(A, A[:, 0] + 1), solver)
    assert found.x.dtype == np.float32
    assert found.converged
    assert "float32" in found.message


PREPARED = [
    name for name in ls.solvers("least-squares") if hasattr(ls.get_solver(name, "least-squares"), "prepare")
]


@pytest.mark.parametrize("form", ["operator", "dense", "implicit"])
@pytest.mark.parametrize("solver", PREPARED)
def test_prepared_states_agree_with_solve(solver, form):
    """The part that outer methods call: one matrix made ready, many right-hand sides, from a start or none."""
    rng = np.random.default_rng(0)
    A, B = rng.standard_normal((240, 40)), rng.standard_normal((240, 4))
    problem = ls.LeastSquares(A, B, ridge=0.7)
    instance = with_parts(ls.get_solver(solver, problem)())
    run = ls.Run(problem, instance, solver, rng=0)
    matrix = run.problem.A if form == "operator" else ls.Moments(run.problem.A, form=form)
    state = instance.prepare(matrix, 0.7, run)
    exact = ridge_answer(A, B, 0.7)
    np.testing.assert_allclose(state.solve(run.problem.B, tol=1e-11), exact, atol=1e-8)
    start = exact + 1e-3
    for known in ({}, {"AtB": A.T @ B}, {"AtB": A.T @ B, "AtAx0": A.T @ (A @ start)}):
        found = state.solve(run.problem.B, x0=start, tol=1e-11, **known)
        np.testing.assert_allclose(found, exact, atol=1e-8)
    other = rng.standard_normal((240, 2))
    found = state.solve(ls.as_operator(other), tol=1e-11)
    np.testing.assert_allclose(found, ridge_answer(A, other, 0.7), atol=1e-8)
