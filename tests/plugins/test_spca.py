"""SPCA and lazy SPCA: the same subspace, what laziness costs, and when the solution says so."""

from __future__ import annotations

import re

import numpy as np
import pytest
import scipy.sparse
from planted import factored

import linspec as ls
from linspec import Status
from linspec.linalg import tall_svd

DECAYING = np.geomspace(1, 1e-2, 60)
RNG = np.random.default_rng(5)


def chordal(V, W):
    """‖sin θ‖ of two spans with orthonormal rows, from the residual."""
    return np.linalg.norm(W.T - V.T @ (V @ W.T))


def slices(A, height=23):
    return (A[i : i + height] for i in range(0, A.shape[0], height))


@pytest.fixture
def small_blocks(monkeypatch):
    """Slices are not gathered into one block."""
    monkeypatch.setattr("linspec.operators.streamed.GATHERED_BYTES", 20_000)


# ---- one subspace ---------------------------------------------------------------------------------


@pytest.mark.parametrize("read_once", [False, True])
@pytest.mark.parametrize("kind", [np.asarray, scipy.sparse.csr_array])
@pytest.mark.parametrize("center", [False, True])
@pytest.mark.parametrize("test_matrix", ["gaussian", "very-sparse"])
def test_one_seed_one_subspace(small_blocks, test_matrix, center, kind, read_once):
    """Proposition 2, and its truncation: with the same Ω both answer the same; algorithm 4 in one pass, too."""
    A = kind(factored(300, 80, DECAYING)[0] + center * np.arange(80))
    options = {"rng": 3, "test_matrix": test_matrix, "oversampling": 0, "power_iterations": 0}
    plain = ls.solve(ls.SVD(A, 12, center=center), "spca", **options)
    for whiten in (True, False):
        rows = slices(A) if read_once else A
        found = ls.solve(ls.SVD(rows, 12, center=center), "lazy-spca", whiten=whiten, **options)
        assert found.passes == 1 or not read_once
        assert chordal(plain.Vh, found.Vh) < 1e-8
        if whiten or read_once:  # in memory the other form has lengths of A v in place of singular values
            np.testing.assert_allclose(found.S, plain.S, rtol=1e-8)
        np.testing.assert_allclose(found.Vh @ found.Vh.T, np.eye(12), atol=1e-12)
        if center:
            np.testing.assert_allclose(found.mean, plain.mean, atol=1e-9)


@pytest.mark.parametrize("solver", ["spca", "lazy-spca"])
def test_error_within_the_bound_of_halko_martinsson_tropp(solver):
    """Theorem 10.6: E‖A − QQᵀA‖ ≤ (1 + √(k/(l−1))) σ_(k+1) + e√(k+l)/l (Σ_(j>k) σ_j²)^(1/2)."""
    s = np.arange(1, 81.0) ** -1
    A, _, _ = factored(200, 80, s)
    k, extra, errors = 10, 10, []
    for seed in range(20):
        V = ls.solve(ls.SVD(A, k + extra), solver, rng=seed, oversampling=0).Vh
        errors.append(np.linalg.norm(A - A @ V.T @ V, 2))
    tail = np.sqrt(np.sum(s[k:] ** 2))
    bound = (1 + np.sqrt(k / (extra - 1))) * s[k] + np.e * np.sqrt(k + extra) / extra * tail
    assert np.mean(errors) <= bound


@pytest.mark.parametrize("solver", ["spca", "lazy-spca"])
@pytest.mark.parametrize("left", [False, True])
def test_power_iterations_approach_the_leading_subspace(solver, left):
    A, _, V = factored(300, 80, DECAYING)
    off = []
    for powers in (0, 1, 2):
        found = ls.solve(ls.SVD(A, 12, left=left), solver, rng=3, power_iterations=powers)
        off.append(chordal(V[:, :12].T, found.Vh))
        np.testing.assert_allclose(found.Vh @ found.Vh.T, np.eye(12), atol=1e-12)
        if left:
            np.testing.assert_allclose(found.U.T @ found.U, np.eye(12), atol=1e-12)
    assert off[0] > 2 * off[1] > 4 * off[2]


# ---- what laziness costs --------------------------------------------------------------------------


@pytest.mark.parametrize("read_once", [False, True])
@pytest.mark.parametrize("spread", [1e2, 1e4, 1e6])
def test_laziness_loses_by_the_square_and_says_so(spread, read_once):
    """Subspace error about eps (σ₁/σ_k)² against eps σ₁/σ_k, an SVD being the judge; said above a thousand."""
    A, _, V = factored(300, 60, [*np.geomspace(1, 1 / spread, 10), *np.full(20, 1e-9 / spread)], seed=2)
    data = (lambda: slices(A)) if read_once else A
    lazy = ls.solve(ls.SVD(slices(A) if read_once else A, 10), "lazy-spca", rng=0)
    spca = ls.solve(ls.SVD(data, 10), "spca", rng=0)
    assert (lazy.status is Status.ILL_CONDITIONED) == (spread > 1e3)
    assert chordal(V[:, :10].T, spca.Vh) < 1e-13 * spread
    assert len(lazy.S) < 10 or chordal(V[:, :10].T, lazy.Vh) < 1e-13 * spread**2
    np.testing.assert_allclose(lazy.Vh @ lazy.Vh.T, np.eye(len(lazy.S)), atol=1e-11)
    if read_once:
        assert (spca.passes, spca.residual_kind) == (3, "recomputed")


@pytest.mark.parametrize(
    ("dtype", "ratio"), [("float64", 1e3), ("float64", 1e5), ("float32", 1e2), ("float32", 1e4)]
)
def test_without_singular_values_a_lost_subspace_is_not_silent(dtype, ratio):
    A, _, V = factored(300, 100, np.geomspace(1, 1 / ratio, 12), seed=2)
    found = ls.solve(ls.SVD(A.astype(dtype), 12), "lazy-spca", rng=0, whiten=False, oversampling=0)
    assert found.status is Status.ILL_CONDITIONED
    assert "By squaring" in found.message
    W = np.linalg.qr(found.Vh.T.astype(float))[0]
    assert np.linalg.norm(W - V @ (V.T @ W)) < 0.3  # what is returned is not noise


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("options", [{}, {"whiten": False, "oversampling": 0}])
def test_nothing_is_said_of_singular_values_that_are_close(dtype, options):
    A = np.random.default_rng(0).standard_normal((300, 100)).astype(dtype)
    assert ls.solve(ls.SVD(A, 5), "lazy-spca", rng=0, **options).status is Status.APPROXIMATE


@pytest.mark.parametrize("spread", [3, 1e3, 1e7])
@pytest.mark.parametrize("shape", [(120, 400), (400, 120)])
def test_right_vectors_of_lazy_are_orthonormal_whatever_the_spread(shape, spread):
    """The eigenproblem of G where it leaves enough digits, that of R⁻ᵀBBᵀR⁻¹ elsewhere: both end orthonormal."""
    found = ls.solve(ls.SVD(factored(*shape, np.geomspace(1, 1 / spread, 100))[0], 60), "lazy-spca", rng=0)
    assert len(found.S) >= 30
    # The departure is measured as a mean over the columns: entries are smaller.
    np.testing.assert_allclose(found.Vh @ found.Vh.T, np.eye(len(found.S)), atol=1e-12)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("values", [np.geomspace(1, 1e-6, 8), np.geomspace(1, 1e-15, 8), [3, 2, 1, 0]])
def test_vectors_of_the_other_side_are_orthonormal_to_rounding(values, dtype):
    """A V Y = U diag(S), also where columns of A V depend on each other."""
    s, eps = np.asarray(values, dtype=float), np.finfo(dtype).eps
    A, _, V = factored(200, 30, s)
    A, turn = np.asfortranarray(A.astype(dtype)), np.linalg.qr(RNG.standard_normal((len(s), len(s))))[0]
    for block in (V, V @ turn):  # nearly orthogonal columns of A V, and columns that all lean on the largest
        left, S, right = tall_svd(A @ block.astype(dtype))
        assert np.abs(left.T @ left - np.eye(len(s))).max() < 20 * eps
        np.testing.assert_allclose(right.T @ right, np.eye(len(s)), atol=20 * eps)
        if dtype == np.float64:
            np.testing.assert_allclose(A @ block @ right, left * S, atol=40 * eps * s[0])
            np.testing.assert_allclose(S, s, atol=40 * eps * s[0])


# ---- rows that are read once ---------------------------------------------------------------------


def test_the_estimated_residual_is_the_true_one_within_a_factor_of_three():
    for seed, noise in enumerate((1e-3, 1e-2, 0.1)):
        A, _, _ = factored(300, 80, np.r_[np.geomspace(3, 1, 8), np.full(60, noise)], seed=seed)
        found = ls.solve(ls.SVD(slices(A), 8), "lazy-spca", rng=seed + 100)
        V = found.Vh.T
        true = np.linalg.norm(A.T @ (A @ V) - V * found.S**2, axis=0).max() / found.S[0] ** 2
        said = float(re.search(r"estimated residual about (\S+), from random", found.message)[1])
        assert true / 3 < said < 3 * true


def test_single_precision_with_large_means_in_one_pass(small_blocks):
    """Columns have mean/std 1e4: the answer is as near as float32 rows permit, where subtraction from products leaves
    nothing.
    """
    A, _, _ = factored(2000, 60, np.r_[[60.0, 50, 40], np.full(57, 0.5)])
    A = (A * 20 + 1e4 * RNG.standard_normal(60)).astype(np.float32)
    C = A.astype(np.float64) - A.astype(np.float64).mean(axis=0)
    wanted = ls.solve(ls.SVD(C, 3), "spca", rng=0)  # the same sketch of the exact entries
    found = ls.solve(ls.SVD(slices(A, 7), 3, center=True), "lazy-spca", rng=0)
    np.testing.assert_allclose(found.S, wanted.S, rtol=1e-5)
    assert chordal(wanted.Vh, found.Vh.astype(np.float64)) < 1e-4
    assert found.Vh.dtype == np.float32


@pytest.mark.parametrize("solver", ["gram", "lazy-spca"])
@pytest.mark.parametrize("rank", [0, 2])
def test_fewer_triplets_than_asked_for_in_one_pass(solver, rank):
    found = ls.solve(ls.SVD(slices(factored(100, 20, [5.0, 2.0][:rank])[0]), 4), solver, rng=0)
    np.testing.assert_allclose(found.S, [5.0, 2.0][:rank], rtol=1e-10)
    few = slices(RNG.standard_normal((3, 20)), 1)  # fewer rows than triplets
    assert len(ls.solve(ls.SVD(few, 5), solver, rng=0).S) == 3
