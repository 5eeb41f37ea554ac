"""Runs of blocks, what is done with one, and how the results are merged.

Problem: what a sweep makes of one block, a p x k array, may be larger than the block itself; and a cluster spends a
fraction of a millisecond on each piece of work. One of each block would send more than it reads.
Method: consecutive blocks form runs, whose sums are made in one place. A run is some times as large as what it gives,
and there are not too many of them. Which blocks form a run depends on their sizes alone, never on who works. Within a
run rows are cut into blocks that stay in the cache of a core, and go through the same tasks as rows in memory.
Every sum of a run is made by one thread, so that workers with one core and with many give the same bits.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np

from linspec.operators import LinearOperator, SparseOperator
from linspec.operators.row_model import OfRows
from linspec.process import machine
from linspec.process.blas_threads import one_blas_thread
from linspec.sweeps.blocks.readings import Reading
from linspec.sweeps.in_memory import row_slices
from linspec.sweeps.task import Task, Tree

Part = TypeVar("Part")

PARTS_PER_RUN = 8
"""How many times larger than its result a run is at least, where there is so much."""

MOST_RUNS = 1024
"""Runs at most: a scheduler that takes a millisecond for each spends a second on a sweep."""


def cut_into_runs(sizes: Sequence[float], result: float) -> list[range]:
    """Runs of consecutive blocks.

    Parameters
    ----------
    sizes : sequence of float
        Bytes of each block.
    result : float
        Bytes of what a run gives.
    """
    least = max(PARTS_PER_RUN * result, sum(sizes) / MOST_RUNS)
    edges, gathered = [0], 0.0
    for number, size in enumerate(sizes):
        gathered += size
        if gathered >= least:
            edges.append(number + 1)
            gathered = 0.0
    if edges[-1] < len(sizes):  # what is left at the end goes to the last run
        edges = [*(edges[:-1] or [0]), len(sizes)] if len(edges) > 1 else [0, len(sizes)]
    return [range(a, b) for a, b in itertools.pairwise(edges)]


@dataclass(frozen=True)
class OverRun(Generic[Part]):
    """What a task makes of one run of blocks.

    Parameters
    ----------
    task : Task
    readings : tuple of Reading
        How the blocks of each view are read. A call has the blocks of all views of the first rows, behind them the
        models of these rows, and then those of the next.
    columns : int
        The columns of the products that a part holds.
    models : int, default 0
        How many models the rows of a block have. In the task each is without rows, and its first row is its number.
    """

    task: Task[Part]
    readings: tuple[Reading, ...]
    columns: int
    models: int = 0

    def __call__(self, first_row: int, *blocks: Any) -> Part:
        """Of the run whose first row has a number."""
        return self.begun(None, first_row, *blocks)

    def begun(self, part: Part | None, first_row: int, *blocks: Any) -> Part:
        """The same, from what the task has made of something else before."""
        # What is not finite is found in the sums.
        with np.errstate(all="ignore"), one_blas_thread(needed=True), machine.one_thread():
            views = len(self.readings)
            for i in range(0, len(blocks), views + self.models):
                given, models = blocks[i : i + views], blocks[i + views : i + views + self.models]
                operators = [reading.operator(B) for reading, B in zip(self.readings, given, strict=True)]
                part = self._of_block(self._task(models), operators, first_row, part)
                first_row += operators[0].shape[0]
        if part is None:
            raise ValueError("a run has at least one block; got none")
        return part

    def _task(self, models: Sequence[OfRows]) -> Task[Part]:
        """The task with the models of the rows of one block."""
        if not models:
            return self.task
        return self.task.with_models(lambda model: model if model.is_plain else models[model.first])

    def _of_block(
        self, task: Task[Part], operators: list[LinearOperator], first_row: int, part: Part | None
    ) -> Part | None:
        if all(isinstance(A, SparseOperator) for A in operators):  # whose kernels cut them into slabs
            return task.part(operators, first_row, part)
        for rows in row_slices(operators, self.columns):
            part = task.part([A.rows(rows) for A in operators], first_row + rows.start, part)
        return part


@dataclass(frozen=True)
class Merged(Generic[Part]):
    """What a task makes of several parts of neighbouring rows."""

    task: Task[Part]

    def __call__(self, number: int, *parts: Part) -> Part:
        """By the binary tree over their order."""
        tree = Tree(self.task, len(parts))
        with np.errstate(all="ignore"), one_blas_thread(needed=True), machine.one_thread():
            for i, part in enumerate(parts):
                tree.add(i, part)
        return tree.root()
