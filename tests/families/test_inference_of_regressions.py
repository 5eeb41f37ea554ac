"""Permutation tests and bootstrap intervals of regressions, against loops by hand in NumPy and scikit-learn."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse

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
