"""Common slices of the rows of several views.

Problem: the slices of two views need not end at the same rows, and one view may be in memory while another is streamed.
Method: slices are cut again where a slice of any view ends. Rows in memory are cut at the same rows.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

from linspec.errors import InvalidProblem
from linspec.operators import LinearOperator
from linspec.operators.row_model import RowModel
from linspec.sweeps.views import View


def as_many_blocks(views: Sequence[View], model: RowModel) -> Iterator[tuple[int, list[LinearOperator]]]:
    """Yield the results of `common_blocks`, and check that their rows are as many as the weights or confounds.

    Raises
    ------
    InvalidProblem
        When there are more or fewer rows than weights or confounds.
    """
    seen, given = 0, model.rows
    for start, operators in common_blocks(views):
        seen = start + operators[0].shape[0]
        if seen > given:
            break
        yield start, operators
    if given not in (math.inf, seen):
        names = " and ".join(view.name for view in views)
        more = f"at least {seen}" if seen > given else f"{seen}"
        raise InvalidProblem(
            f"{model.source} must have a row for each of {names}; got {given:g} for {more} rows."
        )


def common_blocks(views: Sequence[View]) -> Iterator[tuple[int, list[LinearOperator]]]:
    """Yield (number of the first row, the same rows of every view), cut where a slice of any view ends.

    The operators are valid until the next ones are requested.

    Raises
    ------
    InvalidProblem
        When one view ends before another.
    """
    cursors = [_Slices(view) if view.streamed else _InMemory(view) for view in views]
    start = 0
    while True:
        left = [cursor.left() for cursor in cursors]
        if 0 in left:
            break
        rows = min(left)
        yield start, [cursor.taken(rows) for cursor in cursors]
        start += rows
    longer = [view.name for view, rows in zip(views, left, strict=True) if rows > 0]
    if longer:
        ended = " and ".join(view.name for view, rows in zip(views, left, strict=True) if rows == 0)
        raise InvalidProblem(
            f"{ended} and {' and '.join(longer)} must have equally many rows; {ended} ended after {start}, and "
            f"{' and '.join(longer)} goes on. Pass the same rows of both."
        )


class _Slices:
    """The position of a sweep in the slices of a view."""

    def __init__(self, view: View) -> None:
        self._blocks: Iterator[LinearOperator] = view.operator.blocks()
        self._block: Any = None
        self._next = 0

    def left(self) -> int:
        """Number of rows of the current slice that `taken` has not returned yet; 0 at the end of the view."""
        if self._block is None or self._next == self._block.shape[0]:
            self._block, self._next = next(self._blocks, None), 0
        return 0 if self._block is None else int(self._block.shape[0]) - self._next

    def taken(self, rows: int) -> LinearOperator:
        """Return the next rows as an operator."""
        start, self._next = self._next, self._next + rows
        whole = rows == self._block.shape[0]
        found: LinearOperator = self._block if whole else self._block.rows(slice(start, self._next))
        return found


class _InMemory:
    """The position of a sweep in the rows of a view in memory."""

    def __init__(self, view: View) -> None:
        self._operator, self._next = view.operator, 0

    def left(self) -> int:
        """Number of rows that `taken` has not returned yet."""
        return int(self._operator.shape[0]) - self._next

    def taken(self, rows: int) -> LinearOperator:
        """Return the next rows as an operator."""
        start, self._next = self._next, self._next + rows
        found: LinearOperator = self._operator.rows(slice(start, self._next))
        return found
