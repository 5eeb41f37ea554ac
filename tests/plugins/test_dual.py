"""Conjugate gradients on the side of the rows: sparse data with fewer rows than columns."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse

import linspec as ls


def wide(n=60, p=400, seed=0):
    rng = np.random.default_rng(seed)
    A = scipy.sparse.random(n, p, 0.1, random_state=seed, format="csr") * 3
    return A, rng.standard_normal((n, 3))


def ridge_answer(A, B, ridge):
    U, s, Vt = np.linalg.svd(A.toarray(), full_matrices=False)
    return Vt.T @ ((s / (s**2 + ridge))[:, None] * (U.T @ B))


@pytest.mark.parametrize("ridge", [0.01, 1.0, [5.0, 0.05, 300.0]])
def test_the_answer_is_that_of_the_other_side(ridge):
    A, B = wide()
    B[:, 1] = 0
    found = ls.solve(ls.LeastSquares(A, B, ridge=ridge), "cg", form="implicit", tol=1e-11)
    assert found.converged
    ridges = ridge if isinstance(ridge, list) else [ridge]
    for x, r in zip(np.reshape(found.x, (len(ridges), 400, 3)), ridges, strict=True):
        np.testing.assert_allclose(x, ridge_answer(A, B, r), atol=1e-9)
        assert (x[:, 1] == 0).all()


@pytest.mark.parametrize("seed", range(6))
def test_the_answer_is_the_iterate_that_met_the_tolerance(seed):
    """The gradient rises and falls: the next iterate may be ten times as far away."""
    rng = np.random.default_rng(seed)
    columns = np.minimum(rng.zipf(1.3, 4000) - 1, 999)
    columns = np.where(
        rng.random(4000) < 0.5, (columns + rng.integers(0, 10, 200).repeat(20) * 100) % 1000, columns
    )
    A = scipy.sparse.csr_array((np.ones(4000), columns, np.arange(0, 4001, 20)), shape=(200, 1000))
    planted = rng.standard_normal((1000, 1))
    B = A @ planted
    found = ls.solve(ls.LeastSquares(A, B, ridge=1.0), "cg", form="implicit", tol=1e-9)
    assert found.converged
    gap = A.T @ (B - A @ found.x) - found.x
    assert np.linalg.norm(gap) <= 1e-9 * np.linalg.norm(A.T @ B)
    np.testing.assert_allclose(found.x, ridge_answer(A, B, 1.0), atol=1e-6)


def test_centred_data_are_solved_on_the_side_of_the_rows():
    """A mean of B that is not subtracted would take a step of its own, and means of A a pass."""
    A, B = wide()
    found = ls.solve(
        ls.LeastSquares(A, B + 100, ridge=[0.5, 20.0], center=True), "cg", form="implicit", tol=1e-10
    )
    assert found.converged
    centred, targets = scipy.sparse.csr_array(A.toarray() - A.toarray().mean(axis=0)), B - B.mean(axis=0)
    for x, r in zip(found.x, [0.5, 20.0], strict=True):
        np.testing.assert_allclose(x, ridge_answer(centred, targets, r), atol=1e-8)


@pytest.mark.parametrize("columns", [3000, 300])
def test_targets_that_depend_on_each_other_up_to_rounding_cost_no_steps(columns):
    """Eight of rank seven span what seven do, so the block Krylov spaces are the same, on rows and on columns."""
    rng = np.random.default_rng(3)
    A = scipy.sparse.random_array((400, columns), density=0.02, rng=rng, format="csr")
    A = A @ scipy.sparse.diags_array(np.geomspace(5, 1, columns))
    B = (rng.integers(0, 8, 400)[:, None] == np.arange(8)[None, :]) - 1 / 8
    B += 1e-13 * rng.standard_normal(B.shape)
    of_all, of_seven = (
        ls.solve(ls.LeastSquares(A, targets, 0.1), "cg", form="implicit", tol=1e-9)
        for targets in (B, B[:, :7])
    )
    assert of_all.iterations <= of_seven.iterations + 1
    np.testing.assert_allclose(of_all.x, ridge_answer(A, B, 0.1), atol=1e-7)


def test_an_answer_in_doubt_is_finished_on_the_other_side():
    rng = np.random.default_rng(1)
    values = scipy.sparse.diags_array(np.geomspace(1e4, 1, 80))
    A = (values @ scipy.sparse.random(80, 500, 0.2, random_state=1)).tocsr()
    B = rng.standard_normal((80, 2))
    found = ls.solve(ls.LeastSquares(A, B, ridge=1e-3), "cg", form="implicit", tol=1e-11)
    gap = A.T @ (B - A @ found.x) - 1e-3 * found.x
    assert found.converged
    assert np.max(np.linalg.norm(gap, axis=0) / np.linalg.norm(A.T @ B, axis=0)) < 1.1e-11


def test_no_ridge_no_dual():
    """At ridge 0 rows that depend on each other would leave residuals that nothing reduces."""
    A, B = wide(n=20, p=100)
    A = scipy.sparse.vstack([A, A]).tocsr()
    B = np.random.default_rng(2).standard_normal((40, 2))
    found = ls.solve(ls.LeastSquares(A, B), "cg", form="implicit", tol=1e-11)
    np.testing.assert_allclose(found.x, np.linalg.lstsq(A.toarray(), B)[0], atol=1e-9)
