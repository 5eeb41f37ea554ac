"""The double of CuPy does what CuPy's sources say: names, signatures, conversions, devices, failures, sparse matrices.

These tests run where the double stands in the place of `cupy` (``LINSPEC_CUPY_DOUBLE=VERSION``).
"""

from __future__ import annotations

import sys

import numpy as np
import pytest
import scipy.sparse

if "double" not in getattr(sys.modules.get("cupy"), "__version__", ""):
    pytest.skip("the double of CuPy is not here: LINSPEC_CUPY_DOUBLE=14.2.0", allow_module_level=True)

import cupy
from cupyx.scipy import sparse
from doubles.cupy_double import ACCOUNT, surface

VERSION = cupy.__version__.partition("+")[0]
API = surface.load(VERSION)


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


@pytest.mark.parametrize(
    ("name", "thing"),
    [("cupy", cupy), ("cupy.linalg", cupy.linalg), ("cupy.fft", cupy.fft), ("cupyx.scipy.sparse", sparse)],
    ids=lambda each: each if isinstance(each, str) else "",
)
def test_it_has_no_name_that_the_release_lacks(name, thing):
    assert {each for each in vars(thing) if not each.startswith("_")} <= set(API["modules"][name])


# ---- conversions and mixing -------------------------------------------------------------------------------


@pytest.mark.parametrize("convert", [np.asarray, np.array, lambda x: np.ones(3) @ x.T, np.ascontiguousarray])
def test_there_is_no_way_to_numpy_but_get(x, convert):
    with pytest.raises(TypeError):
        convert(x)
    assert type(x.get()) is np.ndarray


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


# ---- what is counted --------------------------------------------------------------------------------------


def test_transfers_are_counted_with_their_bytes_and_lines(account):
    x = cupy.asarray(np.ones((4, 2)))
    x.get()
    cupy.asnumpy(x[0])
    assert (account.total("up"), account.total_bytes("up")) == (1, 64)
    assert (account.total("down"), account.total_bytes("down")) == (2, 64 + 16)
    assert all(site.startswith("tests/doubles/test_cupy_double.py:") for site in account.sites("down"))


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


# ---- failures and overlaps --------------------------------------------------------------------------------


def test_factorisations_are_those_of_numpy():
    A = np.random.default_rng(0).standard_normal((5, 3))
    U, s, Vh = cupy.linalg.svd(cupy.asarray(A), full_matrices=False)
    np.testing.assert_allclose(((U * s) @ Vh).get(), A)
    Q, R = cupy.linalg.qr(cupy.asarray(A))
    np.testing.assert_allclose((Q @ R).get(), A)


# ---- sparse matrices --------------------------------------------------------------------------------------


def test_sparse_matrices_meet_arrays_of_the_device_alone():
    A = sparse.csr_matrix(scipy.sparse.eye(3, format="csr"))
    for mix in (lambda: A @ np.ones((3, 1)), lambda: np.asarray(A)):
        with pytest.raises(TypeError):
            mix()
    with pytest.raises(ValueError, match="Scalar operands"):
        A @ 2.0
    with pytest.raises(ValueError, match="float64"):
        sparse.csr_matrix(scipy.sparse.eye(3, format="csr", dtype=int))


def test_a_sparse_matrix_lies_on_a_device():
    with cupy.cuda.Device(1):
        A = sparse.csr_matrix(scipy.sparse.eye(3, format="csr"))
    with pytest.raises(ValueError, match="current device"):
        A @ cupy.ones((3, 1))
    with cupy.cuda.Device(1):
        assert (A @ cupy.ones((3, 1))).device == cupy.cuda.Device(1)
    assert A.get().shape == (3, 3)
