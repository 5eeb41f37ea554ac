"""Views without full rank, without a ridge: as many correlations are exactly 1 as the column spaces share dimensions.

dim(col X ∩ col Y) = rank X + rank Y − rank [X Y], of the columns about their means where the problem centres; there are
min(rank X, rank Y) pairs in all, and no noise beyond them.
"""

from __future__ import annotations

import array_api_strict
import numpy as np
import pytest
import scipy.linalg
import scipy.sparse

import linspec as ls
from linspec.arrays import to_host

N = 60


def shared_directions(rng):
    """Two directions are in both views."""
    g = rng.standard_normal
    S = g((N, 2))
    return np.hstack([S, g((N, 6))]) @ rotation(rng, 8), np.hstack([S, g((N, 5))]) @ rotation(rng, 7)


def low_rank(rng):
    """Rank 4 of 12 and 9 columns, one direction in both."""
    g = rng.standard_normal
    F = g((N, 4))
    return F @ g((4, 12)), np.hstack([F[:, :1], g((N, 3))]) @ g((4, 9))


def both_wide(rng):
    """Fewer rows than either view has columns: everything is shared, by chance."""
    return rng.standard_normal((20, 30)), rng.standard_normal((20, 25))


def one_wide(rng):
    return rng.standard_normal((20, 30)), rng.standard_normal((20, 5))


def together_wide(rng):
    """Each view has fewer columns than rows, both together have more."""
    return rng.standard_normal((30, 18)), rng.standard_normal((30, 15))


def duplicates(rng):
    """Repeated, zero and constant columns."""
    X = rng.standard_normal((N, 6))
    Y = np.hstack([X[:, :1] + rng.standard_normal((N, 1)), rng.standard_normal((N, 4))])
    return np.hstack([X, X[:, :3], np.zeros((N, 2)), np.full((N, 1), 3.0)]), Y


def one_view_twice(rng):
    X = rng.standard_normal((N, 6))
    return X, X @ rotation(rng, 6) * 1e-3


def one_hot(rng):
    """Indicators add up to ones: shared without centring, dependent with it."""
    return np.eye(5)[rng.integers(0, 5, N)], np.eye(4)[rng.integers(0, 4, N)]


def scaled_apart(rng):
    """A shared direction made of columns a million times shorter than the rest."""
    X, Y = shared_directions(rng)
    return X * np.geomspace(1, 1e-6, 8), Y * np.geomspace(1e6, 1, 7)


def rotation(rng, p):
    return np.linalg.qr(rng.standard_normal((p, p)))[0]


CASES = [
    shared_directions,
    low_rank,
    both_wide,
    one_wide,
    together_wide,
    duplicates,
    one_view_twice,
    one_hot,
    scaled_apart,
]
OPTIONS = {
    "direct": {},
    "gram": {},
    "als": {"rng": 0, "tol": 1e-11},
    "lobpcg": {"rng": 0, "tol": 1e-11},
    "auto": {},
}


class Truth:
    """Ranks and correlations by SVDs of the dense columns, scaled alike."""

    def __init__(self, X, Y, center):
        X, Y = (A - A.mean(axis=0) if center else A for A in (X, Y))
        X, Y = (A / np.maximum(np.linalg.norm(A, axis=0), 1e-9) for A in (X, Y))
        self.ranks = tuple(np.linalg.matrix_rank(A, tol=1e-9) for A in (X, Y))
        self.ones = sum(self.ranks) - np.linalg.matrix_rank(np.hstack([X, Y]), tol=1e-9)
        self.correlations = np.cos(np.sort(scipy.linalg.subspace_angles(basis(X), basis(Y))))


def basis(A):
    U, s, _ = np.linalg.svd(A, full_matrices=False)
    return U[:, s > 1e-9]


@pytest.mark.parametrize("center", [True, False], ids=["centred", "uncentred"])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
@pytest.mark.parametrize("solver", OPTIONS)
@pytest.mark.slow(keep=15)
def test_as_many_ones_as_shared_dimensions(solver, case, center):
    for seed in range(3):
        X, Y = case(np.random.default_rng(seed))
        truth = Truth(X, Y, center)
        pairs = min(truth.ranks)
        for k in (min(3, pairs), min(*X.shape, *Y.shape)):
            found = ls.solve(ls.CCA(X, Y, k, center=center), solver, **OPTIONS[solver])
            assert len(found.correlations) == min(k, pairs)
            np.testing.assert_allclose(found.correlations, truth.correlations[:k], atol=1e-9)
            assert found.converged
            if found.ranks is not None:
                assert found.ranks == truth.ranks
            ones = min(truth.ones, k)
            assert np.sum(found.correlations > 1 - 1e-8) == ones
            said(found, ones, k, pairs, deficient=truth.ranks != (X.shape[1], Y.shape[1]))
            # The variates are what the numbers say.
            score = found.score(X, Y)
            np.testing.assert_allclose(score.correlations, truth.correlations[:k], atol=1e-7)


def said(found, ones, k, pairs, *, deficient):
    """The status and its advice."""
    if ones:
        told = f"{ones} of {len(found.correlations)} correlations {'is' if ones == 1 else 'are'} 1"
        assert told in found.message
        assert "ridge" in found.message
        assert found.status in (ls.Status.DEGENERATE, ls.Status.RANK_DEFICIENT)
    else:
        assert "correlations are 1" not in found.message
    if k > pairs:
        assert found.status is ls.Status.RANK_DEFICIENT
        assert f"{pairs} of the {k} asked for are returned" in found.message
    if deficient and found.ranks is not None:
        assert found.status is ls.Status.RANK_DEFICIENT
        assert "numerical rank" in found.message


@pytest.mark.parametrize("case", CASES[:-1], ids=lambda case: case.__name__)
@pytest.mark.parametrize("solver", ["direct", "gram"])
def test_float32_data_are_told_to_their_rounding(solver, case):
    X, Y = case(np.random.default_rng(0))
    truth = Truth(X, Y, center=True)
    k = min(*X.shape, *Y.shape)
    found = ls.solve(ls.CCA(X.astype(np.float32), Y.astype(np.float32), k), solver)
    np.testing.assert_allclose(found.correlations, truth.correlations[:k], atol=1e-5)
    assert found.ranks == truth.ranks
    said(found, truth.ones, k, min(truth.ranks), deficient=truth.ranks != (X.shape[1], Y.shape[1]))


@pytest.mark.parametrize(
    "convert", [scipy.sparse.csr_array, array_api_strict.asarray], ids=["sparse", "strict"]
)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
@pytest.mark.parametrize("solver", ["direct", "gram", "als"])
@pytest.mark.slow(keep=14)
def test_other_kinds_of_data_are_told_alike(solver, case, convert):
    X, Y = case(np.random.default_rng(1))
    k = min(3, *Truth(X, Y, center=True).ranks)
    reference = ls.solve(ls.CCA(X, Y, k), solver, **OPTIONS[solver])
    found = ls.solve(ls.CCA(convert(X), convert(Y), k), solver, **OPTIONS[solver])
    np.testing.assert_allclose(found.correlations, reference.correlations, atol=1e-9)
    assert found.ranks == reference.ranks
    assert found.status is reference.status
    assert np.isfinite(to_host(found.x_weights)).all()


@pytest.mark.parametrize("solver", OPTIONS)
@pytest.mark.parametrize("form", ["implicit", "dense"])
def test_views_without_any_spread_have_no_pairs(solver, form):
    rng = np.random.default_rng(0)
    Y = rng.standard_normal((N, 3))
    options = OPTIONS[solver] | ({"form": form} if solver == "als" else {})
    for X in (np.zeros((N, 4)), np.full((N, 4), 0.1)):
        found = ls.solve(ls.CCA(X, Y, 2), solver, **options)
        assert found.x_weights.shape == (4, 0)
        assert found.residual == 0
        assert found.status is ls.Status.RANK_DEFICIENT
        assert "0 of the 2 asked for" in found.message
        assert found.score(X, Y).total == 0.0
    found = ls.solve(ls.CCA(np.full((N, 4), 0.1), Y, 2, center=False), solver, **options)
    projected = Y @ np.linalg.lstsq(Y, np.ones(N), rcond=None)[0]
    assert found.correlations == pytest.approx([np.linalg.norm(projected) / np.sqrt(N)], abs=1e-9)


@pytest.mark.parametrize("solver", ["direct", "gram"])
def test_the_ridge_that_is_suggested_puts_what_is_there_first(solver):
    """One direction in 30 and 25 columns, 20 rows: without a ridge it is lost among what is shared by chance."""
    rng = np.random.default_rng(0)
    shared = rng.standard_normal((400, 1))
    X, Y = rng.standard_normal((400, 30)) + shared, rng.standard_normal((400, 25)) + shared
    alarmed = ls.solve(ls.CCA(X[:20], Y[:20], 3), solver)
    assert np.abs(alarmed.score(X[20:], Y[20:]).correlations).max() < 0.3
    least = max(map(float, alarmed.message.split("A ridge of about (")[1].split(")")[0].split(", ")))
    found = ls.solve(ls.CCA(X[:20], Y[:20], 3, ridge=least), solver)
    correlations, _ = found.score(X[20:], Y[20:])
    assert correlations[0] > 0.9
    assert np.abs(correlations[1:]).max() < 0.3
    # In the rows fitted all of them look alike.
    assert found.correlations.min() > 0.999


def test_views_of_different_size_are_told_a_ridge_each():
    X, Y = both_wide(np.random.default_rng(0))
    found = ls.solve(ls.CCA(1e-3 * X, 1e3 * Y, 3), "direct")
    pair = found.message.split("A ridge of about (")[1].split(")")[0]
    rx, ry = (float(part) for part in pair.split(", "))
    assert ry / rx == pytest.approx(1e12, rel=0.5)


def test_new_rows_tell_shared_directions_from_chance():
    """Shared and chance directions have a correlation of 1; on other rows only the shared ones keep it."""
    rng = np.random.default_rng(0)
    X, Y = rng.standard_normal((400, 30)), rng.standard_normal((400, 25))
    chance = ls.solve(ls.CCA(X[:20], Y[:20], 3), "direct")
    assert np.abs(chance.score(X[20:], Y[20:]).correlations).max() < 0.3
    Y[:, 0] = X @ rng.standard_normal(30)
    exact = ls.solve(ls.CCA(X[:200], Y[:200], 3), "direct")
    correlations, _ = exact.score(X[200:], Y[200:])
    assert correlations[0] == pytest.approx(1, abs=1e-10)
    assert np.abs(correlations[1:]).max() < 0.7


@pytest.mark.parametrize("solver", ["gram", "lobpcg", "als", "auto"])
def test_directions_far_below_those_that_a_gram_matrix_keeps_are_seen(solver):
    """Nine rows and columns with singular values of 1, 5e-6 and 3e-11: the correlations are 1."""
    rng = np.random.default_rng(0)
    U, V = (np.linalg.qr(rng.standard_normal((9, 9)))[0] for _ in range(2))
    X, Y = U * np.repeat([1.0, 5e-6, 3e-11], 3) @ V.T, rng.standard_normal((9, 2))
    found = ls.solve(
        ls.CCA(X, Y, 1, center=False), solver, **({} if solver in ("gram", "auto") else {"rng": 0})
    )
    right = abs(found.correlations[0] - 1) < 1e-6
    assert right or found.status is ls.Status.ILL_CONDITIONED
