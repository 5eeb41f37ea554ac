"""Moments of unions of sets of rows, and what does not vary in them."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np
import pytest
import scipy.sparse
import scipy.sparse.linalg
from in_blocks import rows_of

from linspec.errors import InvalidProblem, MissingCapability
from linspec.rows import Cell, Moments, Preprocessing

rng = np.random.default_rng(0)
n, folds = 1200, 5
labels = rng.integers(0, folds, n)
APART = [np.flatnonzero(labels == fold) for fold in range(folds)]
KINDS: dict[str, Callable[[Any], Any]] = {
    "array": np.asarray,
    "sparse": scipy.sparse.csr_array,
    "slices": lambda M: lambda: (M[i : i + 370] for i in range(0, n, 370)),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("weighted", [False, True])
def test_what_does_not_vary_in_a_cell_has_no_squares(kind: str, dtype: Any, *, weighted: bool) -> None:
    X = rng.standard_normal((n, 6)) + 1e3
    X[:, 5] = 0.1
    X[labels == 2, 4] = 7.3
    pre = Preprocessing.of(center=True, weights=rng.integers(0, 3, n) * 0.7 if weighted else None)
    made = Moments([rows_of(KINDS[kind](X.astype(dtype)))], pre).cells(APART, n)
    for fold, cell in enumerate(made):
        assert list(np.flatnonzero(cell.variation == 0)) == ([4, 5] if fold == 2 else [5])
    training = reduce(Cell.merged, [cell for fold, cell in enumerate(made) if fold != 3])
    assert list(np.flatnonzero(training.variation == 0)) == [5]


@pytest.mark.parametrize("kind", KINDS)
def test_unions_of_cells_far_from_each_other_keep_their_digits(kind: str) -> None:
    M = rng.standard_normal((n, 3)) + 1e7 * np.array([1.0, -3.0, 0.0]) + 1e5 * (np.arange(n) // 400)[:, None]
    sets = [np.arange(i, i + 400) for i in (0, 400, 800)]
    made = Moments([rows_of(KINDS[kind](M))], Preprocessing(center=True)).cells(sets, n)
    for cells, rows in ((made[:1], slice(400)), (made[1:], slice(400, n)), (made, slice(None))):
        cell, wide = reduce(Cell.merged, cells), M[rows].astype(np.longdouble)
        centred, about = wide - wide.mean(axis=0), wide - 5
        for found, Z in ((cell.gram, centred), (cell.about(np.zeros(3), np.full(3, 5.0)), about)):
            assert np.abs(found - Z.T @ Z).max() <= 1e-9 * np.sum(Z**2, axis=0).max()


def test_sets_of_other_rows_or_of_data_without_rows_are_refused() -> None:
    X = rng.standard_normal((n, 3))
    for kind in ("array", "slices"):
        with pytest.raises(InvalidProblem, match="sets of 1100 rows must be of the rows of data; got 1200"):
            Moments([rows_of(KINDS[kind](X))]).cells([np.arange(1100)], 1100)
    with pytest.raises(MissingCapability, match="cannot be chosen one by one"):
        Moments([rows_of(scipy.sparse.linalg.aslinearoperator(X))]).cells(APART, n)
