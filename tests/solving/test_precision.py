"""The precision in which a problem is solved: that of its main matrix, or the requested one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse
import scipy.sparse.linalg

import linspec as ls

RNG = np.random.default_rng(3)
LABELS = np.eye(3)[RNG.integers(0, 3, 600)]
A = RNG.standard_normal((600, 20)) * np.logspace(3, 0, 20)
A[:, -3:] += LABELS

KINDS: dict[str, Any] = {
    "dense": np.asarray,
    "sparse": scipy.sparse.csr_array,
    "slices": lambda labels: lambda: iter([labels[:200], labels[200:]]),
    "operator": scipy.sparse.linalg.aslinearoperator,
    "centred": lambda labels: ls.as_operator(labels).centered(np.zeros(3)),
}
NARROW = [bool, np.uint8, np.int8, np.float32]


@pytest.mark.parametrize("dtype", NARROW)
@pytest.mark.parametrize("kind", KINDS)
def test_narrow_targets_cost_no_precision(kind: str, dtype: Any) -> None:
    exact = np.linalg.lstsq(A, LABELS, rcond=None)[0]
    B = KINDS[kind](LABELS.astype(dtype))
    found = ls.solve(ls.LeastSquares(A, B), "cg")
    assert found.x.dtype == np.float64
    assert np.allclose(found.x, exact, atol=1e-6 * abs(exact).max())
    assert "float32" not in found.message


@pytest.mark.parametrize("dtype", NARROW)
@pytest.mark.parametrize("solver", ls.solvers("discriminant"))
def test_narrow_targets_of_a_discriminant(solver: str, dtype: Any) -> None:
    for wrap in (np.asarray, scipy.sparse.csr_array):
        wide = ls.solve(ls.Discriminant(A, wrap(LABELS), 2), solver, rng=0)
        found = ls.solve(ls.Discriminant(A, wrap(LABELS.astype(dtype)), 2), solver, rng=0)
        assert np.allclose(found.eigenvalues, wide.eigenvalues, rtol=1e-10)
        assert found.status is wide.status


def test_data_that_are_narrow_themselves_keep_their_precision() -> None:
    small = RNG.integers(-100, 100, (300, 6)).astype(np.int8)
    assert ls.solve(ls.LeastSquares(small, np.ones(300)), "direct").x.dtype == np.float32
    found = ls.solve(ls.CCA(A.astype(np.float32), LABELS, 2), "gram")
    assert found.x_weights.dtype == np.float32
    assert found.y_weights.dtype == np.float64
    assert "float32 data" not in ls.solve(ls.SVD(small, 2), "block-krylov").message


def test_dtypes_that_cannot_be() -> None:
    with pytest.raises(ls.errors.InvalidProblem, match="float32 or float64"):
        ls.as_operator(A, dtype=int)
    narrow = ls.as_operator(A.astype(np.float32))
    assert ls.as_operator(narrow, dtype=np.float64).dtype == np.float64
    both = ls.as_operator(narrow + 2.0 * narrow, dtype=np.float64)
    assert both.dtype == np.float64
    entries = A.astype(np.float32).astype(np.float64)
    np.testing.assert_allclose(both.matmat(np.eye(A.shape[1])), 3.0 * entries, rtol=1e-14)
