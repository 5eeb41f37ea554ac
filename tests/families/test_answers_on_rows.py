"""Variates, scores, loadings, reconstructions and predictions of rows. The oracles are NumPy's formulas and peers."""

from __future__ import annotations

import dataclasses

import array_api_strict
import fuzz
import numpy as np
import pytest
import scipy.linalg
import scipy.sparse
import scipy.sparse.linalg
from backends import backends

import linspec as ls
from linspec.arrays import device_of, namespace, to_host
from linspec.errors import InvalidProblem, MissingCapability, UnsupportedData

N, FITTED, NEW = 400, slice(0, 300), slice(300, 400)

LIBRARIES = "numpy", "array-api-strict", "torch", "cupy"
NAMES = *LIBRARIES, "scipy-csr", "scipy-operator", "cupyx-csr"
KINDS = {each.name: each.wrap for each in backends(NAMES) if not each.missing()} | {
    "float32": lambda A: A.astype(np.float32),
    "slices": fuzz.KINDS["slices"],
    "iterator": fuzz.KINDS["iterator"],
}


def close_of(kind):
    return 2e-5 if kind == "float32" else 1e-11


@pytest.fixture(scope="module")
def views():
    """Sparse enough to be worth it, with means far from zero."""
    rng = np.random.default_rng(0)
    shared = rng.standard_normal((N, 3))
    X = shared @ rng.standard_normal((3, 8)) + rng.standard_normal((N, 8)) + 4.0
    Y = shared @ rng.standard_normal((3, 6)) + rng.standard_normal((N, 6)) - 3.0
    return np.where(X > 3, X, 0.0), np.where(Y < -2, Y, 0.0)


def test_square_paths_are_not_taken_for_matrices():
    """As many ridges as columns: only the problem knows which axis is which."""
    rng = np.random.default_rng(0)
    A, b = rng.standard_normal((50, 4)), rng.standard_normal(50)
    path = ls.solve(ls.LeastSquares(A, b, ridge=(0.1, 1.0, 10.0, 100.0)), "direct")
    block = ls.solve(ls.LeastSquares(A, rng.standard_normal((50, 4)), ridge=1.0), "direct")
    assert path.x.shape == block.x.shape == (4, 4)
    assert (path.path, block.path) == (True, False)
    np.testing.assert_allclose(path.predict(A), path.x @ A.T, atol=1e-13)
    np.testing.assert_allclose(block.predict(A), A @ block.x, atol=1e-13)


def on_variates(P, A, P_new, mean=True):
    """The least-squares prediction of A from the variates P, written out."""
    about = A.mean(axis=0) * mean
    return about + P_new @ np.linalg.lstsq(P, A - about, rcond=None)[0]


def projected(solution, views, rows=NEW):
    """Variates of dense rows, centred by subtraction of the training means."""
    center = solution.x_mean is not None
    X, Y = (view[rows] - view[FITTED].mean(axis=0) * center for view in views)
    return X @ to_host(solution.x_weights), Y @ to_host(solution.y_weights)


@pytest.fixture(scope="module", params=[True, False], ids=["centred", "uncentred"])
def solution(views, request):
    X, Y = views
    return ls.solve(ls.CCA(X[FITTED], Y[FITTED], k=3, ridge=(1.0, 30.0), center=request.param), "gram")


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_rows_has_the_same_variates_scores_and_loadings(solution, views, kind):
    def given():
        return [KINDS[kind](view[NEW]) for view in views]

    P, Q = projected(solution, views)
    dtype = np.float32 if kind == "float32" else np.float64
    for found, exact in zip(solution.transform(*given()), (P, Q), strict=True):
        np.testing.assert_allclose(to_host(found), exact, atol=close_of(kind))
        assert to_host(found).dtype == dtype
    score = solution.score(*given())
    exact = np.sum(P * Q, axis=0) / np.linalg.norm(P, axis=0) / np.linalg.norm(Q, axis=0)
    np.testing.assert_allclose(score.correlations, exact, atol=close_of(kind))
    total = np.cos(scipy.linalg.subspace_angles(P, Q)).sum()
    assert score.total == pytest.approx(total, abs=close_of(kind))
    assert score.rows == 100
    assert (type(score.correlations), type(score.total)) == (np.ndarray, float)
    if kind in ("scipy-operator", "iterator"):
        return
    for view, V, found in zip(views, (P, Q), solution.loadings(*given()), strict=True):
        A, U = (M - (solution.x_mean is not None) * M.mean(axis=0) for M in (view[NEW], V))
        exact = A.T @ U / np.outer(np.linalg.norm(A, axis=0), np.linalg.norm(U, axis=0))
        np.testing.assert_allclose(to_host(found), exact, atol=close_of(kind))


@pytest.mark.parametrize("kind", KINDS)
def test_predictions_of_cca_are_regressions_on_variates(solution, views, kind):
    (X, Y), make, mean = views, KINDS[kind], solution.x_mean is not None
    (P, Q), (P_new, Q_new) = (projected(solution, views, rows) for rows in (FITTED, NEW))
    of_y, of_x = solution.predict(make(X[NEW]), make(Y[NEW]))
    back = solution.inverse_transform(make(P_new), make(Q_new))
    for found, by, view, new in (
        (of_y, P, Y, P_new),
        (of_x, Q, X, Q_new),
        (back[0], P, X, P_new),
        (back[1], Q, Y, Q_new),
    ):
        wanted = on_variates(by, view[FITTED], new, mean)
        np.testing.assert_allclose(to_host(found), wanted, atol=10 * close_of(kind))
    for array in (of_y, *back) if kind in LIBRARIES else ():
        assert namespace(array) is namespace(make(X[NEW]))
        assert device_of(array) == device_of(make(X[NEW]))
    np.testing.assert_array_equal(to_host(solution.predict(make(X[NEW]))), to_host(of_y))
    np.testing.assert_array_equal(to_host(solution.predict(Y=make(Y[NEW]))), to_host(of_x))
    np.testing.assert_array_equal(to_host(solution.inverse_transform(Y=make(Q_new))), to_host(back[1]))


SOLVERS = {
    "gram": {},
    "direct": {},
    "lobpcg": {"rng": 0},
    "lobpcg sweeping": {"rng": 0, "form": "implicit"},
    "als": {"rng": 0, "form": "implicit"},
    "two-stage": {"rng": 0},
    "randomized": {"rng": 0},
}


@pytest.mark.parametrize("ridge", [0.0, 2.0, (1e4, 0.5), 1e70], ids=str)
@pytest.mark.parametrize("scale", [1.0, 1e50], ids=["ordinary", "huge"])
@pytest.mark.parametrize("name", SOLVERS)
@pytest.mark.filterwarnings("ignore::linspec.errors.ConvergenceWarning")
@pytest.mark.slow(keep=18)
def test_coefficients_are_exact_for_the_weights_that_are_returned(views, name, scale, ridge):
    """Whichever solver, however good its weights, at any ridge, in any units."""
    X, Y = views
    found = ls.solve(ls.CCA(X * scale, Y, k=2, ridge=ridge), name.split()[0], **SOLVERS[name])
    P, Q = variates = found.transform(X * scale, Y)
    P, Q = (V / np.linalg.norm(V, axis=0) for V in variates)
    of_y, of_x = found.predict(X * scale, Y)
    back = found.inverse_transform(*variates)
    for ours, by, view in ((of_y, P, Y), (of_x / scale, Q, X), (back[0] / scale, P, X), (back[1], Q, Y)):
        np.testing.assert_allclose(ours, on_variates(by, view, by), atol=1e-10)


def test_variates_that_are_left_out_predict_nothing():
    """A view without variance along some weights: their coefficients are zeros, not infinities."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 4)) * [1.0, 1.0, 0.0, 0.0]
    Y = X[:, :2] + 0.1 * rng.standard_normal((60, 2))
    found = ls.solve(ls.CCA(X, Y, ridge=1e-3), "gram")
    coefficients = found.x_from_x, found.y_from_x, found.x_from_y, found.y_from_y
    assert all(np.isfinite(each).all() for each in coefficients)
    P = found.transform(X)
    np.testing.assert_allclose(found.predict(X), on_variates(P, Y, P), atol=1e-9)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_what_does_not_vary_correlates_with_nothing(views, dtype):
    X, Y = (view.astype(dtype) for view in views)
    solution = ls.solve(ls.CCA(X[FITTED], Y[FITTED], k=3, ridge=1.0), "gram")
    constant = np.repeat(X[310:311], 100, axis=0)
    pairs = ((constant, Y[NEW]), (scipy.sparse.csr_array(constant), Y[NEW]), (X[310:311], Y[310:311]))
    for rows, others in pairs:
        score = solution.score(rows, others)
        np.testing.assert_array_equal(score.correlations, 0.0)
        assert score.total == 0.0


def test_what_cannot_be_answered_is_said(solution, views):
    X, Y = views
    without = dataclasses.replace(solution, y_from_x=None, x_from_x=None)
    for method, args, error, words in (
        (solution.predict, (Y,), InvalidProblem, "X must have the 8 columns of the training data; got 6"),
        (solution.inverse_transform, (X,), InvalidProblem, "the 3 columns of `transform`; got 8"),
        (without.predict, (X,), MissingCapability, "coefficients y_from_x"),
        (solution.score, (X[:10], Y[:9]), InvalidProblem, "equally many rows; got 10 and 9"),
        (solution.loadings, (KINDS["scipy-operator"](X),), MissingCapability, "lengths of the columns"),
        (solution.score, (array_api_strict.asarray(X), Y), UnsupportedData, "one library and device"),
    ):
        with pytest.raises(error, match=words):
            method(*args)


def test_supported_pairs_are_exact_ones_however_early_the_run_ended():
    """The i-th exact correlation is above the level for each of the pairs counted: budgets and levels."""
    rng = np.random.default_rng(0)
    shared = rng.standard_normal((500, 6)) * np.geomspace(2, 0.3, 6)
    X = shared @ rng.standard_normal((6, 40)) + rng.standard_normal((500, 40))
    Y = shared @ rng.standard_normal((6, 30)) + rng.standard_normal((500, 30))
    for ridge in (0.0, 20.0):
        problem = ls.CCA(X, Y, 8, ridge=ridge)
        exact, counts = ls.solve(problem, "direct").correlations, []
        for passes in (6, 15, 60):
            found = ls.solve(problem, "als", rng=0, form="implicit", max_passes=passes, tol=1e-13)
            whole = found.residuals.sum() / found.correlations.sum()
            assert found.residual == pytest.approx(whole, rel=1e-12)
            for level in (0.2, 0.5, 0.8):
                assert (exact[: found.supported(level)] > level).all()
            counts.append(found.supported(0.5))
        assert counts == sorted(counts)
        assert counts[-1] == int(np.sum(exact > 0.5)) > 0
