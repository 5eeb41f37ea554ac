"""Runners of a task over all rows: threads for rows in memory, a loop for slices, an engine for distributed blocks.

Problem: a computation over rows does not depend on where the rows are, and is written once, as a task.
Method: `swept` chooses the runner by the access of the views. With each runner, parts are merged by a fixed tree over
the numbers of blocks, or in the order of the slices: the same data give the same bits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from linspec.errors import InvalidProblem
from linspec.operators.row_model import PLAIN, RowModel
from linspec.sweeps.blocks import map_reduce
from linspec.sweeps.in_memory import row_slices, run_in_memory
from linspec.sweeps.slices import as_many_blocks
from linspec.sweeps.task import Task
from linspec.sweeps.views import View

Part = TypeVar("Part")


def swept(
    task: Task[Part],
    views: Sequence[View],
    columns: int = 0,
    *,
    model: RowModel = PLAIN,
    check: Callable[[Task[Part], Part, bool], None] | None = None,
    threads: bool = True,
) -> Part:
    """Run a task over all rows of some views, in one sweep.

    Parameters
    ----------
    task : Task
    views : sequence of View
        Views with equally many rows. Their adjustments are not applied.
    columns : int, default 0
        The number of columns of the products that a part holds.
    model : RowModel, optional
        The weights and confounds of the rows. Slices must together have as many rows as the model.
    check : callable, optional
        check(task, part, gone) raises an error if a part is wrong. For slices it is called after each slice, with the
        part of the rows so far and gone = True: after the call, the rows of the slice may not be readable again. For
        all other rows it is called once, with the part of all rows and gone = False.
    threads : bool, default True
        Whether rows of this process are shared among several threads. If False, all rows are added to one part, which
        suits tasks with large parts.
    """
    operators = [view.operator for view in views]
    if any(A.access == "blocks" for A in operators):
        part = map_reduce(task, operators, columns)
        if check is not None:
            check(task, part, False)
        return part
    if not any(A.streamed for A in operators):
        part = run_in_memory(task, operators, row_slices(operators, columns), threads=threads)
        if check is not None:
            check(task, part, False)
        return part
    found: Part | None = None
    for start, blocks in as_many_blocks(views, model):
        if threads:
            more = run_in_memory(task, blocks, row_slices(blocks, columns), start)
            found = more if found is None else task.merge(found, more)
        else:
            found = task.part(blocks, start, found)
        if check is not None:  # while the block is there: rows that are read once cannot be searched later
            check(task, found, True)
    if found is None:
        names = " and ".join(view.name for view in views)
        raise InvalidProblem(f"{names} must have rows; got no slice that has any. Pass slices with rows.")
    return found
