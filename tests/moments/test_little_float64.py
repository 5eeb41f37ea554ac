"""Devices with little float64, and with none: sweeps in float32, answers judged in float64."""

from __future__ import annotations

from functools import partial

import array_api_strict
import numpy as np
import pytest
import scipy.sparse

import linspec as ls
from linspec import Moments, arrays
from linspec.arrays import HOST, Home, to_host
from linspec.cost import EXACT_SWEEPS, Sizes, moments_form, sweeps_estimate
from linspec.errors import UnsupportedData
from linspec.moments.double_precision import HostRows
from linspec.operators import row_blocks
from linspec.registry.options import options_of

N, P, Q, K = 900, 24, 18, 3
RNG = np.random.default_rng(0)
SHARED = RNG.standard_normal((N, 8))
X = SHARED @ RNG.standard_normal((8, P)) + 2 * RNG.standard_normal((N, P))
Y = SHARED @ RNG.standard_normal((8, Q)) + 2 * RNG.standard_normal((N, Q))
NARROW = X.astype(np.float32), Y.astype(np.float32)


def without_float64(A):
    """An array of a device that refuses float64 with an error."""
    return array_api_strict.asarray(A, device=array_api_strict.Device("no_float64"))


@pytest.fixture
def scarce(monkeypatch):
    """Let float64 count as scarce on every device."""
    monkeypatch.setattr(arrays, "SCARCE", 1.0)


def swept(problem, solver, **options):
    """Solve by sweeps, where the solver has a choice."""
    known = {option.name for option in options_of(ls.get_solver(solver, problem))}
    own = {"form": "implicit", "sweeps": options.pop("sweeps", "auto")}
    return ls.solve(problem, solver, rng=0, **{k: v for k, v in own.items() if k in known}, **options)


# ---- the rate of a device -------------------------------------------------------------------


def test_processors_have_full_float64_and_some_devices_none():
    assert HOST.single_rate == Home.of(array_api_strict.asarray([1.0])).single_rate == 2.0
    assert not HOST.scarce_float64
    none = Home.of(without_float64(NARROW[0]))
    assert none.single_rate == np.inf
    assert none.scarce_float64


def test_an_unknown_rate_is_that_of_two_products(monkeypatch):
    """The clock of this device runs by 21 units in a product in float64 and by one in float32, by 5 more at first."""
    clock = [0.0]

    class Matrix:
        def __init__(self, dtype):
            self.spent, self.new = (21.0 if dtype == np.float64 else 1.0), True

        def __matmul__(self, other):
            clock[0] += self.spent + 5.0 * self.new
            self.new = False
            return self

        def __getitem__(self, key):
            return np.zeros((1, 1))

    class Device:
        home = None

        def ones(self, shape, dtype):
            return Matrix(dtype)

    monkeypatch.setattr(arrays.time, "perf_counter", lambda: clock[0])
    assert arrays._ratio_of_times(Device()) == 21.0


# ---- without float64 ------------------------------------------------------------------------


@pytest.mark.parametrize("solver", ls.solvers("least-squares"))
def test_the_residual_of_least_squares_is_that_of_float64(solver):
    A, B = NARROW
    found = swept(ls.LeastSquares(without_float64(A), without_float64(B)), solver)
    A, B, x = (np.asarray(to_host(M), dtype=np.float64) for M in (A, B, found.x))
    gradient, AtB = A.T @ (B - A @ x), A.T @ B
    exact = np.max(np.linalg.norm(gradient, axis=0) / np.linalg.norm(AtB, axis=0))
    assert found.residual == pytest.approx(exact, rel=1e-6)


@pytest.mark.parametrize("solver", ls.solvers("svd"))
def test_the_residual_of_an_svd_is_that_of_float64(solver):
    found = swept(ls.SVD(without_float64(NARROW[0]), k=K), solver)
    A, V = (np.asarray(to_host(M), dtype=np.float64) for M in (NARROW[0], found.Vh.T))
    V = V / np.linalg.norm(V, axis=0)  # the law judges before the vectors are rounded to float32
    S = np.asarray(found.S, dtype=np.float64)
    exact = np.max(np.linalg.norm(A.T @ (A @ V) - V * S**2, axis=0)) / S[0] ** 2
    assert found.residual == pytest.approx(exact, rel=1e-4, abs=1.5e-7)


@pytest.mark.parametrize("solver", ls.solvers("cca"))
@pytest.mark.filterwarnings(
    "ignore::linspec.errors.ConvergenceWarning", "ignore::linspec.errors.AccuracyWarning"
)
def test_answers_are_those_of_the_host(solver):
    """An exact answer to the float32 data bounds the sum of the correlations; converged answers come near it."""
    exact = ls.solve(
        ls.CCA(*(A.astype(np.float64) for A in NARROW), k=K, ridge=1.0), "direct"
    ).correlations.sum()
    found = swept(ls.CCA(*map(without_float64, NARROW), k=K, ridge=1.0), solver)
    total = float(np.sum(to_host(found.correlations), dtype=np.float64))
    assert total <= exact * (1 + 1e-7)
    if found.converged:
        assert total >= exact * (1 - 10 * found.tol)


def test_the_host_reads_some_rows_at_a_time(monkeypatch):
    read = []
    monkeypatch.setattr(
        HostRows, "_rows", lambda self, rows, own=HostRows._rows: read.append(rows) or own(self, rows)
    )
    monkeypatch.setattr(row_blocks, "HOST_BLOCK_BYTES", 100 * 8 * P)
    monkeypatch.setattr(row_blocks, "FEWEST_ROWS", 1)
    found = swept(ls.SVD(without_float64(NARROW[0]), k=K, center=True), "block-krylov")
    assert found.converged
    assert len(read) >= 9
    assert max(rows.stop - rows.start for rows in read) <= 256


def test_means_are_subtracted_in_float64_on_the_host():
    """Means a thousand times the spread leave products in float32 four digits."""
    A = (X + 1e3).astype(np.float32)
    moments = Moments(without_float64(A), center=True, form="implicit")
    V = RNG.standard_normal((P, 2))
    centred = A.astype(np.float64) - A.mean(axis=0, dtype=np.float64)
    exact = centred.T @ (centred @ V)
    judging = moments.precision.judging()
    assert np.linalg.norm(judging.gram(V) - exact) < 1e-12 * np.linalg.norm(exact)
    assert np.linalg.norm(moments.gram(V) - exact) > 1e-9 * np.linalg.norm(exact)
    assert judging.passes == moments.passes == 2


def test_weights_and_confounds_are_applied_on_the_host_too():
    w, Z = RNG.uniform(0.5, 2.0, N), RNG.standard_normal((N, 2))
    problem = ls.CCA(*map(without_float64, NARROW), k=K, ridge=1.0, center=True, sample_weight=w, confounds=Z)
    found = swept(problem, "lobpcg")
    exact = ls.solve(
        ls.CCA(
            *(A.astype(np.float64) for A in NARROW),
            k=K,
            ridge=1.0,
            center=True,
            sample_weight=w,
            confounds=Z,
        ),
        "direct",
    )
    assert found.converged
    np.testing.assert_allclose(to_host(found.correlations), exact.correlations, rtol=1e-6)


def test_data_that_need_float64_end_in_one_error():
    with pytest.raises(UnsupportedData, match="need float64, which their device does not have"):
        ls.SVD(without_float64(np.arange(12).reshape(4, 3)), k=1)


# ---- where float64 is scarce ----------------------------------------------------------------


def test_nothing_changes_on_processors():
    problem = ls.CCA(X, Y, k=K, ridge=1.0)
    by_default, exact = (swept(problem, "lobpcg", sweeps=s) for s in ("auto", "float64"))
    assert np.array_equal(by_default.x_weights, exact.x_weights)
    assert by_default.message == exact.message
    assert Moments(*NARROW, form="implicit").precision.judging().X.dtype == np.float32


OWN = {
    "svd": ("block-krylov", lambda: ls.SVD(X, k=K)),
    "cca": ("lobpcg", lambda: ls.CCA(X, Y, k=K, ridge=1.0)),
    "multiset-cca": (
        "lobpcg",
        lambda: ls.get_problem("multiset-cca")([X, Y, X[:, :9] + 1.0], k=K, ridge=1.0),
    ),
}


@pytest.mark.parametrize("kind", OWN)
def test_sweeps_are_in_float32_by_default(kind, scarce):
    solver, problem = OWN[kind]
    by_default, single, double = (swept(problem(), solver, sweeps=s) for s in ("auto", "float32", "float64"))
    assert by_default.converged
    assert by_default.passes == single.passes > double.passes
    assert "Sweeps multiplied a copy in float32" in by_default.message
    assert "float32" not in double.message
    assert by_default.residual <= by_default.tol


@pytest.mark.parametrize("library", ["array-api-strict", "torch"])
def test_arrays_of_other_libraries_sweep_in_float32(library, scarce):
    if library == "torch":
        wrap = pytest.importorskip("torch").as_tensor
    else:
        wrap = partial(array_api_strict.asarray, device=array_api_strict.Device("device1"))
    exact = np.linalg.svd(X, compute_uv=False)[:K]
    found = swept(ls.SVD(wrap(X), k=K), "block-krylov")
    assert "Sweeps multiplied a copy in float32" in found.message
    np.testing.assert_allclose(to_host(found.S), exact, rtol=1e-6)

    A, B = wrap(X), wrap(Y[:, :2].copy())
    found = swept(ls.LeastSquares(A, B, ridge=1.0), "cg", tol=1e-10)
    assert "Sweeps multiplied a copy in float32" in found.message
    exact = np.linalg.solve(X.T @ X + np.eye(P), X.T @ Y[:, :2])
    np.testing.assert_allclose(to_host(found.x), exact, rtol=1e-7, atol=1e-9)

    narrow = [wrap(M) for M in NARROW]
    found = swept(ls.LeastSquares(*narrow), "cg")
    A, B, x = (np.asarray(M, dtype=np.float64) for M in (*NARROW, to_host(found.x)))
    residual = np.linalg.norm(A.T @ (B - A @ x), axis=0) / np.linalg.norm(A.T @ B, axis=0)
    assert found.residual == pytest.approx(residual.max(), rel=1e-6)


def test_slices_keep_their_precision(scarce):
    """An iterator that has been read is not read again to judge the answer."""
    rows = iter([NARROW[0][:500], NARROW[0][500:]])
    found = ls.solve(ls.SVD(rows, k=K), "spca", rng=0)
    assert np.isnan(found.residual)
    again = ls.solve(ls.SVD(lambda: iter([NARROW[0][:500], NARROW[0][500:]]), k=K), "block-krylov", rng=0)
    np.testing.assert_allclose(again.S, np.linalg.svd(X, compute_uv=False)[:K], rtol=1e-5)


@pytest.mark.filterwarnings("ignore::linspec.errors.ConvergenceWarning")
@pytest.mark.parametrize("variant", ["ridge", "projection", "simplified"])
def test_variants_of_ling_as_printed_are_those_of_float64(variant, scarce):
    options = {"variant": variant, "rank": 3, "form": "implicit", "rng": 0, "max_iterations": 5}
    one, other = (
        ls.solve(ls.LeastSquares(X, Y[:, :2], ridge=1.0), "ling", sweeps=s, **options)
        for s in ("auto", "float64")
    )
    assert np.array_equal(one.x, other.x)


@pytest.mark.parametrize("tol", [1e-6, 1e-10])
@pytest.mark.parametrize("solver", ["cg", "ling", "nystrom-pcg"])
def test_least_squares_are_refined_to_the_digits_of_float64(solver, tol, scarce):
    A = RNG.standard_normal((N, P)) @ np.diag(np.geomspace(1, 5, P))
    B = A @ RNG.standard_normal((P, 2)) + RNG.standard_normal((N, 2))
    ridge = 0.5
    exact = np.linalg.solve(A.T @ A + ridge * np.eye(P), A.T @ B)
    found = swept(ls.LeastSquares(A, B, ridge=ridge), solver, tol=tol)
    gradient, AtB = A.T @ (B - A @ found.x) - ridge * found.x, A.T @ B
    assert found.converged
    assert "Sweeps multiplied a copy in float32" in found.message
    assert np.max(np.linalg.norm(gradient, axis=0) / np.linalg.norm(AtB, axis=0)) <= tol
    assert np.linalg.norm(found.x - exact) <= 30 * tol * np.linalg.norm(exact)


@pytest.mark.filterwarnings("ignore::linspec.errors.ConvergenceWarning")
def test_products_in_float32_that_do_not_get_on_are_given_up(scarce):
    """The Gram matrix has the condition 1e10: float32 knows nothing of its short directions."""
    A = RNG.standard_normal((N, P)) * np.geomspace(1, 1e-5, P)
    B = A @ RNG.standard_normal((P, 1)) + 1e-3 * RNG.standard_normal((N, 1))
    ridge = 1e-8
    found = swept(ls.LeastSquares(A, B, ridge=ridge), "cg", tol=1e-9)
    gradient, AtB = A.T @ (B - A @ found.x) - ridge * found.x, A.T @ B
    assert found.converged
    assert np.linalg.norm(gradient) <= 1e-9 * np.linalg.norm(AtB)


@pytest.mark.parametrize("solver", ["cg", "ling", "nystrom-pcg"])
def test_without_a_ridge_the_solution_of_least_norm_needs_float64(solver, scarce):
    A, B = X[: P // 2], Y[: P // 2, :2]
    found = swept(ls.LeastSquares(A, B), solver, tol=1e-10)
    assert "float32" not in found.message
    np.testing.assert_allclose(found.x, np.linalg.pinv(A) @ B, atol=1e-8)


def test_a_path_of_ridges_is_refined(scarce):
    ridges = (1e-2, 1.0, 100.0)
    found = swept(ls.LeastSquares(X, Y[:, :2], ridge=ridges), "cg", tol=1e-10)
    assert found.converged
    for x, ridge in zip(found.x, ridges, strict=True):
        exact = np.linalg.solve(X.T @ X + ridge * np.eye(P), X.T @ Y[:, :2])
        assert np.linalg.norm(x - exact) <= 1e-8 * np.linalg.norm(exact)


def test_what_cannot_be_copied_is_swept_in_float64(tmp_path, scarce):
    np.save(tmp_path / "X.npy", X)
    weighted = ls.CCA(scipy.sparse.csr_array(X), Y, k=K, sample_weight=1.0 + np.arange(N))
    mapped = ls.CCA(np.load(tmp_path / "X.npy", mmap_mode="r"), Y, k=K)
    large = ls.CCA(X * 1e39, Y, k=K, ridge=(1e78, 1.0))
    for problem in (weighted, mapped, large):
        found = swept(problem, "lobpcg")
        assert found.converged
        assert "float32" not in found.message


def test_views_that_lack_rows_are_swept_in_float64(scarce):
    present = [np.arange(N) % 5 > 0, None]
    problem = ls.get_problem("multiset-cca")([X, Y], k=K, ridge=1.0, present=present)
    by_default, exact = (swept(problem, "lobpcg", sweeps=s) for s in ("auto", "float64"))
    assert np.array_equal(by_default.weights[0], exact.weights[0])
    with pytest.raises(UnsupportedData, match='Leave sweeps at "auto"'):
        swept(problem, "lobpcg", sweeps="float32")


def test_float32_data_are_judged_in_float64(scarce):
    found = swept(ls.LeastSquares(*NARROW), "cg")
    A, B, x = (np.asarray(M, dtype=np.float64) for M in (*NARROW, found.x))
    gradient, AtB = A.T @ (B - A @ x), A.T @ B
    exact = np.max(np.linalg.norm(gradient, axis=0) / np.linalg.norm(AtB, axis=0))
    assert found.residual == pytest.approx(exact, rel=1e-9)


# ---- costs ----------------------------------------------------------------------------------


def test_gram_matrices_are_dear_beside_sweeps_in_float32():
    """400 columns: n p² multiply-adds in float64 against 40 sweeps of 4 n p k in float32, which take a 32nd each."""
    full = Sizes(10**6, 400, 0, 4 * 10**8, None, 10, readable=True)
    little = Sizes(10**6, 400, 0, 4 * 10**8, None, 10, readable=True, single_gain=32.0)
    assert moments_form(full.swept_in("auto"), 40, 10)[0] == "dense"
    assert moments_form(little, 40, 10)[0] == "dense"  # a solver without sweeps in float32
    assert moments_form(little.swept_in("auto"), 40, 10)[0] == "implicit"
    assert moments_form(little.swept_in("float64"), 40, 10)[0] == "dense"


def test_sweeps_in_float32_cost_a_share_and_a_few_in_float64_remain():
    little = Sizes(10**6, 400, 0, 4 * 10**8, None, 10, readable=True, single_gain=32.0)
    assert little.share(100) == 1.0
    assert little.swept_in("float32").share(100) == pytest.approx(1 / 32 + EXACT_SWEEPS / 100)
    seconds = [sweeps_estimate(sizes, 100).seconds for sizes in (little, little.swept_in("auto"))]
    assert seconds[0] / seconds[1] == pytest.approx(1 / (1 / 32 + EXACT_SWEEPS / 100), rel=0.1)
