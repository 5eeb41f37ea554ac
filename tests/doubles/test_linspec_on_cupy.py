"""linspec on CuPy or its double: planted answers, devices, factorisations, sparse matrices, memory."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse
from backends import BACKENDS

if reason := next(backend.missing() for backend in BACKENDS if backend.name == "cupy"):
    pytest.skip(f"{reason}; for the double LINSPEC_CUPY_DOUBLE=14.2.0", allow_module_level=True)

import cupy
from cupyx.scipy import sparse

import linspec as ls
from linspec import arrays, cost
from linspec.arrays import Device, to_host
from linspec.blocks.base import LONGEST_DEVICE_STRETCH
from linspec.process import machine

SECOND = cupy.cuda.Device(1)
RNG = np.random.default_rng(0)
SHARED = RNG.standard_normal((400, 3))
X = SHARED @ RNG.standard_normal((3, 9)) + RNG.standard_normal((400, 9)) + 1.0
Y = SHARED @ RNG.standard_normal((3, 7)) + RNG.standard_normal((400, 7)) - 2.0
S = scipy.sparse.random(500, 12, 0.3, format="csr", random_state=1)


def on(device, array):
    if device >= cupy.cuda.runtime.getDeviceCount():
        pytest.skip("one device only")
    with cupy.cuda.Device(device):
        return cupy.asarray(array)


@pytest.mark.parametrize("device", [0, 1])
def test_cupy_answers_lie_where_the_data_are(device):
    expected = ls.solve(ls.CCA(X, Y, k=2), "gram")
    found = ls.solve(ls.CCA(on(device, X), on(device, Y), k=2), "gram")
    np.testing.assert_allclose(found.correlations, expected.correlations, rtol=1e-10)
    scores = found.transform(on(device, X), on(device, Y))
    for each in (found.x_weights, found.y_weights, *scores, found.predict(X=on(device, X))):
        assert each.device == cupy.cuda.Device(device)
    score = found.score(on(device, X), on(device, Y))
    np.testing.assert_allclose(score.correlations, expected.score(X, Y).correlations, rtol=1e-9)
    assert cupy.cuda.runtime.getDevice() == 0


def test_cupy_the_current_device_is_put_back_after_an_error():
    bad, A = X.copy(), S.tolil()
    bad[3, 1], A[7, 1] = np.nan, np.inf
    with pytest.raises(ls.errors.NonFiniteData, match="row 3, column 1"):
        ls.solve(ls.SVD(on(1, bad), k=2), "gram")
    with pytest.raises(ls.errors.NonFiniteData, match="inf at row 7, column 1"):
        ls.solve(ls.SVD(sparse.csr_matrix(A.tocsr()), k=2), "gram")
    assert cupy.cuda.runtime.getDevice() == 0


def test_cupy_what_is_public_computes_on_the_device_of_its_arrays():
    A, B = on(1, X), on(1, Y)
    W = on(1, np.linalg.qr(X[:9, :3])[0])
    products = ls.Moments(A, B).products(W, on(1, np.eye(7)))
    assert all(each.device == SECOND for each in products)
    assert ls.metrics.subspace_distance(W, W) < 1e-7
    H = ls.targets.opls(B)
    assert H.device == SECOND
    assert ls.solve(ls.Discriminant(A, H), "direct").score(A, H) > 0
    codes = np.arange(400) % 3
    labels = ls.targets.lda(on(1, codes))
    classifier = ls.solve(ls.Discriminant(A, labels), "direct").classifier(A, on(1, codes))
    assert len(classifier.predict(A)) == 400
    problem = ls.CCA(A, B, k=2, ridge=1.0)
    host = ls.CCA(X, Y, k=2, ridge=1.0)
    found, expected = (ls.cross_validate(each, ridges=[1.0, 10.0], rng=0).scores for each in (problem, host))
    np.testing.assert_allclose(found, expected, rtol=1e-9)
    found, expected = (ls.permutation_test(each, permutations=19, rng=0).p_values for each in (problem, host))
    np.testing.assert_array_equal(found, expected)
    assert ls.project(A, 4, rng=0).device == SECOND


def test_cupy_an_array_of_another_device_is_brought_home():
    for dtype in ("float32", "float64"):
        placed = Device.of(on(0, X)).asarray(on(1, X), dtype)
        assert placed.device == cupy.cuda.Device(0)
        np.testing.assert_array_equal(to_host(placed), X.astype(dtype))


@pytest.mark.parametrize("ridge", [0.0, 1e-110])
def test_cupy_least_squares_without_full_rank(ridge):
    A = np.hstack([X, X[:, :2]])
    found = ls.solve(ls.LeastSquares(cupy.asarray(A), cupy.asarray(Y), ridge=ridge), "direct")
    residual = Y - A @ to_host(found.x)
    np.testing.assert_allclose(A.T @ residual, 0.0, atol=1e-8)


def test_cupy_a_sparse_matrix_is_left_as_it_is():
    """Rows are reversed, and the first entry is in two parts."""
    reverse = np.concatenate([np.arange(a, b)[::-1] for a, b in zip(S.indptr, S.indptr[1:], strict=False)])
    data, indices = np.append(0.25, S.data[reverse]), np.append(S.indices[0], S.indices[reverse])
    data[S.indptr[1]] -= 0.25
    parts = [cupy.asarray(each) for each in (data, indices.astype(np.int32), S.indptr + (S.indptr > 0))]
    A, before = sparse.csr_matrix(tuple(parts), shape=S.shape), [to_host(part).copy() for part in parts]
    parts = A.data, A.indices, A.indptr
    expected = ls.solve(ls.SVD(S, k=3), "block-krylov", rng=0, tol=1e-10)
    found = ls.solve(ls.SVD(A, k=3), "block-krylov", rng=0, tol=1e-10)
    np.testing.assert_allclose(found.S, expected.S, rtol=1e-9)
    assert all(mine is theirs for mine, theirs in zip((A.data, A.indices, A.indptr), parts, strict=True))
    assert all(np.array_equal(to_host(part), own) for part, own in zip(parts, before, strict=True))


def test_cupy_long_sums_of_float32_lose_nothing():
    """A number that is rounded, added up 2²⁰ times: float32 all the way loses all digits but two."""
    n = 2**20
    values = np.full(n, 0.1, np.float32)
    parts = values, np.zeros(n, np.int32), np.arange(n + 1, dtype=np.int32)
    column = scipy.sparse.csr_matrix(parts, (n, 1))
    exact = values.astype(float).sum()
    operator = ls.as_operator(sparse.csr_matrix(column))
    found = float(to_host(operator.rmatmat(cupy.ones((n, 1), dtype=cupy.float32)))[0, 0])
    at_once = float((column.T @ np.ones((n, 1), np.float32))[0, 0])
    assert abs(found / exact - 1) < 0.2 * abs(at_once / exact - 1)
    assert len(list(operator.in_blocks().blocks())) == n // LONGEST_DEVICE_STRETCH


@pytest.mark.parametrize("kind", ["csr_matrix", "csc_matrix"])
@pytest.mark.parametrize("rows", [40, 250])
@pytest.mark.parametrize("solver", ["gram", "block-krylov"])
def test_cupy_sparse_slices_are_streams(kind, rows, solver):
    slices = [getattr(sparse, kind)(S[a : a + rows]) for a in range(0, 500, rows)]
    expected = ls.solve(ls.SVD(S, k=3, center=True), "direct").S
    for source in (slices, lambda: iter(slices)):
        found = ls.solve(ls.SVD(source, k=3, center=True), solver, rng=0)
        np.testing.assert_allclose(found.S, expected, rtol=1e-6)
        assert isinstance(found.Vh, cupy.ndarray)


def test_cupy_memory_is_that_of_the_device(monkeypatch):
    monkeypatch.setattr(machine, "available_memory", lambda: 10**15)
    for number in (0, 1):
        device = Device.of(on(number, X))
        free, total = cupy.cuda.Device(number).mem_info
        assert free <= device.free_memory() <= total
        assert cost.spare_bytes(device) == device.free_memory() // 4
        assert cost.sizes_of([ls.as_operator(on(number, X))], 2).device == device
    assert arrays.HOST.free_memory() == 10**15


def test_cupy_gram_matrices_are_held_where_the_device_has_room(monkeypatch):
    devices = pytest.importorskip("doubles.cupy_double").devices
    wide = on(1, RNG.standard_normal((2000, 850)))
    assert ls.Moments(wide, expect=(1000, 5)).form == "dense"
    monkeypatch.setitem(devices.MEMORY, 1, (1000, 8 << 30))
    assert ls.Moments(wide, expect=(1000, 5)).form == "implicit"


def test_cupy_no_iteration_carries_more_than_its_budget_or_waits_unannounced():
    if "double" not in cupy.__version__:
        pytest.skip("nothing counts on a GPU")
    from doubles import transfers

    found, waits = transfers.measured()
    assert found.keys() == transfers.budgets().keys()
    assert transfers.risen(found) == []
    assert waits == {}


def test_cupy_rows_that_lack_a_value_are_dropped_where_they_lie():
    bad, y = X.copy(), Y[:, 0].copy()
    bad[3, 1] = y[7] = np.nan
    gaps = S.tolil()
    gaps[9, 2] = np.nan
    with pytest.warns(UserWarning, match=r"^3 of 400 rows lack a value"):
        A, b, C = ls.drop_missing(on(1, bad), on(1, y), sparse.csr_matrix(gaps.tocsr()[:400]))
    kept = np.delete(np.arange(400), [3, 7, 9])
    assert A.device == b.device == cupy.cuda.Device(1)
    np.testing.assert_array_equal(to_host(A), X[kept])
    np.testing.assert_array_equal(to_host(b), Y[kept, 0])
    np.testing.assert_array_equal(ls.as_operator(C).dense().get(), S[:400].toarray()[kept])
    mask = np.arange(400) != 3
    views = [on(0, bad), on(0, Y)]
    found = ls.solve(ls.MultisetCCA(views, 2, present=[mask, None]))
    plain = ls.solve(ls.MultisetCCA([X, Y], 2, present=[mask, None]))
    np.testing.assert_allclose(found.eigenvalues, plain.eigenvalues, rtol=1e-10)
