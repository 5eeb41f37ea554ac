"""Search of the data for the first entry that is not finite, to name it in the message if results are not finite."""

from __future__ import annotations

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
    if not isinstance(A, StreamedOperator):
        return _first_in(A)
    start, blocks = 0, iter(()) if A.spent else A.blocks()
    if A.current is not None:
        start, block = A.current
        blocks = iter([block])
    for block in blocks:
        found = _first_in(block)
        if found is not None:
            return (start + found[0], *found[1:])
        start += block.shape[0]
    return None
