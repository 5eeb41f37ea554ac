"""Block Krylov iteration begun at an earlier answer: what it saves, and that no start can hide a leading vector."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import scipy.sparse

import linspec as ls
from linspec.errors import InvalidProblem, NonFiniteData

SPECTRA = {
    "slow": np.arange(1, 201.0) ** -0.5,
    "one far above": np.r_[1.0, np.geomspace(1e-2, 1e-3, 199)],
    "a cluster behind": np.r_[np.linspace(2, 1.2, 6), 1 - 1e-3 * np.arange(194)],
    "low rank": np.r_[np.geomspace(8, 1, 12), np.zeros(188)],
}
K = 5


def planted(s, n=300, seed=0):
    """A matrix with these singular values, and all right singular vectors as rows."""
    rng = np.random.default_rng(seed)
    U = np.linalg.qr(rng.standard_normal((n, len(s))))[0]
    V = np.linalg.qr(rng.standard_normal((len(s), len(s))))[0]
    return U * s @ V.T, V.T


def solve(A, k=K, **options):
    return ls.solve(ls.SVD(A, k), "block-krylov", **{"rng": 1, "form": "implicit", **options})


def assert_leading(found, s, Vh, tol):
    np.testing.assert_allclose(found.S, s[:K], atol=2 * tol * s[0])
    outside = Vh[:K] - Vh[:K] @ found.Vh.T @ found.Vh
    gap = (s[K - 1] ** 2 - s[K] ** 2) / s[0] ** 2
    assert np.linalg.norm(outside, 2) <= 2 * np.sqrt(K) * tol / gap + 1e-12


HOSTILE = {
    "trailing vectors": lambda Vh: Vh[-K:],
    "trailing vectors of the range": lambda Vh: Vh[12 - K : 12],
    "all but the first": lambda Vh: Vh[1:K],
    "all but the k-th": lambda Vh: Vh[: K - 1],
    "the next in place of the first": lambda Vh: Vh[1 : K + 1],
    "the next in place of the third": lambda Vh: Vh[[0, 1, 3, 4, 5]],
    "many, but not the first": lambda Vh: Vh[1:41],
    "one": lambda Vh: Vh[[7]],
    "of another matrix": lambda Vh: np.random.default_rng(3).standard_normal((K, len(Vh))),
    "the same vector again and again": lambda Vh: np.repeat(Vh[[4]], K, axis=0),
    "zeros": lambda Vh: np.zeros_like(Vh[:K]),
    "all but the first, of extreme lengths": lambda Vh: Vh[1:K] * np.geomspace(1e-300, 1e300, K - 1)[:, None],
    "every vector": lambda Vh: Vh[::-1],
}


@pytest.mark.parametrize("spectrum", SPECTRA)
@pytest.mark.parametrize("start", HOSTILE)
@pytest.mark.parametrize("tol", [1e-6, 1e-10])
@pytest.mark.slow(keep=26)
def test_no_start_hides_a_leading_vector(spectrum, start, tol):
    """Most of these span invariant subspaces: their residual is zero, and they are wrong."""
    s = SPECTRA[spectrum]
    A, Vh = planted(s)
    found = solve(A, tol=tol, start=HOSTILE[start](Vh))
    assert found.status is ls.Status.CONVERGED
    assert_leading(found, s, Vh, tol)


@pytest.mark.parametrize("tol", [1e-3, 1e-9])
def test_copies_of_a_repeated_value_that_the_start_lacks(tol):
    s = np.r_[np.full(30, 5.0), np.linspace(4, 0.1, 170)]
    A, Vh = planted(s)
    for start in (Vh[-20:], Vh[:3], Vh[28:48]):
        found = solve(A, 20, start=start, tol=tol, block=4)
        assert found.converged
        np.testing.assert_allclose(found.S, 5.0, atol=10 * tol)


@pytest.mark.parametrize("center", [False, True])
def test_starts_of_sparse_data_on_the_side_of_the_rows(center):
    A = scipy.sparse.random(80, 600, 0.1, random_state=0, format="csr")
    dense = A.toarray() - center * A.toarray().mean(axis=0)
    s, Vh = np.linalg.svd(dense, full_matrices=False)[1:]
    problem = ls.SVD(A, K, center=center, left=True)
    for start in (Vh[:K], Vh[1 : K + 1], Vh[-30:]):
        found = ls.solve(problem, "block-krylov", rng=0, start=start, tol=1e-9, form="implicit")
        assert found.converged
        assert_leading(found, s, Vh, 1e-9)
        np.testing.assert_allclose(dense @ found.Vh.T, found.U * found.S, atol=1e-7)
    passes = found.passes
    again = ls.solve(
        problem, "block-krylov", rng=0, start=Vh[-30:], tol=1e-9, form="implicit", max_passes=passes - 1
    )
    assert again.passes < passes, "the ceiling holds"


def test_an_invariant_start_is_not_taken_for_the_answer_when_the_run_is_cut_short():
    A, Vh = planted(SPECTRA["slow"])
    for start in (Vh[1 : K + 1], Vh[:K]):  # the second is right, and nothing has shown it
        for limit in ({"max_passes": 2}, {"max_iterations": 1}, {"callback": lambda progress: True}):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ls.errors.ConvergenceWarning)
                found = solve(A, start=start, block=1, **limit)
            assert not found.converged
            assert "could show that the start lacks no leading singular vector" in found.message


def test_the_residual_of_an_unproven_start_is_told_as_it_is():
    A, Vh = planted(SPECTRA["slow"])
    found = solve(A, start=Vh[1 : K + 1], block=2)
    assert found.history["residual"][0] < 1e-12
    assert found.iterations > 1
    assert found.converged


def test_a_missing_value_just_above_one_that_the_start_has():
    """The random columns must tell 0.96 from 0.9599 before the start is believed."""
    s = np.r_[np.ones(4), 0.96, 0.9599, np.linspace(0.9, 0.1, 1494)]
    A = scipy.sparse.diags_array(s).tocsr()
    start = np.eye(1500)[[0, 1, 2, 3, 5]]
    for seed in range(4):
        found = ls.solve(ls.SVD(A, 5), "block-krylov", rng=seed, start=start, tol=1e-6, form="implicit")
        assert found.converged
        np.testing.assert_allclose(found.S, s[:5], atol=1e-9)


# ---- what it saves ----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def slow():
    """A matrix whose leading vectors take many passes: the 20th value is near the 21st."""
    return planted(np.arange(1, 401.0) ** -0.5, n=600)[0]


def test_the_answer_of_a_slightly_changed_matrix_saves_passes(slow):
    near = solve(slow + 1e-6 * np.random.default_rng(0).standard_normal(slow.shape) / 30, 20, tol=1e-8)
    cold, warm = solve(slow, 20, tol=1e-8), solve(slow, 20, tol=1e-8, start=near)
    assert warm.converged
    assert warm.passes < 0.75 * cold.passes
    np.testing.assert_allclose(warm.S, cold.S, rtol=1e-9)


# ---- what is refused --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("start", "error", "match"),
    [
        (
            np.ones((2, 199)),
            InvalidProblem,
            r"Vh with the columns, \[200\].*got \[\(2, 199\)\]",
        ),
        (np.ones(200), InvalidProblem, r"got \[\(200,\)\]"),
        (np.ones((0, 200)), InvalidProblem, r"got \[\(0, 200\)\]"),
        (np.ones((201, 200)), InvalidProblem, r"at most so many vectors; got \[\(201, 200\)\]"),
        ({"V": np.ones((2, 200))}, InvalidProblem, "start must have Vh with the columns"),
        ("earlier", InvalidProblem, r"earlier cannot be read: there is no such file"),
        (np.full((2, 200), np.nan), NonFiniteData, "Vh of start"),
    ],
)
def test_refusals(start, error, match):
    A, _ = planted(SPECTRA["slow"])
    with pytest.raises(error, match=match):
        solve(A, start=start)


def test_rests_of_very_different_lengths_lose_nothing():
    """Known vectors that are no leading ones leave rests from 5 down to rounding: the law agrees with the loop."""
    A, Vh = planted(SPECTRA["one far above"])
    found = solve(A, start={"Vh": Vh[1 : K + 1]}, tol=1e-10)
    assert_leading(found, SPECTRA["one far above"], Vh, 1e-10)
    assert found.passes <= 6
