"""The second device of the double has little float64: the precision of products, and what answers say."""

from __future__ import annotations

import re

import numpy as np
import pytest
from backends import BACKENDS

if reason := next(backend.missing() for backend in BACKENDS if backend.name == "cupy-device1"):
    pytest.skip(f"{reason}; for the double LINSPEC_CUPY_DOUBLE=14.2.0", allow_module_level=True)

import cupy

if "double" not in cupy.__version__:
    pytest.skip("nothing counts on a GPU", allow_module_level=True)

import cupyx
from doubles import precisions
from doubles.cupy_double import ACCOUNT, devices
from doubles.cupy_double.account import ROOT

import linspec as ls
from linspec import arrays
from linspec.arrays import Home, on_device, to_host
from linspec.errors import UnsupportedData
from linspec.sweeps.gram_matrices import GramMatrices

N, P, Q, K = 2000, 60, 50, 3
RNG = np.random.default_rng(0)
SHARED = RNG.standard_normal((N, 6))
X = SHARED @ RNG.standard_normal((6, P)) + 2 * RNG.standard_normal((N, P))
Y = SHARED @ RNG.standard_normal((6, Q)) + 2 * RNG.standard_normal((N, Q))


def on(device, A):
    with cupy.cuda.Device(device):
        return cupy.asarray(A)


def solved(problem, solver, **options):
    """Solve by sweeps; the solution, and its multiply-adds in float64 and float32."""
    ACCOUNT.reset()
    found = ls.solve(problem, solver, rng=0, form="implicit", **options)
    return found, ACCOUNT.multiplied["float64"], ACCOUNT.multiplied["float32"]


# ---- the rate -------------------------------------------------------------------------------


def test_the_rate_is_that_which_the_device_states():
    assert [Home.of(on(i, X)).single_rate for i in (0, 1)] == [2.0, 32.0]
    assert [Home.of(on(i, X)).scarce_float64 for i in (0, 1)] == [False, True]


def test_a_device_that_states_no_rate_is_measured_once(monkeypatch):
    measured = []
    monkeypatch.setattr(devices, "ATTRIBUTES", {0: {}, 1: {}})
    monkeypatch.setattr(arrays, "_ratio_of_times", lambda home: measured.append(home) or 5.0)
    arrays._rate_of_cupy.cache_clear()
    try:
        assert [Home.of(on(1, X)).single_rate for _ in range(3)] == [5.0] * 3
        assert [int(home.device) for home in measured] == [1]
    finally:
        arrays._rate_of_cupy.cache_clear()


def test_two_products_measure_a_rate(monkeypatch):
    monkeypatch.setattr(arrays, "MEASURED_ORDER", 16)
    ACCOUNT.reset()
    assert 0 < arrays._ratio_of_times(Home.of(on(1, X))) < np.inf
    assert ACCOUNT.multiplied == {"float64": 2 * 16**3, "float32": 2 * 16**3}


# ---- float64 data ---------------------------------------------------------------------------


PROBLEMS = {
    "cca": ("lobpcg", lambda X, Y: ls.CCA(X, Y, k=K, ridge=1.0, center=True)),
    "svd": ("block-krylov", lambda X, Y: ls.SVD(X, k=K, center=True)),
    "cg": ("cg", lambda X, Y: ls.LeastSquares(X, Y[:, :2], ridge=1.0, center=True)),
    "ling": ("ling", lambda X, Y: ls.LeastSquares(X, Y[:, :2], ridge=1.0)),
    "nystrom-pcg": ("nystrom-pcg", lambda X, Y: ls.LeastSquares(X, Y[:, :2], ridge=1.0)),
    "multiset-cca": (
        "lobpcg",
        lambda X, Y: ls.get_problem("multiset-cca")([X, Y, Y[:, ::-1]], k=K, ridge=1.0),
    ),
}


OUTER = {
    "als": ("als", lambda X, Y: ls.CCA(X, Y, k=K, ridge=1.0)),
    "two-stage": ("two-stage", lambda X, Y: ls.CCA(X, Y[:, :9], k=K, ridge=1.0)),
    "discriminant": (
        "two-stage",
        lambda X, Y: ls.Discriminant(X, ls.targets.lda(on(1, np.arange(N) % 4)), ridge=1.0),
    ),
    "reduced rank": (
        "two-stage",
        lambda X, Y: ls.get_problem("reduced-rank-regression")(X, Y[:, :9], K, ridge=1.0),
    ),
}


@pytest.mark.parametrize("lstsq", ["cg", "nystrom-pcg", "ling"])
@pytest.mark.parametrize("kind", OUTER)
def test_methods_with_a_part_for_least_squares_sweep_in_float32(kind, lstsq):
    solver, make = OUTER[kind]
    cls = ls.get_solver(lstsq, "least-squares")
    exact, exact_64, exact_32 = solved(make(on(1, X), on(1, Y)), solver, lstsq=cls(sweeps="float64"))
    found, in_64, in_32 = solved(make(on(1, X), on(1, Y)), solver, lstsq=cls())
    assert exact_32 == 0
    assert in_64 < exact_64
    assert in_32 > 0
    assert found.converged
    assert "Sweeps multiplied a copy in float32" in found.message
    value = found.layout.value
    np.testing.assert_allclose(to_host(getattr(found, value)), to_host(getattr(exact, value)), rtol=1e-5)


@pytest.mark.parametrize("kind", PROBLEMS)
def test_only_a_device_with_little_float64_sweeps_in_float32(kind):
    solver, make = PROBLEMS[kind]
    full, in_64, in_32 = solved(make(on(0, X), on(0, Y)), solver)
    assert in_64 > 0
    assert in_32 == 0
    assert "float32" not in full.message

    found, little_64, little_32 = solved(make(on(1, X), on(1, Y)), solver)
    assert little_32 > 0
    assert little_64 < in_64
    assert found.converged
    assert (
        "Sweeps multiplied a copy in float32, because cupy on <CUDA Device 1> multiplies float64 32 times"
        in (found.message)
    )
    assert found.options["sweeps"] == "auto"

    old, old_64, old_32 = solved(make(on(1, X), on(1, Y)), solver, sweeps="float64")
    assert (old_64, old_32) == (in_64, 0)
    assert "float32" not in old.message


def test_the_residual_of_an_svd_is_that_of_the_float64_data():
    found, _, in_32 = solved(ls.SVD(on(1, X), k=K), "block-krylov")
    V, S = to_host(found.Vh).T, to_host(found.S)
    exact = np.max(np.linalg.norm(X.T @ (X @ V) - V * S**2, axis=0)) / S[0] ** 2
    assert in_32 > 0
    assert found.residual == pytest.approx(exact, rel=1e-6)
    singular = np.linalg.svd(X, compute_uv=False)[:K]
    assert np.all(singular * (1 + 1e-14) >= S)
    assert np.all(singular**2 - S**2 <= found.residual * S[0] ** 2)


@pytest.mark.parametrize("solver", ["cg", "ling", "nystrom-pcg"])
def test_the_residual_of_least_squares_is_that_of_the_float64_data(solver):
    found, _, in_32 = solved(ls.LeastSquares(on(1, X), on(1, Y), ridge=1.0), solver)
    x = to_host(found.x)
    gradient, AtB = X.T @ (Y - X @ x) - x, X.T @ Y
    exact = np.max(np.linalg.norm(gradient, axis=0) / np.linalg.norm(AtB, axis=0))
    assert in_32 > 0
    assert found.residual == pytest.approx(exact, rel=1e-4)
    assert exact <= found.tol


def test_sparse_data_are_copied_or_swept_in_float64():
    A = X * (RNG.random(X.shape) < 0.3)
    with cupy.cuda.Device(1):
        sparse = cupyx.scipy.sparse.csr_matrix(cupy.asarray(A))
    exact = np.linalg.svd(A, compute_uv=False)[:K]
    found, _, in_32 = solved(ls.SVD(sparse, k=K), "block-krylov")
    assert in_32 > 0
    np.testing.assert_allclose(to_host(found.S), exact, rtol=1e-6)

    w = RNG.uniform(0.5, 2.0, N)
    weighted = ls.SVD(sparse, k=K, sample_weight=w)
    found, _, in_32 = solved(weighted, "block-krylov")
    assert in_32 == 0
    np.testing.assert_allclose(
        to_host(found.S), np.linalg.svd(A * np.sqrt(w)[:, None], compute_uv=False)[:K], rtol=1e-6
    )
    with pytest.raises(UnsupportedData, match="sparse rows with weights"):
        solved(weighted, "block-krylov", sweeps="float32")


@pytest.mark.parametrize("unit", [1e-30, 1e20, 1e39])
def test_units_out_of_the_range_of_float32_are_swept_in_float64(unit):
    problem = ls.CCA(on(1, X * unit), on(1, Y), k=K, ridge=(unit**2, 1.0))
    found, in_64, in_32 = solved(problem, "lobpcg")
    exact = ls.solve(ls.CCA(X, Y, k=K, ridge=1.0), "direct").correlations
    assert found.converged
    assert in_32 < in_64 / 10
    np.testing.assert_allclose(to_host(found.correlations), exact, rtol=1e-6)


# ---- float32 data ---------------------------------------------------------------------------


def test_float32_data_are_judged_in_float64_where_it_is_scarce():
    A, B = X.astype(np.float32), Y.astype(np.float32)
    _, full_64, full_32 = solved(ls.LeastSquares(on(0, A), on(0, B)), "cg")
    found, in_64, in_32 = solved(ls.LeastSquares(on(1, A), on(1, B)), "cg")
    one = N * P * Q  # A x, Aᵀ(A x), and AᵀB, which the sweeps in float32 have made already
    assert in_64 - full_64 == pytest.approx(3 * one, rel=0.05)
    assert full_32 - in_32 == 2 * one
    A, B, x = (np.asarray(M, dtype=np.float64) for M in (A, B, to_host(found.x)))
    gradient, AtB = A.T @ (B - A @ x), A.T @ B
    exact = np.max(np.linalg.norm(gradient, axis=0) / np.linalg.norm(AtB, axis=0))
    assert found.residual == pytest.approx(exact, rel=1e-6)


# ---- integers -------------------------------------------------------------------------------


DRAWN = {
    "bools": RNG.random((3000, 9)) < 0.3,
    "bytes": RNG.integers(0, 256, (3000, 9)).astype(np.uint8),
    "counts": RNG.poisson(3.0, (3000, 9)),
}


@pytest.mark.parametrize("kind", DRAWN)
def test_gram_matrices_of_integers_are_exact_in_float32(kind):
    A = DRAWN[kind]
    exact = A.astype(np.int64).T @ A.astype(np.int64)
    for device, dtype in ((0, "float64"), (1, "float32")):
        rows = ls.as_operator(on(device, A))
        ACCOUNT.reset()
        with on_device(rows):
            found = GramMatrices(rows.home, [None]).part([rows])
        assert list(ACCOUNT.multiplied) == [dtype]
        np.testing.assert_array_equal(to_host(found.gram.upper[0][0]), exact)


def test_integers_that_a_device_may_round_are_left_to_float64():
    """TF32 and bfloat16 have 11 and 8 bits: 300 · 300 need not be exact in them."""
    rows = ls.as_operator(on(1, RNG.integers(-300, 301, (3000, 4)).astype(np.int16)))
    ACCOUNT.reset()
    with on_device(rows):
        GramMatrices(rows.home, [None]).part([rows])
    assert list(ACCOUNT.multiplied) == ["float64"]


# ---- the table of the guide -----------------------------------------------------------------


def test_the_guide_shows_the_solvers_with_the_option():
    text = (ROOT / "docs" / "guide" / "gpu.md").read_text(encoding="utf-8")
    table = text.partition("by default: float64 |")[2].partition("```")[0]
    shown = re.findall(r"^\| ([a-z-]+/[a-z-]+) \|", table, re.MULTILINE)
    kinds = ("cca", "svd", "least-squares", "multiset-cca", "discriminant", "reduced-rank-regression")
    assert shown == [f"{kind}/{name}" for kind in kinds for name in precisions.sweeping(kind)]
