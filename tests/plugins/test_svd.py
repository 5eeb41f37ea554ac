"""Truncated SVD: every solver at the edge, small values and copies, sketches within bounds, explained variance."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from planted import factored
from scipy.sparse.linalg import aslinearoperator

import linspec as ls
from linspec import Status
from linspec.errors import InvalidProblem

EPS = np.finfo(np.float64).eps
STEEP = np.geomspace(1, 1e-12, 13)


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


@pytest.mark.parametrize("kind", [np.asarray, scipy.sparse.csr_array])
def test_left_vectors_of_weighted_rows_are_those_of_rows_times_root_weights(kind):
    rng = np.random.default_rng(0)
    A, w = rng.standard_normal((60, 8)) * np.geomspace(8, 1, 8), rng.integers(0, 4, 60) * 0.5
    U = np.linalg.svd((A - np.average(A, axis=0, weights=w)) * np.sqrt(w)[:, None], full_matrices=False)[0]
    for solver in ("gram", "direct", "block-krylov"):
        found = ls.solve(ls.SVD(kind(A), 3, center=True, sample_weight=w, left=True), solver, rng=0)
        assert np.abs(found.U.T @ found.U - np.eye(3)).max() < 1e-10
        np.testing.assert_allclose(np.abs(np.sum(found.U * U[:, :3], axis=0)), 1, atol=1e-8)


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


SOLVERS = ls.solvers("svd")
ITERATING = {"block-krylov", "lanczos"}


def planted(n: int, p: int, values: Any) -> Any:
    return factored(n, p, values)[0]


def cases() -> Iterator[tuple[str, Any, int]]:
    """Names, matrices, and how many triplets are asked of them."""
    rng = np.random.default_rng(1)
    five = [5.0, 4.0, 3.0, 2.0, 1.0]
    for n, p in ((40, 15), (15, 40)):
        size = f"{n} x {p}"
        for k, words in ((3, "below"), (5, "at"), (8, "above"), (15, "far above")):
            yield f"{size}, k {words} the rank", planted(n, p, five), k
        yield f"{size}, every triplet", planted(n, p, np.linspace(3, 1, 15)), 15
        yield f"{size}, zero", np.zeros((n, p)), 3
    for n, p in ((80, 50), (50, 80)):
        size, tail = f"{n} x {p}", np.geomspace(1, 0.1, 20)
        yield f"{size}, a pair cut", planted(n, p, np.repeat([5, 4, 3, 2], 2)), 5
        yield f"{size}, five equal", planted(n, p, [7] + [4] * 5 + [2, 1]), 6
        yield f"{size}, more equal than a block", planted(n, p, [*([4] * 25), *tail]), 3
        yield f"{size}, more equal than a block, all", planted(n, p, [*([4] * 25), *tail]), 25
        yield f"{size}, all equal", planted(n, p, [2] * 50), 4
        yield f"{size}, nearly equal", planted(n, p, [3, 3 - 1e-9, 3 - 2e-9, *tail]), 3
        yield f"{size}, duplicate columns", np.repeat(planted(n, p // 5, five), 5, axis=1), 7
        yield f"{size}, columns of zeros", planted(n, p, five) * (np.arange(p) % 3 == 0), 4
        yield f"{size}, steep", planted(n, p, np.geomspace(1, 1e-5, 6)), 6
        yield f"{size}, steep to rounding", planted(n, p, np.geomspace(1, 1e-16, 9)), 9
    yield "1 x 9", rng.standard_normal((1, 9)), 1
    yield "9 x 1, constant", np.full((9, 1), 0.1), 1
    yield "some columns constant", np.hstack([planted(40, 6, five), np.full((40, 3), 0.1)]), 9
    yield "all columns constant", np.tile([0.1, 0.7, -3.3, 1e5], (20, 1)), 2
    yield "means of a thousand times the spread", 1e3 + planted(40, 12, five), 4


CASES = {name: (A, k) for name, A, k in cases()}


KINDS = {"dense": np.asarray, "sparse": scipy.sparse.csr_array}


GAVE_UP = {Status.STAGNATED, Status.BREAKDOWN, Status.INACCURATE, Status.ITERATION_LIMIT}
"""Endings by which a solver reports that the answer is not the requested one."""


@cache
def exact(name: str, center: bool) -> Any:
    """What is decomposed, and NumPy's singular values; of a constant column the rounding of its mean is left."""
    A, _ = CASES[name]
    B = (A - center * A.mean(axis=0)) * (np.ptp(A, axis=0) > 0 if center else 1)
    return B, np.linalg.svd(B, compute_uv=False)


def right_or_said(name: str, solver: str, kind: str, *, center: bool, left: bool) -> None:
    (A, k), (B, s) = CASES[name], exact(name, center)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        problem = ls.SVD(KINDS[kind](A), k, center=center, left=left)
        found = ls.solve(problem, solver, rng=0, **({"tol": 1e-10} if solver in ITERATING else {}))
    S, V, m, first = found.S, found.Vh.T, len(found.S), s[0] or 1.0
    rank = np.sum(s > max(A.shape) * np.finfo(float).eps * max(s[0], center * np.linalg.norm(A)))
    wanted, hidden = min(k, rank), found.status is Status.ILL_CONDITIONED
    assert m <= wanted or S[wanted] <= 1e-13 * first  # which may be one or none, for NumPy as well
    assert m >= wanted or s[m] < 1e-13 * first or hidden
    assert m == k or hidden or (found.status is Status.RANK_DEFICIENT and f"{m} of the {k}" in found.message)
    for W in (V, found.U) if left else (V,):
        np.testing.assert_allclose(W.T @ W, np.eye(m), atol=1e-11)
    assert (found.U is not None) == left
    assert np.all(S[1:] <= S[:-1])
    law = np.linalg.norm(B.T @ (B @ V) - V * S**2, axis=0).max(initial=0.0) / (S[:1].sum() or 1.0) ** 2
    assert found.residual == pytest.approx(law, rel=1e-3, abs=1e-9)
    if solver.endswith("spca") and rank > k + 10 and not found.converged:  # which are exact up to this rank
        assert found.status in {Status.APPROXIMATE, *GAVE_UP}
    elif found.status not in GAVE_UP:
        np.testing.assert_allclose(S[:wanted], s[: len(S[:wanted])], atol=(1e-7 if hidden else 1e-8) * first)
        off = B @ V - found.U * S if left else np.linalg.norm(B @ V, axis=0) - S
        np.testing.assert_allclose(off, 0, atol=1e-6 * first)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("name", CASES)
@pytest.mark.slow(keep=90)
def test_right_or_said(name: str, solver: str, kind: str) -> None:
    for center in (False, True):
        for left in (False, True):
            right_or_said(name, solver, kind, center=center, left=left)


@pytest.mark.parametrize(("shape", "k"), [((4, 9), 5), ((9, 4), 5), ((3, 3), 0)])
def test_more_than_there_can_be_is_refused_before_work(shape: tuple[int, int], k: int) -> None:
    with pytest.raises(InvalidProblem, match=rf"k must be between 1 and {min(shape)} .*got {k}"):
        ls.solve(ls.SVD(scipy.sparse.csr_array(np.ones(shape)), k), "block-krylov")


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


def test_the_estimated_residual_is_the_true_one_within_a_factor_of_three():
    for seed, noise in enumerate((1e-3, 1e-2, 0.1)):
        A, _, _ = factored(300, 80, np.r_[np.geomspace(3, 1, 8), np.full(60, noise)], seed=seed)
        found = ls.solve(ls.SVD(slices(A), 8), "lazy-spca", rng=seed + 100)
        V = found.Vh.T
        true = np.linalg.norm(A.T @ (A @ V) - V * found.S**2, axis=0).max() / found.S[0] ** 2
        said = float(re.search(r"estimated residual about (\S+), from random", found.message)[1])
        assert true / 3 < said < 3 * true


SHAPES = [(300, 40), (40, 300)]
every_solver = pytest.mark.parametrize("solver", SOLVERS)


def uneven(n, p, rank=None, seed=0):
    """Sparse, its columns of very different density, size and mean; of a lower rank where asked."""
    rng = np.random.default_rng([seed, n, p])
    density = np.geomspace(0.9, 0.05, p)
    A = np.where(rng.random((n, p)) < density, rng.gamma(2.0, 1.0, (n, p)) * np.geomspace(20, 1, p), 0.0)
    if rank is None:
        return A
    mixing = np.where(rng.random((rank, p)) < 0.4, rng.standard_normal((rank, p)), 0.0)
    return A[:, :rank] @ mixing


def solved(data, k, solver, **given):
    tol = {"tol": 1e-12} if solver in ITERATING else {}
    powers = {"power_iterations": 4} if solver in {"spca", "lazy-spca"} else {}
    return ls.solve(ls.SVD(data, k, **given), solver, rng=0, **tol, **powers)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(
    ("solver", "kind"),
    [(solver, kind) for solver in SOLVERS for kind in ("dense", "sparse")] + [("gram", "read once")],
)
def test_as_pca_of_scikit_learn(solver, kind, shape):
    """The randomized solvers on data of low rank, where they are exact."""
    PCA = pytest.importorskip("sklearn.decomposition").PCA
    k, left = 6, kind != "read once"
    A = uneven(*shape, rank=12 if solver in {"spca", "lazy-spca"} else None)
    found = solved((slices(A) if kind == "read once" else KINDS[kind](A)), k, solver, center=True, left=left)
    peer = PCA(n_components=k, svd_solver="full").fit(A)
    np.testing.assert_allclose(found.S, peer.singular_values_, rtol=1e-8)
    turned = np.sign(np.sum(found.Vh * peer.components_, axis=1))[:, None]
    np.testing.assert_allclose(found.Vh, turned * peer.components_, atol=1e-8)
    np.testing.assert_allclose(found.mean, peer.mean_, rtol=1e-12)
    np.testing.assert_allclose(found.explained_variance_ratio, peer.explained_variance_ratio_, rtol=1e-8)
    np.testing.assert_allclose(found.explained_variance, peer.explained_variance_, rtol=1e-8)
    np.testing.assert_allclose(found.total_variance, A.var(axis=0, ddof=1).sum(), rtol=1e-11)
    if left:
        scores = peer.transform(A) * turned.T
        np.testing.assert_allclose(found.U * found.S, scores, atol=1e-8 * peer.singular_values_[0])


@every_solver
@pytest.mark.parametrize("shape", SHAPES)
def test_without_centring_about_zero(solver, shape):
    """All shares add up to one, and that of the first includes the means."""
    A = uneven(*shape)
    found = solved(scipy.sparse.csr_array(A), 40, solver)
    np.testing.assert_allclose(found.total_squares, np.sum(A**2), rtol=1e-12)
    np.testing.assert_allclose(found.explained_variance_ratio.sum(), 1, rtol=1e-7)
    assert (found.explained_variance, found.total_variance, found.rows) == (None, None, shape[0])


@pytest.mark.parametrize("center", [False, True])
def test_products_alone_do_not_tell_it(center):
    """Probes give column norms to about a quarter: nothing to put beside singular values."""
    A = uneven(300, 40)
    problem = ls.SVD(aslinearoperator(A), 3, center=center)
    found = ls.solve(problem, "block-krylov", rng=0, form="implicit")
    assert found.total_squares is None
    assert found.explained_variance_ratio is None
    assert found.total_variance is None
    assert (found.explained_variance is None) == (not center)
    formed = ls.solve(problem, "gram")  # which forms the Gram matrix
    np.testing.assert_allclose(formed.total_squares, np.sum((A - center * A.mean(axis=0)) ** 2))


@pytest.mark.parametrize(
    "made", [np.asarray, scipy.sparse.csr_array, lambda X: lambda: iter([X[:70], X[70:]])]
)
def test_the_summary_says_that_the_first_component_is_the_means(made):
    X = np.random.default_rng(1).standard_normal((200, 5)) * [1, 2, 3, 4, 5]
    U = np.linalg.svd(X + 4, full_matrices=False)[0]
    share = np.sum(U[:, 0]) ** 2 / len(U)  # the squared cosine with the vector of ones
    found = ls.solve(ls.SVD(made(X + 4), k=2))
    assert np.isclose(found.share_of_means, share)
    assert f"{share:.0%} of component 1 is the column means" in str(found.summary())
    assert found.passes == ls.solve(ls.SVD(made(X + 4), k=2, center=True)).passes
    for quiet in (ls.SVD(made(X + 4), k=2, center=True), ls.SVD(made(X - X.mean(axis=0)), k=2)):
        assert "column means" not in str(ls.solve(quiet).summary())
