"""Running a task over rows in memory or in files, on several threads.

Threads. A thin product of one block takes a fraction of a millisecond. Threads that share each product, as those of a
BLAS do, synchronize some hundred times a second; if another process occupies one of the cores, each synchronization
waits for the scheduler of the system (measured: five times slower than one thread). So each thread here takes several
blocks one after the other and runs their products on one BLAS thread. The threads synchronize once a sweep. The
blocks are gathered into runs whose number depends on the data alone. Their parts are merged by a fixed tree: the same
data give the same bits on one thread and on many.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np

from linspec.operators import LinearOperator
from linspec.operators.row_blocks import rows_per_block
from linspec.process import machine
from linspec.process.blas_threads import one_blas_thread, usual_blas_threads
from linspec.sweeps.task import Task, Tree

Part = TypeVar("Part")

FEWEST_BLOCKS, MOST_RUNS = 4, 64
"""Smallest number of blocks per run, and largest number of runs: the part of each run costs memory and a merge."""


def row_slices(operators: Sequence[LinearOperator], columns: int = 0) -> list[slice]:
    """Cut the rows of some operators into slices; the same slice of all operators is read at a time.

    A slice takes more bytes than the sum to which its product is added, where possible: this sum has a row for each
    column of the operators. If the rows of an operator cannot be selected, one slice
    has all rows.

    Parameters
    ----------
    operators : sequence of LinearOperator
        With equally many rows.
    columns : int, default 0
        The number of columns of the sum.

    Returns
    -------
    list of slice

    Examples
    --------
    >>> import numpy as np
    >>> import linspec as ls
    >>> from linspec.sweeps import row_slices
    >>> row_slices([ls.as_operator(np.ones((5000, 2)))], 1)
    [slice(0, 4096, None), slice(4096, 5000, None)]
    """
    n = operators[0].shape[0]
    size = max(n, 1)
    if all(A.access == "rows" for A in operators):
        sum_bytes = 8 * columns * sum(A.shape[1] for A in operators)
        size = rows_per_block(sum(A.row_bytes for A in operators), operators[0].home, sum_bytes)
    return [slice(start, min(start + size, n)) for start in range(0, n, size)]


def run_in_memory(
    task: Task[Part],
    operators: Sequence[LinearOperator],
    slices: Sequence[slice],
    first_row: int = 0,
    *,
    threads: bool = True,
) -> Part:
    """Run a task over slices of rows, on as many threads as the BLAS would use.

    Parameters
    ----------
    task : Task
    operators : sequence of LinearOperator
        With equally many rows.
    slices : sequence of slice
        The result of `row_slices` for these operators.
    first_row : int, default 0
        The number of the first row of the operators.
    threads : bool, default True
        If False, one thread adds all rows to one part.
    """
    count = _runs(operators, len(slices)) if threads else 1
    cuts = [len(slices) * i // count for i in range(count + 1)]
    runs = [slices[a:b] for a, b in pairwise(cuts)]
    workers = min(count, usual_blas_threads(), machine.cpu_count())
    tree, numbers = Tree(task, count), itertools.count()

    def work(_: int) -> None:
        # Some BLAS libraries limit threads per calling thread. Values that are not finite are found in the sums.
        with one_blas_thread(needed=workers > 1), np.errstate(all="ignore"):
            while (number := next(numbers)) < count:
                part: Any = None
                for rows in runs[number]:  # one block after the other, in memory that is used again
                    some = [A.rows(rows) if A.access == "rows" else A for A in operators]
                    part = task.part(some, first_row + rows.start, part)
                    for A in operators:
                        A.release()
                tree.add(number, part)

    with one_blas_thread(needed=workers > 1):
        if workers > 1:
            machine.map_parallel(work, range(workers))
        else:
            work(0)
    return tree.root()


def _runs(operators: Sequence[LinearOperator], blocks: int) -> int:
    """Number of runs of blocks; 1 on a device, for few blocks, or if only one thread can read rows."""
    if not all(A.concurrent for A in operators) or not operators[0].home.on_host:
        return 1
    return max(1, min(blocks // FEWEST_BLOCKS, MOST_RUNS)) if blocks >= 2 * FEWEST_BLOCKS else 1
