"""Rows that are decoded slab by slab, the next slab while the one before is multiplied: the one door of all formats.

Problem: rows in compressed chunks cannot be mapped. Decoding takes as long as multiplying, or longer, and a pass needs
blocks of rows that are smaller than the units of decoding. Rows of many files are one matrix only if each file has the
same columns. A file that changes between two passes would give a product of two different matrices.
Method: a reader of a format makes a `Source`: what is known of the rows, and a function that reads some of them.
Sources are stacked, and columns of them picked, in the same way for all formats. The rows are cut into slabs of some
megabytes, along the chunks of the file. A slab is decoded whole, and blocks are cut out of it without a copy. While
slabs are taken in order, a thread decodes the next one. At most two slabs are held, and a copy of the rows of a block
that is in two. Sizes and times of the files are compared where a pass begins and ends.
Where we differ from a queue that a thread fills: a thread decodes one slab and ends, so nothing has to be closed when a
pass is abandoned, by an exception or by Ctrl-C. An exception of the thread is raised when its slab is taken.
"""

from __future__ import annotations

import os
import stat
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate, chain
from typing import Any

import numpy as np
import scipy.sparse

from linspec import cost
from linspec.arrays import HOST, HostArray, working_dtype
from linspec.errors import InvalidProblem, LinspecError, UnsupportedData, called
from linspec.operators import DenseOperator, LinearOperator, RowOperator, SparseOperator, looked_at

SLAB_BYTES = 16 << 20
"""Size of a slab in memory: several blocks, but small enough for the allocator to reuse the memory."""

PIECES = 256
"""Largest number of chunks in a slab. Each chunk is decoded separately, and a run can stop only between slabs."""

MOST_PIECES = 2**16
"""Largest number of chunks that are decoded for one reading: more would take many minutes."""

MOST_SLABS = 2**22
"""Largest number of slabs of a matrix: 64 TiB, if slabs are full."""

SLABS_IN_MEMORY = 5
"""Number of slabs whose memory a pass takes: the one that is multiplied, the next one, and some that the allocator has
not given back yet. Measured, for slabs of `SLAB_BYTES`."""

SHARE = 0.25
"""Largest share of the free memory that the rows of a chunk may take."""

MOST_LABELS = 2**20
"""Largest number of rows for which the names of rows are read; for more rows `row_names` is None."""


@dataclass
class Source:
    """Rows in files, or rows that had to be read whole.

    Attributes
    ----------
    name : str
        The name of the data in messages.
    shape : tuple of int
    dtype : numpy.dtype
        The dtype of the entries.
    edges : numpy.ndarray of int, shape (slabs + 1,)
        The number of the first row of each slab; the last entry is n.
    read : callable
        ``read(start, stop)`` decodes the rows of a slab to an array or a `scipy.sparse.csr_array`.
    paths : tuple of str
        Files and folders whose sizes and times are compared in each pass.
    entries : int
        The number of stored entries.
    slab_bytes : int
        Size of the largest slab in memory.
    column_names : tuple of str or None
    row_names : sequence or None
    sparse : bool
    held : array or matrix or None
        All rows, if they are in memory; a vector for one column that is a vector in its file.
    whole : callable or None
        ``whole()`` reads all rows at once, where that is faster than slabs in order.
    """

    name: str
    shape: tuple[int, int]
    dtype: np.dtype[Any]
    edges: HostArray
    read: Callable[[int, int], Any]
    paths: tuple[str, ...] = ()
    entries: int = 0
    slab_bytes: int = 0
    column_names: tuple[str, ...] | None = None
    row_names: Any = None
    sparse: bool = False
    held: Any = None
    whole: Callable[[], HostArray] | None = None

    def operator(self) -> LinearOperator:
        """Make the operator of the rows."""
        if self.held is None:
            return SlabRows(self)
        with called(self.name):
            if self.held.ndim == 1:
                operator: LinearOperator = VectorOperator(self.held.reshape(-1, 1))
            else:
                operator = (
                    SparseOperator(self.held, checked=True) if self.sparse else DenseOperator(self.held)
                )
        operator.column_names, operator.row_names = self.column_names, self.row_names
        return operator

    def picked(self, places: Sequence[int] | None) -> Source:
        """Return the source of some columns; this one for None."""
        if places is None:
            return self
        names = self.column_names
        chosen = None if names is None else tuple(names[j] for j in places)
        if self.held is not None:
            rows = self.held.reshape(self.shape) if self.held.ndim == 1 else self.held
            return held(self.name, rows[:, places], chosen, self.row_names)
        return replace(
            self,
            shape=(self.shape[0], len(places)),
            read=partial(_columns, self.read, places),
            entries=round(self.entries * len(places) / self.shape[1]),
            column_names=chosen,
        )


def _columns(read: Callable[[int, int], Any], places: Sequence[int], start: int, stop: int) -> Any:
    return read(start, stop)[:, places]


def held(
    name: str, matrix: Any, column_names: tuple[str, ...] | None = None, row_names: Any = None
) -> Source:
    """Make the source of a matrix in memory; a vector is a column."""
    rows = matrix.reshape(-1, 1) if matrix.ndim == 1 else matrix
    n, p = map(int, rows.shape)
    sparse, dtype = scipy.sparse.issparse(matrix), np.dtype(matrix.dtype)
    with called(name):
        working_dtype(dtype)
    entries = int(matrix.nnz if sparse else matrix.size)
    edges = _edges(n, max(1, SLAB_BYTES * n // max(entries * (dtype.itemsize + 4 * sparse), 1)))
    return Source(
        name, (n, p), dtype, edges, partial(_slice, rows),
        column_names=column_names, row_names=row_names, sparse=sparse, held=matrix, entries=entries,
    )  # fmt: skip


def _edges(n: int, rows: int) -> HostArray:
    return np.append(np.arange(0, n, rows), n).astype(np.intp)


def _slice(rows: Any, start: int, stop: int) -> Any:
    return rows[start:stop]


def dense(
    name: str, shape: tuple[int, ...], dtype: Any, read: Any, paths: Sequence[str], chunks: Any = None
) -> Source:
    """Make the source of a two-dimensional array in a file.

    Raises
    ------
    InvalidProblem
        The array has another number of dimensions, or too many rows.
    UnsupportedData
        It holds no real numbers, or one row of chunks takes too much memory.
    """
    if len(shape) != 2:
        raise InvalidProblem(
            f"{name} must have two dimensions, rows and columns; got {len(shape)} with shape {shape}. Store it as a "
            "matrix."
        )
    n, p = map(int, shape)
    with called(name):
        working_dtype(dtype)
    row_bytes, stripe = max(p * dtype.itemsize, 1), min(chunks[0], max(n, 1)) if chunks else 1
    across = -(-p // chunks[1]) if chunks else 1
    pieces = SLAB_BYTES // (stripe * row_bytes)
    rows = stripe * max(1, min(pieces, PIECES // across) if chunks else pieces)
    taken, free = min(rows, n) * row_bytes, HOST.free_memory()
    if across > MOST_PIECES or taken > max(SHARE * free, 2 * SLAB_BYTES):
        raise UnsupportedData(
            f"{name} has chunks of {stripe:,} rows, {across:,} side by side: to read one row takes "
            f"{cost.human_bytes(taken)}, and {cost.human_bytes(free)} are free. Write it again in chunks of fewer rows "
            f"and all columns, such as {(max(1, SLAB_BYTES // row_bytes), p)}."
        )
    if n > MOST_SLABS * rows:
        raise InvalidProblem(
            f"{name} must have rows that a machine can go through; got {n:,}, {rows:,} at a time. It is damaged, or "
            "must be written again in larger chunks."
        )
    return Source(name, (n, p), dtype, _edges(n, rows), read, tuple(paths), entries=n * p, slab_bytes=taken)


def stacked(name: str, sources: Sequence[Source]) -> Source:
    """Make one source of several, one below the other.

    Raises
    ------
    InvalidProblem
        One of them does not have the columns, names, dtype or kind of the first.
    """
    first = sources[0]
    for other in sources[1:]:
        _check_alike(other, first)
    if len(sources) == 1:
        return first
    parts = [source for source in sources if source.shape[0]] or [first]
    starts = [0, *accumulate(source.shape[0] for source in parts)]
    edges = np.concatenate([part.edges + start for part, start in zip(parts, starts, strict=False)])
    labels = [part.row_names for part in parts if part.row_names is not None]
    return replace(
        first, name=name, shape=(starts[-1], first.shape[1]), edges=np.unique(edges).astype(np.intp),
        read=partial(_part, [source.read for source in parts], starts), held=None, whole=None,
        paths=tuple(dict.fromkeys(path for part in parts for path in part.paths)),
        entries=sum(part.entries for part in parts), slab_bytes=max(part.slab_bytes for part in parts),
        row_names=list(chain(*labels)) if len(labels) == len(parts) and starts[-1] <= MOST_LABELS else None,
    )  # fmt: skip


def _part(reads: Sequence[Callable[[int, int], Any]], starts: Sequence[int], start: int, stop: int) -> Any:
    """Read rows of a slab, which is in one source."""
    number = int(np.searchsorted(starts, start, side="right")) - 1
    return reads[number](start - starts[number], stop - starts[number])


def _check_alike(other: Source, first: Source) -> None:
    facts = [(str(one.dtype), "sparse rows" if one.sparse else "dense rows") for one in (other, first)]
    names = [one.column_names or ["none"] * one.shape[1] for one in (other, first)]
    said = ""
    if other.shape[1] != first.shape[1]:
        said = f"{other.shape[1]} columns, and there are {first.shape[1]}"
    elif facts[0] != facts[1]:
        said = next(f"{got}, and there {wanted}" for got, wanted in zip(*facts, strict=True) if got != wanted)
    elif other.column_names != first.column_names:
        j = next(j for j, (got, wanted) in enumerate(zip(*names, strict=True)) if got != wanted)
        said = f"the column {names[0][j]!r} at place {j}, and there {names[1][j]!r}"
    if said:
        raise InvalidProblem(
            f"{other.name} must have the columns of {first.name}, in their order; it has {said}. Leave the file out, "
            "or write it again like the others."
        )


def stamp(paths: Sequence[str]) -> list[tuple[int, int, int]]:
    """Return for each file or folder the number of its files, their size and latest time; refuse pipes and devices."""
    found = []
    for path in paths:
        files = [path]
        if os.path.isdir(path):  # noqa: PTH112  # a text stays one
            files = [os.path.join(folder, one) for folder, _, inside in os.walk(path) for one in inside]  # noqa: PTH118
        states = []
        for file in files:
            state = os.stat(file)  # noqa: PTH116  # a list of chunks is long, and this is the quicker one
            if not stat.S_ISREG(state.st_mode):
                looked_at(file)
            states.append(state)
        times = [state.st_mtime_ns for state in states]
        found.append((len(states), sum(state.st_size for state in states), max(times, default=0)))
    return found


class VectorOperator(DenseOperator):
    """Operator of a column (n x 1) that is stored in its file as a vector.

    `stored_array` is that vector, of shape (n,), as long as no mean is subtracted.
    """

    @property
    def stored_array(self) -> Any:
        return self.array[:, 0] if self.mean is None and self.shape[1] == 1 else super().stored_array


class SlabRows(RowOperator):
    """The operator of a source.

    Parameters
    ----------
    source : Source
    slabs : Slabs, optional
        The slabs of another operator on the same source, to share them.
    dtype : numpy.dtype, optional
        The working dtype; by default that of the entries.
    """

    def __init__(self, source: Source, slabs: Slabs | None = None, dtype: Any = None) -> None:
        self.source, self.shape, self.sparse = source, source.shape, source.sparse
        self.slabs = Slabs(source) if slabs is None else slabs
        with called(source.name):
            self.dtype = working_dtype(source.dtype) if dtype is None else np.dtype(dtype)
        self.rows_together = int(np.diff(source.edges).max(initial=1))
        self.buffer_bytes = min(SLABS_IN_MEMORY, len(source.edges) - 1) * source.slab_bytes
        self.decoded_bytes = bool(source.paths) * source.entries * (source.dtype.itemsize + 4 * source.sparse)
        self.column_names, self.row_names = source.column_names, source.row_names

    @property
    def nnz(self) -> int:
        return self.source.entries

    @property
    def stored_dtype(self) -> np.dtype[Any]:
        return self.source.dtype

    def in_memory(self, most: float) -> LinearOperator:
        """Return all rows in memory, if reading them at once is faster and they take at most `most` bytes."""
        if self.source.whole is None or self.nnz * self.stored_dtype.itemsize > most:
            return self
        with reading(self.source.name, "it"):
            return DenseOperator(self.source.whole(), None, self.dtype).with_names_of(self)

    def in_dtype(self, dtype: np.dtype[Any]) -> LinearOperator | None:
        """Return an operator in another dtype that shares the decoded slabs."""
        return self if dtype == self.dtype else SlabRows(self.source, self.slabs, dtype)

    def _rows(self, selection: slice | HostArray) -> LinearOperator:
        pieces = self._pieces(selection) if isinstance(selection, slice) else self._chosen(selection)
        if self.sparse:
            rows = pieces[0] if len(pieces) == 1 else scipy.sparse.vstack(pieces, format="csr")
            with called(self.source.name):
                return SparseOperator(rows, self.dtype)
        return DenseOperator(pieces[0] if len(pieces) == 1 else np.concatenate(pieces), None, self.dtype)

    def _pieces(self, rows: slice) -> list[Any]:
        """Return the rows of a slice, one piece for each slab that has some."""
        edges, found = self.source.edges, []
        first = int(np.searchsorted(edges, rows.start, side="right")) - 1
        for number in range(first, int(np.searchsorted(edges, rows.stop, side="left"))):
            start = int(edges[number])
            found.append(self.slabs.take(number)[max(rows.start - start, 0) : rows.stop - start])
        return found if rows.start < rows.stop else self._chosen(np.empty(0, dtype=np.intp))

    def _chosen(self, numbers: HostArray) -> list[Any]:
        """Return rows by their numbers, in one piece; each slab is decoded once, and the held slab is used first."""
        if not len(numbers):
            shape = (0, self.shape[1])
            return [(scipy.sparse.csr_array if self.sparse else np.zeros)(shape, dtype=self.stored_dtype)]
        owner = np.searchsorted(self.source.edges, numbers, side="right") - 1
        order, found = [], []
        for number in sorted(set(owner.tolist()), key=lambda slab: (slab != self.slabs.held, slab)):
            places = np.flatnonzero(owner == number)
            found.append(self.slabs.take(number)[numbers[places] - int(self.source.edges[number])])
            order.append(places)
        whole = scipy.sparse.vstack(found, format="csr") if self.sparse else np.concatenate(found)
        return [whole[np.argsort(np.concatenate(order))]]


class Slabs:
    """The decoded slabs of a source: the slab that was taken last, and the next slab, which a thread decodes ahead.

    Attributes
    ----------
    held : int
        The number of the slab that was taken last; -1 for none.
    """

    def __init__(self, source: Source) -> None:
        self.source, self._stamp = source, stamp(source.paths)
        self._begin()

    def _begin(self) -> None:
        """Hold no slab, with a new lock: the threads of a parent do not exist in a forked child."""
        self._process, self._lock = os.getpid(), threading.RLock()
        self.held, self._slab = -1, None
        self._ahead: tuple[int, Future[Any]] | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Return the state for another process, without the decoded slabs: that process decodes them anew."""
        return {"source": self.source, "_stamp": self._stamp}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._begin()

    def take(self, number: int) -> Any:
        """Return a decoded slab; raise `InvalidProblem` if it cannot be decoded, or its file has changed."""
        if self._process != os.getpid():
            self._begin()
        with self._lock:
            if number == self.held:
                return self._slab
            in_order, (ahead, self._ahead) = number in (0, self.held + 1), (self._ahead, None)
            self.held, self._slab = -1, None  # frees its memory before the next one is decoded
            if ahead and ahead[0] != number:
                wait([ahead[1]])  # one thread reads at a time
                ahead = None
            slab = ahead[1].result() if ahead else self._decoded(number)
            self.held, self._slab = number, slab
            if in_order and number + 1 < len(self.source.edges) - 1:
                worker = ThreadPoolExecutor(1, "linspec-read-ahead")
                with suppress(RuntimeError):  # no thread can be started
                    self._ahead = number + 1, worker.submit(self._decoded, number + 1)
                worker.shutdown(wait=False)
            return slab

    def _decoded(self, number: int) -> Any:
        name, edges = self.source.name, self.source.edges
        start, stop = int(edges[number]), int(edges[number + 1])
        with reading(name, f"rows {start} to {stop - 1}"):
            slab = self.source.read(start, stop)
            if number in (0, len(edges) - 2) and stamp(self.source.paths) != self._stamp:
                raise InvalidProblem(
                    f"{name} has changed since it was opened. Leave files as they are while they are in use, and solve "
                    "again."
                )
        if slab.shape != (stop - start, self.source.shape[1]):
            raise InvalidProblem(
                f"{name} must give {stop - start} rows from row {start} on; got an array of shape {slab.shape}. Its "
                "description does not fit what it holds: write it again."
            )
        return slab


@contextmanager
def reading(name: str, what: str) -> Iterator[None]:
    """Turn errors of a reading library into `InvalidProblem` with the place in the file."""
    try:
        yield
    except (LinspecError, MemoryError):
        raise
    except Exception as error:  # each way of being broken has errors of its own
        said = " ".join(f"{type(error).__name__}: {error}".split())[:300].rstrip(".")
        raise InvalidProblem(
            f"{name}: {what} cannot be read ({said}). The file is damaged, cut off or gone: restore it, or write it "
            "again."
        ) from error
