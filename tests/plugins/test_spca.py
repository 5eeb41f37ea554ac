"""SPCA and lazy SPCA: the same subspace, what laziness costs, and when the solution says so."""

from __future__ import annotations

import re

import numpy as np
import pytest
import scipy.sparse
from planted import factored

import linspec as ls
from linspec import Status

DECAYING = np.geomspace(1, 1e-2, 60)


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
        assert found.status is Status.APPROXIMATE  # nothing is said of singular values that are close
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
def test_power_iterations_approach_the_leading_subspace(solver):
    A, _, V = factored(300, 80, DECAYING)
    off = []
    for powers in (0, 1, 2):
        found = ls.solve(ls.SVD(A, 12, left=True), solver, rng=3, power_iterations=powers)
        off.append(chordal(V[:, :12].T, found.Vh))
        np.testing.assert_allclose(found.Vh @ found.Vh.T, np.eye(12), atol=1e-12)
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


# ---- rows that are read once ---------------------------------------------------------------------


def test_the_estimated_residual_is_the_true_one_within_a_factor_of_three():
    for seed, noise in enumerate((1e-3, 1e-2, 0.1)):
        A, _, _ = factored(300, 80, np.r_[np.geomspace(3, 1, 8), np.full(60, noise)], seed=seed)
        found = ls.solve(ls.SVD(slices(A), 8), "lazy-spca", rng=seed + 100)
        V = found.Vh.T
        true = np.linalg.norm(A.T @ (A @ V) - V * found.S**2, axis=0).max() / found.S[0] ** 2
        said = float(re.search(r"estimated residual about (\S+), from random", found.message)[1])
        assert true / 3 < said < 3 * true
