"""Adjustments of the rows of a matrix: problems have the adjusted matrices, however the data were passed.

The oracles are NumPy on rows that are centred, weighted and adjusted for confounds here, and exact fractions for means
that are large beside the deviations.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import linspec as ls
from linspec.arrays import HOST
from linspec.moments.ways import settle
from linspec.operators import AdjustedOperator, as_operator
from linspec.operators.column_statistics import ColumnStatistics
from linspec.operators.row_model import row_model
from linspec.solving import adjusted

RNG = np.random.default_rng(5)
N, P = 60, 5
A = RNG.standard_normal((N, P)) + 3.0
B = RNG.standard_normal((N, 2))
W = RNG.integers(0, 4, N).astype(float)
Z = np.column_stack([np.ones(N), RNG.standard_normal(N)])


def residual(X: np.ndarray, w: np.ndarray, Z: np.ndarray | None, *, center: bool) -> np.ndarray:
    """D X less its projection on the columns of D [1 Z]."""
    roots = np.sqrt(w)[:, None]
    columns = ([np.ones((len(X), 1))] if center else []) + ([] if Z is None else [Z])
    found = roots * X
    if columns:
        basis, s, _ = np.linalg.svd(roots * np.hstack(columns), full_matrices=False)
        basis = basis[:, s > 1e-12 * s[0]]
        for _ in range(2):
            found = found - basis @ (basis.T @ found)
    return found


@pytest.mark.parametrize("center", [True, False])
@pytest.mark.parametrize("confounds", [None, Z], ids=["plain", "confounds"])
@pytest.mark.parametrize("far", [0.0, 1e9], ids=["near", "far"])
@pytest.mark.parametrize("kind", ["array", "sparse", "products"])
def test_the_gram_matrix_of_rows_is_that_of_adjusted_rows(
    kind: str, far: float, confounds: np.ndarray | None, center: bool
) -> None:
    if far and (kind == "products" or not (center or confounds is not None)):
        pytest.skip("digits of large means are lost in products, and are kept in what is not centred")
    X = np.round(RNG.standard_normal((12, 40)) * 2**12) / 2**12
    given: Any = {
        "array": lambda X: X,
        "sparse": sp.csr_array,
        "products": sp.linalg.aslinearoperator,
    }[kind](X + far)
    w, own = W[:12] + 1.0, None if confounds is None else confounds[:12]
    model = row_model(center=center, weights=w, confounds=own, about_means=True)
    adjusted_rows = AdjustedOperator(as_operator(given), model, settle)
    K = adjusted_rows.matmat(adjusted_rows.rmatmat(np.eye(12)))
    # Confounds that include ones, and centring, leave nothing of a constant.
    exact = residual(X, w, own, center=center)
    np.testing.assert_allclose(K, exact @ exact.T, atol=(1e-12 if not far else 1e-5) * np.abs(X @ X.T).max())


def test_factors_of_columns_are_in_the_gram_matrix_of_rows() -> None:
    X = sp.random_array((20, 60), density=0.3, rng=1, format="csr")
    problem = adjusted(ls.SVD(X, k=2, center=True, scale=True))
    K, dense = problem.A.matmat(problem.A.rmatmat(np.eye(20))), X.toarray()
    centred = dense - dense.mean(axis=0)
    spread = centred.std(axis=0)
    scaled = np.divide(centred, spread, out=np.zeros_like(centred), where=spread > 0)
    np.testing.assert_allclose(K, scaled @ scaled.T, atol=1e-11)


@pytest.mark.parametrize("mean", [1e4, 1e8, 1e12])
def test_products_of_sparse_columns_with_confounds_lose_nothing_to_large_means(mean: float) -> None:
    """AᵀB for confounds B, of columns in which all entries are stored: by exact fractions."""
    X = np.round(RNG.standard_normal((N, 2)) * 2**8) / 2**8 + np.round(mean)
    stored = np.column_stack([X, X[:, :1] * (np.arange(N) % 2 == 0)[:, None]])
    basis, w = RNG.standard_normal((N, 1)), W
    gathered = ColumnStatistics(HOST)
    gathered.add(as_operator(sp.csr_array(stored)), w, basis)
    means = [
        sum(Fraction(x) * Fraction(v) for x, v in zip(column, w, strict=True)) / Fraction(w.sum())
        for column in stored.T
    ]
    for j, column in enumerate(stored.T):
        about = [Fraction(x) - means[j] for x in column]
        exact = sum(a * a * Fraction(v) for a, v in zip(about, w, strict=True))
        assert float(abs(Fraction(gathered.spread[j]) - exact) / exact) <= 1e-13
        assert abs(Fraction(gathered.mean[j]) - means[j]) <= Fraction(4 * np.spacing(gathered.mean[j]))
    point = stored[0]  # the same row is subtracted here and there
    found = gathered.beside(point, center=False)
    for j, column in enumerate(stored.T[:2]):
        exact = sum(
            (Fraction(x) - Fraction(point[j])) * Fraction(b) * Fraction(v)
            for x, b, v in zip(column, basis[:, 0], w, strict=True)
        )
        size = float(
            sum(
                abs(Fraction(x) - Fraction(point[j])) * Fraction(abs(b) * v)
                for x, b, v in zip(column, basis[:, 0], w, strict=True)
            )
        )
        assert abs(float(Fraction(found[j, 0]) - exact)) <= 1e-11 * size
