"""Views without full rank, without a ridge: as many correlations are exactly 1 as the column spaces share dimensions.

dim(col X ∩ col Y) = rank X + rank Y − rank [X Y], of the columns about their means where the problem centres; there are
min(rank X, rank Y) pairs in all, and no noise beyond them.
"""

from __future__ import annotations

import numpy as np
import pytest
import scipy.linalg

import linspec as ls
from linspec import Status

N = 60


def shared_directions(g):
    """Two directions are in both views."""
    S = g((N, 2))
    return np.hstack([S, g((N, 6))]) @ rotation(g, 8), np.hstack([S, g((N, 5))]) @ rotation(g, 7)


def low_rank(g):
    """Rank 4 of 12 and 9 columns, one direction in both."""
    F = g((N, 4))
    return F @ g((4, 12)), np.hstack([F[:, :1], g((N, 3))]) @ g((4, 9))


def both_wide(g):
    """Fewer rows than either view has columns: everything is shared, by chance."""
    return g((20, 30)), g((20, 25))


def duplicates(g):
    """Repeated, zero and constant columns."""
    X = g((N, 6))
    Y = np.hstack([X[:, :1] + g((N, 1)), g((N, 4))])
    return np.hstack([X, X[:, :3], np.zeros((N, 2)), np.full((N, 1), 3.0)]), Y


def one_hot(g):
    """Indicators add up to ones: shared without centring, dependent with it."""
    return tuple(np.eye(m)[np.argmax(g((N, m)), axis=1)] for m in (5, 4))


def scaled_apart(g):
    """A shared direction made of columns a million times shorter than the rest."""
    X, Y = shared_directions(g)
    return X * np.geomspace(1, 1e-6, 8), Y * np.geomspace(1e6, 1, 7)


def rotation(g, p):
    return np.linalg.qr(g((p, p)))[0]


CASES = [shared_directions, low_rank, both_wide, duplicates, one_hot, scaled_apart]
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


def said(found, truth, k, shape):
    """The status and its advice."""
    ones, pairs = min(truth.ones, k), min(truth.ranks)
    if ones:
        told = f"{ones} of {len(found.correlations)} correlations {'is' if ones == 1 else 'are'} 1"
        assert told in found.message
        assert "ridge" in found.message
        assert found.status in (Status.DEGENERATE, Status.RANK_DEFICIENT)
    else:
        assert "correlations are 1" not in found.message
    if k > pairs:
        assert found.status is Status.RANK_DEFICIENT
        assert f"{pairs} of the {k} asked for are returned" in found.message
    if truth.ranks != shape and found.ranks is not None:
        assert found.status is Status.RANK_DEFICIENT
        assert "numerical rank" in found.message


@pytest.mark.parametrize("center", [True, False], ids=["centred", "uncentred"])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
@pytest.mark.parametrize("solver", OPTIONS)
@pytest.mark.slow(keep=15)
def test_as_many_ones_as_shared_dimensions(solver, case, center):
    for seed in range(2):
        X, Y = case(np.random.default_rng(seed).standard_normal)
        truth = Truth(X, Y, center)
        for k in (min(3, *truth.ranks), min(*X.shape, *Y.shape)):
            found = ls.solve(ls.CCA(X, Y, k, center=center), solver, **OPTIONS[solver])
            assert len(found.correlations) == min(k, *truth.ranks)
            np.testing.assert_allclose(found.correlations, truth.correlations[:k], atol=1e-9)
            assert found.converged
            assert found.ranks in (None, truth.ranks)
            assert np.sum(found.correlations > 1 - 1e-8) == min(truth.ones, k)
            said(found, truth, k, (X.shape[1], Y.shape[1]))
            # The variates are what the numbers say.
            np.testing.assert_allclose(found.score(X, Y).correlations, truth.correlations[:k], atol=1e-7)


@pytest.mark.parametrize("solver", ["direct", "gram"])
def test_the_ridge_that_is_suggested_puts_what_is_there_first(solver):
    """One direction in 30 and 25 columns, 20 rows: without a ridge it is lost among what is shared by chance."""
    rng = np.random.default_rng(0)
    shared = rng.standard_normal((400, 1))
    X, Y = rng.standard_normal((400, 30)) + shared, rng.standard_normal((400, 25)) + shared
    alarmed = ls.solve(ls.CCA(X[:20], Y[:20], 3), solver)
    assert np.abs(alarmed.score(X[20:], Y[20:]).correlations).max() < 0.3
    rx, ry = suggested(ls.solve(ls.CCA(1e-3 * X[:20], 1e3 * Y[:20], 3), solver))  # one for each view
    assert ry / rx == pytest.approx(1e12, rel=0.5)
    found = ls.solve(ls.CCA(X[:20], Y[:20], 3, ridge=max(suggested(alarmed))), solver)
    correlations, _ = found.score(X[20:], Y[20:])
    assert correlations[0] > 0.9
    assert np.abs(correlations[1:]).max() < 0.3
    assert found.correlations.min() > 0.999  # in the rows fitted all of them look alike


@pytest.mark.parametrize("solver", OPTIONS)
def test_a_constant_view_has_no_pairs_about_its_mean_and_one_about_zero(solver):
    X, Y = np.full((N, 4), 0.1), np.random.default_rng(0).standard_normal((N, 3))
    found = ls.solve(ls.CCA(X, Y, 2), solver, **OPTIONS[solver])
    assert (found.status, found.residual, found.x_weights.shape) == (Status.RANK_DEFICIENT, 0, (4, 0))
    assert "0 of the 2 asked for" in found.message
    assert found.score(X, Y).total == 0.0
    found = ls.solve(ls.CCA(X, Y, 2, center=False), solver, **OPTIONS[solver])
    projected = Y @ np.linalg.lstsq(Y, np.ones(N), rcond=None)[0]
    assert found.correlations == pytest.approx([np.linalg.norm(projected) / np.sqrt(N)], abs=1e-9)


def suggested(found):
    """The ridges in the message."""
    return [float(part) for part in found.message.split("A ridge of about (")[1].split(")")[0].split(", ")]
