"""block-krylov with sweeps over a copy in float32: singular values of float64 products, never above the exact ones."""

from __future__ import annotations

from typing import Any

import array_api_strict
import numpy as np
import pytest
import scipy.sparse

import linspec as ls

EPS = np.finfo(np.float64).eps


def orthogonal(n: int, k: int, seed: int) -> np.ndarray:
    return np.linalg.qr(np.random.default_rng(seed).standard_normal((n, k)))[0]


def planted(values: Any, n: int = 700, p: int = 90) -> np.ndarray:
    """A matrix with these singular values."""
    return orthogonal(n, len(values), 1) * np.asarray(values) @ orthogonal(p, len(values), 2).T


def sparse(n: int, p: int) -> scipy.sparse.csr_array:
    rng = np.random.default_rng(3)
    A = scipy.sparse.random_array((n, p), density=0.05, rng=rng, format="csr")
    A.data = 10 * A.data**2
    return A


DATA: dict[str, Any] = {
    "dense": lambda: planted(np.geomspace(1, 0.01, 60)),
    "tall": lambda: sparse(900, 120),
    "wide": lambda: sparse(100, 1500),
    "mean": lambda: planted(np.geomspace(1, 0.01, 60)) + 3.0,
}


def exact(A: Any, center: bool) -> np.ndarray:
    A = A.toarray() if scipy.sparse.issparse(A) else A
    return np.linalg.svd(A - center * A.mean(axis=0), compute_uv=False)


def test_arrays_of_another_library_and_device():
    A = planted(np.geomspace(1, 0.01, 60))
    there = array_api_strict.asarray(A, device=array_api_strict.Device("device1"))
    found = ls.solve(ls.SVD(there, k=6), "block-krylov", sweeps="float32", form="implicit", rng=0, tol=1e-9)
    S = np.asarray(array_api_strict.asarray(found.S, device=array_api_strict.Device("CPU_DEVICE")))
    assert found.converged
    assert np.allclose(S, exact(A, False)[:6], rtol=1e-12)


@pytest.mark.parametrize("tol", [1e-4, 1e-9])
@pytest.mark.parametrize("left", [True, False])
@pytest.mark.parametrize("center", [False, True])
@pytest.mark.parametrize("data", DATA)
@pytest.mark.slow(keep=10)
def test_values_are_near_and_not_above_the_exact_ones(data: str, center: bool, left: bool, tol: float):
    A = DATA[data]()
    problem = ls.SVD(A, k=6, center=center, left=left)
    found = ls.solve(problem, "block-krylov", sweeps="float32", form="implicit", rng=0, tol=tol)
    truth = exact(A, center)
    assert found.converged
    assert len(found.S) == 6
    # A residual r bounds the error of an eigenvalue by r (Weyl), and rounding is relative to the largest one.
    error = (found.S**2 - truth[:6] ** 2) / truth[0] ** 2
    assert np.all(error >= -tol - 100 * EPS)
    assert np.all(error <= 100 * EPS)


@pytest.mark.parametrize("data", ["dense", "tall", "wide"])
def test_few_passes_more_than_in_float64(data: str):
    """One for the copy, one for the last Rayleigh-Ritz step, and at most two because it is to be met by the first."""
    problem = ls.SVD(DATA[data](), k=6)
    single, double = (
        ls.solve(problem, "block-krylov", sweeps=sweeps, form="implicit", rng=0, tol=1e-6).passes
        for sweeps in ("float32", "float64")
    )
    assert double < single <= double + 4


@pytest.mark.parametrize("passes", [5, 7])
@pytest.mark.parametrize("data", ["dense", "tall", "wide"])
def test_a_budget_that_ends_within_float32_leaves_precise_values(data: str, passes: int):
    A = DATA[data]()
    found = ls.solve(
        ls.SVD(A, k=6, left=False),
        "block-krylov",
        sweeps="float32",
        form="implicit",
        rng=0,
        tol=1e-12,
        max_passes=passes,
    )
    assert not found.converged
    assert found.passes <= passes
    if data != "wide":  # there the left vectors are those of the iteration
        norms = np.linalg.norm(np.asarray(A @ found.Vh.T), axis=0)
        assert np.allclose(found.S, norms, rtol=1e-13)  # Rayleigh quotients of float64 products
    assert np.all(exact(A, False)[:6] * (1 + 100 * EPS) >= found.S)


def test_all_copies_of_a_repeated_value_are_found():
    values = np.r_[np.full(30, 3.0), np.full(10, 2.0), np.linspace(1, 0.1, 20)]
    found = ls.solve(
        ls.SVD(planted(values), k=40), "block-krylov", sweeps="float32", form="implicit", rng=0, block=6
    )
    assert found.converged
    assert np.allclose(found.S, values[:40], rtol=1e-12)


def test_a_start_is_not_taken_for_the_answer():
    """The start has lost the first vector."""
    A = planted(np.geomspace(1, 0.01, 60))
    whole = ls.solve(ls.SVD(A, k=7), "direct")
    start = {"Vh": whole.Vh[1:]}
    found = ls.solve(
        ls.SVD(A, k=6), "block-krylov", sweeps="float32", form="implicit", rng=0, tol=1e-8, start=start
    )
    assert found.converged
    assert np.allclose(found.S, whole.S[:6], rtol=1e-12)


def test_files_are_refused_before_they_are_read(tmp_path: Any):
    np.save(tmp_path / "A.npy", planted(np.ones(5)))
    problem = ls.SVD(np.load(tmp_path / "A.npy", mmap_mode="r"), k=3)
    with pytest.raises(ls.errors.UnsupportedData, match='Leave sweeps at "float64"'):
        ls.solve(problem, "block-krylov", sweeps="float32", form="implicit")
