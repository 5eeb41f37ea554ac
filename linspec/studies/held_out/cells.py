"""The moments of sets of rows, computed for all sets in one pass and merged.

Problem: cross-validation needs the moments of the training rows and of the held-out rows of every split.
Method: one pass computes the moments of each cell of rows (`linspec.studies.held_out.folds`), by `linspec.rows.cells`.
Moments of unions are merged from those of cells; for k folds, each training set is a prefix and a
suffix of the cells.
Where we differ: subtracting the moments of the fold from those of all rows would take fewer merges, but loses all
digits by which the fold is larger than the other rows. So no moments are subtracted here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import reduce
from itertools import accumulate
from typing import Any

import numpy as np

from linspec.errors import MissingCapability
from linspec.rows import Cell, Moments, Preprocessing
from linspec.solving.stating import with_values
from linspec.studies.held_out.folds import Folds


def bytes_held(columns: int, folds: Folds) -> float:
    """Bytes of memory for the moments of all cells and for merging them."""
    return 8.0 * columns**2 * (2 * len(folds.cells) + 6)


def training_and_held_out(cells: Sequence[Cell], folds: Folds) -> Iterator[tuple[Cell, Cell]]:
    """Yield, for each split, the moments of its training rows and of its held-out rows, merged from those of cells.

    Parameters
    ----------
    cells : sequence of Cell
        Those of the folds, from `cells_of`.
    folds : Folds
        The result of `folds_of`.

    Examples
    --------
    >>> import numpy as np
    >>> import linspec as ls
    >>> from linspec.studies import cells_of, folds_of, training_and_held_out
    >>> A, folds = np.arange(6.0)[:, None], folds_of([0, 0, 1, 1, 2, 2], rows=6)
    >>> cells, _, _ = cells_of(ls.SVD(A, 1), folds)
    >>> pairs = training_and_held_out(cells, folds)
    >>> [(training.origin + training.mean, held_out.count) for training, held_out in pairs]
    [(array([3.5]), 2.0), (array([2.5]), 2.0), (array([1.5]), 2.0)]
    """
    if folds.complements and len(cells) > 2:
        yield from _all_but_one(cells)
        return
    for training, held_out in zip(folds.training, folds.held_out, strict=True):
        yield (
            reduce(Cell.merged, (cells[i] for i in training)),
            reduce(Cell.merged, (cells[i] for i in held_out)),
        )


def _all_but_one(cells: Sequence[Cell]) -> Iterator[tuple[Cell, Cell]]:
    """Yield, for each cell, the moments of the union of all other cells, and the moments of the cell."""
    behind = [[total] for total in accumulate(reversed(cells[1:]), lambda total, cell: cell.merged(total))]
    before: list[Cell] = []  # the union of the cells so far; none at first
    for cell, after in zip(cells, [*reversed(behind), []], strict=True):
        yield reduce(Cell.merged, [*before, *after]), cell
        before = [reduce(Cell.merged, [*before, cell])]


def with_orthogonal_confounds(problem: Any) -> Any:
    """Return the problem, as `given` of a problem with confounds that span the same and are orthonormal over all rows.

    Gram matrices square the condition number of confounds, and hide what large means leave of them.
    """
    if problem.confounds is None:
        return problem
    asked = {"weights": problem.sample_weight, "confounds": problem.confounds}
    pre = Preprocessing.of(center=bool(problem.center), **asked)
    return with_values(problem, confounds=pre.B, given=problem)


def cells_of(
    problem: Any, folds: Folds, *, diagonal: bool = False, moments: Moments | None = None
) -> tuple[list[Cell], Cell, float]:
    """Compute the moments of every cell of rows, and of all rows, usually in one pass over the matrices of a problem.

    Parameters
    ----------
    problem : Problem
        Its matrices, `sample_weight` and `confounds` are used.
    folds : Folds
    diagonal : bool, default False
        Whether products of the last matrix with itself are left out, but for squares: for very many columns.
    moments : Moments, optional
        Those of the rows of a solver, which count the pass; confounds are then their basis. By default the matrices
        are read apart.

    Returns
    -------
    cells : list of Cell
        Columns are those of the matrices and then of the confounds; those of a matrix beside follow the confounds.
    whole : Cell
        The moments of all rows.
    passes : float
        The passes that this took.

    Raises
    ------
    MissingCapability
        A matrix is known only by its products.
    InvalidProblem
        The data have another number of rows.
    DataOutOfRange
        Entries are out of the range in which no product over- or underflows.
    NonFiniteData
        An entry is not finite.

    Examples
    --------
    >>> import numpy as np
    >>> import linspec as ls
    >>> from linspec.studies import cells_of, folds_of
    >>> problem = ls.SVD(np.array([[1.0], [3.0], [5.0]]), 1)
    >>> (first, second), whole, passes = cells_of(problem, folds_of([0, 0, 1], rows=3))
    >>> first.count, first.origin + first.mean, first.gram, whole.gram
    (2.0, array([2.]), array([[2.]]), array([[8.]]))
    """
    by_products = [name for name, A in problem.matrices.items() if not (A.streamed or A.access == "rows")]
    if by_products:
        raise MissingCapability(
            f"cross-validation needs rows that can be taken; got {problem.matrices[by_products[0]]!r} for "
            f"{by_products[0]}. Pass an array, a sparse matrix, a file or slices."
        )
    if moments is None:
        rows = [A.in_blocks(name) for name, A in problem.matrices.items()]
        pre = Preprocessing.of(center=True, weights=problem.sample_weight)
        moments = Moments(rows, replace(pre, B=problem.confounds), names=tuple(problem.matrices))
    partition = (np.bincount(np.concatenate(folds.cells), minlength=folds.rows) == 1).all()
    every = [] if partition else [np.arange(folds.rows)]
    cells = moments.cells([*folds.cells, *every], folds.rows, diagonal=diagonal)
    whole = reduce(Cell.merged, cells) if partition else cells.pop()
    return cells, whole, moments.passes.count
