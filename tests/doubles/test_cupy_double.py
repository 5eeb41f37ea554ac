"""The double of CuPy does what CuPy's sources say, in what linspec relies on."""

from __future__ import annotations

import sys

import numpy as np
import pytest
import scipy.sparse

if "double" not in getattr(sys.modules.get("cupy"), "__version__", ""):
    pytest.skip("the double of CuPy is not here: LINSPEC_CUPY_DOUBLE=14.2.0", allow_module_level=True)

import cupy
import cupyx
from cupyx.scipy import sparse
from doubles.cupy_double import ACCOUNT, Overlap, surface

API = surface.load(cupy.__version__.partition("+")[0])


@pytest.fixture(autouse=True)
def account():
    ACCOUNT.reset()
    ACCOUNT.strict = False
    yield ACCOUNT
    ACCOUNT.strict = True
    assert cupy.cuda.runtime.getDevice() == 0


def on(device):
    with cupy.cuda.Device(device):
        return cupy.asarray(np.arange(6.0).reshape(2, 3)), sparse.csr_matrix(
            scipy.sparse.eye(3, format="csr")
        )


def test_it_has_no_name_and_no_keyword_that_the_release_lacks():
    for module in (cupy, cupy.linalg, cupy.fft, sparse):
        assert {name for name in vars(module) if name[0] != "_"} <= set(API["modules"][module.__name__])
    with pytest.raises(TypeError, match="keepdim"):
        cupy.sum(cupy.ones(3), keepdim=True)
    with pytest.raises(NotImplementedError, match="add it"):
        cupy.empty(3)


@pytest.mark.parametrize(
    "mix",
    [
        lambda x, A: np.asarray(x),
        lambda x, A: np.ones(3) @ x.T,
        lambda x, A: x + np.ones(3),
        lambda x, A: cupy.concatenate([x, np.ones((1, 3))]),
        lambda x, A: cupy.linalg.solve(x @ x.T, np.ones(2)),
        lambda x, A: A @ np.ones((3, 1)),
        lambda x, A: np.asarray(A),
    ],
)
def test_host_and_device_do_not_meet(mix):
    with pytest.raises(TypeError):
        mix(*on(0))


def test_transfers_are_counted_with_their_bytes_and_lines(account):
    x, _ = on(0)
    account.reset()
    cupy.asarray(np.ones((4, 2)))
    x.get()
    x[0].get()
    assert (account.total("up"), account.bytes["up"]) == (1, 64)
    assert (account.total("down"), account.bytes["down"]) == (2, 48 + 24)
    assert all(site.startswith("tests/doubles/test_cupy_double.py:") for site in account.sites("down"))


@pytest.mark.parametrize(
    "wait",
    [
        lambda x: float(x.sum()),
        lambda x: int(x[0, 1]),
        lambda x: f"{x.sum():.1f}",
        lambda x: x[x > 2],
        cupy.nonzero,
        lambda x: max(x[0, 0], x[0, 1]),
    ],
)
def test_waits_are_counted(account, wait):
    wait(on(0)[0])
    assert account.total("sync") == 1


@pytest.mark.parametrize(
    "use",
    [
        lambda y, A: y + 1,
        lambda y, A: y @ y.T,
        lambda y, A: cupy.linalg.svd(y),
        lambda y, A: y[:, cupy.asarray([0])],
        lambda y, A: y.__setitem__((0, 0), 1.0),
        lambda y, A: cupy.concatenate([y, y]),
        lambda y, A: A @ cupy.ones((3, 1)),
    ],
)
def test_a_kernel_needs_its_device_to_be_the_current_one(use):
    y, A = on(1)
    with pytest.raises(ValueError, match="different from the current device"):
        use(y, A)
    with cupy.cuda.Device(1):
        assert (A @ (y.T + cupy.ones(2))).device == cupy.cuda.Device(1)  # nothing is wrong with them


def test_a_factorisation_that_fails_is_silent_unless_the_report_is_read():
    bad = cupy.asarray(np.diag([1.0, -1.0]))
    assert np.isnan(cupy.linalg.cholesky(bad).get()).all()
    with cupyx.errstate(linalg="raise"), pytest.raises(np.linalg.LinAlgError):
        cupy.linalg.cholesky(bad)
    A = np.random.default_rng(0).standard_normal((5, 3))
    U, s, Vh = cupy.linalg.svd(cupy.asarray(A), full_matrices=False)
    np.testing.assert_allclose(((U * s) @ Vh).get(), A)


def test_memory_that_is_read_is_not_written():
    x = cupy.ones(4)
    with pytest.raises(Overlap):
        x[1:] += x[:-1]
    with pytest.raises(Overlap):
        x[1:] = x[:-1]
    x += x


def test_a_product_orders_the_indices_of_a_sparse_matrix_itself():
    parts = np.ones(2), np.array([1, 0], np.int32), np.array([0, 2], np.int32)
    A = sparse.csr_matrix(tuple(map(cupy.asarray, parts)), shape=(1, 2))
    A @ cupy.ones((2, 1))
    assert A.indices.get().tolist() == [0, 1]
    with pytest.raises(ValueError, match="float64"):
        sparse.csr_matrix(scipy.sparse.eye(3, format="csr", dtype=int))
