"""The preprocessed matrix of every kind of data: NumPy on rows less means and confounds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from in_blocks import rows_of

from linspec.operators import as_operator
from linspec.rows import Moments, Preprocessing

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
    pre = Preprocessing.of(center=center, weights=w, confounds=own)
    A = Moments([rows_of(as_operator(given))], pre).operator()
    K = A.matmat(A.rmatmat(np.eye(12)))
    # Confounds that include ones, and centring, leave nothing of a constant.
    exact = residual(X, w, own, center=center)
    np.testing.assert_allclose(K, exact @ exact.T, atol=(1e-12 if not far else 1e-5) * np.abs(X @ X.T).max())


def test_factors_of_columns_are_in_the_gram_matrix_of_rows() -> None:
    X = sp.random_array((20, 60), density=0.3, rng=1, format="csr")
    A = Moments([rows_of(as_operator(X))], Preprocessing.of(center=True, scale=True)).operator()
    K, dense = A.matmat(A.rmatmat(np.eye(20))), X.toarray()
    centred = dense - dense.mean(axis=0)
    spread = centred.std(axis=0)
    scaled = np.divide(centred, spread, out=np.zeros_like(centred), where=spread > 0)
    np.testing.assert_allclose(K, scaled @ scaled.T, atol=1e-11)
