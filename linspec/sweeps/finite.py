"""Search of the data for the first entry that is not finite, to name it in the message if results are not finite."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from linspec.arrays import to_host
from linspec.operators import (
    DenseOperator,
    LinearOperator,
    SparseOperator,
    StreamedOperator,
    sparse_columns,
    uncounted,
)
from linspec.operators.column_statistics import without_offset
from linspec.operators.row_blocks import row_blocks
from linspec.sweeps.blocks import map_reduce
from linspec.sweeps.task import Task

Found = dict[int, tuple[int, int, float]]
"""For the index of each view with an entry that is not finite: row, column and value of the first one."""


@dataclass(frozen=True)
class FirstNonFinite(Task[Found]):
    """Task that finds, in every view, the first entry that is not finite: its row, column and value."""

    def part(self, rows: Sequence[LinearOperator], first_row: int = 0, into: Found | None = None) -> Found:
        """Search some rows of those views that have no result in `into` yet."""
        found = {} if into is None else into
        for i, A in enumerate(rows):
            if i not in found and (entry := _first_in(A)) is not None:
                found[i] = (first_row + entry[0], *entry[1:])
        return found

    def merge(self, left: Found, right: Found) -> Found:
        """For each view, keep the entry of `left` if it has one, else that of `right`."""
        return {**right, **left}


def _first_in(A: LinearOperator) -> tuple[int, int, float] | None:
    """The first entry that is not finite, as (row, column, value); None if all are finite or A is not readable."""
    A, _ = without_offset(A)
    if isinstance(A, SparseOperator):
        return sparse_columns.first_non_finite(A.matrix)
    if not A.readable:
        return None
    A = A if A.access == "rows" else DenseOperator(A.dense())
    for rows in row_blocks(A.shape[0], 8 * A.shape[1], A.home):
        block = A.rows(rows)
        entries = to_host(block.stored())
        bad = np.argwhere(~np.isfinite(entries)) if entries.dtype.kind == "f" else np.empty((0, 2), dtype=int)
        if len(bad):
            i, j = bad[0]
            return rows.start + int(i), int(j), float(entries[i, j])
        A.release()
    return None


def first_non_finite(A: LinearOperator) -> tuple[int, int, float] | None:
    """Row, column and value of the first entry that is not finite; None if all are finite or A is not readable.

    In a stream, only the block that is being read is searched. If no block is being read, all blocks are searched, if
    they can be read again.
    """
    A, _ = without_offset(uncounted(A)[0])
    task = FirstNonFinite()
    if A.access == "blocks":
        return map_reduce(task, [A]).get(0)
    if not isinstance(A, StreamedOperator):
        return task.part([A]).get(0)
    if A.current is not None:
        start, block = A.current
        return task.part([block], start).get(0)
    found: Found = {}
    start = 0
    for block in () if A.spent else A.blocks():
        found = task.part([block], start, found)
        if found:
            break
        start += block.shape[0]
    return found.get(0)


def explain_non_finite(views: Mapping[str, LinearOperator]) -> str:
    """Search the views for the entry that explains results that are not finite, and return the message."""
    for name, operator in views.items():
        found = first_non_finite(operator)
        if found is not None:
            row, column, value = found
            return (
                f"{name} must be finite; got {value} at row {row}, column {column}. Drop or impute such rows."
            )
    return (
        f"products with {' and '.join(views)} are not finite, although no entry that can be read is at fault. "
        "Either they overflow: scale the columns, or pass float64. Or matmat or rmatmat of an operator answers "
        "with NaN or infinity: try it on one column of ones."
    )
