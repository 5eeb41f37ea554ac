"""One pass: a reduction over the rows of some matrices, block by block.

Problem: the same sum over rows should run on threads, over streams, and on other machines, with the same bits.
Method: blocks are gathered into runs whose number depends on the data alone. Each run has its own total, and totals are
merged by a binary tree over the numbers of runs. Threads take whole runs and multiply on one BLAS thread each: threads
that share each thin product would synchronise some hundred times a second, and wait for a core that is busy. Sums of
the size of a Gram matrix are made one after the other instead, on the threads of the BLAS.
"""

from __future__ import annotations

import itertools
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from linspec.arrays import namespace, on_device
from linspec.blocks.base import MET, Block, Rows
from linspec.blocks.dense import Dense
from linspec.errors import InvalidProblem
from linspec.process import machine
from linspec.process.blas_threads import one_blas_thread, usual_blas_threads

__all__ = ["LOCAL", "Executor", "Reduction", "aligned", "executor_of"]

MOST_RUNS = 64
"""Most runs: the total of each takes memory and a merge."""

WORK_PER_THREAD = 2**21
"""Multiply-adds that justify a further thread."""

IMAGE = 1_500_000
"""Numbers of the images of a block, at most. With a third less, one-hot words take 1.06 of the time; with a third more,
two threads hold 33 MB beside 0.3 MB of sparse rows."""


class Reduction(ABC):
    """A sum over rows.

    Attributes
    ----------
    columns : int, default 1
        Columns of the sums, of which each matrix column has a row.
    wide : bool, default False
        Whether a total has the size of a Gram matrix.
    tall : bool, default False
        Whether a total has a row for each row.
    raw : bool, default False
        Whether blocks are added as they are read, and not about a row.
    first : int, default 0
        The number of the first row.
    multiplied : float, default 0
        Products with one column that are made of each row, forward and adjoint.
    """

    columns: int = 1
    wide: bool = False
    tall: bool = False
    raw: bool = False
    first: int = 0
    multiplied: float = 0.0

    @property
    def by_row(self) -> list[Any]:
        """The arrays with a row for each row that are read; some may be None."""
        return []

    def begin_at(self, row: int) -> None:
        """Count rows from this number on, where arrays begin there, too."""
        self.first = row

    @abstractmethod
    def zero(self) -> Any:
        """Return the total of no rows."""

    @abstractmethod
    def add(self, total: Any, blocks: list[Block], rows: slice) -> None:
        """Add the same rows of every matrix, in place."""

    def merge(self, left: Any, right: Any) -> Any:
        """Return the total of the rows of both, `left` before `right`; by default lists of arrays are added."""
        for a, b in zip(left, right, strict=True):
            if a is not None:
                a += b
        return left


class Executor:
    """Runs reductions in this process."""

    def reduce(
        self,
        operators: Sequence[Rows],
        begin: Callable[[list[Block]], Reduction],
        between: Callable[..., None],
    ) -> tuple[Reduction, Any, int, float]:
        """Make one pass.

        Parameters
        ----------
        operators : sequence of Rows
            Matrices with the same rows.
        begin : callable
            Makes the reduction, from the first block of every matrix.
        between : callable
            Called before each block with the number of its rows; it may raise an error to end the pass.

        Returns
        -------
        Reduction
        total
        rows : int
        entries : float
            Those that are stored, on average over the matrices.

        Raises
        ------
        InvalidProblem
            There are no rows, or a matrix has more than another.
        """
        reduction: Reduction | None = None
        total: Any = None
        row, entries = 0, 0.0
        with np.errstate(all="ignore"), on_device(*[A.device for A in operators]):
            for blocks in aligned(operators):
                if reduction is None:
                    reduction = begin(blocks)
                total = self._added(reduction, total, blocks, row, between)
                row += blocks[0].rows
                entries += sum([block.entries for block in blocks]) / len(blocks)
        if reduction is None:
            raise InvalidProblem("the data must have rows; got none. Pass at least one.")
        return reduction, total, row, entries

    def kept(self, operators: Sequence[Rows], reduction: Reduction, between: Callable[..., None]) -> Rows:
        """Make one pass; return the images that its only part has made of rows, which stay where the rows are."""
        _, (pieces,), _, _ = self.reduce(operators, lambda _: reduction, between)
        return Dense(pieces[0] if len(pieces) == 1 else namespace(pieces[0]).concat(pieces, axis=0))

    def _added(
        self, reduction: Reduction, total: Any, blocks: list[Block], first: int, between: Callable[..., None]
    ) -> Any:
        """The total with some blocks added."""
        edges = _edges(reduction, blocks)
        parts = len(edges) - 1
        count = _runs(reduction, blocks, parts)

        def run(number: int, into: Any) -> Any:
            for a, b in pairwise(edges[number * parts // count : (number + 1) * parts // count + 1]):
                between(b - a)
                reduction.add(into, [block.cut(a, b) for block in blocks], slice(first + a, first + b))
            return into

        if count == 1:
            return run(0, reduction.zero() if total is None else total)
        work = sum(block.entries for block in blocks) * reduction.columns
        threads = max(1, min(count, usual_blas_threads(), machine.cpu_count(), work // WORK_PER_THREAD))
        more = _merged(reduction, run, count, int(threads))
        return more if total is None else reduction.merge(total, more)


LOCAL = Executor()
"""The executor of rows that are here."""


def executor_of(operators: Sequence[Rows]) -> Executor:
    """Return the executor that a matrix brings, or that of this process."""
    brought = [A.executor for A in operators if A.executor is not None]
    return brought[0] if brought else LOCAL


def aligned(operators: Sequence[Rows]) -> Iterator[list[Block]]:
    """Yield the same rows of every matrix, cut where a block of any ends."""
    streams = [filter(_has_rows, A.blocks()) for A in operators]
    blocks: list[Any] = [None for _ in streams]
    row = 0
    while True:
        blocks = [next(stream, None) if b is None else b for stream, b in zip(streams, blocks, strict=True)]
        shorter = [A.name for A, b in zip(operators, blocks, strict=True) if b is None]
        if shorter:
            break
        height = min(b.rows for b in blocks)
        yield [b if b.rows == height else b.cut(0, height) for b in blocks]
        blocks = [None if b.rows == height else b.cut(height, b.rows) for b in blocks]
        row += height
    if len(shorter) < len(blocks):
        raise InvalidProblem(
            f"the matrices must have equally many rows; {' and '.join(shorter)} ended after {row}, and others go on. "
            "Pass the same rows of all."
        )


def _has_rows(block: Block) -> bool:
    return block.rows > 0


def _edges(reduction: Reduction, blocks: list[Block]) -> list[int]:
    """Numbers of the rows at which the blocks are cut: those of the block with most numbers."""
    if not all(block.divisible for block in blocks):
        return [0, blocks[0].rows]
    columns = sum(block.columns for block in blocks)
    sum_bytes = 8 * columns * (columns if reduction.wide else reduction.columns)
    largest = max(blocks, key=lambda block: block.entries)
    most = max(IMAGE // max(reduction.columns, 1), 1)
    return sorted({*largest.edges(sum_bytes), *range(0, largest.rows, most)})


def _runs(reduction: Reduction, blocks: list[Block], parts: int) -> int:
    """The number of runs, by the data alone."""
    if reduction.wide or parts < 3:
        return 1
    columns = max(1, sum(block.columns for block in blocks))
    worth = min(parts, MOST_RUNS, sum(block.entries for block in blocks) // (MET * columns))
    return 1 if worth < 3 else worth


def _merged(reduction: Reduction, run: Callable[[int, Any], Any], count: int, threads: int) -> Any:
    """The total of all runs. A pair of neighbours in the tree is merged once both are there, so few totals are held."""
    numbers, lock = itertools.count(), threading.Lock()
    waiting: dict[tuple[int, int], Any] = {}
    ends = [count]  # the number of nodes at each level
    while ends[-1] > 1:
        ends.append(-(-ends[-1] // 2))

    def fit(number: int, total: Any) -> None:
        for level, end in enumerate(ends[:-1]):
            if number ^ 1 < end:
                with lock:
                    if (level, number ^ 1) not in waiting:
                        waiting[level, number] = total
                        return
                    neighbour = waiting.pop((level, number ^ 1))
                total = reduction.merge(neighbour, total) if number & 1 else reduction.merge(total, neighbour)
            number >>= 1
        waiting[len(ends), 0] = total

    def work(_: int) -> None:
        with one_blas_thread(needed=threads > 1), np.errstate(all="ignore"):
            while (number := next(numbers)) < count:
                fit(number, run(number, reduction.zero()))

    if threads == 1:
        work(0)
    else:
        machine.map_parallel(work, range(threads))
    return waiting[len(ends), 0]
