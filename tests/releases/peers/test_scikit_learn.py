"""Each row of the table of docs/start/coming-from-scikit-learn.md, which docstrings name, against scikit-learn."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
import scipy
import sklearn
from sklearn.cross_decomposition import CCA, PLSSVD, PLSRegression
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_linnerud, load_wine
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import LinearRegression, Ridge, RidgeCV

import linspec as ls
import linspec.estimators

PAGE = Path(__file__).parents[3] / "docs" / "start" / "coming-from-scikit-learn.md"
VERSION = tuple(map(int, re.findall(r"\d+", sklearn.__version__)))
DIGITS, BODIES, (A, b) = load_digits().data, load_linnerud(return_X_y=True), load_diabetes(return_X_y=True)
WINE, CLASSES = load_wine(return_X_y=True)
ALPHAS = np.logspace(-2, 3, 11)
SK = "scikit-learn"
pytestmark = pytest.mark.filterwarnings("error")  # what is said of scikit-learn, it does without a word


def test_each_row_of_the_page_is_here():
    """`PLSCanonical`; `KernelPCA`, sparse PCA, factor analysis"""  # of which linspec has none
    assert not {"pls-canonical", "kernel-pca", "sparse-pca", "factor-analysis"} & set(ls.problems())
    _, *cells = re.findall(r"^\| (.*?) \| ", PAGE.read_text("utf-8"), re.MULTILINE)
    docs = "; ".join(test.__doc__ or "" for name, test in globals().items() if name.startswith("test_"))
    assert {*" ".join(docs.split()).split("; ")} == {*cells}


def apart(ours, theirs):
    """The largest difference over the largest number."""
    return float(np.abs(np.ravel(ours) - np.ravel(theirs)).max() / np.abs(theirs).max())


def equal(*pairs, most=1e-10):
    """How far ours are from theirs, at most."""
    worst = max(apart(*pair) for pair in pairs)
    assert worst < most
    return f"{worst:.0e}"


def aligned(ours, theirs):
    """Each column with the sign and the length of its counterpart."""
    lengths = np.linalg.norm(theirs, axis=0) / np.linalg.norm(ours, axis=0)
    return ours * lengths * np.sign(np.sum(ours * theirs, axis=0)), theirs


def correlations_of(model, X, Y):
    return [np.corrcoef(u, v)[0, 1] for u, v in zip(*(S.T for S in model.transform(X, Y)), strict=True)]


def test_principal_components(seen):
    """`PCA(k).fit(X)`; `PCA(k, whiten=True)`"""
    theirs, ours, off = PCA(5).fit(DIGITS), ls.solve(ls.SVD(DIGITS, 5, center=True)), []
    variances, scores = (ours.explained_variance, theirs.explained_variance_), ours.transform(DIGITS)
    white = scores / np.sqrt(ours.explained_variance), PCA(5, whiten=True).fit_transform(DIGITS)
    same = equal((ours.Vh, theirs.components_), (scores, theirs.transform(DIGITS)), variances, white)
    X = np.random.default_rng(0).standard_normal((1000, 5)) * [5, 4, 3, 2, 1]
    for far in (X + 1e5, X + 1e6, X + 1e7, X + 1e8):
        exact = np.linalg.svd(far - far.mean(axis=0), compute_uv=False) ** 2 / 999
        equal((PCA(5, svd_solver="full").fit(far).explained_variance_, exact))
        equal((ls.solve(ls.SVD(far, 5, center=True)).explained_variance, exact))
        off.append(apart(PCA(5).fit(far).explained_variance_, exact))
    assert off[0] < 1e-5 < off[1] < off[2] < off[3] > 0.01
    ones = (np.random.default_rng(0).random((2**25, 2)) < [0.9, 0.5]).astype(np.float32)
    equal((ls.solve(ls.SVD(ones, 2, center=True)).explained_variance, [0.25, 0.09]), most=1e-3)
    assert PCA(2).fit(ones).mean_[0] == 0.5
    low = DIGITS[:50, 10:13] @ np.random.default_rng(0).standard_normal((3, 6))
    assert PCA(5, whiten=True).fit(low).transform(low)[:, 3:].std(axis=0).min() > 0.1
    assert ls.solve(ls.SVD(low, 5, center=True)).status.name == "RANK_DEFICIENT"
    seen("PCA", SK, f"{same}; {off[1]:.0e} off at means of 1e6, {off[3]:.0e} at 1e8; mean .5 for .9, float32")


def test_truncated(seen):
    """`TruncatedSVD(k).fit(X)`"""
    theirs, ours = TruncatedSVD(20, algorithm="arpack").fit(DIGITS), ls.solve(ls.SVD(DIGITS, 20), "gram")
    same = equal((ours.S, theirs.singular_values_), aligned(ours.Vh.T, theirs.components_.T))
    assert theirs.explained_variance_ratio_[0] < theirs.explained_variance_ratio_[1]
    vectors = apart(*aligned(TruncatedSVD(20, random_state=0).fit(DIGITS).components_.T, ours.Vh.T))
    assert 1e-3 < vectors < 1e-2
    seen("TruncatedSVD", SK, f"{same} with arpack; vectors {vectors:.0e} off by default")


def test_linear_models(seen):
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
            off.append(apart(model.fit(S, y).coef_, dense))
        equal((Ridge(1.0, tol=1e-12).fit(S, y).coef_, Ridge(1.0).fit(X, y).coef_), most=1e-6)
    assert min(off) > 0.01
    units, exact = np.array([1e-6] + [1.0] * 9), LinearRegression().fit(A, b).coef_
    pairs.append((ls.solve(ls.LeastSquares(A * units, b, center=True)).x * units, exact))
    first = LinearRegression().fit(A * units, b).coef_[0] * units[0]
    assert (abs(first) < 1e-6 < abs(exact[0])) == (VERSION >= (1, 9))
    small = f"{first:.0f} for {exact[0]:.0f} of a column in units of 1e-6"
    seen("LinearRegression, Ridge", SK, f"{equal(*pairs)}; sparse {np.round(off, 2)} off; {small}")


def test_ridges(seen):
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
    seen("RidgeCV", SK, f"{equal(*pairs)}; another choice of 30: {others[0]} without cv, {others[1]} by R²")


def test_kernel_ridge(seen):
    """`KernelRidge(alpha, kernel="rbf", gamma=g)`"""
    near, theirs, ours, off = A / A.std(axis=0), KernelRidge(alpha=0.01, kernel="rbf", gamma=0.05), [], []
    for X in (near, near + 1e5, near + 1e6):
        solution = ls.solve(ls.KernelRidge(X, b, 0.01, ls.kernels.rbf(10**0.5)), "direct")
        ours.append(solution.predict(X))
        off.append(apart(theirs.fit(X, b).predict(X), ours[-1]))
    assert off[0] < 1e-11 < 1e-5 < off[1] < 0.01 < off[2]
    seen(
        "KernelRidge", SK, f"{off[0]:.0e}; {off[2]:.0e} off at means of 1e6, ours {equal((ours[0], ours[2]))}"
    )


def test_canonical_correlations(seen):
    """`CCA(k).fit(X, Y)`"""
    theirs, ours = CCA(3, tol=1e-24, max_iter=100_000).fit(*BODIES), ls.solve(ls.CCA(*BODIES, 3, scale=True))
    variates = map(aligned, ours.transform(*BODIES), theirs.transform(*BODIES))
    same = equal((ours.correlations, correlations_of(theirs, *BODIES)), *variates)
    H, rho = scipy.linalg.hadamard(16)[:, 1:5].astype(float), np.array([0.3, 0.9])
    X, Y = H[:, :2], H[:, :2] * rho + H[:, 2:] * np.sqrt(1 - rho**2)
    equal((correlations_of(CCA(2).fit(X, Y), X, Y), rho), (ls.solve(ls.CCA(X, Y, 2)).correlations, rho[::-1]))
    X, Y = np.random.default_rng(0).standard_normal((2, 20, 30))
    equal((correlations_of(CCA(3).fit(X, Y), X, Y), np.ones(3)))
    assert ls.solve(ls.CCA(X, Y, 3)).status.name == "RANK_DEFICIENT"
    seen("CCA", SK, f"{same} with tol=1e-24; orthogonal columns .3, .9; noise of 20 x 30 1, 1, 1")


def test_partial_least_squares(seen):
    """`PLSRegression(k)`, `PLSSVD(k)`"""
    theirs = PLSRegression(2, tol=1e-30).fit(*BODIES)
    ours = ls.solve(ls.PLSRegression(*BODIES, k=2, scale=True))
    svd, pairs = PLSSVD(2).fit(*BODIES), ls.solve(ls.PLS(*BODIES, k=2, scale=True))
    weights = (ours.x_weights, theirs.x_weights_), aligned(pairs.x_weights, svd.x_weights_)
    same, rng = equal((ours.coefficients(), theirs.coef_.T), *weights), np.random.default_rng(0)
    loose = apart(PLSRegression(2).fit(*BODIES).coef_.T, ours.coefficients())
    X = rng.standard_normal((50, 2)) @ rng.standard_normal((2, 6))
    y = X @ rng.standard_normal(6) + rng.standard_normal(50)
    noise, low = PLSRegression(3).fit(X, y).coef_, ls.solve(ls.PLSRegression(X, y, k=3, scale=True))
    equal((low.predict(X), LinearRegression().fit(X, y).predict(X)))
    assert low.status.name == "RANK_DEFICIENT"
    assert np.abs(noise).max() > 1e12
    with pytest.warns(UserWarning, match="constant"):
        assert not PLSRegression(2, scale=False).fit(X, 1e-17 * y).coef_.any()
    tiny = ls.solve(ls.PLSRegression(X, 1e-17 * y, k=2)).coefficients()
    equal((1e17 * tiny, PLSRegression(2, scale=False).fit(X, y).coef_))
    seen("PLSRegression, PLSSVD", SK, f"{same}; {loose:.0e} with its tol; {np.abs(noise).max():.0e} beyond")


def test_errors_of_coefficients(seen):
    """`OLS(b, A).fit(cov_type=...)` of statsmodels"""
    models = pytest.importorskip("statsmodels.api", reason="statsmodels is not in this environment")
    theirs = models.OLS(b, models.add_constant(A)).fit(cov_type="HC3", use_t=True)
    ours = ls.standard_errors(ls.LeastSquares(A, b, center=True), "HC3")
    seen("OLS, HC3", "statsmodels", equal((ours.errors, theirs.bse), (ours.p_values, theirs.pvalues)))


def test_discriminants(seen):
    """`LinearDiscriminantAnalysis()`"""
    targets = ls.targets.lda(CLASSES)
    theirs, ours = LinearDiscriminantAnalysis().fit(WINE, CLASSES), ls.solve(ls.Discriminant(WINE, targets))
    assert np.array_equal(ours.predict(WINE), theirs.predict(WINE))
    squares = LinearDiscriminantAnalysis(solver="lsqr").fit(WINE, CLASSES).predict_proba(WINE)
    same = equal((ours.probabilities(WINE), squares), aligned(ours.transform(WINE), theirs.transform(WINE)))
    far = WINE + 1e6
    equal((ls.solve(ls.Discriminant(far, targets)).probabilities(far), squares), most=1e-8)
    lost = apart(LinearDiscriminantAnalysis(solver="lsqr").fit(far, CLASSES).predict_proba(far), squares)
    assert lost > 1e-3
    gap = np.abs(ours.probabilities(WINE) - theirs.predict_proba(WINE)).max()
    assert gap < 1e-10 if VERSION >= (1, 9, 1) else 4e-3 < gap < 5e-3
    Z = (WINE - WINE.mean(axis=0)) / WINE.std(axis=0)
    within = Z - np.array([Z[np.equal(CLASSES, label)].mean(axis=0) for label in range(3)])[CLASSES]
    theirs = LinearDiscriminantAnalysis(solver="lsqr", shrinkage=0.9).fit(Z, CLASSES)
    ours = ls.solve(ls.Discriminant(Z, targets, ridge=9 * np.sum(within**2) / 13))
    shares = np.stack([ours.probabilities(Z), theirs.predict_proba(Z)])
    odds = np.log(shares[:, :, 1] / shares[:, :, 0] * 59 / 71)
    equal((10 * odds[0], odds[1]))
    assert np.sum(ours.predict(Z) != theirs.predict(Z)) == 4
    seen("LDA", SK, f"{same} with lsqr, {lost:.0e} off at means of 1e6; by default {gap:.0e} off")
    seen("LDA, shrinkage=.9", SK, "10 times the log odds, 4 of 178 predictions differ")
