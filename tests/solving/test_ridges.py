"""Ridge paths: each answer is that of its own problem, the best is that of other rows, and refusals."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse

import linspec as ls
from linspec.errors import InvalidProblem, MissingCapability

RIDGES = [1.0, 300.0, 0.0, (30.0, 3.0), 10.0]


def a_pair(n=240, p=30, q=20, noise=1.0):
    rng = np.random.default_rng(0)
    shared = rng.standard_normal((n, 4)) * [2.0, 1.5, 1.0, 0.7]
    X = shared @ rng.standard_normal((4, p)) + noise * rng.standard_normal((n, p)) + 3.0
    Y = shared @ rng.standard_normal((4, q)) + noise * rng.standard_normal((n, q)) - 1.0
    return X, Y


def exact(X, Y, ridge, k):
    """Singular values of Sx^(-1/2) C Sy^(-1/2), by eigenvalues of the product."""
    X, Y = X - X.mean(axis=0), Y - Y.mean(axis=0)
    rx, ry = ridge if isinstance(ridge, tuple) else (ridge, ridge)
    Sx, Sy = X.T @ X + rx * np.eye(X.shape[1]), Y.T @ Y + ry * np.eye(Y.shape[1])
    squares = np.linalg.eigvals(np.linalg.solve(Sx, X.T @ Y) @ np.linalg.solve(Sy, Y.T @ X)).real
    return np.sqrt(np.sort(squares)[::-1][:k])


@pytest.mark.parametrize("solver", ["auto", "gram", "direct", "lobpcg", "als", "two-stage"])
@pytest.mark.parametrize("form", ["auto", "sparse", "implicit"])
@pytest.mark.parametrize("scale", [False, True], ids=["as given", "scaled"])
def test_each_answer_is_that_of_its_own_problem_in_the_order_given(solver, form, scale):
    X, Y = a_pair(p=6, q=4)
    X *= np.geomspace(1, 50, 6)
    data = (scipy.sparse.csr_array(X), scipy.sparse.csr_array(Y)) if form == "sparse" else (X, Y)
    path = ls.ridge_path(ls.CCA(*data, 2, scale=scale), RIDGES, solver=solver, form=form, rng=0)
    assert path.ridges == ((1.0, 1.0), (300.0, 300.0), (0.0, 0.0), (30.0, 3.0), (10.0, 10.0))
    assert path.solver == path.solutions[0].solver != "auto"
    deviations = X.std(axis=0) if scale else np.ones(6)
    X, Y = (X - X.mean(axis=0)) / deviations, (Y - Y.mean(axis=0)) / (Y.std(axis=0) if scale else 1.0)
    for (rx, _), ridge, solution in zip(path.ridges, RIDGES, path.solutions, strict=True):
        assert solution.converged
        np.testing.assert_allclose(solution.correlations, exact(X, Y, ridge, 2), atol=1e-5)
        W = solution.x_weights * deviations[:, None]  # they belong to the columns of the data
        np.testing.assert_allclose(W.T @ (X.T @ X + rx * np.eye(6)) @ W, np.eye(2), atol=1e-6)


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


# ---- discriminants --------------------------------------------------------------------------------------------------


def classes_in(n=200, p=25, c=4, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, c, n)
    return rng.standard_normal((c, p))[y] + rng.standard_normal((n, p)) + 2.0, y


@pytest.mark.parametrize("solver", ["direct", "two-stage"])
@pytest.mark.parametrize("form", ["auto", "implicit"])
@pytest.mark.parametrize("p", [25, 300], ids=["tall", "wide"])
def test_each_discriminant_of_a_path_is_that_of_its_own_problem(solver, form, p):
    X, y = classes_in(p=p)
    Y = np.eye(4)[y] @ np.array([[1.0, 0, 0], [0, 1, 0], [0, 1, 1], [0, 0, 0]])
    w, ridges = np.random.default_rng(1).integers(1, 4, len(X)).astype(float), [2.0, 50.0]
    given = {"sample_weight": w, "scale": True, "confounds": np.arange(len(X)) / 100}
    H = ls.targets.cca(scipy.sparse.csr_array(Y), sample_weight=w)  # labels times a small block
    tol = {"tol": 1e-12} if solver == "two-stage" else {}
    path = ls.ridge_path(ls.Discriminant(X, H, 2, **given), ridges, solver=solver, form=form, rng=0, **tol)
    for ridge, solution in zip(ridges, path.solutions, strict=True):
        own = ls.solve(ls.Discriminant(X, H, 2, ridge=ridge, **given), solver, rng=0, **tol)
        np.testing.assert_allclose(solution.eigenvalues, own.eigenvalues, rtol=1e-10)
        np.testing.assert_allclose(solution.weights, own.weights, atol=1e-10 * np.abs(own.weights).max())
        np.testing.assert_allclose(solution.scale, own.scale)


def test_targets_of_other_rows_choose_the_ridge_of_a_discriminant():
    X, y = classes_in(n=260, p=90, seed=3)
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


# ---- refusals -------------------------------------------------------------------------------------------------------

X, Y = a_pair()
CCA, LDA = ls.CCA(X, Y, 2), ls.Discriminant(X, ls.targets.lda(np.arange(240) % 3))
REFUSED = [
    (CCA, [], {}, InvalidProblem, "at least one value"),
    (CCA, 3.0, {}, InvalidProblem, r"must be a sequence; got 3.0. Pass \[3.0\]"),
    (CCA, [1.0, -1.0], {}, InvalidProblem, "at least 0; got -1"),
    (CCA, [(1.0, 2.0, 3.0)], {}, InvalidProblem, "a number or one for each of X, Y; got 3 numbers"),
    (X, [1.0], {}, InvalidProblem, r"such as linspec\.CCA .*; got ndarray\. Pass linspec\.CCA\(X, Y, k\)"),
    (CCA, [1.0], {"test": (X, Y[:, 1:])}, InvalidProblem, "test rows of Y must have 20 columns; got 19"),
    (CCA, [1.0], {"test": (X, Y[1:])}, InvalidProblem, "must have equally many rows"),
    (CCA, [1.0], {"test": (X, iter([Y]))}, InvalidProblem, "read once for each ridge; got an iterator"),
    (CCA, [1.0], {"test": X}, InvalidProblem, "rows of all matrices"),
    (CCA, [1.0], {"step": 3}, TypeError, "takes only tol; got step"),
    (
        CCA,
        [1.0],
        {"solver": "gram", "start": ls.solve(CCA)},
        MissingCapability,
        "does not begin at an earlier",
    ),
    (ls.LeastSquares(X, Y), [1.0], {}, InvalidProblem, "takes several ridges itself"),
    (LDA, [(1.0, 2.0)], {}, InvalidProblem, "ridge must be a number"),
    (LDA, [1.0], {"test": X}, InvalidProblem, r"\(X_test, H_test\)"),
]


@pytest.mark.parametrize("problem, ridges, given, error, words", REFUSED)
def test_what_cannot_be_done_is_said_before_any_work(problem, ridges, given, error, words):
    with pytest.raises(error, match=words):
        ls.ridge_path(problem, ridges, **given)


def test_without_other_rows_there_is_no_best():
    path = ls.ridge_path(CCA, [1.0], tol=1e-3, max_passes=50, rng=3)
    assert path.totals is None
    with pytest.raises(InvalidProblem, match="made without any"):
        path.best_ridge  # noqa: B018
    assert "best" not in repr(path)
