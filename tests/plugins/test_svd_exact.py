"""Truncated SVD by direct, gram and lanczos: small singular values, copies of one value, and their limits."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from planted import factored
from scipy.sparse.linalg import aslinearoperator

import linspec as ls
from linspec import Status

EPS = np.finfo(np.float64).eps
STEEP = np.geomspace(1, 1e-12, 13)


# ---- small singular values ----------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(80, 30), (30, 80)])
@pytest.mark.parametrize("left", [False, True])
@pytest.mark.parametrize("solver", ["direct", "gram"])
def test_values_near_rounding_are_found_with_orthonormal_left_vectors(solver, shape, left):
    """Values go down to 1e-12 σ₁. A Gram matrix shows nothing below 1e-8 σ₁, so gram reduces the rows."""
    A, _, _ = factored(*shape, STEEP)
    found = ls.solve(ls.SVD(A, 13, left=left), solver)
    assert found.status is Status.CONVERGED
    np.testing.assert_allclose(found.S, STEEP, atol=30 * EPS)
    if left:
        np.testing.assert_allclose(found.U.T @ found.U, np.eye(13), atol=30 * EPS)
        np.testing.assert_allclose(A @ found.Vh.T, found.U * found.S, atol=30 * EPS)


def test_gram_returns_what_it_knows_where_it_may_not_look_again():
    A, _, _ = factored(80, 30, STEEP)
    once = ls.solve(ls.SVD(A, 13), "gram", max_passes=1)
    assert once.passes == 1
    hidden = ls.solve(ls.SVD(aslinearoperator(A), 13), "gram")  # products alone: no rows to reduce
    for found in (once, hidden):
        assert found.status is Status.ILL_CONDITIONED
        assert 5 < len(found.S) < 10
        assert "direct" in found.message
        np.testing.assert_allclose(found.S, STEEP[: len(found.S)], atol=1e-8)
        assert found.S[-1] > 1e-8


def test_gram_says_where_digits_are_lost():
    s = np.geomspace(1, 1e-6, 13)
    A, _, _ = factored(80, 30, s)
    assert ls.solve(ls.SVD(A, 5), "gram").status is Status.CONVERGED
    found = ls.solve(ls.SVD(A, 13), "gram")
    assert (found.status, found.converged) == (Status.ILL_CONDITIONED, True)
    assert abs(found.S[-1] / s[-1] - 1) < 1e-3
    # With left vectors the values come from the data, not from their squares.
    np.testing.assert_allclose(ls.solve(ls.SVD(A, 13, left=True), "gram").S, s, atol=20 * EPS)


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array])
def test_left_vectors_of_weighted_rows_are_those_of_rows_times_root_weights(kind):
    rng = np.random.default_rng(0)
    A, w = rng.standard_normal((60, 8)) * np.geomspace(8, 1, 8), rng.integers(0, 4, 60) * 0.5
    U = np.linalg.svd((A - np.average(A, axis=0, weights=w)) * np.sqrt(w)[:, None], full_matrices=False)[0]
    for solver in ("gram", "direct", "block-krylov"):
        found = ls.solve(ls.SVD(kind(A), 3, center=True, sample_weight=w, left=True), solver, rng=0)
        assert np.abs(found.U.T @ found.U - np.eye(3)).max() < 1e-10
        np.testing.assert_allclose(np.abs(np.sum(found.U * U[:, :3], axis=0)), 1, atol=1e-8)


# ---- lanczos ------------------------------------------------------------------------------------

REPEATED = np.r_[np.full(25, 4.0), np.geomspace(1, 0.1, 40)]


@pytest.mark.slow
def test_copies_are_missing_in_silence_at_no_budget():
    """A wrong answer is above the tolerance, or INCOMPLETE, or the message says that nobody looked."""
    A, _, _ = factored(200, 120, REPEATED)
    endings = set()
    for budget in range(60, 132):
        found = ls.solve(ls.SVD(A, 25), "lanczos", rng=0, form="implicit", max_passes=budget)
        assert found.passes <= budget
        assert not found.converged or np.abs(found.S - 4.0).max() <= 1e-6
        endings.add(found.status)
    assert {Status.BUDGET, Status.CONVERGED} <= endings


def test_a_small_basis_gets_there_too():
    s = np.geomspace(5, 0.5, 50)
    found = ls.solve(ls.SVD(factored(120, 60, s)[0], 3), "lanczos", rng=0, basis=6)
    assert found.converged
    np.testing.assert_allclose(found.S, s[:3], rtol=1e-8)
