"""The double of CuPy does what CuPy's sources say: names, signatures, conversions, devices, failures, sparse matrices.

These tests run where the double stands in the place of `cupy` (``LINSPEC_CUPY_DOUBLE=VERSION``).
"""

from __future__ import annotations

import copy
import importlib.util
import pickle
import sys
import threading

import array_api_compat
import numpy as np
import pytest
import scipy.sparse

if "double" not in getattr(sys.modules.get("cupy"), "__version__", ""):
    pytest.skip("the double of CuPy is not here: LINSPEC_CUPY_DOUBLE=14.2.0", allow_module_level=True)

import cupy
import cupyx
from cupyx.scipy import sparse
from doubles import cupy_double
from doubles.cupy_double import ACCOUNT, surface
from doubles.cupy_double.account import ROOT

VERSION = cupy.__version__.partition("+")[0]
API = surface.load(VERSION)
LEGACY = VERSION.startswith("13.")


@pytest.fixture(autouse=True)
def account():
    ACCOUNT.reset()
    ACCOUNT.strict = False
    yield ACCOUNT
    ACCOUNT.strict = True
    assert cupy.cuda.runtime.getDevice() == 0


@pytest.fixture
def x():
    return cupy.asarray(np.arange(6.0).reshape(2, 3))


# ---- names and signatures ---------------------------------------------------------------------------------


def test_array_api_compat_takes_it_for_cupy(x):
    assert importlib.util.find_spec("cupy") is not None
    assert array_api_compat.is_cupy_array(x)
    assert array_api_compat.array_namespace(x) is importlib.import_module("array_api_compat.cupy")
    assert array_api_compat.device(x) == cupy.cuda.Device(0)


@pytest.mark.parametrize(
    ("name", "thing"),
    [("cupy", cupy), ("cupy.linalg", cupy.linalg), ("cupy.fft", cupy.fft), ("cupyx.scipy.sparse", sparse)],
    ids=lambda each: each if isinstance(each, str) else "",
)
def test_it_has_no_name_that_the_release_lacks(name, thing):
    assert {each for each in vars(thing) if not each.startswith("_")} <= set(API["modules"][name])


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("cupy.ndarray", cupy.ndarray),
        ("cupyx.scipy.sparse.csr_matrix", sparse.csr_matrix),
        ("cupyx.scipy.sparse.csc_matrix", sparse.csc_matrix),
    ],
    ids=lambda each: each if isinstance(each, str) else "",
)
def test_its_classes_have_no_attribute_that_the_release_lacks(name, kind):
    assert {each for each in dir(kind) if not each.startswith("_")} <= set(API["classes"][name])


def test_the_releases_differ_where_cupy_says_so(x):
    assert hasattr(cupy, "isdtype") == (not LEGACY)  # new in 14
    assert hasattr(x, "mT") == (not LEGACY)
    with pytest.raises(AttributeError):
        cupy.block  # noqa: B018  # of NumPy, and of no release of CuPy
    with pytest.raises(AttributeError):
        x.to_device(None)


def test_unknown_keywords_are_refused(x):
    for call in (
        lambda: cupy.sum(x, where=True),
        lambda: x.max(initial=0.0),
        lambda: cupy.linalg.svd(x, hermitian=True),
        lambda: cupy.add(x, x, subok=True),
        lambda: cupy.zeros(3, device=0),
        lambda: sparse.csr_matrix(scipy.sparse.eye(3)).toarray(dtype=float),
    ):
        with pytest.raises(TypeError):
            call()


def test_what_the_double_lacks_says_so(x):
    with pytest.raises(NotImplementedError, match=r"the double of CuPy has no cupy\.ndarray\.toDlpack"):
        x.toDlpack()
    with pytest.raises(NotImplementedError, match=r"the double of CuPy has no cupy\.fromDlpack"):
        cupy.fromDlpack(None)


# ---- conversions and mixing -------------------------------------------------------------------------------


def test_results_without_dimensions_stay_on_the_device(x):
    for found in (
        x.sum(),
        cupy.max(x),
        x[1, 2],
        cupy.vdot(x, x),
        cupy.allclose(x, x),
        x.T[0, 0],
        cupy.linalg.norm(x),
    ):
        assert isinstance(found, cupy.ndarray)
        assert found.shape == ()


@pytest.mark.parametrize("convert", [np.asarray, np.array, lambda x: np.ones(3) @ x.T, np.ascontiguousarray])
def test_there_is_no_way_to_numpy_but_get(x, convert):
    with pytest.raises(TypeError):
        convert(x)
    assert type(x.get()) is np.ndarray


def test_dlpack_copies_to_the_host_where_that_is_asked_for(x, account):
    np.testing.assert_array_equal(np.from_dlpack(x, device="cpu"), x.get())
    assert account.total("down") == 2
    with pytest.raises(BufferError):
        x.__dlpack__()


@pytest.mark.parametrize(
    "mix",
    [
        lambda x: x + np.ones(3),
        lambda x: np.ones(3) * x,
        lambda x: x @ np.ones((3, 1)),
        lambda x: x * np.asarray(2.0),
        lambda x: cupy.where(x > 0, x, np.zeros(3)),
        lambda x: cupy.concatenate([x, np.ones((1, 3))]),
        lambda x: cupy.linalg.solve(x @ x.T, np.ones(2)),
        lambda x: np.add(x, np.ones(3)),
        lambda x: x.__iadd__(np.ones(3)),
    ],
)
def test_host_and_device_do_not_meet(x, mix):
    with pytest.raises(TypeError):
        mix(x)


def test_an_array_of_the_host_is_not_assigned_into_one_of_the_device(x):
    with pytest.raises(ValueError, match="non-scalar"):
        x[0] = np.ones(3)
    x[0] = 1.0
    x[1, :] = np.float64(2.0)
    assert x.get().tolist() == [[1.0] * 3, [2.0] * 3]


def test_scalars_of_numpy_meet_arrays(x):
    single = x.astype("float32")
    assert (np.float64(2) * single).dtype == (
        np.float32 if LEGACY else np.float64
    )  # before 14 they were weak
    assert (2.0 * single).dtype == np.float32


def test_functions_of_numpy_give_arrays_of_the_device(x):
    assert isinstance(np.sqrt(x), cupy.ndarray)
    assert isinstance(np.concatenate([x, x]), cupy.ndarray)
    assert isinstance(np.linalg.svd(x)[1], cupy.ndarray)
    with pytest.raises(TypeError):
        np.busday_offset(x, 1)


def test_entries_of_empty_are_not_numbers():
    assert np.isnan(cupy.empty((2, 2)).get()).all()
    assert np.isnan(cupy.empty_like(cupy.zeros(3)).get()).all()
    assert np.isnan(cupy.ndarray((2,)).get()).all()


def test_indices_beyond_the_end_wrap_around(x):
    assert x[:, [3, -1]].get().tolist() == [[0.0, 2.0], [3.0, 5.0]]
    assert cupy.take(x, cupy.asarray([4]), axis=1).get().tolist() == [[1.0], [4.0]]


# ---- what is counted --------------------------------------------------------------------------------------


def test_transfers_are_counted_with_their_bytes_and_lines(account):
    x = cupy.asarray(np.ones((4, 2)))
    x.get()
    cupy.asnumpy(x[0])
    assert (account.total("up"), account.total_bytes("up")) == (1, 64)
    assert (account.total("down"), account.total_bytes("down")) == (2, 64 + 16)
    assert all(site.startswith("tests/doubles/test_cupy_double.py:") for site in account.sites("down"))


def test_an_index_from_the_host_is_a_transfer(x, account):
    before = account.total("up")
    x[:, np.array([0, 1])]
    cupy.take(x, [0], axis=0)
    assert account.total("up") - before == 2


@pytest.mark.parametrize(
    "wait",
    [
        lambda x: float(x.sum()),
        lambda x: int(x[0, 1]),
        lambda x: bool(x[0, 0] == 0),
        lambda x: x.max().item(),
        lambda x: x.tolist(),
        lambda x: f"{x.sum():.1f}",
        lambda x: x[x > 2],
        cupy.nonzero,
        cupy.unique,
        lambda x: max(x[0, 0], x[0, 1]),
    ],
)
def test_waits_are_counted(x, account, wait):
    wait(x)
    assert account.total("sync") == 1


def test_what_waits_for_nothing_is_not_counted(x, account):
    (x @ x.T + 1).sum(axis=0)
    x.shape, x.dtype, x.nbytes, len(x), x.T, cupy.where(x > 0, x, 0.0)
    assert account.total("sync") == 0
    assert account.total("kernel") >= 5


def test_a_line_of_linspec_that_waits_raises_where_that_is_wanted(x, account):
    line = compile("float(x.sum())", str(ROOT / "linspec" / "somewhere.py"), "exec")
    exec(line, {"x": x})
    account.strict = True
    with pytest.raises(cupy_double.ImplicitSync, match=r"linspec/somewhere\.py:1: float\(\)"):
        exec(line, {"x": x})
    float(x.sum())  # a test may
    exec(compile("float(x.sum())", str(ROOT / "linspec" / "testing" / "t.py"), "exec"), {"x": x})


# ---- devices ----------------------------------------------------------------------------------------------


@pytest.fixture
def there():
    """An array of the second device."""
    with cupy.cuda.Device(1):
        return cupy.asarray(np.arange(6.0).reshape(2, 3))


@pytest.mark.parametrize(
    "use",
    [
        lambda y: y + 1,
        lambda y: y @ y.T,
        lambda y: y.sum(),
        lambda y: y.astype("float32"),
        cupy.linalg.svd,
        lambda y: y[:, cupy.asarray([0])],
        lambda y: y.T.reshape(-1),
        lambda y: y + cupy.ones(3),
        lambda y: y.fill(0.0),
        lambda y: y.__setitem__((0, 0), 1.0),
        lambda y: cupy.concatenate([y, y]),
        lambda y: cupy.take(y, 0, axis=0),
    ],
)
def test_a_kernel_needs_its_device_to_be_the_current_one(there, use):
    with pytest.raises(ValueError, match="different from the current device"):
        use(there)
    with cupy.cuda.Device(1):
        cupy.ones(3) + there  # nothing is wrong with the array


def test_views_copies_and_downloads_work_from_anywhere(there, account):
    assert there.T.device == there[:1].device == there.reshape(3, 2).device == cupy.cuda.Device(1)
    assert there.get().shape == (2, 3)
    assert there.copy().device == cupy.asarray(there).device == cupy.cuda.Device(0)
    assert account.total("across") == 2
    assert copy.deepcopy(there).device == cupy.cuda.Device(1)


def test_creation_happens_on_the_current_device():
    import array_api_compat.cupy as xp

    second = cupy.cuda.Device(1)
    assert xp.zeros(3, device=second).device == cupy.cuda.Device(0)  # compat passes no device on
    assert xp.asarray(np.ones(3), device=second).device == second
    with second:
        assert xp.zeros(3).device == second
        with cupy.cuda.Device(0):
            assert cupy.cuda.runtime.getDevice() == 0
        assert cupy.cuda.runtime.getDevice() == 1


def test_a_new_thread_begins_at_the_first_device():
    found = []
    with cupy.cuda.Device(1):
        thread = threading.Thread(target=lambda: found.append(cupy.cuda.runtime.getDevice()))
        thread.start()
        thread.join()
    assert found == [0]


def test_devices_are_equal_by_number_and_not_hashable():
    device = cupy.cuda.Device(1)
    assert device == cupy.cuda.Device(1) == pickle.loads(pickle.dumps(device))
    assert device != cupy.cuda.Device(0)
    assert device != "cpu"
    with pytest.raises(TypeError, match="unhashable"):
        hash(device)
    with pytest.raises(cupy.cuda.runtime.CUDARuntimeError), cupy.cuda.Device(2):
        pass
    assert device.mem_info[0] <= device.mem_info[1]


# ---- failures and overlaps --------------------------------------------------------------------------------

INDEFINITE = np.diag([1.0, -1.0])
SINGULAR = np.ones((2, 2))


@pytest.mark.parametrize(
    ("factorise", "matrix"),
    [
        (cupy.linalg.cholesky, INDEFINITE),
        (cupy.linalg.inv, SINGULAR),
        (lambda A: cupy.linalg.solve(A, cupy.ones(2)), SINGULAR),
        (lambda A: cupy.linalg.svd(A)[1], np.full((2, 2), np.nan)),
    ],
)
def test_a_failure_is_silent_unless_the_error_is_asked_for(factorise, matrix):
    A = cupy.asarray(matrix)
    assert not np.isfinite(factorise(A).get()).all()
    with cupyx.errstate(linalg="raise"), pytest.raises(np.linalg.LinAlgError):
        factorise(A)
    factorise(A)  # the state was put back


def test_a_wrong_shape_is_told_always():
    with pytest.raises(np.linalg.LinAlgError):
        cupy.linalg.cholesky(cupy.ones((2, 3)))


def test_factorisations_are_those_of_numpy():
    A = np.random.default_rng(0).standard_normal((5, 3))
    U, s, Vh = cupy.linalg.svd(cupy.asarray(A), full_matrices=False)
    np.testing.assert_allclose(((U * s) @ Vh).get(), A)
    Q, R = cupy.linalg.qr(cupy.asarray(A))
    np.testing.assert_allclose((Q @ R).get(), A)


def test_operations_in_place_on_overlapping_memory_are_noticed():
    x = cupy.arange(6.0)
    with pytest.raises(cupy_double.Overlap):
        x[1:] = x[:-1]
    with pytest.raises(cupy_double.Overlap):
        x[1:] += x[:-1]
    with pytest.raises(cupy_double.Overlap):
        cupy.add(x[:3], 1.0, out=x[1:4])
    y = cupy.ones((3, 3))
    with pytest.raises(cupy_double.Overlap):
        y -= y.T
    x += x  # entry for entry
    x[:] = x
    x[:3] += x[3:]
    assert x.get().tolist() == [6.0, 10.0, 14.0, 6.0, 8.0, 10.0]


# ---- sparse matrices --------------------------------------------------------------------------------------


def unordered():
    """Rows with indices out of order, and one twice."""
    parts = (np.array([1.0, 2.0, 3.0, 4.0]), np.array([2, 0, 1, 1]), np.array([0, 2, 4]))
    return sparse.csr_matrix(tuple(map(cupy.asarray, parts)), shape=(2, 3))


def test_a_product_puts_the_matrix_itself_in_order():
    A = unordered()
    dense = np.array([[2.0, 0.0, 1.0], [0.0, 7.0, 0.0]])
    assert not A.has_canonical_format
    np.testing.assert_array_equal((A @ cupy.eye(3)).get(), dense)
    assert A.indices.get().tolist() == [0, 2, 1]
    assert A.nnz == 3
    np.testing.assert_array_equal(A.get().toarray(), dense)


def test_products_are_column_major_and_those_of_csc_have_no_fixed_order(account):
    A = sparse.csr_matrix(scipy.sparse.random(20, 6, 0.3, random_state=0))
    assert (A @ cupy.ones((6, 2))).flags.f_contiguous
    assert account.total("atomics") == 0
    assert A.T.format == "csc"
    A.T @ cupy.ones((20, 2))
    assert account.total("atomics") == 1
    assert (A.T.tocsr() @ cupy.ones((20, 2))).shape == (6, 2)
    assert account.total("atomics") == 1


def test_sparse_matrices_meet_arrays_of_the_device_alone():
    A = sparse.csr_matrix(scipy.sparse.eye(3, format="csr"))
    for mix in (lambda: A @ np.ones((3, 1)), lambda: np.asarray(A)):
        with pytest.raises(TypeError):
            mix()
    with pytest.raises(ValueError, match="Scalar operands"):
        A @ 2.0
    with pytest.raises(ValueError, match="float64"):
        sparse.csr_matrix(scipy.sparse.eye(3, format="csr", dtype=int))


def test_indices_are_of_32_bits_before_14():
    host = scipy.sparse.eye(3, format="csr")
    host.indices, host.indptr = host.indices.astype(np.int64), host.indptr.astype(np.int64)
    assert sparse.csr_matrix(host).indices.dtype == (np.int32 if LEGACY else np.int64)


def test_rows_of_sparse_matrices(account):
    host = scipy.sparse.random(20, 6, 0.3, format="csr", random_state=0)
    A = sparse.csr_matrix(host)
    before = account.total("inside")
    np.testing.assert_array_equal(A[3:7].get().toarray(), host[3:7].toarray())
    np.testing.assert_array_equal(A[np.array([5, 5, 0])].get().toarray(), host[[5, 5, 0]].toarray())
    np.testing.assert_array_equal(sparse.vstack([A, A]).get().toarray(), np.vstack([host.toarray()] * 2))
    assert account.total("inside") > before  # the number of entries of a part is read back


def test_methods_that_cupyx_lacks_are_not_there():
    A = sparse.csr_matrix(scipy.sparse.eye(3, format="csr"))
    for name in ("todok_", "count", "resize", "check_format", "trace_"):
        assert not hasattr(A, name)


def test_a_sparse_matrix_lies_on_a_device():
    with cupy.cuda.Device(1):
        A = sparse.csr_matrix(scipy.sparse.eye(3, format="csr"))
    with pytest.raises(ValueError, match="current device"):
        A @ cupy.ones((3, 1))
    with cupy.cuda.Device(1):
        assert (A @ cupy.ones((3, 1))).device == cupy.cuda.Device(1)
    assert A.get().shape == (3, 3)


# ---- its place --------------------------------------------------------------------------------------------


def test_it_does_not_come_after_an_import():
    with pytest.raises(RuntimeError, match="imported already"):
        cupy_double.install(VERSION)
    with pytest.raises(ValueError, match="surface of"):
        surface.load("12.0.0")
