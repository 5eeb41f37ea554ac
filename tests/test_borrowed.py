"""Arrays that are borrowed: by DLPack, of JAX, and sparse tensors of torch.

The facts: a loan and the data of the user share their memory; answers are NumPy's, to the bit; and what cannot be
borrowed ends in one error.
"""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.sparse

import linspec as ls
from linspec.arrays import to_host
from linspec.borrowed import borrowed
from linspec.errors import LinspecError, UnsupportedData

RNG = np.random.default_rng(0)
A = ((RNG.standard_normal((60, 6)) + 3.0) * (RNG.random((60, 6)) < 0.7)).astype(np.float32)
Y = np.array(A[:, ::-1] + RNG.standard_normal((60, 6)), dtype=np.float32)
B = A @ np.ones(6, np.float32) + RNG.standard_normal(60).astype(np.float32)


class Loan:
    """An array of a library of which nothing is known but its DLPack."""

    def __init__(self, array):
        self.array = array

    def __dlpack__(self, **named):
        return self.array.__dlpack__(**named)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


class OldLoan(Loan):
    """Of a library that knows the first version of the protocol."""

    def __dlpack__(self, stream=None):
        return self.array.__dlpack__()


class OnGPU(Loan):
    def __dlpack_device__(self):
        return 2, 0


class Broken(Loan):
    def __dlpack__(self, **named):
        raise BufferError("the memory is in use")


def in_jax(array):
    jax = pytest.importorskip("jax")
    return jax.device_put(array, jax.local_devices(backend="cpu")[0])


def in_torch(layout):
    def made(array):
        torch = pytest.importorskip("torch")
        tensor = torch.from_numpy(array)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Sparse", UserWarning)
            return getattr(tensor, layout)() if array.ndim == 2 else array

    return made


@dataclasses.dataclass(frozen=True)
class Lender:
    """A library: how it makes its arrays, and the same data of NumPy or SciPy."""

    make: Callable[[Any], Any]
    plain: Callable[[Any], Any] = np.asarray

    def same(self, array):
        return self.plain(array) if array.ndim == 2 else array


LENDERS = {
    "dlpack": Lender(Loan),
    "dlpack-old": Lender(OldLoan),
    "jax": Lender(in_jax),
    "torch-csr": Lender(in_torch("to_sparse_csr"), scipy.sparse.csr_array),
    "torch-csc": Lender(in_torch("to_sparse_csc"), scipy.sparse.csc_array),
    "torch-coo": Lender(in_torch("to_sparse"), scipy.sparse.csr_array),
}
GIVING_BACK = ["jax", "torch-csr"]


@pytest.fixture(params=LENDERS)
def lender(request):
    return LENDERS[request.param]


def of(array):
    return type(array).__module__.partition(".")[0]


def equal(found, wanted, library):
    """Whether an array belongs to a library and has the dtype and the bits of another."""
    host = to_host(found)
    return of(found) == library and host.dtype == wanted.dtype and np.array_equal(host, wanted)


PROBLEMS = {
    "svd": lambda of: ls.SVD(of(A), k=2, center=True, left=True),
    "least-squares": lambda of: ls.LeastSquares(of(A), of(B), ridge=1.0, center=True),
    "path": lambda of: ls.LeastSquares(of(A), of(B), ridge=[1.0, 2.0]),
    "cca": lambda of: ls.CCA(of(A), of(Y), k=2, ridge=1.0),
    "weighted": lambda of: ls.SVD(of(A), k=2, center=True, sample_weight=of(B**2), confounds=of(B)),
    "multiset-cca": lambda of: ls.MultisetCCA([of(A), of(Y)], k=1, ridge=1.0),
    "discriminant": lambda of: ls.Discriminant(of(A), ls.targets.lda(of((B.mean() < B).astype("f4"))), k=1),
    "kernel-cca": lambda of: ls.KernelCCA(of(A), of(Y), k=1, ridge=1.0),
}


@pytest.mark.parametrize("problem", PROBLEMS)
def test_answers_are_those_of_numpy(lender, problem):
    found = ls.solve(PROBLEMS[problem](lender.make), rng=0)
    wanted = ls.solve(PROBLEMS[problem](lender.same), rng=0)
    assert found.solver == wanted.solver
    assert found.residual == wanted.residual
    for name in wanted.layout.arrays:
        ours, theirs = getattr(found, name), getattr(wanted, name)
        pairs = zip(ours, theirs, strict=True) if isinstance(theirs, tuple) else [(ours, theirs)]
        assert all(there is None or equal(here, there, "numpy") for here, there in pairs), name
    assert type(found.history) is np.ndarray


def test_entries_are_borrowed_without_a_copy(lender):
    data = lender.make(A)
    loan = borrowed(data)
    if isinstance(data, Loan):
        assert np.shares_memory(loan, A)
    elif of(data) == "jaxlib":
        assert loan.ctypes.data == data.unsafe_buffer_pointer()
    elif str(data.layout) != "torch.sparse_coo":
        assert loan.data.ctypes.data == data.values().data_ptr()
    A_ = ls.as_operator(data)
    stored = A_.matrix if hasattr(A_, "matrix") else A_.array
    assert hasattr(data, "layout") or np.shares_memory(stored, loan)


@pytest.mark.parametrize("name", GIVING_BACK)
def test_results_of_methods_are_numpy_arrays(name):
    lender = LENDERS[name]
    lent, plain = lender.make(A), lender.same(A)
    wanted = ls.solve(ls.SVD(plain, k=2, center=True))
    scores = wanted.transform(plain)
    found = ls.solve(ls.SVD(lent, k=2, center=True))
    for solution, rows in [(found, lent), (wanted, lent), (found, plain)]:
        assert equal(solution.transform(rows), scores, "numpy")
    assert equal(found.loadings(), wanted.loadings(), "numpy")
    assert type(ls.metrics.principal_angles(found.Vh.T, found.Vh.T)) is np.ndarray


@pytest.mark.parametrize("name", LENDERS)
def test_weights_targets_and_starts_may_be_lent(name):
    lender = LENDERS[name]
    lent, b = lender.make(A), lender.make(B)
    w = lender.make(np.ones(60, np.float32))
    problem = ls.LeastSquares(
        lent, b, ridge=lender.make(np.array([1.0, 2.0])) if name == "jax" else [1.0, 2.0]
    )
    assert problem.ridges == (1.0, 2.0)
    wanted = ls.solve(ls.LeastSquares(lender.same(A), B), "cg")
    found = ls.solve(ls.LeastSquares(lent, b, sample_weight=w), "cg", start=lender.make(wanted.x))
    np.testing.assert_allclose(to_host(found.x), wanted.x, rtol=1e-4)
    assert wanted.score(lent, b, sample_weight=w) == pytest.approx(wanted.score(A, B), rel=1e-6)


@pytest.mark.parametrize("name", GIVING_BACK)
def test_data_may_stand_beside_arrays_of_numpy(name):
    lender = LENDERS[name]
    found = ls.solve(ls.CCA(A, lender.make(Y), k=1, ridge=1.0))
    wanted = ls.solve(ls.CCA(A, lender.same(Y), k=1, ridge=1.0))
    assert equal(found.x_weights, wanted.x_weights, "numpy")


REFUSED = {
    "device": (
        lambda: OnGPU(A),
        r"A must be in the memory of the host .*got a .*OnGPU on device 2\. Move it to the CPU",
    ),
    "broken": (lambda: Broken(A), r"A must give its memory by DLPack; .*BufferError.*Pass a NumPy array"),
    "vector": (lambda: Loan(B), r"A must have two dimensions; got 1 with shape \(60,\)"),
    "complex": (lambda: Loan(A + 1j), "A must be real; got dtype complex64"),
    "nan": (lambda: Loan(A * np.where(A > 5, np.nan, 1.0)), "A must be finite; got nan at row"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_loans_that_cannot_be_used_end_in_one_error(name):
    make, message = REFUSED[name]
    with pytest.raises(LinspecError, match=message):
        ls.solve(ls.SVD(make(), k=1))


# ---- JAX ----------------------------------------------------------------------------------------


def test_jax_tracers_are_refused():
    jax = pytest.importorskip("jax")
    message = "A must give its memory by DLPack.*tracer of JAX, inside of jit"
    for transform in (jax.jit, jax.vmap):
        with pytest.raises(UnsupportedData, match=message):
            transform(lambda x: ls.solve(ls.SVD(x, k=1)).Vh)(in_jax(np.stack([A, A])))


def test_jax_dtypes_that_numpy_lacks_are_refused():
    jax = pytest.importorskip("jax")
    lent = in_jax(A)
    for other in (lent.astype(jax.numpy.bfloat16), jax.random.key(0)):
        with pytest.raises(UnsupportedData, match=r"A must give its memory by DLPack"):
            ls.SVD(other, k=1)
    with pytest.raises(UnsupportedData, match="bfloat16"):
        ls.solve(ls.SVD(lent, k=1)).transform(lent.astype(jax.numpy.bfloat16))


def test_jax_without_float64():
    jax = pytest.importorskip("jax")
    with jax.enable_x64(False):
        wide = np.arange(12).reshape(4, 3)
        assert equal(ls.solve(ls.SVD(in_jax(wide), k=1)).Vh, ls.solve(ls.SVD(wide, k=1)).Vh, "numpy")
        counts = in_jax(RNG.integers(0, 5, 60))
        assert ls.solve(ls.LeastSquares(in_jax(A), counts)).x.dtype == np.float32


# ---- sparse tensors -----------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["int8", "uint8", "bool", "float16"])
def test_torch_coo_adds_repeated_entries_of_narrow_numbers(dtype):
    torch = pytest.importorskip("torch")
    value = 1 if dtype == "bool" else 100
    places = torch.tensor([[0, 0, 0, 1, 2], [1, 1, 1, 0, 2]])
    A = torch.sparse_coo_tensor(places, torch.full((5,), value, dtype=getattr(torch, dtype)), (3, 3))
    assert np.allclose(ls.solve(ls.SVD(A, k=3)).S, np.array([3, 1, 1]) * value)


def test_torch_sparse_tensors_that_cannot_be_borrowed():
    torch = pytest.importorskip("torch")
    csr = in_torch("to_sparse_csr")(A)
    refused = {
        "layout torch.sparse_bsr": torch.from_numpy(A).to_sparse_bsr((2, 2)),
        "requires_grad=True": csr.clone().requires_grad_(),
        r"shape \(3, 2, 2\) with 0 of its dimensions dense": torch.ones(3, 2, 2).to_sparse_csr(),
        r"shape \(3, 2, 2\) with 1 of its dimensions dense": torch.ones(3, 2, 2).to_sparse(2),
        r"shape \(60,\)": torch.from_numpy(B).to_sparse(),
        "dtype torch.bfloat16": csr.to(torch.bfloat16),
        "device meta": torch.from_numpy(A).to_sparse().to("meta"),
    }
    for fault, given in refused.items():
        with pytest.raises(
            UnsupportedData, match=rf"^A must be a sparse tensor in CSR.*; got .*{fault}.*\. Pass"
        ):
            ls.SVD(given, k=1)
