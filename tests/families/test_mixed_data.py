"""Kinds of data, weights and confounds together: what a random search has found wrong, by public names."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse
from scipy.sparse.linalg import aslinearoperator

import linspec as ls

rng = np.random.default_rng(0)
n, p = 600, 5
z, N = rng.standard_normal((n, 1)), rng.standard_normal((n, p))
COUNTS = np.rint(4 * N + 1200 * z * rng.uniform(0.5, 1, p))


@pytest.mark.parametrize("kind", ["int16", "float32", "sparse", "slices"])
@pytest.mark.parametrize("center", [False, True])
@pytest.mark.parametrize("solver", ["direct", "cg", "lsqr", "ling"])
def test_confounds_may_explain_nearly_all_of_narrow_rows(kind: str, solver: str, *, center: bool) -> None:
    """The part that is left is a three-hundredth of the entries, which integers have exactly."""
    kinds: dict[str, Any] = {
        "int16": COUNTS.astype(np.int16),
        "float32": COUNTS.astype(np.float32),
        "sparse": scipy.sparse.csr_array(COUNTS.astype(np.float32)),
        "slices": lambda: iter(np.array_split(COUNTS.astype(np.int16), 4)),
    }
    b, stated = N @ np.ones(p), {"confounds": z, "center": center}
    found = ls.solve(ls.LeastSquares(kinds[kind], b, **stated), solver, rng=0)
    exact = ls.solve(ls.LeastSquares(COUNTS, b, **stated), "direct")
    assert np.abs(found.x - exact.x).max() <= 1e-3 * np.abs(exact.x).max()
    values = ls.solve(ls.SVD(kinds[kind], k=1, **stated), "gram").S
    assert values == pytest.approx(ls.solve(ls.SVD(COUNTS, k=1, **stated), "direct").S, rel=1e-4)


@pytest.mark.parametrize("kind", [np.asarray, scipy.sparse.csr_array, aslinearoperator])
@pytest.mark.parametrize("solver", ["gram", "direct", "block-krylov", "lanczos"])
def test_a_column_that_no_counted_row_has_is_constant(kind: Any, solver: str) -> None:
    if kind is aslinearoperator and solver == "direct":
        pytest.skip("direct reads the entries")
    A, w = rng.standard_normal((300, 5)), np.ones(300)
    A[:, 4], w[7] = 0, 0
    A[7, 4] = 1.0
    stated: dict[str, Any] = {"center": True, "scale": True}
    found = ls.solve(ls.SVD(kind(A), k=2, sample_weight=w, **stated), solver, rng=0)
    exact = ls.solve(ls.SVD(np.delete(A, 7, axis=0), k=2, **stated), "direct")
    assert pytest.approx(exact.S, rel=1e-8) == found.S
