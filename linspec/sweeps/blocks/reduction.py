"""One task over the rows of several matrices, at least one of them in blocks.

Problem: for every runner, a sweep consists of one task and its merge (`linspec.sweeps.task`).
Method: runs of blocks are determined by sizes alone, each is processed by one worker, and the parts are merged by a
fixed tree over the numbers of the runs. The same data in the same blocks give the same bits with every engine and any
number of workers, on processors of one kind. One call is one round of the cluster; time limits and interrupts are
checked before it, and by engines while they wait. Weights of rows and confounds are kept beside the blocks, those of
each block on its worker, and the task is sent without them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypeVar

from linspec.errors import UnsupportedData
from linspec.operators import LinearOperator
from linspec.operators.weights import RowModel
from linspec.process.pauses import pause
from linspec.sweeps.blocks.engine import Call
from linspec.sweeps.blocks.readings import Reading
from linspec.sweeps.blocks.runs import Merged, OverRun, cut_into_runs
from linspec.sweeps.task import Task

Part = TypeVar("Part")


def map_reduce(task: Task[Part], operators: Sequence[LinearOperator], columns: int = 0) -> Part:
    """Run a task over all rows, and return its merged part.

    Parameters
    ----------
    task : Task
        A task that can be pickled.
    operators : sequence of LinearOperator
        Operators with equally many rows, at least one in blocks. All are cut like the first one in blocks.
    columns : int, default 0
        The approximate size of a part: p x columns numbers, for p columns of all operators together. It determines the
        number of consecutive blocks, a run, that one worker processes: a run has several times as many bytes as a part.
        A wrong size costs time, and changes the result by rounding only.

    Returns
    -------
    Part
        The part of all rows, in this process.

    Raises
    ------
    DataLost
        A block is lost.
    """
    leader, work, calls = planned(task, operators, columns)
    pause()
    found: Part = leader.engine.reduce(work, calls, Merged(work.task.merger()))
    return found


def collected(task: Task[Part], operators: Sequence[LinearOperator]) -> list[Part]:
    """The parts of all runs of rows, in order and not merged: for results with a row for each row of the data.

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
    """Plan a sweep: return the first matrix in blocks, the work for a run of blocks, and one call for each run."""
    given: list[Any] = list(operators)
    leader = next(A for A in given if A.access == "blocks")
    if not hasattr(leader, "handles"):
        raise UnsupportedData(
            f"rows in blocks must be read as they are, or all with the same means, weights and confounds; got "
            f"{leader!r} beside a matrix without them. Choose another solver for this part, or pass a NumPy array."
        )
    views = [leader.handles if A is leader else leader.alongside(A) for A in given]
    readings = tuple(A.reading if A.access == "blocks" else Reading(A.dtype) for A in given)
    models: list[RowModel] = []
    bare = task.with_models(lambda model: _without_rows(model, models))
    views += [leader.model_alongside(model) for model in models]
    result = 8.0 * columns * sum(A.shape[1] for A in operators)
    edges, calls = leader.edges, []
    for run in cut_into_runs(leader.sizes, result):
        handles = tuple(handles[i] for i in run for handles in views)
        calls.append(Call(edges[run.start], handles))
    return leader, OverRun(bare, readings, columns, len(models)), calls


def _without_rows(model: Any, models: list[RowModel]) -> Any:
    """Add a row model to `models` unless it is there, and return a copy of the model that has no rows.

    The attribute `first` of the copy is the index of the model in `models`. By this index, `OverRun` replaces the copy
    by the model of the rows of a block. A plain model has no data of rows, and is returned as it is.
    """
    if model.is_plain:
        return model
    number = next((i for i, known in enumerate(models) if known is model), len(models))
    if number == len(models):
        models.append(model)
    return replace(model.of_rows(model.first, model.first), first=number)
