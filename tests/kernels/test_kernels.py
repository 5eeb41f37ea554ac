"""Kernels, the operator of their matrix, and feature maps: against values by definition."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse
from backends import BACKENDS
from scipy.spatial.distance import cdist

import linspec as ls
from linspec.arrays import on_device, to_host
from linspec.errors import InvalidProblem, MissingCapability, NonFiniteData, UnsupportedData
from linspec.kernels.functions import as_kernel

RNG = np.random.default_rng(0)
X = RNG.standard_normal((130, 7)) + 3.0
NEW = RNG.standard_normal((21, 7)) + 3.0
V = RNG.standard_normal((130, 4))
H = np.eye(130) - 1 / 130

DEFINED = {
    "linear": (ls.kernels.linear(), lambda A, B: A @ B.T),
    "polynomial": (ls.kernels.polynomial(3, 0.5, 0.1), lambda A, B: (0.1 * A @ B.T + 0.5) ** 3),
    "rbf": (ls.kernels.rbf(2.5), lambda A, B: np.exp(-(cdist(A, B) ** 2) / 12.5)),
    "laplacian": (ls.kernels.laplacian(9.0), lambda A, B: np.exp(-cdist(A, B, "cityblock") / 9)),
    "function": (ls.kernels.function(lambda A, B: A @ B.T), lambda A, B: A @ B.T),
}
ARRAYS = [backend for backend in BACKENDS if backend.is_array and not backend.missing()]


@pytest.mark.parametrize("backend", ARRAYS, ids=lambda backend: backend.name)
@pytest.mark.parametrize("name", DEFINED)
@pytest.mark.parametrize("form", ["held", "tiled"])
@pytest.mark.slow(keep=14)
def test_products_are_those_of_the_centred_matrix(name, backend, form):
    kernel, by_definition = DEFINED[name]
    data = backend.wrap(X if backend.float64 else X.astype(np.float32))
    op = ls.KernelOperator(data, kernel, form=form, tile=37)
    exact = H @ by_definition(X, X) @ H
    scale = np.abs(by_definition(X, X)).max() * 130
    unit = 1e-14 if backend.float64 else 1e-6
    np.testing.assert_allclose(to_host(op.matmat(op.home.place(V))), exact @ V, atol=unit * scale)
    np.testing.assert_allclose(
        to_host(op.columns([5, 0, 9])), by_definition(X, X[[5, 0, 9]]), atol=unit * scale
    )
    np.testing.assert_allclose(to_host(op.diagonal()), np.diag(by_definition(X, X)), atol=unit * scale)
    new = backend.wrap(NEW if backend.float64 else NEW.astype(np.float32))
    np.testing.assert_allclose(to_host(op.cross(new).dense()), by_definition(NEW, X), atol=unit * scale)
    assert op.form == form


@pytest.mark.parametrize("name", ["linear", "polynomial", "rbf", "laplacian"])
def test_sparse_rows_have_the_same_kernel(name):
    kernel, by_definition = DEFINED[name]
    A = X * (np.abs(X - 3) < 0.7)
    op = ls.KernelOperator(scipy.sparse.csr_array(A), kernel, tile=50, form="tiled")
    np.testing.assert_allclose(op.matmat(V), H @ by_definition(A, A) @ H @ V, atol=1e-10)
    np.testing.assert_allclose(
        op.cross(scipy.sparse.csr_array(A[:9])).dense(), by_definition(A[:9], A), atol=1e-12
    )
    np.testing.assert_allclose(op.cross(A[:9]).dense(), by_definition(A[:9], A), atol=1e-12)


def test_a_precomputed_matrix_is_taken_as_it_is():
    K = DEFINED["rbf"][1](X, X)
    for data in (K, scipy.sparse.csr_array(K)):
        op = ls.KernelOperator(data, "precomputed", tile=40, form="tiled")
        np.testing.assert_allclose(op.matmat(V), H @ K @ H @ V, atol=1e-12)
        cross = DEFINED["rbf"][1](NEW, X)
        np.testing.assert_allclose(op.cross(cross).matmat(V), cross @ V, atol=1e-12)


def test_distances_of_rows_far_from_the_origin_keep_their_digits():
    far = (X + 1e4).astype(np.float32)
    exact = DEFINED["rbf"][1](far.astype(np.float64), far.astype(np.float64))
    found = ls.KernelOperator(far, ls.kernels.rbf(2.5), center=False).columns(range(130))
    np.testing.assert_allclose(found, exact, atol=1e-5)


def test_scales_are_taken_from_the_rows_once():
    distances = cdist(X, X)[np.triu_indices(130, 1)]
    sums = cdist(X, X, "cityblock")[np.triu_indices(130, 1)]
    settled = ls.KernelOperator(X, ls.kernels.rbf("median", factor=0.5)).settle(0)
    assert settled.scale == pytest.approx(np.median(distances) / 2, rel=1e-12)
    assert ls.KernelOperator(X, "laplacian").settle(0).scale == pytest.approx(np.median(sums), rel=1e-12)
    gamma = ls.KernelOperator(X, "polynomial").settle(0).gamma
    assert gamma == pytest.approx(1 / np.mean(np.sum(X**2, axis=1)), rel=1e-12)
    many = RNG.standard_normal((1500, 3))
    first, second, other = (ls.KernelOperator(many, "rbf").settle(seed).scale for seed in (0, 0, 1))
    assert first == second != other


def test_one_far_row_leaves_the_median_of_the_others():
    rows = np.random.default_rng(0).standard_normal((200, 5))
    far = np.vstack([rows[:-1], rows[-1:] + 1e8])
    target = rows[:, 0]
    near, odd = (ls.solve(ls.KernelRidge(X, target, ridge=1.0)).kernel_map.kernel.scale for X in (rows, far))
    assert odd == pytest.approx(near, rel=0.05)


@pytest.mark.parametrize("name", ["rbf", "laplacian"])
def test_the_median_of_mostly_equal_rows_is_refused(name):
    """As those of a few classes are."""
    rows = np.repeat([0.0, 3.0, 7.0], [30, 2, 1])[:, None]
    with pytest.raises(InvalidProblem, match="rows that differ"):
        ls.KernelOperator(rows, name).settle(0)


@pytest.mark.parametrize("name", ["rbf", "polynomial", "laplacian"])
@pytest.mark.parametrize("landmarks", ["uniform", "rpcholesky"])
def test_nystrom_features_of_all_rows_are_the_kernel(name, landmarks):
    kernel, by_definition = DEFINED[name]
    features = ls.features.nystrom(X, kernel, 130, 0, landmarks=landmarks)
    F, K = features(X).dense(), by_definition(X, X)
    np.testing.assert_allclose(F @ F.T, K, atol=1e-9 * K.max())
    E = ls.features.nystrom(X, kernel, 130, 0, differences=True)(X).dense()
    np.testing.assert_allclose(H @ E @ E.T @ H, H @ K @ H, atol=1e-9 * K.max())
    some = ls.features.nystrom(X, kernel, 20, 0, landmarks=landmarks)(X).dense()
    left = np.linalg.eigvalsh(K - some @ some.T)
    assert left[0] > -1e-8 * K.max()  # a projection leaves a positive semidefinite rest
    assert some.shape == (130, 20)


def test_pivots_find_a_small_group_that_uniform_landmarks_miss():
    rows = np.vstack([1e-3 * RNG.standard_normal((980, 2)), 50 + 0.1 * RNG.standard_normal((20, 2))])
    kernel = ls.kernels.rbf(1.0)
    numbers = ls.features.nystrom(rows, kernel, 5, 0, landmarks="rpcholesky").numbers
    assert np.any(numbers >= 980)


@pytest.mark.parametrize("name", ["rbf", "laplacian"])
def test_fourier_features_are_the_kernel_on_average(name):
    kernel, by_definition = DEFINED[name]
    F = ls.features.fourier(kernel, 7, 20000, 0)(X).dense()
    assert np.abs(F @ F.T - by_definition(X, X)).max() < 6 / np.sqrt(20000)


def features_of(data):
    return ls.features.nystrom(X, ls.kernels.rbf(2.5), 15, 0)(data)


@pytest.mark.parametrize("kind", ["array", "sparse", "callable", "file"])
def test_any_problem_takes_features_of_any_rows(kind, tmp_path):
    """Row slices make the same answer as the features written down, weights included."""
    np.save(tmp_path / "rows.npy", X)
    data = {
        "array": X,
        "sparse": scipy.sparse.csr_array(X),
        "callable": lambda: iter([X[:50], X[50:51], X[51:]]),
        "file": tmp_path / "rows.npy",
    }[kind]
    F = features_of(X).dense()
    B, w = X[:, :2] ** 2, np.arange(130) % 3
    for weights in (None, w):
        found = ls.solve(
            ls.LeastSquares(features_of(data), B, ridge=0.1, sample_weight=weights), "cg", tol=1e-12
        )
        expected = ls.solve(ls.LeastSquares(F, B, ridge=0.1, sample_weight=weights), "direct")
        np.testing.assert_allclose(found.x, expected.x, atol=1e-7)


def test_what_cannot_be_a_kernel_is_refused():
    with pytest.raises(InvalidProblem, match="one of linear, polynomial"):
        as_kernel("gauss")
    with pytest.raises(InvalidProblem, match="must be a kernel of"):
        as_kernel(ls.kernels.rbf)
    for make in (
        lambda: ls.kernels.rbf(0.0),
        lambda: ls.kernels.rbf("mean"),
        lambda: ls.kernels.laplacian(-1),
    ):
        with pytest.raises(InvalidProblem, match="a number from 1e-150 to 1e150, or 'median'"):
            make()
    with pytest.raises(InvalidProblem, match="Multiply the scale"):
        ls.kernels.rbf(2.0, factor=0.5)
    with pytest.raises(InvalidProblem, match="degree"):
        ls.kernels.polynomial(0)
    with pytest.raises(InvalidProblem, match="offset"):
        ls.kernels.polynomial(2, -1.0)
    with pytest.raises(InvalidProblem, match="median distance between 40 of them is 0"):
        ls.KernelOperator(np.ones((40, 3)), "rbf").settle(0)
    with pytest.raises(InvalidProblem, match="must be symmetric"):
        ls.KernelOperator(X, lambda A, B: A @ np.triu(np.ones((7, 7))) @ B.T).settle()
    with pytest.raises(InvalidProblem, match="not single ones"):
        ls.KernelOperator(X, lambda A, B: float(A[0] @ B[0])).settle()
    with pytest.raises(InvalidProblem, match="not positive semidefinite"):
        ls.KernelOperator(X, lambda A, B: -(A @ B.T)).settle()
    with pytest.raises(InvalidProblem, match="must lie between"):
        ls.KernelOperator((X * 1e35), "linear").settle()
    with pytest.raises(InvalidProblem, match="n x n; got 130 x 7"):
        ls.KernelOperator(X, "precomputed")
    bad = X.copy()
    bad[4, 2] = np.nan
    with pytest.raises(NonFiniteData, match="row 4, column 2"):
        ls.KernelOperator(bad, "linear").settle()
    with pytest.raises(MissingCapability, match="needs the rows of X"):
        ls.KernelOperator(scipy.sparse.linalg.aslinearoperator(X), "rbf")


def test_what_cannot_be_features_is_refused():
    with pytest.raises(InvalidProblem, match="landmarks must number from 1 to the 130 rows; got 131"):
        ls.features.nystrom(X, "linear", 131)
    with pytest.raises(InvalidProblem, match="uniform, rpcholesky"):
        ls.features.nystrom(X, "linear", 3, landmarks="best")
    with pytest.raises(InvalidProblem, match="kernel of 30 landmarks is not positive semidefinite"):
        ls.features.nystrom(X, lambda A, B: np.cos(A @ B.T) ** 2 + (A @ B.T > 60), 30, 0)
    with pytest.raises(InvalidProblem, match="the 7 columns"):
        features_of(X[:, :5])
    with pytest.raises(MissingCapability, match="kernels of differences"):
        ls.features.fourier("linear", 7, 10)
    with pytest.raises(UnsupportedData, match="is a rule"):
        ls.features.fourier("rbf", 7, 10)
    with pytest.raises(MissingCapability, match="features are made of rows"):
        features_of(scipy.sparse.linalg.aslinearoperator(X))


PROJECTING = {
    "linear": ls.kernels.linear(),
    "line": ls.kernels.polynomial(1, 2.0, 0.3),
    "square": ls.kernels.polynomial(2, 0.0, 0.7),
    "quartic": ls.kernels.polynomial(4, 0.5, 0.1),
    "rbf": ls.kernels.rbf(2.5),
}


@pytest.mark.parametrize("kernel", PROJECTING.values(), ids=PROJECTING)
@pytest.mark.parametrize("backend", ARRAYS, ids=lambda backend: backend.name)
def test_functions_of_points_come_from_products_alone(kernel, backend):
    if not backend.float64:
        pytest.skip("blocks are float64")
    A, U = backend.wrap(X), backend.wrap(NEW[:3].T.copy())
    with on_device(A):
        values = kernel.along(A @ U, kernel.statistics(A), U)
        tile = kernel.tile(A, backend.wrap(NEW[:3].copy()))
    np.testing.assert_allclose(to_host(values), to_host(tile), rtol=1e-12)


@pytest.mark.parametrize("kernel", PROJECTING.values(), ids=PROJECTING)
@pytest.mark.parametrize("of", [np.asarray, scipy.sparse.csr_array])
def test_gradients_of_functions_of_points_are_those_of_differences(kernel, of):
    A, U = X - 3.0, (NEW[:3] - 3.0).T
    S = np.random.default_rng(1).standard_normal((130, 3)) / 130

    def total(U):
        return np.sum(S * kernel.along(A @ U, kernel.statistics(A), U), axis=0)

    T = A @ U
    K = kernel.along(T, kernel.statistics(A), U)
    gradient = kernel.pullback(ls.as_operator(of(A)), T, K, S, U)
    h = 1e-5
    steps = [np.outer(step, np.ones(3)) * h for step in np.eye(7)]
    expected = np.array([(total(U + step) - total(U - step)) / (2 * h) for step in steps])
    assert np.abs(gradient - expected).max() <= 1e-8 * max(1.0, np.abs(expected).max())


def test_a_row_far_from_all_others_costs_them_no_digits():
    """Distances between other rows do not depend on its place."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((40, 3))
    X[7] = 1e6
    K = ls.KernelOperator(X, ls.kernels.rbf(1.0), center=False).dense()
    exact = np.exp(-np.sum((X[:, None, :] - X[None, :, :]) ** 2, axis=2) / 2)
    np.testing.assert_allclose(K, exact, rtol=0, atol=1e-13)


@pytest.mark.parametrize("form", ["held", "tiled"])
def test_the_kernel_of_a_row_with_itself_is_one(form):
    """Also of a row whose square has a rounding far above the scale; the other entries of its row are zero."""
    far = np.random.default_rng(3).standard_normal((30, 2))
    far[7] *= 1e6
    K = ls.KernelOperator(far, ls.kernels.rbf(1.0), center=False, form=form).dense()
    np.testing.assert_array_equal(np.diag(K), 1.0)
    np.testing.assert_array_equal(np.delete(K[7], 7), 0.0)
    exact = np.exp(-np.sum((far[:, None] - far[None]) ** 2, axis=-1) / 2)
    np.testing.assert_allclose(K, exact, atol=1e-12)


def test_passes_are_counted_before_they_begin():
    rows, counts = np.random.default_rng(0).standard_normal((40, 3)), []
    op = ls.KernelOperator(rows, "rbf", begins=lambda *counted: counts.append(counted))
    op.settle(0)
    op.columns(range(10))
    op.matmat(np.ones((40, 2)))
    assert [share for _, share, _ in counts] == [1.0, 0.25, 1.0]
    assert counts[2] == (2, 1.0, 2.0 * 40**2 * 2)

    def refused(*_):
        raise RuntimeError

    with pytest.raises(RuntimeError):
        ls.KernelOperator(rows, "rbf", begins=refused).settle(0)


@pytest.mark.parametrize("size", [1e12, 1e-12])
def test_the_first_product_of_float32_rows_far_from_one_is_in_float64(size):
    rng = np.random.default_rng(0)
    X, V = (rng.standard_normal((60, 4)) * size).astype(np.float32), rng.standard_normal((60, 2))
    wide = X.astype(float)
    found = ls.KernelOperator(X, "linear", center=False).matmat(V)
    np.testing.assert_allclose(found, wide @ (wide.T @ V), atol=1e-13 * size**2 * 60)
