"""Ridges and weights of bands for many targets: explicit fits by rows, theorems, bad input, and data of every kind."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse

import linspec as ls
from linspec.errors import AccuracyWarning, ConvergenceWarning, InvalidOption, InvalidProblem, NonFiniteData
from linspec.iteration import Iterate
from linspec.solving import Solver

RidgeManyTargets = ls.get_problem("ridge-many-targets")

RIDGES = (0.3, 3.0, 30.0, 300.0)
GAMMAS = np.array([[1 / 3, 1 / 3, 1 / 3], [0.8, 0.2, 0.0], [0.1, 0.1, 0.8]])
SHAPES = {"tall": (120, 12, 7), "wide": (40, 60, 7), "wide, many targets": (40, 60, 55)}


def planted(n: int, p: int, m: int, seed: int = 0) -> tuple[Any, Any, Any]:
    """Columns with means in three bands, targets that follow the first columns, and the band of each column."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, p)) + 3
    Y = X[:, :4] @ rng.standard_normal((4, m)) + 2 * rng.standard_normal((n, m))
    return X, Y, np.repeat([0, 1, 2], -(-p // 3))[:p]


def by_rows(X, Y, folds, gamma, ridge, w=None, Z=None, center=True, scale=False):
    """Mean R² of one candidate, and the coefficients of all rows: ten lines of NumPy."""
    roots, scores = np.sqrt(np.ones(len(X)) if w is None else w), []
    D = np.hstack([np.ones((len(X), int(center))), np.zeros((len(X), 0)) if Z is None else Z])
    for rest in [*(folds == fold for fold in np.unique(folds)), np.zeros(len(X), dtype=bool)]:
        weighted = [(A * roots[:, None])[~rest] for A in (D, X, Y)]
        A, B = (
            M - D @ np.linalg.lstsq(weighted[0], N, rcond=None)[0]
            for M, N in zip((X, Y), weighted[1:], strict=True)
        )
        size = (
            np.sqrt(roots[~rest] ** 2 @ A[~rest] ** 2 / np.sum(roots[~rest] ** 2))
            if scale
            else np.ones(X.shape[1])
        )
        G = (A / size * np.sqrt(gamma) * roots[:, None])[~rest]
        W = np.linalg.solve(G.T @ G + ridge * np.eye(len(gamma)), G.T @ (B * roots[:, None])[~rest])
        W, h = W * (np.sqrt(gamma) / size)[:, None], roots[rest] ** 2
        scores.append(
            1 - h @ (B - A @ W)[rest] ** 2 / (h @ (Y[rest] - h @ Y[rest] / h.sum()) ** 2) if rest.any() else 0
        )
    return sum(scores) / (len(scores) - 1), W


ADJUSTED = {
    "plain": (),
    "weights": ("w",),
    "confounds": ("Z",),
    "scale": ("scale",),
    "no intercept, weights, confounds": ("w", "Z", "center"),
    "weights, confounds, scale": ("w", "Z", "scale"),
}


@pytest.mark.parametrize("solver", ["gram", "kernel"])
@pytest.mark.parametrize("adjusted", ADJUSTED)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
def test_scores_choices_and_coefficients_are_those_of_explicit_fits(shape, adjusted, solver):
    X, Y, bands = planted(*SHAPES[shape])
    n, rng, taken = len(X), np.random.default_rng(1), ADJUSTED[adjusted]
    folds, every = np.arange(n) % 4, {"w": rng.integers(0, 3, n) * 1.0, "Z": rng.standard_normal((n, 2)) + 1}
    every |= {"scale": True, "center": False}
    own = {name: every[name] for name in taken}
    tables = {
        (i, r): by_rows(X, Y, folds, gamma[bands], r, **own) for i, gamma in enumerate(GAMMAS) for r in RIDGES
    }
    names = {"w": "sample_weight", "Z": "confounds"}
    problem = RidgeManyTargets(
        X,
        Y,
        RIDGES,
        bands,
        band_weights=GAMMAS,
        splitter=folds,
        **{names.get(k, k): v for k, v in own.items()},
    )
    found = ls.solve(problem, solver)
    assert found.converged, found
    assert (found.mixing is not None) == (solver == "kernel" and shape == "wide, many targets")
    coefficients = found.coefficients()
    for t in range(Y.shape[1]):
        key = max(tables, key=lambda key: tables[key][0][t])
        scores, W = tables[key]
        assert found.scores[t] == pytest.approx(scores[t], abs=1e-9)
        assert found.ridges[t] == key[1]
        assert np.array_equal(found.band_weights[t], GAMMAS[key[0]])
        np.testing.assert_allclose(coefficients[:, t], W[:, t], atol=1e-9 * np.abs(W).max())


@pytest.mark.parametrize("solver", ["gram", "kernel"])
def test_weights_are_repeated_rows_of_the_same_fold(solver):
    X, Y, bands = planted(50, 8, 3)
    counts, folds = np.random.default_rng(0).integers(0, 4, 50), np.arange(50) % 3
    stated = {"ridges": RIDGES, "bands": bands, "band_weights": GAMMAS}
    weighted = ls.solve(RidgeManyTargets(X, Y, splitter=folds, sample_weight=counts, **stated), solver)
    rows = np.repeat(np.arange(50), counts)
    repeated = ls.solve(RidgeManyTargets(X[rows], Y[rows], splitter=folds[rows], **stated), solver)
    np.testing.assert_allclose(weighted.scores, repeated.scores, rtol=1e-10)
    np.testing.assert_allclose(weighted.coefficients(), repeated.coefficients(), rtol=1e-8, atol=1e-12)


def test_one_candidate_is_a_ridge_regression_and_its_score_a_cross_validation():
    X, Y, _ = planted(90, 6, 1)
    folds = np.arange(90) % 3
    found = ls.solve(RidgeManyTargets(X, Y, 5.0, splitter=folds, scale=True))
    plain = ls.LeastSquares(X, Y, ridge=5.0, center=True, scale=True)
    np.testing.assert_allclose(found.coefficients(), ls.solve(plain).x, rtol=1e-10)
    validated = ls.cross_validate(plain, splitter=folds, score="r2")
    assert found.scores[0] == pytest.approx(validated.scores.mean(), abs=1e-12)


def test_a_band_of_weight_zero_has_no_coefficients():
    X, Y, bands = planted(60, 9, 4)
    for solver in ("gram", "kernel"):
        found = ls.solve(RidgeManyTargets(X, Y, bands=bands, band_weights=[[1.0, 0.0, 2.0]]), solver)
        assert np.all(found.coefficients()[bands == 1] == 0)
        without = ls.solve(
            RidgeManyTargets(X[:, bands != 1], Y, bands=bands[bands != 1], band_weights=[[1.0, 2.0]]), solver
        )
        np.testing.assert_allclose(found.coefficients()[bands != 1], without.coefficients(), rtol=1e-9)


def test_coefficients_for_a_ridge_of_each_target_are_those_of_scikit_learn():
    RidgeCV = pytest.importorskip("sklearn.linear_model").RidgeCV
    X, Y, _ = planted(30, 5, 4)
    X, Y = X - X.mean(axis=0), Y - Y.mean(axis=0)
    theirs = RidgeCV(RIDGES, fit_intercept=False, alpha_per_target=True).fit(X, Y)
    for t, ridge in enumerate(theirs.alpha_):
        ours = ls.solve(RidgeManyTargets(X, Y[:, t], ridge, center=False))
        np.testing.assert_allclose(ours.coefficients()[:, 0], theirs.coef_[t], rtol=1e-8)


def test_groups_stay_together_and_splits_may_leave_rows_out():
    X, Y, _ = planted(60, 5, 3)
    groups = np.repeat(np.arange(12), 5)
    problem = RidgeManyTargets(X, Y, splitter=4, groups=groups)
    for training, held_out in problem.splits.splits:
        assert not set(groups[training]) & set(groups[held_out])
    pairs = [
        (np.arange(20), np.arange(20, 30)),
        (np.arange(30), np.arange(30, 40)),
    ]  # the last 20 rows are in no split
    for solver in ("gram", "kernel"):
        found = ls.solve(RidgeManyTargets(X, Y, 2.0, splitter=pairs), solver)
        np.testing.assert_allclose(
            found.coefficients(), ls.solve(ls.LeastSquares(X, Y, ridge=2.0, center=True)).x, rtol=1e-9
        )
        scores = []
        for a, b in ((20, 30), (30, 40)):
            own = ls.solve(ls.LeastSquares(X[:a], Y[:a], ridge=2.0, center=True))
            errors, about = Y[a:b] - own.predict(X[a:b]), Y[a:b] - Y[a:b].mean(axis=0)
            scores.append(1 - np.sum(errors**2, axis=0) / np.sum(about**2, axis=0))
        np.testing.assert_allclose(found.scores, np.mean(scores, axis=0), rtol=1e-9)


# ---- data of every kind ------------------------------------------------------------------------


def data_of(kind: str, A: Any, folder: Path) -> Any:
    """Return the rows as data of a kind."""
    if kind == "slices":
        return iter([A[:50], A[50:51], A[51:]])
    if kind == "file":
        path = folder / f"{A.shape[1]}.npy"
        np.save(path, A)
        return str(path)
    if kind == "dask":
        return pytest.importorskip("dask.array").from_array(A, chunks=(40, A.shape[1]))
    if kind == "torch":
        return pytest.importorskip("torch").tensor(A)
    return {"sparse": scipy.sparse.csr_array, "numpy": np.asarray}[kind](A)


@pytest.mark.parametrize("kind", ["slices", "file", "dask", "torch", "sparse"])
def test_one_pass_over_any_rows_has_the_same_answer(kind, tmp_path):
    X, Y, bands = planted(120, 9, 6)
    rng, folds = np.random.default_rng(2), np.arange(120) % 4
    stated = {
        "ridges": RIDGES, "bands": bands, "band_weights": GAMMAS, "splitter": folds, "scale": True,
        "sample_weight": rng.integers(0, 3, 120) * 1.0, "confounds": rng.standard_normal((120, 2)),
    }  # fmt: skip
    exact = ls.solve(RidgeManyTargets(X, Y, **stated))
    found = ls.solve(
        RidgeManyTargets(data_of(kind, X, tmp_path), data_of(kind, Y, tmp_path), **stated), "gram"
    )
    assert (found.passes, found.converged) == (1.0, True)
    np.testing.assert_allclose(found.scores, exact.scores, rtol=1e-10)
    coefficients = np.asarray(found.coefficients())
    np.testing.assert_allclose(coefficients, exact.coefficients(), atol=1e-10)


# ---- the answer --------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", SHAPES)
def test_predictions_work_through_the_factors_for_named_targets_and_confounds(shape):
    X, Y, bands = planted(*SHAPES[shape])
    Z = np.random.default_rng(3).standard_normal((len(X), 2))
    named = ls.labelled(Y, columns=[f"t{i}" for i in range(Y.shape[1])])
    problem = RidgeManyTargets(X, named, RIDGES, bands, band_weights=GAMMAS, confounds=Z)
    found = ls.solve(problem)
    new, beside = X[:5] + 1, Z[:5] - 2
    W = found.coefficients()
    taken = (beside - Z.mean(axis=0)) @ np.asarray(found.x_slopes)
    expected = (
        (new - X.mean(axis=0) - taken) @ W
        + Y.mean(axis=0)
        + (beside - Z.mean(axis=0)) @ np.asarray(found.y_slopes)
    )
    np.testing.assert_allclose(found.predict(new, confounds=beside), expected, rtol=1e-8)
    some = found.predict(scipy.sparse.csr_array(new), targets=["t5", 2], confounds=beside)
    np.testing.assert_allclose(some, expected[:, [5, 2]], rtol=1e-8)
    np.testing.assert_array_equal(found.coefficients(["t5", 2]), W[:, [5, 2]])
    table = found.predictions_table(new, targets=["t5"], confounds=beside)
    assert [list(row) for row in table] == [["t5"]] * 5
    row = found.targets_table("t5")[0]
    assert (row["target"], row["ridge"], row["held-out R²"]) == ("t5", found.ridges[5], found.scores[5])
    assert [row[f"weight of {b}"] for b in range(3)] == found.band_weights[5].tolist()
    assert len(found.weights_table("X")) == X.shape[1]


def test_scores_of_rows_are_those_of_scikit_learn():
    r2_score = pytest.importorskip("sklearn.metrics").r2_score
    X, Y, _ = planted(80, 6, 4)
    found = ls.solve(RidgeManyTargets(X[:60], Y[:60]))
    w = np.random.default_rng(0).uniform(0.5, 2, 20)
    expected = r2_score(Y[60:], found.predict(X[60:]), multioutput="raw_values", sample_weight=w)
    np.testing.assert_allclose(found.target_scores(X[60:], Y[60:], sample_weight=w), expected)
    total = r2_score(Y[60:], found.predict(X[60:]), multioutput="variance_weighted", sample_weight=w)
    assert found.score(X[60:], Y[60:], sample_weight=w) == pytest.approx(total)
    assert np.isnan(found.target_scores(X[60:], Y[60:] * 0)).all()


# ---- what is refused, and what is said ----------------------------------------------------------


X0, Y0, BANDS0 = planted(30, 6, 2)
NAN = np.where(np.arange(180).reshape(30, 6) == 7, np.nan, X0)
REFUSED = {
    "a NaN among the columns": ({"X": NAN}, NonFiniteData, "X must be finite; got nan at row 1, column 1"),
    "a NaN among the targets": ({"Y": NAN}, NonFiniteData, "Y must be finite"),
    "rows that do not match": ({"Y": Y0[:-1]}, InvalidProblem, "equally many rows; got 30 and 29"),
    "a negative ridge": ({"ridges": [1, -1]}, InvalidProblem, "at least 0; got -1"),
    "no ridge": ({"ridges": []}, InvalidProblem, "at least one number above 0"),
    "a ridge of zero": ({"ridges": [0, 1]}, InvalidProblem, "above 0; got"),
    "a ridge that is a text": ({"ridges": "1"}, InvalidProblem, "must be a number"),
    "too few bands": ({"bands": [0, 1]}, InvalidProblem, "one label for each of 6 columns"),
    "a column in no band": ({"bands": {"a": [0, 1]}}, InvalidProblem, "column 2 of X in none"),
    "a column in two bands": ({"bands": {"a": slice(0, 4), "b": [3, 4, 5]}}, InvalidProblem, "band 'b' must list"),
    "an unknown column": ({"bands": {"a": ["x"]}}, InvalidProblem, "numbers from 0 to 5"),
    "an empty band": ({"bands": {"a": range(6), "b": []}}, InvalidProblem, "band 'b' must list columns"),
    "weights of other bands": ({"band_weights": [[1.0]]}, InvalidProblem, "each of 3 bands"),
    "a negative weight": ({"band_weights": [[1, -1, 1]]}, InvalidProblem, "zero or more"),
    "weights that are all zero": ({"band_weights": [[0, 0, 0]]}, InvalidProblem, "positive number in each row"),
    "no setting": ({"band_weights": 0}, InvalidProblem, "at least 1"),
    "weights that are texts": ({"band_weights": [["a"]]}, InvalidProblem, "or numbers with a row"),
    "a seed that is none": ({"seed": -1}, InvalidProblem, "seed must be an integer"),
    "one fold": ({"splitter": 1}, InvalidProblem, "between 2 and the number of rows, 30"),
    "a splitter of no kind": ({"splitter": "five"}, InvalidOption, "splitter must be"),
    "labels of other rows": ({"splitter": [0, 1]}, InvalidProblem, "one for each of 30 rows; got 2"),
    "groups of other rows": ({"groups": [0, 1]}, InvalidProblem, "one entry for each of 30 rows"),
    "a fold of weight zero": (
        {"splitter": np.arange(30) // 15, "sample_weight": np.r_[np.zeros(15), np.ones(15)]}, InvalidProblem, "weight 0"
    ),
    "moments": ({"X": ls.Moments(X0, Y0, center=True), "Y": None}, InvalidProblem, "moments of each fold"),
    "a stream of unknown length": ({"X": iter([X0]), "Y": iter([Y0])}, InvalidProblem, "label of each row"),
}  # fmt: skip


@pytest.mark.parametrize("what", REFUSED)
def test_bad_input_ends_in_one_clear_error(what):
    given, error, said = REFUSED[what]
    with pytest.raises(error, match=said):
        ls.solve(RidgeManyTargets(**({"X": X0, "Y": Y0, "bands": BANDS0} | given)))


@pytest.mark.parametrize("rows", [28, 30])
def test_a_stream_must_have_the_rows_of_its_labels(rows):
    stream = RidgeManyTargets(
        iter([X0[:20], X0[20:rows]]), iter([Y0[:20], Y0[20:rows]]), splitter=np.arange(29) % 3
    )
    with pytest.raises(InvalidProblem, match=f"29 rows must be of the rows of X and Y; got {rows} rows"):
        ls.solve(stream)


def test_unknown_targets_are_refused():
    found = ls.solve(RidgeManyTargets(X0, Y0))
    for wrong in (2, -1, "t", True, 0.5):
        with pytest.raises(InvalidProblem, match="numbers from 0 to 1, or names"):
            found.coefficients([wrong])


@pytest.mark.parametrize("solver", ["gram", "kernel"])
def test_a_target_that_does_not_vary_has_no_score_and_says_so(solver):
    Y = np.column_stack([Y0[:, 0], np.full(30, 0.1)])
    found = ls.solve(RidgeManyTargets(X0, Y), solver)
    assert found.converged
    assert np.isnan(found.scores[1])
    assert "1 of 2 targets do not vary on held-out rows, the first is target 1" in found.message
    np.testing.assert_allclose(found.coefficients()[:, 1], 0, atol=1e-12)
    rare = np.zeros((30, 1))
    rare[3] = 1.0  # varies in one of five folds
    assert np.isfinite(ls.solve(RidgeManyTargets(X0, rare), solver).scores[0])


def test_scores_that_may_be_rounding_are_reported():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 1)) * 1e3 + rng.standard_normal((200, 5)) * 1e-2
    Y = 1e2 * (X[:, :1] - X[:, 1:2]) + 0.1 * rng.standard_normal((200, 1))
    found = ls.solve(RidgeManyTargets(X, Y, [1e-8]), "gram")
    assert found.status is ls.Status.ILL_CONDITIONED
    assert "Rounding may change the held-out R² of 1 of 1 targets" in found.message


def test_a_wrong_answer_has_a_large_residual():
    @dataclass(frozen=True, kw_only=True)
    class Wrong(Solver):
        def iterate(self, problem: Any, moments: Any, context: Any, start: Any) -> Any:
            p, m = moments.widths
            chosen = {"ridges": np.ones(m), "band_weights": np.ones((m, 1)), "scores": np.ones(m)}
            yield Iterate(
                0.0, lambda: {"weights": np.ones((p, m)), "least": np.full(m, 1e9), **chosen}, final=True
            )

    with pytest.warns(ConvergenceWarning):
        found = ls.solve(RidgeManyTargets(X0, Y0), Wrong())
    assert not found.converged
    assert found.residual > 0.1


def test_large_means_of_sparse_rows_are_subtracted_from_entries():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 4)) + 1e6
    Y = X @ rng.standard_normal((4, 2))
    exact = ls.solve(RidgeManyTargets(X - 1e6, Y - Y.mean(axis=0), 1.0))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AccuracyWarning)
        found = ls.solve(RidgeManyTargets(scipy.sparse.csr_array(X), Y, 1.0), "gram")
    np.testing.assert_allclose(found.coefficients(), exact.coefficients(), rtol=1e-5)


# ---- folds in which R² means nothing, and rows that products lose ---------------------------------


@pytest.mark.parametrize("solver", ["gram", "kernel"])
@pytest.mark.parametrize("shape", [(30, 6), (14, 20)])
def test_leave_one_out_chooses_and_scores_as_scikit_learn(shape, solver):
    linear = pytest.importorskip("sklearn.linear_model")
    model_selection, metrics = (
        pytest.importorskip("sklearn.model_selection"),
        pytest.importorskip("sklearn.metrics"),
    )
    rng, n = np.random.default_rng(0), shape[0]
    X = rng.standard_normal(shape)
    Y = X[:, :2] * [1.0, 0.2] + rng.standard_normal((n, 2)) * [0.3, 2.0] + [5.0, 1e6]
    found = ls.solve(RidgeManyTargets(X, Y, [0.1, 1.0, 10.0, 100.0, 1e3, 1e4], splitter=n), solver)
    theirs = linear.RidgeCV([0.1, 1.0, 10.0, 100.0, 1e3, 1e4], alpha_per_target=True).fit(X, Y)
    assert np.array_equal(found.ridges, theirs.alpha_)
    for t, ridge in enumerate(found.ridges):
        predicted = model_selection.cross_val_predict(
            linear.Ridge(ridge), X, Y[:, t], cv=model_selection.LeaveOneOut()
        )
        assert found.scores[t] == pytest.approx(metrics.r2_score(Y[:, t], predicted), abs=1e-7)
    assert "are of all held-out rows together" in found.message


@pytest.mark.parametrize("solver", ["gram", "kernel"])
@pytest.mark.parametrize("value", [0.0, 4.3, 98.6])
@pytest.mark.parametrize("mean", [None, 0.0, 1.7e9])
@pytest.mark.parametrize("center", [True, False])
def test_folds_in_which_a_target_does_not_vary_are_left_out_of_its_score(center, mean, value, solver):
    X, Y, _ = planted(40, 6, 2)
    folds, Z = np.arange(40) // 10, np.random.default_rng(1).standard_normal((40, 0 if mean is None else 1))
    Z = 100 * Z + (mean or 0.0)
    Y[folds == 2, 1] = value
    own = {"center": center} | ({} if mean is None else {"confounds": Z})
    found = ls.solve(RidgeManyTargets(X, Y, 3.0, splitter=folds, **own), solver)
    D = np.hstack([np.ones((40, 1)), Z - Z.mean(axis=0)]) if center else Z
    each = np.full((4, 2), np.nan)
    for fold in range(4):
        out = folds == fold
        A, B = (M - D @ np.linalg.lstsq(D[~out], M[~out], rcond=None)[0] for M in (X, Y))
        W = np.linalg.solve(A[~out].T @ A[~out] + 3 * np.eye(6), A[~out].T @ B[~out])
        vary = np.ptp(Y[out], axis=0) > 0
        errors, about = np.sum((B - A @ W)[out] ** 2, axis=0), 10 * np.var(Y[out], axis=0)
        each[fold, vary] = 1 - errors[vary] / about[vary]
    np.testing.assert_allclose(found.scores, np.nanmean(each, axis=0), rtol=1e-6)
    assert "The R² of 1 of 2 targets, the first is target 1, leave out folds" in found.message


@pytest.mark.parametrize("solver", ["gram", "kernel"])
def test_a_target_that_varies_only_between_folds_is_scored_by_all_held_out_rows(solver):
    X, Y, _ = planted(40, 6, 1)
    folds = np.arange(40) // 10
    Y = np.hstack([Y, folds[:, None] * 1.1])
    found = ls.solve(RidgeManyTargets(X, Y, 3.0, splitter=folds), solver)
    parts = [
        ls.solve(ls.LeastSquares(X[folds != f], Y[folds != f], ridge=3.0, center=True)) for f in range(4)
    ]
    predicted = np.vstack([part.predict(X[folds == f]) for f, part in enumerate(parts)])
    pooled = 1 - np.sum((Y - predicted) ** 2, axis=0) / (40 * np.var(Y, axis=0))
    assert found.scores[1] == pytest.approx(pooled[1], rel=1e-9)
    assert found.scores[0] != pytest.approx(pooled[0], rel=1e-3)


@pytest.mark.parametrize("seed", range(12))
def test_fewer_training_rows_than_columns_have_exact_scores_at_any_ridge_or_say_so(seed):
    rng = np.random.default_rng([4, seed])
    X = rng.standard_normal((12, 11))
    Y = X @ rng.standard_normal((11, 3)) + 0.5 * rng.standard_normal((12, 3))
    ridge, folds, scores = np.linalg.norm(X, 2) ** 2 * 1e-12, np.arange(12) % 5, []
    for fold in range(5):
        out = folds == fold
        A, B = X[~out] - X[~out].mean(axis=0), Y[~out] - Y[~out].mean(axis=0)
        U, s, Vt = np.linalg.svd(A, full_matrices=False)
        W = Vt.T @ ((s / (s**2 + ridge))[:, None] * (U.T @ B))
        errors = Y[out] - Y[~out].mean(axis=0) - (X[out] - X[~out].mean(axis=0)) @ W
        scores.append(1 - np.sum(errors**2, axis=0) / np.sum((Y[out] - Y[out].mean(axis=0)) ** 2, axis=0))
    for solver in ("gram", "kernel"):
        found = ls.solve(RidgeManyTargets(X, Y, ridge, splitter=folds), solver)
        if found.status is not ls.Status.ILL_CONDITIONED:
            np.testing.assert_allclose(found.scores, np.mean(scores, axis=0), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("value", [0.0, 4.3, 0.1, 98.6, 1 / 3])
def test_a_target_that_is_constant_on_new_rows_has_no_score(value):
    X, Y, _ = planted(60, 4, 2)
    Y[:, 1] = value
    found = ls.solve(RidgeManyTargets(X[:40], Y[:40]))
    scores = found.target_scores(X[40:], Y[40:])
    assert np.isfinite(scores[0])
    assert np.isnan(scores[1])


@pytest.mark.parametrize("solver", ["gram", "kernel"])
def test_a_constant_column_whose_squares_underflow_is_named(solver):
    rng = np.random.default_rng(0)
    X, Y = rng.standard_normal((20, 2)), rng.standard_normal((20, 1))
    X[:, 1] = 7e-300
    found = ls.solve(ls.RidgeManyTargets(X, Y, ridges=[1.0], splitter=4, center=False, scale=True), solver)
    assert found.status is ls.Status.ILL_CONDITIONED
    assert "column 1" in found.message


def test_narrow_columns_that_confounds_explain_lose_no_digits() -> None:
    """Entries that confounds explain but for 1/300: the explicit answer to the entries, to their rounding."""
    X, Y, band = planted(90, 8, 5)
    Z = 5e7 + 2e5 * np.random.default_rng(1).standard_normal((90, 1))
    X, Y = ((M + (Z - 5e7) / 2e5 * 300.0).astype(np.float32) for M in (X, Y))
    folds = np.arange(90) % 3
    given: dict[str, Any] = {"ridges": [30.0], "bands": band, "band_weights": GAMMAS[:1], "splitter": folds}
    found = ls.solve(RidgeManyTargets(X, Y, confounds=Z, **given), "gram")
    _, W = by_rows(*(M.astype(np.float64) for M in (X, Y)), folds, GAMMAS[0][band], 30.0, Z=Z - Z.mean())
    assert found.converged
    assert np.linalg.norm(found.coefficients(range(5)) - W) < 3e-5 * np.linalg.norm(W)
