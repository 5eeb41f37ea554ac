"""Least squares by sketches: `ling` and `pcr`, `nystrom-pcg`, and `sketch-precondition`."""

from __future__ import annotations

import numpy as np
import pytest
from in_blocks import rows_of
from planted import factored

import linspec as ls
from linspec.registry.options import with_parts
from linspec.rows import Moments
from linspec_lstsq.principal_components import OVERSAMPLING, PrincipalComponents

EPS = np.finfo(float).eps


@pytest.mark.parametrize("variant", ["ridge", "simplified", "projection"])
@pytest.mark.parametrize("ridge", [0.5, 100.0])
def test_coefficients_reproduce_the_printed_predictions(variant, ridge):
    """Algorithms 1 and 5 step by step with n x k matrices, their second stage by factorisation."""
    A, _, V = factored(240, 160, np.append(np.full(15, 150.0), np.linspace(15, 8, 145)))
    y = A @ V.sum(axis=1) + np.random.default_rng(1).standard_normal(240)
    # The randomized SVD that the solver makes with seed 0, U formed, is one of a projection of A.
    test_matrix = with_parts(ls.get_solver("ling", ls.LeastSquares(A, y))()).test_matrix
    Omega = test_matrix.draw(160, 20 + OVERSAMPLING, np.random.default_rng(0))
    leading = PrincipalComponents.of(A.T @ (A @ Omega), lambda V: A.T @ (A @ V), 20)
    U, d = A @ leading.Z, leading.d
    np.testing.assert_allclose(U.T @ U, np.eye(20), atol=1e-10)
    np.testing.assert_allclose(A.T @ U, leading.V * d, atol=1e-11 * d[0])
    gamma = U.T @ y
    second = A if variant == "projection" else A - U @ (U.T @ A)
    rest = np.linalg.solve(second.T @ second + ridge * np.eye(160), second.T @ (y - U @ gamma))
    shrink = d**2 / (d**2 + ridge) if variant == "ridge" else 1.0
    expected = U @ (shrink * gamma) + second @ rest
    found = ls.solve(ls.LeastSquares(A, y, ridge=ridge), "ling", rng=0, variant=variant, tol=1e-14)
    assert np.linalg.norm(A @ found.x - expected) < 1e-11 * np.linalg.norm(expected)
    assert found.status is ls.Status.APPROXIMATE
    assert "do not correct errors of their components" in found.message


def test_pcr_regresses_on_the_leading_components_alone():
    s = np.concatenate([[1e6, 7e5, 5e5], np.linspace(3, 1, 27)])
    A, U, V = factored(80, 30, s)
    y = np.random.default_rng(1).standard_normal(80)
    found = ls.solve(ls.LeastSquares(A, y), "pcr", rng=0, rank=3)
    np.testing.assert_allclose(found.x, V[:, :3] @ (U[:, :3].T @ y / s[:3]), atol=1e-13)
    assert "3 principal components" in found.message


def steep(seed):
    rng = np.random.default_rng(seed)
    values = np.append(1.3 ** np.arange(40.0, 10.0, -1.0), np.sort(rng.uniform(0.5, 13.8, 270))[::-1])
    A, _, V = factored(400, 300, values)
    return ls.LeastSquares(A, A @ V @ rng.uniform(-2.5, 2.5, 300) + rng.standard_normal(400), ridge=400.0)


def test_large_singular_values_no_longer_count():
    passes = {name: ls.solve(steep(0), name, rng=0, form="implicit").passes for name in ("cg", "nystrom-pcg")}
    assert 3 * passes["nystrom-pcg"] < passes["cg"]


@pytest.mark.parametrize("tol", [1e-11, 1e-12, 1e-13])
def test_rounding_in_the_preconditioned_variables_does_not_end_the_iteration_early(tol):
    """The way back to x multiplies it by the root of the largest eigenvalue over the first that is left."""
    for seed in range(3):
        assert ls.solve(steep(seed), "nystrom-pcg", rng=0, tol=tol, form="implicit").converged


@pytest.mark.parametrize("share", [1e-20, 1e-17, 1e-14])
@pytest.mark.parametrize("columns", [1, 2])
def test_ridges_near_rounding_beside_dependent_columns(share, columns):
    """The preconditioner stays positive definite, and a ridge that rounding hides leads to the least norm."""
    A = factored(100, 60, np.append(np.linspace(9, 5, 5), np.zeros(55)))[0]
    B = np.random.default_rng(1).standard_normal((100, columns))
    for form in ("implicit", "dense"):
        found = ls.solve(ls.LeastSquares(A, B, ridge=81 * share), "nystrom-pcg", rng=0, form=form)
        assert found.converged
        assert found.iterations <= 6
        exact = np.linalg.lstsq(A, B, rcond=1e-10)[0]
        np.testing.assert_allclose(found.x, exact, atol=0.1 * np.abs(exact).max())


def test_columns_of_different_length_are_scaled_for_the_preconditioner():
    rng, unit = np.random.default_rng(3), np.geomspace(1, 1e5, 60)[:, None]
    A = rng.standard_normal((500, 60)) * unit.T
    B = A @ (rng.standard_normal((60, 2)) / unit) + rng.standard_normal((500, 2))
    problem = ls.LeastSquares(A, B, ridge=1e-3)
    found = ls.solve(problem, "nystrom-pcg", rng=0, rank=5, form="implicit", tol=1e-10)
    assert found.converged
    assert found.iterations < 60
    assert found.residual < ls.solve(problem, "cg", form="implicit", tol=1e-10, max_passes=100).residual
    # Each coefficient is right in its own unit.
    np.testing.assert_allclose(found.x * unit, ls.solve(problem, "direct").x * unit, atol=2e-2)


@pytest.mark.parametrize("kind", ["dense", "spiky"])
def test_the_sketch_is_a_subspace_embedding(kind):
    """The singular values of S Q lie within 1 ± √(p/d) or a little more, as those of a Gaussian S would."""
    n, p = 9000, 40
    Q = factored(n, p, np.ones(p))[1]
    if kind == "spiky":  # the weight of a column is in one row, the worst for a plain count sketch
        Q = np.zeros((n, p))
        Q[np.random.default_rng(0).choice(n, p, replace=False), np.arange(p)] = 1.0
    for size in (4 * p, 16 * p):
        (SQ,) = Moments([rows_of(ls.as_operator(Q))], sketch_rows=size, seed=1).sketch()
        s = np.linalg.svd(SQ, compute_uv=False)
        distortion = 1.2 * np.sqrt(p / size)
        assert 1 - distortion < s[-1] <= s[0] < 1 + distortion


def backward_error(A, b, x):
    """An estimate, within √2, of the least relative change of A after which x is a solution (Karlson & Waldén)."""
    _, s, Vt = np.linalg.svd(A, full_matrices=False)
    r = b - A @ x
    mu = np.linalg.norm(r) / np.linalg.norm(x)
    return np.linalg.norm(Vt @ (A.T @ r) / np.sqrt(s**2 + mu**2)) / (np.linalg.norm(x) * s[0])


@pytest.mark.parametrize("condition", [1e2, 1e8, 1e12])
@pytest.mark.parametrize("misfit", [1e-12, 1e-3, 1.0])
def test_as_accurate_as_householder_qr(condition, misfit):
    """Forward error, gradient and backward error beside those of LAPACK's SVD, of ten right-hand sides."""
    rng = np.random.default_rng(2)
    n, p, m = 2000, 40, 10
    A, U, _ = factored(n, p, np.geomspace(1, 1 / condition, p))
    X, R = rng.standard_normal((p, m)), rng.standard_normal((n, m))
    X /= np.linalg.norm(X, axis=0)
    for _ in range(2):
        R -= U @ (U.T @ R)
    B = A @ X + R * (misfit / np.linalg.norm(R, axis=0))
    theirs = np.linalg.lstsq(A, B, rcond=None)[0]
    found = ls.solve(ls.LeastSquares(A, B), "sketch-precondition", rng=3)
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
    A, _, _ = factored(2000, 40, np.geomspace(1, 1e-12, 40))
    b = A @ rng.standard_normal(40) + 1e-9 * rng.standard_normal(2000)
    once, again = (
        backward_error(
            A, b, ls.solve(ls.LeastSquares(A, b), "sketch-precondition", rng=4, refinements=times).x
        )
        for times in (0, 1)
    )
    assert again < 10 * EPS
    assert once > 100 * again


def test_iterations_do_not_depend_on_the_condition():
    """The error shrinks an iteration by about √(p/d) = 1/2: 27 for eight digits, whatever A is like."""
    B = np.random.default_rng(4).standard_normal((3000, 1))

    def count(condition, **options):
        problem = ls.LeastSquares(factored(3000, 50, np.geomspace(1, 1 / condition, 50))[0], B)
        return ls.solve(problem, "sketch-precondition", rng=5, refinements=0, **options).iterations

    most = max(count(condition) for condition in (1.0, 1e3, 1e6))
    assert most <= 32
    assert count(1e6, oversampling=16.0) < 0.7 * most


def test_badly_scaled_columns():
    """Lengths differ by more than 1/eps, so that the rank is unknown without scaling."""
    rng = np.random.default_rng(5)
    scale = np.geomspace(1, 1e18, 20)
    A, x = rng.standard_normal((600, 20)) * scale, rng.standard_normal(20) / scale
    found = ls.solve(ls.LeastSquares(A, A @ x), "sketch-precondition", rng=6)
    np.testing.assert_allclose(found.x, x, rtol=1e-10)
    assert found.status is ls.Status.CONVERGED


def test_a_run_that_is_cut_before_its_steps_are_rounding_says_so():
    rng = np.random.default_rng(0)
    problem = ls.LeastSquares(rng.standard_normal((400, 20)), rng.standard_normal(400))
    met = ls.solve(problem, "sketch-precondition", refinements=0, tol=1e-5, rng=0)
    cut = ls.solve(problem, "sketch-precondition", tol=1e-5, rng=0, max_passes=met.passes + 1)
    assert cut.residual <= met.residual
    assert "before its steps were rounding" in cut.message
