"""Kernels, the operator of their matrix, and feature maps: against values by definition."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse
from backends import BACKENDS
from scipy.spatial.distance import cdist

import linspec as ls
from linspec.arrays import to_host
from linspec.errors import InvalidProblem, MissingCapability, NonFiniteData

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
    dtype, unit = (np.float64, 1e-14) if backend.float64 else (np.float32, 1e-6)
    op = ls.KernelOperator(backend.wrap(X.astype(dtype)), kernel, form=form, tile=37)
    K = by_definition(X, X)

    def same(found, wanted):
        np.testing.assert_allclose(to_host(found), wanted, atol=unit * np.abs(K).max() * 130)

    same(op.matmat(op.device.asarray(V)), H @ K @ H @ V)
    same(op.columns([5, 0, 9]), K[:, [5, 0, 9]])
    same(op.diagonal(), np.diag(K))
    same(op.cross(backend.wrap(NEW.astype(dtype))).dense(), by_definition(NEW, X))
    assert op.form == form


@pytest.mark.parametrize("name", ["linear", "polynomial", "rbf", "laplacian"])
def test_sparse_rows_have_the_same_kernel(name):
    kernel, by_definition = DEFINED[name]
    A = X * (np.abs(X - 3) < 0.7)
    op = ls.KernelOperator(scipy.sparse.csr_array(A), kernel, tile=50, form="tiled")
    np.testing.assert_allclose(op.matmat(V), H @ by_definition(A, A) @ H @ V, atol=1e-10)
    for wrap in (scipy.sparse.csr_array, np.asarray):
        np.testing.assert_allclose(op.cross(wrap(A[:9])).dense(), by_definition(A[:9], A), atol=1e-12)


@pytest.mark.parametrize("name", ["linear", "polynomial", "rbf", "laplacian"])
def test_squares_of_sparse_8_bit_integers_are_no_8_bit_integers(name):
    kernel, by_definition = DEFINED[name]
    A = np.rint(20 * (X - 3)).astype(np.int8)
    exact = by_definition(A.astype(float), A.astype(float))
    found = ls.KernelOperator(scipy.sparse.csr_array(A), kernel, center=False).dense()
    np.testing.assert_allclose(found, exact, atol=1e-5 * exact.max())


@pytest.mark.parametrize("wrap", [np.asarray, scipy.sparse.csr_array])
def test_a_precomputed_matrix_is_taken_as_it_is(wrap):
    K, cross = (DEFINED["rbf"][1](A, X) for A in (X, NEW))
    op = ls.KernelOperator(wrap(K), "precomputed", tile=40, form="tiled")
    np.testing.assert_allclose(op.matmat(V), H @ K @ H @ V, atol=1e-12)
    np.testing.assert_allclose(op.cross(cross).matmat(V), cross @ V, atol=1e-12)


def test_passes_are_counted_before_they_begin():
    rows, counts = np.random.default_rng(0).standard_normal((40, 3)), []
    op = ls.KernelOperator(rows, "rbf", begins=lambda *counted: counts.append(counted))
    op.fit(0)
    op.columns(range(10))
    op.matmat(np.ones((40, 2)))
    assert [share for _, share, _ in counts] == [1.0, 0.25, 1.0]
    assert counts[2] == (2, 1.0, 2.0 * 40**2 * 2)


def settled(rows, kernel, seed=0):
    return ls.KernelOperator(rows, kernel).fit(seed)


def test_scales_are_taken_from_the_rows_once():
    pairs = np.triu_indices(130, 1)
    half = settled(X, ls.kernels.rbf("median", factor=0.5)).scale
    assert half == pytest.approx(np.median(cdist(X, X)[pairs]) / 2, rel=1e-12)
    sums = cdist(X, X, "cityblock")[pairs]
    assert settled(X, "laplacian").scale == pytest.approx(np.median(sums), rel=1e-12)
    gamma = settled(X, "polynomial").gamma
    assert gamma == pytest.approx(1 / np.mean(np.sum(X**2, axis=1)), rel=1e-12)
    many = RNG.standard_normal((1500, 3))
    first, second, other = (settled(many, "rbf", seed).scale for seed in (0, 0, 1))
    assert first == second != other


@pytest.mark.parametrize("form", ["held", "tiled"])
def test_a_row_far_from_all_others_is_at_distance_zero_of_itself_and_costs_no_digits(form):
    """Also where its square has a rounding far above the scale; the other entries of its row are zero."""
    far = np.random.default_rng(3).standard_normal((30, 2))
    far[7] *= 1e6
    K = ls.KernelOperator(far, ls.kernels.rbf(1.0), center=False, form=form).dense()
    np.testing.assert_array_equal(np.diag(K), 1.0)
    np.testing.assert_array_equal(np.delete(K[7], 7), 0.0)
    np.testing.assert_allclose(K, np.exp(-(cdist(far, far) ** 2) / 2), atol=1e-13)


def test_distances_of_float32_rows_far_from_the_origin_keep_their_digits():
    far = (X + 1e4).astype(np.float32)
    found = ls.KernelOperator(far, ls.kernels.rbf(2.5), center=False).dense()
    np.testing.assert_allclose(found, DEFINED["rbf"][1](far.astype(float), far.astype(float)), atol=1e-5)


@pytest.mark.parametrize("size", [1e12, 1e-12])
def test_the_first_product_of_float32_rows_far_from_one_is_in_float64(size):
    rows = (RNG.standard_normal((60, 4)) * size).astype(np.float32)
    wide, B = rows.astype(float), V[:60]
    found = ls.KernelOperator(rows, "linear", center=False).matmat(B)
    np.testing.assert_allclose(found, wide @ (wide.T @ B), atol=1e-13 * size**2 * 60)


@pytest.mark.parametrize("power", [-90, 90])
@pytest.mark.parametrize("kernel", [ls.kernels.rbf(factor=0.5), ls.kernels.laplacian()])
def test_float32_rows_in_other_units_have_the_kernel_of_their_numbers(kernel, power):
    """Powers of two change no digit, and the median of the distances has the unit of the rows."""
    rows = X.astype(np.float32)
    near = ls.KernelOperator(rows.astype(float), kernel).matmat(V)
    found = ls.KernelOperator(rows * np.float32(2.0**power), kernel).matmat(V)
    np.testing.assert_allclose(found, near, atol=1e-5)


@pytest.mark.parametrize("name", ["rbf", "polynomial", "laplacian"])
@pytest.mark.parametrize("landmarks", ["uniform", "rpcholesky"])
def test_nystrom_features_of_all_rows_are_the_kernel(name, landmarks):
    kernel, by_definition = DEFINED[name]
    F, K = ls.features.nystrom(X, kernel, 130, 0, landmarks=landmarks)(X).dense(), by_definition(X, X)
    np.testing.assert_allclose(F @ F.T, K, atol=1e-9 * K.max())
    E = ls.features.nystrom(X, kernel, 130, 0, differences=True)(X).dense()
    np.testing.assert_allclose(H @ E @ E.T @ H, H @ K @ H, atol=1e-9 * K.max())
    some = ls.features.nystrom(X, kernel, 20, 0, landmarks=landmarks)(X).dense()
    assert some.shape == (130, 20)
    assert np.linalg.eigvalsh(K - some @ some.T)[0] > -1e-8 * K.max()  # what a projection leaves


def test_pivots_find_a_small_group_that_uniform_landmarks_miss():
    rows = np.vstack([1e-3 * RNG.standard_normal((980, 2)), 50 + 0.1 * RNG.standard_normal((20, 2))])
    numbers = ls.features.nystrom(rows, ls.kernels.rbf(1.0), 5, 0, landmarks="rpcholesky").numbers
    assert np.any(numbers >= 980)


@pytest.mark.parametrize("name", ["rbf", "laplacian"])
def test_fourier_features_are_the_kernel_on_average(name):
    kernel, by_definition = DEFINED[name]
    F = ls.features.fourier(kernel, 7, 20000, 0)(X).dense()
    assert np.abs(F @ F.T - by_definition(X, X)).max() < 6 / np.sqrt(20000)


@pytest.mark.parametrize("kind", ["sparse", "slices", "file"])
def test_features_of_any_rows_are_rows_of_any_problem(kind, tmp_path):
    np.save(tmp_path / "rows.npy", X)
    slices = lambda: iter([X[:50], X[50:51], X[51:]])  # noqa: E731
    data = {"sparse": scipy.sparse.csr_array(X), "slices": slices, "file": tmp_path / "rows.npy"}[kind]
    given = {"B": X[:, :2] ** 2, "ridge": 0.1, "sample_weight": np.arange(130) % 3}
    found = ls.solve(ls.LeastSquares(features_of(data), **given), "cg", tol=1e-12)
    expected = ls.solve(ls.LeastSquares(features_of(X).dense(), **given), "direct")
    np.testing.assert_allclose(found.x, expected.x, atol=1e-7)


def features_of(data):
    return ls.features.nystrom(X, ls.kernels.rbf(2.5), 15, 0)(data)


PROJECTING = {
    "linear": ls.kernels.linear(),
    "line": ls.kernels.polynomial(1, 2.0, 0.3),
    "square": ls.kernels.polynomial(2, 0.0, 0.7),
    "quartic": ls.kernels.polynomial(4, 0.5, 0.1),
    "rbf": ls.kernels.rbf(2.5),
}


@pytest.mark.parametrize("kernel", PROJECTING.values(), ids=PROJECTING)
@pytest.mark.parametrize("wrap", [np.asarray, scipy.sparse.csr_array])
def test_gradients_of_functions_of_points_are_those_of_differences(kernel, wrap):
    A, U = X - 3.0, (NEW[:3] - 3.0).T
    S = np.random.default_rng(1).standard_normal((130, 3)) / 130

    def values(U):
        return kernel.along(A @ U, kernel.statistics(A), U)

    gradient = kernel.pullback(ls.as_operator(wrap(A)), A @ U, values(U), S, U)
    steps = [1e-5 * np.outer(step, np.ones(3)) for step in np.eye(7)]
    moved = [np.sum(S * (values(U + step) - values(U - step)), axis=0) / 2e-5 for step in steps]
    assert np.abs(gradient - moved).max() <= 1e-8 * max(1.0, np.abs(moved).max())


NAN = np.where(np.arange(910).reshape(130, 7) == 30, np.nan, X)
PRODUCTS = scipy.sparse.linalg.aslinearoperator(X)
REFUSED = [
    (lambda: ls.kernels.rbf(0.0), InvalidProblem, "a number from 1e-150 to 1e150, or 'median'"),
    (lambda: settled(np.ones((40, 3)), "rbf"), InvalidProblem, "median distance between 40 of them is 0"),
    (lambda: settled(X, lambda A, B: A @ np.tri(7) @ B.T), InvalidProblem, "must be symmetric"),
    (lambda: settled(X, lambda A, B: -(A @ B.T)), InvalidProblem, "not positive semidefinite"),
    (lambda: settled(X * 1e35, "linear"), InvalidProblem, "must lie between"),
    (lambda: settled(NAN, "linear"), NonFiniteData, "row 4, column 2"),
    (lambda: ls.KernelOperator(PRODUCTS, "rbf"), MissingCapability, "needs the rows of X"),
    (lambda: features_of(X[:, :5]), InvalidProblem, "the 7 columns"),
    (lambda: features_of(PRODUCTS), MissingCapability, "features are made of rows"),
    (lambda: ls.features.fourier("linear", 7, 10), MissingCapability, "kernels of differences"),
]


@pytest.mark.parametrize(("make", "error", "words"), REFUSED)
def test_what_cannot_be_a_kernel_or_features_is_refused(make, error, words):
    with pytest.raises(error, match=words):
        make()
