"""Ridge paths: each answer is that of its own problem, the best is that of other rows, and refusals."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse

import linspec as ls
from linspec.errors import InvalidProblem

rng = np.random.default_rng(0)


def a_pair(n=240, p=30, q=20, noise=1.0):
    shared = rng.standard_normal((n, 4)) * [2.0, 1.5, 1.0, 0.7]
    X = shared @ rng.standard_normal((4, p)) + noise * rng.standard_normal((n, p)) + 3.0
    Y = shared @ rng.standard_normal((4, q)) + noise * rng.standard_normal((n, q)) - 1.0
    return X, Y


def classes_in(n=200, p=25, c=4):
    y = rng.integers(0, c, n)
    return rng.standard_normal((c, p))[y] + rng.standard_normal((n, p)) + 2.0, y


X, Y = a_pair(p=6, q=4)
SPARSE, (TALL, LABELS), (FLAT, OTHERS) = map(scipy.sparse.csr_array, (X, Y)), classes_in(), classes_in(p=300)
BESIDE = {
    "sample_weight": rng.integers(1, 4, 200).astype(float),
    "scale": True,
    "confounds": np.arange(200.0),
}
PROBLEMS = {
    "views": ls.CCA(X * np.geomspace(1, 50, 6), Y, 2),
    "scaled views": ls.CCA(X * np.geomspace(1, 50, 6), Y, 2, scale=True),
    "sparse views": ls.CCA(*SPARSE, 2),
    "classes": ls.Discriminant(
        TALL, ls.targets.lda(LABELS, sample_weight=BESIDE["sample_weight"]), 2, **BESIDE
    ),
    "more columns than rows": ls.Discriminant(
        FLAT, ls.targets.cca(scipy.sparse.csr_array(np.eye(4)[OTHERS])), 2
    ),
}
SOLVERS = {
    "cca": ("auto", "gram", "direct", "lobpcg", "als", "two-stage"),
    "discriminant": ("direct", "two-stage"),
}


@pytest.mark.parametrize(
    "case, solver", [(case, solver) for case, problem in PROBLEMS.items() for solver in SOLVERS[problem.name]]
)
@pytest.mark.parametrize("form", ["auto", "implicit"])
def test_each_answer_is_that_of_its_own_problem_in_the_order_given(case, solver, form):
    problem = PROBLEMS[case]
    ridges = [1.0, 300.0, 0.0, (30.0, 3.0), 10.0] if problem.name == "cca" else [50.0, 2.0]
    tight = {} if solver in {"gram", "direct"} else {"tol": 1e-12}
    path = ls.ridge_path(problem, ridges, solver=solver, form=form, rng=0, **tight)
    assert path.solver == path.solutions[0].solver != "auto"
    for given, ridge, found in zip(ridges, path.ridges, path.solutions, strict=True):
        assert ridge == (given if isinstance(given, tuple) or problem.name != "cca" else (given, given))
        own = ls.solve(problem.with_numbers(ridge=ridge), "direct")
        value, weights = found.layout.value, next(iter(found.layout.weights.values()))[0]
        np.testing.assert_allclose(getattr(found, value), getattr(own, value), rtol=1e-6)
        wanted = getattr(own, weights)  # they belong to the columns of the data
        np.testing.assert_allclose(getattr(found, weights), wanted, atol=1e-5 * np.abs(wanted).max())


def test_the_best_ridge_is_that_of_the_test_rows():
    """Few rows and many columns: fitted without a ridge everything correlates, and on new rows next to nothing."""
    X, Y = a_pair(n=1000, p=60, q=50, noise=4.0)
    ridges, test = [0.0, 1e2, 1e3, 1e4, 1e7], (X[80:], Y[80:])
    path = ls.ridge_path(ls.CCA(X[:80], Y[:80], 2), ridges, solver="direct", test=test)
    totals = [solution.score(*test).total for solution in path.solutions]
    np.testing.assert_allclose(path.totals, totals, atol=1e-12)
    assert path.best == int(np.argmax(totals)) not in (0, len(ridges) - 1)
    assert path.best_solution is path.solutions[path.best]
    assert path.best_ridge == (ridges[path.best],) * 2
    # What was fitted says the opposite.
    assert np.argmax([solution.correlations.sum() for solution in path.solutions]) == 0
    assert repr(path).count(" True  ") >= 1


def test_targets_of_other_rows_choose_the_ridge_of_a_discriminant():
    X, y = classes_in(n=260, p=90)
    new, problem = slice(110, None), ls.Discriminant(X[:110], ls.targets.lda(y[:110]))
    test = X[new], ls.targets.lda(y[new])
    path = ls.ridge_path(problem, [0.01, 1.0, 100.0, 1e4], test=test)
    for solution, total in zip(path.solutions, path.totals, strict=True):
        P, H = solution.transform(X[new]), np.eye(4)[y[new]][:, 1:]
        P, H = np.linalg.qr(P - P.mean(axis=0))[0], np.linalg.qr(H - H.mean(axis=0))[0]
        assert total == pytest.approx(float(np.sum((P.T @ H) ** 2)), rel=1e-10)  # Pillai's trace by angles
    assert path.best == int(np.argmax(path.totals))
    assert path.best_ridge == path.ridges[path.best] > 0.01
    assert path.best_solution.score(*test) == path.totals[path.best]


def test_the_score_of_a_discriminant_does_not_know_scales_and_can_be_computed_from_any_targets():
    X, y = classes_in(p=6)
    solution = ls.solve(ls.Discriminant(X, ls.targets.lda(y)))
    score = solution.score(X, ls.targets.lda(y))
    # without a ridge on the fitted rows, the eigenvalues are the squared canonical correlations
    assert score == pytest.approx(float(solution.eigenvalues.sum()), rel=1e-10)
    labels = np.eye(4)[y] * [1.0, 5.0, 100.0, 1e-3]
    for H in (labels, scipy.sparse.csr_array(labels), ls.targets.cca(labels), ls.targets.opls(labels)):
        assert solution.score(X, H) == pytest.approx(score, rel=1e-9)
    with pytest.raises(InvalidProblem, match="equally many rows"):
        solution.score(X[1:], labels)


CCA, LDA = ls.CCA(X, Y, 2), PROBLEMS["classes"]
REFUSED = [
    (CCA, 3.0, {}, InvalidProblem, r"must be a sequence; got 3.0. Pass \[3.0\]"),
    (CCA, [1.0, -1.0], {}, InvalidProblem, "at least 0; got -1"),
    (X, [1.0], {}, InvalidProblem, r"such as linspec\.CCA .*; got ndarray\. Pass linspec\.CCA\(X, Y, k\)"),
    (CCA, [1.0], {"test": (X, Y[:, 1:])}, InvalidProblem, "test rows of Y must have 4 columns; got 3"),
    (CCA, [1.0], {"test": (X, iter([Y]))}, InvalidProblem, "read once for each ridge; got an iterator"),
    (CCA, [1.0], {"step": 3}, TypeError, "takes only tol; got step"),
    (ls.LeastSquares(X, Y), [1.0], {}, InvalidProblem, "takes several ridges itself"),
    (LDA, [1.0], {"test": TALL}, InvalidProblem, r"\(X_test, H_test\)"),
]


@pytest.mark.parametrize("problem, ridges, given, error, words", REFUSED)
def test_what_cannot_be_done_is_said_before_any_work(problem, ridges, given, error, words):
    with pytest.raises(error, match=words):
        ls.ridge_path(problem, ridges, **given)


def test_without_other_rows_there_is_no_best():
    path = ls.ridge_path(CCA, [1.0], max_passes=50, rng=3)
    assert path.totals is None
    assert "best" not in repr(path)
    with pytest.raises(InvalidProblem, match="made without any"):
        path.best_ridge  # noqa: B018
