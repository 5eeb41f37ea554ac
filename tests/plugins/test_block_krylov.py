"""Block Krylov iteration against exact values, its theory, and the library's other methods."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse

import linspec as ls


def with_singular_values(n, p, s, seed=0):
    rng = np.random.default_rng(seed)
    U = np.linalg.qr(rng.standard_normal((n, len(s))))[0]
    V = np.linalg.qr(rng.standard_normal((p, len(s))))[0]
    return U * s @ V.T


def exact(A, k):
    return np.linalg.svd(A, compute_uv=False)[:k]


def test_invariant_spaces_end_the_iteration():
    A = with_singular_values(200, 80, np.array([5.0, 4.0, 4.0, 4.0, 1.0]))
    for k, status in ((5, ls.Status.CONVERGED), (7, ls.Status.RANK_DEFICIENT)):
        found = ls.solve(ls.SVD(A, k), "block-krylov", rng=0, form="implicit")
        np.testing.assert_allclose(found.S, [5, 4, 4, 4, 1], rtol=1e-12)
        assert found.status is status
        assert found.iterations <= 3
    found = ls.solve(ls.SVD(A, 7), "block-krylov", rng=0, form="implicit", block=3)
    assert found.status is ls.Status.RANK_DEFICIENT
    assert found.iterations <= 6


def test_small_blocks_find_repeated_values_too():
    """A block narrower than the multiplicity: rounding is what brings the rest in, and restarts keep it."""
    A = with_singular_values(200, 80, np.concatenate([[3.0] * 3, np.linspace(1, 0.1, 50)]))
    found = ls.solve(ls.SVD(A, 3), "block-krylov", rng=0, block=3, form="implicit", tol=1e-9)
    np.testing.assert_allclose(found.S, 3.0, rtol=1e-12)


REPEATED = {
    "few distinct values": (np.repeat([3.0, 2.0, 1.0], 20), 50),
    "the largest, many times": (np.r_[np.full(30, 5.0), np.linspace(4, 0.1, 100)], 40),
    "one below the largest": (np.r_[9.0, 8.0, 7.0, np.full(20, 5.0), np.linspace(4, 0.1, 100)], 40),
    "all": (np.repeat(np.arange(12.0, 0, -1), 10), 100),
    "of rank below k": (np.repeat([4.0, 1.0], 6), 20),
}


@pytest.mark.parametrize("name", REPEATED)
@pytest.mark.parametrize("block", [None, 3, 8])
@pytest.mark.parametrize("tol", [1e-3, 1e-6, 1e-10])
@pytest.mark.slow(keep=8)
def test_values_repeated_more_often_than_a_block_is_wide(name, block, tol):
    s, k = REPEATED[name]
    A = scipy.sparse.csr_array(with_singular_values(300, 200, s))
    for seed in range(3):
        # A warning of INACCURATE is an error here: it takes itself for converged where the law agrees.
        found = ls.solve(ls.SVD(A, k), "block-krylov", rng=seed, block=block, tol=tol, form="implicit")
        np.testing.assert_allclose(found.S, s[:k], atol=10 * tol * s[0])
        np.testing.assert_allclose(found.Vh @ found.Vh.T, np.eye(len(found.S)), atol=1e-12)


@pytest.mark.parametrize(("tol", "block", "k"), [(1e-3, 8, 33), (1e-5, 3, 19), (1e-6, 5, 10)])
def test_values_that_differ_by_less_than_the_tolerance(tol, block, k):
    """More of them than a block has columns: the iteration sees no more than it has columns at first."""
    for seed in range(4):
        s = 1 + tol * np.sort(np.random.default_rng(seed).random(40))[::-1]
        A = with_singular_values(120, 90, s)
        found = ls.solve(ls.SVD(A, k), "block-krylov", rng=seed, block=block, tol=tol, form="implicit")
        np.testing.assert_allclose(found.S, s[:k], atol=10 * tol)


@pytest.mark.parametrize("solver", ["block-krylov", "gram"])
def test_rounding_of_float32_products_is_no_singular_value(solver):
    rng = np.random.default_rng(0)
    A = (np.outer(rng.standard_normal(90), rng.standard_normal(140)) + rng.standard_normal(140)).astype("f4")
    exact = np.linalg.svd(A - A.mean(axis=0, dtype=float), compute_uv=False)
    for data in (A, scipy.sparse.linalg.aslinearoperator(A)):
        found = ls.solve(ls.SVD(data, 3, center=True), solver, rng=0)
        assert found.status is ls.Status.RANK_DEFICIENT
        np.testing.assert_allclose(found.S, exact[: len(found.S)], atol=1e-6 * exact[0])


def test_columns_that_indicate_groups_of_equal_size():
    A = scipy.sparse.csr_array(np.kron(np.eye(60), np.ones((7, 1))))
    found = ls.solve(ls.SVD(A, 20), "block-krylov", rng=0, form="implicit")
    np.testing.assert_allclose(found.S, 7**0.5, rtol=1e-12)
    assert found.converged


@pytest.mark.slow
def test_a_budget_that_ends_the_look_for_more_copies_is_said():
    A = scipy.sparse.csr_array(with_singular_values(300, 200, REPEATED["one below the largest"][0]))
    solve = lambda most: ls.solve(  # noqa: E731
        ls.SVD(A, 40), "block-krylov", rng=0, block=8, form="implicit", max_passes=most
    )
    answers = [solve(most) for most in range(12, 40)]
    unsure = [answer for answer in answers if "may be missing" in answer.message]
    assert unsure
    assert not any(answer.converged for answer in unsure)
    full = ls.solve(ls.SVD(A, 40), "block-krylov", rng=0, block=8, form="implicit")
    assert "missing" not in full.message


def law(A, found):
    """max ‖AᵀA v − σ²v‖ / σ₁², from the arrays returned."""
    V = found.Vh.T
    return np.linalg.norm(A.T @ (A @ V) - V * found.S**2, axis=0).max() / found.S[0] ** 2


@pytest.mark.parametrize("tol", [1e-5, 1e-8, 1e-11])
def test_a_basis_that_is_begun_again_at_each_step_stays_orthogonal(tol):
    """Restarts that pass the loss of orthogonality on multiply it by four each, and the iteration does not see it."""
    for seed in range(4):
        A = with_singular_values(300, 160, np.arange(1, 161.0) ** -0.4, seed)
        found = ls.solve(ls.SVD(A, 12), "block-krylov", rng=seed, basis=40, tol=tol, form="implicit")
        assert found.converged
        assert law(A, found) <= tol * (1 + 1e-3) + 1e-14
        assert "begun again 0 times" not in found.message


@pytest.mark.parametrize("solver", ["block-krylov", "lanczos"])
@pytest.mark.parametrize("shape", [(230, 140), (140, 230)])
@pytest.mark.slow(keep=1)
def test_the_iteration_goes_on_where_the_law_disagrees(solver, shape):
    """Among repeated values the vectors of the other side turn the pairs, and ARPACK ends before it should."""
    for seed in range(6):
        s = np.r_[np.full(60, 2.0), np.random.default_rng(seed).uniform(0, 1.9, 60)]
        A = scipy.sparse.csr_array(with_singular_values(*shape, s, seed))
        narrow = {"block": 2} if solver == "block-krylov" else {}
        found = ls.solve(ls.SVD(A, 15, left=True), solver, rng=seed, form="implicit", **narrow)
        assert found.converged
        assert law(A, found) <= 1e-6
        np.testing.assert_allclose(found.S, 2.0, rtol=1e-9)
