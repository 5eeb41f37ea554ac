"""Entries and columns of very different size: small confounds, heavy rows, float32, and what a message names."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
import scipy.sparse
import scipy.sparse.linalg

import linspec as ls
from linspec.operators import CombinedColumns
from linspec.workers import BlockOperator

RNG = np.random.default_rng(7)
A = RNG.standard_normal((60, 5))
B = A @ RNG.standard_normal((5, 3)) + 0.3 * RNG.standard_normal((60, 3))


@pytest.fixture(autouse=True)
def no_numpy_warnings() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        yield


def as_map(tmp_path: Any, entries: Any) -> Any:
    path = tmp_path / f"rows{len(list(tmp_path.iterdir()))}.npy"
    np.save(path, entries)
    return np.load(path, mmap_mode="r")


def once(entries: Any, _: Any) -> Any:
    return iter([entries[:23], entries[23:]])


KINDS = {
    "dense": lambda entries, _: entries,
    "sparse": lambda entries, _: scipy.sparse.csr_array(entries),
    "map": lambda entries, path: as_map(path, entries),
    "callable": lambda entries, _: lambda: iter([entries[:23], entries[23:]]),
    "centred": lambda entries, _: CombinedColumns(ls.as_operator(entries), np.zeros(entries.shape[1])),
    "products": lambda entries, _: scipy.sparse.linalg.aslinearoperator(entries),
    "blocks": lambda entries, _: BlockOperator([entries[:23], entries[23:]]),
}


@pytest.mark.parametrize("unit", [1e-200, 1e-160, 1e-59, 1e59])
def test_small_confounds_beside_others_are_removed(unit: float) -> None:
    Z = RNG.standard_normal((60, 2))
    X = A + Z @ RNG.standard_normal((2, 5))
    usual = ls.solve(ls.SVD(X, 2, center=True, confounds=Z)).S
    scale = [unit, 1.0]
    assert np.allclose(ls.solve(ls.SVD(X, 2, center=True, confounds=Z * scale)).S, usual, rtol=1e-10)


def test_the_message_names_matrix_column_and_power() -> None:
    entries = A * 1e-80
    entries[4, 3] = 5e-75
    match = (
        r"entries of Y.*about 6.*e-76 in column 3. Multiply Y by 1e75, and its ridge, if it has one, by 1e150"
    )
    with pytest.raises(ls.errors.DataOutOfRange, match=match):
        ls.solve(ls.CCA(B, entries, 2))


@pytest.mark.parametrize("size", [1e-37, 1e-30, 1e-15, 1e15, 1e30])
@pytest.mark.parametrize("kind", [*KINDS, "once"])
def test_float32_data_of_any_size_are_multiplied_in_float64(kind: str, size: float, tmp_path: Any) -> None:
    single = (A * size).astype(np.float32)
    exact = np.linalg.svd(single.astype(np.float64), compute_uv=False)[:2]
    wrap = once if kind == "once" else KINDS[kind]
    for solver in ("gram",) if kind == "once" else ("gram", "block-krylov"):
        found = ls.solve(ls.SVD(wrap(single, tmp_path), 2), solver, rng=0)
        assert np.allclose(found.S, exact, rtol=1e-6)


@pytest.mark.parametrize("kind", ["dense", "sparse", "map", "callable", "blocks", "once"])
@pytest.mark.parametrize("first", [True, False])
def test_a_row_counts_with_its_weight_wherever_it_stands(kind: str, first: bool, tmp_path: Any) -> None:
    rows, w = A.copy(), np.ones(60)
    at = 0 if first else 59
    rows[at], w[at] = rows[at] * 1e80, 1e-160
    exact = np.linalg.svd(np.sqrt(w)[:, None] * rows, compute_uv=False)[:2]
    wrap = once if kind == "once" else KINDS[kind]
    found = ls.solve(ls.SVD(wrap(rows, tmp_path), 2, sample_weight=w), "gram")
    assert np.allclose(found.S, exact, rtol=1e-10)


@pytest.mark.parametrize("size", [1e-30, 1e-140, 1e-200])
@pytest.mark.parametrize("solver", ls.solvers("least-squares"))
def test_a_small_column_is_solved_for_or_said(solver: str, size: float) -> None:
    scale = np.array([1.0, 1.0, size, 1.0, 1.0])
    exact = np.linalg.lstsq(A, B, rcond=None)[0]
    found = ls.solve(ls.LeastSquares(A * scale, B), solver, rng=0)
    right = np.allclose(found.x * scale[:, None], exact, atol=1e-4 * abs(exact).max())
    assert right or found.status is not ls.Status.CONVERGED


@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_a_column_whose_squares_are_no_numbers_is_not_called_zero(kind: str) -> None:
    entries = np.where(np.abs(A) < 0.8, 0.0, A) * np.where(np.arange(5) == 2, 1e-170, 1.0)
    found = ls.solve(ls.LeastSquares(KINDS[kind](entries, None), B))
    assert found.status is ls.Status.ILL_CONDITIONED
    assert "1 of the columns of A (the first is column 2)" in found.message


@pytest.mark.parametrize("library", ["array_api_strict", "torch"])
@pytest.mark.parametrize("unit", [1e-160, 1e-200])
@pytest.mark.parametrize("weighted", [False, True])
def test_columns_whose_squares_are_no_numbers_are_named_in_any_library(
    library: str, unit: float, weighted: bool
) -> None:
    xp = pytest.importorskip(library, reason=f"no {library}")
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 3))
    X[:, 1] *= unit
    weights = rng.uniform(0.5, 1.0, 60) if weighted else None
    b = xp.asarray(rng.standard_normal(60))
    found = ls.solve(ls.LeastSquares(xp.asarray(X), b, sample_weight=weights), "direct")
    assert found.status in (ls.Status.ILL_CONDITIONED, ls.Status.RANK_DEFICIENT)
    assert "column 1" in found.message
    X[:, 1] = 0.0  # zeros are no numbers that underflow
    assert "squares" not in ls.solve(ls.LeastSquares(xp.asarray(X), b), "direct").message
