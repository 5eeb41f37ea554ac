"""LSQR against exact answers, SciPy's LSQR, and counts of what it asks of the data."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse
import scipy.sparse.linalg

import linspec as ls
from linspec.workers import BlockOperator


def with_singular_values(n, p, s, rng):
    U = np.linalg.qr(rng.standard_normal((n, len(s))))[0]
    V = np.linalg.qr(rng.standard_normal((p, len(s))))[0]
    return U * s @ V.T


def ridge_answer(A, B, ridge):
    """Through the SVD of A; at ridge 0 the solution of least norm."""
    U, s, Vt = np.linalg.svd(A, full_matrices=False)
    keep = s > 1e-10 * s[0]
    weight = s[keep] / (s[keep] ** 2 + ridge)
    return Vt[keep].T @ (weight[:, None] * (U[:, keep].T @ B))


def iterates_of(problem, **options):
    found = []
    ls.solve(problem, "lsqr", callback=lambda p: found.append(p.current()["x"].copy()), **options)
    return found


@pytest.mark.parametrize("ridge", [0.0, 4.0])
@pytest.mark.parametrize("iterations", [1, 2, 5, 9])
def test_iterates_are_those_of_scipy_column_by_column(ridge, iterations):
    rng = np.random.default_rng(1)
    A, B = with_singular_values(90, 25, np.linspace(3, 1, 25), rng), rng.standard_normal((90, 4))
    found = iterates_of(ls.LeastSquares(A, B, ridge=ridge), tol=1e-14)
    for j in range(4):
        theirs = scipy.sparse.linalg.lsqr(
            A, B[:, j], damp=np.sqrt(ridge), iter_lim=iterations, atol=0, btol=0, conlim=0
        )
        np.testing.assert_allclose(found[iterations][:, j], theirs[0], atol=1e-10)


def test_residuals_decrease_and_the_recurrences_know_the_gradient():
    """Paige & Saunders: ‖b − A x‖ never grows; ‖Aᵀr‖ is read off the bidiagonal matrix."""
    rng = np.random.default_rng(2)
    A, B = with_singular_values(70, 20, np.geomspace(5, 1, 20), rng), rng.standard_normal((70, 2))
    ridge, seen = 0.8, []
    ls.solve(
        ls.LeastSquares(A, B, ridge=ridge),
        "lsqr",
        tol=1e-9,
        callback=lambda p: seen.append((p.residual, p.current()["x"].copy())),
    )
    objectives = [np.sum((A @ x - B) ** 2, axis=0) + ridge * np.sum(x**2, axis=0) for _, x in seen]
    assert all((after <= before * (1 + 1e-12)).all() for before, after in pairwise(objectives))
    scale = np.linalg.norm(A.T @ B, axis=0)
    for residual, x in seen:
        true = np.linalg.norm(A.T @ (B - A @ x) - ridge * x, axis=0) / scale
        assert residual == pytest.approx(true.max(), rel=1e-6, abs=1e-14)


def test_ends_after_as_many_steps_as_there_are_singular_values():
    rng = np.random.default_rng(3)
    A = with_singular_values(120, 60, np.repeat([1.0, 2.0, 5.0, 7.0], 15), rng)
    found = ls.solve(ls.LeastSquares(A, rng.standard_normal((120, 4))), "lsqr", tol=1e-12)
    assert found.iterations <= 5


@pytest.mark.parametrize("ridge", [0.0, 1.0])
def test_exact_solution_breaks_nothing(ridge):
    """b in the span of one left singular vector: β or α is 0 after a step."""
    A = np.vstack([np.diag([3.0, 2.0, 1.0]), np.zeros((2, 3))])
    B = np.array([[3.0, 0, 0, 0, 0], [0, 1.0, 0, 1.0, 0], [0, 0, 0, 0, 1.0]]).T
    found = ls.solve(ls.LeastSquares(A, B, ridge=ridge), "lsqr")
    assert found.converged
    np.testing.assert_allclose(found.x, ridge_answer(A, B, ridge), atol=1e-14)
    assert (found.x[:, 2] == 0).all()


# ---- counts -----------------------------------------------------------------------------------


def test_pairs_of_column_and_ridge_may_be_done_in_any_order():
    """Left singular vectors are done at once, some ridges before others; nothing is mixed up."""
    rng = np.random.default_rng(8)
    A = with_singular_values(50, 9, np.geomspace(4, 1, 9), rng)
    U = np.linalg.svd(A, full_matrices=False)[0]
    B = np.column_stack([rng.standard_normal(50), U[:, 3], U[:, 1] + 1e-7 * U[:, 5], rng.standard_normal(50)])
    ridges = [1e6, 0.0, 30.0, 1e-2]
    found = ls.solve(ls.LeastSquares(A, B, ridge=ridges), "lsqr", tol=1e-10)
    assert found.converged
    for x, r in zip(found.x, ridges, strict=True):
        exact = ridge_answer(A, B, r)
        np.testing.assert_allclose(x, exact, atol=1e-9 * np.abs(exact).max())


# ---- accuracy ---------------------------------------------------------------------------------


def test_more_accurate_than_the_normal_equations():
    """κ = 1e7 and a consistent b: Cholesky of AᵀA (κ² = 1e14) loses x, LSQR finds it."""
    rng = np.random.default_rng(9)
    s = np.repeat(np.geomspace(1, 1e-7, 5), 3)  # five values: few steps, so that rounding is what is seen
    A = with_singular_values(200, 15, s, rng)
    x = rng.standard_normal(15)
    iterates = iterates_of(ls.LeastSquares(A, A @ x), tol=1e-30, max_iterations=60)
    found = min(np.linalg.norm(y[:, 0] - x) for y in iterates) / np.linalg.norm(x)
    squared = np.linalg.norm(np.linalg.solve(A.T @ A, A.T @ (A @ x)) - x) / np.linalg.norm(x)
    assert found < 1e-6
    assert found < squared / 100


def test_float32_residuals_are_true_ones():
    """Recurrences drift in float32; what they seem to meet is looked at before it is believed."""
    rng = np.random.default_rng(10)
    A = with_singular_values(3000, 40, np.geomspace(10, 1, 40), rng).astype(np.float32)
    B = rng.standard_normal((3000, 2)).astype(np.float32)
    found = ls.solve(ls.LeastSquares(A, B, ridge=0.1), "lsqr")
    assert found.converged
    assert found.x.dtype == np.float32
    np.testing.assert_allclose(found.x, ridge_answer(A.astype(float), B.astype(float), 0.1), atol=3e-5)


def test_a_tolerance_below_rounding_ends_with_the_truth():
    rng = np.random.default_rng(11)
    A = rng.standard_normal((300, 10)).astype(np.float32)
    found = ls.solve(ls.LeastSquares(A, A[:, 0] + 1), "lsqr", tol=1e-13)
    assert found.status is ls.Status.CONVERGED
    assert found.residual <= found.tol > 1e-13
    assert found.iterations < 100
    exact = np.linalg.lstsq(A.astype(float), A[:, 0].astype(float) + 1, rcond=None)[0]
    np.testing.assert_allclose(found.x, exact, atol=1e-5)


# ---- as a part of other methods ---------------------------------------------------------------


def saved(M, path):
    np.save(path, M)
    return np.load(path, mmap_mode="r")


PART_KINDS = {
    "array": lambda M, _: M,
    "csr": lambda M, _: scipy.sparse.csr_array(M),
    "mapped": saved,
    "blocks": lambda M, _: BlockOperator([M[:150], M[150:]]),
    "products": lambda M, _: scipy.sparse.linalg.aslinearoperator(M),
}


@pytest.mark.parametrize("ridge", [0.0, 5.0])
@pytest.mark.parametrize("kind", PART_KINDS)
def test_pairs_by_lsqr_are_canonical_and_the_data_stay(kind, ridge, tmp_path):
    """Against the SVD of the whitened cross product; the right-hand side of each half step is overwritten."""
    rng = np.random.default_rng(12)
    Z = rng.standard_normal((400, 2))
    X, Y = (
        (Z @ rng.standard_normal((2, w)) + rng.standard_normal((400, w))) * (rng.random((400, w)) < 0.6)
        for w in (9, 6)
    )
    given = [PART_KINDS[kind](M.copy(), tmp_path / f"{M.shape[1]}.npy") for M in (X, Y)]
    found = ls.solve(
        ls.CCA(*given, 2, ridge=ridge, center=False), "als", lstsq="lsqr", form="implicit", rng=0
    )
    Lx, Ly = (np.linalg.cholesky(M.T @ M + ridge * np.eye(M.shape[1])) for M in (X, Y))
    exact = np.linalg.svd(np.linalg.solve(Ly, np.linalg.solve(Lx, X.T @ Y).T), compute_uv=False)
    np.testing.assert_allclose(found.correlations, exact[:2], atol=1e-6)
    for M, own in zip(given, (X, Y), strict=True):
        if kind != "blocks":
            np.testing.assert_array_equal(M @ np.eye(own.shape[1]), own)


@pytest.mark.parametrize(("kind", "products"), [("array", 1), ("csr", 1), ("products", 2)])
def test_a_step_of_a_part_reads_the_rows_once_where_it_can(kind, products):
    rng = np.random.default_rng(13)
    A = with_singular_values(500, 30, np.geomspace(1, 0.05, 30), rng)
    B = A @ rng.standard_normal((30, 3)) + rng.standard_normal((500, 3))
    problem = ls.ReducedRankRegression(PART_KINDS[kind](A, None), B, 3, center=False)
    found = ls.solve(problem, "two-stage", lstsq="lsqr", tol=1e-10)
    np.testing.assert_allclose(found.predict(A), A @ np.linalg.lstsq(A, B, rcond=None)[0], atol=1e-6)
    assert found.iterations > 5
    assert found.passes <= products * found.iterations + 6
