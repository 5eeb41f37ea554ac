"""SUMCOR: exhaustive maxima of small cases, CCA for two views, bounds, starts, and what is refused."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np
import pytest
import scipy.optimize

import linspec as ls
from linspec import Status
from linspec.errors import InvalidProblem
from linspec.iteration import Iterate
from linspec.solving import Solver


def related(n=300, widths=(6, 5, 7), factors=3, seed=0):
    """Draw views with normal variables in common."""
    rng = np.random.default_rng(seed)
    common = rng.standard_normal((n, factors)) * np.linspace(2.0, 0.7, factors)
    return [common @ rng.standard_normal((factors, p)) + rng.standard_normal((n, p)) + 3.0 for p in widths]


def circle(t):
    return np.array([np.cos(t), np.sin(t)])


def best_of_three_planes(views):
    """The largest sum of three views of two columns: two angles on a grid, polished; the third view has its best."""
    Q = [np.linalg.qr(V - V.mean(axis=0))[0] for V in views]
    C = [[P.T @ R for R in Q] for P in Q]

    def value(t):
        u, v = circle(t[0]), circle(t[1])
        return -(u @ C[0][1] @ v + np.linalg.norm(C[2][0] @ u + C[2][1] @ v))

    grid = np.linspace(0, 2 * np.pi, 361)
    u = circle(grid)
    third = np.linalg.norm((C[2][0] @ u)[:, :, None] + (C[2][1] @ u)[:, None, :], axis=0)
    at = np.unravel_index(np.argmax(u.T @ C[0][1] @ u + third), third.shape)
    found = scipy.optimize.minimize(value, grid[list(at)], method="BFGS", options={"gtol": 1e-12})
    return -found.fun


@pytest.mark.parametrize("seed", range(12))
def test_the_best_of_three_planes(seed):
    rng = np.random.default_rng(seed)
    views = [rng.standard_normal((25, 2)) for _ in range(3)]
    found = ls.solve(ls.SumcorCCA(views, k=1), rng=0)
    assert found.converged
    assert found.sums[0] == pytest.approx(best_of_three_planes(views), abs=1e-10)
    assert found.bounds[0] >= found.sums[0]


def test_single_columns_have_the_best_of_all_signs():
    X = np.random.default_rng(1).standard_normal((40, 9))
    R = np.corrcoef(X.T) - np.eye(9)
    best = max(np.array(z) @ R @ np.array(z) / 2 for z in itertools.product((1, -1), repeat=9))
    found = ls.solve(ls.SumcorCCA([X[:, [j]] for j in range(9)], k=1), rng=0)
    assert found.sums[0] == pytest.approx(best, abs=1e-12)
    assert found.passes == 1


@pytest.mark.parametrize("ridge", [0.0, (2.0, 30.0)])
def test_two_views_are_cca(ridge):
    X, Y = related(widths=(6, 5))
    pairs = ls.solve(ls.CCA(X, Y, k=4, ridge=ridge), "direct")
    found = ls.solve(ls.SumcorCCA([X, Y], k=4, ridge=ridge), rng=0, tol=1e-10)
    np.testing.assert_allclose(found.sums, pairs.correlations, atol=1e-12)
    np.testing.assert_allclose(found.bounds, pairs.correlations, atol=1e-9)
    for W, V in zip(found.weights, (pairs.x_weights, pairs.y_weights), strict=True):
        np.testing.assert_allclose(W * np.sign(np.sum(W * V, axis=0)), V, atol=1e-8)


def test_sums_are_those_of_the_correlations_of_the_scores():
    views = related()
    found = ls.solve(ls.SumcorCCA(views, k=3), rng=0)
    scores = found.transform(views)
    for j in range(3):
        R = np.corrcoef([S[:, j] for S in scores])
        assert found.sums[j] == pytest.approx((R.sum() - 3) / 2, abs=1e-12)
    for S in scores:
        np.testing.assert_allclose(S.T @ S, np.eye(3), atol=1e-12)
    assert np.all(np.diff(found.sums) < 0)


def test_no_start_ends_above_a_bound():
    """With noise alone there are local maxima; no other start ends above the best of 40, nor above the bound."""
    rng = np.random.default_rng(3)
    problem = ls.SumcorCCA([rng.standard_normal((40, 4)) for _ in range(6)], k=1)
    found = ls.solve(problem, "horst", rng=0, starts=40)
    ends = [ls.solve(problem, "horst", starts=2, rng=seed) for seed in range(1, 150)]
    assert max(end.sums[0] for end in ends) <= found.sums[0] * (1 + 1e-9)
    assert found.sums[0] <= found.bounds[0] < 1.01 * found.sums[0]
    assert 1 <= found.agreeing[0] < 40
    assert "no more: the best sums may be larger" in found.message
    assert "40 starts" in found.message


def test_other_coordinates_of_a_view_do_not_change_the_scores():
    views, rng = related(), np.random.default_rng(1)
    moved = [V @ rng.standard_normal((V.shape[1], V.shape[1])) + 5.0 for V in views]
    one, other = (ls.solve(ls.SumcorCCA(each, k=2), rng=0, tol=1e-9) for each in (views, moved))
    np.testing.assert_allclose(one.sums, other.sums, rtol=1e-10)
    for S, T in zip(one.transform(views), other.transform(moved), strict=True):
        np.testing.assert_allclose(S * np.sign(np.sum(S * T, axis=0)), T, atol=1e-6)


@dataclass(frozen=True, kw_only=True)
class Saddle(Solver):
    """Returns a stationary point that is no maximum: one view with the other sign."""

    def iterate(self, problem, moments, context, start):
        best = ls.solve(ls.SumcorCCA(problem.views, k=problem.k), "horst", rng=0)
        yield Iterate(0.0, lambda: {"weights": (-best.weights[0], *best.weights[1:])}, final=True)


def test_a_view_with_the_wrong_sign_has_a_residual():
    with pytest.warns(ls.errors.ConvergenceWarning):
        found = ls.solve(ls.SumcorCCA(related(widths=(4,) * 5), k=1), Saddle())
    assert not found.converged
    assert found.residual > 0.1


def test_a_negative_sum_is_no_component():
    found = ls.solve(ls.SumcorCCA(related(), k=1), Saddle())
    assert found.status is Status.INCOMPLETE
    assert not found.converged


def test_agreement_by_chance_is_reported():
    views = [np.random.default_rng(seed).standard_normal((10, 12)) for seed in range(3)]
    found = ls.solve(ls.SumcorCCA(views, k=1), rng=0)
    assert found.status is Status.DEGENERATE
    assert found.sums[0] == pytest.approx(3)


def test_unrelated_views_have_no_component():
    Q = np.linalg.qr(np.random.default_rng(0).standard_normal((50, 9)))[0]
    found = ls.solve(ls.SumcorCCA([Q[:, :3], Q[:, 3:6], Q[:, 6:]], k=2, center=False), rng=0)
    assert len(found.sums) == 0
    assert found.status is Status.RANK_DEFICIENT


def test_directions_that_squaring_hides_are_reported():
    X, Y, Z = related()
    hidden = np.hstack([X, X[:, :1] + 1e-11 * np.random.default_rng(3).standard_normal((300, 1))])
    found = ls.solve(ls.SumcorCCA([hidden, Y, Z], k=2), rng=0)
    assert found.status is Status.ILL_CONDITIONED
    assert not found.converged


def test_weights_confounds_and_streams():
    views, rng = related(), np.random.default_rng(5)
    counts, Z = rng.integers(0, 3, 300), rng.standard_normal((300, 2))
    weighted = ls.solve(ls.SumcorCCA(views, k=2, sample_weight=counts, confounds=Z), rng=0)
    numbers = np.repeat(np.arange(300), counts)
    rest = [V[numbers] for V in views]
    L = np.hstack([np.ones((len(numbers), 1)), Z[numbers]])
    rest = [V - L @ np.linalg.lstsq(L, V, rcond=None)[0] for V in rest]
    plain = ls.solve(ls.SumcorCCA(rest, k=2, center=False), rng=0)
    np.testing.assert_allclose(weighted.sums, plain.sums, rtol=1e-10)
    once = ls.solve(ls.SumcorCCA([iter([V[:100], V[100:]]) for V in views], k=2), rng=0)
    assert once.passes == 1
    np.testing.assert_allclose(once.sums, ls.solve(ls.SumcorCCA(views, k=2), rng=0).sums, rtol=1e-10)


def test_what_is_refused():
    with pytest.raises(InvalidProblem, match="at least two"):
        ls.SumcorCCA(related()[:1], k=1)
    with pytest.raises(InvalidProblem, match="k"):
        ls.SumcorCCA(related(), k=6)
    with pytest.raises(InvalidProblem, match="ridge"):
        ls.SumcorCCA(related(), k=1, ridge=-1.0)
    with pytest.raises(ls.errors.LinspecError, match="starts"):
        ls.solve(ls.SumcorCCA(related(), k=1), "horst", starts=0)


DEAD = {"constant": np.full((120, 2), 98.6), "zeros": np.zeros((120, 3))}


@pytest.mark.parametrize("ridge", [0.0, 2.0])
@pytest.mark.parametrize("dead", [("constant",), ("zeros",), ("constant", "zeros")])
@pytest.mark.parametrize("first", [True, False])
def test_views_that_do_not_vary_leave_the_components_of_the_others(first, dead, ridge):
    views, still = related(n=120, widths=(4, 3)), [DEAD[name] for name in dead]
    given = [*still, *views] if first else [*views, *still]
    for problem, values in ((ls.SumcorCCA, "sums"), (ls.MultisetCCA, "eigenvalues")):
        found = ls.solve(problem(given, k=2, ridge=ridge), rng=0)
        without = ls.solve(problem(views, k=2, ridge=ridge), rng=0)
        assert found.converged
        np.testing.assert_allclose(getattr(found, values), getattr(without, values), rtol=1e-6)
        for i, view in enumerate(given):
            if np.ptp(view) == 0:
                assert not np.abs(found.weights[i]).max() > 1e-12
                assert f"columns of X{i + 1} are constant" in found.message


def test_without_two_views_that_vary_there_are_no_components():
    found = ls.solve(ls.SumcorCCA([related(n=120)[0], *DEAD.values()], k=1), rng=0)
    assert found.status is Status.RANK_DEFICIENT
    assert len(found.sums) == 0
