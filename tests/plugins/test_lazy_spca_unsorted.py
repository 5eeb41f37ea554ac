"""The form of lazy SPCA without singular values reports the loss by squaring, although its answer does not show it."""

from __future__ import annotations

import numpy as np
import pytest

import linspec as ls


def spread_over(ratio, dtype):
    rng = np.random.default_rng(0)
    U, V = (np.linalg.qr(rng.standard_normal((m, 12)))[0] for m in (300, 100))
    return ((U * np.geomspace(1, 1 / ratio, 12)) @ V.T).astype(dtype), V


@pytest.mark.parametrize(
    ("dtype", "ratio"), [("float64", 1e3), ("float64", 1e5), ("float32", 1e2), ("float32", 1e4)]
)
def test_a_lost_subspace_is_not_silent(dtype, ratio):
    A, V = spread_over(ratio, dtype)
    found = ls.solve(ls.SVD(A, 12), "lazy-spca", rng=0, whiten=False, oversampling=0)
    assert found.status is ls.Status.ILL_CONDITIONED
    assert "By squaring" in found.message
    W = np.linalg.qr(found.Vh.T.astype(float))[0]
    assert np.linalg.norm(W - V @ (V.T @ W)) < 0.3  # what is returned is not noise


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("options", [{}, {"whiten": False, "oversampling": 0}])
def test_nothing_is_said_of_singular_values_that_are_close(dtype, options):
    A = np.random.default_rng(0).standard_normal((300, 100)).astype(dtype)
    found = ls.solve(ls.SVD(A, 5), "lazy-spca", rng=0, **options)
    assert found.status is ls.Status.APPROXIMATE
