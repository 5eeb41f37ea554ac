"""Ridges and weights of bands for many targets: explicit fits by rows, peers, folds in which R² means nothing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse
from fuzz import Case
from judging import faults
from truths import EPS, truth_of

import linspec as ls
from linspec.errors import InvalidProblem

pytestmark = pytest.mark.skipif(EPS > 1e-18, reason="longdouble is float64 here: nothing can be decided")

RidgeManyTargets = ls.get_problem("ridge-many-targets")

RIDGES = (0.3, 3.0, 30.0, 300.0)
GAMMAS = np.array([[1 / 3, 1 / 3, 1 / 3], [0.8, 0.2, 0.0], [0.1, 0.1, 0.8]])
SHAPES = {"tall": (120, 12, 7), "wide": (40, 60, 7), "wide, many targets": (40, 60, 55)}
each_solver = pytest.mark.parametrize("solver", ["gram", "kernel"])


def planted(n: int, p: int, m: int) -> tuple[Any, Any, Any]:
    """Columns with means in three bands, targets that follow the first columns, and the band of each column."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, p)) + 3
    Y = X[:, :4] @ rng.standard_normal((4, m)) + 2 * rng.standard_normal((n, m))
    return X, Y, np.repeat([0, 1, 2], -(-p // 3))[:p]


def stated(X: Any, Y: Any, ridges: Any, folds: Any, **given: Any) -> Case:
    """A case of one band, unless bands are given."""
    given = {"bands": [0] * X.shape[1], "band_weights": [[1.0]], **given}
    return Case("ridge-many-targets", {"X": X, "Y": Y}, {"ridges": ridges, "splitter": folds, **given})


ADJUSTED: dict[str, tuple[str, ...]] = {
    "plain": (),
    "no intercept, weights, confounds": ("sample_weight", "confounds", "center"),
    "weights, confounds, scale": ("sample_weight", "confounds", "scale"),
}


@each_solver
@pytest.mark.parametrize("adjusted", ADJUSTED)
@pytest.mark.parametrize("shape", SHAPES)
def test_scores_choices_and_coefficients_are_exact(shape, adjusted, solver):
    X, Y, bands = planted(*SHAPES[shape])
    n, rng = len(X), np.random.default_rng(1)
    every = {"sample_weight": rng.integers(0, 3, n) * 1.0, "confounds": rng.standard_normal((n, 2)) + 1}
    every |= {"scale": True, "center": False}
    own = {name: every[name] for name in ADJUSTED[adjusted]}
    case = stated(X, Y, RIDGES, np.arange(n) % 4, bands=bands, band_weights=GAMMAS, **own)
    found = ls.solve(case.state(), solver)
    assert found.converged, found
    assert (found.mixing is not None) == (solver == "kernel" and shape == "wide, many targets")
    assert not faults(truth_of(case), found)


@each_solver
def test_groups_stay_together_and_splits_may_leave_rows_out(solver):
    X, Y, _ = planted(60, 5, 3)
    groups = np.repeat(np.arange(12), 5)
    for training, held_out in RidgeManyTargets(X, Y, splitter=4, groups=groups).splits.splits:
        assert not set(groups[training]) & set(groups[held_out])
    pairs = [(np.arange(20), np.arange(20, 30)), (np.arange(30), np.arange(30, 40))]
    found = ls.solve(RidgeManyTargets(X, Y, 2.0, splitter=pairs), solver)
    whole = ls.solve(ls.LeastSquares(X, Y, ridge=2.0, center=True), "direct")  # the last rows are in no split
    np.testing.assert_allclose(found.coefficients(), whole.x, rtol=1e-9)
    scores = []
    for fit, test in pairs:
        part = ls.solve(ls.LeastSquares(X[fit], Y[fit], ridge=2.0, center=True), "direct")
        scores.append(1 - np.mean((Y[test] - part.predict(X[test])) ** 2, axis=0) / np.var(Y[test], axis=0))
    np.testing.assert_allclose(found.scores, np.mean(scores, axis=0), rtol=1e-9)


@pytest.mark.parametrize("shape", SHAPES)
def test_predictions_work_through_the_factors_for_named_targets_and_confounds(shape):
    X, Y, bands = planted(*SHAPES[shape])
    Z = np.random.default_rng(3).standard_normal((len(X), 2))
    named = ls.labelled(Y, columns=[f"t{i}" for i in range(Y.shape[1])])
    found = ls.solve(RidgeManyTargets(X, named, RIDGES, bands, band_weights=GAMMAS, confounds=Z))
    new, beside, W = X[:5] + 1, Z[:5] - 2, found.coefficients()
    gap = beside - Z.mean(axis=0)
    expected = (new - X.mean(axis=0) - gap @ np.asarray(found.x_slopes)) @ W
    expected = expected + Y.mean(axis=0) + gap @ np.asarray(found.y_slopes)
    np.testing.assert_allclose(found.predict(new, confounds=beside), expected, rtol=1e-8)
    some = found.predict(scipy.sparse.csr_array(new), targets=["t5", 2], confounds=beside)
    np.testing.assert_allclose(some, expected[:, [5, 2]], rtol=1e-8)
    np.testing.assert_array_equal(found.coefficients(["t5", 2]), W[:, [5, 2]])
    table = found.predictions_table(new, targets=["t5"], confounds=beside, library="")
    assert [list(row) for row in table] == [["t5"]] * 5
    row = found.targets_table("t5", library="")[0]
    assert (row["target"], row["ridge"], row["held-out R²"]) == ("t5", found.ridges[5], found.scores[5])
    assert [row[f"weight of {b}"] for b in range(3)] == found.band_weights[5].tolist()
    assert len(found.weights_table("X")) == X.shape[1]
    for wrong in (Y.shape[1], -1, "t", True, 0.5):
        with pytest.raises(InvalidProblem, match="numbers from 0 to"):
            found.coefficients([wrong])


def test_scores_of_rows_are_those_of_scikit_learn_and_a_constant_target_has_none():
    r2_score = pytest.importorskip("sklearn.metrics").r2_score
    X, Y, _ = planted(80, 6, 4)
    found, w = ls.solve(RidgeManyTargets(X[:60], Y[:60])), np.random.default_rng(0).uniform(0.5, 2, 20)
    given = Y[60:], found.predict(X[60:])
    for weights in (None, w):
        expected = r2_score(*given, multioutput="raw_values", sample_weight=weights)
        np.testing.assert_allclose(found.target_scores(X[60:], Y[60:], sample_weight=weights), expected)
    total = r2_score(*given, multioutput="variance_weighted", sample_weight=w)
    assert found.score(X[60:], Y[60:], sample_weight=w) == pytest.approx(total)
    for value in (0.0, 0.1, 98.6):
        Y[:, 1] = value
        scores = ls.solve(RidgeManyTargets(X[:60], Y[:60])).target_scores(X[60:], Y[60:])
        assert np.isnan(scores).tolist() == [False, True, False, False]


@each_solver
@pytest.mark.parametrize("shape", [(30, 6), (14, 20)])
def test_leave_one_out_chooses_and_scores_as_scikit_learn(shape, solver):
    linear = pytest.importorskip("sklearn.linear_model")
    from sklearn.metrics import r2_score
    from sklearn.model_selection import LeaveOneOut, cross_val_predict

    rng, n, ridges = np.random.default_rng(0), shape[0], [0.1, 1.0, 10.0, 100.0, 1e3, 1e4]
    X = rng.standard_normal(shape)
    Y = X[:, :2] * [1.0, 0.2] + rng.standard_normal((n, 2)) * [0.3, 2.0] + [5.0, 1e6]
    found = ls.solve(RidgeManyTargets(X, Y, ridges, splitter=n), solver)
    theirs = linear.RidgeCV(ridges, alpha_per_target=True).fit(X, Y)
    assert np.array_equal(found.ridges, theirs.alpha_)
    for t, ridge in enumerate(found.ridges):
        predicted = cross_val_predict(linear.Ridge(ridge), X, Y[:, t], cv=LeaveOneOut())
        assert found.scores[t] == pytest.approx(r2_score(Y[:, t], predicted), abs=1e-7)
    assert "are of all held-out rows together" in found.message


@each_solver
@pytest.mark.parametrize(("value", "mean"), [(0.0, None), (4.3, 0.0), (98.6, 1.7e9)])
@pytest.mark.parametrize("center", [True, False])
def test_folds_in_which_a_target_does_not_vary_are_left_out_of_its_score(center, value, mean, solver):
    X, Y, _ = planted(40, 6, 2)
    folds, Z = np.arange(40) // 10, 100 * np.random.default_rng(1).standard_normal((40, 1))
    Y[folds == 2, 1] = value
    confounds = {} if mean is None else {"confounds": Z + mean}
    found = ls.solve(RidgeManyTargets(X, Y, 3.0, splitter=folds, center=center, **confounds), solver)
    exact = truth_of(stated(X, Y, [3.0], folds, center=center, **confounds)).scores[0, 0].astype(float)
    np.testing.assert_allclose(found.scores, exact, rtol=1e-6)
    assert "The R² of 1 of 2 targets, the first is target 1, leave out folds" in found.message


@each_solver
def test_targets_that_vary_between_folds_alone_in_one_fold_alone_or_not_at_all(solver):
    """The first is scored by all held-out rows, the last has no score."""
    X, Y, _ = planted(40, 6, 1)
    folds = np.arange(40) // 10
    Y = np.hstack([Y, folds[:, None] * 1.1, np.arange(40)[:, None] == 3, np.full((40, 1), 0.1)])
    found = ls.solve(RidgeManyTargets(X, Y, 3.0, splitter=folds), solver)
    parts = [
        ls.solve(ls.LeastSquares(X[folds != f], Y[folds != f], ridge=3.0, center=True)) for f in range(4)
    ]
    predicted = np.vstack([part.predict(X[folds == f]) for f, part in enumerate(parts)])
    pooled = 1 - np.sum((Y - predicted)[:, :2] ** 2, axis=0) / (40 * np.var(Y[:, :2], axis=0))
    assert found.converged
    assert found.scores[0] != pytest.approx(pooled[0], rel=1e-3)
    assert found.scores[1] == pytest.approx(pooled[1], rel=1e-9)
    assert np.isfinite(found.scores).tolist() == [True, True, True, False]
    assert "1 of 4 targets do not vary on held-out rows, the first is target 3" in found.message
    np.testing.assert_allclose(found.coefficients()[:, 3], 0, atol=1e-12)


@each_solver
@pytest.mark.parametrize("seed", range(6))
def test_fewer_training_rows_than_columns_have_exact_scores_at_any_ridge_or_say_so(seed, solver):
    rng = np.random.default_rng([4, seed])
    X = rng.standard_normal((12, 11))
    Y = X @ rng.standard_normal((11, 3)) + 0.5 * rng.standard_normal((12, 3))
    ridge, folds = np.linalg.norm(X, 2) ** 2 * 1e-12, np.arange(12) % 5
    found = ls.solve(RidgeManyTargets(X, Y, ridge, splitter=folds), solver)
    if found.status is not ls.Status.ILL_CONDITIONED:
        exact = truth_of(stated(X, Y, [ridge], folds)).scores[0, 0].astype(float)
        np.testing.assert_allclose(found.scores, exact, rtol=1e-6, atol=1e-6)


def test_scores_that_may_be_rounding_are_reported():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 1)) * 1e3 + rng.standard_normal((200, 5)) * 1e-2
    Y = 1e2 * (X[:, :1] - X[:, 1:2]) + 0.1 * rng.standard_normal((200, 1))
    found = ls.solve(RidgeManyTargets(X, Y, [1e-8]), "gram")
    assert found.status is ls.Status.ILL_CONDITIONED
    assert "Rounding may change the held-out R² of 1 of 1 targets" in found.message


X0, Y0, BANDS0 = planted(30, 6, 2)
LIGHT = {"splitter": np.arange(30) // 15, "sample_weight": np.r_[np.zeros(15), np.ones(15)]}
REFUSED = [
    ({"ridges": [0, 1]}, "above 0; got"),
    ({"bands": [0, 1]}, "one label for each of 6 columns"),
    ({"bands": {"a": [0, 1]}}, "column 2 of X in none"),
    ({"band_weights": [[0, 0, 0]]}, "positive number in each row"),
    (LIGHT, "weight 0"),
    ({"X": ls.Moments(X0, Y0, center=True), "Y": None}, "moments of each fold"),
    ({"X": iter([X0]), "Y": iter([Y0])}, "label of each row"),
    (
        {"X": iter([X0]), "Y": iter([Y0]), "splitter": np.arange(29) % 3},
        "29 rows must be of the rows of X and Y",
    ),
]


@pytest.mark.parametrize(("given", "said"), REFUSED)
def test_bad_input_ends_in_one_clear_error(given, said):
    with pytest.raises(InvalidProblem, match=said):
        ls.solve(RidgeManyTargets(**({"X": X0, "Y": Y0, "bands": BANDS0} | given)))
