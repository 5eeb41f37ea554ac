"""Each row of the table of docs/start/coming-from-cca-zoo.md, which docstrings name, against cca-zoo's numbers."""

from __future__ import annotations

import re
from operator import attrgetter
from pathlib import Path

import numpy as np
import pytest
import scipy
from sklearn.datasets import load_digits
from sklearn.model_selection import KFold

import linspec as ls

pytest.importorskip("cca_zoo", reason="cca-zoo 4 needs scikit-learn 1.8 or newer")
from cca_zoo import linear, model_selection, nonparametric, stochastic

PAGE = Path(__file__).parents[3] / "docs" / "start" / "coming-from-cca-zoo.md"
QUARTERS = [view[:, view.std(axis=0) > 0.5] for view in np.split(load_digits().data, 4, axis=1)]
VIEWS = X, Y = np.hstack(QUARTERS[:2]), np.hstack(QUARTERS[2:])
n = len(X)
pair = attrgetter("x_weights", "y_weights")
ZOO = "cca-zoo scikit-learn"


def test_each_row_of_the_page_is_here():
    """`PMDCCA`, `ElasticNetCCA` and other penalties; `TCCA`"""  # of which linspec has none
    assert not {"pmd-cca", "elastic-net-cca", "tcca", "tensor-cca"} & set(ls.problems())
    _, *cells = re.findall(r"^\| (.*?) \| ", PAGE.read_text("utf-8"), re.MULTILINE)
    docs = "; ".join(test.__doc__ or "" for name, test in globals().items() if name.startswith("test_"))
    assert {*" ".join(docs.split()).split("; ")} == {*cells}


def apart(ours, theirs):
    """The largest difference over the largest number, up to the signs of columns."""
    signs = np.sign(np.sum(ours * theirs, axis=0))
    return float(np.abs(ours * signs - theirs).max() / np.abs(theirs).max())


def equal(ours, theirs, lengths=1.0, most=1e-10):
    """How far the arrays of ours, times a length, are from those of theirs."""
    worst = max(apart(mine * lengths, part) for mine, part in zip(ours, theirs, strict=True))
    assert worst < most
    return f"{worst:.0e}"


def ridge(share, rows=n):
    return (rows - 1) * share / (1 - share)


def test_canonical_correlations(seen):
    """`CCA(k).fit([X, Y])`; `model.weights_[0]`, `model.weights_[1]`; `model.transform([X, Y])`"""
    theirs, root, figures = linear.CCA(5).fit(VIEWS), np.sqrt(n - 1), []
    same = equal(pair(ls.solve(ls.CCA(X, Y, 5))), theirs.weights_, root)
    equal(ls.solve(ls.CCA(X, Y, 5)).transform(X, Y), theirs.transform(VIEWS), root)
    A, B = np.split(np.random.default_rng(0).standard_normal((500, 7)), [4], axis=1)
    B[:, 0] = A[:, 0] + 0.1 * B[:, 0]
    for dtype, unit in ((float, 1e-7), (float, 1e-8), (np.float32, 1e-3), (np.float32, 1e-4)):
        short = (A * [unit, 1, 1, 1]).astype(dtype), B.astype(dtype)
        assert ls.solve(ls.CCA(*short, 1)).correlations[0] > 0.99
        figures.append(linear.CCA(1).fit(short).score(short))
    assert min(figures[::2]) > 0.99 > 0.2 > max(figures[1::2])
    seen("CCA", ZOO, f"{same}; {figures[1]:.3f} for .995, a column in units of 1e-8, in float32 of 1e-4")


def test_ridges(seen):
    """`RidgeCCA(k, shrinkage=c)`; `PLS(k)`, which is `shrinkage=1`; `model.score([X, Y])`, the mean"""
    theirs, ours = linear.RidgeCCA(5, shrinkage=0.3).fit(VIEWS), ls.CCA(X, Y, 5, ridge=ridge(0.3))
    same = equal(pair(ls.solve(ours)), theirs.weights_, np.sqrt((n - 1) / 0.7))
    equal(pair(ls.solve(ls.PLS(X, Y, 5))), linear.PLS(5).fit(VIEWS).weights_)
    equal([ls.solve(ours).score(X, Y).correlations.mean()], [theirs.score(VIEWS)])
    fit, later = zip(*(np.split(view, [1200]) for view in VIEWS), strict=True)
    ours, theirs = ls.solve(ls.CCA(*fit, 5)).score(*later), linear.CCA(5).fit(fit).score(later)
    gap = abs(ours.correlations.mean() - theirs)
    assert 1e-4 < gap < 1e-2
    seen("RidgeCCA, PLS", ZOO, f"{same}; scores of new rows, about other means, {gap:.0e} apart")


def test_confounds(seen):
    """`PartialCCA(k).fit([X, Y], partials=Z)`"""
    Z, rest, units = X[:, [3]], [X[:, 4:], Y], np.r_[1e-3, np.ones(X.shape[1] - 5)]
    exact = linear.PartialCCA(3).fit(rest, partials=Z).weights_
    same = equal(pair(ls.solve(ls.CCA(*rest, 3, confounds=Z))), exact, np.sqrt(n - 1))
    short = linear.PartialCCA(3).fit([rest[0] * units, Y], partials=Z).weights_[0] * units[:, None]
    off = apart(short, exact[0])
    noise = np.random.default_rng(0).standard_normal((400, 8))
    A, B, Z = noise[:, :4] + 3 * noise[:, 7:], noise[:, 4:7] + 3 * noise[:, 7:], noise[:, 7:]
    theirs, ours = linear.PartialCCA(1).fit([A, B], partials=Z), ls.solve(ls.CCA(A, B, 1, confounds=Z))
    [right] = ours.correlations
    score, scores = theirs.score([A, B]), np.hstack(theirs.transform([A, B], partials=Z))
    assert np.corrcoef(scores.T)[0, 1] == pytest.approx(right)
    assert abs(score) > 0.8 > 0.2 > right
    with pytest.raises(ValueError, match="requires `partials`"):
        model_selection.permutation_test_significance(linear.PartialCCA(1), [A, B], n_permutations=1)
    seen("PartialCCA", ZOO, f"{same}; {off:.0%} off, a pixel in units of 1e-3; {score:.2f} for {right:.2f}")


def test_kernels(seen):
    """`KCCA(k, kernel="rbf", gamma=g, shrinkage=c)`"""
    some, kernel = [view[:200] for view in VIEWS], ls.kernels.rbf(0.002**-0.5)
    theirs = nonparametric.KCCA(2, kernel="rbf", gamma=1e-3, shrinkage=0.3).fit(some).transform(some)
    ours = ls.solve(ls.KernelCCA(*some, 2, kernel, kernel, ridge=ridge(0.3, 200))).transform(*some)
    unit = [[part / np.linalg.norm(part, axis=0) for part in parts] for parts in (ours, theirs)]
    seen("KCCA", ZOO, equal(*unit))


def test_several_views(seen):
    """`MCCA(k, shrinkage=c).fit(views)`, more than two views; `GCCA(k, view_weights=w).fit(views)`; weights with
    the largest sum of correlations (SUMCOR), rows absent in some views"""
    ours, theirs = ls.MultisetCCA(QUARTERS, 3, ridge=ridge(0.2)), linear.MCCA(3, shrinkage=0.2).fit(QUARTERS)
    same = equal(ls.solve(ours).weights, theirs.weights_, np.sqrt(4 * (n - 1) / 0.8))
    ours = ls.solve(ls.MultisetCCA(QUARTERS, 3, view_weights=[2, 1, 1, 1]))
    theirs = linear.GCCA(3, view_weights=[2, 1, 1, 1]).fit(QUARTERS)
    equal(ours.weights, theirs.weights_, np.sqrt((n - 1) * ours.eigenvalues))
    units, off = np.r_[0.01, np.ones(QUARTERS[0].shape[1] - 1)], []
    scaled, exact = [QUARTERS[0] * units, *QUARTERS[1:]], ls.solve(ls.MultisetCCA(QUARTERS, 3)).weights
    equal([units[:, None] * ls.solve(ls.MultisetCCA(scaled, 3)).weights[0]], exact[:1])
    for model in (linear.GCCA(3), linear.MCCA(3)):
        weights = model.fit(scaled).weights_[0] * units[:, None]
        off.append(apart(weights, model.fit(QUARTERS).weights_[0]))
    variances = np.array([scores.var(axis=0, ddof=1) for scores in model.transform(QUARTERS)])
    equal([variances.sum(axis=0)], [np.full(3, 4.0)])
    assert min(*off, 3 * np.ptp(variances[:, 0])) > 0.3
    total, [best] = 6 * linear.MCCA(1).fit(QUARTERS).score(QUARTERS), ls.solve(ls.SumcorCCA(QUARTERS, 1)).sums
    assert best > total
    with pytest.raises(ValueError, match="NaN"):
        model.fit([np.where(np.arange(n)[:, None] == 3, np.nan, X), Y])
    seen("MCCA, GCCA", ZOO, f"{same}; {off[1]:.0%}, {off[0]:.0%} off with a pixel in units of .01")
    seen("MCCA for SUMCOR", ZOO, f"sum of six correlations {total:.4f}, linspec {best:.4f}")


def test_iterations(seen):
    """`CCAEY`, `StochasticCCAEY`"""
    exact, models = ls.solve(ls.CCA(X, Y, 3)).transform(X, Y)[0], (linear.CCAEY, stochastic.StochasticCCAEY)
    scores = [model(3, random_state=0).fit(VIEWS).transform(VIEWS)[0] for model in models]
    angles = [scipy.linalg.subspace_angles(part, exact).max() for part in scores]
    assert 1e-5 < angles[0] < 0.1
    seen("CCAEY, StochasticCCAEY", ZOO, "angles to the exact variates {:.0e} and {:.0e}".format(*angles))


def test_searches(seen):
    """`GridSearchCV` of `cca_zoo.model_selection`"""
    shares, folds, data = [0.01, 0.1, 0.5], KFold(5), [view[:1795] for view in VIEWS]
    theirs = model_selection.GridSearchCV(linear.RidgeCCA(3), {"shrinkage": shares}, cv=folds).fit(data)
    ours = ls.cross_validate(ls.CCA(*data, 3), ridges=[ridge(c, 1436) for c in shares], splitter=folds)
    assert ours.mean.argmax() == theirs.best_index_
    same = equal([ours.mean[:, 0] / 3], [theirs.cv_results_["mean_test_score"]], most=1e-3)
    seen("GridSearchCV", ZOO, f"the same choice; scores about other means, {same} apart")


def test_permutations(seen):
    """`permutation_test_significance`"""
    noise = [np.random.default_rng(seed).standard_normal((100, 4 - seed)) for seed in (0, 1)]
    theirs = model_selection.permutation_test_significance(linear.CCA(1), noise, 999, random_state=0)
    ours = ls.permutation_test(ls.CCA(*noise, 1), permutations=999, statistic="roy", rng=0).p_values[0]
    assert abs(ours - theirs.p_values[0]) < 0.05
    seen("permutation_test_significance", ZOO, f"p {theirs.p_values[0]:.3f}, linspec {ours:.3f}")


def test_predictions(seen):
    """`model.predict([X, None])[1]`"""
    theirs, mean = linear.CCA(3).fit(VIEWS), Y.mean(axis=0)
    U, V = theirs.transform(VIEWS)
    formulas = [U @ np.linalg.lstsq(scores, Y - mean)[0] + mean for scores in ((U + V) / 2, U)]
    same = equal([theirs.predict([X, None])[1], ls.solve(ls.CCA(X, Y, 3)).predict(X)], formulas)
    seen("predict", ZOO, f"{same} from the formula of each")
