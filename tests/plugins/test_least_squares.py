"""The least-squares solvers against exact answers, and against what theory says of their steps."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse
import scipy.sparse.linalg

import linspec as ls
from linspec.arrays import to_host
from linspec.operators import CombinedColumns


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


@pytest.mark.parametrize("solver", ["cg", "lsqr", "nystrom-pcg", "svrg"])
@pytest.mark.parametrize("wrap", [np.asarray, scipy.sparse.csr_array])
def test_wide_sparse_rows_with_targets_given_less_a_row(solver, wrap):
    rng = np.random.default_rng(0)
    A = scipy.sparse.random(40, 200, 0.1, format="csr", random_state=rng)
    B = rng.standard_normal((40, 2)) + 5
    targets = CombinedColumns(ls.as_operator(wrap(B)), B.mean(axis=0))
    found = ls.solve(ls.LeastSquares(A, targets, ridge=1.0), solver, rng=0, tol=1e-10)
    dense = A.toarray()
    exact = np.linalg.solve(dense.T @ dense + np.eye(200), dense.T @ (B - B.mean(axis=0)))
    np.testing.assert_allclose(found.x, exact, rtol=1e-7, atol=1e-8)


@pytest.mark.parametrize("settings", ["", "center", "weights", "start"])
def test_cg_takes_few_steps_where_lengths_of_columns_are_all_that_differs(settings):
    """Orthogonal columns, and nearly orthogonal ones, of lengths from 1 to 100: van der Sluis 1969."""
    rng, strict = np.random.default_rng(0), pytest.importorskip("array_api_strict").asarray
    A = np.linalg.qr(rng.standard_normal((300, 40)))[0] * np.geomspace(1, 1e2, 40)
    y, w = A @ rng.standard_normal(40) + rng.standard_normal(300), np.ones(300)
    given = {"center": {"center": True}, "weights": {"sample_weight": rng.random(300) + 0.5}}.get(
        settings, {}
    )
    w = given.get("sample_weight", w)
    X = A - A.mean(axis=0) if settings == "center" else A
    exact = np.linalg.solve(
        (X.T * w) @ X + 1e-3 * np.eye(40), (X.T * w) @ (y - (settings == "center") * y.mean())
    )
    start = rng.standard_normal(40) if settings == "start" else None
    for wrap in (np.asarray, scipy.sparse.csr_array, strict):
        problem = ls.LeastSquares(wrap(A), strict(y) if wrap is strict else y, ridge=1e-3, **given)
        found = ls.solve(problem, "cg", form="implicit", rng=0, start=start, tol=1e-10)
        assert found.converged
        assert found.iterations <= (2 if settings in {"", "start"} else 30)
        np.testing.assert_allclose(to_host(found.x), exact, rtol=1e-6)


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


@pytest.mark.parametrize("solver", ["cg", "nystrom-pcg", "ling", "lsqr"])
def test_a_singular_value_below_rounding_of_squares_is_left_alone(solver):
    rng = np.random.default_rng(5)
    U, V = (np.linalg.qr(rng.standard_normal((size, 20)))[0] for size in (300, 20))
    s = np.geomspace(10, 1, 20)
    s[4] = 1e-8
    B = rng.standard_normal((300, 15))
    solution = ls.solve(ls.LeastSquares((U * s) @ V.T, B), solver, rng=0)
    live = np.arange(20) != 4
    seen = U[:, live] @ (U[:, live].T @ B)  # fitted values without this direction
    assert np.linalg.norm((U * s) @ (V.T @ solution.x) - seen) <= 1e-3 * np.linalg.norm(seen)
    assert solution.status is ls.Status.ILL_CONDITIONED
    assert solution.iterations <= 100


@pytest.mark.parametrize("solver", ["ling", "pcr", "cg", "lsqr"])
def test_a_gram_matrix_of_narrow_products_has_their_rounding(solver):
    rng = np.random.default_rng(0)
    A = with_singular_values(400, 20, np.geomspace(1, 1 / 3e3, 20), rng).astype(np.float32)
    b = A.astype(float) @ np.ones(20)
    found = ls.solve(ls.LeastSquares(scipy.sparse.linalg.aslinearoperator(A), b), solver, rng=0)
    assert found.status is not ls.Status.CONVERGED or np.abs(found.x - 1).max() <= 1e-2
