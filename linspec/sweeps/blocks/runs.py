"""Runs of blocks, the work on a run, and the merge of results.

Problem: the result of a sweep over one block, a p x k array, may be larger than the block itself; and a cluster spends
a fraction of a millisecond on each piece of work. With a result for each block, more bytes would be sent than read.
Method: consecutive blocks form runs, and one worker adds up the sums of a run. A run is several times as large as its
result, and the number of runs is bounded. The runs depend only on the sizes of the blocks, never on the workers.
Within a run rows are cut into blocks that stay in the cache of a core, and are processed by the same tasks as rows in
memory. Every sum of a run is computed by one thread, so that workers with one core and with many give the same bits.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np

from linspec.operators import LinearOperator, SparseOperator
from linspec.operators.weights import RowModel
from linspec.process import machine
from linspec.process.blas_threads import one_blas_thread
from linspec.sweeps.blocks.readings import Reading
from linspec.sweeps.in_memory import row_slices
from linspec.sweeps.task import Task, Tree

Part = TypeVar("Part")

PARTS_PER_RUN = 8
"""Smallest ratio of the size of a run to the size of its result, if the data are large enough."""

MOST_RUNS = 1024
"""Largest number of runs: a scheduler that takes a millisecond for each run then spends a second on a sweep."""


def cut_into_runs(sizes: Sequence[float], result: float) -> list[range]:
    """Divide blocks into runs: ranges of numbers of consecutive blocks.

    Parameters
    ----------
    sizes : sequence of float
        Bytes of each block.
    result : float
        Bytes of the result of a run.
    """
    least = max(PARTS_PER_RUN * result, sum(sizes) / MOST_RUNS)
    edges, gathered = [0], 0.0
    for number, size in enumerate(sizes):
        gathered += size
        if gathered >= least:
            edges.append(number + 1)
            gathered = 0.0
    if edges[-1] < len(sizes):  # the remaining blocks join the last run
        edges = [*(edges[:-1] or [0]), len(sizes)] if len(edges) > 1 else [0, len(sizes)]
    return [range(a, b) for a, b in itertools.pairwise(edges)]


@dataclass(frozen=True)
class OverRun(Generic[Part]):
    """Work that computes the part of a task for one run of blocks.

    It is called with the number of the first row and then, for one position in the run after the other, with the block
    of each view and the row models of these blocks' rows.

    Parameters
    ----------
    task : Task
    readings : tuple of Reading
        For each view, the way in which its blocks are read.
    columns : int
        The number of columns of the products that a part holds.
    models : int, default 0
        The number of row models (weights and confounds) that each block has. The task contains these models without
        the data of any rows: the attribute `first` of such a model is its index among the models of a block.
    """

    task: Task[Part]
    readings: tuple[Reading, ...]
    columns: int
    models: int = 0

    def __call__(self, first_row: int, *blocks: Any) -> Part:
        """The part of the run that begins with row `first_row`."""
        return self.begun(None, first_row, *blocks)

    def begun(self, part: Part | None, first_row: int, *blocks: Any) -> Part:
        """The part of the run that begins with row `first_row`, added to `part`, the part of earlier rows."""
        # Values that are not finite are found in the sums.
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

    def _task(self, models: Sequence[RowModel]) -> Task[Part]:
        """The task with `models`, the row models of one block, in place of the models without rows."""
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
    """Work that merges several parts of neighbouring rows into one."""

    task: Task[Part]

    def __call__(self, number: int, *parts: Part) -> Part:
        """Merge the parts by a binary tree over their positions."""
        tree = Tree(self.task, len(parts))
        with np.errstate(all="ignore"), one_blas_thread(needed=True), machine.one_thread():
            for i, part in enumerate(parts):
                tree.add(i, part)
        return tree.root()
