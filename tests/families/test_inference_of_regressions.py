"""Permutation tests and bootstrap intervals of regressions, against loops by hand in NumPy and scikit-learn."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse
import scipy.sparse.linalg

import linspec as ls
from linspec.errors import InvalidOption, InvalidProblem, MissingCapability
from tests.families.test_inference import Given, residual


def rows(seed=0, n=60, p=5, m=2):
    """Rows with means, of which the first columns predict the targets."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, p)) + 3.0
    return X, X[:, :m] + rng.standard_normal((n, m)) - 1.0


def fitted(X, Y, w=None):
    """Weighted least squares with an intercept: coefficients, and R² of each target about its weighted mean."""
    w = np.ones(len(X)) if w is None else w
    A, B = X - w @ X / w.sum(), Y - w @ Y / w.sum()
    x = np.linalg.lstsq(np.sqrt(w)[:, None] * A, np.sqrt(w)[:, None] * B, rcond=None)[0]
    return x, 1 - w @ (B - A @ x) ** 2 / (w @ B**2)


PROBLEMS = {
    "least squares": lambda X, Y, **known: ls.LeastSquares(X, Y, center=True, **known),
    "PLS of all components": lambda X, Y, **known: ls.PLSRegression(X, Y, k=X.shape[1], **known),
    "reduced rank of full rank": lambda X, Y, **known: ls.ReducedRankRegression(X, Y, k=Y.shape[1], **known),
    "many targets": lambda X, Y, **known: ls.RidgeManyTargets(X, Y, ridges=[1e-9], **known),
}
"""Four problems with one answer: that of least squares."""


@pytest.mark.parametrize("name", PROBLEMS)
def test_a_test_is_a_loop_over_orders_of_the_targets(name):
    X, Y = rows()
    orders = np.array([np.random.default_rng(i).permutation(60) for i in range(39)])
    (x, values), drawn = fitted(X, Y), [fitted(X, Y[order]) for order in orders]
    test = ls.permutation_test(PROBLEMS[name](X, Y), permutations=orders)
    scores = np.array([score for _, score in drawn])
    np.testing.assert_allclose(test.values, values, atol=1e-7)
    np.testing.assert_allclose(test.drawn, scores, atol=1e-7)
    np.testing.assert_array_equal(test.uncorrected, (1 + np.sum(scores >= values, axis=0)) / 40)
    np.testing.assert_array_equal(test.p_values, (1 + np.sum(scores.max(1)[:, None] >= values, axis=0)) / 40)
    as_large = sum(np.abs(of_draw) >= np.abs(x) for of_draw, _ in drawn)
    np.testing.assert_array_equal(test.coefficient_p_values, (1 + as_large) / 40)
    np.testing.assert_allclose(test.coefficients, x, atol=1e-6)


def test_confounds_leave_what_their_regression_leaves():
    """R² of the test is that of residuals on residuals, and the coefficients are those of the problem."""
    X, Y = rows()
    Z = np.random.default_rng(1).standard_normal((60, 2))
    X, Y = X + Z @ np.ones((2, 5)), Y - Z @ np.ones((2, 2))
    x, values = fitted(residual(X, Z), residual(Y, Z))
    test = ls.permutation_test(ls.LeastSquares(X, Y, center=True, confounds=Z), permutations=39, rng=0)
    np.testing.assert_allclose(test.values, values, atol=1e-9)
    np.testing.assert_allclose(test.coefficients, x, atol=1e-9)
    assert (test.drawn < test.values).all()


@pytest.mark.parametrize("name", PROBLEMS)
@pytest.mark.parametrize("method", ["corrected", "percentile"])
def test_intervals_are_those_of_the_same_draws_by_numpy(name, method):
    X, Y = rows(2)
    counts = np.random.default_rng(7).multinomial(60, np.full(60, 1 / 60), size=20).astype(float)
    draws = [fitted(X, Y, w) for w in counts]
    x, scores = np.array([x for x, _ in draws]), np.array([score for _, score in draws])
    found = ls.bootstrap(PROBLEMS[name](X, Y), draws=20, level=0.9, method=method, rng=Given(counts))
    np.testing.assert_allclose(found.drawn, scores, atol=1e-7)
    np.testing.assert_allclose(found.coefficient_errors, x.std(axis=0, ddof=1), atol=1e-6)
    whole, half = fitted(X, Y)[0], 1.6448536269514722 * x.std(axis=0, ddof=1)
    ends = [whole - half, whole + half] if method == "corrected" else np.quantile(x, [0.05, 0.95], axis=0)
    np.testing.assert_allclose(found.coefficients, ends, atol=1e-6)
    errors = squares = 0
    for w, (x_of_draw, _) in zip(counts, draws, strict=True):
        left, mean = w == 0, (w @ Y - w @ X @ x_of_draw) / 60
        errors += np.sum((Y[left] - X[left] @ x_of_draw - mean) ** 2, axis=0)
        squares += np.sum((Y[left] - Y[left].mean(axis=0)) ** 2, axis=0)
    np.testing.assert_allclose(found.left_out, 1 - errors / squares, atol=1e-7)


def test_standard_errors_are_those_of_the_sandwich():
    """Drawn rows estimate the errors that hold for rows of unequal variance (HC3), to a tenth."""
    rng = np.random.default_rng(3)
    X = rng.standard_normal((400, 3))
    y = X @ [1.0, 0.5, 0.0] + rng.standard_normal(400) * np.abs(X[:, 0])
    found = ls.bootstrap(ls.LeastSquares(X, y, center=True), draws=400, rng=0).coefficient_errors[:, 0]
    expected = ls.standard_errors(ls.LeastSquares(X, y, center=True), "HC3").errors
    np.testing.assert_allclose(found, np.ravel(expected)[-3:], rtol=0.12)


def test_weights_of_a_survey_are_drawn_with_their_rows():
    X, Y = rows(4)
    w = np.random.default_rng(4).random(60) + 0.5
    counts = np.random.default_rng(5).multinomial(60, np.full(60, 1 / 60), size=5).astype(float)
    problem = ls.LeastSquares(X, Y, center=True, sample_weight=w)
    found = ls.bootstrap(problem, draws=5, weights="survey", rng=Given(counts))
    np.testing.assert_allclose(found.drawn, [fitted(X, Y, w * count)[1] for count in counts], atol=1e-9)
    with pytest.raises(InvalidProblem, match='weights="survey"'):
        ls.bootstrap(problem, draws=5)


def test_kernels_have_r2_alone_and_sparse_rows_are_dense_ones():
    X, Y = rows(6)
    of_kernel = ls.KernelRidge(X, Y, ridge=1.0, center=True)
    test, found = (
        ls.permutation_test(of_kernel, permutations=39, rng=0),
        ls.bootstrap(of_kernel, draws=9, rng=0),
    )
    score = [
        1 - np.sum((y - f) ** 2) / np.sum((y - y.mean()) ** 2)
        for y, f in zip(Y.T, ls.solve(of_kernel).predict(X).T, strict=True)
    ]
    np.testing.assert_allclose(test.values, score, atol=1e-9)
    for result in (test, found):
        assert result.coefficients is None
        with pytest.raises(MissingCapability, match="a function of a kernel"):
            result.coefficients_table()
    X[X < 3] = 0.0
    dense, sparse = (
        ls.permutation_test(ls.LeastSquares(A, Y, center=True), "direct", permutations=39, rng=1)
        for A in (X, scipy.sparse.csr_array(X))
    )
    np.testing.assert_allclose(dense.drawn, sparse.drawn, atol=1e-9)


def test_tables_have_the_names_of_targets_and_columns():
    X, Y = rows(8)
    X = ls.labelled(X, columns=list("abcde"))
    Y = ls.labelled(Y, columns=["left", "right"])
    problem = ls.LeastSquares(X, Y, center=True)
    test = ls.permutation_test(problem, permutations=19, rng=0)
    found = ls.bootstrap(problem, draws=5, rng=0)
    assert [row["target"] for row in test.table(library="")] == ["left", "right"]
    assert [row["column"] for row in found.coefficients_table(library="")] == list("abcde")
    assert {"left", "left lower", "right standard error"} < found.coefficients_table(library="")[0].keys()
    assert "left p value" in test.coefficients_table(library="")[0]
    assert "rows left out" in repr(found)


def test_what_cannot_be_tested_is_refused():
    X, Y = rows()
    path = ls.LeastSquares(X, Y, ridge=[1.0, 2.0])
    for function in (ls.permutation_test, ls.bootstrap):
        with pytest.raises(InvalidProblem, match="takes one ridge; got a path"):
            function(path)
    with pytest.raises(InvalidOption, match="tested by R² alone; got statistic='sum'"):
        ls.permutation_test(ls.LeastSquares(X, Y), statistic="sum")


def test_a_constant_target_is_not_significant():
    X, Y = rows()
    Y = np.column_stack([Y[:, 0], np.full(60, 2.0)])
    test = ls.permutation_test(ls.LeastSquares(X, Y, center=True), permutations=39, rng=0)
    np.testing.assert_array_equal(test.p_values, [1 / 40, 1.0])
    assert np.isnan(test.values[1])
    np.testing.assert_array_equal(test.coefficient_p_values[:, 1], 1.0)


def test_signs_of_targets_far_from_zero_are_tested_by_residuals():
    """Of one column without an intercept, R² and the coefficient order the signs alike: both see what is planted."""
    rng = np.random.default_rng(0)
    x, y = 5 + 0.1 * rng.standard_normal((40, 1)), 5 + rng.standard_normal(40)
    test = ls.permutation_test(ls.LeastSquares(x, y), sign_flips=True, permutations=99, rng=0)
    np.testing.assert_array_equal(test.p_values, test.coefficient_p_values[0])
    assert test.p_values[0] == 1 / 100
    around = ls.permutation_test(ls.LeastSquares(x, y - 5), sign_flips=True, permutations=99, rng=0)
    np.testing.assert_array_equal(around.p_values, around.coefficient_p_values[0])


def test_rows_of_weight_zero_are_as_if_left_out():
    X, Y = rows(9)
    w, half = np.random.default_rng(9).random(60) + 0.5, slice(20, None)
    w[:20] = 0.0
    Y[:20] = 1e6
    sites, pairs = np.arange(60) % 2, np.arange(60) // 2
    for known in ({}, {"groups": pairs}, {"blocks": sites}):
        given = {"permutations": 39, "weights": "survey", "rng": 0}
        of_all = ls.permutation_test(ls.LeastSquares(X, Y, center=True, sample_weight=w), **given, **known)
        some = ls.LeastSquares(X[half], Y[half], center=True, sample_weight=w[half])
        of_some = ls.permutation_test(some, **given, **{name: labels[half] for name, labels in known.items()})
        np.testing.assert_allclose(of_all.drawn, of_some.drawn, atol=1e-9)
    ones = (w > 0).astype(float)
    of_all, of_some = (
        ls.bootstrap(ls.LeastSquares(A, B, center=True, sample_weight=v), draws=20, groups=labels, rng=0)
        for A, B, v, labels in ((X, Y, ones, pairs), (X[half], Y[half], None, pairs[half]))
    )
    np.testing.assert_allclose(of_all.coefficient_errors, of_some.coefficient_errors, atol=1e-9)


def test_a_rare_class_and_a_negative_r2_have_intervals():
    X, Y = rows(10)
    rare = np.column_stack([np.arange(60) < 2, Y[:, 0]]).astype(float)
    found = ls.bootstrap(ls.LeastSquares(X, rare, center=True), draws=40, rng=0)
    assert np.isfinite([found.values, [found.bias, found.errors]]).all()
    known = found.drawn[~np.isnan(found.drawn[:, 0]), 0]
    assert 25 < len(known) < 40
    np.testing.assert_allclose(found.errors[0], known.std(ddof=1), rtol=0.1)
    classes = np.eye(30)[np.arange(60) // 2]  # no draw has all of them
    assert np.isfinite(ls.bootstrap(ls.LeastSquares(X, classes, center=True), draws=9, rng=0).values).all()
    low = ls.bootstrap(ls.LeastSquares(X[:, 2:], Y + 9.0), draws=40, level=0.9, rng=0)  # without an intercept
    assert (low.solution.r_squared < 0).all()
    np.testing.assert_allclose(
        low.values, low.solution.r_squared + [[-1.644854], [1.644854]] * low.errors, 1e-6
    )


def test_rows_of_dask_are_those_of_arrays():
    da = pytest.importorskip("dask.array")
    X, Y = rows(11)
    found, expected = (
        ls.bootstrap(ls.LeastSquares(convert(X), convert(Y), center=True), draws=5, rng=0)
        for convert in (lambda A: da.from_array(A, chunks=(25, A.shape[1])), np.asarray)
    )
    np.testing.assert_allclose(found.drawn, expected.drawn, atol=1e-9)
    np.testing.assert_allclose(found.left_out, expected.left_out, atol=1e-9)


def test_solutions_of_other_problems_are_refused():
    X, Y = rows()
    problem = ls.LeastSquares(X, Y, center=True)
    for other, words in (
        (ls.LeastSquares(X, Y, center=True, ridge=9.0), "ridge of the problem"),
        (ls.LeastSquares(X, Y), "and no means"),
        (ls.LeastSquares(X, Y[:, 0], center=True), "the 2 targets of the problem; got 1"),
    ):
        with pytest.raises(InvalidProblem, match=words):
            ls.bootstrap(problem, solution=ls.solve(other), draws=5)
    with pytest.raises(MissingCapability, match="which needs row slices"):
        ls.bootstrap(ls.LeastSquares(scipy.sparse.linalg.aslinearoperator(X), Y), draws=5)
    Z = np.random.default_rng(0).standard_normal((60, 2))
    many = ls.RidgeManyTargets(X, Y, ridges=[1.0], confounds=Z)
    with pytest.raises(InvalidProblem, match="permutation test without means and confounds"):
        ls.permutation_test(many, permutations=19)
    with pytest.raises(InvalidProblem, match="got sign_flips"):
        ls.permutation_test(ls.KernelRidge(X, Y, ridge=1.0, center=True), sign_flips=True)
