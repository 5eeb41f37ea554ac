"""Rows that are decoded slab by slab, the next slab while the one before is multiplied: the one door of all formats.

Problem: rows in compressed chunks cannot be mapped. Decoding takes as long as multiplying, or longer, and a pass needs
blocks of rows that are smaller than the units of decoding. Rows of many files are one matrix only if each file has the
same columns. A file that changes between two passes would give a product of two different matrices.
Method: a reader of a format makes the operator of one file: rows that are held, or `FileRows` of a function that reads
some of them. Files are stacked, and columns picked, in the same way for all formats. The rows are cut into slabs of
some megabytes, along the chunks of the file. A slab is decoded whole, and blocks are cut out of it without a copy.
While slabs are taken in order, a thread decodes the next one. At most two slabs are held, and a copy of the rows of a
block that is in two. Sizes and times of the files are compared where a pass begins and ends.
Where we differ from a queue that a thread fills: a thread decodes one slab and ends, so nothing has to be closed when a
pass is abandoned, by an exception or by Ctrl-C. An exception of the thread is raised when its slab is taken.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from functools import partial
from itertools import accumulate, chain
from typing import Any

import numpy as np
import scipy.sparse

from linspec.arrays import DType, HostArray, working_dtype
from linspec.errors import InvalidProblem, LinspecError, called, printable
from linspec.operators import DenseOperator, LinearOperator, RowFiles, RowOperator, SparseOperator, looked_at
from linspec.process import available_memory, check_memory

SLAB_BYTES = 16 << 20
"""Size of a slab in memory: several blocks, but small enough for the allocator to reuse the memory."""

PIECES, MOST_PIECES = 256, 2**16
"""Largest number of chunks in a slab, between which a run can stop; and of chunks that are read together at all."""

MOST_SLABS = 2**22
"""Largest number of slabs of a matrix: 64 TiB, if slabs are full."""

SLABS_IN_MEMORY = 5
"""Number of slabs whose memory a pass takes: the one that is multiplied, the next one, and some that the allocator has
not given back yet. Measured, for slabs of `SLAB_BYTES`."""

READING_AHEAD = True
"""Whether a thread decodes the next slab; the measurements of this library switch it off to compare."""

WITHOUT_COLUMN = (
    "Leave such columns out: columns=, on the command line FILE:~NAME, or --ids NAME if it names the rows; numbers are "
    "written like 1000.5, with a point and no other mark; missing values in others are dropped by --drop-missing."
)
WITHOUT_GAPS = (
    'Fill such values, read them as NaN by linspec.open_rows(..., missing="nan"), leave their rows out of all files, '
    "on the command line --drop-missing, or leave the column out, FILE:~NAME."
)
"""The remedies for a column of texts, and for a missing value."""

MOST_LABELS = 2**20
"""Largest number of rows for which the names of rows are read; for more rows `row_names` is None."""


@dataclass
class Source:
    """Rows in files, with the decoded slab that was taken last, and the next one, which a thread decodes ahead.

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
    paths : sequence of str
        Files and folders whose sizes and times are compared in each pass.
    entries : int
        The number of stored entries.
    sparse : bool
    decodes : bool
        Whether reading a slab decodes it; False for rows as they stand in the file.
    """

    name: str
    shape: tuple[int, int]
    dtype: DType
    edges: HostArray
    read: Callable[[int, int], Any]
    paths: Sequence[str]
    entries: int
    sparse: bool = False
    decodes: bool = True

    def __post_init__(self) -> None:
        self._stamp = stamp(self.paths)
        self._begin()

    def __reduce__(self) -> Any:
        return Source, tuple(
            getattr(self, field.name) for field in fields(self)
        )  # another process decodes anew

    def _begin(self) -> None:
        self._process, self._lock = os.getpid(), threading.RLock()
        self._number, self._slab = -1, None
        self._ahead: tuple[int, Future[Any], ThreadPoolExecutor] | None = None

    def take(self, number: int) -> Any:
        """Return a decoded slab; raise `InvalidProblem` if it cannot be decoded, or its file has changed."""
        if self._process != os.getpid():  # the threads of a parent do not exist in a forked child
            self._begin()
        with self._lock:
            if number == self._number:
                return self._slab
            in_order, (ahead, self._ahead) = number in (0, self._number + 1), (self._ahead, None)
            self._number, self._slab = -1, None  # frees its memory before the next one is decoded
            if ahead:
                ahead[2].shutdown()  # one thread reads at a time, and the next one has the memory of its heap
            self._slab = ahead[1].result() if ahead and ahead[0] == number else self._decoded(number)
            self._number = number
            if READING_AHEAD and in_order and number + 1 < len(self.edges) - 1:
                worker = ThreadPoolExecutor(1, "linspec-read-ahead")
                self._ahead = number + 1, worker.submit(self._decoded, number + 1), worker
                worker.shutdown(wait=False)
            return self._slab

    def _decoded(self, number: int) -> Any:
        start = int(self.edges[number])
        stop = int(self.edges[number + 1])
        with reading(self.name, f"rows {start} to {stop - 1}"):
            slab = self.read(start, stop)
            if number in (0, len(self.edges) - 2) and stamp(self.paths) != self._stamp:
                raise InvalidProblem(
                    f"{self.name} has changed since it was opened. Leave files as they are while they are in use, and "
                    "solve again."
                )
        if slab.shape != (stop - start, self.shape[1]):
            raise InvalidProblem(
                f"{self.name} must give {stop - start} rows from row {start} on; got an array of shape {slab.shape}. "
                "Its description does not fit what it holds: write it again."
            )
        return slab


class FileRows(RowOperator):
    """The operator of rows in files.

    Parameters
    ----------
    source : Source
    """

    _converts = True

    def __init__(self, source: Source) -> None:
        self.source, self.shape, self.sparse = source, source.shape, source.sparse
        self.dtype = working_dtype(source.dtype, source.name)
        self._nnz, self._stored_dtype = source.entries, source.dtype
        size = source.entries * (source.dtype.itemsize + 4 * source.sparse)
        self.decoded_bytes = size * source.decodes
        self.rows_together = int(np.diff(source.edges).max(initial=1))
        slabs = min(SLABS_IN_MEMORY, len(source.edges) - 1)
        self.buffer_bytes = slabs * size * self.rows_together // max(self.shape[0], 1)

    def in_memory(self, most: float) -> LinearOperator:
        """Return rows in memory, if one reading of all is faster than slabs, and they take at most `most` bytes."""
        if not getattr(self.source.read, "at_once", False) or self.decoded_bytes > most:
            return self
        with reading(self.source.name, "it"):
            return DenseOperator(self.source.read(0, self.shape[0]), None, self.dtype).with_names_of(self)

    def _rows(self, selection: slice | HostArray) -> LinearOperator:
        edges, chosen = self.source.edges, dict[int, Any]()
        if isinstance(selection, slice):
            ends = np.array([selection.start, selection.stop])
            first, last = np.searchsorted(edges, ends - [0, 1], side="right") - 1
            for slab in range(first, last + 1):
                chosen[slab] = slice(*np.maximum(ends - edges[slab], 0))
        else:
            owners = np.searchsorted(edges, selection, side="right") - 1
            for slab in np.unique(owners).tolist():
                chosen[slab] = selection[owners == slab] - edges[slab]
        pieces = [self.source.take(slab)[wanted] for slab, wanted in chosen.items()]
        if not pieces:
            empty = scipy.sparse.csr_array if self.sparse else np.zeros
            pieces.append(empty((0, self.shape[1]), dtype=self.stored_dtype))
        join = partial(scipy.sparse.vstack, format="csr") if self.sparse else np.concatenate
        rows = pieces[0] if len(pieces) == 1 else join(pieces)
        if not isinstance(selection, slice):
            rows = rows[np.argsort(np.argsort(owners, kind="stable"))]
        with called(self.source.name):
            return SparseOperator(rows, self.dtype) if self.sparse else DenseOperator(rows, None, self.dtype)


@contextmanager
def reading(name: str, what: str) -> Iterator[None]:
    """Turn errors of a reading library into `InvalidProblem` with the place in the file."""
    try:
        yield
    except (LinspecError, Warning):
        raise
    except Exception as error:  # each way of being broken has errors of its own
        reason = " ".join(f"{type(error).__name__}: {error}".split())[:300].rstrip(".")
        raise InvalidProblem(
            f"{name}: {what} cannot be read ({printable(reason)}). The file is damaged, cut off or gone, of another "
            "format than its suffix says, or needs a filter that is not installed (import hdf5plugin for those of "
            "HDF5): restore it, or write it again."
        ) from error


def files_below(path: str) -> list[str]:
    """Return the files in a folder, or the file; pipes and devices are refused."""
    below = [os.path.join(place, name) for place, _, inside in os.walk(path) for name in inside]  # noqa: PTH118
    return below or [path]


def stamp(paths: Sequence[str]) -> tuple[int, int, int]:
    """Return the number of all files, their size and latest time; refuse pipes and devices among them."""
    files = [file for path in paths for file in files_below(path)]
    states = [os.stat(file) if os.path.isfile(file) else looked_at(file, folder=True) for file in files]  # noqa: PTH113, PTH116
    return (
        len(states),
        sum(state.st_size for state in states),
        max((s.st_mtime_ns for s in states), default=0),
    )


# ---- one file -------------------------------------------------------------------------------------------------


def held(name: str, matrix: Any) -> LinearOperator:
    """Make the operator of a checked matrix in memory; a vector is a column."""
    working_dtype(matrix.dtype, name)
    if matrix.ndim == 1:
        matrix = matrix.reshape(-1, 1)
    return SparseOperator(matrix, checked=True) if scipy.sparse.issparse(matrix) else DenseOperator(matrix)


def slab_bytes() -> int:
    """The size of a slab: `SLAB_BYTES`, or less where those of a pass would take more than a quarter of the memory."""
    return max(min(SLAB_BYTES, available_memory() // (4 * SLABS_IN_MEMORY)), 1)


def dense(name: str, shape: Any, dtype: DType, read: Any, path: str, chunks: Any = None) -> FileRows:
    """Make the operator of a two-dimensional array in a file, with the shape of its chunks, if it has some.

    Raises
    ------
    InvalidProblem
        The array has another number of dimensions, or more rows or chunks than fit into memory or can be gone through.
    UnsupportedData
        It holds no real numbers.
    """
    if len(shape) != 2:
        working_dtype(dtype, name)  # records are no vector
        raise InvalidProblem(
            f"{name} must have two dimensions, rows and columns; got {len(shape)} with shape {shape}. Store it as a "
            "matrix."
        )
    n, p = map(int, shape)
    row_bytes = max(p * dtype.itemsize, 1)
    stripe, across = (min(chunks[0], max(n, 1)), -(-p // chunks[1])) if chunks else (1, 0)
    size = slab_bytes()
    stripes = min(size // (stripe * row_bytes), PIECES // across if across else size)
    rows = stripe * max(1, stripes)
    check_memory(
        name, 4 * stripe * row_bytes, f"four times {stripe:,} rows, which are decoded together,",
        f"Write it again in chunks of fewer rows and all columns, such as {(max(1, SLAB_BYTES // row_bytes), p)}.",
    )  # fmt: skip
    if n > MOST_SLABS * rows or across > MOST_PIECES:
        raise InvalidProblem(
            f"{name} has {n:,} rows, {rows:,} at a time, in {across:,} chunks: too many to go through. Is it damaged?"
        )
    edges = np.append(np.arange(0, n, rows), n).astype(np.intp)
    return FileRows(
        Source(name, (n, p), dtype, edges, read, [path] * bool(path), n * p, decodes=chunks is not None)
    )


def without_part(files: RowFiles, what: str) -> None:
    """Raise if a part is named of files that have none."""
    if files.part:
        raise InvalidProblem(f"{files.name} is {what} and has no part {files.part!r}. Leave it out.")


# ---- several files --------------------------------------------------------------------------------------------


def of_files(files: RowFiles, read: Callable[[str], LinearOperator]) -> LinearOperator:
    """Make the operator of files that are read one by one, with the chosen columns."""
    parts = []
    for path in files.paths:
        part = read(path)
        parts.append(picked(part, files.places(part.column_names, part.shape[1], printable(path))))
    return stacked(files, parts)


def picked(part: LinearOperator, places: Sequence[int] | None) -> LinearOperator:
    """Make the operator of some columns; None for all."""
    if places is None:
        return part
    if isinstance(part, FileRows):
        source, read = part.source, partial(_columns, part.source.read, places)
        entries = source.entries * len(places) // source.shape[1]
        operator: LinearOperator = FileRows(
            replace(source, shape=(source.shape[0], len(places)), read=read, entries=entries)
        )
    else:
        operator = held("", part.stored_array[:, places])
    names, operator.row_names = part.column_names, part.row_names
    operator.column_names = None if names is None else tuple(names[j] for j in places)
    return operator


def _columns(read: Callable[[int, int], Any], places: Sequence[int], start: int, stop: int) -> Any:
    return read(start, stop)[:, places]


def stacked(files: RowFiles, parts: Sequence[LinearOperator]) -> LinearOperator:
    """Make one operator of those of several files; refuse one with other columns, names, dtype or kind by its name."""
    first = parts[0]
    starts = [0, *accumulate(part.shape[0] for part in parts)]
    facts = [(part.shape[1], part.sparse, part.stored_dtype, part.column_names) for part in parts]
    for path, here in zip(files.paths, facts, strict=True):
        if here != facts[0]:
            raise InvalidProblem(
                f"{printable(path)} must have the columns of {printable(files.paths[0])}, in their order, of one dtype "
                "and all dense or all sparse. Leave the file out, or write it again like the others."
            )
    if len(parts) == 1:
        return first
    sources = [part.source for part in parts if isinstance(part, FileRows)]
    if sources:
        edges = np.unique(
            np.concatenate([source.edges + start for source, start in zip(sources, starts, strict=False)])
        )
        reads = [source.read for source in sources]
        paths = list(chain(*(source.paths for source in sources)))
        operator: LinearOperator = FileRows(
            replace(
                sources[0], name=files.name, shape=(starts[-1], first.shape[1]), edges=edges, paths=paths,
                read=partial(_part, reads, starts), entries=sum(part.nnz for part in parts),
            )
        )  # fmt: skip
    else:
        matrices = [part.stored_array for part in parts]
        operator = held(
            files.name,
            scipy.sparse.vstack(matrices, format="csr") if first.sparse else np.concatenate(matrices),
        )
    operator.column_names, labels = first.column_names, [part.row_names for part in parts]
    if None not in labels and starts[-1] <= MOST_LABELS:
        operator.row_names = list(chain(*labels))
    return operator


def _part(reads: Sequence[Callable[[int, int], Any]], starts: Sequence[int], start: int, stop: int) -> Any:
    """Read rows of a slab, which is in one file."""
    number = int(np.searchsorted(starts, start, side="right")) - 1
    return reads[number](start - starts[number], stop - starts[number])
