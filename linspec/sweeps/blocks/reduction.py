"""One task over the rows of several matrices, of which at least one lies in blocks.

Problem: a sweep is one task and its merge (`linspec.sweeps.task`), whoever runs it.
Method: runs of blocks are cut by sizes alone, each is gone through in one place, and the parts are merged by a fixed
tree over the numbers of the runs. The same data in the same blocks give the same bits with every engine and any number
of workers, on processors of one kind. One call is one round of the cluster; time and interrupts are looked at before
it, and by engines that wait. Weights of rows and confounds lie beside the blocks, each block with its own, and the task
goes without them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypeVar

from linspec.operators import LinearOperator
from linspec.operators.row_model import OfRows
from linspec.process.pauses import pause
from linspec.sweeps.blocks.engine import Call
from linspec.sweeps.blocks.readings import Reading
from linspec.sweeps.blocks.runs import Merged, OverRun, cut_into_runs
from linspec.sweeps.task import Task

Part = TypeVar("Part")


def map_reduce(task: Task[Part], operators: Sequence[LinearOperator], columns: int = 0) -> Part:
    """What a task makes of all rows.

    Parameters
    ----------
    task : Task
        It can be pickled.
    operators : sequence of LinearOperator
        With equally many rows. The first that lies in blocks says how the others are cut.
    columns : int, default 0
        The columns of an array as wide as a row that a part holds: runs are larger than it.

    Returns
    -------
    Part
        In this process.

    Raises
    ------
    DataLost
        A block is gone.
    """
    leader, work, calls = planned(task, operators, columns)
    pause()
    found: Part = leader.engine.reduce(work, calls, Merged(work.task.merger()))
    return found


def collected(task: Task[Part], operators: Sequence[LinearOperator]) -> list[Part]:
    """What a task makes of each run of rows, in their order: of results as long as the rows, nothing is merged.

    Parameters
    ----------
    task, operators
        As for `map_reduce`.
    """
    leader, work, calls = planned(task, operators, 0)
    pause()
    found: list[Part] = leader.engine.fetch_once(leader.engine.map(work, calls))
    return found


def planned(
    task: Task[Part], operators: Sequence[LinearOperator], columns: int
) -> tuple[Any, OverRun[Part], list[Call]]:
    """What `map_reduce` does: the first matrix in blocks, what is done with a run, and the runs."""
    given: list[Any] = list(operators)
    leader = next(A for A in given if A.access == "blocks")
    views = [leader.handles if A is leader else leader.alongside(A) for A in given]
    readings = tuple(A.reading if A.access == "blocks" else Reading(A.dtype) for A in given)
    models: list[OfRows] = []
    bare = task.with_models(lambda model: _without_rows(model, models))
    views += [leader.model_alongside(model) for model in models]
    result = 8.0 * columns * sum(A.shape[1] for A in operators)
    edges, calls = leader.edges, []
    for run in cut_into_runs(leader.sizes, result):
        handles = tuple(handles[i] for i in run for handles in views)
        calls.append(Call(edges[run.start], handles))
    return leader, OverRun(bare, readings, columns, len(models)), calls


def _without_rows(model: Any, models: list[OfRows]) -> Any:
    """A model of no row, whose first row is its number in a list of models."""
    if model.is_plain:
        return model
    number = next((i for i, known in enumerate(models) if known is model), len(models))
    if number == len(models):
        models.append(model)
    return replace(model.of_rows(model.first, model.first), first=number)
