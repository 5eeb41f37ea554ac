"""Sweeps over a copy in float32: the answers are those of float64 products, and never above the exact ones."""

from __future__ import annotations

import array_api_strict
import numpy as np
import pytest
import scipy.sparse

import linspec as ls
from linspec import Moments
from linspec.errors import UnsupportedData
from linspec.kernels.features import nystrom
from linspec.moments import single_precision
from linspec.operators import DenseOperator

N, P, Q, K = 900, 24, 18, 4


def views(offset: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    shared = rng.standard_normal((N, 8))
    X = shared @ rng.standard_normal((8, P)) + 2 * rng.standard_normal((N, P)) + offset
    return X, shared @ rng.standard_normal((8, Q)) + 2 * rng.standard_normal((N, Q)) - offset


def exact_sum(X: np.ndarray, Y: np.ndarray, ridge: float) -> float:
    """The sum of the leading correlations by dense whitening."""
    X, Y = X - X.mean(axis=0), Y - Y.mean(axis=0)
    L, M = (np.linalg.cholesky(A.T @ A + ridge * np.eye(A.shape[1])) for A in (X, Y))
    C = np.linalg.solve(M, np.linalg.solve(L, X.T @ Y).T)
    return float(np.linalg.svd(C, compute_uv=False)[:K].sum())


WRAPS = {
    "numpy": np.asarray,
    "strict": lambda A: array_api_strict.asarray(A, device=array_api_strict.Device("device1")),
    "csr": scipy.sparse.csr_array,
}


@pytest.mark.parametrize("wrap", WRAPS)
@pytest.mark.parametrize("tol", [1e-4, 1e-9, 1e-14])
@pytest.mark.slow(keep=3)
def test_the_sum_is_near_and_not_above_the_exact_one(wrap, tol):
    X, Y = views()
    problem = ls.CCA(WRAPS[wrap](X), WRAPS[wrap](Y), k=K, ridge=1.0, center=True)
    solution = ls.solve(problem, "lobpcg", sweeps="float32", form="implicit", rng=0, oversample=2, tol=tol)
    exact = exact_sum(X, Y, 1.0)
    assert solution.converged
    assert exact - 10 * tol * exact - 1e-13 <= solution.correlations.sum() <= exact + 1e-13


def test_the_copy_takes_one_pass_more():
    X, Y = views()
    problem = ls.CCA(X, Y, k=K, ridge=1.0, center=True)
    options = {"form": "implicit", "rng": 0, "oversample": 2, "tol": 1e-6}
    passes = [ls.solve(problem, "lobpcg", sweeps=s, **options).passes for s in ("float64", "float32")]
    assert passes[1] == passes[0] + 1


@pytest.mark.parametrize("offset", [0.0, 1e5])
@pytest.mark.parametrize("adjusted", [False, True])
def test_rows_are_adjusted_before_they_are_rounded(offset, adjusted):
    """A mean a hundred thousand times the spread would leave float32 no digit."""
    X, Y = views(offset)
    rng = np.random.default_rng(1)
    more = (
        {"sample_weight": rng.uniform(0.5, 2.0, N), "confounds": rng.standard_normal((N, 2))}
        if adjusted
        else {}
    )
    problem = ls.CCA(X, Y, k=K, ridge=1.0, center=True, **more)
    moments = problem.moments("implicit", (10, K))
    Vx, Vy = rng.standard_normal((P, 3)), rng.standard_normal((Q, 3))
    exact = moments.products(Vx, Vy)
    for single, double in zip(moments.precision.single().products(Vx, Vy), exact, strict=True):
        assert np.linalg.norm(single - double) < 1e-5 * np.linalg.norm(double)


def test_there_is_no_copy_where_there_is_nothing_to_gain():
    X, Y = views()
    single = Moments(X.astype(np.float32), Y.astype(np.float32), form="implicit")
    assert single.precision.single() is single
    held = Moments(X, Y, form="dense")
    assert held.precision.single() is held
    swept = Moments(X, Y, form="implicit")
    assert swept.precision.single() is swept.precision.single()


def test_rows_that_are_not_in_memory_are_refused_before_they_are_read(tmp_path):
    X, Y = views()
    np.save(tmp_path / "X.npy", X)
    mapped = ls.CCA(np.load(tmp_path / "X.npy", mmap_mode="r"), Y, k=K)
    weighted = ls.CCA(scipy.sparse.csr_array(X), Y, k=K, sample_weight=np.ones(N) + np.arange(N))
    for problem in (mapped, weighted):
        with pytest.raises(UnsupportedData, match='Leave sweeps at "float64"'):
            ls.solve(problem, "lobpcg", sweeps="float32", form="implicit")


def test_entries_beyond_float32_are_refused():
    X, Y = views()
    moments = Moments(X * 1e39, Y, form="implicit")
    with pytest.raises(UnsupportedData, match="needs entries below"):
        moments.precision.single()

    problem = ls.CCA(X * 1e39, Y, k=K, ridge=(1e78, 1.0), center=True)
    with pytest.raises(UnsupportedData, match="Scale its columns"):
        ls.solve(problem, "lobpcg", sweeps="float32", form="implicit", rng=0)


def features_of(X, Y):
    rng = np.random.default_rng(2)
    return [nystrom(A, ls.kernels.rbf(30.0), 20, rng)(A) for A in (X, Y)]


def test_features_are_made_once_for_the_copy():
    """The copy reads the rows once; afterwards their features come from it."""
    read = []

    class Rows(DenseOperator):
        def _rows(self, selection):
            read.append(selection)
            return super()._rows(selection)

    X, Y = views()
    X, Y = features_of(Rows(X), Rows(Y))
    exact = exact_sum(X.dense(), Y.dense(), 1.0)
    problem = ls.CCA(X, Y, k=K, ridge=1.0, center=True)
    options = {"form": "implicit", "rng": 0, "oversample": 2, "tol": 1e-9}
    readings, sums = [], []
    for sweeps in ("float64", "float32"):
        read.clear()
        solution = ls.solve(problem, "lobpcg", sweeps=sweeps, **options)
        readings.append(len(read))
        sums.append(solution.correlations.sum())
        assert solution.converged
    assert exact * (1 - 1e-8) <= min(sums) <= max(sums) <= exact + 1e-13
    assert readings[1] < readings[0]


def test_features_that_do_not_fit_into_memory_are_refused(monkeypatch):
    monkeypatch.setattr(single_precision, "NEGLIGIBLE_BYTES", 0)
    monkeypatch.setenv("LINSPEC_MAX_MEMORY", "100k")
    X, _ = features_of(*views())
    with pytest.raises(UnsupportedData, match="whose copy takes 72 kB"):
        Moments(X, form="implicit").precision.single()
