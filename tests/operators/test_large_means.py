"""Columns and confounds with means that are large beside their spread: nothing cancels, on all kinds of data.

The truth is a Gram-Schmidt process in extended precision, twice.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse
import scipy.sparse.linalg
from backends import backends

import linspec as ls
from linspec.workers import BlockOperator

N = 90
RNG = np.random.default_rng(3)
YEAR = np.column_stack([RNG.uniform(1990, 2020, N), 1013 + 5 * RNG.standard_normal(N)])
SECONDS = np.column_stack([1.7e9 + RNG.uniform(0, 3e7, N), 2024 + RNG.uniform(0, 1, N)])
ONE = 1e3 + RNG.standard_normal((N, 1))
CONSTANT = np.column_stack([np.ones(N), 300 + RNG.standard_normal(N)])
CONFOUNDS = {"year": YEAR, "seconds": SECONDS, "one": ONE, "constant": CONSTANT}


KINDS: dict[str, Any] = {
    "dense": np.asarray,
    "sparse": scipy.sparse.csr_array,
    "map": backends(["npy-file"])[0].wrap,
    "slices": lambda A: lambda: iter([A[:31], A[31:]]),
    "once": lambda A: iter([A[:31], A[31:]]),
    "blocks": lambda A: BlockOperator([A[:31], A[31:]]),
    "products": scipy.sparse.linalg.aslinearoperator,
}


def left(A: np.ndarray, Z: np.ndarray, w: np.ndarray | None) -> np.ndarray:
    """Return the weighted rows less the fit to the confounds, with more digits than float64 has."""
    long = np.longdouble
    roots = np.ones(len(A), dtype=long) if w is None else np.sqrt(w.astype(long))
    basis: list[Any] = []
    for z in (Z.astype(long) * roots[:, None]).T:
        for _ in range(2):
            for q in basis:
                z = z - q * (q @ z)
        basis.append(z / np.sqrt(z @ z))
    rest = A.astype(long) * roots[:, None]
    for q in [*basis, *basis]:
        rest = rest - np.outer(q, q @ rest)
    return rest.astype(float)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("confounds", CONFOUNDS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.filterwarnings("ignore::linspec.errors.AccuracyWarning")
def test_singular_values_of_what_is_left(kind: str, confounds: str, weighted: bool) -> None:
    A, Z = 1e3 + RNG.standard_normal((N, 4)), CONFOUNDS[confounds]
    w = RNG.uniform(0.5, 2.0, N) if weighted else None
    exact = np.linalg.svd(left(A, Z, w), compute_uv=False)[:3]
    found = ls.solve(ls.SVD(KINDS[kind](A), 3, confounds=Z, sample_weight=w), "gram")
    # Sparse rows and products are centred by products, which costs (mean / deviation)² roundings at most.
    tolerance = 1e-9 if kind in ("sparse", "products") else 1e-12
    assert np.allclose(found.S, exact, rtol=tolerance)


@pytest.mark.parametrize("solver", ["cg", "lsqr", "direct", "sketch-precondition"])
@pytest.mark.parametrize("confounds", CONFOUNDS)
@pytest.mark.parametrize(("mean", "center"), [(1e5, True), (1e3, False)])
def test_coefficients_beside_confounds(confounds: str, solver: str, mean: float, center: bool) -> None:
    """Without centring, digits are lost in proportion to the means."""
    A, Z = mean + RNG.standard_normal((N, 3)), CONFOUNDS[confounds]
    b = A @ [1.0, 2.0, 3.0] + RNG.standard_normal(N)
    about = np.column_stack([np.ones(N), Z[:, int(confounds == "constant") :]]) if center else Z
    R, r = left(A, about, None), left(b[:, None], about, None)[:, 0]
    found = ls.solve(ls.LeastSquares(A, b, confounds=Z, center=center), solver, rng=0)
    gap = R.T @ (r - R @ found.x)
    assert np.linalg.norm(gap) <= 1e-8 * np.linalg.norm(R.T @ r)
    # New rows: what the confounds explain of them is known from the slopes.
    fitted = found.predict(A, confounds=Z)
    columns = np.hstack([A, about])
    columns /= np.linalg.norm(columns, axis=0)
    exact = columns @ np.linalg.lstsq(columns, b, rcond=None)[0]
    assert np.allclose(fitted, exact, rtol=1e-9)


@pytest.mark.parametrize("solver", ["cg", "lsqr", "direct"])
def test_digits_that_confounds_take_without_centring_are_told(solver: str) -> None:
    A = 1e5 + RNG.standard_normal((N, 3))
    b = A @ [1.0, 2.0, 3.0] + RNG.standard_normal(N)
    found = ls.solve(ls.LeastSquares(A, b, confounds=CONSTANT), solver, rng=0)
    assert found.status is ls.Status.ILL_CONDITIONED


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("apart", [1e-5, 1e-8])
def test_a_confound_that_is_nearly_a_copy_costs_the_others_no_digits(apart: float, weighted: bool) -> None:
    """Rounding in the direction in which the copies differ grows by 1/apart, and stays there.

    300² is how much of the squares the confounds explain.
    """
    rng = np.random.default_rng(7)
    Z = rng.standard_normal((N, 4))
    Z[:, 3] = Z[:, 0] + apart * Z[:, 3]
    A = rng.standard_normal((N, 3)) + 300 * Z @ rng.standard_normal((4, 3))
    b = rng.standard_normal(N)
    w = rng.uniform(0.5, 2.0, N) if weighted else None
    R, r = left(A, Z, w), left(b[:, None], Z, w)[:, 0]
    found = ls.solve(ls.LeastSquares(A, b, confounds=Z, sample_weight=w), "direct")
    law = np.linalg.norm(R.T @ (r - R @ found.x)) / np.linalg.norm(R.T @ r)
    assert law <= 4 * np.finfo(float).eps * (300**2 + 1 / apart)


@pytest.mark.parametrize("solver", ["spca", "lazy-spca", "direct", "gram", "lanczos", "block-krylov"])
def test_what_confounds_leave_has_no_more_rank_than_the_columns(solver: str) -> None:
    """Four directions are left; the others are rounding of what was subtracted, 1e3 times longer."""
    rng = np.random.default_rng(1)
    Z = rng.standard_normal((N, 1))
    A = (rng.standard_normal((N, 4)) + 1e3 * Z) @ rng.standard_normal((4, 12))
    exact = np.linalg.svd(left(A, Z, None), compute_uv=False)[:2]
    found = ls.solve(ls.SVD(A, 2, confounds=Z), solver, rng=0)
    assert np.allclose(found.S, exact, rtol=1e-7)


# ---- sparse rows ------------------------------------------------------------------------------


def sparse_rows_about(mean: float) -> tuple[Any, Any]:
    """Full columns about a mean beside sparse ones, as CSR, and the exact centred entries of the rounded data."""
    dense = np.hstack([RNG.standard_normal((200, 5)) + mean, RNG.poisson(0.1, (200, 4)).astype(float)])
    exact = dense.astype(np.longdouble)
    return scipy.sparse.csr_array(dense), (exact - exact.mean(axis=0)).astype(np.float64)


@pytest.mark.parametrize("solver", ls.solvers("svd"))
def test_components_of_sparse_rows_that_are_far_from_zero(solver: str) -> None:
    sparse, centred = sparse_rows_about(1e13)
    found = ls.solve(ls.SVD(sparse, 3, center=True), solver, rng=0)
    exact = np.linalg.svd(centred, compute_uv=False)
    share = (exact[:3] ** 2).sum() / (exact**2).sum()
    assert found.converged
    assert np.allclose(found.S, exact[:3], rtol=1e-6)
    assert np.allclose(found.explained_variance_ratio.sum(), share, rtol=1e-6)
    assert np.allclose(found.mean, sparse.toarray().mean(axis=0), rtol=1e-14, atol=1e-12)


@pytest.mark.filterwarnings(
    "ignore::linspec.errors.AccuracyWarning", "ignore::linspec.errors.ConvergenceWarning"
)
def test_digits_that_products_lose_are_not_silent() -> None:
    sparse, centred = sparse_rows_about(1e13)
    data = scipy.sparse.linalg.aslinearoperator(sparse)
    found = ls.solve(ls.CCA(data, centred[:, :3], 2), "als", rng=0, form="implicit")
    assert found.status not in {ls.Status.CONVERGED, ls.Status.RANK_DEFICIENT}
