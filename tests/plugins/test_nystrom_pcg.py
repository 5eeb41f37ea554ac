"""The Nyström preconditioner against the theorem of its authors, and the rule that chooses its rank."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse

import linspec as ls
from linspec import datasets
from linspec_lstsq.nystrom_pcg import NystromPreconditioner, NystromSketch, Outlook


def ridge_answer(A, B, ridge):
    U, s, Vt = np.linalg.svd(A, full_matrices=False)
    return Vt.T @ ((s / (s**2 + ridge))[:, None] * (U.T @ B))


def sketched(S, columns, seed, *, scaled=False):
    """A sketch of a Gram matrix S that is known in full."""
    p = len(S)
    Omega = np.random.default_rng(seed).standard_normal((p, columns))
    outlook = Outlook(lambda columns: 5.0 * columns, (p, p), 1, float(np.trace(S)), 10.0, None)  # dear
    return NystromSketch(Omega, S @ Omega, np.diag(S).copy(), outlook, scaled=scaled)


@pytest.mark.parametrize("ridge", [1e-3, 1e-1])
def test_condition_number_of_the_preconditioned_matrix(ridge):
    """Theorem 1.1: with 2⌈1.5 d_eff⌉ + 1 columns its expectation is below 28."""
    rng = np.random.default_rng(0)
    V = np.linalg.qr(rng.standard_normal((200, 200)))[0]
    values = np.geomspace(1e3, 1e-8, 200)
    S = V * values @ V.T
    columns = 2 * int(np.ceil(1.5 * np.sum(values / (values + ridge)))) + 1
    found = []
    for seed in range(10):
        H = NystromPreconditioner.of(sketched(S, columns, seed), ridge)
        half = H.forward(np.eye(200))
        found.append(np.linalg.cond(half.T @ (S + ridge * np.eye(200)) @ half))
    assert np.mean(found) < 28


def test_large_singular_values_no_longer_count():
    model = datasets.steep_spectrum(0, n=400, p=300)
    problem = ls.LeastSquares(model.A, model.draw(np.random.default_rng(1)), ridge=400.0)
    passes = {name: ls.solve(problem, name, rng=0, form="implicit").passes for name in ("cg", "nystrom-pcg")}
    exact = ls.solve(problem, "nystrom-pcg", rng=0, tol=1e-12, form="implicit").x
    np.testing.assert_allclose(exact, ridge_answer(model.A, problem.B.dense(), 400.0)[:, 0], atol=1e-7)
    assert 3 * passes["nystrom-pcg"] < passes["cg"]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("tol", [1e-11, 1e-12, 1e-13])
def test_rounding_in_the_preconditioned_variables_does_not_end_the_iteration_early(seed, tol):
    """The way back to x multiplies it by the root of the largest eigenvalue over the first that is left."""
    model = datasets.steep_spectrum(seed, n=400, p=300)
    problem = ls.LeastSquares(model.A, model.draw(np.random.default_rng(1)), ridge=400.0)
    assert ls.solve(problem, "nystrom-pcg", rng=0, tol=tol, form="implicit").converged


def test_badly_scaled_columns_are_scaled():
    rng = np.random.default_rng(3)
    A = rng.standard_normal((500, 60)) * np.geomspace(1, 1e5, 60)
    B = A @ (rng.standard_normal((60, 2)) / np.geomspace(1, 1e5, 60)[:, None]) + rng.standard_normal((500, 2))
    problem = ls.LeastSquares(A, B, ridge=1e-3)
    found = ls.solve(problem, "nystrom-pcg", rng=0, rank=5, form="implicit", tol=1e-10)
    assert found.converged
    assert found.iterations < 60
    # Columns of very different length: each coefficient is right in its own unit.
    unit = np.geomspace(1, 1e5, 60)[:, None]
    np.testing.assert_allclose(found.x * unit, ridge_answer(A, B, 1e-3) * unit, atol=2e-2)
    unscaled = ls.solve(problem, "cg", form="implicit", tol=1e-10, max_passes=100)
    assert unscaled.residual > found.residual


def test_least_norm_without_a_ridge():
    rng = np.random.default_rng(4)
    A = rng.standard_normal((200, 40)) * np.geomspace(1, 20, 40) @ rng.standard_normal((40, 120))
    B = rng.standard_normal((200, 2))
    found = ls.solve(ls.LeastSquares(A, B), "nystrom-pcg", rng=0, tol=1e-12)
    np.testing.assert_allclose(found.x, np.linalg.lstsq(A, B)[0], atol=1e-9)


@pytest.mark.parametrize("solver", ["nystrom-pcg", "svrg", "ling"])
def test_a_near_copy_among_many_sparse_columns_is_told(solver: str) -> None:
    """The certificate solves for a planted column where the solver has none, and no metric is affordable."""
    rng = np.random.default_rng(3)
    S = scipy.sparse.random(6000, 1699, 8 / 1700, random_state=rng, format="csc")
    S.data += 0.5
    S = S + scipy.sparse.eye_array(6000, 1699, format="csc")
    near = S[:, :1].copy()
    near.data = near.data * (1 + 1e-4 * rng.standard_normal(len(near.data)))
    A = scipy.sparse.csr_array(scipy.sparse.hstack([S, near]))
    x = np.r_[50.0, np.ones(1698), -50.0]
    found = ls.solve(ls.LeastSquares(A, A @ x), solver, rng=0)
    assert np.linalg.norm(np.ravel(found.x) - x) > 0.1 * np.linalg.norm(x)
    assert found.status is ls.Status.ILL_CONDITIONED
