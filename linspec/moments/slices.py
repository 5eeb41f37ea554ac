"""Views of which at least one comes slice by slice: all is made in one sweep of the slices, centred or not.

Problem: an iterator of slices is read once, so means cannot be learnt before the products are made; and the slices of
two views need not end at the same rows.
Method: the slices are cut again where those of any view end, and every block of rows goes through the same tasks as
data in memory, which tell the means as well. Rows of a view in memory are cut out beside the slices of another.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import zip_longest
from typing import Any, TypeVar

import numpy as np

from linspec import cost
from linspec.arrays import Array
from linspec.errors import InvalidProblem
from linspec.moments.row_sweeps import RowSweeps
from linspec.operators import LinearOperator, uncounted
from linspec.operators.column_statistics import ColumnStatistics
from linspec.operators.row_model import RowModel
from linspec.sweeps.gram_matrices import GramMatrices
from linspec.sweeps.held_grams import HeldGram
from linspec.sweeps.products import FusedProducts, Request, Sums
from linspec.sweeps.runners import row_slices, run_in_memory
from linspec.sweeps.task import Task
from linspec.sweeps.views import View
from linspec.sweeps.witness import Witness, witness

Part = TypeVar("Part")


class SliceSweeps(RowSweeps):
    """The means come with the first sweep, whatever it makes."""

    streamed = True
    exact_norms = True
    gram_cost = 1.0

    def _before(self) -> list[View]:
        return [view for view in self.views if view.unlearnt and view.scales]

    def _request(self, blocks: list[Array | None], onto: tuple[int, ...] = (0, 1)) -> Request:
        """Without probes: column norms are gathered from the rows."""
        return Request(blocks, [None, None], self.home, onto)

    def _summed(self, request: Request, image: int = 0) -> Sums:
        """One sweep of products; the views learn their means from the first."""
        unknown = any(view.mean is None for view in self.views)
        center = self.center and unknown
        task = FusedProducts(
            request,
            self.home,
            about=[None if center else view.taken for view in self.views],
            center=center,
            means=unknown,
            statistics=tuple(i for i, view in enumerate(self.views) if self._wants_norms(view)),
            image=image,
            model=self.model,
        )
        found = self.run(task, request.columns)
        self._learn(found)
        return found

    def _wants_norms(self, view: View) -> bool:
        """Whether column norms are gathered: methods for two views ask for them, and the warning of sparse rows."""
        request = len(self.views) > 1 or (self.center and view.operator.sparse)
        return (request or view.unlearnt) and view.squares is None

    def _gram(self, form: str, sizes: Callable[[], cost.Sizes]) -> HeldGram:
        unknown = any(view.mean is None for view in self.views)
        center = self.center and unknown
        about = [None if center else view.taken for view in self.views]
        task = GramMatrices(self.home, about, center=center, means=unknown, model=self.model)
        whole, lacking = self._looking(task)
        made: Any = None
        for start, operators in as_many_blocks(self.views, self.model):
            made = whole.part(operators, start, made)  # in one place: such matrices may be large
            # While the block is there: rows that are read once cannot be searched afterwards.
            self._check(whole, made, always=True)
        part = self._looked(lacking, self._there(made))
        for view in self.views:
            view.record(0, sum(self.widths), sweeps=1.0)
        return self._corrected_gram(task, part)

    def _run(self, task: Task[Part], columns: int) -> Part:
        """A task over all slices: each block on the threads of rows in memory, and merged with those before."""
        part: Part | None = None
        for start, operators in as_many_blocks(self.views, self.model):
            more = run_in_memory(task, operators, row_slices(operators, columns), start)
            part = more if part is None else task.merge(part, more)
            # While the block is there: rows that are read once cannot be searched afterwards.
            self._check(task, part, always=True)
        return self._there(part)

    def _there(self, part: Part | None) -> Part:
        if part is None:
            raise InvalidProblem(
                f"{self.names} must have rows; got no slice that has any. Pass slices with rows."
            )
        return part


def as_many_blocks(views: Sequence[View], model: RowModel) -> Iterator[tuple[int, list[LinearOperator]]]:
    """`common_blocks`, of as many rows as have weights or confounds.

    Raises
    ------
    InvalidProblem
        When there are more rows than that, or fewer.
    """
    seen, given = 0, model.rows
    for start, operators in common_blocks(views):
        seen = start + operators[0].shape[0]
        if seen > given:
            break
        yield start, operators
    if given not in (math.inf, seen):
        names = " and ".join(view.name for view in views)
        what = "sample_weight" if model.weights is not None else "confounds"
        more = f"at least {seen}" if seen > given else f"{seen}"
        raise InvalidProblem(f"{what} must have a row for each of {names}; got {given:g} for {more} rows.")


def common_blocks(views: Sequence[View]) -> Iterator[tuple[int, list[LinearOperator]]]:
    """The rows of views side by side, cut where a slice of any of them ends, and the number of the first of each block.

    A block holds until the next is asked for.

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
    """Where in the slices of a view a sweep is."""

    def __init__(self, view: View) -> None:
        self._blocks: Iterator[LinearOperator] = view.operator.blocks()
        self._block: Any = None
        self._next = 0

    def left(self) -> int:
        """Rows of the slice that have not been taken; 0 at the end."""
        if self._block is None or self._next == self._block.shape[0]:
            self._block, self._next = next(self._blocks, None), 0
        return 0 if self._block is None else int(self._block.shape[0]) - self._next

    def taken(self, rows: int) -> LinearOperator:
        """The next rows."""
        start, self._next = self._next, self._next + rows
        whole = rows == self._block.shape[0]
        found: LinearOperator = self._block if whole else self._block.rows(slice(start, self._next))
        return found


class _InMemory:
    """The same for rows that can be cut out."""

    def __init__(self, view: View) -> None:
        self._operator, self._next = view.operator, 0

    def left(self) -> int:
        """All that have not been taken."""
        return int(self._operator.shape[0]) - self._next

    def taken(self, rows: int) -> LinearOperator:
        """The next rows."""
        start, self._next = self._next, self._next + rows
        found: LinearOperator = self._operator.rows(slice(start, self._next))
        return found


def read_streams(
    streams: Sequence[LinearOperator], *, statistics: bool, witnesses: bool = False
) -> list[Witness | None]:
    """Read streamed data once to count their rows and, if they are wanted, to gather means and spreads.

    Returns what identifies the rows, if that is wanted.
    """
    gathered = [ColumnStatistics(A.home.blocks) if statistics else None for A in streams]
    seen: list[Witness | None] = [None for _ in streams]
    firsts = [0 for _ in streams]
    with np.errstate(all="ignore"):  # what is not finite is found by the products
        # By turns, so that halves of one source share a reading.
        for blocks in zip_longest(*(A.blocks() for A in streams)):
            for i, (found, block) in enumerate(zip(gathered, blocks, strict=True)):
                if block is None:
                    continue
                bare, before = uncounted(block)[0], seen[i]
                if found is not None:
                    found.add(bare)
                if witnesses:
                    own = witness(bare, firsts[i])
                    seen[i], firsts[i] = (
                        own if before is None else before.plus(own),
                        firsts[i] + bare.shape[0],
                    )
    for A, found in zip(streams, gathered, strict=True):
        uncounted(A)[0].statistics = found
    return [None if one is None else one.on_host() for one in seen]
