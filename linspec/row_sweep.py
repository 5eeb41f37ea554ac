"""One sweep over blocks of rows: per block P = X Vx and Q = Y Vy, then Xᵀ[P Q] and Yᵀ[P Q].

No array of n rows is made, and every block is read, converted and centred once, into memory that is used again.

Threads. A thin product of one block is over in a fraction of a millisecond. Threads that share each of them, as
those of a BLAS do, meet some hundred times a second; where another process holds one of the cores, each meeting
waits for the system to come round (measured: five times slower than one thread). So each thread here takes a
run of blocks of its own and its products on one BLAS thread, and they meet once a sweep.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import TypeVar

import numpy as np

from linspec import machine
from linspec.arrays import Array, Home
from linspec.blas_threads import one_blas_thread, usual_blas_threads
from linspec.column_statistics import ColumnStatistics
from linspec.gram import Products
from linspec.operators import DenseOperator, LinearOperator
from linspec.operators.row_blocks import RowBuffer, rows_per_block
from linspec.views import View

R = TypeVar("R")

FEWEST_BLOCKS = 4
"""Blocks that are worth a thread."""


class Asked:
    """The blocks of one call, the probes behind them, and where each lies in [P Q].

    With `sums` a column of ones stands behind them all: its product is the sums of the rows.
    """

    def __init__(
        self, blocks: list[Array | None], probes: list[Array | None], home: Home, *, sums: bool = False
    ) -> None:
        self.blocks, self.probes, self.sums = blocks, probes, sums
        self.wide: list[Array | None] = []
        self.edges: list[tuple[int, int, int]] = []
        self.columns = 0
        for V, Z in zip(blocks, probes, strict=True):
            own = self.columns + (0 if V is None else V.shape[1])
            end = own + (0 if Z is None else Z.shape[1])
            self.wide.append(V if Z is None else home.concat([V, Z]))
            self.edges.append((self.columns, own, end))
            self.columns = end
        self.columns += sums

    def cut(self, adjoints: list[Array | None]) -> Products:
        """The four products out of Xᵀ[P Q] and Yᵀ[P Q]."""
        found: list[Array | None] = []
        for adjoint in (*adjoints, None)[:2]:
            for (start, stop, _), V in zip(self.edges, self.blocks, strict=True):
                found.append(None if adjoint is None or V is None else adjoint[:, start:stop])
        return found[0], found[1], found[2], found[3]


def sweep(views: list[View], asked: Asked, home: Home) -> list[Array]:
    """Xᵀ[P Q] and Yᵀ[P Q] in float64; what is unknown of the columns is learnt on the way.

    Parameters
    ----------
    views : list of View
        With row slices.
    asked : Asked
        The blocks Vx and Vy.
    home : Home
        Where the blocks live.
    """
    blocks = list(row_slices(views, asked.columns))
    threads = _threads(views, len(blocks))
    cuts = [len(blocks) * i // threads for i in range(threads + 1)]
    runs = [_Run(views, asked, home, blocks[a:b]) for a, b in pairwise(cuts)]
    in_threads(_Run.work, runs)
    first, *others = runs
    for other in others:
        first.absorb(other)
    first.teach()
    return first.totals


def in_threads(work: Callable[[R], None], runs: list[R]) -> None:
    """Let each run be worked by a thread of its own, all of them with one BLAS thread."""
    several = len(runs) > 1

    def held(run: R) -> None:
        with one_blas_thread(needed=several):  # some libraries have a limit for each thread
            work(run)

    with one_blas_thread(needed=several):
        machine.map_parallel(held, runs)


def row_slices(views: list[View], columns: int = 0) -> Iterator[slice]:
    """The blocks of rows in which the views are read together, for products with so many columns."""
    n = views[0].operator.shape[0]
    size = n
    if all(view.operator.sliceable for view in views):
        sum_bytes = 8 * columns * sum(view.operator.shape[1] for view in views)
        size = rows_per_block(sum(view.row_bytes for view in views), views[0].operator.home, sum_bytes)
    for start in range(0, n, size):
        yield slice(start, min(start + size, n))


def forward(operators: list[LinearOperator], asked: Asked) -> Array:
    """[P Q] = [X Vx, Y Vy]."""
    home, dtype = operators[0].home, np.result_type(*(A.dtype for A in operators))
    pairs = zip(operators, asked.wide, strict=False)
    return home.concat([home.place(A.matmat(V), dtype) for A, V in pairs if V is not None])


class _Run:
    """What one thread does: some blocks after one another, and their sums."""

    def __init__(self, views: list[View], asked: Asked, home: Home, blocks: list[slice]) -> None:
        self.views, self.asked, self.home, self.blocks = views, asked, home, blocks
        self.totals = [home.zeros((view.operator.shape[1], asked.columns)) for view in views]
        self.buffers = [RowBuffer() for _ in views]
        unknown = [i for i, v in enumerate(views) if v.squares is None and v.operator.readable]
        self.statistics = {} if asked.sums else {i: ColumnStatistics(home) for i in unknown}

    def work(self) -> None:
        with np.errstate(all="ignore"):  # what is not finite is found in the sums
            for rows in self.blocks:
                self._add([view.operator.rows(rows) for view in self.views])
                for view in self.views:
                    view.operator.release()

    def _add(self, read: list[LinearOperator]) -> None:
        triples = zip(self.views, read, self.buffers, strict=True)
        slabs = [view.centred(part).loaded(buffer) for view, part, buffer in triples]
        W = forward(slabs, self.asked)
        if self.asked.sums:
            home = slabs[0].home
            W = home.concat([W, home.place(np.ones((W.shape[0], 1)), slabs[0].dtype)])
        for total, slab in zip(self.totals, slabs, strict=True):
            total += slab.rmatmat(W)
        for i, gathered in self.statistics.items():
            gathered.add(read[i])

    def absorb(self, other: _Run) -> None:
        """Take over the sums of the rows that follow."""
        for total, more in zip(self.totals, other.totals, strict=True):
            total += more
        for i, gathered in self.statistics.items():
            gathered.absorb(other.statistics[i])

    def teach(self) -> None:
        """Tell the views what has been gathered."""
        for i, gathered in self.statistics.items():
            self.views[i].learn(gathered)


def _threads(views: list[View], blocks: int) -> int:
    """As many threads as the BLAS would use; one where blocks are few or operators are not ours."""
    ours = all(type(view.operator).__module__ == DenseOperator.__module__ for view in views)
    if not ours or not views[0].operator.home.on_host or blocks < 2 * FEWEST_BLOCKS:
        return 1
    return int(max(1, min(usual_blas_threads(), machine.cpu_count(), blocks // FEWEST_BLOCKS)))
