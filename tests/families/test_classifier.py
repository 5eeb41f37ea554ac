"""Classes predicted in discriminant subspaces. The oracle is the formula in all columns."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from scipy.special import logsumexp

import linspec as ls
from linspec import targets
from linspec.errors import InvalidOption, InvalidProblem, MissingCapability

N, FITTED, NEW = 400, slice(0, 300), slice(300, 400)
NAMES = np.array(["elm", "ash", "oak", "fir"])
PRIORS = [0.1, 0.2, 0.3, 0.4]


@pytest.fixture(scope="module")
def data():
    """Rows of four classes that overlap, unequally many, with means far from zero."""
    rng = np.random.default_rng(0)
    codes = rng.choice(4, N, p=[0.4, 0.3, 0.2, 0.1])
    X = 1.5 * rng.standard_normal((4, 7))[codes] + 5.0
    X += rng.standard_normal((N, 7)) @ rng.standard_normal((7, 7))
    return X, NAMES[codes]


def solved(X, y, solver="direct", **parameters):
    return ls.solve(ls.Discriminant(X, targets.lda(y), **parameters), solver)


def both_ways(solution, X, y, **options):
    return solution.classifier(**options), solution.classifier(X, y, **options)


def posterior(X, y, rows, ridge=0.0, priors=None):
    """Posterior probabilities of normal classes with one covariance, in all columns, written out."""
    names, codes = np.unique(y, return_inverse=True)
    means = np.stack([X[codes == j].mean(axis=0) for j in range(len(names))])
    deviations = X - means[codes]
    covariance = (deviations.T @ deviations + ridge * np.eye(X.shape[1])) / len(X)
    distances = [np.sum((rows - m) * np.linalg.solve(covariance, (rows - m).T).T, axis=1) for m in means]
    shares = {"None": np.bincount(codes) / len(codes), "uniform": np.full(len(names), 1 / len(names))}
    priors = shares.get(str(priors), priors)
    logs = np.log(priors) - np.stack(distances, axis=1) / 2
    return np.exp(logs - logsumexp(logs, axis=1, keepdims=True))


@pytest.mark.parametrize("solver", ["direct", "two-stage"])
@pytest.mark.parametrize("priors", [None, PRIORS, "uniform"], ids=["frequencies", "given", "uniform"])
@pytest.mark.parametrize("center", [True, False], ids=["centred", "uncentred"])
@pytest.mark.parametrize("ridge", [0.0, 100.0])
def test_the_subspace_has_the_posterior_of_all_columns(data, solver, priors, center, ridge):
    X, y = data
    solution = solved(X[FITTED], y[FITTED], solver, ridge=ridge, center=center)
    exact = posterior(X[FITTED], y[FITTED], X[NEW], ridge, priors)
    named, close = np.sort(NAMES)[exact.argmax(axis=1)], 1e-9 if solver == "direct" else 1e-6
    for classifier in both_ways(solution, X[FITTED], y[FITTED], priors=priors):
        np.testing.assert_allclose(classifier.probabilities(X[NEW]), exact, atol=close)
        np.testing.assert_array_equal(classifier.predict(X[NEW]), named)
    np.testing.assert_allclose(solution.probabilities(X[NEW], priors=priors), exact, atol=close)
    np.testing.assert_array_equal(solution.predict(X[NEW], priors=priors), named)


def test_classes_come_back_as_they_were_given(data):
    X, y = data
    codes = np.unique(y, return_inverse=True)[1]
    names = NAMES[codes]
    for given in (codes, codes > 1, names.tolist(), names.astype("S3")):
        solution = solved(X, given, ridge=1.0)
        found = solution.predict(X)
        assert set(found.tolist()) <= set(np.asarray(given).tolist())
        assert np.mean(found == np.asarray(given)) > 0.6
        np.testing.assert_array_equal(solution.classifier(X, given).predict(X), found)


@pytest.mark.parametrize(("scale", "ridge"), [(1e58, 0.0), (1e58, 1e117), (1.0, 1e75), (1e-58, 1e-115)])
def test_units_do_not_matter(data, scale, ridge):
    """Data that are divided by a power of two, and ridges that are, give the figures of the swept rows."""
    X, y = data
    direct, swept = both_ways(solved(X * scale, y, ridge=ridge), X * scale, y)
    size = np.abs(swept.covariance).max()
    np.testing.assert_allclose(direct.covariance / size, swept.covariance / size, atol=1e-12)
    np.testing.assert_allclose(direct.means, swept.means, rtol=1e-9, atol=1e-12 * np.abs(swept.means).max())
    exact = posterior(X, y, X, ridge / scale**2)
    np.testing.assert_allclose(direct.probabilities(X * scale), exact, atol=1e-10)


def test_fewer_directions_are_the_posterior_of_these(data):
    """With reduced rank: the formula on the variates themselves."""
    X, y = data
    solution = solved(X[FITTED], y[FITTED], k=2)
    Z, new = solution.transform(X[FITTED]), solution.transform(X[NEW])
    for classifier in both_ways(solution, X[FITTED], y[FITTED]):
        assert classifier.means.shape == (4, 2)
        np.testing.assert_allclose(classifier.probabilities(X[NEW]), posterior(Z, y[FITTED], new), atol=1e-10)


def test_rows_without_a_class_are_left_out_of_the_classifier(data):
    X, y = data
    some = y.astype(object)
    some[::5], some[1::5] = None, "?"
    kept = np.isin(np.arange(N) % 5, (2, 3, 4))
    solution = ls.solve(ls.Discriminant(X, targets.lda(some, unlabelled="?")))
    with pytest.raises(MissingCapability, match=r"a class for every row.*solution.classifier\(X, y\)"):
        solution.predict(X)
    Z = solution.transform(X)
    found = solution.classifier(X, some, unlabelled="?").probabilities(X)
    np.testing.assert_allclose(found, posterior(Z[kept], y[kept], Z), atol=1e-10)


def test_probabilities_that_underflow_have_logarithms():
    y = np.repeat([0, 1], 50)
    X = np.random.default_rng(0).standard_normal((100, 3)) + 100 * y[:, None]
    classifier = solved(X, y).classifier()
    logs, decisions = classifier.log_probabilities(X), classifier.decision(X)
    assert classifier.probabilities(X).min() == 0.0
    assert np.isfinite(logs).all()
    np.testing.assert_allclose(np.diff(logs, axis=1), np.diff(decisions, axis=1), rtol=1e-12)


def test_targets_know_their_classes_until_they_are_changed(data):
    X, y = data
    H = targets.lda(y)
    for given in (H, pickle.loads(pickle.dumps(H))):
        names, sizes = targets.classes_of(given)
        assert names.tolist() == sorted(NAMES)
        assert sizes.tolist() == [np.sum(y == name) for name in names]
    assert targets.classes_of(ls.as_operator(H)) is not None
    changed = H.copy()
    changed *= 2
    for other in (H[:200], H * 2, H.T, H.toarray(), targets.opls(y), targets.cca(y), changed):
        assert targets.classes_of(other) is None
    with pytest.raises(MissingCapability, match="unchanged"):
        ls.solve(ls.Discriminant(X, changed, ridge=1.0)).predict(X)


def test_classes_that_the_rows_separate_completely_need_a_ridge():
    X, y = np.random.default_rng(0).standard_normal((30, 60)), np.arange(30) % 3
    for given in ((), (X, y)):
        with pytest.raises(InvalidProblem, match=r"within classes, which is rounding\. Solve with a ridge"):
            solved(X, y).classifier(*given)
    assert (solved(X, y, ridge=1.0).predict(X) == y).all()


def test_what_cannot_be_classified_is_said(data):
    X, y = data
    solution = solved(X, y)
    for args, words in (
        ((X,), "got X alone"),
        ((None, y), "got y alone"),
        ((X, ["ash"] * N), "at least two classes"),
        ((X, np.eye(4)[np.arange(N) % 4]), r"class vector.*got shape \(400, 4\)"),
    ):
        with pytest.raises(InvalidProblem, match=words):
            solution.classifier(*args)
    with pytest.raises(InvalidProblem, match="X must have the 7 columns"):
        solution.predict(X[:, :3])
    for priors in ([1, 2], [1, 1, 1, 0], [1, 1, 1, np.nan], "frequent", 3):
        with pytest.raises(InvalidOption, match='priors must be None, "uniform" or 4 positive numbers'):
            solution.predict(X, priors=priors)
