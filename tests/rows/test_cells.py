"""Moments of unions of sets of rows, of what does not vary in them, and the Gram matrices of all rows made of them."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from in_blocks import rows_of

import linspec as ls
from linspec.errors import DataOutOfRange, InvalidProblem, MissingCapability, NonFiniteData
from linspec.rows import Cell, Moments, Preprocessing
from linspec.studies import cells_of, folds_of

rng = np.random.default_rng(0)
n, folds = 1200, 5
labels = rng.integers(0, folds, n)
X = rng.standard_normal((n, 3)) @ rng.standard_normal((3, 6)) + rng.standard_normal((n, 6)) + 1e3
X[:, 5] = 0.1
X[labels == 2, 4] = 7.3  # constant in one fold
Y = rng.standard_normal((n, 2)) * (rng.random((n, 2)) < 0.3)
Z = rng.standard_normal((n, 2)) - 5
weights = rng.integers(0, 3, n) * 0.7
APART = [np.flatnonzero(labels == fold) for fold in range(folds)]
OVERLAPPING = [np.arange(700), np.arange(300, 900), np.arange(1000, n)]

KINDS: dict[str, Callable[[Any], Any]] = {
    "array": np.asarray,
    "single": lambda M: M.astype(np.float32),
    "sparse": scipy.sparse.csr_array,
    "slices": lambda M: lambda: (M[i : i + 370] for i in range(0, n, 370)),
    "dask": lambda M: pytest.importorskip("dask.array").from_array(M, chunks=(250, M.shape[1])),
}


def by_hand(M: Any, rows: Any, w: Any) -> tuple[float, Any, Any]:
    """The sum of weights, the means, and the moments about them."""
    M, w = M[rows].astype(np.longdouble), w[rows]
    mean = w @ M / w.sum()
    return w.sum(), mean, (M - mean).T @ ((M - mean) * w[:, None])


def near(found: Any, exact: Any, limit: float) -> bool:
    """Whether moments are near beside the lengths of their columns."""
    lengths = np.sqrt(np.maximum(np.diag(exact), 1e-300))
    return bool(np.abs(found - exact).max() <= limit * np.outer(lengths, lengths).max())


@pytest.mark.parametrize("kind", ["array", "single", "sparse", "slices"])
@pytest.mark.parametrize("weighted", [False, True])
def test_what_does_not_vary_in_a_cell_has_no_squares(kind: str, *, weighted: bool) -> None:
    pre = Preprocessing.of(center=True, weights=weights if weighted else None)
    made = Moments([rows_of(KINDS[kind](X))], pre).cells(APART, n)
    for fold, cell in enumerate(made):
        assert list(np.flatnonzero(cell.variation == 0)) == ([4, 5] if fold == 2 else [5])
    training = reduce(Cell.merged, [cell for fold, cell in enumerate(made) if fold != 3])
    assert list(np.flatnonzero(training.variation == 0)) == [5]


@pytest.mark.parametrize("kind", ["array", "sparse", "slices"])
def test_unions_of_cells_far_from_each_other_keep_their_digits(kind: str) -> None:
    M = rng.standard_normal((n, 3)) + 1e7 * np.array([1.0, -3.0, 0.0]) + 1e5 * (np.arange(n) // 400)[:, None]
    made = Moments([rows_of(KINDS[kind](M))], Preprocessing(center=True)).cells(
        [np.arange(i, i + 400) for i in (0, 400, 800)], n
    )
    for cells, rows in ((made[:1], slice(400)), (made[1:], slice(400, n)), (made, slice(None))):
        cell = reduce(Cell.merged, cells)
        exact = by_hand(M, rows, np.ones(n))[2]
        assert near(cell.gram, exact, 1e-9)
        point = np.full(3, 5.0)
        about = (M[rows] - point).astype(np.longdouble)
        assert near(cell.about(np.zeros(3), point), about.T @ about, 1e-9)


def test_units_do_not_matter_and_some_are_refused() -> None:
    for unit in (1e-55, 1e55):
        made = Moments([rows_of(X * unit)], Preprocessing(center=True)).cells(APART, n)
        assert near(made[0].gram / unit**2, by_hand(X, APART[0], np.ones(n))[2], 1e-12)
    for kind in ("array", "sparse", "slices"):
        with pytest.raises(DataOutOfRange, match="the entries of data, with the roots of their weights"):
            Moments([rows_of(KINDS[kind](Y * 1e-70))], Preprocessing(center=True)).cells(APART, n)


def test_faults_of_rows_and_of_sets_are_said() -> None:
    for kind in ("array", "slices"):
        with pytest.raises(InvalidProblem, match="sets of 1100 rows must be of the rows of data; got 1200"):
            Moments([rows_of(KINDS[kind](X))]).cells([np.arange(1100)], 1100)
    for M, error, said in (
        (np.where(X[3, 2] == X, np.inf, X), NonFiniteData, "data must be finite; got inf at row 3, column 2"),
        (scipy.sparse.linalg.aslinearoperator(X), MissingCapability, "cannot be chosen one by one"),
    ):
        with pytest.raises(error, match=said):
            Moments([rows_of(M)]).cells(APART, n)


@pytest.mark.parametrize("kind", ["array", "sparse", "slices", "dask"])
@pytest.mark.parametrize("center", [True, False])
def test_a_problem_has_its_cells_and_from_all_rows_the_preprocessing_and_gram_matrices(
    kind: str, *, center: bool
) -> None:
    given, pre = KINDS[kind], Preprocessing.of(center=center, weights=weights, confounds=Z, scale=True)
    stated: dict[str, Any] = {"center": center, "sample_weight": weights, "confounds": Z, "scale": True}
    A, exact = X[:, :4], Moments([rows_of(X[:, :4]), rows_of(Y)], pre, scaled=[0])
    problem = ls.LeastSquares(given(A), given(Y), **stated)
    for splitter in (labels, [(OVERLAPPING[0], OVERLAPPING[2])]):
        cells, whole, passes = cells_of(problem, folds_of(splitter, n), diagonal=True)
        assert passes == 1
        assert near(whole.gram[:, :6], by_hand(np.hstack([A, Z, Y]), slice(None), weights)[2][:6, :6], 1e-9)
        assert len(cells) == (5 if splitter is labels else 2)
    moments = Moments([rows_of(M) for M in problem.matrices.values()], pre, scaled=[0])
    _, whole, passes = cells_of(problem, folds_of(labels, n), diagonal=True, moments=moments)
    moments.hold_cell(whole)
    assert (
        moments.passes.count == passes == (2 if kind == "sparse" and not center else 1)
    )  # its means are large
    assert near(moments.gram()[0][0], exact.gram()[0][0], 1e-9)
    np.testing.assert_allclose(moments.cross(), exact.cross(), rtol=1e-8)
    for found, wanted in zip(moments.fitted.values(), exact.fitted.values(), strict=True):
        np.testing.assert_allclose(found.mean + found.rest, wanted.mean + wanted.rest, rtol=1e-12)
        np.testing.assert_allclose(found.slopes, wanted.slopes, rtol=1e-8)
        np.testing.assert_allclose(found.kept, wanted.kept, rtol=1e-8)
    assert moments.passes.count == passes
