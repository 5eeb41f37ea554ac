"""Rows in blocks that stay where they are, on the workers of a cluster, and passes over them.

Problem: the rows are too many for one machine, or are already on several. A pass should move sums, and no rows.
Method: neighbouring blocks form runs, by sizes alone. The worker of a run adds it up as `linspec.rows.executor` does in
one process, on one thread; totals are merged where they are, by a tree over the numbers of runs, so that the bits do
not depend on the workers. The reduction is pickled once, without data: operators and arrays with a row for each row are
numbered, and every run comes with its own.
An engine holds the blocks. It has `hold`, `map`, `fetch` and what `linspec.workers.Engine` derives from these.
"""

from __future__ import annotations

import copy
import io
import math
import pickle
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import accumulate, chain, pairwise
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse

from linspec.arrays import Array, DType, HostArray
from linspec.blocks import Dense, Sparse
from linspec.blocks.base import ORIGIN_ROWS, RUN_BYTES, Block, Rows
from linspec.errors import InvalidProblem, UnsupportedData
from linspec.process import machine
from linspec.process.blas_threads import one_blas_thread
from linspec.process.pauses import looking, pause
from linspec.rows.executor import LOCAL, Executor, Reduction

__all__ = ["Call", "WorkerExecutor", "WorkerRows"]

PARTS_PER_RUN, MOST_RUNS = 8, 1024
"""Least quotient of the bytes of a run and of its total, and most runs: a scheduler takes a millisecond for each."""


class Call(NamedTuple):
    """One call of a function by an engine: work(number, values behind the handles).

    Parameters
    ----------
    number : int
        The first argument of the function.
    handles : tuple
        Handles of the values that are its other arguments.

    Examples
    --------
    >>> from linspec.workers import Call, InProcess
    >>> engine = InProcess()
    >>> two, three = engine.hold([2, 3])
    >>> engine.fetch(engine.map(lambda number, a, b: (number, a * b), [Call(7, (two, three))]))
    [(7, 6)]
    """

    number: int
    handles: tuple[Any, ...]


class WorkerRows(Rows):
    """A matrix whose rows are in blocks that an engine holds.

    Parameters
    ----------
    engine : linspec.workers.Engine
    handles : sequence
        Of NumPy arrays or CSR matrices, in the order of the rows.
    heights : sequence of int
        The number of rows of each block.
    columns : int
    dtype : numpy.dtype
        The precision of products.
    sizes : sequence of float, optional
        The bytes of each block.
    given_back : callable, optional
        Returns other `WorkerRows` with as many rows in a form that callers know.
    """

    def __init__(
        self,
        engine: Any,
        handles: Sequence[Any],
        heights: Sequence[int],
        columns: int,
        dtype: DType,
        *,
        sizes: Sequence[float] = (),
        given_back: Callable[[WorkerRows], Any] | None = None,
    ) -> None:
        self.engine, self.handles, self.edges = engine, list(handles), [0, *accumulate(heights)]
        self.shape, self.dtype = (self.edges[-1], columns), dtype
        self.sizes = list(sizes) or [8.0 * columns * height for height in heights]
        self.given_back, self.executor = given_back, ON_WORKERS
        self.together = max(1, int(RUN_BYTES * self.shape[0] / max(sum(self.sizes), 1)))
        self._sent: dict[tuple[int, tuple[int, ...]], tuple[Any, list[Any]]] = {}

    def blocks(self) -> Iterator[Block]:
        for handle in self.handles:
            yield from _opened(self.engine.fetch([handle])[0], self.dtype, far=self.far).blocks()

    def take(self, rows: HostArray) -> Block:
        """Rows by their numbers, which come here."""
        return next(
            _opened(chosen(self.engine, self.handles, self.edges, rows), self.dtype, far=self.far).blocks()
        )

    @cached_property
    def head(self) -> Any:
        """The first rows, which come here once: what a pass asks of rows before it begins, it asks of these."""
        return self.engine.fetch_once(self.engine.map(_head, [Call(0, (self.handles[0],))]))[0]

    @property
    def first(self) -> Rows:
        """The first rows, as they are multiplied."""
        return _opened(self.head, self.dtype, far=self.far)

    def product_seconds(self, columns: int) -> float:
        return self._shared(self.first.product_seconds(columns))

    def gram_seconds(self) -> float:
        return self._shared(self.first.gram_seconds())

    def _shared(self, seconds: float) -> float:
        """The time of all rows on all workers, from that of the first ones."""
        workers = max(1, min(self.engine.workers, len(self.handles)))
        rounds = self.engine.round_seconds + self.engine.call_seconds * min(len(self.handles), MOST_RUNS)
        return float(seconds * self.shape[0] / self.first.shape[0] / workers + rounds)

    def sent(self, rows: Any, edges: list[int], cut: Callable[[Any, list[int]], list[Any]]) -> list[Any]:
        """Handles of what is cut at some rows; it is sent once."""
        key = id(rows), tuple(edges)
        if key not in self._sent:
            self._sent[key] = rows, self.engine.hold(cut(rows, edges))
        return self._sent[key][1]


def chosen(engine: Any, handles: Sequence[Any], edges: Sequence[int], numbers: HostArray) -> Any:
    """Fetch rows by their numbers, as they are stored and in that order: each worker returns those of its blocks."""
    blocks = np.searchsorted(edges, numbers, side="right") - 1
    order = np.argsort(blocks, kind="stable")
    touched, starts = np.unique(blocks[order], return_index=True)
    parts = np.split(numbers[order], starts[1:])
    places = {int(i): part - edges[i] for i, part in zip(touched, parts, strict=True)}
    calls = [Call(i, (handles[i],)) for i in places]
    fetched = engine.fetch_once(engine.map(partial(_chosen, places), calls))
    dense = isinstance(fetched[0], np.ndarray)
    rows = np.concatenate(fetched) if dense else scipy.sparse.vstack(fetched, format="csr")
    return rows if np.all(np.diff(blocks) >= 0) else rows[np.argsort(order)]


def _chosen(places: dict[int, HostArray], number: int, block: Any) -> Any:
    return block[places[number]]


def _head(_number: int, rows: Any) -> Any:
    return rows[:ORIGIN_ROWS]


@dataclass(frozen=True)
class _Run:
    """Work that adds up one run.

    Attributes
    ----------
    reduction : bytes
        Without operators and arrays, which the run has.
    kinds : list of (numpy.dtype, bool)
        For each matrix its precision, and whether its means are far above deviations.
    edges : list of int
        The first rows of all runs, and the number of all rows.
    pieces : list of list of (int, int)
        For each run and matrix the number of blocks, and of their first rows that are skipped.
    """

    reduction: bytes
    kinds: list[tuple[DType, bool]]
    edges: list[int]
    pieces: list[list[tuple[int, int]]]

    def __call__(self, number: int, *values: Any) -> tuple[Any, float]:
        """Return the total, and the stored entries."""
        first, stop = self.edges[number], self.edges[number + 1]
        operators, rest = [], list(values)
        for (dtype, far), (count, skipped) in zip(self.kinds, self.pieces[number], strict=True):
            parts = [_opened(data, dtype, far=far) for data in rest[:count]]
            del rest[:count]
            operators.append(_Taken([*_between(parts, skipped, skipped + stop - first)], parts[0]))
        reduction = _Reader(self.reduction, [*operators, *rest]).load()
        reduction.begin_at(first)
        with one_blas_thread(needed=True), machine.one_thread():
            _, total, _, entries = LOCAL.reduce(operators, lambda _: reduction, lambda _: pause())
        return total, entries


def _between(parts: list[Rows], start: int, stop: int) -> Iterator[Block]:
    """Rows `start` to `stop` - 1 of what stands one below the other, without a copy."""
    row = 0
    for block in chain.from_iterable(part.blocks() for part in parts):
        a = max(start - row, 0)
        b = min(stop - row, block.rows)
        if a < b:
            yield block.cut(a, b)
        row += block.rows


class _Taken(Rows):
    """Some blocks of rows like those of a matrix."""

    def __init__(self, taken: list[Block], A: Rows) -> None:
        self.taken, self.dtype = taken, A.dtype
        self.shape = sum(block.rows for block in taken), A.shape[1]

    def blocks(self) -> Iterator[Block]:
        return iter(self.taken)


class WorkerExecutor(Executor):
    """Runs reductions where the rows are; rows of this process are sent there."""

    def reduce(
        self,
        operators: Sequence[Rows],
        begin: Callable[[list[Block]], Reduction],
        between: Callable[..., None],
    ) -> tuple[Reduction, Any, int, float]:
        leader = _leader(operators)
        engine = leader.engine
        with looking(between):
            between()
            reduction = begin([_first(A) for A in operators])
            run, calls = _planned(leader, operators, reduction, _runs(leader, operators, reduction))
            merge = _Merge(run.reduction)
            if reduction.tall:
                total, entries = merge(0, *engine.fetch_once(engine.map(run, calls)))
            else:
                total, entries = engine.reduce(run, calls, merge)
        return reduction, total, leader.edges[-1], entries

    def kept(self, operators: Sequence[Rows], reduction: Reduction, between: Callable[..., None]) -> Rows:
        leader = _leader(operators)
        ends = list(range(len(leader.handles) + 1))
        run, calls = _planned(leader, operators, reduction, ends)
        with looking(between):
            handles = leader.engine.map(_Images(run), calls)
        heights = [b - a for a, b in pairwise(leader.edges)]
        dtype = np.dtype(np.float64)
        return WorkerRows(
            leader.engine, handles, heights, reduction.columns, dtype, given_back=leader.given_back
        )


ON_WORKERS = WorkerExecutor()


@dataclass(frozen=True)
class _Merge:
    """Work that merges totals of neighbouring runs."""

    reduction: bytes

    def __call__(self, number: int, *parts: tuple[Any, float]) -> tuple[Any, float]:
        reduction = _Reader(self.reduction, []).load()
        total, entries = parts[0]
        total = copy.deepcopy(total)  # others may read it, and the work may be repeated
        with np.errstate(all="ignore"), one_blas_thread(needed=True), machine.one_thread():
            for right, more in parts[1:]:
                total, entries = reduction.merge(total, right), entries + more
        return total, entries


@dataclass(frozen=True)
class _Images:
    """Work that returns the images of the rows of a block, which one part of a reduction has made."""

    run: _Run

    def __call__(self, number: int, *values: Any) -> Array:
        (pieces,), _ = self.run(number, *values)
        return np.concatenate(pieces)


def _opened(rows: Any, dtype: DType, *, far: bool) -> Rows:
    are_rows = isinstance(rows, Rows)  # as they were sent, or as a pass has left them
    opened: Rows = copy.copy(rows) if are_rows else (Dense if isinstance(rows, np.ndarray) else Sparse)(rows)
    opened.far, opened.dtype = far, dtype
    return opened


def _first(A: Rows) -> Block:
    return next((A.first if isinstance(A, WorkerRows) else A).blocks())


def _leader(operators: Sequence[Rows]) -> WorkerRows:
    """The matrix beside whose blocks the others are brought."""
    A, *rest = (A for A in operators if isinstance(A, WorkerRows))
    if not all(A.engine.joins(B.engine) for B in rest):
        kinds = ", ".join(sorted({type(B.engine).__name__ for B in (A, *rest)}))
        raise UnsupportedData(f"all blocks of rows must be in one place; got {kinds}. Give both to one.")
    for B in operators:
        if B.shape[0] not in (A.shape[0], math.inf):
            raise InvalidProblem(f"matrices must have equally many rows; got {A.shape[0]} and {B.shape[0]}.")
    return A


def _runs(leader: WorkerRows, operators: Sequence[Rows], reduction: Reduction) -> list[int]:
    """The first blocks of all runs, and the number of all blocks: by the data alone."""
    columns = sum(A.shape[1] for A in operators)
    total = 8.0 * columns * (columns if reduction.wide else reduction.columns)
    parts = PARTS_PER_RUN**2 if reduction.tall else PARTS_PER_RUN  # tall totals come here unmerged
    least = max(parts * total, sum(leader.sizes) / MOST_RUNS)
    ends = [0]
    size = 0.0
    for number, more in enumerate(leader.sizes, 1):
        size += more
        if size >= least:
            ends.append(number)
            size = 0.0
    return [*ends[: max(len(ends) - 1, 1)], len(leader.sizes)]  # what is left joins the last run


def _planned(
    leader: WorkerRows, operators: Sequence[Rows], reduction: Any, ends: list[int]
) -> tuple[_Run, list[Call]]:
    """The work of a pass, and a call for each run."""
    edges = [leader.edges[i] for i in ends]
    arrays = [x for x in reduction.by_row if x is not None]
    handles: list[list[Any]] = [[] for _ in edges[1:]]
    pieces: list[list[tuple[int, int]]] = [[] for _ in edges[1:]]
    for A in operators:
        if isinstance(A, WorkerRows):
            where = [(bisect_right(A.edges, a) - 1, bisect_right(A.edges, b - 1)) for a, b in pairwise(edges)]
            parts = [A.handles[i:j] for i, j in where]
            skipped = [a - A.edges[i] for a, (i, _) in zip(edges, where, strict=False)]
        else:
            parts = [[handle] for handle in leader.sent(A, edges, _taken)]
            skipped = [0 for _ in parts]
        for run, (part, rows) in enumerate(zip(parts, skipped, strict=True)):
            handles[run] += part
            pieces[run].append((len(part), rows))
    for x in arrays:
        lasts = x is reduction.pre.w or x is reduction.pre.B  # others are of this pass alone
        held = leader.sent(x, edges, _slices) if lasts else leader.engine.hold(_slices(x, edges))
        for run, handle in enumerate(held):
            handles[run].append(handle)
    stream = io.BytesIO()
    _Writer(stream, [*operators, *arrays]).dump(reduction)
    work = _Run(
        stream.getvalue(),
        [(A.dtype, A.far) for A in operators],
        edges,
        pieces,
    )
    # the first handle, by which an engine chooses the worker, is one of the leader
    return work, [Call(i, tuple(arguments)) for i, arguments in enumerate(handles)]


def _slices(x: Array, edges: list[int]) -> list[Array]:
    return [x[a:b] for a, b in pairwise(edges)]


def _taken(A: Rows, edges: list[int]) -> list[Rows]:
    """The rows of a matrix of this process, cut at some rows."""
    parts: list[list[Block]] = [[] for _ in edges[1:]]
    row = 0
    for block in A.blocks():
        for part, (a, b) in zip(parts, pairwise(edges), strict=True):
            start = max(a - row, 0)
            stop = min(b - row, block.rows)
            if start < stop:
                part.append(block.take(np.arange(start, stop)))
        row += block.rows
    if row != edges[-1]:
        raise InvalidProblem(f"matrices must have equally many rows; got {edges[-1]} and {row}.")
    return [_Taken(part, A) for part in parts]


class _Writer(pickle.Pickler):
    """Pickles a reduction with numbers in place of some objects."""

    def __init__(self, stream: io.BytesIO, numbered: list[Any]) -> None:
        super().__init__(stream, protocol=5)
        self.numbers = {id(x): i for i, x in enumerate(numbered)}

    def persistent_id(self, x: Any) -> int | None:
        return self.numbers.get(id(x))


class _Reader(pickle.Unpickler):
    """Reads it with other objects of these numbers, or with none."""

    def __init__(self, written: bytes, numbered: list[Any]) -> None:
        super().__init__(io.BytesIO(written))
        self.numbered = numbered

    def persistent_load(self, number: Any) -> Any:
        return self.numbered[number] if self.numbered else None
