"""Rows that come slice by slice: from an iterator, which is read once, or from a callable that returns a fresh one.

Problem: data that are generated, that arrive over time, or that are spread over many files are never in memory as a
whole; their number of rows is known only after they have been read.
Method: the first slice is read when the operator is made and determines columns, dtype and library; the rest is read
in order, one slice after the other, by `blocks`. Small slices are copied into one block until the block is large
enough to multiply. Large slices are passed on uncopied. Every slice is compared with the first.
Where we differ from a loop over `next`: a slice is copied or used before the next is requested, so a generator may
reuse one buffer. The first slice, which is used only in the first sweep, is copied when it is read: another problem
may read the same source meanwhile.
"""

from __future__ import annotations

import copy
import inspect
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse

from linspec.arrays import Array, DType, Home, check_bare, copied, is_array, plain_array
from linspec.borrowed import borrowed
from linspec.errors import InvalidProblem, SweptOnce, UnsupportedData, called, shown
from linspec.frames import check_names, is_frame
from linspec.operators.base import LinearOperator
from linspec.operators.dense import DenseOperator, MappedOperator, memory_map
from linspec.operators.foreign import CupySparseOperator, is_cupy_sparse
from linspec.operators.sparse import SparseOperator, is_scipy_sparse
from linspec.operators.tables import of_frame
from linspec.process.pauses import pause
from linspec.process.turns import in_turn

SPARSE = SparseOperator | CupySparseOperator
"""The operator classes of sparse slices."""

GATHERED_BYTES = 8 << 20
"""Largest size of a block of gathered small slices, in bytes: several cache-sized blocks for each of a few threads."""

ONCE = "an iterator can be read once. Pass a callable that returns a fresh iterator of the slices"
"""Text for messages about an iterator that was used, with the remedy."""


_END = object()


def is_stream(source: Any) -> bool:
    """Whether `source` is an iterator, or a callable that may return one."""
    return hasattr(source, "__next__") or callable(source)


@dataclass
class Counts:
    """What is known of the rows of a stream, in whatever dtype they are multiplied.

    Attributes
    ----------
    declared : int or None
        The number of rows that was stated.
    rows : int or None
        The number of rows in a whole sweep.
    entries : int
        The number of their stored entries.
    ready : iterator or None
        The slices whose first was read ahead, until a sweep takes them.
    """

    declared: int | None
    rows: int | None = None
    entries: int = 0
    ready: Iterator[LinearOperator] | None = None


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

    Attributes
    ----------
    shape : tuple
        (n, p); n is `math.inf` until it is known.
    sweeps : float
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
    >>> A.shape  # the rows are counted in the first sweep
    (3, 3)
    """

    access = "slices"

    def __init__(self, source: Any, rows: int | None = None, name: str = "data") -> None:
        check_stream(source, name, "row slices")
        self._set_up(source, rows, name)
        slices = self._slices()
        with in_turn(source):
            first = next(slices, None)
        if first is None:
            raise InvalidProblem(
                f"{name} must have rows; got no slice that has any. Was the iterator used before?"
            )
        self._look_at(first)
        # Until the first sweep, another problem may read the same source.
        self.counts.ready = itertools.chain([held(first)], slices)

    def _set_up(self, source: Any, rows: int | None, name: str) -> None:
        self.name = name
        self.source = source
        self.sweeps = 1.0 if hasattr(source, "__next__") else math.inf
        self.counts = Counts(None if rows is None else _row_count(rows, name))
        self._width, self._sparse = 0, False
        self._errors = np.geterr()

    def _look_at(self, first: LinearOperator) -> None:
        """Estimate the density of all slices from the first slice."""
        self.density = first.nnz / (first.shape[0] * max(first.shape[1], 1))

    def __getstate__(self) -> dict[str, Any]:
        """The state for pickling, without slices that a callable can make again.

        An iterator is kept, so that pickling fails with Python's own error.
        """
        return {
            **self.__dict__,
            "counts": replace(self.counts, ready=None) if self.sweeps > 1 else self.counts,
        }

    def expect(self, rows: int) -> None:
        """Declare the number of rows, unless it was declared before; a sweep with another number raises an error."""
        self.counts.declared = rows if self.counts.declared is None else self.counts.declared

    # ---- facts --------------------------------------------------------------------------------

    @property
    def shape(self) -> Any:  # type: ignore[override]
        """(n, p)."""
        known = self.counts.declared if self.counts.rows is None else self.counts.rows
        return math.inf if known is None else known, self._width

    @property
    def nnz(self) -> int:
        """Number of stored entries.

        Before the first sweep the number is estimated from the first slice; 0 if n is unknown.
        """
        n, p = self.shape
        if self.counts.rows is not None:
            return self.counts.entries
        return 0 if math.isinf(n) else int(self.density * n * p)

    @property
    def stored_dtype(self) -> DType:
        """The dtype of the first slice as stored."""
        return self._stored

    def in_dtype(self, dtype: DType) -> LinearOperator | None:
        """The same slices with products in another working dtype."""
        twin = copy.copy(self)
        twin.dtype = dtype
        return twin

    @property
    def sparse(self) -> bool:  # type: ignore[override]
        """Whether the slices are sparse matrices."""
        return self._sparse

    @property
    def spent(self) -> bool:
        """Whether the rows can no longer be read, because their iterator was used."""
        return self.sweeps == 1 and self.counts.ready is None

    # ---- reading ------------------------------------------------------------------------------

    def blocks(self) -> Iterator[LinearOperator]:
        """Yield all rows in order, block by block; a block is valid until the next is requested. One thread at a time.

        Raises
        ------
        SweptOnce
            When an iterator is read for the second time.
        """
        slices = vars(self.counts).pop("ready", None)  # of several threads, one gets them
        if slices is None and self.sweeps == 1:
            raise SweptOnce(
                f"{self.name} has been read: {ONCE}, or choose a solver with the trait one-pass and let it be the "
                "only one that reads."
            )
        return self._in_turn(block for (block,) in gathered([self], ((s,) for s in slices or self._slices())))

    def _in_turn(self, blocks: Iterator[LinearOperator]) -> Iterator[LinearOperator]:
        with in_turn(self.source):
            yield from self._sweep(blocks)

    def _sweep(self, blocks: Iterator[LinearOperator]) -> Iterator[LinearOperator]:
        rows = entries = 0
        for block in blocks:
            if self.counts.declared is not None and rows + block.shape[0] > self.counts.declared:
                raise self._other_rows(f"at least {rows + block.shape[0]}")
            yield block
            rows, entries = rows + block.shape[0], entries + block.nnz
        self._conclude(rows, entries)

    def _conclude(self, rows: int, entries: int) -> None:
        """Record the rows and entries of a whole sweep; raise if an earlier sweep counted another number of rows."""
        if self.counts.rows is not None and rows != self.counts.rows:
            raise InvalidProblem(
                f"{self.name} had {self.counts.rows} rows and has {rows} in a later sweep. The callable must return a "
                "fresh iterator of the same slices at every call."
            )
        if self.counts.declared is not None and rows != self.counts.declared:
            raise self._other_rows(str(rows))
        self.counts.rows, self.counts.entries = rows, entries

    def _other_rows(self, found: str) -> InvalidProblem:
        """Make the error for slices that do not have the declared number of rows."""
        return InvalidProblem(
            f"{self.name} was declared with rows={self.counts.declared}; its slices have {found}. Leave rows out, or "
            "correct it; data beside it must have equally many rows."
        )

    def _slices(self) -> Iterator[LinearOperator]:
        """Yield every slice that has rows, as an operator, after comparison with the first."""
        start = 0
        for number, given in enumerate(opened(self.source, self.name, "row slices", self._errors)):
            operator = self._taken(given, number, start)
            if operator is not None:
                start += operator.shape[0]
                yield operator

    def _taken(self, given: Any, number: int, start: int) -> LinearOperator | None:
        """Make an operator of a slice and compare it with the first; None for a slice without rows."""
        what = f"{self.name}: slice {number} (from row {start})"
        operator = _as_slice(given, what, self.name, start)
        if operator.shape[0] == 0:
            return None
        if start == 0 and not self._width:
            self._width, self.dtype, self.home = operator.shape[1], operator.dtype, operator.home
            self._sparse, self._stored = isinstance(operator, SPARSE), operator.stored_dtype
            self.column_names, self.frame_library = operator.column_names, operator.frame_library
        self._compare(operator, what)
        return operator

    def _compare(self, operator: LinearOperator, what: str) -> None:
        """Raise an error for a slice that differs from the first in columns, kind, device or precision."""
        check_names(operator.column_names, self.column_names, what, "the first slice")
        if operator.shape[1] != self._width:
            raise InvalidProblem(
                f"{what} has {operator.shape[1]} columns; the first has {self._width}. All slices must have the "
                "same columns."
            )
        if operator.home != self.home or isinstance(operator, SPARSE) != self._sparse:
            kinds = [
                _kind(self.home, self._sparse),
                _kind(operator.home, isinstance(operator, SPARSE)),
            ]
            raise UnsupportedData(f"{what} is {kinds[1]}; the first is {kinds[0]}. Convert them to one kind.")
        if operator.dtype.itemsize > self.dtype.itemsize:
            raise UnsupportedData(
                f"{what} needs {operator.dtype}; the first is multiplied in {self.dtype}. Convert all slices to one "
                "dtype."
            )

    # ---- small slices -------------------------------------------------------------------------

    def _copied(self, piece: LinearOperator) -> Any:
        """The entries of a small slice, in memory that the source does not fill again."""
        if isinstance(piece, SPARSE):
            return piece.matrix.astype(self.dtype)
        return self.home.place(copied(piece.array), self.dtype)  # type: ignore[attr-defined]

    def _stacked(self, kept: list[Any]) -> LinearOperator:
        """Small slices as one block; they are kept no longer."""
        pieces, kept[:] = kept[:], []
        if not self._sparse:
            return DenseOperator(self.home.xp.concat(pieces, axis=0))
        if self.home.on_host:
            return SparseOperator(scipy.sparse.vstack(pieces, format="csr"), checked=True)
        from cupyx.scipy import sparse

        return CupySparseOperator(sparse.vstack(pieces, format="csr"), checked=True)

    def _of_one_dtype(self, piece: LinearOperator) -> LinearOperator:
        """Convert a large slice to the working dtype of the first slice: a later slice may have float32."""
        return piece.in_dtype(self.dtype) or piece

    # ---- products -----------------------------------------------------------------------------

    def _check_block(self, V: Array, rows: int, name: str) -> None:
        if math.isinf(rows) and is_array(V) and V.ndim == 2:
            rows = V.shape[0]  # compared with the rows as they come
        super()._check_block(V, rows, name)

    def __repr__(self) -> str:
        n, p = self.shape
        return f"{type(self).__name__}({'?' if math.isinf(n) else n} x {p}, {self.dtype})"


def check_stream(source: Any, name: str, of: str) -> None:
    """Raise an error unless a source of slices is an iterator or a callable."""
    if not is_stream(source):
        raise UnsupportedData(
            f"{name} must be an iterator of {of} or a callable that returns one; got {type(source).__name__}. Pass "
            "iter(...) of it."
        )


def opened(source: Any, name: str, of: str, errors: Any) -> Iterator[Any]:
    """Yield the items of an iterator, or of a fresh iterator that a callable returns.

    Parameters
    ----------
    source : iterator or callable
    name, of : str
        The names of the data and of their items in messages.
    errors : dict
        The settings of `numpy.errstate` under which the source computes.
    """
    slices = source if hasattr(source, "__next__") else _called(source, name, of)
    while True:
        pause()
        with np.errstate(**errors):  # a generator must compute as it does elsewhere
            given = next(slices, _END)
        if given is _END:
            return
        yield given
        del given


def _called(source: Callable[..., Any], name: str, of: str) -> Iterator[Any]:
    """Call a source without arguments, and return its iterator."""
    _check_signature(source, name)
    made = source()
    if is_array(made) or is_scipy_sparse(made) or not hasattr(made, "__iter__"):
        raise UnsupportedData(
            f"{name}: the callable must return an iterator of {of}; got {type(made).__name__}. An array, a sparse "
            "matrix or an operator is passed as it is, without a callable."
        )
    return iter(made)


def gathered(
    streams: Sequence[StreamedOperator], slices: Iterator[tuple[LinearOperator, ...]]
) -> Iterator[tuple[LinearOperator, ...]]:
    """Yield blocks large enough to multiply: small slices copied together, large slices uncopied.

    Parameters
    ----------
    streams : sequence of StreamedOperator
        The streams to which the slices belong.
    slices : iterator of tuple of LinearOperator
        The same rows of each stream; the blocks that are yielded have the same rows of each, too.
    """
    kept: list[list[Any]] = [[] for _ in streams]
    most = 0
    for pieces in slices:
        size = max(map(_bytes, pieces))
        if kept[0] and size > min(GATHERED_BYTES - most, GATHERED_BYTES // 2):
            yield tuple(stream._stacked(each) for stream, each in zip(streams, kept, strict=True))
            most = 0
        if size <= GATHERED_BYTES // 2:
            for stream, each, piece in zip(streams, kept, pieces, strict=True):
                each.append(stream._copied(piece))
            most += size
        else:
            yield tuple(stream._of_one_dtype(piece) for stream, piece in zip(streams, pieces, strict=True))
        for piece in pieces:
            piece.release()
    if kept[0]:
        yield tuple(stream._stacked(each) for stream, each in zip(streams, kept, strict=True))


def _row_count(rows: Any, name: str) -> int:
    if isinstance(rows, bool | np.timedelta64) or not isinstance(rows, int | np.integer) or rows < 1:
        raise InvalidProblem(f"rows of {name} must be a positive integer or None; got {shown(rows)}.")
    return int(rows)


def _check_signature(source: Callable[..., Any], name: str) -> None:
    try:
        inspect.signature(source).bind()
    except ValueError:  # some builtins have no signature
        return
    except TypeError as error:
        raise UnsupportedData(
            f"{name}: a callable is called without arguments and returns an iterator of row slices; calling "
            f"{getattr(source, '__name__', type(source).__name__)!r} fails: {error}. Pass the data themselves, or "
            "lambda: slices(...)."
        ) from error


def _as_slice(given: Any, what: str, name: str, start: int) -> LinearOperator:
    """Make an operator of one slice; raise if it cannot be multiplied."""
    if is_frame(given):
        return of_frame(given, name, start)
    check_bare(given, what)
    given = borrowed(given, what)
    array = is_array(given)
    if not array and not is_scipy_sparse(given) and not is_cupy_sparse(given):
        if isinstance(given, tuple | list) and len(given) == 2 and all(hasattr(x, "shape") for x in given):
            raise UnsupportedData(
                f"{what} must be an array or a SciPy sparse matrix; got a {type(given).__name__} of two. Of a source "
                "of pairs, `X, Y = linspec.paired(source)` makes two matrices."
            )
        remedy = "its values, `.to_numpy()`" if hasattr(given, "to_numpy") else "numpy.asarray(...) of it"
        raise UnsupportedData(
            f"{what} must be an array, a SciPy sparse matrix or a frame; got {type(given).__module__}."
            f"{type(given).__qualname__}. Give {remedy}."
        )
    if array and not isinstance(given, np.ndarray):
        with called(what):
            given = plain_array(given)
    if given.ndim != 2:
        raise InvalidProblem(
            f"{what} must have two dimensions, rows and columns; got {given.ndim} with shape {tuple(given.shape)}. "
            "One row is a slice `row[None, :]`."
        )
    with called(what):
        if is_cupy_sparse(given):
            return CupySparseOperator(given)
        if not array:
            return SparseOperator(given)
        return DenseOperator(given) if memory_map(given) is None else MappedOperator(given)


def held(slice_: LinearOperator) -> LinearOperator:
    """Return a copy of a slice that is kept, because the source may fill its memory again."""
    if isinstance(slice_, MappedOperator):
        return slice_
    if isinstance(slice_, SPARSE):
        return type(slice_)(slice_.matrix.copy(), slice_.dtype, checked=True)
    return DenseOperator(copied(slice_.array))  # type: ignore[attr-defined]


def _kind(home: Home, sparse: bool) -> str:
    if not sparse:
        return f"an array of {home}"
    return "a SciPy sparse matrix" if home.on_host else f"a sparse matrix of {home}"


def _bytes(piece: LinearOperator) -> int:
    return int(piece.nnz * (piece.dtype.itemsize + 4 * isinstance(piece, SPARSE)))
