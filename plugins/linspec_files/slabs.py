"""Rows that are decoded slab by slab, the next slab while the one before is multiplied.

Problem: rows in compressed chunks cannot be mapped. Decoding takes as long as multiplying, or longer, and a sweep needs
blocks of rows that are smaller than the units of decoding.
Method: the rows are cut into slabs of some megabytes, along the chunks of the file. A slab is decoded whole, and blocks
are cut out of it without a copy. While slabs are taken in order, one thread decodes the next one. So a sweep takes the
time of the slower of decoding and multiplying. At most two slabs are held, and a copy of the rows of a block that is
in two.
Where we differ from a queue that a thread fills: a thread decodes one slab and ends. Nothing has to be closed when a
sweep is abandoned, by an exception or by Ctrl-C: the slab in progress is kept or dropped, and no thread waits. An
exception of the thread is raised when its slab is taken.

A file that changes between two passes would give a product of two different matrices. So the stamp of a slab (such as
size and time of its file) is compared whenever it is decoded again.
"""

from __future__ import annotations

import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any
from weakref import WeakSet

import numpy as np
import scipy.sparse

from linspec.arrays import HostArray, working_dtype
from linspec.errors import InvalidProblem, LinspecError, called
from linspec.operators import DenseOperator, LinearOperator, RowOperator, SparseOperator

SLAB_BYTES = 16 << 20
"""Size of a slab in memory: several blocks, but small enough for the allocator to reuse the memory."""

PIECES = 256
"""Largest number of chunks in a slab. Each chunk is decoded separately, and a run can stop only between slabs."""

MOST_SLABS = 2**22
"""Largest number of slabs of a matrix: 64 TiB, if slabs are full."""

SLABS_IN_MEMORY = 5
"""Number of slabs whose memory a sweep takes: the one that is multiplied, the next one, and some that the allocator has
not given back yet. Measured, for slabs of `SLAB_BYTES`."""

READING_AHEAD = True
"""Whether a thread decodes the next slab; the measurements of this library switch it off to compare."""


class RowSource(ABC):
    """Rows in a file, in slabs.

    Attributes
    ----------
    name : str
        The name of the data in messages.
    shape : tuple of int
        (n, p).
    stored_dtype : numpy.dtype
        The dtype of the entries.
    edges : numpy.ndarray of int, shape (slabs + 1,)
        The number of the first row of each slab; the last entry is n.
    sparse : bool
        Whether `read` gives sparse matrices.
    stored : int
        The number of entries that the file holds: n·p for dense rows.
    slab_bytes : int
        Size of the largest slab in memory.
    decoding_bytes : int
        Bytes that are held beside the slabs while one is decoded.
    decodes : bool
        Whether reading a slab decodes it; False for rows that are in memory or as they stand in the file.
    column_names : tuple of str or None
    row_names : sequence or None
    """

    name: str
    shape: tuple[int, int]
    stored_dtype: np.dtype[Any]
    edges: HostArray
    sparse: bool = False
    column_names: tuple[str, ...] | None = None
    row_names: Any = None
    decoding_bytes: int = 0
    decodes: bool = True

    @property
    def stored(self) -> int:
        """The number of entries that the file holds: n·p, unless the rows are sparse."""
        return self.shape[0] * self.shape[1]

    @property
    def slab_bytes(self) -> int:
        """Size of the largest slab in memory."""
        return int(np.diff(self.edges).max(initial=0)) * self.shape[1] * self.stored_dtype.itemsize

    def whole(self) -> Any:
        """Read all rows as an array if that is faster than reading slabs; return None otherwise."""
        return None

    @abstractmethod
    def read(self, rows: slice) -> Any:
        """Decode the rows of a slab to a new array or `scipy.sparse.csr_array`."""

    @abstractmethod
    def stamp(self, rows: slice) -> Any:
        """Return a value that stays equal as long as these rows of the file do not change."""


class SlabRows(RowOperator):
    """The operator of a source.

    Parameters
    ----------
    source : RowSource
    slabs : Slabs, optional
        The slabs of another operator on the same source, to share them.
    dtype : numpy.dtype, optional
        The working dtype; by default that of the entries.
    """

    def __init__(self, source: RowSource, slabs: Slabs | None = None, dtype: Any = None) -> None:
        self.source = source
        self.slabs = Slabs(source) if slabs is None else slabs
        self.shape = source.shape
        with called(source.name):
            self.dtype = working_dtype(source.stored_dtype) if dtype is None else np.dtype(dtype)
        self.sparse = source.sparse
        self.rows_together = int(np.diff(source.edges).max(initial=1))
        self.buffer_bytes = (
            min(SLABS_IN_MEMORY, len(source.edges) - 1) * source.slab_bytes + source.decoding_bytes
        )
        self.decoded_bytes = (
            source.decodes * source.stored * (source.stored_dtype.itemsize + 4 * source.sparse)
        )
        self.column_names, self.row_names = source.column_names, source.row_names

    @property
    def nnz(self) -> int:
        return self.source.stored

    @property
    def stored_dtype(self) -> np.dtype[Any]:
        return self.source.stored_dtype

    def in_memory(self, most: float) -> LinearOperator:
        """Return all rows in memory, as a `DenseOperator`, if `source.whole` reads them; otherwise this operator
        itself.

        `source.whole` returns None if reading all rows at once is not faster than reading slabs. It is not called if
        the rows take more than `most` bytes.
        """
        if self.shape[0] * self.shape[1] * self.stored_dtype.itemsize > most:
            return self
        with reading(self.source.name, "it"):
            array = self.source.whole()
        return self if array is None else DenseOperator(array, None, self.dtype).with_names_of(self)

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
        edges = self.source.edges
        if rows.start >= rows.stop:
            return [self._none()]
        first = int(np.searchsorted(edges, rows.start, side="right")) - 1
        last = int(np.searchsorted(edges, rows.stop, side="left"))
        found = []
        for number in range(first, last):
            start, stop = int(edges[number]), int(edges[number + 1])
            slab = self.slabs.take(number)
            found.append(slab[max(rows.start, start) - start : min(rows.stop, stop) - start])
        return found

    def _chosen(self, numbers: HostArray) -> list[Any]:
        """Return rows by their numbers, in one piece; each slab is decoded once, and the held slab is used first."""
        if not len(numbers):
            return [self._none()]
        owner = np.searchsorted(self.source.edges, numbers, side="right") - 1
        order, found = [], []
        for number in sorted(set(owner.tolist()), key=lambda slab: (slab != self.slabs.held, slab)):
            places = np.flatnonzero(owner == number)
            found.append(self.slabs.take(number)[numbers[places] - int(self.source.edges[number])])
            order.append(places)
        back = np.argsort(np.concatenate(order))
        whole = scipy.sparse.vstack(found, format="csr") if self.sparse else np.concatenate(found)
        return [whole[back]]

    def _none(self) -> Any:
        shape = (0, self.shape[1])
        return (
            scipy.sparse.csr_array(shape, dtype=self.stored_dtype)
            if self.sparse
            else np.zeros(shape, self.stored_dtype)
        )


class Slabs:
    """The decoded slabs of a source: the slab that was taken last, and the next slab, which a thread decodes ahead.

    Attributes
    ----------
    held : int
        The number of the slab that was taken last; -1 for none.
    """

    def __init__(self, source: RowSource) -> None:
        self.source = source
        self._stamps: dict[int, Any] = {}
        self.forget()
        _ALL.add(self)

    def forget(self) -> None:
        """Drop all slabs and make a new lock, in a forked child: the threads of its parent do not exist there."""
        self.held = -1
        self._slab: Any = None
        self._ahead: _Ahead | None = None
        self._lock = threading.RLock()

    def __getstate__(self) -> dict[str, Any]:
        """Return the state for another process, without the decoded slabs: that process decodes them anew."""
        return {"source": self.source, "_stamps": dict(self._stamps)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        Slabs.__init__(self, state["source"])
        self._stamps.update(state["_stamps"])

    def take(self, number: int) -> Any:
        """Return a decoded slab.

        Raises
        ------
        InvalidProblem
            It cannot be decoded, or has changed since an earlier pass.
        """
        with self._lock:
            if number == self.held:
                return self._slab
            in_order = number in (0, self.held + 1)
            ahead, self._ahead = self._ahead, None
            self.held, self._slab = -1, None  # frees its memory before the next one is decoded
            slab = ahead.result() if ahead is not None and ahead.number == number else self._decoded(number)
            self.held, self._slab = number, slab
            if in_order and READING_AHEAD and number + 1 < len(self.source.edges) - 1:
                self._ahead = _Ahead(number + 1, self._decoded)
            return slab

    def _decoded(self, number: int) -> Any:
        rows = slice(int(self.source.edges[number]), int(self.source.edges[number + 1]))
        with reading(self.source.name, f"rows {rows.start} to {rows.stop - 1}"):
            stamp = self.source.stamp(rows)
            if self._stamps.setdefault(number, stamp) != stamp:
                raise InvalidProblem(
                    f"{self.source.name} has changed since its rows {rows.start} to {rows.stop - 1} were first read. "
                    "Leave files as they are while they are in use, and solve again."
                )
            slab = self.source.read(rows)
        if slab.shape != (rows.stop - rows.start, self.source.shape[1]):
            raise InvalidProblem(
                f"{self.source.name} must give {rows.stop - rows.start} rows from row {rows.start} on; got an array of "
                f"shape {slab.shape}. Its description does not fit what it holds: write it again."
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


class _Ahead:
    """A slab that a thread decodes; if no thread can be started, `result` decodes it."""

    def __init__(self, number: int, decode: Callable[[int], Any]) -> None:
        self.number, self._decode = number, decode
        self._slab: Any = None
        self._error: BaseException | None = None
        self._thread: threading.Thread | None = None
        with suppress(RuntimeError):
            thread = threading.Thread(target=self._work, name="linspec-read-ahead")
            thread.start()
            self._thread = thread

    def _work(self) -> None:
        try:
            self._slab = self._decode(self.number)
        except BaseException as error:  # noqa: BLE001  # raised by `result`
            self._error = error

    def result(self) -> Any:
        """Wait for the slab and return it."""
        if self._thread is None:
            return self._decode(self.number)
        self._thread.join()
        if self._error is not None:
            raise self._error
        return self._slab


_ALL: WeakSet[Slabs] = WeakSet()
"""All `Slabs` of this process."""


def _forget_all() -> None:
    for slabs in list(_ALL):
        slabs.forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_all)


def slab_edges(n: int, stripe: int, row_bytes: int, pieces: int = 0) -> HostArray:
    """Return the edges of slabs of about `SLAB_BYTES` bytes: the first row of each slab, and n at the end.

    Rows are decoded `stripe` at a time, so a slab has one stripe or several whole ones: as many as fit into
    `SLAB_BYTES`, and with `pieces` above 0 at most as many as have `PIECES` chunks.

    Parameters
    ----------
    n : int
        The number of rows.
    stripe : int
        The number of rows of a chunk: slabs are whole chunks.
    row_bytes : int
        The size of a decoded row.
    pieces : int, default 0
        The number of chunks side by side in a stripe; 0 if the number of chunks does not limit a slab.

    Raises
    ------
    InvalidProblem
        There are too many rows for `MOST_SLABS` slabs.
    """
    stripe = max(1, min(stripe, max(n, 1)))
    stripes = max(1, SLAB_BYTES // max(stripe * row_bytes, 1))
    rows = stripe * (min(stripes, max(1, PIECES // pieces)) if pieces else stripes)
    if n > min(MOST_SLABS * rows, 2**62):
        raise InvalidProblem(
            f"data must have rows that a machine can go through; got {n:,}, {rows:,} at a time. It is damaged, or "
            "must be written again in larger chunks."
        )
    return np.append(np.arange(0, n, rows), n).astype(np.intp)
