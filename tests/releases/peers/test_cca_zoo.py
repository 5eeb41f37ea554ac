"""Each row of the table of docs/start/coming-from-cca-zoo.md, which docstrings name, against cca-zoo's numbers."""

from __future__ import annotations

from operator import attrgetter

import numpy as np
import pytest
import scipy
from releases.conftest import difference, unit, unmatched
from sklearn.datasets import load_digits
from sklearn.model_selection import KFold

import linspec as ls

pytest.importorskip("cca_zoo", reason="cca-zoo 4 needs scikit-learn 1.8 or newer")
from cca_zoo import linear, model_selection, nonparametric, stochastic

QUARTERS = [view[:, view.std(axis=0) > 0.5] for view in np.split(load_digits().data, 4, axis=1)]
VIEWS = X, Y = np.hstack(QUARTERS[:2]), np.hstack(QUARTERS[2:])
n, ROOT = len(X), np.sqrt(len(X) - 1)
weights_of = attrgetter("x_weights", "y_weights")
ZOO = "cca-zoo scikit-learn"


def test_each_row_of_the_page_is_here():
    """`PMDCCA`, `ElasticNetCCA` and other penalties; `TCCA`"""  # of which linspec has none
    assert not {"pmd-cca", "elastic-net-cca", "tcca", "tensor-cca"} & set(ls.problems())
    assert not unmatched("coming-from-cca-zoo.md", globals())


def pairs_of(ours, theirs, length=1.0):
    """Arrays of ours, times a length, with those of theirs."""
    return [(mine * length, part) for mine, part in zip(ours, theirs, strict=True)]


def ridge(share, rows=n):
    return (rows - 1) * share / (1 - share)


def test_canonical_correlations(same):
    """`CCA(k).fit([X, Y])`; `model.weights_[0]`, `model.weights_[1]`; `model.transform([X, Y])`"""
    theirs, ours, figures = linear.CCA(5).fit(VIEWS), ls.solve(ls.CCA(X, Y, 5)), []
    pairs = pairs_of(weights_of(ours), theirs.weights_, ROOT)
    pairs += pairs_of(ours.transform(X, Y), theirs.transform(VIEWS), ROOT)
    A, B = np.split(np.random.default_rng(0).standard_normal((500, 7)), [4], axis=1)
    B[:, 0] = A[:, 0] + 0.1 * B[:, 0]
    for dtype, short in ((float, 1e-7), (float, 1e-8), (np.float32, 1e-3), (np.float32, 1e-4)):
        views = (A * [short, 1, 1, 1]).astype(dtype), B.astype(dtype)
        assert ls.solve(ls.CCA(*views, 1)).correlations[0] > 0.99
        figures.append(linear.CCA(1).fit(views).score(views))
    assert min(figures[::2]) > 0.99 > 0.2 > max(figures[1::2])
    words = f"; {figures[1]:.3f} for .995, a column in units of 1e-8, in float32 of 1e-4"
    same("CCA", ZOO, *pairs, besides=words)


def test_ridges(same):
    """`RidgeCCA(k, shrinkage=c)`; `PLS(k)`, which is `shrinkage=1`; `model.score([X, Y])`, the mean"""
    theirs, ours = linear.RidgeCCA(5, shrinkage=0.3).fit(VIEWS), ls.solve(ls.CCA(X, Y, 5, ridge=ridge(0.3)))
    pairs = pairs_of(weights_of(ours), theirs.weights_, ROOT / 0.7**0.5)
    pairs += pairs_of(weights_of(ls.solve(ls.PLS(X, Y, 5))), linear.PLS(5).fit(VIEWS).weights_)
    pairs.append((ours.score(X, Y).correlations.mean(), theirs.score(VIEWS)))
    same("RidgeCCA, PLS", ZOO, *pairs)


def test_confounds(same):
    """`PartialCCA(k).fit([X, Y], partials=Z)`"""
    Z, rest, units = X[:, [3]], [X[:, 4:], Y], np.r_[1e-3, np.ones(X.shape[1] - 5)]
    exact = linear.PartialCCA(3).fit(rest, partials=Z).weights_
    pairs = pairs_of(weights_of(ls.solve(ls.CCA(*rest, 3, confounds=Z))), exact, ROOT)
    short = linear.PartialCCA(3).fit([rest[0] * units, Y], partials=Z).weights_[0] * units[:, None]
    off = difference(short, exact[0])
    noise = np.random.default_rng(0).standard_normal((400, 8))
    A, B, Z = noise[:, :4] + 3 * noise[:, 7:], noise[:, 4:7] + 3 * noise[:, 7:], noise[:, 7:]
    theirs = linear.PartialCCA(1).fit([A, B], partials=Z)
    [right] = ls.solve(ls.CCA(A, B, 1, confounds=Z)).correlations
    score, scores = theirs.score([A, B]), np.hstack(theirs.transform([A, B], partials=Z))
    assert np.corrcoef(scores.T)[0, 1] == pytest.approx(right)
    assert abs(score) > 0.8 > 0.2 > right
    with pytest.raises(ValueError, match="requires `partials`"):
        model_selection.permutation_test_significance(linear.PartialCCA(1), [A, B], n_permutations=1)
    words = f"; {off:.0%} off, a pixel in units of 1e-3; {score:.2f} for {right:.2f}"
    same("PartialCCA", ZOO, *pairs, besides=words)


def test_kernels(same):
    """`KCCA(k, kernel="rbf", gamma=g, shrinkage=c)`"""
    some, kernel = [view[:200] for view in VIEWS], ls.kernels.rbf(0.002**-0.5)
    theirs = nonparametric.KCCA(2, kernel="rbf", gamma=1e-3, shrinkage=0.3).fit(some).transform(some)
    ours = ls.solve(ls.KernelCCA(*some, 2, kernel, kernel, ridge=ridge(0.3, 200))).transform(*some)
    same("KCCA", ZOO, *pairs_of(map(unit, ours), map(unit, theirs)))


def test_several_views(same, seen):
    """`MCCA(k, shrinkage=c).fit(views)`, more than two views; `GCCA(k, view_weights=w).fit(views)`; weights with
    the largest sum of correlations (SUMCOR), rows absent in some views"""
    ours, theirs = ls.MultisetCCA(QUARTERS, 3, ridge=ridge(0.2)), linear.MCCA(3, shrinkage=0.2).fit(QUARTERS)
    pairs = pairs_of(ls.solve(ours).weights, theirs.weights_, 2 * ROOT / 0.8**0.5)
    ours = ls.solve(ls.MultisetCCA(QUARTERS, 3, view_weights=[2, 1, 1, 1]))
    theirs = linear.GCCA(3, view_weights=[2, 1, 1, 1]).fit(QUARTERS)
    pairs += pairs_of(ours.weights, theirs.weights_, ROOT * np.sqrt(ours.eigenvalues))
    units, off = np.r_[0.01, np.ones(QUARTERS[0].shape[1] - 1)], []
    scaled, exact = [QUARTERS[0] * units, *QUARTERS[1:]], ls.solve(ls.MultisetCCA(QUARTERS, 3)).weights
    pairs.append((units[:, None] * ls.solve(ls.MultisetCCA(scaled, 3)).weights[0], exact[0]))
    for model in (linear.GCCA(3), linear.MCCA(3)):
        weights = model.fit(scaled).weights_[0] * units[:, None]
        off.append(difference(weights, model.fit(QUARTERS).weights_[0]))
    variances = np.array([scores.var(axis=0, ddof=1) for scores in model.transform(QUARTERS)])
    pairs.append((variances.sum(axis=0), np.full(3, 4.0)))
    assert min(*off, 3 * np.ptp(variances[:, 0])) > 0.3
    words = f"; {off[1]:.0%}, {off[0]:.0%} off with a pixel in units of .01"
    same("MCCA, GCCA", ZOO, *pairs, besides=words)
    total, [best] = 6 * linear.MCCA(1).fit(QUARTERS).score(QUARTERS), ls.solve(ls.SumcorCCA(QUARTERS, 1)).sums
    assert best > total
    with pytest.raises(ValueError, match="NaN"):
        model.fit([np.where(np.arange(n)[:, None] == 3, np.nan, X), Y])
    seen("MCCA for SUMCOR", ZOO, f"sum of six correlations {total:.4f}, linspec {best:.4f}")


def test_iterations(seen):
    """`CCAEY`, `StochasticCCAEY`"""
    exact, models = ls.solve(ls.CCA(X, Y, 3)).transform(X, Y)[0], (linear.CCAEY, stochastic.StochasticCCAEY)
    scores = [model(3, random_state=0).fit(VIEWS).transform(VIEWS)[0] for model in models]
    angles = [scipy.linalg.subspace_angles(part, exact).max() for part in scores]
    assert 1e-5 < angles[0] < 0.1
    seen("CCAEY, StochasticCCAEY", ZOO, "angles to the exact variates {:.0e} and {:.0e}".format(*angles))


def test_searches(same):
    """`GridSearchCV` of `cca_zoo.model_selection`"""
    shares, folds, data = [0.01, 0.1, 0.5], KFold(5), [view[:1795] for view in VIEWS]
    theirs = model_selection.GridSearchCV(linear.RidgeCCA(3), {"shrinkage": shares}, cv=folds).fit(data)
    ours = ls.cross_validate(ls.CCA(*data, 3), ridges=[ridge(c, 1436) for c in shares], splitter=folds)
    assert ours.mean.argmax() == theirs.best_index_
    scores = ours.mean[:, 0] / 3, theirs.cv_results_["mean_test_score"]
    same("GridSearchCV", ZOO, scores, within=1e-3, besides=", about other means; the same choice")


def test_permutations(seen):
    """`permutation_test_significance`"""
    noise = [np.random.default_rng(seed).standard_normal((100, 4 - seed)) for seed in (0, 1)]
    theirs = model_selection.permutation_test_significance(linear.CCA(1), noise, 999, random_state=0)
    ours = ls.permutation_test(ls.CCA(*noise, 1), permutations=999, statistic="roy", rng=0).p_values[0]
    assert abs(ours - theirs.p_values[0]) < 0.05
    seen("permutation_test_significance", ZOO, f"p {theirs.p_values[0]:.3f}, linspec {ours:.3f}")


def test_predictions(same):
    """`model.predict([X, None])[1]`"""
    theirs, mean = linear.CCA(3).fit(VIEWS), Y.mean(axis=0)
    U, V = theirs.transform(VIEWS)
    formulas = [U @ np.linalg.lstsq(scores, Y - mean)[0] + mean for scores in ((U + V) / 2, U)]
    answers = theirs.predict([X, None])[1], ls.solve(ls.CCA(X, Y, 3)).predict(X)
    same("predict, by the formula of each", ZOO, *pairs_of(answers, formulas))
