"""Rows that come slice by slice: from an iterator, which is read once, or from a callable that returns a fresh one.

Problem: data that are generated, that arrive over time, or that are spread over many files are never in memory as a
whole; their number of rows is known only after they have been read. One source often yields the rows of X together with
those of Y: two streams would read it twice, and an iterator cannot be read twice.
Method: the first slice is read when the operator is made and determines columns, dtype and library; the rest is read
in order, one slice after the other, by `blocks`. Small slices are copied into one block until the block is large
enough to multiply. Large slices are passed on uncopied. Every slice is compared with the first. Of pairs of slices each
half is a stream, and both take blocks from one reading by turns; a pass over one half drops the slices of the other.
Where we differ from a loop over `next`: a slice is copied or used before the next is requested, so a generator may
reuse one buffer. The first slice, which is used only in the first pass, is copied when it is read: another problem
may read the same source meanwhile. Unlike `itertools.tee`, nothing is kept for a half that falls behind.
"""

from __future__ import annotations

import itertools
import math
import threading
import weakref
from collections.abc import Iterator, Sequence
from numbers import Integral
from typing import Any

import scipy.sparse

from linspec.arrays import DType, check_bare, copied
from linspec.borrowed import borrowed
from linspec.errors import InvalidProblem, SweptOnce, UnsupportedData, called, shown
from linspec.frames import check_names, check_order, is_frame
from linspec.operators.base import LinearOperator
from linspec.operators.dense import DenseOperator, MappedOperator
from linspec.operators.foreign import CupySparseOperator, known
from linspec.operators.sparse import SparseOperator
from linspec.operators.tables import of_frame
from linspec.process.locks import locked
from linspec.process.pauses import pause
from linspec.registry.objects import instead_of, line_for

SPARSE = SparseOperator | CupySparseOperator
"""The operator classes of sparse slices."""

Slices = tuple[LinearOperator, ...]
"""Operators with the same rows of every matrix of a source."""

GATHERED_BYTES = 8 << 20
"""Largest size of a block of gathered small slices, in bytes: several cache-sized blocks for each of a few threads."""

ONCE = "an iterator can be read once. Pass a callable that returns a fresh iterator of the slices"
"""Text for messages about an iterator that was used, with the remedy."""


def is_stream(source: Any) -> bool:
    """Whether `source` is an iterator, or a callable that may return one."""
    reads = hasattr(source, "__next__") or callable(source)
    return reads and not (isinstance(source, type) or line_for(source))


class StreamedOperator(LinearOperator):
    """The rows of an iterator of slices, or of a callable that returns a fresh iterator.

    Parameters
    ----------
    source : iterator or callable
        It yields slices: dense arrays of any supported library, SciPy sparse matrices, or frames, with equally many
        columns. Slices without rows are skipped. Frames must have the columns of the first by name and order.
    rows : int, optional
        The number of rows, if it is known before they are read.
    name : str, default "data"
        The name of the data in messages.
    index : int, default 0
        The number of the matrix, if the source yields slices of several (`linspec.paired`).

    Attributes
    ----------
    shape : tuple
        (n, p); n is `math.inf` until it is known.
    readings : float
        How often the rows can be read: 1 for an iterator, infinity for a callable.

    Raises
    ------
    UnsupportedData, InvalidProblem
        When the first slice cannot be multiplied, or there is no slice.

    Examples
    --------
    >>> import numpy as np
    >>> from linspec.operators import StreamedOperator
    >>> def slices():
    ...     yield np.ones((2, 3))
    ...     yield np.zeros((1, 3))
    >>> A = StreamedOperator(slices)
    >>> A.rmatmat(np.ones((3, 1))).ravel()
    array([2., 2., 2.])
    >>> A.shape  # the rows are counted in the first pass
    (3, 3)
    """

    access = "slices"
    _converts = True

    def __init__(self, source: Any, rows: int | None = None, name: str = "data", index: int = 0) -> None:
        self.origin = source if isinstance(source, _Source) else _Source(source, rows, (name,))
        self.index, self.name, self.readings = index, self.origin.names[index], self.origin.readings
        first = self.origin.first[index]
        self.density = self.origin.densities[index]
        self.dtype, self._stored_dtype, self.device = first.dtype, first.stored_dtype, first.device
        self.sparse = isinstance(first, SPARSE)
        self.column_names, self.frame_library = first.column_names, first.frame_library

    def expect(self, rows: int) -> None:
        """Declare the number of rows, unless it is known; a pass with another number raises an error."""
        self.origin.rows = self.origin.rows or rows

    @property
    def shape(self) -> Any:  # type: ignore[override]
        """(n, p); n is known after a pass over any matrix of the source."""
        return self.origin.rows or math.inf, self.origin.first[self.index].shape[1]

    @property
    def nnz(self) -> int:
        """Number of stored entries, estimated from the first slice; 0 if n is unknown."""
        return int(self.density * (self.origin.rows or 0) * self.shape[1])

    @property
    def spent(self) -> bool:
        """Whether the rows can no longer be read, because their iterator was used."""
        return self.readings == 1 and self.origin.ready is None

    def blocks(self) -> Iterator[LinearOperator]:
        """All rows in order, block by block; a block is valid until the next is requested. One thread at a time.

        Raises
        ------
        SweptOnce
            When an iterator is read for the second time.
        """
        reading = self.origin.reading(self.index)
        return (block.in_dtype(self.dtype) or block for block in reading.blocks_of(self.index))


def paired(
    source: Any, *, rows: int | None = None, names: Sequence[str] = ("X", "Y")
) -> tuple[LinearOperator, ...]:
    """Make two matrices from a source that yields pairs of slices: some rows of X, and the same rows of Y.

    ``X, Y = linspec.paired(pairs)`` and then ``CCA(X, Y, k)`` or ``LeastSquares(X, Y)``: a pass over both reads every
    pair once. A pass over one of them reads every pair and drops the other half.

    Parameters
    ----------
    source : callable or iterator
        A callable that takes no arguments and returns a fresh iterator of pairs ``(x, y)``; or an iterator of pairs,
        which is read once. `x` and `y` are dense arrays or SciPy sparse matrices with equally many rows. Every `x` is
        like the first, and so is every `y`: the same columns, library and device. The first pair is read here.
    rows : int, optional
        The number of rows, if it is known before the first pass.
    names : sequence of str, default ("X", "Y")
        The names of the matrices in messages. There may be more than two: slices then come in tuples of so many.

    Returns
    -------
    tuple of LinearOperator
        X of shape (n, p) and Y of shape (n, q); n is `math.inf` until it is known.

    Raises
    ------
    UnsupportedData
        The source is neither a callable nor an iterator, or yields something other than pairs, or one half cannot be
        multiplied.
    InvalidProblem
        There are no rows, or the halves of a pair have different numbers of rows; the message has the number of the
        pair. Later pairs are checked as they are read.

    Notes
    -----
    A callable is called once for each pass in which a solver reads both matrices together, and once for each matrix
    that a solver reads alone.

    Examples
    --------
    >>> import numpy as np
    >>> import linspec as ls
    >>> def pairs():
    ...     rng = np.random.default_rng(0)
    ...     for _ in range(10):
    ...         x = rng.standard_normal((100, 4))
    ...         yield x, x[:, :3] + rng.standard_normal((100, 3))
    >>> X, Y = ls.paired(pairs)
    >>> solution = ls.solve(ls.CCA(X, Y, k=2))
    >>> solution.passes
    1.0
    """
    origin = _Source(source, rows, names)
    return tuple([StreamedOperator(origin, index=index) for index in range(len(names))])


class _Source:
    """An iterator or a callable, and what is known of the rows that it yields.

    Attributes
    ----------
    first : tuple of LinearOperator
        The first slices without their rows: all later ones must be like them.
    rows : int or None
        The number of rows, once it was stated or counted.
    ready : iterator or None
        The slices whose first were read ahead, until a pass takes them.
    """

    def __init__(self, source: Any, rows: Any, names: Sequence[str]) -> None:
        self.source, self.names, self.name = source, names, " and ".join(names)
        if not is_stream(source):
            raise UnsupportedData(
                f"{self.name} must be an iterator of slices, or a callable that returns one; got "
                f"{type(source).__name__}. Pass `lambda: iter(data)`."
            )
        if rows is not None and (isinstance(rows, bool) or not isinstance(rows, Integral) or rows < 1):
            raise InvalidProblem(
                f"rows of {self.name} must be a positive integer or None; got {shown(rows)}."
            )
        self.readings = 1.0 if hasattr(source, "__next__") else math.inf
        self.rows: int | None = None if rows is None else int(rows)
        self.first: Slices = ()
        self._warned = False
        self._begun: dict[int, weakref.ref[_Reading]] = {}  # by thread, the reading that was opened last
        slices = self._slices()
        with locked(source):
            first = next(slices, None)
        if first is None:
            raise InvalidProblem(
                f"{self.name} must have rows; got no slice that has any. Was the iterator used before?"
            )
        self.densities = [piece.nnz / (piece.shape[0] * max(piece.shape[1], 1)) for piece in first]
        # Until the first pass, another problem may read the same source.
        self.ready: Iterator[Slices] | None = itertools.chain([tuple(map(_held, first))], slices)

    def __getstate__(self) -> dict[str, Any]:
        """The state for pickling, without slices that a callable can make again.

        An iterator is kept, so that pickling fails with Python's own error.
        """
        return {**self.__dict__, "ready": None if self.readings > 1 else self.ready, "_begun": {}}

    def reading(self, index: int) -> _Reading:
        """The reading for a pass over one matrix: the last of this thread if it can still join it, else a new one."""
        thread = threading.get_ident()
        last = self._begun.get(thread)
        reading = None if last is None else last()
        if reading is None or index in reading.joined or reading.count > 1:
            reading = _Reading(self)
            self._begun[thread] = weakref.ref(reading)
        reading.joined.add(index)
        return reading

    def blocks(self) -> Iterator[Slices]:
        """Yield all rows in order, in blocks that are large enough to multiply, and count them."""
        with locked(self.source):
            slices, self.ready = self.ready, None
            if slices is None and self.readings == 1:
                raise SweptOnce(
                    f"{self.name} {'has' if len(self.names) == 1 else 'have'} been read: {ONCE}, or choose a solver "
                    "with the trait one-pass and let it be the only one that reads."
                )
            rows = 0
            for pieces in _gathered(slices or self._slices(), [first.dtype for first in self.first]):
                rows += pieces[0].shape[0]
                if rows > (self.rows or math.inf):
                    break
                yield pieces
        if self.rows not in (None, rows):
            raise InvalidProblem(
                f"{self.name} must have {self.rows} rows, as rows=, data beside it or an earlier pass says; its slices "
                f"gave {rows}. A callable must return a fresh iterator of the same slices at every call."
            )
        self.rows = rows

    def _slices(self) -> Iterator[Slices]:
        """Yield the slices that have rows, as operators, after comparison with the first."""
        start = 0
        for number, item in enumerate(self._opened()):
            pieces = tuple(
                _as_slice(part, f"{name}: slice {number} (from row {start})", name)
                for name, part in zip(self.names, self._parts(item, number), strict=True)
            )
            heights = [piece.shape[0] for piece in pieces]
            if len(set(heights)) > 1:
                listed = " and ".join(map("{} of {}".format, heights, self.names))
                raise InvalidProblem(
                    f"the parts of a pair must have equally many rows; pair {number} (from row {start}) has {listed}. "
                    "Yield the same rows of all."
                )
            if not heights[0]:
                continue
            self.first = self.first or tuple(
                _held(piece.rows(slice(0, 0))).with_names_of(piece) for piece in pieces
            )
            for name, piece, first in zip(self.names, pieces, self.first, strict=True):
                what = f"{name}: slice {number} (from row {start})"
                compare(piece, first, what)
                if piece.dtype.itemsize > first.dtype.itemsize:
                    raise UnsupportedData(
                        f"{what} needs {piece.dtype}, and the first {first.dtype}. Convert all to one dtype."
                    )
            check_order(dict(zip(self.names, pieces, strict=True)), again=self._warned)
            self._warned = True  # one warning, not one for each pair in each pass
            start += heights[0]
            yield pieces

    def _opened(self) -> Iterator[Any]:
        """Yield the items of the iterator, or of a fresh one that the callable returns."""
        iterator = self.source if self.readings == 1 else self.source()
        refused = hasattr(iterator, "__next__") and line_for(iterator)
        if refused or hasattr(iterator, "shape") or not hasattr(iterator, "__iter__"):
            raise UnsupportedData(
                f"{self.name}: the callable must return an iterator of slices; got {type(iterator).__name__}. "
                f"{instead_of(iterator, 'the array, the matrix or the operator itself, without a callable')}"
            )
        for item in iterator:
            pause()
            yield item
            del item

    def _parts(self, item: Any, number: int) -> Sequence[Any]:
        """The slices of each matrix."""
        if len(self.names) == 1:
            return (item,)
        if isinstance(item, tuple | list) and len(item) == len(self.names):
            return item
        raise UnsupportedData(
            f"{self.name}: the source must yield pairs (x, y) of slices; pair {number} is {shown(item)}. Slices of "
            "one matrix are passed without linspec.paired."
        )


class _Reading:
    """One reading of a source, from which its matrices take blocks by turns.

    Attributes
    ----------
    joined : set of int
        The numbers of the matrices that take part.
    count : int
        Blocks that were read: a matrix can join until the second one, and its first block waits for it.
    """

    def __init__(self, origin: _Source) -> None:
        self.blocks, self.count = origin.blocks(), 0
        self.joined: set[int] = set()
        self.waiting: dict[int, LinearOperator] = {}

    def blocks_of(self, index: int) -> Iterator[LinearOperator]:
        """Yield the blocks of one matrix."""
        while index in self.waiting or self._read():
            yield self.waiting.pop(index)

    def _read(self) -> bool:
        """Read the next blocks; return False at the end of the source."""
        if self.count and self.joined & self.waiting.keys():
            raise InvalidProblem(
                "the halves of pairs must be read by turns, block by block; got one that fell behind. Read one half "
                "after the other, or both side by side."
            )
        pieces = next(self.blocks, ())
        self.count += 1
        self.waiting = {i: piece for i, piece in enumerate(pieces) if self.count == 1 or i in self.joined}
        return len(pieces) > 0


def _gathered(slices: Iterator[Slices], dtypes: Sequence[DType]) -> Iterator[Slices]:
    """Yield blocks large enough to multiply: small slices copied together, in some dtypes, large slices uncopied."""
    small: list[tuple[Any, ...]] = []
    most = 0
    for pieces in slices:
        size = max(
            int(piece.nnz * (piece.dtype.itemsize + 4 * isinstance(piece, SPARSE))) for piece in pieces
        )
        if small and size > min(GATHERED_BYTES - most, GATHERED_BYTES // 2):
            yield _stacked(small)
            most = 0
        if size <= GATHERED_BYTES // 2:
            small.append(tuple(map(_copied, pieces, dtypes)))
            most += size
        else:
            yield tuple(piece.in_dtype(dtype) or piece for piece, dtype in zip(pieces, dtypes, strict=True))
        for piece in pieces:
            piece.release()
    if small:
        yield _stacked(small)


def _copied(piece: LinearOperator, dtype: DType) -> LinearOperator:
    """A slice in memory that the source does not fill again."""
    if isinstance(piece, SPARSE):
        return type(piece)(piece.matrix.astype(dtype), checked=True)
    return DenseOperator(piece.device.asarray(copied(piece.array), dtype))  # type: ignore[attr-defined]


def _held(piece: LinearOperator) -> LinearOperator:
    """A slice that is kept as it is stored; one of a mapped file is not copied."""
    return piece if isinstance(piece, MappedOperator) else _copied(piece, piece.stored_dtype)


def _stacked(small: list[tuple[Any, ...]]) -> Slices:
    """Small slices as one block; the list is emptied."""
    columns = [*zip(*small, strict=True)]
    small.clear()
    return tuple(map(_joined, columns))


def _joined(pieces: Sequence[Any]) -> LinearOperator:
    if isinstance(pieces[0], DenseOperator):
        return DenseOperator(pieces[0].device.xp.concat([piece.array for piece in pieces], axis=0))
    matrices = [piece.matrix for piece in pieces]
    if isinstance(pieces[0], SparseOperator):
        return SparseOperator(scipy.sparse.vstack(matrices, format="csr"), checked=True)
    from cupyx.scipy import sparse

    return CupySparseOperator(sparse.vstack(matrices, format="csr"), checked=True)


def _as_slice(data: Any, what: str, name: str) -> LinearOperator:
    """Make an operator of one slice; raise if it cannot be multiplied."""
    if is_frame(data):
        return of_frame(data, name)
    check_bare(data, what)
    data = borrowed(data, what)
    with called(what):
        operator = known(data)
    if not isinstance(operator, DenseOperator | SPARSE):
        raise UnsupportedData(
            f"{what} must be an array, a SciPy sparse matrix or a frame; got a {type(data).__name__}. "
            f"{instead_of(data)}"
        )
    return operator


def compare(piece: LinearOperator, first: LinearOperator, what: str) -> None:
    """Raise an error for a slice or a block that differs from the first one in columns, kind or device."""
    check_names(piece.column_names, first.column_names, what, "the first")
    if piece.shape[1] != first.shape[1]:
        raise InvalidProblem(
            f"{what} has {piece.shape[1]} columns; the first has {first.shape[1]}. All must have the same columns."
        )
    kinds = [
        f"{'a sparse matrix' if isinstance(A, SPARSE) else 'an array'} of {A.device}" for A in (piece, first)
    ]
    if kinds[0] != kinds[1]:
        raise UnsupportedData(f"{what} is {kinds[0]}; the first is {kinds[1]}. Convert all to one kind.")
