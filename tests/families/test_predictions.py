"""Scores, reconstructions and predictions of rows by solutions. The oracles are NumPy's formulas and peers."""

from __future__ import annotations

import dataclasses

import array_api_strict
import numpy as np
import pytest
import scipy.sparse
import scipy.sparse.linalg
from backends import backends
from sklearn.decomposition import PCA
from sklearn.linear_model import Ridge

import linspec as ls
from linspec.arrays import device_of, namespace, to_host
from linspec.errors import InvalidProblem, MissingCapability

N, FITTED, NEW = 400, slice(0, 300), slice(300, 400)
BACKENDS = [backend for backend in backends() if backend.name != "products-only"]
RIDGES = (0.1, 10.0, 1000.0)


def slices(A):
    return lambda: (A[a : a + 30] for a in range(0, len(A), 30))


KINDS = {
    "numpy": np.asarray,
    "float32": lambda A: A.astype(np.float32),
    "csr": scipy.sparse.csr_array,
    "csc": scipy.sparse.csc_matrix,
    "strict": array_api_strict.asarray,
    "operator": scipy.sparse.linalg.aslinearoperator,
    "slices": slices,
    "once": lambda A: iter([A[:20], A[20:]]),
}


@pytest.fixture(scope="module")
def views():
    """Sparse enough to be worth it, with means far from zero."""
    rng = np.random.default_rng(0)
    shared = rng.standard_normal((N, 3))
    X = shared @ rng.standard_normal((3, 8)) + rng.standard_normal((N, 8)) + 4.0
    Y = shared @ rng.standard_normal((3, 6)) + rng.standard_normal((N, 6)) - 3.0
    return np.where(X > 3, X, 0.0), np.where(Y < -2, Y, 0.0)


@pytest.fixture(params=BACKENDS, ids=lambda backend: backend.name)
def backend(request):
    if reason := request.param.missing():
        pytest.skip(reason)
    return request.param


def tolerance(kind):
    return 2e-5 if kind == "float32" else 1e-11


def in_place(found, backend, data, dtype):
    """The library and device of the rows, or of CuPy's sparse matrices; NumPy of other rows, and of borrowed ones."""
    like = data if backend.is_array else backend.companion(np.ones(1))
    if isinstance(like, np.ndarray) or backend.name.startswith(("jax", "torch-sparse")):
        assert type(found) is np.ndarray
    else:
        assert namespace(found) is namespace(like)
        assert device_of(found) == device_of(like)
    assert str(found.dtype).rpartition(".")[2] == dtype


# ---- SVD --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("solver", ["gram", "direct", "block-krylov"])
def test_scores_and_reconstructions_are_those_of_pca(views, kind, solver):
    A = views[0]
    solution = ls.solve(ls.SVD(A[FITTED], k=3, center=True), solver, rng=0)
    peer = PCA(3, svd_solver="full").fit(A[FITTED])
    turned = np.sign(np.sum(peer.components_ * solution.Vh, axis=1))
    scores = solution.transform(KINDS[kind](A[NEW]))
    close = max(tolerance(kind), 1e-5 if solver == "block-krylov" else 0.0)
    np.testing.assert_allclose(to_host(scores), peer.transform(A[NEW]) * turned, atol=close)
    again = solution.inverse_transform(KINDS[kind](to_host(scores)))
    expected = peer.inverse_transform(peer.transform(A[NEW]))
    np.testing.assert_allclose(to_host(again), expected, atol=10 * close)
    dtype = np.float32 if kind == "float32" else np.float64
    assert to_host(scores).dtype == to_host(again).dtype == dtype


# ---- least squares ----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("vector", [True, False], ids=["vector", "matrix"])
@pytest.mark.parametrize("ridge", [5.0, RIDGES, (5.0,)], ids=["one", "path", "path-of-one"])
def test_predictions_are_those_of_ridge_regression(views, kind, vector, ridge):
    A, B = views
    B = B[:, 0] if vector else B
    solution = ls.solve(ls.LeastSquares(A[FITTED], B[FITTED], ridge=ridge), "direct")
    found = solution.predict(KINDS[kind](A[NEW]))

    def predicted(alpha):
        return Ridge(alpha, fit_intercept=False, solver="cholesky").fit(A[FITTED], B[FITTED]).predict(A[NEW])

    path = isinstance(ridge, tuple)
    expected = np.stack([predicted(alpha) for alpha in ridge]) if path else predicted(ridge)
    assert tuple(found.shape) == expected.shape
    np.testing.assert_allclose(to_host(found), expected, atol=tolerance(kind))


def test_square_paths_are_not_taken_for_matrices():
    """As many ridges as columns: only the problem knows which axis is which."""
    rng = np.random.default_rng(0)
    A, b = rng.standard_normal((50, 4)), rng.standard_normal(50)
    ridges = (0.1, 1.0, 10.0, 100.0)
    path = ls.solve(ls.LeastSquares(A, b, ridge=ridges), "direct")
    block = ls.solve(ls.LeastSquares(A, rng.standard_normal((50, 4)), ridge=1.0), "direct")
    assert path.x.shape == block.x.shape == (4, 4)
    assert (path.path, block.path) == (True, False)
    np.testing.assert_allclose(path.predict(A), path.x @ A.T, atol=1e-13)
    np.testing.assert_allclose(block.predict(A), A @ block.x, atol=1e-13)


@pytest.mark.parametrize("vector", [True, False], ids=["b", "B"])
@pytest.mark.parametrize("ridge", [0.0, 3.0, (0.5, 3.0)], ids=str)
@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_an_intercept_is_fitted_and_predicted(kind, ridge, vector):
    """Coefficients and intercept of scikit-learn's Ridge, which shrinks no intercept either."""
    linear_model = pytest.importorskip("sklearn.linear_model")
    rng = np.random.default_rng(0)
    A = (rng.standard_normal((80, 6)) + 3) * (rng.random((80, 6)) < 0.4)
    B = A @ rng.standard_normal((6, 3)) + rng.standard_normal((80, 3)) - 7
    B = B[:, 0] if vector else B
    given = scipy.sparse.csr_array(A) if kind == "sparse" else A
    solution = ls.solve(ls.LeastSquares(given, B, ridge=ridge, center=True), "direct")
    wanted = [
        linear_model.Ridge(alpha=r).fit(A, B) if r else linear_model.LinearRegression().fit(A, B)
        for r in (ridge if solution.path else [ridge])
    ]
    for i, peer in enumerate(wanted):
        each = i if solution.path else ...
        np.testing.assert_allclose(np.swapaxes(solution.x[each], -1, 0), peer.coef_, atol=1e-11)
        np.testing.assert_allclose(solution.intercept[each], peer.intercept_, atol=1e-10)
        np.testing.assert_allclose(solution.predict(given)[each], peer.predict(A), atol=1e-10)


# ---- CCA --------------------------------------------------------------------------------------------


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
def test_predictions_of_cca_are_regressions_on_variates(solution, views, kind):
    X, Y = views
    P, Q = projected(solution, views, FITTED)
    P_new, Q_new = projected(solution, views)
    mean = solution.x_mean is not None
    close = 10 * tolerance(kind)
    make = KINDS[kind]
    of_x = solution.predict(make(X[NEW]))
    of_y = solution.predict(Y=make(Y[NEW]))
    np.testing.assert_allclose(to_host(of_x), on_variates(P, Y[FITTED], P_new, mean), atol=close)
    np.testing.assert_allclose(to_host(of_y), on_variates(Q, X[FITTED], Q_new, mean), atol=close)
    both = solution.predict(make(X[NEW]), make(Y[NEW]))
    np.testing.assert_array_equal(to_host(both[0]), to_host(of_x))
    np.testing.assert_array_equal(to_host(both[1]), to_host(of_y))
    back = solution.inverse_transform(make(P_new), make(Q_new))
    np.testing.assert_allclose(to_host(back[0]), on_variates(P, X[FITTED], P_new, mean), atol=close)
    np.testing.assert_allclose(to_host(back[1]), on_variates(Q, Y[FITTED], Q_new, mean), atol=close)
    alone = solution.inverse_transform(Y=make(Q_new))
    np.testing.assert_array_equal(to_host(alone), to_host(back[1]))


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
    X, Y = views[0] * scale, views[1]
    found = ls.solve(ls.CCA(X, Y, k=2, ridge=ridge), name.split()[0], **SOLVERS[name])
    P, Q = found.transform(X, Y)
    P, Q = (V / np.linalg.norm(V, axis=0) for V in (P, Q))
    unit = np.array([scale, 1.0])
    expected = (
        on_variates(P, Y, P),
        on_variates(Q, X / scale, Q),
        on_variates(P, X / scale, P),
        on_variates(Q, Y, Q),
    )
    predicted = found.predict(X, Y)
    back = found.inverse_transform(*found.transform(X, Y))
    for ours, theirs in zip(
        (predicted[0], predicted[1] / unit[0], back[0] / unit[0], back[1]), expected, strict=True
    ):
        np.testing.assert_allclose(ours, theirs, atol=1e-10)


def test_every_backend_predicts(views, backend):
    dtype = np.float64 if backend.float64 else np.float32
    X, Y = (view.astype(dtype) for view in views)
    data = backend.wrap(X), backend.wrap(Y)
    found = ls.solve(ls.CCA(*data, k=3, ridge=1.0), "lobpcg", rng=0)
    P, Q = found.transform(*data)
    close = 1e-9 if backend.float64 else 2e-3
    for ours, scores, view in zip(found.predict(*data), (P, Q), (views[1], views[0]), strict=True):
        in_place(ours, backend, data[0], np.dtype(dtype).name)
        scores = to_host(scores).astype(float)
        np.testing.assert_allclose(to_host(ours), on_variates(scores, view, scores), atol=close)
    for ours, scores, view in zip(found.inverse_transform(P, Q), (P, Q), views, strict=True):
        in_place(ours, backend, data[0], np.dtype(dtype).name)
        scores = to_host(scores).astype(float)
        np.testing.assert_allclose(to_host(ours), on_variates(scores, view, scores), atol=close)
    for name in ("x_from_x", "y_from_x", "x_from_y", "y_from_y"):
        if backend.is_array:
            in_place(getattr(found, name), backend, data[0], np.dtype(dtype).name)


def test_sparse_columns_with_large_means_predict(views):
    """Their entries are shifted before the solve: means and coefficients are those of the data."""
    X = scipy.sparse.csr_array(1e-3 * views[0] + 1e4)
    found = ls.solve(ls.CCA(X, views[1], k=2), "gram")
    P = (X.toarray() - X.toarray().mean(axis=0)) @ found.x_weights
    np.testing.assert_allclose(found.predict(X.toarray()), on_variates(P, views[1], P), atol=1e-8)
    back = found.inverse_transform(P)
    np.testing.assert_allclose(back, on_variates(P, X.toarray(), P), atol=1e-8)


def test_planted_latents_that_correlate_are_predicted_where_the_pseudo_inverse_fails():
    """Two directions of Y that X knows nothing of are larger than the three latents that the views share.

    Weights suppress such directions, and say nothing of how the columns come from the latents: their pseudo-inverse, in
    place of the regression, loses half of what is planted.
    """
    rng = np.random.default_rng(0)
    latents = rng.standard_normal((2000, 3)) @ np.linalg.cholesky(0.1 * np.eye(3) + 0.9).T
    planted = latents @ rng.standard_normal((3, 8))
    X = latents @ rng.standard_normal((3, 10)) + 0.05 * rng.standard_normal((2000, 10))
    alone = 3 * rng.standard_normal((2000, 2)) @ rng.standard_normal((2, 8))
    Y = planted + alone + 0.05 * rng.standard_normal((2000, 8))
    found = ls.solve(ls.CCA(X[:1000], Y[:1000], k=3), "direct")
    naive = found.transform(X[1000:]) @ np.linalg.pinv(found.y_weights) + found.y_mean

    def share(predicted):
        """R² of what was planted in the new rows."""
        about = planted[1000:] - planted[1000:].mean(axis=0)
        return 1 - np.sum((predicted - planted[1000:]) ** 2) / np.sum(about**2)

    assert share(found.predict(X[1000:])) > 0.97
    assert share(naive) < 0.6
    ordinary = np.linalg.lstsq(np.c_[np.ones(1000), X[:1000]], Y[:1000], rcond=None)[0]
    assert share(found.predict(X[1000:])) > share(np.c_[np.ones(1000), X[1000:]] @ ordinary)


def test_all_pairs_predict_as_ordinary_least_squares(views):
    """With as many pairs as Y has columns the regression on variates is that on all columns: the rank theorem."""
    X, Y = views
    found = ls.solve(ls.CCA(X, Y), "direct")
    assert len(found.correlations) == 6
    Xc, Yc = X - X.mean(axis=0), Y - Y.mean(axis=0)
    ordinary = Xc @ np.linalg.lstsq(Xc, Yc, rcond=None)[0] + Y.mean(axis=0)
    np.testing.assert_allclose(found.predict(X), ordinary, atol=1e-11)
    np.testing.assert_allclose(found.inverse_transform(Y=found.transform(Y=Y)), Y, atol=1e-11)


def test_variates_that_are_left_out_predict_nothing():
    """A view without variance along some weights: their coefficients are zeros, not infinities."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 4)) * [1.0, 1.0, 0.0, 0.0]
    Y = X[:, :2] + 0.1 * rng.standard_normal((60, 2))
    found = ls.solve(ls.CCA(X, Y, ridge=1e-3), "gram")
    assert all(
        np.isfinite(getattr(found, name)).all() for name in ("x_from_x", "y_from_x", "x_from_y", "y_from_y")
    )
    P = found.transform(X)
    np.testing.assert_allclose(found.predict(X), on_variates(P, Y, P), atol=1e-9)


def test_what_cannot_be_predicted_is_said(solution, views):
    X, Y = views
    with pytest.raises(InvalidProblem, match=r"predict takes rows of X, Y, .*; got none"):
        solution.predict()
    with pytest.raises(InvalidProblem, match=r"inverse_transform takes rows of X, Y, .*; got none"):
        solution.inverse_transform()
    with pytest.raises(InvalidProblem, match="X must have the 8 columns of the training data; got 6"):
        solution.predict(Y)
    with pytest.raises(
        InvalidProblem, match="the variates of X must have the 3 columns of `transform`; got 8"
    ):
        solution.inverse_transform(X)
    without = dataclasses.replace(solution, y_from_x=None, x_from_x=None)
    with pytest.raises(MissingCapability, match="coefficients y_from_x"):
        without.predict(X)
    with pytest.raises(MissingCapability, match="coefficients x_from_x"):
        without.inverse_transform(X[:, :3])
