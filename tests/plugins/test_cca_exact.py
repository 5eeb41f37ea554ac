"""Views that are ill-conditioned or without full rank: digits and ranks that are there, and what is said of the others.

Without a ridge as many correlations are 1 as dim(col X ∩ col Y) = rank X + rank Y − rank [X Y], of the columns about
their means where the problem centres; there are min(rank X, rank Y) pairs in all, and no noise beyond them.
"""

from __future__ import annotations

import numpy as np
import pytest
import scipy.linalg
from planted import Case, planted_cca
from truths import EPS, truth_of

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
TIGHT = {"rng": 0, "tol": 1e-11}
OPTIONS = {"direct": {}, "gram": {}, "als": TIGHT, "lobpcg": TIGHT, "auto": {}}


class Truth:
    """Ranks and correlations by SVDs of the dense columns, scaled alike."""

    def __init__(self, X, Y, center):
        X, Y = (A - A.mean(axis=0) if center else A for A in (X, Y))
        X, Y = (A / np.maximum(np.linalg.norm(A, axis=0), 1e-9) for A in (X, Y))
        self.ranks = tuple(np.linalg.matrix_rank(A, tol=1e-9) for A in (X, Y))
        self.ones = sum(self.ranks) - np.linalg.matrix_rank(np.hstack([X, Y]), tol=1e-9)
        bases = [scipy.linalg.orth(A, rcond=1e-9 / np.linalg.norm(A, 2)) for A in (X, Y)]
        self.correlations = np.cos(np.sort(scipy.linalg.subspace_angles(*bases)))


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


@pytest.mark.parametrize("solver", [*OPTIONS, "two-stage"])
def test_a_constant_view_has_no_pairs_about_its_mean_and_one_about_zero(solver):
    X, Y = np.full((N, 4), 0.1), np.random.default_rng(0).standard_normal((N, 3))
    options = OPTIONS.get(solver, TIGHT)
    found = ls.solve(ls.CCA(X, Y, 2), solver, **options)
    assert (found.status, found.residual, found.x_weights.shape) == (Status.RANK_DEFICIENT, 0, (4, 0))
    assert "0 of the 2 asked for" in found.message
    assert found.score(X, Y).total == 0.0
    found = ls.solve(ls.CCA(X, Y, 2, center=False), solver, **options)
    projected = Y @ np.linalg.lstsq(Y, np.ones(N), rcond=None)[0]
    assert found.correlations == pytest.approx([np.linalg.norm(projected) / np.sqrt(N)], abs=1e-9)


def suggested(found):
    """The ridges in the message."""
    return [float(part) for part in found.message.split("A ridge of about (")[1].split(")")[0].split(", ")]


# ---- ill-conditioned views ------------------------------------------------------------------------

RHO = np.array([0.9, 0.7, 0.4, 0.1])


def planted(condition):
    """Two centred views of 7 columns, whose condition no scaling of columns can mend."""
    values = np.geomspace(1, 1 / condition, 7)
    case = planted_cca(300, 7, 7, RHO, 4, values_x=values, values_y=values)
    return [A - A.mean(axis=0) for A in case.arrays.values()]


@pytest.mark.parametrize("condition", [1, 1e2, 1e5, 1e6, 1e9])
def test_direct_loses_one_power_of_the_condition_and_gram_two_and_says_so(condition):
    problem = ls.CCA(*planted(condition), 4)
    direct, gram, auto = (ls.solve(problem, name) for name in ("direct", "gram", "auto"))
    np.testing.assert_allclose(direct.correlations, RHO, atol=1e-13 * condition + 1e-13)
    assert direct.ranks == (7, 7)
    if gram.bounds is not None:
        error = np.abs(gram.correlations - RHO).max()
        assert error <= min(1e-14 * condition**2 + 1e-13, gram.bounds.max())
    if condition > 1e5:
        assert gram.status is Status.ILL_CONDITIONED
        assert 'Choose "direct"' in gram.message
    elif condition < 1e3:
        assert gram.status is Status.CONVERGED
    np.testing.assert_allclose(auto.correlations, RHO, atol=1e-13 * condition + 1e-9)
    assert auto.converged
    if condition == 1e9:
        assert auto.solver == "direct"
        assert "gram was tried first" in auto.message


@pytest.mark.skipif(EPS > 1e-18, reason="longdouble is float64 here: nothing can be decided")
@pytest.mark.filterwarnings("ignore::linspec.errors.ConvergenceWarning")
@pytest.mark.parametrize("seed", range(8))
@pytest.mark.slow(keep=2)
def test_bounds_hold_for_float32_with_a_ridge_below_its_rounding(seed):
    """The ridge keeps directions that are shorter than the rounding of float32; entries count as exact."""
    rng = np.random.default_rng(100 + seed)
    p, q = int(rng.integers(2, 5)), int(rng.integers(2, 5))
    condition = 10 ** rng.uniform(5.5, 7.5)
    spectrum = np.diag(np.logspace(0, -np.log10(condition), p))
    X = rng.standard_normal((60, p)) @ spectrum @ np.linalg.qr(rng.standard_normal((p, p)))[0]
    Y = X[:, :1] @ rng.standard_normal((1, q)) + rng.standard_normal((60, q))
    X, Y = X.astype(np.float32), Y.astype(np.float32)
    ridge, k = 10 ** rng.uniform(-16, -9), min(p, q)
    given = {"k": k, "ridge": ridge}
    exact = truth_of(Case("cca", {"X": X, "Y": Y}, given)).s[:k].astype(float)
    for solver in ("gram", "direct", "lobpcg"):
        found = ls.solve(ls.CCA(X, Y, k, ridge=ridge), solver, rng=0)
        if found.bounds is not None:
            off = np.abs(found.correlations[:, None] - exact[None, :]).min(axis=1)
            assert (off <= found.bounds + 1e-15).all()
        if found.converged:
            np.testing.assert_allclose(found.correlations, exact[: len(found.correlations)], atol=1e-6)
        if solver == "direct":
            np.testing.assert_allclose(found.correlations, exact, atol=1e-8)
