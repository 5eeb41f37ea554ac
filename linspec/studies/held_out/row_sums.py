"""The moments of sets of rows, computed for all sets in one sweep and merged.

Problem: cross-validation needs the moments of the training rows and of the held-out rows of every split.
Method: one sweep computes the moments of each cell of rows (`linspec.studies.held_out.folds`), by the task of
`linspec.sweeps.cell_sums`. Moments of unions are merged from those of cells; for k folds, each training set is a prefix
and a suffix of the cells.
Where we differ: subtracting the moments of the fold from those of all rows would take fewer merges, but loses all
digits by which the fold is larger than the other rows. So no moments are subtracted here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from linspec import cost
from linspec.arrays import HostArray, to_host
from linspec.errors import InvalidProblem, MissingCapability, NonFiniteData
from linspec.operators import LinearOperator, SparseOperator
from linspec.operators.largest_entry import magnitude_of
from linspec.operators.range_of_entries import ORDINARY, check_magnitude
from linspec.operators.row_model import RowModel
from linspec.studies.held_out.folds import Folds
from linspec.sweeps.blocks import map_reduce
from linspec.sweeps.cell_sums import CellPart, CellRows, CellSums, RowSums
from linspec.sweeps.finite import explain_non_finite, first_non_finite
from linspec.sweeps.first_sweep import Measured, Sizes
from linspec.sweeps.runners import swept
from linspec.sweeps.views import View


def bytes_held(columns: int, folds: Folds) -> float:
    """Bytes of memory for the moments of all cells and for merging them."""
    return 8.0 * columns**2 * (2 * len(folds.cells) + 6)


def training_and_held_out(cells: Sequence[RowSums], folds: Folds) -> Iterator[tuple[RowSums, RowSums]]:
    """Yield, for each split, the moments of its training rows and of its held-out rows, merged from those of cells.

    Parameters
    ----------
    cells : sequence of RowSums
        Those of `linspec.Moments.cell_sums` for the cells of the folds.
    folds : Folds
        The result of `folds_of`.

    Examples
    --------
    >>> import numpy as np
    >>> import linspec as ls
    >>> from linspec.studies import folds_of, training_and_held_out
    >>> A, folds = np.arange(6.0)[:, None], folds_of([0, 0, 1, 1, 2, 2], rows=6)
    >>> cells, _ = ls.Moments(A).cell_sums(folds.cells, folds.rows)
    >>> pairs = training_and_held_out(cells, folds)
    >>> [(training.origin + training.mean, held_out.count) for training, held_out in pairs]
    [(array([3.5]), 2.0), (array([2.5]), 2.0), (array([1.5]), 2.0)]
    """
    if folds.complements and len(cells) > 2:
        yield from _all_but_one(cells)
        return
    for training, held_out in zip(folds.training, folds.held_out, strict=True):
        yield _union(cells, training), _union(cells, held_out)


def union(cells: Sequence[RowSums]) -> RowSums:
    """The moments of the union of all cells."""
    return _union(cells, range(len(cells)))


def _union(cells: Sequence[RowSums], numbers: Sequence[int]) -> RowSums:
    total = cells[numbers[0]]
    for number in numbers[1:]:
        total = total.merged(cells[number])
    return total


def _all_but_one(cells: Sequence[RowSums]) -> Iterator[tuple[RowSums, RowSums]]:
    """Yield, for each cell, the moments of the union of all other cells, and the moments of the cell."""
    behind = [cells[-1]]
    for cell in reversed(cells[1:-1]):
        behind.append(cell.merged(behind[-1]))
    before: RowSums | None = None
    for cell in cells:
        rest = behind.pop() if behind else None
        parts = [part for part in (before, rest) if part is not None]
        yield (parts[0] if len(parts) == 1 else parts[0].merged(parts[1])), cell
        before = cell if before is None else before.merged(cell)


# ---- the sweep ------------------------------------------------------------------------------------------------------


def gathered(problem: Any, folds: Folds) -> list[RowSums]:
    """Compute the moments of every cell of rows in one sweep over the matrices of a problem.

    Parameters
    ----------
    problem : Problem
        Its matrices, `sample_weight` and `confounds` are used.
    folds : Folds

    Returns
    -------
    list of RowSums
        The moments of each cell, for all columns of the matrices in the order of the problem, followed by the
        confounds.

    Raises
    ------
    MissingCapability
        If a matrix is known only by its products.
    InvalidProblem
        If the number of rows is not that of the splits.
    NonFiniteData
        If an entry is not finite, or a sum overflows.
    """
    views = [View(name, A) for name, A in problem.matrices.items()]
    by_products = [view for view in views if not (view.streamed or view.operator.access == "rows")]
    if by_products:
        raise MissingCapability(
            f"cross-validation needs rows that can be taken; got {by_products[0].given!r} for {by_products[0].name}. "
            "Pass an array, a sparse matrix, a file or slices."
        )
    model = CellRows(folds.rows, folds.cells, problem.sample_weight, problem.confounds)
    home, about = views[0].given.home.blocks, [view.adjustment.row for view in views]
    task = CellSums(home, about, _by_pairs(views), model)
    with np.errstate(all="ignore"):  # the check finds entries that are not finite
        part, seen = _swept(task, views, RowModel(center=False, weights=problem.sample_weight))
    if seen != folds.rows:
        names = " and ".join(view.name for view in views)
        raise InvalidProblem(f"the splits must be of the rows of {names}; got {folds.rows} for {seen} rows.")
    cells = [part[number].finished() for number in range(len(folds.cells))]
    _check_sizes(views, union(cells), problem.sample_weight)
    return cells


def _check_sizes(views: Sequence[View], total: RowSums, weights: HostArray | None) -> None:
    """Raise if the largest entry of a matrix is out of range; read rows again only if column norms are extreme."""
    squares, start = total.squares + total.count * (total.origin + total.mean) ** 2, 0
    for view in views:
        A, stop = view.operator, start + view.operator.shape[1]
        size = float(np.sqrt(np.max(squares[start:stop], initial=0.0)))
        start = stop
        if (view.streamed and view.measured) or 1 / ORDINARY <= size <= ORDINARY:
            continue
        if A.access == "blocks":
            found = map_reduce(Sizes(RowModel(center=False, weights=weights)), [A])[0]
        else:
            found = magnitude_of(A, None if weights is None else A.home.blocks.place(np.sqrt(weights)))
            A.release()
        check_magnitude(view.name, found)


def _swept(task: CellSums, views: list[View], model: RowModel) -> tuple[dict[int, CellPart], int]:
    """Run the task over all rows, in this process or in those that hold the blocks of rows.

    Return the moments by the index of the cell, and the number of rows of the first matrix. If the number of rows in
    memory or in files is not that of the splits, no row is read, and there are no moments.
    """
    operators = [view.operator for view in views]
    named = {view.name: view.operator for view in views}
    streamed = any(view.streamed for view in views) and not any(A.access == "blocks" for A in operators)
    if not streamed and min(A.shape[0] for A in operators) != task.model.rows:
        return {}, int(operators[0].shape[0])
    measured = Measured(
        task, tuple(named), tuple(streamed for _ in views), tuple(False for _ in views), model
    )
    found = swept(
        measured,
        views,
        sum(A.shape[1] for A in operators) * len(task.model.cells),
        model=model,
        check=lambda _, part, __: _check(task, part.part, named),
        threads=False,
    )
    for view, size in zip(views, found.sizes if streamed else (), strict=False):
        check_magnitude(view.name, size)
        view.measured = True
    return found.part, int(operators[0].shape[0])


def _check(task: CellSums, part: dict[int, CellPart], named: Mapping[str, LinearOperator]) -> None:
    """Raise if sums are not finite; the message names the entry that is the cause."""
    if all(np.isfinite(float(to_host(task.home.xp.sum(array)))) for array in task.looked_at(part)):
        return
    if any(first_non_finite(A) for A in named.values()):
        raise NonFiniteData(explain_non_finite(named))
    raise NonFiniteData(f"the squares of {' and '.join(named)} overflow. Scale the columns.")


def _by_pairs(views: Sequence[View]) -> bool:
    """Whether Gram matrices of sparse rows are formed by sparse products."""
    operators = [view.operator for view in views]
    in_blocks = [A.access == "blocks" and A.sparse for A in operators]
    sparse = all(in_blocks) or all(isinstance(A, SparseOperator) for A in operators)
    if not sparse or any(view.adjustment.row is not None for view in views):
        return False
    return cost.sparse_gram_is_cheaper(cost.sizes_of(operators, 1))
