"""SPCA and lazy SPCA: the same subspace, what laziness costs, and when the solution says so."""

from __future__ import annotations

import re

import numpy as np
import pytest
import scipy.sparse

import linspec as ls
from linspec.linalg import tall_svd
from linspec.operators import DenseOperator, RowOperator


def with_singular_values(n, p, s, seed=0):
    rng = np.random.default_rng(seed)
    U = np.linalg.qr(rng.standard_normal((n, len(s))))[0]
    V = np.linalg.qr(rng.standard_normal((p, len(s))))[0]
    return U * s @ V.T, U, V


def chordal(V, W):
    """‖sin θ‖ of two spans with orthonormal rows, from the residual."""
    return np.linalg.norm(W.T - V.T @ (V @ W.T))


DECAYING = np.geomspace(1, 1e-2, 60)
RNG = np.random.default_rng(5)


@pytest.mark.parametrize("center", [False, True])
@pytest.mark.parametrize("power_iterations", [0, 1])
def test_one_seed_one_subspace(center, power_iterations):
    """Proposition 2, and its truncation: with the same Ω both answer the same."""
    A, _, _ = with_singular_values(300, 80, DECAYING)
    A = A + center * np.arange(80)
    options = {"rng": 3, "power_iterations": power_iterations}
    for left in (False, True):
        problem = ls.SVD(A, 12, center=center, left=left)
        spca, lazy = (ls.solve(problem, name, **options) for name in ("spca", "lazy-spca"))
        if power_iterations == 0:
            assert chordal(spca.Vh, lazy.Vh) < 1e-9
        for found in (spca, lazy):
            np.testing.assert_allclose(found.Vh @ found.Vh.T, np.eye(12), atol=1e-12)
            if left:
                np.testing.assert_allclose(found.U.T @ found.U, np.eye(12), atol=1e-12)
        if power_iterations == 0 and not left:
            np.testing.assert_allclose(spca.S, lazy.S, rtol=1e-9)


def test_the_bare_form_spans_all_columns_of_the_sketch():
    A, _, _ = with_singular_values(300, 80, DECAYING)
    bare = ls.solve(ls.SVD(A, 20), "lazy-spca", rng=1, whiten=False, oversampling=0)
    spca = ls.solve(ls.SVD(A, 20), "spca", rng=1, oversampling=0)
    assert chordal(spca.Vh, bare.Vh) < 1e-10


@pytest.mark.parametrize("solver", ["spca", "lazy-spca"])
def test_error_within_the_bound_of_halko_martinsson_tropp(solver):
    """Theorem 10.6: E‖A − QQᵀA‖ ≤ (1 + √(k/(l−1))) σ_(k+1) + e√(k+l)/l (Σ_(j>k) σ_j²)^(1/2)."""
    s = np.arange(1, 81.0) ** -1
    A, _, _ = with_singular_values(200, 80, s)
    k, extra, errors = 10, 10, []
    for seed in range(20):
        V = ls.solve(ls.SVD(A, k + extra), solver, rng=seed, oversampling=0).Vh
        errors.append(np.linalg.norm(A - A @ V.T @ V, 2))
    tail = np.sqrt(np.sum(s[k:] ** 2))
    bound = (1 + np.sqrt(k / (extra - 1))) * s[k] + np.e * np.sqrt(k + extra) / extra * tail
    assert np.mean(errors) <= bound


@pytest.mark.parametrize("solver", ["spca", "lazy-spca"])
def test_a_matrix_of_lower_rank_is_found_whole(solver):
    s = np.array([9.0, 7.0, 7.0, 3.0, 1.0])
    A, _, V = with_singular_values(150, 40, s)
    found = ls.solve(ls.SVD(A, 5), solver, rng=0)
    np.testing.assert_allclose(found.S, s, rtol=1e-12)
    assert chordal(V.T, found.Vh) < 1e-11
    assert found.converged


@pytest.mark.parametrize("spread", [1e2, 1e4, 1e6])
def test_laziness_loses_by_the_square_and_says_so(spread):
    """Subspace error about eps (σ₁/σ_k)² against eps σ₁/σ_k, an SVD being the judge; said above a thousand."""
    s = np.concatenate([np.geomspace(1, 1 / spread, 10), np.full(20, 1e-9 / spread)])
    A, _, V = with_singular_values(300, 60, s, seed=2)
    lazy, spca = (ls.solve(ls.SVD(A, 10), name, rng=0) for name in ("lazy-spca", "spca"))
    assert (lazy.status is ls.Status.ILL_CONDITIONED) == (spread > 1e3)
    assert chordal(V[:, :10].T, spca.Vh) < 1e-13 * spread
    if len(lazy.S) == 10:
        assert chordal(V[:, :10].T, lazy.Vh) < 1e-13 * spread**2
    np.testing.assert_allclose(lazy.Vh @ lazy.Vh.T, np.eye(len(lazy.S)), atol=1e-11)


# ---- rows that are not in memory -----------------------------------------------------------------


class Chunks(RowOperator):
    """Rows of an array that are handed out some at a time."""

    def __init__(self, rows):
        self.entries, self.shape, self.dtype = rows, rows.shape, rows.dtype

    def _rows(self, selection):
        return DenseOperator(self.entries[selection])


@pytest.fixture(params=["file", "callable", "sparse-callable", "rows"])
def elsewhere(request, tmp_path, monkeypatch):
    """Makes data of an array that are not there as an array."""
    monkeypatch.setattr("linspec.operators.streamed.GATHERED_BYTES", 20_000)

    def made(A):
        if request.param == "file":
            np.save(tmp_path / "rows.npy", A)
            return tmp_path / "rows.npy"
        if request.param == "rows":
            return Chunks(A)
        kind = scipy.sparse.csr_array if request.param == "sparse-callable" else np.asarray
        return lambda: (kind(A[i : i + 23]) for i in range(0, len(A), 23))

    return made


# ---- what the short cuts must keep ---------------------------------------------------------------


@pytest.mark.parametrize("spread", [3, 30, 1e3, 1e5, 1e7])
@pytest.mark.parametrize("shape", [(120, 400), (400, 120)])
def test_right_vectors_of_lazy_are_orthonormal_whatever_the_spread(shape, spread):
    """The eigenproblem of G where it leaves enough digits, that of R⁻ᵀBBᵀR⁻¹ elsewhere: both end orthonormal."""
    A, _, _ = with_singular_values(*shape, np.geomspace(1, 1 / spread, 100))
    found = ls.solve(ls.SVD(A, 60), "lazy-spca", rng=0)
    assert len(found.S) >= 30
    # The departure is measured as a mean over the columns: entries are smaller.
    np.testing.assert_allclose(found.Vh @ found.Vh.T, np.eye(len(found.S)), atol=1e-12)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("layout", ["C", "F"])
@pytest.mark.parametrize(
    "values", [[1.0] * 8, np.geomspace(1, 1e-6, 8), np.geomspace(1, 1e-15, 8), [3, 2, 1, 0]]
)
def test_vectors_of_the_other_side_are_orthonormal_to_rounding(values, layout, dtype):
    """A V Y = U diag(S), also where columns of A V depend on each other."""
    s = np.asarray(values, dtype=float)
    A, _, V = with_singular_values(200, 30, s)
    A, turn = (
        np.asarray(A.astype(dtype), order=layout),
        np.linalg.qr(RNG.standard_normal((len(s), len(s))))[0],
    )
    eps = np.finfo(dtype).eps
    for block in (V, V @ turn):  # nearly orthogonal columns of A V, and columns that all lean on the largest
        left, S, right = tall_svd(A @ block.astype(dtype))
        assert np.abs(left.T @ left - np.eye(len(s))).max() < 20 * eps
        np.testing.assert_allclose(right.T @ right, np.eye(len(s)), atol=20 * eps)
        if dtype == np.float64:
            np.testing.assert_allclose(A @ block @ right, left * S, atol=40 * eps * s[0])
            np.testing.assert_allclose(S, s, atol=40 * eps * s[0])


# ---- rows that are read once ---------------------------------------------------------------------


def slices(A, height=23):
    return (A[i : i + height] for i in range(0, A.shape[0], height))


@pytest.fixture
def small_blocks(monkeypatch):
    """Slices are not gathered into one block."""
    monkeypatch.setattr("linspec.operators.streamed.GATHERED_BYTES", 20_000)


@pytest.mark.parametrize("kind", [np.asarray, scipy.sparse.csr_array])
@pytest.mark.parametrize("center", [False, True])
@pytest.mark.parametrize("test_matrix", ["gaussian", "very-sparse"])
def test_in_one_pass_the_span_is_that_in_memory(small_blocks, kind, center, test_matrix):
    """Algorithm 4 on slices, 1 on the whole: one Ω, one subspace."""
    A, _, _ = with_singular_values(300, 80, DECAYING)
    A = kind(A + center * np.arange(80))
    options = {"rng": 3, "oversampling": 0, "test_matrix": test_matrix}
    plain = ls.solve(ls.SVD(A, 12, center=center), "spca", **options)
    for more in ({}, {"whiten": False}):
        found = ls.solve(ls.SVD(slices(A), 12, center=center), "lazy-spca", **options, **more)
        assert found.passes == 1
        assert chordal(plain.Vh, found.Vh) < 1e-8
        np.testing.assert_allclose(found.S, plain.S, rtol=1e-8)
        np.testing.assert_allclose(found.Vh @ found.Vh.T, np.eye(12), atol=1e-12)
        if center:
            np.testing.assert_allclose(found.mean, plain.mean, atol=1e-9)


@pytest.mark.parametrize("solver", ["gram", "lazy-spca"])
def test_principal_components_of_a_stream_are_those_of_scikit_learn(small_blocks, solver):
    decomposition = pytest.importorskip("sklearn.decomposition")
    A, _, _ = with_singular_values(400, 50, np.geomspace(100, 1e-1, 50))
    A = A + RNG.standard_normal(50)
    wanted = decomposition.PCA(3, svd_solver="full").fit(A)
    found = ls.solve(
        ls.SVD(slices(A), 3, center=True), solver, rng=0, **({} if solver == "gram" else {"oversampling": 47})
    )
    np.testing.assert_allclose(found.S, wanted.singular_values_, rtol=1e-8)
    np.testing.assert_allclose(np.abs(found.Vh @ wanted.components_.T), np.eye(3), atol=1e-8)
    np.testing.assert_allclose(found.mean, wanted.mean_, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("solver", ["lazy-spca"])
def test_the_estimated_residual_is_the_true_one_within_a_factor_of_three(solver):
    for seed, noise in enumerate((1e-3, 1e-2, 0.1)):
        A, _, _ = with_singular_values(300, 80, np.r_[np.geomspace(3, 1, 8), np.full(60, noise)], seed=seed)
        found = ls.solve(ls.SVD(slices(A), 8), solver, rng=seed + 100)
        V = found.Vh.T
        true = np.linalg.norm(A.T @ (A @ V) - V * found.S**2, axis=0).max() / found.S[0] ** 2
        said = float(re.search(r"estimated residual about (\S+), from random", found.message)[1])
        assert true / 3 < said < 3 * true


@pytest.mark.parametrize("solver", ["lazy-spca"])
@pytest.mark.parametrize("spread", [1e2, 1e4, 1e6])
def test_one_pass_loses_by_the_square_and_says_so(solver, spread):
    """The triangle is exact, and yet the answer spans the rows of B, whose small directions are lost."""
    s = np.concatenate([np.geomspace(1, 1 / spread, 10), np.full(20, 1e-9 / spread)])
    A, _, V = with_singular_values(300, 60, s, seed=2)
    found = ls.solve(ls.SVD(slices(A), 10), solver, rng=0)
    assert (found.status is ls.Status.ILL_CONDITIONED) == (spread > 1e3)
    if len(found.S) == 10:
        assert chordal(V[:, :10].T, found.Vh) < 1e-13 * spread**2
    two = ls.solve(ls.SVD(lambda: slices(A), 10), "spca", rng=0)
    assert (two.passes, two.residual_kind) == (3, "recomputed")
    assert chordal(V[:, :10].T, two.Vh) < 1e-13 * spread


@pytest.mark.parametrize("solver", ["lazy-spca"])
def test_single_precision_with_large_means_in_one_pass(small_blocks, solver):
    """Columns have mean/std 1e4: the answer is as near as float32 rows permit, where subtraction from products leaves
    nothing.
    """
    A, _, _ = with_singular_values(2000, 60, np.r_[[60.0, 50, 40], np.full(57, 0.5)])
    A = (A * 20 + 1e4 * RNG.standard_normal(60)).astype(np.float32)
    C = A.astype(np.float64) - A.astype(np.float64).mean(axis=0)
    wanted = ls.solve(ls.SVD(C, 3), "spca", rng=0)  # the same sketch of the exact entries
    found = ls.solve(ls.SVD(slices(A, 7), 3, center=True), solver, rng=0)
    np.testing.assert_allclose(found.S, wanted.S, rtol=1e-5)
    assert chordal(wanted.Vh, found.Vh.astype(np.float64)) < 1e-4
    assert found.Vh.dtype == np.float32


@pytest.mark.parametrize("solver", ["gram", "lazy-spca"])
@pytest.mark.parametrize("rank", [0, 2])
def test_fewer_triplets_than_asked_for_in_one_pass(solver, rank):
    A, _, _ = with_singular_values(100, 20, np.array([5.0, 2.0])[:rank])
    found = ls.solve(ls.SVD(slices(A), 4), solver, rng=0)
    assert len(found.S) == rank
    np.testing.assert_allclose(found.S, [5.0, 2.0][:rank], rtol=1e-10)
    few = ls.solve(
        ls.SVD(slices(RNG.standard_normal((3, 20)), 1), 5), solver, rng=0
    )  # fewer rows than triplets
    assert len(few.S) == 3
