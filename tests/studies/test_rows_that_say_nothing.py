"""Folds, draws and test rows that say nothing: they have no score, and choose nothing."""

from __future__ import annotations

import numpy as np
import pytest
from planted import sharing

import linspec as ls
from linspec.errors import AccuracyWarning, InvalidProblem, MissingCapability

sklearn = pytest.importorskip("sklearn")
from sklearn.linear_model import Ridge  # noqa: E402
from sklearn.metrics import r2_score  # noqa: E402
from sklearn.model_selection import KFold, ShuffleSplit, TimeSeriesSplit  # noqa: E402

N = 60
FOLD = np.arange(N) % 3
RNG = np.random.default_rng(0)
X, Y = sharing(N, (4, 3), 2, noise=0.5)
y = X[:, 0] + 0.3 * RNG.standard_normal(N)


def test_the_r2_of_a_constant_is_nan():
    w = np.where(np.arange(N) < 5, 0.0, RNG.random(N) + 0.1)
    for problem in (
        ls.LeastSquares(X, y[:, None], ridge=1.0, center=True),
        ls.PLSRegression(X, y[:, None], k=1),
        ls.KernelRidge(X, y[:, None], ridge=1.0),
        ls.ReducedRankRegression(X, y[:, None], k=1),
    ):
        solution = ls.solve(problem)
        for value in (0.0, 0.1, 98.6, 1e6 + 0.1):
            constant = np.full((N, 1), value)
            assert np.isnan(solution.score(X, constant))
            assert np.isnan(solution.score(X, constant.astype(np.float32)))
            constant[:5] = -999.0  # rows of weight 0 do not make it vary
            assert problem.name == "kernel-ridge" or np.isnan(solution.score(X, constant, sample_weight=w))


@pytest.mark.parametrize("form", ["dense", "solve"])
@pytest.mark.parametrize(
    "splitter", [KFold(6), ShuffleSplit(30, test_size=0.05, random_state=0), TimeSeriesSplit(5)]
)
def test_folds_of_a_constant_target_are_left_out_and_the_others_are_those_of_a_loop(splitter, form):
    target = y.copy()
    target[:30] = 98.6
    expected = []
    for training, test in splitter.split(X):
        predicted = Ridge(alpha=1.0).fit(X[training], target[training]).predict(X[test])
        varies = np.ptp(target[test]) > 0
        expected.append(r2_score(target[test], predicted) if varies else np.nan)
    problem = ls.LeastSquares(X, target, ridge=1.0, center=True)
    with pytest.warns(AccuracyWarning, match="left out of the mean"):
        found = ls.cross_validate(problem, splitter=splitter, score="r2", form=form)
    np.testing.assert_allclose(found.scores.ravel(), expected, rtol=1e-8, equal_nan=True)
    assert found.mean[0, 0] == pytest.approx(np.nanmean(expected), rel=1e-8)
    np.testing.assert_array_equal(found.counted, ~np.isnan(expected))


CORRELATED = {
    "cca": (lambda X, Y: ls.CCA(X, Y, k=2, ridge=1.0), "correlations"),
    "tcc": (lambda X, Y: ls.CCA(X, Y, k=2, ridge=1.0), "tcc"),
    "not centred": (lambda X, Y: ls.CCA(X, Y, k=2, ridge=1.0, center=False), "correlations"),
    "pls": (lambda X, Y: ls.PLS(X, Y, k=2), None),
    "multiset": (lambda X, Y: ls.MultisetCCA([X, Y], k=2, ridge=1.0), None),
    "sumcor": (lambda X, Y: ls.SumcorCCA([X, Y], k=2, ridge=1.0), None),
    "kernel": (lambda X, Y: ls.KernelCCA(X, Y, k=2, ridge=1.0), None),
}


@pytest.mark.parametrize("name", CORRELATED)
def test_correlations_of_single_rows_choose_nothing_and_a_fold_of_equal_rows_is_left_out(name):
    make, score = CORRELATED[name]
    with pytest.warns(AccuracyWarning, match="12 splits of 12"):
        found = ls.cross_validate(make(X[:12], Y[:12]), ks=[1, 2], splitter=12, score=score)
    with pytest.raises(MissingCapability):
        _ = found.best
    if name != "not centred":
        equal = np.where(FOLD[:, None] == 1, X[1], X)
        with pytest.warns(AccuracyWarning, match=r"1 split of 3 \(the first is 1\)"):
            found = ls.cross_validate(make(equal, Y), splitter=FOLD, score=score)
        assert found.mean[0, 0] == pytest.approx(found.scores[[0, 2], 0, 0].mean())


@pytest.mark.parametrize("form", ["auto", "solve", "implicit"])
@pytest.mark.parametrize("side", ["training", "held-out"])
def test_rows_that_all_weigh_0_are_refused_by_one_text(form, side):
    rows, pair = {"sample_weight": (FOLD != 2) * 1.0}, (np.flatnonzero(FOLD != 2), np.flatnonzero(FOLD == 2))
    for problem in (
        ls.PLS(X, Y, k=2, **rows),
        ls.CCA(X, Y, k=2, ridge=1.0, **rows),
        ls.MultisetCCA([X, Y], k=2, ridge=1.0, **rows),
        ls.SVD(X, k=2, center=True, **rows),
        ls.LeastSquares(X, Y, ridge=1.0, **rows),
        ls.KernelRidge(X, Y, ridge=1.0, **rows),
    ):
        with pytest.raises(InvalidProblem, match=f"the {side} rows of split 0 all have weight 0"):
            ls.cross_validate(problem, splitter=[pair if side == "held-out" else pair[::-1]], form=form)


def test_a_view_without_a_row_that_counts_is_refused_and_a_site_without_it_is_left_out():
    has, Z = np.arange(N) < 3, RNG.standard_normal((N, 1))
    for confounds in (None, Z):
        with pytest.raises(InvalidProblem, match="X2 must have a row that counts"):
            ls.MultisetCCA([X, Y], k=1, present=[None, has], sample_weight=1.0 - has, confounds=confounds)
    sites = np.arange(N) // 15
    problem = ls.MultisetCCA([X, Y], k=1, ridge=1.0, present=[None, sites != 3], confounds=Z)
    with pytest.warns(AccuracyWarning, match=r"1 split of 4 \(the first is 3\)"):
        found = ls.cross_validate(problem, splitter=sites)
    assert found.mean[0, 0] == pytest.approx(found.scores[:3, 0, 0].mean())
    with pytest.raises(InvalidProblem, match="training rows of split 0 are all absent from X2"):
        ls.cross_validate(ls.MultisetCCA([X, Y], k=1, present=[None, has]), splitter=sites)


def test_draws_without_a_row_of_a_view_are_drawn_again():
    problem = ls.MultisetCCA([X, Y], k=1, ridge=1.0, present=[None, np.arange(N) < 2], confounds=X[:, :1])
    found = ls.bootstrap(problem, draws=60, rng=0)
    assert found.draws == 60


def test_components_of_one_view_alone_do_not_score_by_rounding():
    """A component beyond the smaller view has weights of rounding there: units and order of columns do not matter."""
    narrow = Y[:, :2]
    found = [
        ls.cross_validate(ls.MultisetCCA([view, other], k=4), ks=[1, 2, 3, 4], splitter=FOLD)
        for view, other in ((X, narrow), (3 * X, narrow), (X[:, ::-1], narrow), (X, 1e-6 * narrow[:, ::-1]))
    ]
    for each in found:
        np.testing.assert_allclose(each.mean, found[0].mean, atol=1e-8)
        assert each.best.k == 2


def test_a_row_of_large_weight_hides_no_component():
    """A short component is exact though another is 1e7 times as long in these rows; a null one scores nothing."""
    rng = np.random.default_rng(0)
    A, B = rng.standard_normal((2, 40, 3)) * [1.0, 0.5, 1e-6]
    B += A
    folds, w = np.repeat([0, 1], 20), np.ones(40)
    w[30], A[30, 2], B[30, 2] = 1e5, A[:20, 2].mean(), B[:20, 2].mean()
    found = ls.cross_validate(ls.PLS(A, B, k=3, sample_weight=w), ks=[1, 2, 3], splitter=folds, rng=0).scores[
        1, 0
    ]
    U, _, Vt = np.linalg.svd((A[:20] - A[:20].mean(axis=0)).T @ (B[:20] - B[:20].mean(axis=0)))
    P, Q = (A[20:] - A[:20].mean(axis=0)) @ U, (B[20:] - B[:20].mean(axis=0)) @ Vt.T
    exact = w[20:] @ (P * Q) / np.sqrt((w[20:] @ P**2) * (w[20:] @ Q**2))
    np.testing.assert_allclose(np.diff(found, prepend=0.0), exact, rtol=1e-6)


def test_test_rows_that_say_nothing_choose_no_ridge():
    problem = ls.ReducedRankRegression(X[:30], y[:30, None], k=1)
    path = ls.ridge_path(problem, [0.1, 1.0, 10.0], test=(X[30:], np.full((30, 1), 98.6)))
    assert np.isnan(path.totals).all()
    assert not any(row["best"] for row in path.table(library=""))
    single = ls.ridge_path(ls.CCA(X[:30], Y[:30], k=1), [0.1, 10.0], test=(X[:1], Y[:1]))
    for each in (path, single):
        with pytest.raises(InvalidProblem, match="say nothing"):
            _ = each.best
