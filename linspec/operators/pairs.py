"""Two matrices whose rows come in pairs of slices, from one iterator or from one callable that returns a fresh one.

Problem: one source, such as a file, a query or a simulation, often yields the rows of X together with those of Y. Two
streams would read the source twice, and an iterator cannot be read twice.
Method: each half is a stream, and one reading of the source serves both halves. A sweep over X and Y together opens
one reading and takes blocks of X and of Y from it by turns; a sweep over one half drops the slices of the other half.
Small slices of X and Y are gathered together, so that their blocks have the same rows.
Where we differ from `itertools.tee`: no slices are kept for a half that falls behind. If a callable made the pairs,
that half continues in a separate reading; if an iterator made them, that half has lost its rows.
"""

from __future__ import annotations

import itertools
import math
import threading
import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np

from linspec.arrays import is_array
from linspec.errors import InvalidProblem, SweptOnce, UnsupportedData, shown
from linspec.frames import check_order
from linspec.operators.base import LinearOperator
from linspec.operators.streamed import (
    ONCE,
    StreamedOperator,
    check_stream,
    gathered,
    held,
    opened,
)
from linspec.process.turns import in_turn

Slices = tuple[LinearOperator, ...]
"""A tuple (X, Y) of operators with the same rows of the two halves."""

OF = "pairs of row slices"


def paired(
    source: Any, *, rows: int | None = None, names: tuple[str, str] = ("X", "Y")
) -> tuple[LinearOperator, LinearOperator]:
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
    names : (str, str), default ("X", "Y")
        The names of the two matrices in messages.

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
    return _Pairs(source, rows, names).halves


class PairedStream(StreamedOperator):
    """One half of the pairs that a source yields.

    Examples
    --------
    >>> import numpy as np
    >>> import linspec as ls
    >>> def pairs():
    ...     for start in (0, 2):
    ...         yield np.full((2, 3), start), np.full((2, 1), -start)
    >>> X, Y = ls.paired(pairs)
    >>> X.shape[1], Y.shape[1]
    (3, 1)
    """

    def __init__(self, pairs: _Pairs, index: int, rows: int | None, name: str) -> None:
        self._set_up(pairs.source, rows, name)
        self._pairs, self._index = pairs, index

    @property
    def shape(self) -> Any:  # type: ignore[override]
        """(n, p); n is known after a sweep of either half."""
        n, p = super().shape
        return self._pairs.rows if math.isinf(n) else n, p

    @property
    def spent(self) -> bool:
        """Whether the rows can no longer be read, because their iterator was used."""
        return self._pairs.spent

    def blocks(self) -> Iterator[LinearOperator]:
        """All rows in order, from the reading that the other half has just begun, or from a new one.

        Raises
        ------
        SweptOnce
            When an iterator is read for the second time.
        """
        return self._in_turn(self._pairs.reading(self._index).blocks_of(self._index))

    def _conclude(self, rows: int, entries: int) -> None:
        super()._conclude(rows, entries)
        self._pairs.rows = rows


class _Pairs:
    """The source of pairs that two `PairedStream` share.

    Attributes
    ----------
    halves : pair of PairedStream
    rows : float
        The number of rows; infinity until a sweep has counted them.
    """

    _ready: Iterator[Slices] | None = (
        None  # the slices whose first pair was read ahead, until a sweep takes them
    )

    def __init__(self, source: Any, rows: int | None, names: tuple[str, str]) -> None:
        self.name = f"{names[0]} and {names[1]}"
        check_stream(source, self.name, OF)
        self.source, self.rows = source, math.inf
        self.halves = PairedStream(self, 0, rows, names[0]), PairedStream(self, 1, rows, names[1])
        self.sweeps = self.halves[0].sweeps
        self._errors, self._told = np.geterr(), False
        self._begun: dict[int, weakref.ref[_Reading]] = {}  # by thread, the reading that was opened last
        pairs = self._slices()
        with in_turn(source):
            first = next(pairs, None)
        if first is None:
            raise InvalidProblem(
                f"{self.name} must have rows; got no pair that has any. Was the iterator used before?"
            )
        for half, slice_ in zip(self.halves, first, strict=True):
            half._look_at(slice_)
        self._ready = itertools.chain([tuple(held(slice_) for slice_ in first)], pairs)

    def __getstate__(self) -> dict[str, Any]:
        """The state for pickling, without the first pair if a callable can make it again."""
        made_again = {"_ready"}.intersection(self.__dict__) if self.sweeps > 1 else ()
        return {**self.__dict__, **dict.fromkeys(made_again), "_begun": {}}

    @property
    def spent(self) -> bool:
        """Whether the pairs can no longer be read, because their iterator was used."""
        return self.sweeps == 1 and self._ready is None

    def reading(self, index: int) -> _Reading:
        """Return the reading for a sweep over half `index`, and add this half to the halves of the reading.

        The reading is the last one that the calling thread has opened, if half `index` can still join it
        (`_Reading.open_to`). Otherwise the reading is new.
        """
        thread = threading.get_ident()
        last = self._begun.get(thread)
        reading = None if last is None else last()
        if reading is None or not reading.open_to(index):
            reading = _Reading(self)
            self._begun[thread] = weakref.ref(reading)
        reading.halves.add(index)
        return reading

    def blocks(self) -> Iterator[Slices]:
        """Yield the blocks of a new reading: pairs of operators with the same rows."""
        pairs = self.__dict__.pop("_ready", None)  # of several threads, one gets them
        if pairs is None and self.sweeps == 1:
            raise SweptOnce(
                f"{self.name} have been read: {ONCE}, or choose a solver with the trait one-pass and let it be the "
                "only one that reads."
            )
        return gathered(self.halves, pairs or self._slices())

    def _slices(self) -> Iterator[Slices]:
        """Yield the slices of every pair that has rows, checked."""
        start = 0
        for number, given in enumerate(opened(self.source, self.name, OF, self._errors)):
            pair = self._halved(given, number)
            x, y = (
                half._taken(slice_, number, start) for half, slice_ in zip(self.halves, pair, strict=True)
            )
            names = (half.name for half in self.halves)
            check_order(dict(zip(names, (x, y), strict=True)), again=self._told)
            self._told = True  # one warning, not one for each pair in each pass
            rows = [0 if slice_ is None else slice_.shape[0] for slice_ in (x, y)]
            if rows[0] != rows[1]:
                raise InvalidProblem(
                    f"the halves of a pair must have equally many rows; pair {number} (from row {start}) has "
                    f"{rows[0]} of {self.halves[0].name} and {rows[1]} of {self.halves[1].name}. Yield the same rows "
                    "of both."
                )
            if x is not None and y is not None:
                start += rows[0]
                yield x, y

    def _halved(self, given: Any, number: int) -> Any:
        if isinstance(given, tuple | list) and len(given) == 2:
            return given
        got = shown(given)
        if isinstance(given, tuple | list):
            got = f"a {type(given).__name__} of {len(given)}"
        elif is_array(given) or hasattr(given, "shape"):
            got = f"{type(given).__name__} of shape {tuple(given.shape)}"
        raise UnsupportedData(
            f"{self.name}: the source must yield pairs (x, y) of slices; pair {number} is {got}. Slices of one matrix "
            "are passed without linspec.paired."
        )


class _Reading:
    """One reading of the pairs, shared by the sweeps of both halves.

    Attributes
    ----------
    halves : set of int
        Indices (0 for X, 1 for Y) of the halves that take part.
    """

    def __init__(self, pairs: _Pairs) -> None:
        self._pairs, self._blocks = pairs, pairs.blocks()
        self._count = 0
        self._waiting: list[LinearOperator | None] = [None, None]
        self.halves: set[int] = set()

    def open_to(self, index: int) -> bool:
        """Whether a half may still join: it has not joined this reading, and its first block is not dropped yet."""
        return index not in self.halves and self._count <= 1

    def blocks_of(self, index: int) -> Iterator[LinearOperator]:
        """Yield the blocks of one half."""
        for number in itertools.count():
            if index not in self.halves:  # it has fallen behind
                alone = self._pairs.blocks()
                yield from (block[index] for block in itertools.islice(alone, number, None))
                return
            if self._waiting[index] is None and not self._read():
                return
            block, self._waiting[index] = self._waiting[index], None
            assert block is not None  # noqa: S101  # `_read` has set it
            yield block
            del block

    def _read(self) -> bool:
        """Read the next pair of blocks; return False at the end of the source.

        A half that has not taken its block of the previous pair is first removed from `halves`: it has fallen behind,
        and continues in a reading of its own.
        """
        pair = next(self._blocks, None)
        if self._count:
            self.halves -= {i for i, block in enumerate(self._waiting) if block is not None}
        self._count += 1
        self._waiting = [None, None]
        if pair is None:
            return False
        self._waiting = [pair[i] if i in self.halves or self._count == 1 else None for i in (0, 1)]
        return True
