"""Ridge paths: each answer is that of its own problem, the data are read once where they can be, starts are warm."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.linalg
import scipy.sparse
import scipy.sparse.linalg

import linspec as ls
from linspec import registry
from linspec.errors import InvalidProblem, MissingCapability

RIDGES = [1.0, 300.0, 0.0, (30.0, 3.0), 10.0]


def a_pair(n=240, p=30, q=20, seed=0, noise=1.0):
    rng = np.random.default_rng(seed)
    shared = rng.standard_normal((n, 4)) * [2.0, 1.5, 1.0, 0.7]
    X = shared @ rng.standard_normal((4, p)) + noise * rng.standard_normal((n, p)) + 3.0
    Y = shared @ rng.standard_normal((4, q)) + noise * rng.standard_normal((n, q)) - 1.0
    return X, Y


def exact(X, Y, ridge, k, center=True):
    """Singular values of Sx^(-1/2) C Sy^(-1/2), by eigenvalues of the product."""
    if center:
        X, Y = X - X.mean(axis=0), Y - Y.mean(axis=0)
    rx, ry = ridge if isinstance(ridge, tuple) else (ridge, ridge)
    Sx, Sy = X.T @ X + rx * np.eye(X.shape[1]), Y.T @ Y + ry * np.eye(Y.shape[1])
    C = X.T @ Y
    squares = np.linalg.eigvals(np.linalg.solve(Sx, C) @ np.linalg.solve(Sy, C.T)).real
    return np.sqrt(np.sort(squares)[::-1][:k])


def begins_at_an_answer(name):
    traits = registry.get_spec("solver", name, "cca").traits
    return "warm-start" in traits and "approximate" not in traits


SLOW = {"appgrad", "stochastic-appgrad", "sparse-appgrad"}  # a thousand passes
WARM = [name for name in ls.solvers("cca") if begins_at_an_answer(name) and name not in SLOW]


@pytest.mark.parametrize("solver", sorted({"auto", "gram", "direct", "als", "two-stage", *WARM}))
@pytest.mark.parametrize("form", ["auto", "implicit"])
def test_each_answer_is_that_of_its_own_problem_in_the_order_given(solver, form):
    X, Y = a_pair()
    path = ls.ridge_path(ls.CCA(X, Y, 3), RIDGES, solver=solver, form=form, rng=0)
    assert path.ridges == ((1.0, 1.0), (300.0, 300.0), (0.0, 0.0), (30.0, 3.0), (10.0, 10.0))
    for ridge, solution in zip(RIDGES, path.solutions, strict=True):
        np.testing.assert_allclose(solution.correlations, exact(X, Y, ridge, 3), atol=1e-5)
        assert solution.converged
    assert path.solver == path.solutions[0].solver != "auto"


@pytest.mark.parametrize("solver", ["gram", "direct", "lobpcg", "two-stage"])
@pytest.mark.parametrize("form", ["dense", "sparse", "implicit"])
@pytest.mark.parametrize("scale", [False, True], ids=["as given", "scaled"])
def test_weights_of_a_path_belong_to_the_columns_of_the_data(solver, form, scale):
    X, Y = a_pair(p=6, q=4)
    X *= np.geomspace(1, 50, 6)
    data = (scipy.sparse.csr_array(X), scipy.sparse.csr_array(Y)) if form == "sparse" else (X, Y)
    path = ls.ridge_path(ls.CCA(*data, 2, scale=scale), RIDGES, solver=solver, form=form, rng=0)
    deviations = X.std(axis=0) if scale else np.ones(6)
    X, Y = (X - X.mean(axis=0)) / deviations, (Y - Y.mean(axis=0)) / (Y.std(axis=0) if scale else 1.0)
    for (rx, _), ridge, solution in zip(path.ridges, RIDGES, path.solutions, strict=True):
        W = solution.x_weights * deviations[:, None]
        np.testing.assert_allclose(W.T @ (X.T @ X + rx * np.eye(6)) @ W, np.eye(2), atol=1e-6)
        np.testing.assert_allclose(solution.correlations, exact(X, Y, ridge, 2), atol=1e-5)


def test_the_best_ridge_is_that_of_the_test_rows():
    """Few rows and many columns: fitted without a ridge everything correlates, and on new rows next to nothing."""
    X, Y = a_pair(n=1000, p=60, q=50, noise=4.0)
    fitted, new = slice(0, 80), slice(80, 1000)
    ridges = [0.0, 1e2, 1e3, 1e4, 1e7]
    test = X[new], Y[new]
    path = ls.ridge_path(ls.CCA(X[fitted], Y[fitted], 2), ridges, solver="direct", test=test)
    totals = [solution.score(*test).total for solution in path.solutions]
    np.testing.assert_allclose(path.totals, totals, atol=1e-12)
    assert path.best == int(np.argmax(totals)) not in (0, len(ridges) - 1)
    assert path.best_solution is path.solutions[path.best]
    assert path.best_ridge == (ridges[path.best],) * 2
    # What was fitted says the opposite.
    assert np.argmax([solution.correlations.sum() for solution in path.solutions]) == 0
    assert repr(path).count(" True  ") >= 1


def test_what_cannot_be_done_is_said_before_any_work():
    X, Y = a_pair()
    with pytest.raises(InvalidProblem, match="at least one value"):
        ls.ridge_path(ls.CCA(X, Y, 2), [])
    with pytest.raises(InvalidProblem, match=r"must be a sequence; got 3.0. Pass \[3.0\]"):
        ls.ridge_path(ls.CCA(X, Y, 2), 3.0)
    with pytest.raises(InvalidProblem, match="at least 0; got -1"):
        ls.ridge_path(ls.CCA(X, Y, 2), [1.0, -1.0])
    with pytest.raises(InvalidProblem, match="a number or one for each of X, Y; got 3 numbers"):
        ls.ridge_path(ls.CCA(X, Y, 2), [(1.0, 2.0, 3.0)])
    with pytest.raises(InvalidProblem, match="k must be between 1 and 20"):
        ls.ridge_path(ls.CCA(X, Y, 21), [1.0])
    with pytest.raises(
        InvalidProblem,
        match=r"such as linspec\.CCA or linspec\.Discriminant; got ndarray\. Pass linspec\.CCA\(X, Y, k\)",
    ):
        ls.ridge_path(X, [1.0])  # type: ignore[arg-type]
    with pytest.raises(InvalidProblem, match="test rows of Y must have 20 columns; got 19"):
        ls.ridge_path(ls.CCA(X, Y, 2), [1.0], test=(X, Y[:, 1:]))
    with pytest.raises(InvalidProblem, match="must have equally many rows"):
        ls.ridge_path(ls.CCA(X, Y, 2), [1.0], test=(X, Y[1:]))
    with pytest.raises(InvalidProblem, match="read once for each ridge; got an iterator"):
        ls.ridge_path(ls.CCA(X, Y, 2), [1.0], test=(X, iter([Y])))
    with pytest.raises(InvalidProblem, match="rows of all matrices"):
        ls.ridge_path(ls.CCA(X, Y, 2), [1.0], test=X)
    with pytest.raises(TypeError, match="takes only tol; got step"):
        ls.ridge_path(ls.CCA(X, Y, 2), [1.0], step=3)
    with pytest.raises(MissingCapability, match="does not begin at an earlier answer"):
        ls.ridge_path(ls.CCA(X, Y, 2), [1.0], solver="gram", start=ls.solve(ls.CCA(X, Y, 2)))
    path = ls.ridge_path(ls.CCA(X, Y, 2), [1.0], tol=1e-3, max_passes=50, rng=3)
    assert path.totals is None
    with pytest.raises(InvalidProblem, match="made without any"):
        path.best_ridge  # noqa: B018
    assert "best" not in repr(path)


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
    new = slice(110, None)
    test = X[new], ls.targets.lda(y[new])
    path = ls.ridge_path(
        ls.Discriminant(X[:110], ls.targets.lda(y[:110])), [0.01, 1.0, 100.0, 1e4], test=test
    )
    for solution, total in zip(path.solutions, path.totals, strict=True):
        P, H = solution.transform(X[new]), np.eye(4)[y[new]][:, 1:]
        P, H = np.linalg.qr(P - P.mean(axis=0))[0], np.linalg.qr(H - H.mean(axis=0))[0]
        assert total == pytest.approx(float(np.sum((P.T @ H) ** 2)), rel=1e-10)  # Pillai's trace by angles
    assert path.best == int(np.argmax(path.totals))
    assert path.best_ridge == path.ridges[path.best] > 0.01
    assert path.best_solution.score(*test) == path.totals[path.best]
    assert repr(path).count(" True  ") >= 1


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


def test_ridge_paths_are_for_cca_and_discriminants():
    X, y = classes_in()
    with pytest.raises(InvalidProblem, match="takes several ridges itself"):
        ls.ridge_path(ls.LeastSquares(X, X[:, :2]), [1.0])
    with pytest.raises(InvalidProblem, match="ridge must be a number"):
        ls.ridge_path(ls.Discriminant(X, ls.targets.lda(y)), [(1.0, 2.0)])
    with pytest.raises(InvalidProblem, match=r"\(X_test, H_test\)"):
        ls.ridge_path(ls.Discriminant(X, ls.targets.lda(y)), [1.0], test=X)
