"""The answers of estimators, compared with scikit-learn's own, formulas written out, and solves by hand."""

from __future__ import annotations

import pickle
import subprocess
import sys
import warnings

import numpy as np
import pytest
import scipy.linalg
import scipy.sparse
import sklearn
from sklearn.base import clone, is_regressor
from sklearn.cross_decomposition import PLSRegression as TheirPLS
from sklearn.decomposition import PCA as TheirPCA  # noqa: N811
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.exceptions import ConvergenceWarning as TheirWarning
from sklearn.linear_model import Ridge as TheirRidge
from sklearn.linear_model import RidgeCV as TheirRidgeCV
from sklearn.metrics import r2_score
from sklearn.model_selection import GridSearchCV, GroupKFold, KFold
from sklearn.pipeline import make_pipeline

import linspec as ls
import linspec.estimators
from linspec.errors import InvalidOption, InvalidProblem, MissingCapability
from linspec.estimators import (
    CCA,
    PCA,
    ConvergenceWarning,
    Discriminant,
    KernelCCA,
    PLSRegression,
    ReducedRankRegression,
    Ridge,
    RidgeCV,
)

N, P = 80, 6
COUNTS = scipy.sparse.random_array((120, 40), density=0.1, rng=np.random.default_rng(1), format="csr")


@pytest.fixture(scope="module")
def data():
    """Rows with means far from zero, two targets with noise, three classes, whole weights."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((N, P)) @ rng.standard_normal((P, P)) + 5.0
    Y = X @ rng.standard_normal((P, 2)) + rng.standard_normal((N, 2)) - 3.0
    y = np.digitize(Y[:, 0], np.quantile(Y[:, 0], [0.3, 0.6]))
    return X, Y, y, rng.integers(0, 4, N)


@pytest.mark.parametrize("whiten", [False, True])
def test_pca_is_that_of_scikit_learn(data, whiten):
    X = data[0]
    ours, theirs = PCA(3, whiten=whiten).fit(X), TheirPCA(3, whiten=whiten).fit(X)
    signs = np.sign(np.sum(ours.components_ * theirs.components_, axis=1))
    np.testing.assert_allclose(ours.components_ * signs[:, None], theirs.components_, atol=1e-8)
    for name in ("explained_variance_", "explained_variance_ratio_", "singular_values_", "mean_"):
        np.testing.assert_allclose(getattr(ours, name), getattr(theirs, name), rtol=1e-10)
    scores = ours.transform(X)
    np.testing.assert_allclose(scores * signs, theirs.transform(X), atol=1e-7)
    np.testing.assert_allclose(ours.inverse_transform(scores), theirs.inverse_transform(scores * signs))


@pytest.mark.parametrize("targets", ["vector", "matrix"])
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("sparse", [False, True])
def test_ridge_is_that_of_scikit_learn(data, targets, intercept, sparse):
    X, Y, _, w = data
    y = Y[:, 0] if targets == "vector" else Y
    ours = Ridge(2.5, fit_intercept=intercept).fit(scipy.sparse.csr_array(X) if sparse else X, y, w)
    theirs = TheirRidge(2.5, fit_intercept=intercept).fit(X, y, w)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=1e-8)
    np.testing.assert_allclose(ours.intercept_, theirs.intercept_, atol=1e-7)
    np.testing.assert_allclose(ours.predict(X), theirs.predict(X), atol=1e-7)
    assert ours.score(X, y) == pytest.approx(theirs.score(X, y))


@pytest.mark.parametrize("targets", ["vector", "matrix"])
@pytest.mark.parametrize("scale", [False, True])
def test_pls_regression_is_that_of_scikit_learn(data, targets, scale):
    X, Y, _, _ = data
    y = Y[:, 0] if targets == "vector" else Y
    ours = PLSRegression(3, scale=scale).fit(X, y)
    theirs = TheirPLS(3, scale=scale, tol=1e-30, max_iter=100_000).fit(X, y)
    for name in ("coef_", "x_weights_"):
        assert getattr(ours, name).shape == getattr(theirs, name).shape
        np.testing.assert_allclose(getattr(ours, name), getattr(theirs, name), rtol=1e-8, atol=1e-9)
    np.testing.assert_allclose(ours.predict(X), theirs.predict(X), rtol=1e-8)
    np.testing.assert_allclose(
        X @ ours.coef_.T + ours.intercept_, theirs.predict(X).reshape(N, -1), rtol=1e-8
    )
    assert ours.intercept_.shape == theirs.intercept_.shape
    assert ours.score(X, y) == pytest.approx(theirs.score(X, y))
    factor = np.sqrt(N / (N - 1)) if scale else 1.0  # deviations divide by N, theirs by N - 1
    np.testing.assert_allclose(ours.transform(X), theirs.transform(X) * factor, rtol=1e-8, atol=1e-8)
    assert not PLSRegression(3, center=False).fit(X, y).intercept_.any()


def test_reduced_rank_regression_is_a_projection_of_least_squares(data):
    X, Y, _, _ = data
    ours = ReducedRankRegression(1, ridge=2.0).fit(X, Y)
    A, B = X - X.mean(axis=0), Y - Y.mean(axis=0)
    full = np.linalg.solve(A.T @ A + 2.0 * np.eye(P), A.T @ B)
    _, vectors = np.linalg.eigh(B.T @ A @ full)
    wanted = full @ np.outer(vectors[:, -1], vectors[:, -1])
    np.testing.assert_allclose(ours.coef_, wanted.T, atol=1e-10)
    np.testing.assert_allclose(ours.intercept_, Y.mean(axis=0) - X.mean(axis=0) @ wanted, atol=1e-9)
    assert is_regressor(ours)
    assert ours.score(X, Y) == pytest.approx(r2_score(Y, ours.predict(X)))


@pytest.mark.parametrize("targets", ["vector", "matrix"])
def test_coefficients_of_generic_regressors_predict(data, targets):
    X, Y, _, _ = data
    y = Y[:, 0] if targets == "vector" else Y
    for problem in ("least-squares", "pls-regression", "reduced-rank-regression", "ridge-many-targets"):
        found = linspec.estimators.of(problem)(center=True).fit(X, y)
        assert found.coef_.shape == (*y.shape[1:], P)
        np.testing.assert_allclose(X @ found.coef_.T + found.intercept_, found.predict(X), rtol=1e-9)
    least, theirs = linspec.estimators.of("least-squares")(ridge=2.5, center=True), TheirRidge(2.5).fit(X, y)
    np.testing.assert_allclose(least.fit(X, y).coef_, theirs.coef_, rtol=1e-8)
    np.testing.assert_allclose(least.intercept_, theirs.intercept_, rtol=1e-8)
    assert not hasattr(least.set_params(ridge=[1.0, 2.0]).fit(X, y), "coef_")


def test_targets_may_be_sparse():
    Y = scipy.sparse.random_array((120, 3), density=0.2, rng=np.random.default_rng(2), format="coo")
    for estimator in (Ridge(), RidgeCV(), RidgeCV(cv=3), CCA(2), Discriminant(target="opls")):
        dense, sparse = clone(estimator), clone(estimator)
        dense.fit(COUNTS.toarray(), Y.toarray())
        sparse.fit(COUNTS, Y)
        name = "predict" if hasattr(estimator, "alpha") or hasattr(estimator, "alphas") else "transform"
        np.testing.assert_allclose(getattr(sparse, name)(COUNTS), getattr(dense, name)(COUNTS), atol=1e-5)


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("pairs", [6, 20])
def test_rows_of_equal_leverage_are_left_out_one_by_one(intercept, pairs):
    """Then generalized cross-validation is scikit-learn's criterion, the squared errors of rows left out."""
    rng = np.random.default_rng(1)
    n = 2 * pairs + 1 if pairs > 10 else 60
    angles = 2 * np.pi * np.outer(np.arange(n), np.arange(1, pairs + 1)) / n
    lengths = rng.uniform(1.0, 5.0, pairs)
    X = np.hstack([np.cos(angles) * lengths, np.sin(angles) * lengths])
    Y = X @ rng.standard_normal((2 * pairs, 2)) + 5 * rng.standard_normal((n, 2)) + 3.0
    ridges = [0.1, 10.0, 1e3]
    theirs = TheirRidgeCV(ridges, fit_intercept=intercept, store_cv_results=True).fit(X, Y)
    ours = RidgeCV(ridges, fit_intercept=intercept).fit(X, Y)
    np.testing.assert_allclose(ours.errors_, theirs.cv_results_.mean(axis=(0, 1)), rtol=1e-8)
    assert ours.alpha_ == theirs.alpha_
    np.testing.assert_allclose(ours.coef_, theirs.coef_, rtol=1e-6)


def test_all_degrees_of_freedom_may_be_spent():
    found = RidgeCV([0.0, 1.0]).fit(np.random.default_rng(0).standard_normal((8, 20)), np.arange(8.0))
    assert np.isinf(found.errors_[0])
    assert found.alpha_ == 1.0


@pytest.mark.parametrize("settings", [{}, {"solver": "cg", "tol": 1e-12}, {"max_passes": 100}], ids=str)
@pytest.mark.parametrize("weighted", [False, True])
def test_folds_have_the_errors_of_scikit_learn(data, weighted, settings):
    X, Y, _, w = data
    w = w + 1.0 if weighted else np.ones(N)
    folds, ridges, squares = KFold(4, shuffle=True, random_state=0), (0.1, 10.0, 1e3), np.zeros(3)
    for train, test in folds.split(X):
        for i, ridge in enumerate(ridges):
            theirs = TheirRidge(ridge).fit(X[train], Y[train], w[train])
            squares[i] += np.sum(w[test, None] * (theirs.predict(X[test]) - Y[test]) ** 2)
    found = RidgeCV(ridges, cv=folds, **settings).fit(scipy.sparse.csr_array(X), Y, w if weighted else None)
    np.testing.assert_allclose(found.errors_, squares / w.sum() / 2, rtol=1e-6)
    assert found.alpha_ == ridges[int(np.argmin(squares))]


def test_cca_gives_variates_and_pairs(data):
    X, Y, _, _ = data
    cca = CCA(2)
    scores = cca.fit_transform(X, Y)
    P, Q = cca.transform(X, Y)
    np.testing.assert_array_equal(cca.transform(X), P)
    np.testing.assert_allclose(scores, P)
    angles = scipy.linalg.subspace_angles(X - X.mean(axis=0), Y - Y.mean(axis=0))
    np.testing.assert_allclose(cca.correlations_, np.sort(np.cos(angles))[::-1], atol=1e-10)
    np.testing.assert_allclose(np.diag(P.T @ Q), cca.correlations_, atol=1e-10)
    assert cca.score(X, Y) == pytest.approx(cca.correlations_.sum())


def test_kernel_cca_with_linear_kernels_is_cca(data):
    X, Y, _, _ = data
    gram, plain = (
        KernelCCA(2, kernel_x="precomputed", kernel_y="linear", ridge=1.0),
        CCA(2, ridge=1.0).fit(X, Y),
    )
    np.testing.assert_allclose(gram.fit(X @ X.T, Y).correlations_, plain.correlations_)
    assert gram.score(X @ X.T, Y) == pytest.approx(plain.score(X, Y), abs=1e-6)
    assert gram.__sklearn_tags__().input_tags.pairwise


def test_probabilities_are_those_of_scikit_learn(data):
    X, _, y, _ = data
    names = np.array(["oak", "elm", "ash"])[y]
    ours = Discriminant(ridge=0.0).fit(X, names)
    theirs = LinearDiscriminantAnalysis(solver="lsqr", shrinkage=0.0).fit(X, names)  # scatter over n, as ours
    assert ours.classes_.tolist() == theirs.classes_.tolist()
    np.testing.assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), atol=1e-7)
    np.testing.assert_allclose(ours.predict_log_proba(X), np.log(ours.predict_proba(X)))
    assert (ours.predict(X) == theirs.predict(X)).all()
    two = Discriminant().fit(X, y == 0)
    log = two.predict_log_proba(X)
    np.testing.assert_allclose(two.decision_function(X), log[:, 1] - log[:, 0])
    np.testing.assert_array_equal(two.predict(X), two.decision_function(X) > 0)


@pytest.mark.parametrize("classes", [2, 3])
def test_discriminant_functions_are_those_of_scikit_learn(data, classes):
    X, _, y, _ = data
    y = np.minimum(y, classes - 1)
    ours = Discriminant(ridge=0.0).fit(X, y)
    theirs = LinearDiscriminantAnalysis(solver="lsqr").fit(X, y)  # scatter over n, as ours
    for name in ("coef_", "intercept_"):
        here, there = getattr(ours, name), getattr(theirs, name)
        assert here.shape == there.shape
        if classes > 2:  # the functions of all classes are known up to the same function
            here, there = here[1:] - here[:1], there[1:] - there[:1]
        np.testing.assert_allclose(here, there, rtol=1e-8, atol=1e-8)
    shrunk = Discriminant(ridge=3.0, scale=True, priors=(0.1, 0.6, 0.3)[:classes]).fit(X, y)
    values = np.squeeze(X @ shrunk.coef_.T + shrunk.intercept_)
    np.testing.assert_allclose(shrunk.decision_function(X), values, atol=1e-9)


@pytest.mark.parametrize("target", ["lda", "opls", "cca", "hsl", "hsl-clique", "hsl-star"])
def test_a_class_of_rows_that_do_not_count_is_left_out(data, target):
    X, _, y, w = data
    w = np.where(y == 1, 0, w + 1)
    weighted = Discriminant(target=target).fit(X, y, w)
    repeated = Discriminant(target=target).fit(np.repeat(X, w, axis=0), np.repeat(y, w))
    assert weighted.classes_.tolist() == [0, 2]
    np.testing.assert_allclose(weighted.eigenvalues_, repeated.eigenvalues_, rtol=1e-9)
    np.testing.assert_allclose(weighted.predict_proba(X), repeated.predict_proba(X), atol=1e-7)


def test_labels_of_which_a_row_has_several(data):
    X, Y, _, _ = data
    labels = np.greater(Y, Y.mean(axis=0)).astype(int)
    found = Discriminant(target="cca").fit(X, labels)
    assert found.classes_ is None
    assert not hasattr(found, "coef_")
    with pytest.raises(MissingCapability, match="fit had a class for each row; it had a matrix of labels"):
        found.predict(X)


@pytest.mark.parametrize("estimator", [PCA(2), CCA(2), Discriminant(), Ridge(), RidgeCV()], ids=str)
def test_files_and_slices_of_rows(data, estimator, tmp_path):
    X, Y, y, _ = data
    np.save(tmp_path / "X.npy", X)
    second = y if isinstance(estimator, Discriminant) else Y
    method = "predict" if isinstance(estimator, Ridge | RidgeCV) else "transform"
    wanted = getattr(clone(estimator).fit(X, second), method)(X)
    for rows in (tmp_path / "X.npy", ls.as_operator(X), lambda: iter(np.array_split(X, 4))):
        found = clone(estimator).fit(rows, second)
        np.testing.assert_allclose(getattr(found, method)(rows), wanted, atol=1e-6)
        assert found.n_features_in_ == P
        with pytest.raises(InvalidProblem, match="X must have 6 columns, as in fit; got 5"):
            getattr(found, method)(ls.as_operator(X[:, :5]))


def test_searches_select_rows_of_operators(tmp_path):
    rng = np.random.default_rng(0)
    X, trials = rng.standard_normal((90, 3)), np.repeat(np.arange(9), 10)
    y = X[:, 0] + rng.standard_normal(90)
    np.save(tmp_path / "rows.npy", X)
    for rows in (ls.open_rows(tmp_path / "rows.npy"), ls.lagged(X, range(3), trials)):
        found, theirs = (
            GridSearchCV(Ridge(), {"alpha": [0.1, 10.0, 1e3]}, cv=GroupKFold(3)).fit(data, y, groups=trials)
            for data in (rows, rows.dense())
        )
        np.testing.assert_allclose(
            found.cv_results_["mean_test_score"], theirs.cv_results_["mean_test_score"], rtol=1e-9
        )


def test_an_answer_that_has_not_converged_warns_once():
    found = PCA(2, solver="block-krylov", random_state=0, tol=1e-12, max_passes=3)
    found.set_params(solver_options={"form": "implicit"})
    with pytest.warns(ConvergenceWarning, match=r"PCA: block-krylov has not converged \(BUDGET\)") as caught:
        found.fit(COUNTS)
    assert [w.category for w in caught] == [ConvergenceWarning]
    assert caught[0].filename == __file__
    assert not found.solution_.converged
    for category in (TheirWarning, ls.errors.ConvergenceWarning):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", category)
            found.fit(COUNTS)


@pytest.mark.filterwarnings("ignore")
def test_options_go_to_the_solver_that_is_named():
    by_hand = ls.solve(ls.SVD(COUNTS, 2, center=True), "spca", rng=0, power_iterations=5)
    instance = ls.get_solver("spca")(power_iterations=5)
    for named in (
        {"solver": "spca", "solver_options": {"power_iterations": 5}, "tol": 1.0},
        {"solver": instance},
    ):
        found = clone(PCA(2, random_state=0, **named)).fit(COUNTS)
        np.testing.assert_array_equal(found.components_, by_hand.Vh)


@pytest.mark.parametrize(
    ("estimator", "y", "error", "match"),
    [
        (Ridge([1, 2]), [0, 1, 2, 3], InvalidOption, r"one number; got \[1, 2\]. RidgeCV chooses"),
        (RidgeCV("many"), [0, 1, 2, 3], InvalidOption, "alphas must be a sequence of numbers; got 'many'"),
        (Discriminant(target="pca"), [0, 0, 1, 1], InvalidOption, r"one of 'lda', 'opls'.*got 'pca'"),
        (Discriminant(), [0, 0, 0, 0], InvalidProblem, "at least two classes; got one class"),
        (PCA(2, solver_options={"steps": 5}), None, TypeError, "takes only tol; got steps"),
    ],
)
def test_parameters_are_checked_by_fit(estimator, y, error, match):
    with pytest.raises(error, match=match):
        estimator.fit(np.eye(4), y)


def test_estimators_of_a_problem_have_the_answers_of_solve(data):
    X, Y, _, w = data
    found = linspec.estimators.of("cca")(n_components=2, ridge=1.0).fit(X, Y, sample_weight=w)
    solution = ls.solve(ls.CCA(X, Y, k=2, ridge=1.0, sample_weight=w))
    np.testing.assert_allclose(found.correlations_, solution.correlations, rtol=1e-12)
    np.testing.assert_allclose(found.x_weights_, solution.x_weights, rtol=1e-9, atol=1e-12)
    for own, other in zip(found.transform(X, Y), solution.transform(X, Y), strict=True):
        np.testing.assert_allclose(own, other, rtol=1e-9, atol=1e-9)
    assert found.n_components_ == 2
    assert found.solution_.converged


def test_a_class_of_a_problem_is_made_once_searched_and_pickled(data):
    X, Y, _, _ = data
    Least = linspec.estimators.of("least-squares")
    assert Least is linspec.estimators.of(ls.LeastSquares)
    grid = GridSearchCV(Least(center=True), {"ridge": [0.1, 1e6]}).fit(X, Y)
    assert grid.best_params_ == {"ridge": 0.1}
    again = pickle.loads(pickle.dumps(grid.best_estimator_))
    np.testing.assert_array_equal(again.predict(X), grid.predict(X))
    assert type(again) is Least
    with pytest.raises(TypeError, match="unexpected keyword argument 'k'"):
        linspec.estimators.of("svd")(k=2)
    with pytest.raises(InvalidOption, match="name or the class of a problem"):
        linspec.estimators.of(np.ndarray)


def test_weights_and_groups_are_routed(data):
    X, Y, _, w = data
    with sklearn.config_context(enable_metadata_routing=True):
        ridge = RidgeCV((0.1, 1e3), cv=GroupKFold(4)).set_fit_request(sample_weight=True, groups=True)
        line = make_pipeline(PCA(3).set_fit_request(sample_weight=True), ridge)
        groups = np.arange(N) % 8
        line.fit(X, Y, sample_weight=w, groups=groups)
        components = PCA(3).fit(X, sample_weight=w)
    np.testing.assert_allclose(line[0].components_, components.components_)
    by_hand = RidgeCV((0.1, 1e3), cv=GroupKFold(4)).fit(components.transform(X), Y, w, groups)
    np.testing.assert_allclose(line[1].errors_, by_hand.errors_)


def test_the_extra_is_named_where_scikit_learn_is_missing():
    code = "import sys; sys.modules['sklearn'] = None; import linspec.estimators"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "needs scikit-learn, which is not installed. Run: pip install 'linspec[sklearn]'" in run.stderr
