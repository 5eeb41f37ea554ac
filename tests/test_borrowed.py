"""Arrays that are borrowed: by DLPack, of JAX, and sparse tensors of torch."""

from __future__ import annotations

import warnings

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


LENDERS = {  # how a library makes its arrays, and the same data of NumPy or SciPy
    "dlpack": (Loan, np.asarray),
    "dlpack-old": (OldLoan, np.asarray),
    "jax": (in_jax, np.asarray),
    "torch-csr": (in_torch("to_sparse_csr"), lambda A: scipy.sparse.csr_array(A) if A.ndim == 2 else A),
    "torch-csc": (in_torch("to_sparse_csc"), lambda A: scipy.sparse.csc_array(A) if A.ndim == 2 else A),
    "torch-coo": (in_torch("to_sparse"), lambda A: scipy.sparse.csr_array(A) if A.ndim == 2 else A),
}


def equal(found, wanted):
    """Whether an array of NumPy has the dtype and the bits of another."""
    return type(found) is np.ndarray and found.dtype == wanted.dtype and np.array_equal(found, wanted)


PROBLEMS = {
    "weighted": lambda of: ls.SVD(
        of(A), k=2, center=True, sample_weight=of(B**2), confounds=of(B), left=True
    ),
    "path": lambda of: ls.LeastSquares(of(A), of(B), ridge=[1.0, 2.0]),
    "beside": lambda of: ls.CCA(A, of(Y), k=2, ridge=1.0),
    "discriminant": lambda of: ls.Discriminant(of(A), ls.targets.lda(of((B.mean() < B).astype("f4"))), k=1),
}


@pytest.mark.parametrize("lender", LENDERS)
@pytest.mark.parametrize("problem", PROBLEMS)
def test_answers_are_those_of_numpy(lender, problem):
    found, wanted = (ls.solve(PROBLEMS[problem](of), rng=0) for of in LENDERS[lender])
    assert (found.solver, found.residual) == (wanted.solver, wanted.residual)
    for name in wanted.layout.arrays:
        ours, theirs = getattr(found, name), getattr(wanted, name)
        pairs = zip(ours, theirs, strict=True) if isinstance(theirs, tuple) else [(ours, theirs)]
        assert all(there is None or equal(here, there) for here, there in pairs), name


@pytest.mark.parametrize("name", LENDERS)
def test_entries_are_borrowed_without_a_copy(name):
    data = LENDERS[name][0](A)
    loan = borrowed(data)
    if isinstance(data, Loan):
        assert np.shares_memory(loan, A)
    elif name == "jax":
        assert loan.ctypes.data == data.unsafe_buffer_pointer()
    elif name != "torch-coo":
        assert loan.data.ctypes.data == data.values().data_ptr()
    operator = ls.as_operator(data)
    stored = operator.matrix if hasattr(operator, "matrix") else operator.array
    assert hasattr(data, "layout") or np.shares_memory(stored, loan)


@pytest.mark.parametrize("name", LENDERS)
def test_methods_weights_targets_and_starts_take_loans(name):
    make, plain = LENDERS[name]
    lent, b, w = make(A), make(B), make(np.ones(60, np.float32))
    wanted = ls.solve(ls.LeastSquares(plain(A), B), "cg")
    found = ls.solve(ls.LeastSquares(lent, b, sample_weight=w), "cg", start=make(wanted.x))
    np.testing.assert_allclose(to_host(found.x), wanted.x, rtol=1e-4)
    assert wanted.score(lent, b, sample_weight=w) == pytest.approx(wanted.score(A, B), rel=1e-6)
    found, wanted = (ls.solve(ls.SVD(of(A), k=2, center=True)) for of in (make, plain))
    for solution, rows in [(found, lent), (wanted, lent), (found, plain(A))]:
        assert equal(solution.transform(rows), wanted.transform(plain(A)))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: OnGPU(A), r"be in the memory of the host .*got a .*OnGPU on device 2\. Move it to the CPU"),
        (lambda: Broken(A), r"give its memory by DLPack; .*BufferError.*Pass a NumPy array"),
        (lambda: Loan(B), r"have two dimensions; got 1 with shape \(60,\)"),
        (lambda: Loan(A * np.where(A > 5, np.nan, 1.0)), "be finite; got nan at row"),
    ],
)
def test_loans_that_cannot_be_used_end_in_one_error(make, message):
    with pytest.raises(LinspecError, match=f"A must {message}"):
        ls.solve(ls.SVD(make(), k=1))


def test_jax_arrays_that_have_no_memory_of_numpy_are_refused():
    jax = pytest.importorskip("jax")
    message = "A must give its memory by DLPack.*tracer of JAX, inside of jit"
    for transform in (jax.jit, jax.vmap):
        with pytest.raises(UnsupportedData, match=message):
            transform(lambda x: ls.solve(ls.SVD(x, k=1)).Vh)(in_jax(np.stack([A, A])))
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
        assert equal(ls.solve(ls.SVD(in_jax(wide), k=1)).Vh, ls.solve(ls.SVD(wide, k=1)).Vh)
        counts = in_jax(RNG.integers(0, 5, 60))
        assert ls.solve(ls.LeastSquares(in_jax(A), counts)).x.dtype == np.float32
    problem = ls.LeastSquares(A, B, ridge=in_jax(np.array([1.0, 2.0])))
    assert problem.ridges == (1.0, 2.0)


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
        "requires_grad=True": csr.clone().requires_grad_(),
        r"shape \(3, 2, 2\) with 1 of its dimensions dense": torch.ones(3, 2, 2).to_sparse(2),
        "dtype torch.bfloat16": csr.to(torch.bfloat16),
        "device meta": torch.from_numpy(A).to_sparse().to("meta"),
    }
    for fault, given in refused.items():
        with pytest.raises(
            UnsupportedData, match=rf"^A must be a sparse tensor in CSR.*; got .*{fault}.*\. Pass"
        ):
            ls.SVD(given, k=1)
