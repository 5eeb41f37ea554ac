"""SPCA and lazy SPCA: the same subspace, what laziness costs, and when the solution says so."""

from __future__ import annotations

import re
import tracemalloc

import numpy as np
import pytest
import scipy.sparse
from backends import CountingOperator
from scipy.sparse.linalg import aslinearoperator

import linspec as ls
from linspec.errors import InvalidOption, NonFiniteData
from linspec.operators import DenseOperator, RowOperator
from linspec_svd.triplets import left_vectors, right_vectors


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


def test_the_bare_form_refuses_oversampling():
    with pytest.raises(InvalidOption, match="oversampling=0"):
        ls.get_solver("lazy-spca", "svd")(whiten=False)


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


def test_sweeps():
    A, _, _ = with_singular_values(300, 80, DECAYING)
    for solver, options, expected in (
        ("lazy-spca", {}, 1), ("lazy-spca", {"power_iterations": 2}, 3), ("spca", {}, 2),
        ("spca", {"power_iterations": 1}, 4),
    ):  # fmt: skip
        found = ls.solve(ls.SVD(A, 5), solver, rng=0, **options)
        assert found.passes == expected + 1, solver  # and the certificate
    operator = CountingOperator(A)
    assert ls.solve(ls.SVD(operator, 5), "lazy-spca", rng=0).passes == 2 + 2  # products alone do not fuse


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


@pytest.mark.parametrize("solver", ["spca", "lazy-spca"])
@pytest.mark.parametrize("test_matrix", ["gaussian", "sparse-sign", "srht", "very-sparse", "count-sketch"])
def test_every_test_matrix_will_do(solver, test_matrix):
    A, _, _ = with_singular_values(300, 80, np.geomspace(1, 1e-4, 60))
    found = ls.solve(ls.SVD(A, 5), solver, rng=0, test_matrix=test_matrix, oversampling=15)
    exact = np.linalg.svd(A, compute_uv=False)[:5]
    np.testing.assert_allclose(found.S, exact, rtol=5e-2)


@pytest.mark.parametrize("solver", ["spca", "lazy-spca"])
def test_sparse_data_stay_sparse_when_centred(solver):
    A = scipy.sparse.random(400, 60, 0.05, random_state=0, format="csr")
    dense = A.toarray() - A.toarray().mean(axis=0)
    found = ls.solve(ls.SVD(A, 4, center=True), solver, rng=0, power_iterations=6)
    np.testing.assert_allclose(found.S, np.linalg.svd(dense, compute_uv=False)[:4], rtol=5e-3)


@pytest.mark.parametrize("center", [False, True])
@pytest.mark.parametrize("shape", [(40, 150), (150, 40)])
@pytest.mark.parametrize("kind", [np.asarray, scipy.sparse.csr_array, aslinearoperator])
@pytest.mark.parametrize("form", ["implicit", "dense"])
def test_the_gram_of_an_image_comes_with_the_product(kind, shape, center, form):
    """(AV)ᵀ(AV) beside AᵀAV: the passes are those of the product, and the strips make up a symmetric whole."""
    rng = np.random.default_rng(0)
    A = rng.standard_normal(shape) + 3
    V = rng.standard_normal((shape[1], 70))
    image = (A - center * A.mean(axis=0)) @ V
    moments, plain = (ls.Moments(kind(A), center=center, form=form) for _ in range(2))
    products = moments.products(V, image=True)
    product, gram = products[0], products.image
    plain.gram(V)
    assert moments.passes == plain.passes
    np.testing.assert_allclose(gram, image.T @ image, rtol=1e-11, atol=1e-9)
    np.testing.assert_allclose(gram, gram.T, atol=1e-9)
    np.testing.assert_allclose(product, (A - center * A.mean(axis=0)).T @ image, rtol=1e-11, atol=1e-9)


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


@pytest.mark.parametrize("left", [False, True])
@pytest.mark.parametrize("center", [False, True])
@pytest.mark.parametrize("powers", [0, 2])
@pytest.mark.parametrize("normalizer", ["cholesky-qr", "qr", "rank-revealing"])
@pytest.mark.slow(keep=24)
def test_rows_elsewhere_give_what_rows_in_memory_give(elsewhere, center, powers, left, normalizer):
    A, _, _ = with_singular_values(300, 80, DECAYING)
    A = A + center * np.arange(80)
    options = {"rng": 3, "power_iterations": powers, "normalizer": normalizer}
    plain = ls.solve(ls.SVD(A, 12, center=center, left=left), "spca", **options)
    found = ls.solve(ls.SVD(elsewhere(A), 12, center=center, left=left), "spca", **options)
    np.testing.assert_allclose(found.S, plain.S, rtol=1e-10)
    assert chordal(plain.Vh, found.Vh) < 1e-9
    np.testing.assert_allclose(found.Vh @ found.Vh.T, np.eye(12), atol=1e-12)
    if left:
        np.testing.assert_allclose(found.U.T @ found.U, np.eye(12), atol=1e-12)
        np.testing.assert_allclose(found.U @ (plain.U.T @ found.U).T, plain.U, atol=1e-9)
    else:  # two sweeps, two for each power, and the certificate: means come with the products
        assert found.passes == 2 + 2 * powers + 1
    if center:
        np.testing.assert_allclose(found.mean, plain.mean, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("spread", [1e2, 1e6, 1e10])
def test_what_two_sweeps_cost_is_not_squared_elsewhere_either(elsewhere, spread):
    """Subspace error about eps σ₁/σ_k, an SVD being the judge."""
    s = np.concatenate([np.geomspace(1, 1 / spread, 10), np.full(20, 1e-6 / spread)])
    A, _, V = with_singular_values(300, 60, s, seed=2)
    found = ls.solve(ls.SVD(elsewhere(A), 10), "spca", rng=0)
    assert len(found.S) == 10
    assert chordal(V[:, :10].T, found.Vh) < 1e-13 * spread
    np.testing.assert_allclose(found.Vh @ found.Vh.T, np.eye(10), atol=1e-12)


def test_ranks_and_few_rows_elsewhere(elsewhere):
    A, _, _ = with_singular_values(100, 20, np.array([5.0, 2.0]))
    for left in (False, True):
        found = ls.solve(ls.SVD(elsewhere(A), 4, left=left), "spca", rng=0)
        np.testing.assert_allclose(found.S, [5.0, 2.0], rtol=1e-10)
        few = RNG.standard_normal((3, 20))
        found = ls.solve(ls.SVD(elsewhere(few), 3, left=left), "spca", rng=0)
        np.testing.assert_allclose(found.S, np.linalg.svd(few, compute_uv=False), rtol=1e-12)


def test_entries_that_are_not_finite_are_named_elsewhere(elsewhere):
    A, _, _ = with_singular_values(300, 80, DECAYING)
    A[211, 7] = np.nan
    with pytest.raises(NonFiniteData, match="A must be finite; got nan at row 211, column 7"):
        ls.solve(ls.SVD(elsewhere(A), 3), "spca", rng=0)
    with pytest.raises(NonFiniteData, match=r"A must .* at row 211, column "):
        ls.solve(ls.SVD(elsewhere(A), 3, left=True), "spca", rng=0)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_no_block_with_all_rows_is_held_of_a_file(tmp_path, dtype):
    """The sketch of 20 columns alone would take 160 bytes a row."""
    rows = 100_000
    file = np.lib.format.open_memmap(tmp_path / "tall.npy", "w+", dtype, (rows, 30))
    file[:] = RNG.standard_normal((rows, 30))
    file.flush()
    del file
    taken = {}
    for left in (False, True):
        tracemalloc.start()
        found = ls.solve(ls.SVD(tmp_path / "tall.npy", 10, left=left), "spca", rng=0)
        taken[left] = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert taken[False] < 40 * rows + 2**22
    assert found.U.dtype == dtype
    # One block of 20 columns, and the 10 columns of the answer before and after their signs.
    assert taken[True] < (20 + 2 * 10) * np.dtype(dtype).itemsize * rows + 2**23
    departure = np.abs(found.U.T @ found.U - np.eye(10)).max()
    assert departure < 100 * np.finfo(dtype).eps


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


@pytest.mark.parametrize("shape", [(120, 400), (400, 120)])
def test_squaring_twice_costs_no_digits_that_squaring_once_leaves(shape):
    """The eigenproblem of G = BBᵀ against that of R⁻ᵀBBᵀR⁻¹, where the first is taken."""
    A, _, _ = with_singular_values(*shape, np.geomspace(1, 0.1, 100))
    with pytest.MonkeyPatch.context() as patch:
        short = ls.solve(ls.SVD(A, 30), "lazy-spca", rng=0)
        patch.setattr("linspec_svd.lazy_spca._inverse_root", lambda M: None)
        long = ls.solve(ls.SVD(A, 30), "lazy-spca", rng=0)
    np.testing.assert_allclose(short.S, long.S, rtol=1e-12)
    assert chordal(long.Vh, short.Vh) < 1e-10


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("layout", ["C", "F"])
@pytest.mark.parametrize(
    "values", [[1.0] * 8, np.geomspace(1, 1e-6, 8), np.geomspace(1, 1e-15, 8), [3, 2, 1, 0]]
)
def test_vectors_of_the_other_side_are_orthonormal_to_rounding(values, layout, dtype):
    """By Cholesky QR or, where columns depend on each other, by Householder transformations: A V = U diag(S)."""
    s = np.asarray(values, dtype=float)
    A, U, V = with_singular_values(200, 30, s)
    A, turn = (
        np.asarray(A.astype(dtype), order=layout),
        np.linalg.qr(RNG.standard_normal((len(s), len(s))))[0],
    )
    eps = np.finfo(dtype).eps
    for block in (V, V @ turn):  # nearly orthogonal columns of A V, and columns that all lean on the largest
        left, S, right = left_vectors(ls.as_operator(A), block.astype(dtype))
        assert np.abs(left.T @ left - np.eye(len(s))).max() < 20 * eps
        np.testing.assert_allclose(right.T @ right, np.eye(len(s)), atol=20 * eps)
        if dtype == np.float64:
            np.testing.assert_allclose(A @ right, left * S, atol=40 * eps * s[0])
            np.testing.assert_allclose(S, s, atol=40 * eps * s[0])
        other, S, right = right_vectors(ls.as_operator(A), (U if block is V else U @ turn).astype(dtype))
        assert np.abs(right.T @ right - np.eye(len(s))).max() < 20 * eps
        np.testing.assert_allclose(A.T @ other, right * S, atol=40 * eps * s[0])


def test_the_leading_vectors_of_the_other_side_are_those_of_all():
    A, U, _ = with_singular_values(200, 30, DECAYING[:20])
    every, S, V = right_vectors(ls.as_operator(A), U)
    some, values, W = right_vectors(ls.as_operator(A), U, 5)
    np.testing.assert_array_equal(values, S)
    np.testing.assert_allclose(some, every[:, :5], atol=1e-14)
    np.testing.assert_allclose(W, V[:, :5], atol=1e-14)


@pytest.mark.parametrize("layout", ["C", "F"])
def test_signs_order_and_residual_of_what_a_solver_hands_over(layout):
    """A block longer than a run of rows, its columns in no order: the law puts it right, and touches nothing."""
    rng = np.random.default_rng(0)
    A = rng.standard_normal((60, 3000))
    _, s, Vt = np.linalg.svd(A, full_matrices=False)
    mixed = rng.permutation(50)
    Vh = np.asarray(Vt[mixed] * rng.choice([-1.0, 1.0], 50)[:, None], order=layout)
    before = Vh.copy()
    problem = ls.SVD(A, 40, left=True)
    found = problem.conclude(ls.Moments(A), Vh=Vh, S=s[mixed], U=A @ Vh.T / s[mixed]).fields
    np.testing.assert_array_equal(Vh, before)
    np.testing.assert_array_equal(found["S"], s[:40])
    np.testing.assert_allclose(np.abs(np.sum(found["Vh"] * Vt[:40], axis=1)), 1, atol=1e-12)
    largest = np.argmax(np.abs(found["Vh"]), axis=1)
    assert np.all(found["Vh"][np.arange(40), largest] > 0)
    np.testing.assert_allclose(A @ found["Vh"].T, found["U"] * s[:40], atol=1e-10)


def test_the_first_of_equally_large_entries_is_positive():
    V = np.zeros((300_000, 2))
    V[[7, 200_000], 0] = [-1 + 1e-8, 1.0]
    V[[7, 200_000], 1] = [-1 + 1e-4, 1.0]
    V /= np.linalg.norm(V, axis=0)
    A = scipy.sparse.csr_array(V.T)
    found = ls.SVD(A, 2).conclude(ls.Moments(A), Vh=V.T, S=np.ones(2)).fields
    assert found["Vh"][0, 7] > 0 > found["Vh"][0, 200_000]
    assert found["Vh"][1, 7] < 0 < found["Vh"][1, 200_000]


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
def test_in_one_pass_both_span_what_they_span_in_memory(small_blocks, kind, center, test_matrix):
    """Algorithms 3 and 4 on slices, 1 and 2 on the whole: one Ω, one subspace."""
    A, _, _ = with_singular_values(300, 80, DECAYING)
    A = kind(A + center * np.arange(80))
    options = {"rng": 3, "oversampling": 0, "test_matrix": test_matrix}
    plain = ls.solve(ls.SVD(A, 12, center=center), "spca", **options)
    for solver, more in (("spca", {}), ("lazy-spca", {}), ("lazy-spca", {"whiten": False})):
        found = ls.solve(ls.SVD(slices(A), 12, center=center), solver, **options, **more)
        assert found.passes == 1
        assert chordal(plain.Vh, found.Vh) < 1e-8
        np.testing.assert_allclose(found.S, plain.S, rtol=1e-8)
        np.testing.assert_allclose(found.Vh @ found.Vh.T, np.eye(12), atol=1e-12)
        if center:
            np.testing.assert_allclose(found.mean, plain.mean, atol=1e-9)


@pytest.mark.parametrize("solver", ["gram", "spca", "lazy-spca"])
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


@pytest.mark.parametrize("solver", ["spca", "lazy-spca"])
def test_the_estimated_residual_is_the_true_one_within_a_factor_of_three(solver):
    for seed, noise in enumerate((1e-3, 1e-2, 0.1)):
        A, _, _ = with_singular_values(300, 80, np.r_[np.geomspace(3, 1, 8), np.full(60, noise)], seed=seed)
        found = ls.solve(ls.SVD(slices(A), 8), solver, rng=seed + 100)
        V = found.Vh.T
        true = np.linalg.norm(A.T @ (A @ V) - V * found.S**2, axis=0).max() / found.S[0] ** 2
        said = float(re.search(r"estimated residual about (\S+) \(from 10 random", found.message)[1])
        assert true / 3 < said < 3 * true


@pytest.mark.parametrize("solver", ["spca", "lazy-spca"])
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


@pytest.mark.parametrize("solver", ["spca", "lazy-spca"])
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


@pytest.mark.parametrize("solver", ["gram", "spca", "lazy-spca"])
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
