"""Column means of sparse data that are large beside the spread of their columns."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
import scipy.sparse
import scipy.sparse.linalg

import linspec as ls

RNG = np.random.default_rng(11)
Z = RNG.standard_normal((200, 5))
WORDS = RNG.poisson(0.1, (200, 4)).astype(float)
W = Z[:, :3] + 0.3 * RNG.standard_normal((200, 3))


def rows_about(mean: float, dtype: Any = np.float64) -> tuple[Any, Any]:
    """Full columns about a mean beside sparse ones, as CSR, and the exact centred entries of the rounded data."""
    dense = np.hstack([Z + mean, WORDS]).astype(dtype)
    exact = dense.astype(np.longdouble)
    return scipy.sparse.csr_array(dense), (exact - exact.mean(axis=0)).astype(np.float64)


@pytest.mark.parametrize("mean", [1e6, 1e10, 1e13])
@pytest.mark.parametrize("solver", ls.solvers("svd"))
def test_principal_components(solver: str, mean: float) -> None:
    sparse, centred = rows_about(mean)
    problem = ls.SVD(sparse, 3, center=True)
    found = ls.solve(problem, solver, rng=0)
    exact = np.linalg.svd(centred, compute_uv=False)
    assert found.converged
    assert np.allclose(found.S, exact[:3], rtol=1e-6)
    assert np.allclose(
        found.explained_variance_ratio.sum(), (exact[:3] ** 2).sum() / (exact**2).sum(), rtol=1e-6
    )
    assert np.allclose(found.mean, sparse.toarray().mean(axis=0), rtol=1e-14, atol=1e-12)


@pytest.mark.parametrize("solver", ["gram", "direct", "lobpcg", "als", "rpcca", "two-stage"])
def test_canonical_pairs(solver: str) -> None:
    sparse, centred = rows_about(1e12)
    Y = W - W.mean(axis=0)
    Qx, Qy = (np.linalg.qr(view)[0] for view in (centred, Y))
    exact = np.linalg.svd(Qx.T @ Qy, compute_uv=False)[:2]
    for second in (W, scipy.sparse.csr_array(W + 1e12)):
        found = ls.solve(ls.CCA(sparse, second, 2), solver, rng=0)
        tolerance = 1e-3 if second is not W else 1e-6  # W + 1e12 is rounded to 1e-4
        assert np.allclose(found.correlations, exact, rtol=tolerance)
    variate = centred @ found.x_weights
    variate /= np.linalg.norm(variate, axis=0)
    lengths = np.linalg.norm(centred, axis=0)
    assert np.allclose(found.loadings(sparse), centred.T @ variate / lengths[:, None], atol=1e-3)


def test_a_discriminant_and_float32() -> None:
    sparse, centred = rows_about(1e4, np.float32)
    found = ls.solve(ls.Discriminant(sparse, W, 2), "direct")
    Q = np.linalg.qr(centred)[0]
    exact = np.linalg.svd(Q.T @ (W - W.mean(axis=0)), compute_uv=False)[:2] ** 2
    assert np.allclose(found.eigenvalues, exact, rtol=1e-5)


@pytest.mark.parametrize("kind", ["operator", "slices"])
def test_digits_that_products_lose_are_not_silent(kind: str) -> None:
    sparse, centred = rows_about(1e13)
    data: Any = scipy.sparse.linalg.aslinearoperator(sparse)
    if kind == "slices":
        data = lambda: iter([sparse[:90], sparse[90:]])  # noqa: E731
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # they say it, too
        found = ls.solve(
            ls.CCA(data, W, 2), "als", rng=0, form="implicit"
        )  # Gram matrices of slices lose nothing
    if kind == "slices":  # far rows are subtracted entry by entry
        Q, P = (np.linalg.qr(A - A.mean(axis=0))[0] for A in (centred, W))
        exact = np.linalg.svd(Q.T @ P, compute_uv=False)[:2]
        np.testing.assert_allclose(found.correlations, exact, atol=1e-6)
    else:
        assert found.status not in {ls.Status.CONVERGED, ls.Status.RANK_DEFICIENT}


def test_an_iterator_of_sparse_slices_held_as_a_gram_matrix() -> None:
    sparse, centred = rows_about(1e8)
    filler = scipy.sparse.random_array((200, 300), density=0.02, rng=1, format="csr")
    wide = scipy.sparse.hstack([sparse, filler], format="csr")
    dense = filler.toarray()
    exact = np.linalg.svd(np.hstack([centred, dense - dense.mean(axis=0)]), compute_uv=False)
    found = ls.solve(ls.SVD(iter([wide[:90], wide[90:]]), 3, center=True), "gram")
    assert np.allclose(found.S, exact[:3], rtol=1e-6)
