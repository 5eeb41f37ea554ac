"""Estimators that follow from the declared fields of a problem."""

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import linspec as ls
from linspec import estimators
from linspec.errors import InvalidOption

RNG = np.random.default_rng(0)
X = RNG.standard_normal((120, 6)) @ RNG.standard_normal((6, 6)) + 2.0
Y = X[:, :2] + 0.5 * RNG.standard_normal((120, 2))


@parametrize_with_checks([estimators.of("svd")(), estimators.of("least-squares")()])
@pytest.mark.slow(keep=60)
def test_checks_of_scikit_learn(estimator, check):
    check(estimator)


def test_the_answers_are_those_of_solve():
    found = estimators.of("cca")(n_components=2, ridge=1.0).fit(X, Y)
    solution = ls.solve(ls.CCA(X, Y, k=2, ridge=1.0))
    np.testing.assert_allclose(found.correlations_, solution.correlations, rtol=1e-12)
    np.testing.assert_allclose(found.x_weights_, solution.x_weights, rtol=1e-9, atol=1e-12)
    for own, other in zip(found.transform(X, Y), solution.transform(X, Y), strict=True):
        np.testing.assert_allclose(own, other, rtol=1e-9, atol=1e-9)
    assert found.n_components_ == 2
    assert found.solution_.converged


def test_weights_are_repeated_rows():
    counts = RNG.integers(0, 3, len(X))
    SVD = estimators.of(ls.SVD)
    weighted = SVD(n_components=2, center=True).fit(X, sample_weight=counts)
    repeated = SVD(n_components=2, center=True).fit(np.repeat(X, counts, axis=0))
    np.testing.assert_allclose(weighted.S_, repeated.S_, rtol=1e-10)


def test_pipelines_grids_clones_and_pickles():
    Least = estimators.of("least-squares")
    pipe = make_pipeline(StandardScaler(), Least(ridge=1.0, center=True)).fit(X, Y)
    assert pipe.score(X, Y) > 0.8
    grid = GridSearchCV(Least(center=True), {"ridge": [0.1, 1e6]}).fit(X, Y)
    assert grid.best_params_ == {"ridge": 0.1}
    again = pickle.loads(pickle.dumps(pipe[-1]))
    np.testing.assert_array_equal(again.predict(X), pipe[-1].predict(X))
    assert type(again) is Least
    assert clone(pipe[-1]).get_params() == pipe[-1].get_params()


def test_a_class_is_made_once_and_says_what_it_takes():
    assert estimators.of("svd") is estimators.of(ls.SVD)
    with pytest.raises(TypeError, match="unexpected keyword argument 'k'"):
        estimators.of("svd")(k=2)
    with pytest.raises(InvalidOption, match="name or the class of a problem"):
        estimators.of(np.ndarray)
