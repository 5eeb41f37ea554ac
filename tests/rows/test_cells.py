"""Cells of groups of rows add and subtract to what NumPy computes from the rows themselves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.sparse

import linspec as ls
from linspec._new.operators import as_operator
from linspec.errors import InvalidProblem, MissingCapability
from linspec.rows import Passes, cells_of

rng = np.random.default_rng(0)
n, folds = 1200, 5
labels = rng.integers(0, folds, n)
common = rng.standard_normal((n, 3))
X = common @ rng.standard_normal((3, 6)) + rng.standard_normal((n, 6)) + 1e3
X[:, 5] = 0.1
Y = common @ rng.standard_normal((3, 2)) + rng.standard_normal((n, 2))
Z = rng.standard_normal((n, 2)) + X[:, :1] - 1e3
weights = 3 * rng.random(n)

KINDS: dict[str, Callable[[Any], Any]] = {
    "array": np.asarray,
    "single": lambda M: M.astype(np.float32),
    "sparse": scipy.sparse.csr_array,
    "slices": lambda M: lambda: (M[i : i + 370] for i in range(0, n, 370)),
    "array-api-strict": lambda M: pytest.importorskip("array_api_strict").asarray(M),
}


def by_hand(rows: Any, w: Any, *, center: bool, scale: bool, confounds: bool) -> Any:
    """The Gram matrix of preprocessed rows."""
    M, roots = np.hstack([X, Y])[rows].astype(np.longdouble), np.sqrt(w[rows])[:, None]
    A = M * roots
    taken = [roots] if center else []
    taken += [Z[rows] * roots] if confounds else []
    if taken:
        Q, _ = np.linalg.qr(np.hstack(taken))
        for _ in range(2):
            A = A - Q @ (Q.T @ A)
    squares = np.sum(A**2, axis=0)
    live = squares > 1e-24 * np.sum(M**2, axis=0)
    A = np.where(live, A, 0)
    return (A / np.sqrt(np.where(live, squares, 1) / w[rows].sum()) if scale else A).astype(float)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("weighted", [False, True])
def test_training_rows_are_all_rows_minus_a_fold(kind: str, *, weighted: bool) -> None:
    w, passes = weights if weighted else np.ones(n), Passes()
    matrices = [as_operator(KINDS[kind](M)) for M in (X, Y, Z)]
    cells = cells_of(matrices, labels, weights=w if weighted else None, passes=passes)
    assert passes.count == 1
    every = cells[0]
    for cell in cells[1:]:
        every = every.plus(cell)
    near = 1e-3 if kind == "single" else 1e-7 if kind == "sparse" else 1e-9  # means are a thousand deviations
    for fold in range(folds):
        rows = labels != fold
        for center in (True, False):
            for scale in (True, False):
                for confounds in (True, False):
                    A = by_hand(rows, w, center=center, scale=scale, confounds=confounds)
                    train = every.minus(cells[fold])
                    if not confounds:
                        train = type(train)(train.origin[:8], train.total, train.sums[:8], train.gram[:8, :8])
                    found = train.preprocessed(center=center, scale=scale, confounds=2 if confounds else 0)
                    assert found.total == pytest.approx(w[rows].sum(), rel=1e-13)
                    assert np.abs(found.gram - A.T @ A).max() <= near * np.abs(A.T @ A).max()


def test_ridge_of_training_rows_predicts_as_a_fit_on_them() -> None:
    cells = cells_of([as_operator(X[:, :5]), as_operator(Y)], labels)
    train = cells[1].plus(cells[2]).plus(cells[3]).plus(cells[4])
    moments = train.preprocessed(center=True)
    x = np.linalg.solve(moments.gram[:5, :5] + 2.0 * np.eye(5), moments.gram[:5, 5:])
    rows = labels > 0
    fit = ls.solve(ls.LeastSquares(X[rows, :5], Y[rows], ridge=2.0, center=True), "direct")
    assert np.abs(x - fit.x).max() <= 1e-10
    assert moments.mean == pytest.approx(np.hstack([X[rows, :5], Y[rows]]).mean(axis=0), rel=1e-13)


def test_rows_that_come_later_are_about_another_row() -> None:
    zeros = np.zeros(400, int)
    parts = [cells_of([as_operator(X[i : i + 400] + i)], zeros)[0] for i in (0, 400, 800)]
    assert not np.array_equal(parts[0].origin, parts[1].origin)
    every = parts[0].plus(parts[1]).plus(parts[2])
    M = X + np.repeat([0, 400, 800], 400)[:, None]
    M = M - M.mean(axis=0)
    found = every.preprocessed(center=True).gram
    assert np.abs(found - M.T @ M).max() <= 1e-12 * np.abs(M.T @ M).max()
    back = every.minus(parts[1]).minus(parts[2]).preprocessed(center=True).gram
    one = parts[0].preprocessed(center=True).gram
    assert np.abs(back - one).max() <= 1e-11 * np.abs(M.T @ M).max()


def test_counts_of_a_bootstrap_are_factors() -> None:
    cells = cells_of([as_operator(X)], np.arange(n) // 100)
    drawn = cells[3].plus(cells[5], 2.0).plus(cells[7], 3.0)
    rows = np.concatenate([np.arange(300, 400), *[np.arange(500, 600)] * 2, *[np.arange(700, 800)] * 3])
    M = X[rows] - X[rows].mean(axis=0)
    assert np.abs(drawn.preprocessed(center=True).gram - M.T @ M).max() <= 1e-9 * np.abs(M.T @ M).max()


def test_what_cannot_be_done_is_refused() -> None:
    with pytest.raises(InvalidProblem, match="one for each of 1200 rows; got 1100"):
        cells_of([as_operator(X)], labels[:1100])
    cells = cells_of([as_operator(X)], labels)
    with pytest.raises(InvalidProblem, match="some rows must count"):
        cells[0].minus(cells[0]).preprocessed(center=True)
    with pytest.raises(MissingCapability, match="cannot be chosen one by one"):
        cells_of([as_operator(scipy.sparse.linalg.aslinearoperator(X))], labels)
