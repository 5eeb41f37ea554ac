"""Block Krylov iteration: repeated and close values, restarts, and starts that cannot hide a leading vector."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import scipy.sparse
from planted import factored

import linspec as ls
from linspec.errors import InvalidProblem
from linspec_svd import block_krylov

K = 5


def solve(A, k=K, **options):
    return ls.solve(ls.SVD(A, k), "block-krylov", **{"rng": 1, "form": "implicit", **options})


def with_singular_values(n, p, s, seed=0):
    return factored(n, p, s, seed)[0]


def law(A, found):
    """max ‖AᵀA v − σ²v‖ / σ₁², from the arrays returned."""
    V = found.Vh.T
    return np.linalg.norm(A.T @ (A @ V) - V * found.S**2, axis=0).max() / found.S[0] ** 2


REPEATED = {
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
    for seed in range(2):
        # A warning of INACCURATE is an error here: it takes itself for converged where the law agrees.
        found = solve(A, k, rng=seed, block=block, tol=tol)
        np.testing.assert_allclose(found.S, s[:k], atol=10 * tol * s[0])
        np.testing.assert_allclose(found.Vh @ found.Vh.T, np.eye(len(found.S)), atol=1e-12)


@pytest.mark.parametrize(("tol", "block", "k"), [(1e-3, 8, 33), (1e-5, 3, 19), (1e-6, 5, 10)])
def test_values_that_differ_by_less_than_the_tolerance(tol, block, k):
    """More of them than a block has columns: the iteration sees no more than it has columns at first."""
    for seed in range(4):
        s = 1 + tol * np.sort(np.random.default_rng(seed).random(40))[::-1]
        found = solve(with_singular_values(120, 90, s), k, rng=seed, block=block, tol=tol)
        np.testing.assert_allclose(found.S, s[:k], atol=10 * tol)


@pytest.mark.slow
def test_a_budget_that_ends_the_look_for_more_copies_is_said():
    A = scipy.sparse.csr_array(with_singular_values(300, 200, REPEATED["one below the largest"][0]))
    answers = [solve(A, 40, rng=0, block=8, max_passes=most) for most in range(12, 40)]
    unsure = [answer for answer in answers if "may be missing" in answer.message]
    assert unsure
    assert not any(answer.converged for answer in unsure)
    assert "missing" not in solve(A, 40, rng=0, block=8).message


@pytest.mark.parametrize("solver", ["block-krylov", "gram"])
def test_rounding_of_float32_products_is_no_singular_value(solver):
    rng = np.random.default_rng(0)
    A = (np.outer(rng.standard_normal(90), rng.standard_normal(140)) + rng.standard_normal(140)).astype("f4")
    exact = np.linalg.svd(A - A.mean(axis=0, dtype=float), compute_uv=False)
    for data in (A, scipy.sparse.linalg.aslinearoperator(A)):
        found = ls.solve(ls.SVD(data, 3, center=True), solver, rng=0)
        assert found.status is ls.Status.RANK_DEFICIENT
        np.testing.assert_allclose(found.S, exact[: len(found.S)], atol=1e-6 * exact[0])


@pytest.mark.parametrize("tol", [1e-5, 1e-8, 1e-11])
def test_a_basis_that_is_begun_again_at_each_step_stays_orthogonal(tol):
    """Restarts that pass the loss of orthogonality on multiply it by four each, and the iteration does not see it."""
    for seed in range(2):
        A = with_singular_values(300, 160, np.arange(1, 161.0) ** -0.4, seed)
        found = solve(A, 12, rng=seed, basis=40, tol=tol)
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


SPECTRA = {
    "slow": np.arange(1, 201.0) ** -0.5,
    "one far above": np.r_[1.0, np.geomspace(1e-2, 1e-3, 199)],
    "a cluster behind": np.r_[np.linspace(2, 1.2, 6), 1 - 1e-3 * np.arange(194)],
    "low rank": np.r_[np.geomspace(8, 1, 12), np.zeros(188)],
}


def planted(s):
    """A matrix with these singular values, and all right singular vectors as rows."""
    A, _, V = factored(300, 200, s)
    return A, V.T


def assert_leading(found, s, Vh, tol):
    np.testing.assert_allclose(found.S, s[:K], atol=2 * tol * s[0])
    outside = Vh[:K] - Vh[:K] @ found.Vh.T @ found.Vh
    gap = (s[K - 1] ** 2 - s[K] ** 2) / s[0] ** 2
    assert np.linalg.norm(outside, 2) <= 2 * np.sqrt(K) * tol / gap + 1e-12


HOSTILE = {
    "trailing vectors": lambda Vh: Vh[-K:],
    "all but the first": lambda Vh: Vh[1:K],
    "all but the k-th": lambda Vh: Vh[: K - 1],
    "the next in place of the third": lambda Vh: Vh[[0, 1, 3, 4, 5]],
    "of another matrix": lambda Vh: np.random.default_rng(3).standard_normal((K, len(Vh))),
    "the same vector again and again": lambda Vh: np.repeat(Vh[[4]], K, axis=0),
    "all but the first, of extreme lengths": lambda Vh: Vh[1:K] * np.geomspace(1e-300, 1e300, K - 1)[:, None],
    "every vector": lambda Vh: Vh[::-1],
}


@pytest.mark.parametrize("spectrum", SPECTRA)
@pytest.mark.parametrize("start", HOSTILE)
@pytest.mark.parametrize("tol", [1e-6, 1e-10])
@pytest.mark.slow(keep=22)
def test_no_start_hides_a_leading_vector(spectrum, start, tol):
    """Most of these span invariant subspaces: their residual is zero, and they are wrong."""
    A, Vh = planted(SPECTRA[spectrum])
    found = solve(A, tol=tol, start=HOSTILE[start](Vh))
    assert found.status is ls.Status.CONVERGED
    assert_leading(found, SPECTRA[spectrum], Vh, tol)


def test_starts_of_sparse_data_on_the_side_of_the_rows():
    A = scipy.sparse.random(80, 600, 0.1, random_state=0, format="csr")
    dense = A.toarray() - A.toarray().mean(axis=0)
    s, Vh = np.linalg.svd(dense, full_matrices=False)[1:]
    problem, options = ls.SVD(A, K, center=True, left=True), {"rng": 0, "tol": 1e-9, "form": "implicit"}
    for start in (Vh[:K], Vh[1 : K + 1], Vh[-30:]):
        found = ls.solve(problem, "block-krylov", start=start, **options)
        assert found.converged
        assert_leading(found, s, Vh, 1e-9)
        np.testing.assert_allclose(dense @ found.Vh.T, found.U * found.S, atol=1e-7)


def test_an_invariant_start_is_not_taken_for_the_answer_when_the_run_is_cut_short():
    A, Vh = planted(SPECTRA["slow"])
    for start in (Vh[1 : K + 1], Vh[:K]):  # the second is right, and nothing has shown it
        for limit in ({"max_passes": 2}, {"max_iterations": 1}, {"callback": lambda progress: True}):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ls.errors.ConvergenceWarning)
                found = solve(A, start=start, block=1, **limit)
            assert not found.converged
            assert "could show that the start lacks no leading singular vector" in found.message


def test_a_missing_value_just_above_one_that_the_start_has():
    """The random columns must tell 0.96 from 0.9599 before the start is believed."""
    s = np.r_[np.ones(4), 0.96, 0.9599, np.linspace(0.9, 0.1, 1494)]
    A = scipy.sparse.diags_array(s).tocsr()
    start = np.eye(1500)[[0, 1, 2, 3, 5]]
    for seed in range(2):
        found = solve(A, rng=seed, start=start, tol=1e-6)
        assert found.converged
        np.testing.assert_allclose(found.S, s[:5], atol=1e-9)


def test_starts_of_other_columns_or_of_too_many_vectors_are_refused():
    A, _ = planted(SPECTRA["slow"])
    with pytest.raises(InvalidProblem, match=r"Vh with the columns, \[200\].*got \[\(2, 199\)\]"):
        solve(A, start=np.ones((2, 199)))
    with pytest.raises(InvalidProblem, match=r"at most so many vectors; got \[\(201, 200\)\]"):
        solve(A, start=np.ones((201, 200)))


def words():
    """More columns than rows, and entries enough for products in float32."""
    A = scipy.sparse.random_array((600, 4000), density=0.08, rng=np.random.default_rng(0), format="csr")
    return A @ scipy.sparse.diags_array(1.0 / np.sqrt(np.arange(1.0, 4001.0)))


@pytest.mark.parametrize("unit", [1.0, 1e-11, 1e11, 1e-40, 1e40])
def test_products_in_float32_leave_the_answer_as_exact(unit):
    A = words()
    assert A.nnz >= block_krylov.WORTH
    exact = np.linalg.svd(A.toarray(), compute_uv=False)[:10]
    found = solve(unit * A, 10, tol=1e-6)
    assert found.converged
    assert law(unit * A, found) <= 1.01e-6
    np.testing.assert_allclose(found.S / unit, exact, rtol=1e-7)
    np.testing.assert_allclose(found.Vh @ found.Vh.T, np.eye(10), atol=1e-12)


@pytest.mark.parametrize("options", [{}, {"scale": True}, {"sample_weight": np.arange(600) % 3.0}])
@pytest.mark.parametrize("gap", [3e-6, 1e-4, 1e-2])
def test_exact_products_go_on_where_those_in_float32_do_not_suffice(options, gap, monkeypatch):
    begun = []

    def coarse(arrays, shape):
        begun.append(shape)
        signs = np.random.default_rng(0).choice([-gap, gap], len(arrays[0]))
        return scipy.sparse.csr_array((arrays[0] * (1 + signs.astype(np.float32)), *arrays[1:]), shape)

    monkeypatch.setattr(block_krylov, "csr_array", coarse)
    problem = ls.SVD(words(), 10, **options)
    found = ls.solve(problem, "block-krylov", rng=1, form="implicit", tol=1e-6)
    assert found.converged
    assert begun == [(600, 4000)]
    exact = ls.solve(problem, "block-krylov", rng=0, form="implicit", tol=1e-11)
    assert begun == [(600, 4000)]
    np.testing.assert_allclose(found.S, exact.S, rtol=1e-7)


def test_centred_rows_are_multiplied_in_float64(monkeypatch):
    """A mean that is subtracted from products would lose their digits."""
    monkeypatch.setattr(block_krylov, "csr_array", None)
    assert ls.solve(ls.SVD(words(), 10, center=True), "block-krylov", rng=0, form="implicit").converged
