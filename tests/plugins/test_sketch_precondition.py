"""Sketch, precondition, iterate, refine: against numpy.linalg.lstsq, exact answers and the theory of sketches."""

from __future__ import annotations

import numpy as np
import pytest
from backends import CountingOperator
from in_blocks import rows_of

import linspec as ls
from linspec.rows import Moments

NAME = "sketch-precondition"
EPS = np.finfo(float).eps


def orthonormal(n, k, rng):
    return np.linalg.qr(rng.standard_normal((n, k)))[0]


def with_singular_values(n, p, s, rng):
    return orthonormal(n, len(s), rng) * s @ orthonormal(p, len(s), rng).T


def ridge_answer(A, B, ridge):
    """Through the SVD of A; at ridge 0 the solution of least norm."""
    U, s, Vt = np.linalg.svd(A, full_matrices=False)
    keep = s > 1e-10 * s[0]
    weight = s[keep] / (s[keep] ** 2 + ridge)
    return Vt[keep].T @ (weight[:, None] * (U[:, keep].T @ B))


# ---- the sketch -------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["dense", "spiky"])
def test_the_sketch_is_a_subspace_embedding(kind):
    """The singular values of S Q lie within 1 ± √(p/d) or a little more, as those of a Gaussian S would.

    Spiky: all the weight of some columns is in single rows, where a plain count sketch is at its worst.
    """
    rng = np.random.default_rng(0)
    n, p = 9000, 40
    Q = orthonormal(n, p, rng)
    if kind == "spiky":
        Q = np.zeros((n, p))
        Q[rng.choice(n, p, replace=False), np.arange(p)] = 1.0
    for size in (4 * p, 16 * p):
        (SQ,) = Moments([rows_of(ls.as_operator(Q))], sketch_rows=size, seed=1).sketch()
        s = np.linalg.svd(SQ, compute_uv=False)
        distortion = 1.2 * np.sqrt(p / size)
        assert s[0] < 1 + distortion
        assert s[-1] > 1 - distortion


# ---- answers ----------------------------------------------------------------------------------


@pytest.mark.parametrize("rank", [15, 9])
def test_a_path_is_as_exact_as_separate_answers_from_one_sketch(rank):
    rng = np.random.default_rng(1)
    A, B = with_singular_values(2000, 15, np.geomspace(1e3, 1e-3, rank), rng), rng.standard_normal((2000, 2))
    ridges = [1e6, 0.0, 1e-4, 10.0]
    operator = CountingOperator(A, sliceable=True, readable=True)
    found = ls.solve(ls.LeastSquares(operator, B, ridge=ridges), NAME, rng=2)
    assert found.converged
    assert found.passes < 90  # one sketch, all ridges in one block
    for x, r in zip(found.x, ridges, strict=True):
        exact = ridge_answer(A, B, r)
        np.testing.assert_allclose(x, exact, atol=1e-7 * np.linalg.norm(exact))
    assert (found.status is ls.Status.RANK_DEFICIENT) == (rank < 15)


def backward_error(A, b, x):
    """An estimate, within √2, of the least relative change of A after which x is a solution (Karlson & Waldén)."""
    _, s, Vt = np.linalg.svd(A, full_matrices=False)
    r = b - A @ x
    mu = np.linalg.norm(r) / np.linalg.norm(x)
    return np.linalg.norm(Vt @ (A.T @ r) / np.sqrt(s**2 + mu**2)) / (np.linalg.norm(x) * s[0])


@pytest.mark.parametrize("condition", [1e2, 1e8, 1e10, 1e12])
@pytest.mark.parametrize("misfit", [1e-12, 1e-3, 1.0])
def test_as_accurate_as_householder_qr(condition, misfit):
    """Forward error, gradient and backward error beside those of LAPACK's SVD, on a rotated A.

    What rounding makes of one gradient spreads over two orders of magnitude, by LAPACK too: ten are compared.
    """
    rng = np.random.default_rng(2)
    n, p, m = 2000, 40, 10
    U = orthonormal(n, p, rng)
    A = U * np.geomspace(1, 1 / condition, p) @ orthonormal(p, p, rng).T
    X, R = rng.standard_normal((p, m)), rng.standard_normal((n, m))
    X /= np.linalg.norm(X, axis=0)
    for _ in range(2):
        R -= U @ (U.T @ R)
    B = A @ X + R * (misfit / np.linalg.norm(R, axis=0))
    theirs = np.linalg.lstsq(A, B, rcond=None)[0]
    found = ls.solve(ls.LeastSquares(A, B), NAME, rng=3)
    assert found.converged
    wedin = EPS * (condition + condition**2 * misfit)
    error, their_error = (np.linalg.norm(Y - X, axis=0).max() for Y in (found.x, theirs))
    assert error < max(10 * their_error, wedin)
    assert max(backward_error(A, b, x) for b, x in zip(B.T, found.x.T, strict=True)) < 30 * EPS
    residuals = [B - A @ Y for Y in (found.x, theirs)]
    gradients = [np.linalg.norm(A.T @ r / np.linalg.norm(r, axis=0)) for r in residuals]
    assert gradients[0] < max(20 * gradients[1], 10 * EPS * np.sqrt(m))


def test_the_refinement_is_what_makes_it_so():
    """κ = 1e12: stopped at the tolerance, x is orders of magnitude away from what the data determine."""
    rng = np.random.default_rng(3)
    n, p = 2000, 40
    A = with_singular_values(n, p, np.geomspace(1, 1e-12, p), rng)
    b = A @ rng.standard_normal(p) + 1e-9 * rng.standard_normal(n)
    errors = [
        backward_error(A, b, ls.solve(ls.LeastSquares(A, b), NAME, rng=4, refinements=times).x)
        for times in (0, 1)
    ]
    assert errors[1] < 10 * EPS
    assert errors[0] > 100 * errors[1]


def test_iterations_do_not_depend_on_the_condition():
    """The error shrinks an iteration by about √(p/d) = 1/2: 27 for eight digits, whatever A is like."""
    rng = np.random.default_rng(4)
    B = rng.standard_normal((3000, 1))
    counts = [
        ls.solve(
            ls.LeastSquares(with_singular_values(3000, 50, np.geomspace(1, 1 / k, 50), rng), B),
            NAME,
            rng=5,
            refinements=0,
        ).iterations
        for k in (1.0, 1e3, 1e6)
    ]
    assert max(counts) <= 32
    fewer = ls.solve(
        ls.LeastSquares(with_singular_values(3000, 50, np.geomspace(1, 1e-6, 50), rng), B),
        NAME,
        rng=5,
        refinements=0,
        oversampling=16.0,
    )
    assert fewer.iterations < 0.7 * max(counts)


def test_badly_scaled_columns():
    """Lengths differ by more than 1/eps, so that the rank is unknown without scaling."""
    rng = np.random.default_rng(5)
    scale = np.geomspace(1, 1e18, 20)
    A, x = rng.standard_normal((600, 20)) * scale, rng.standard_normal(20) / scale
    found = ls.solve(ls.LeastSquares(A, A @ x), NAME, rng=6)
    np.testing.assert_allclose(found.x, x, rtol=1e-10)
    assert found.status is ls.Status.CONVERGED


def test_a_tolerance_below_rounding_ends_with_the_truth():
    rng = np.random.default_rng(10)
    A = rng.standard_normal((3000, 10)).astype(np.float32)
    found = ls.solve(ls.LeastSquares(A, A[:, 0] + 1), NAME, rng=10, tol=1e-13)
    assert found.status is ls.Status.CONVERGED
    assert found.residual <= found.tol > 1e-13
    assert found.residual < 1e-5
    assert found.iterations < 60


def test_a_run_that_is_cut_before_its_steps_are_rounding_says_so():
    rng = np.random.default_rng(0)
    problem = ls.LeastSquares(rng.standard_normal((400, 20)), rng.standard_normal(400))
    met = ls.solve(problem, NAME, refinements=0, tol=1e-5, rng=0)
    cut = ls.solve(problem, NAME, tol=1e-5, rng=0, max_passes=met.passes + 1)
    assert cut.residual <= met.residual
    assert "before its steps were rounding" in cut.message
