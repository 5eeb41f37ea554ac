"""Each row of the table of docs/start/coming-from-scikit-learn.md, which docstrings name, against scikit-learn."""

from __future__ import annotations

import re

import numpy as np
import pytest
import scipy
import sklearn
from releases.conftest import difference, equal, unit, unmatched
from sklearn.cross_decomposition import CCA, PLSSVD, PLSRegression
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_linnerud, load_wine
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import LinearRegression, Ridge, RidgeCV

import linspec as ls
import linspec.estimators

VERSION = tuple(map(int, re.findall(r"\d+", sklearn.__version__)))
DIGITS, BODIES, (A, b) = load_digits().data, load_linnerud(return_X_y=True), load_diabetes(return_X_y=True)
WINE, CLASSES = load_wine(return_X_y=True)
ALPHAS = np.logspace(-2, 3, 11)
SK = "scikit-learn"
pytestmark = pytest.mark.filterwarnings("error")  # what is said of scikit-learn, it does without a word


def test_each_row_of_the_page_is_here():
    """`PLSCanonical`; `KernelPCA`, sparse PCA, factor analysis"""  # of which linspec has none
    assert not {"pls-canonical", "kernel-pca", "sparse-pca", "factor-analysis"} & set(ls.problems())
    assert not unmatched("coming-from-scikit-learn.md", globals())


def correlations_of(model, X, Y):
    return [np.corrcoef(u, v)[0, 1] for u, v in zip(*(S.T for S in model.transform(X, Y)), strict=True)]


def test_principal_components(same):
    """`PCA(k).fit(X)`; `PCA(k, whiten=True)`"""
    theirs, ours, off = PCA(5).fit(DIGITS), ls.solve(ls.SVD(DIGITS, 5, center=True)), []
    assert np.vdot(ours.Vh, theirs.components_) > 4.99  # all signs are the same
    pairs = [(ours.Vh.T, theirs.components_.T), (ours.explained_variance, theirs.explained_variance_)]
    white = ours.transform(DIGITS) / np.sqrt(ours.explained_variance)
    pairs += [(white, PCA(5, whiten=True).fit_transform(DIGITS))]
    X = np.random.default_rng(0).standard_normal((1000, 5)) * [5, 4, 3, 2, 1]
    for far in (X + 1e6, X + 1e8):
        full = PCA(5, svd_solver="full").fit(far).explained_variance_
        equal((ls.solve(ls.SVD(far, 5, center=True)).explained_variance, full))
        off.append(difference(PCA(5).fit(far).explained_variance_, full))
    assert 1e-5 < off[0] < 0.01 < off[1]
    ones = (np.random.default_rng(0).random((2**25, 2)) < [0.9, 0.5]).astype(np.float32)
    equal((ls.solve(ls.SVD(ones, 2, center=True)).explained_variance, [0.25, 0.09]), within=1e-3)
    assert PCA(2).fit(ones).mean_[0] == 0.5
    low = DIGITS[:50, 10:13] @ np.random.default_rng(0).standard_normal((3, 6))
    assert PCA(5, whiten=True).fit(low).transform(low)[:, 3:].std(axis=0).min() > 0.1
    assert ls.solve(ls.SVD(low, 5, center=True)).status.name == "RANK_DEFICIENT"
    words = f"; {off[0]:.0e} off at means of 1e6, {off[1]:.0e} at 1e8; mean .5 for .9, float32"
    same("PCA", SK, *pairs, besides=words)


def test_truncated(same):
    """`TruncatedSVD(k).fit(X)`"""
    theirs, ours = TruncatedSVD(20, algorithm="arpack").fit(DIGITS), ls.solve(ls.SVD(DIGITS, 20), "gram")
    assert theirs.explained_variance_ratio_[0] < theirs.explained_variance_ratio_[1]
    vectors = difference(TruncatedSVD(20, random_state=0).fit(DIGITS).components_.T, ours.Vh.T)
    assert 1e-3 < vectors < 1e-2
    pairs = [(ours.S, theirs.singular_values_), (ours.Vh.T, theirs.components_.T)]
    same("TruncatedSVD, arpack", SK, *pairs, besides=f"; vectors {vectors:.0e} off by default")


def test_linear_models(same):
    """`LinearRegression()`, `Ridge(alpha)`"""
    pairs, off = [], []
    for X in (A, np.random.default_rng(0).standard_normal((40, 100))):
        for model, ridge in ((Ridge(3.0), 3.0), (LinearRegression(), 0.0)):
            theirs = model.fit(X, b[: len(X)])
            ours = ls.solve(ls.LeastSquares(X, b[: len(X)], ridge=ridge, center=True))
            pairs += [(ours.x, theirs.coef_), (ours.predict(X), theirs.predict(X))]
    for X, y in (load_digits(return_X_y=True), load_breast_cancer(return_X_y=True)):
        S = scipy.sparse.csr_array(X)
        for model, ridge in ((Ridge(1.0), 1.0), (LinearRegression(), 0.0)):
            dense = model.fit(X, y).coef_
            equal((ls.solve(ls.LeastSquares(S, 1.0 * y, ridge=ridge, center=True), tol=1e-12).x, dense))
            off.append(difference(model.fit(S, y).coef_, dense))
        equal((Ridge(1.0, tol=1e-12).fit(S, y).coef_, Ridge(1.0).fit(X, y).coef_), within=1e-6)
    assert min(off) > 0.01
    units, exact = np.array([1e-6] + [1.0] * 9), LinearRegression().fit(A, b).coef_
    pairs.append((ls.solve(ls.LeastSquares(A * units, b, center=True)).x * units, exact))
    first = LinearRegression().fit(A * units, b).coef_[0] * units[0]
    assert (abs(first) < 1e-6 < abs(exact[0])) == (VERSION >= (1, 9))
    words = f"; sparse {np.round(off, 2)} off; {first:.0f} for {exact[0]:.0f} of a column in units of 1e-6"
    same("LinearRegression, Ridge", SK, *pairs, besides=words)


def test_ridges(same):
    """`RidgeCV(alphas)`; `RidgeCV(alphas, alpha_per_target=True)`"""
    pairs, others = [], np.zeros(2, int)
    for rng in map(np.random.default_rng, range(30)):
        X = rng.standard_normal((30, 20))
        y = X @ rng.standard_normal(20) + 3 * rng.standard_normal(30)
        theirs = RidgeCV(ALPHAS, cv=5, scoring="neg_mean_squared_error").fit(X, y)
        ours, single = (linspec.estimators.RidgeCV(alphas=ALPHAS, cv=cv).fit(X, y) for cv in (5, None))
        listed = ls.solve(ls.LeastSquares(X, y, ridge=list(ALPHAS), center=True)).x
        pairs += [(ours.coef_, theirs.coef_), (listed[list(ALPHAS).index(theirs.alpha_)], theirs.coef_)]
        others += [model.alpha_ != RidgeCV(ALPHAS, cv=model.cv).fit(X, y).alpha_ for model in (single, ours)]
    assert others.min() > 0
    targets = ls.solve(ls.RidgeManyTargets(A, np.column_stack([b, A[:, 0] ** 2]), ALPHAS))
    pairs += [(targets.weights[:, 0], Ridge(targets.ridges[0]).fit(A, b).coef_)]
    words = f"; another choice of 30: {others[0]} without cv, {others[1]} by R²"
    same("RidgeCV", SK, *pairs, besides=words)


def test_kernel_ridge(seen):
    """`KernelRidge(alpha, kernel="rbf", gamma=g)`"""
    near, theirs, ours, off = A / A.std(axis=0), KernelRidge(alpha=0.01, kernel="rbf", gamma=0.05), [], []
    for X in (near, near + 1e5, near + 1e6):
        solution = ls.solve(ls.KernelRidge(X, b, 0.01, ls.kernels.rbf(10**0.5)), "direct")
        ours.append(solution.predict(X))
        off.append(difference(theirs.fit(X, b).predict(X), ours[-1]))
    assert off[0] < 1e-11 < 1e-5 < off[1] < 0.01 < off[2]
    words = f"{off[0]:.0e}; {off[2]:.0e} off at means of 1e6, ours {equal((ours[0], ours[2])):.0e}"
    seen("KernelRidge", SK, words)


def test_canonical_correlations(same):
    """`CCA(k).fit(X, Y)`"""
    theirs, ours = CCA(3, tol=1e-24, max_iter=100_000).fit(*BODIES), ls.solve(ls.CCA(*BODIES, 3, scale=True))
    pairs = [(unit(ours.transform(*BODIES)[i]), unit(theirs.transform(*BODIES)[i])) for i in (0, 1)]
    pairs.append((ours.correlations, correlations_of(theirs, *BODIES)))
    H, rho = scipy.linalg.hadamard(16)[:, 1:5].astype(float), np.array([0.3, 0.9])
    X, Y = H[:, :2], H[:, :2] * rho + H[:, 2:] * np.sqrt(1 - rho**2)
    equal((correlations_of(CCA(2).fit(X, Y), X, Y), rho), (ls.solve(ls.CCA(X, Y, 2)).correlations, rho[::-1]))
    X, Y = np.random.default_rng(0).standard_normal((2, 20, 30))
    equal((correlations_of(CCA(3).fit(X, Y), X, Y), np.ones(3)))
    assert ls.solve(ls.CCA(X, Y, 3)).status.name == "RANK_DEFICIENT"
    words = "; orthogonal columns .3, .9; noise of 20 x 30 1, 1, 1"
    same("CCA, tol=1e-24", SK, *pairs, besides=words)


def test_partial_least_squares(same):
    """`PLSRegression(k)`, `PLSSVD(k)`"""
    theirs = PLSRegression(2, tol=1e-30).fit(*BODIES)
    ours = ls.solve(ls.PLSRegression(*BODIES, k=2, scale=True))
    svd = ls.solve(ls.PLS(*BODIES, k=2, scale=True)).x_weights, PLSSVD(2).fit(*BODIES).x_weights_
    pairs = [(ours.coefficients(), theirs.coef_.T), (ours.x_weights, theirs.x_weights_), svd]
    loose = difference(PLSRegression(2).fit(*BODIES).coef_.T, ours.coefficients())
    same("PLSRegression, PLSSVD", SK, *pairs, besides=f"; {loose:.0e} with its tol")


def test_discriminants(same):
    """`LinearDiscriminantAnalysis()`"""
    targets, squares = ls.targets.lda(CLASSES), LinearDiscriminantAnalysis(solver="lsqr")
    theirs, ours = LinearDiscriminantAnalysis().fit(WINE, CLASSES), ls.solve(ls.Discriminant(WINE, targets))
    assert np.array_equal(ours.predict(WINE), theirs.predict(WINE))
    shares, far = squares.fit(WINE, CLASSES).predict_proba(WINE), WINE + 1e6
    pairs = [(ours.probabilities(WINE), shares), (unit(ours.transform(WINE)), unit(theirs.transform(WINE)))]
    equal((ls.solve(ls.Discriminant(far, targets)).probabilities(far), shares), within=1e-8)
    lost = difference(squares.fit(far, CLASSES).predict_proba(far), shares)
    assert lost > 1e-3
    gap = np.abs(ours.probabilities(WINE) - theirs.predict_proba(WINE)).max()
    assert gap < 1e-10 if VERSION >= (1, 9, 1) else 4e-3 < gap < 5e-3
    words = f"; {lost:.0e} off at means of 1e6; by default {gap:.0e} off"
    same("LDA, lsqr", SK, *pairs, besides=words)
