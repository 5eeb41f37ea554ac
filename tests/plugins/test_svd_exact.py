"""Truncated SVD by direct, gram and lanczos: planted triplets, theorems, and peers."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.sparse.linalg import aslinearoperator

import linspec as ls
from linspec import Status
from linspec.errors import NonFiniteData

EPS = np.finfo(np.float64).eps
every_solver = pytest.mark.parametrize(
    ("solver", "options"), [("direct", {}), ("gram", {}), ("lanczos", {})], ids=["direct", "gram", "arpack"]
)


def orthonormal(rng, n, k):
    return np.linalg.qr(rng.standard_normal((n, k)))[0]


def planted(n, p, values, seed=0):
    """A matrix with known triplets, U, s, V."""
    rng = np.random.default_rng([seed, n, p])
    s = np.asarray(values, dtype=float)
    U, V = orthonormal(rng, n, len(s)), orthonormal(rng, p, len(s))
    return (U * s) @ V.T, U, s, V


def sine(V, W):
    """Return the sine of the largest angle between two spans, of orthonormal columns."""
    return np.linalg.norm(V - W @ (W.T @ V), 2)


# ---- planted triplets --------------------------------------------------------------------------


@every_solver
def test_repeated_singular_values_are_all_found(solver, options):
    A, _, s, V = planted(120, 50, [4, 4, 4, 2, 2, 1, 1, 1])
    found = ls.solve(ls.SVD(A, 5), solver, rng=1, **options)
    np.testing.assert_allclose(found.S, s[:5], rtol=1e-8)
    assert sine(found.Vh[:3].T, V[:, :3]) < 1e-6
    assert sine(found.Vh.T, V[:, :5]) < 1e-6


# ---- ranks --------------------------------------------------------------------------------------


@every_solver
@pytest.mark.parametrize("shape", [(90, 40), (40, 90)])
@pytest.mark.parametrize("left", [False, True])
def test_no_more_triplets_than_the_rank_and_a_word_about_it(solver, options, shape, left):
    A, _, s, V = planted(*shape, [5, 4, 3, 2])
    for k in (3, 4):
        found = ls.solve(ls.SVD(A, k, left=left), solver, rng=0, **options)
        assert found.status is Status.CONVERGED
        assert len(found.S) == k
    found = ls.solve(ls.SVD(A, 7, left=left), solver, rng=0, **options)
    assert found.status is Status.RANK_DEFICIENT
    assert "4 of the 7" in found.message
    np.testing.assert_allclose(found.S, s, rtol=1e-12)
    assert sine(found.Vh.T, V) < 1e-12
    assert found.U is None or found.U.shape == (shape[0], 4)


@every_solver
@pytest.mark.parametrize("center", [False, True])
@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array])
def test_a_matrix_of_zeros_has_no_triplets(solver, options, center, kind):
    found = ls.solve(ls.SVD(kind(np.zeros((12, 7))), 3, center=center, left=True), solver, rng=0, **options)
    assert found.status is Status.RANK_DEFICIENT
    assert found.S.shape == (0,)
    assert found.Vh.shape == (0, 7)
    assert found.U.shape == (12, 0)
    assert found.residual == 0


@every_solver
def test_one_row_has_nothing_about_its_mean(solver, options):
    found = ls.solve(ls.SVD(np.arange(1.0, 6.0)[None, :], 1, center=True), solver, rng=0, **options)
    assert len(found.S) == 0
    assert found.status is Status.RANK_DEFICIENT


# ---- small singular values ----------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(80, 30), (30, 80)])
def test_direct_left_vectors_are_orthonormal_for_values_near_rounding(shape):
    A, _, s, _ = planted(*shape, np.geomspace(1, 1e-12, 13))
    found = ls.solve(ls.SVD(A, 13, left=True), "direct")
    np.testing.assert_allclose(found.S, s, atol=20 * EPS)
    np.testing.assert_allclose(found.U.T @ found.U, np.eye(13), atol=30 * EPS)
    np.testing.assert_allclose(A @ found.Vh.T, found.U * found.S, atol=30 * EPS)


@pytest.mark.parametrize("shape", [(80, 30), (30, 80)])
@pytest.mark.parametrize("left", [False, True])
def test_gram_reduces_the_rows_where_squaring_leaves_nothing(shape, left):
    """Values go down to 1e-12 σ₁; a Gram matrix shows nothing below 1e-8 σ₁."""
    A, _, s, _ = planted(*shape, np.geomspace(1, 1e-12, 13))
    found = ls.solve(ls.SVD(A, 13, left=left), "gram")
    np.testing.assert_allclose(found.S, s, atol=30 * EPS)
    assert found.status is Status.CONVERGED


def test_gram_returns_what_it_knows_where_it_may_not_look_again():
    A, _, s, _ = planted(80, 30, np.geomspace(1, 1e-12, 13))
    once = ls.solve(ls.SVD(A, 13), "gram", max_passes=1)
    assert once.passes == 1
    hidden = ls.solve(ls.SVD(aslinearoperator(A), 13), "gram")  # products alone: no rows to reduce
    for found in (once, hidden):
        assert found.status is Status.ILL_CONDITIONED
        assert 5 < len(found.S) < 10
        assert "direct" in found.message
        np.testing.assert_allclose(found.S, s[: len(found.S)], atol=1e-8)
        assert found.S[-1] > 1e-8


def test_gram_says_where_digits_are_lost():
    A, _, s, _ = planted(80, 30, np.geomspace(1, 1e-6, 13))
    assert ls.solve(ls.SVD(A, 5), "gram").status is Status.CONVERGED
    found = ls.solve(ls.SVD(A, 13), "gram")
    assert found.status is Status.ILL_CONDITIONED
    assert found.converged
    off = np.abs(found.S / s - 1)
    assert off[-1] < 1e-3
    # With left vectors the values come from the data, not from their squares.
    np.testing.assert_allclose(ls.solve(ls.SVD(A, 13, left=True), "gram").S, s, atol=20 * EPS)


def test_lanczos_returns_nothing_that_it_cannot_know():
    A, _, s, _ = planted(200, 60, np.geomspace(1, 1e-12, 20))
    found = ls.solve(ls.SVD(A, 20, left=True), "lanczos", rng=0)
    assert found.status is Status.ILL_CONDITIONED
    assert found.S[-1] > 1e-8
    np.testing.assert_allclose(found.S, s[: len(found.S)], atol=1e-9)


# ---- centring -----------------------------------------------------------------------------------


def words(n=400, p=60, seed=0):
    rng = np.random.default_rng(seed)
    return sp.random_array((n, p), density=0.05, rng=rng, format="csr") + sp.csr_array(
        (rng.random((n, p)) < 0.02) * 1.0
    )


@every_solver
@pytest.mark.parametrize("shape", ["tall", "wide"])
def test_pca_of_sparse_data_is_dense_pca_and_that_of_scikit_learn(solver, options, shape):
    decomposition = pytest.importorskip("sklearn.decomposition")
    X = words() if shape == "tall" else words(60, 400)
    k = 8
    tol = {"tol": 1e-12} if solver == "lanczos" else {}
    sparse = ls.solve(ls.SVD(X, k, center=True, left=True), solver, rng=0, **options, **tol)
    dense = ls.solve(ls.SVD(X.toarray(), k, center=True), solver, rng=0, **options, **tol)
    peer = decomposition.PCA(k, svd_solver="full").fit(X.toarray())
    for found in (sparse, dense):
        np.testing.assert_allclose(found.S, peer.singular_values_, rtol=1e-8)
        np.testing.assert_allclose(found.mean, peer.mean_, atol=1e-12)
        assert sine(found.Vh.T, peer.components_.T) < 1e-8
        cosines = np.abs(np.sum(found.Vh * peer.components_, axis=1))
        np.testing.assert_allclose(cosines, 1.0, atol=1e-8)
    scores = (X.toarray() - peer.mean_) @ sparse.Vh.T
    np.testing.assert_allclose(sparse.U * sparse.S, scores, atol=1e-8)


def test_large_means_cost_direct_and_gram_no_digits():
    A = planted(200, 20, np.geomspace(3, 1, 20))[0]
    A -= A.mean(axis=0)
    exact = np.linalg.svd(A, compute_uv=False)[:4]
    for solver in ("direct", "gram"):
        found = ls.solve(ls.SVD(A + 1e6, 4, center=True, left=True), solver)
        np.testing.assert_allclose(found.S, exact, rtol=1e-8)  # 1e6 leaves ten digits of the data themselves


# ---- other kinds of data ------------------------------------------------------------------------


@every_solver
def test_what_is_not_finite_is_named_also_in_wide_data(solver, options, tmp_path):
    A = np.random.default_rng(0).standard_normal((9, 30))
    A[7, 11] = np.nan
    np.save(tmp_path / "wide.npy", A)  # files are not looked through before
    for center in (False, True):
        with pytest.raises(NonFiniteData, match="row 7, column 11"):
            ls.solve(ls.SVD(str(tmp_path / "wide.npy"), 2, center=center), solver, rng=0, **options)


# ---- lanczos ------------------------------------------------------------------------------------

REPEATED = planted(200, 120, [*([4] * 25), *np.geomspace(1, 0.1, 40)])


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("k", [2, 25, 28])
def test_copies_that_one_vector_cannot_see_are_found(seed, k):
    A, _, s, V = REPEATED
    found = ls.solve(ls.SVD(A, k, left=True), "lanczos", rng=seed)
    assert found.status is Status.CONVERGED
    np.testing.assert_allclose(found.S, s[:k], rtol=1e-9)
    assert sine(found.Vh.T, V[:, : max(k, 25)]) < 1e-4
    np.testing.assert_allclose(found.Vh @ found.Vh.T, np.eye(k), atol=1e-12)


@pytest.mark.slow
def test_copies_are_missing_in_silence_at_no_budget():
    """A wrong answer is above the tolerance, or INCOMPLETE, or the message says that nobody looked."""
    A, _, s, _ = REPEATED
    endings = set()
    for budget in range(60, 132):
        options = {"form": "implicit", "max_passes": budget}
        found = ls.solve(ls.SVD(A, 25), "lanczos", rng=0, **options)
        assert found.passes <= budget
        endings.add(found.status)
        if found.converged and np.abs(found.S - s[:25]).max() > 1e-6:
            raise AssertionError(f"copies are missing in silence with {budget} passes")
    assert {Status.BUDGET, Status.CONVERGED} <= endings


def test_gram_finds_all_of_a_wide_cluster():
    """LAPACK's routine for some eigenvectors leaves out most of them here."""
    A, _, s, _ = planted(80, 50, [*([4] * 25), *np.geomspace(1, 0.1, 20)])
    for data in (A, A.T.copy()):
        for k in (3, 25, 27):
            found = ls.solve(ls.SVD(data, k), "gram")
            assert found.status is Status.CONVERGED
            np.testing.assert_allclose(found.S, s[:k], rtol=1e-10)
            np.testing.assert_allclose(found.Vh @ found.Vh.T, np.eye(k), atol=1e-12)


def test_a_small_basis_gets_there_too():
    A, _, s, _ = planted(120, 60, np.geomspace(5, 0.5, 50))
    found = ls.solve(ls.SVD(A, 3), "lanczos", rng=0, basis=6)
    assert found.converged
    np.testing.assert_allclose(found.S, s[:3], rtol=1e-8)


def test_a_failing_operator_is_heard():
    """The exception comes out of the library that calls back."""

    class Failing:
        shape, dtype, calls = (50, 30), np.dtype(np.float64), 0
        entries = planted(50, 30, np.geomspace(5, 0.5, 30))[0]

        def matmat(self, V):
            self.calls += 1
            if self.calls > 9:
                raise OSError("the disk is gone")
            return self.entries @ V

        def rmatmat(self, U):
            return self.entries.T @ U

    with pytest.raises(OSError, match="the disk is gone"):
        ls.solve(ls.SVD(Failing(), 3), "lanczos", rng=0, form="implicit")


@pytest.mark.parametrize("solver", ["gram", "direct", "block-krylov"])
@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array])
def test_left_vectors_of_weighted_rows_are_those_of_rows_times_root_weights(solver, kind):
    rng = np.random.default_rng(0)
    A, w = rng.standard_normal((60, 8)) * np.geomspace(8, 1, 8), rng.integers(0, 4, 60) * 0.5
    found = ls.solve(ls.SVD(kind(A), 3, center=True, sample_weight=w, left=True), solver, rng=0)
    rows = (A - np.average(A, axis=0, weights=w)) * np.sqrt(w)[:, None]
    U, s, _ = np.linalg.svd(rows, full_matrices=False)
    np.testing.assert_allclose(found.S, s[:3], rtol=1e-9)
    assert np.abs(found.U.T @ found.U - np.eye(3)).max() < 1e-10
    np.testing.assert_allclose(np.abs(np.sum(found.U * U[:, :3], axis=0)), 1, atol=1e-8)
