"""The precision in which a problem is solved: that of its main matrix, or the requested one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse
import scipy.sparse.linalg

import linspec as ls
from linspec.operators import CombinedColumns

RNG = np.random.default_rng(3)
LABELS = np.eye(3)[RNG.integers(0, 3, 600)]
A = RNG.standard_normal((600, 20)) * np.logspace(3, 0, 20)
A[:, -3:] += LABELS

KINDS: dict[str, Any] = {
    "dense": np.asarray,
    "sparse": scipy.sparse.csr_array,
    "slices": lambda labels: lambda: iter([labels[:200], labels[200:]]),
    "operator": scipy.sparse.linalg.aslinearoperator,
    "centred": lambda labels: CombinedColumns(ls.as_operator(labels), np.zeros(3)),
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


@pytest.mark.parametrize("dtype", [np.float64, "float64", np.float32])
@pytest.mark.parametrize("kind", ["dense", "sparse", "slices", "operator", "map"])
def test_as_operator_takes_a_dtype(kind: str, dtype: Any, tmp_path: Any) -> None:
    small = RNG.integers(-100, 100, (300, 3)).astype(np.int8)
    np.save(tmp_path / "rows.npy", small)
    data = str(tmp_path / "rows.npy") if kind == "map" else KINDS[kind](small)
    operator = ls.as_operator(data, dtype=dtype)
    assert operator.dtype == np.dtype(dtype)
    V = RNG.standard_normal((3, 2))
    assert np.allclose(operator.matmat(V), small @ V, rtol=1e-12 if operator.dtype == np.float64 else 1e-4)
    if operator.access == "rows":
        assert operator.rows(slice(0, 5)).dtype == operator.rows(np.array([4, 2])).dtype == operator.dtype
    found = ls.solve(ls.SVD(operator, 2), "gram")
    assert found.Vh.dtype == operator.dtype
    assert np.allclose(found.S, np.linalg.svd(small.astype(float), compute_uv=False)[:2], rtol=1e-5)


def test_dtypes_that_cannot_be() -> None:
    with pytest.raises(ls.errors.InvalidProblem, match="float32 or float64"):
        ls.as_operator(A, dtype=int)
    narrow = ls.as_operator(A.astype(np.float32))
    assert ls.as_operator(narrow, dtype=np.float64).dtype == np.float64
