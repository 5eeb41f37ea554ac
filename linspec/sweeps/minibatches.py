"""Rows in random order, a few at a time, for stochastic methods.

Problem: a method that uses a few rows in each step needs random rows, and every row once before any row
twice.
Method: rows are read in chunks of a few megabytes, and batches are cut out of a chunk without a copy. In files, each
single row at a random place would cost the reading of a page. So runs of neighbouring rows are drawn instead; a chunk
holds several runs, and its rows are put into random order in memory. Rows that have weights are drawn in proportion
to them: among n draws for n rows, each row has its share, rounded up or down at random (systematic sampling), and
rows of weight 0 are never read. Rows of a file, which are read in runs, are drawn with equal probabilities and scaled
as their weights require. Rows of blocks on workers are treated in the same way: a chunk is fetched run by run, and no
array of length n is held.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from linspec.arrays import HostArray
from linspec.cost import bare
from linspec.operators import LinearOperator, MappedOperator, uncounted

__all__ = [
    "DEVICE_FACTOR",
    "FEWEST_ROWS",
    "Minibatches",
    "RandomRows",
    "equal_slices",
    "random_order",
    "rows_at_once",
]

DEVICE_FACTOR = 64
"""Factor by which batches and chunks are larger on an accelerator."""

CHUNK_BYTES = 4 << 20
"""Bytes of the rows that are gathered at once; batches are cut out of them without a copy."""

FEWEST_ROWS = 32
"""Smallest number of rows of a batch: with fewer rows, calling a product would take longer than computing it."""

RUN_BYTES = 1 << 18
"""Bytes of a run of neighbouring rows that are read together from a file."""


def rows_at_once(A: LinearOperator) -> int:
    """Number of rows of a chunk, which are read together: a few megabytes, and more than a batch.

    Parameters
    ----------
    A : LinearOperator of shape (n, p)
        On an accelerator the chunk is larger: see `DEVICE_FACTOR`.

    Returns
    -------
    int
        At least 2 · `FEWEST_ROWS`; it may be more than n.

    Examples
    --------
    >>> import numpy as np
    >>> import linspec as ls
    >>> from linspec.sweeps import rows_at_once
    >>> rows_at_once(ls.as_operator(np.ones((10_000, 1024))))  # rows of 8 kB
    512
    """
    size = CHUNK_BYTES if A.home.on_host else DEVICE_FACTOR * CHUNK_BYTES
    return int(max(size // A.row_bytes, 2 * FEWEST_ROWS))


def equal_slices(n: int, size: int) -> Iterator[slice]:
    """Slices of about `size` rows that together cover n rows. Their lengths differ by at most one.

    Parameters
    ----------
    n, size : int

    Yields
    ------
    slice

    Examples
    --------
    >>> from linspec.sweeps import equal_slices
    >>> [(part.start, part.stop) for part in equal_slices(10, 3)]
    [(0, 3), (3, 6), (6, 10)]
    """
    count = max(1, round(n / size))
    for i in range(count):
        yield slice(n * i // count, n * (i + 1) // count)


def random_order(A: LinearOperator, rng: np.random.Generator) -> HostArray:
    """Return n row numbers in random order: each row once, or in proportion to the weights of the rows.

    `LinearOperator.drawn` returns the rows for such numbers.

    Parameters
    ----------
    A : LinearOperator of shape (n, p)
    rng : numpy.random.Generator

    Returns
    -------
    numpy.ndarray of int, shape (n,)

    Examples
    --------
    >>> import numpy as np
    >>> import linspec as ls
    >>> from linspec.sweeps import random_order
    >>> order = random_order(ls.as_operator(np.ones((5, 2))), np.random.default_rng(0))
    >>> np.sort(order)
    array([0, 1, 2, 3, 4])
    """
    n = int(A.shape[0])
    order, adjustment = rng.permutation(n), uncounted(A)[0].adjustment
    weights = None if adjustment is None else adjustment.model.weights
    if weights is None:
        return order
    reached = np.cumsum(weights[order])
    places = (rng.random() + np.arange(n)) * (reached[-1] / n)
    return rng.permutation(order[np.searchsorted(reached, places, side="right").clip(max=n - 1)])


def _together(A: LinearOperator) -> int:
    """Number of neighbouring rows of a run, which are read together."""
    inner = bare(A)
    return max(1, RUN_BYTES // A.row_bytes) if isinstance(inner, MappedOperator) else inner.rows_together


class RandomRows:
    """An endless sequence of rows in random order, the same for several matrices.

    Parameters
    ----------
    matrices : sequence of LinearOperator
        Operators with row slices, and with equally many rows n.
    rng : numpy.random.Generator
    in_runs : bool, default True
        Whether rows of files are drawn in runs of neighbours. Rows of blocks on workers always are.

    Attributes
    ----------
    n : int
        The number of rows.
    place : (numpy.ndarray of int, int)
        The current order of the row numbers, or of the numbers of runs if rows are drawn in runs; and the number of
        rows already drawn in this order. The next `draw` depends only on `place` and the state of `rng`: set `place` to
        continue there.

    Examples
    --------
    >>> import numpy as np
    >>> import linspec as ls
    >>> from linspec.sweeps import RandomRows
    >>> X = ls.as_operator(np.arange(10.0).reshape(5, 2))
    >>> rows = RandomRows([X], np.random.default_rng(0))
    >>> chosen = [rows.draw(2) for _ in range(3)]
    >>> np.sort(np.concatenate(chosen))  # every row once
    array([0, 1, 2, 3, 4])
    >>> rows.rows_of(X, chosen[0]).shape
    (2, 2)
    """

    def __init__(
        self, matrices: Sequence[LinearOperator], rng: np.random.Generator, *, in_runs: bool = True
    ) -> None:
        self.n = int(matrices[0].shape[0])
        self._rng = rng
        self._first = matrices[0]
        in_runs = in_runs or any(A.access == "blocks" for A in matrices)
        self._run = max(map(_together, matrices)) if in_runs else 1
        self._order = np.zeros(0, dtype=np.intp)  # of rows, or of runs
        self._next = 0  # of the rows in this order

    @property
    def place(self) -> tuple[HostArray, int]:
        """The current order, and the number of its rows already drawn."""
        return self._order, self._next

    @place.setter
    def place(self, place: tuple[HostArray, int]) -> None:
        self._order, self._next = place

    def draw(self, count: int) -> HostArray:
        """Draw the numbers of the next rows.

        Every row comes once before any row comes twice. Rows with weights, if they are not drawn in runs, come in
        proportion to their weights instead: among n draws a row may come several times or never.

        Parameters
        ----------
        count : int
            The largest number of rows to return; at the end of the current order fewer are returned.

        Returns
        -------
        numpy.ndarray of int
        """
        if not len(self._order) or self._next == self.n:
            self._order, self._next = self._shuffled(), 0
        first, self._next = self._next, min(self._next + count, self.n)
        chosen = self._chosen(first, self._next)
        return chosen if self._run == 1 else self._rng.permutation(chosen)

    def rows_of(self, A: LinearOperator, chosen: HostArray) -> LinearOperator:
        """Select the drawn rows of one of the matrices.

        Parameters
        ----------
        A : LinearOperator of shape (n, p)
        chosen : numpy.ndarray of int, shape (m,)
            Row numbers from `draw`.

        Returns
        -------
        LinearOperator of shape (m, p)
        """
        return A.drawn(chosen) if self._run == 1 else A.rows(chosen)

    def _shuffled(self) -> HostArray:
        if self._run == 1:
            return random_order(self._first, self._rng)
        return self._rng.permutation(-(-self.n // self._run))

    def _chosen(self, first: int, stop: int) -> HostArray:
        """Row numbers at places `first` to `stop` - 1 of the current order; the run of the last rows may be short."""
        if self._run == 1:
            return self._order[first:stop]
        last = -(-self.n // self._run) - 1
        short = self._run * (last + 1) - self.n  # the last run is shorter by this: it shifts later runs
        behind = int(np.flatnonzero(self._order == last)[0])
        places = np.arange(first, stop)
        places = np.where(places >= self._run * (behind + 1) - short, places + short, places)
        rows: HostArray = self._order[places // self._run] * self._run + places % self._run
        return rows


class Minibatches:
    """Batches of rows of several matrices, in the same random order, for a stochastic method.

    Rows are read a chunk at a time, and batches are cut out of the chunk in memory. In an epoch every row is read
    once, except for fewer than half a chunk of rows at the end, which are left out.

    Parameters
    ----------
    matrices : sequence of LinearOperator
        Operators with row slices, and with equally many rows n.
    rng : numpy.random.Generator
        In a solver `run.rng`.
    chunk : int, optional
        Rows of a chunk; by default `rows_at_once` of the matrix with the longest rows.
    in_runs : bool, default True
        As for `RandomRows`.
    size : int, optional
        Rows of a batch in a loop over the batches; by default as many as a chunk has.

    Attributes
    ----------
    n : int
        The number of rows.
    chunk : int
        Rows of a chunk, at most n.
    size : int
        Rows of a batch in a loop over the batches, which has no end.
    read : int
        Rows read so far. If `place` was set, as when a solver continues from a checkpoint, the rows read before that
        place are included.
    epochs : float
        Rows read so far, over n.
    place : mapping
        Arrays and numbers that, with the state of `rng`, determine the next rows; set `place` to continue there. They
        are the current order and the count of its rows already drawn, the row numbers of the current chunk and the
        count of these already used in batches, and `read`. The rows of the chunk are not included: if more batches
        come from the chunk, its rows are read once more. The ledgers count this reading; `read` does not.

    Examples
    --------
    >>> import numpy as np
    >>> import linspec as ls
    >>> from linspec.sweeps import Minibatches
    >>> X, Y = ls.as_operator(np.arange(12.0).reshape(6, 2)), ls.as_operator(np.arange(6.0)[:, None])
    >>> rng = np.random.default_rng(0)
    >>> rows = Minibatches([X, Y], rng)
    >>> batches = [rows.batch(2) for _ in range(3)]
    >>> X_I, Y_I = batches[0]
    >>> bool(np.all(X_I.dense()[:, :1] == 2 * Y_I.dense()))  # the same rows of both
    True
    >>> np.sort(np.vstack([Y_I.dense() for _, Y_I in batches])[:, 0]), rows.epochs  # every row once
    (array([0., 1., 2., 3., 4., 5.]), 1.0)

    From a place, the next rows are the same:

    >>> place, state = rows.place, rng.bit_generator.state
    >>> first = rows.batch(2)[1].dense()
    >>> rows.place, rng.bit_generator.state = place, state
    >>> bool(np.all(rows.batch(2)[1].dense() == first))
    True

    A loop over the batches goes on until it is left:

    >>> for X_I, Y_I in Minibatches([X, Y], rng, size=3):
    ...     print(X_I.shape, Y_I.shape)
    ...     break
    (3, 2) (3, 1)
    """

    def __init__(
        self,
        matrices: Sequence[LinearOperator],
        rng: np.random.Generator,
        *,
        chunk: int | None = None,
        in_runs: bool = True,
        size: int | None = None,
    ) -> None:
        self.n, self.read = int(matrices[0].shape[0]), 0
        self.chunk = min(self.n, chunk or min(map(rows_at_once, matrices)))
        self.size = size or self.chunk
        self._matrices = matrices
        self._order = RandomRows(matrices, rng, in_runs=in_runs)
        self._numbers = np.zeros(0, dtype=np.intp)  # of the rows of the current chunk
        self._used = 0  # of these rows
        self._rows: list[LinearOperator] = []  # empty: they are read when they are needed

    def __iter__(self) -> Iterator[list[LinearOperator]]:
        return self

    def __next__(self) -> list[LinearOperator]:
        return self.batch(self.size)

    @property
    def epochs(self) -> float:
        """Number of rows read so far, divided by n."""
        return self.read / self.n

    @property
    def place(self) -> Mapping[str, Any]:
        """State that, with that of the generator, determines the next rows."""
        order, drawn = self._order.place
        return {
            "order": order,
            "drawn": drawn,
            "chunk": self._numbers,
            "used": self._used,
            "read": self.read,
        }

    @place.setter
    def place(self, place: Mapping[str, Any]) -> None:
        self._order.place = place["order"], place["drawn"]
        self._numbers, self._used, self.read = place["chunk"], place["used"], place["read"]
        self.release()

    def due(self, count: int) -> int:
        """Largest number of rows that the next `batch` will read; 0 if the current chunk holds the batch.

        Parameters
        ----------
        count : int
            The rows of the batch.
        """
        if self._has(count):
            return 0 if self._rows else len(self._numbers)
        return min(max(self.chunk, count), self.n)

    def batch(self, count: int) -> list[LinearOperator]:
        """Return the next batch: the same rows of every matrix, in memory.

        Parameters
        ----------
        count : int
            Approximate number of rows. So that no short remainder of a chunk is left, a batch may have half more
            rows, or only half as many.

        Returns
        -------
        list of LinearOperator
        """
        if not self._has(count):
            size = min(max(self.chunk, count), self.n)
            numbers = self._order.draw(size)
            if 2 * len(numbers) < min(size, self.chunk):  # the last rows of an epoch
                numbers = self._order.draw(size)
            self._load(numbers)
        elif not self._rows:
            self._rows = self.rows_of(self._numbers)
        left = len(self._numbers) - self._used
        part = slice(self._used, self._used + (left if 2 * left < 3 * count else count))
        self._used = part.stop
        return [rows.rows(part) for rows in self._rows]

    def load(self, count: int | None = None) -> list[LinearOperator]:
        """Read the next chunk: the same rows of every matrix, from which later batches are cut.

        Parameters
        ----------
        count : int, optional
            The largest number of rows; by default `chunk`. At the end of an epoch fewer rows are read.

        Returns
        -------
        list of LinearOperator
        """
        self._load(self._order.draw(count or self.chunk))
        return self._rows

    def rows_of(self, numbers: HostArray) -> list[LinearOperator]:
        """Read the rows with given numbers of every matrix into memory; they do not count as rows of an epoch.

        Parameters
        ----------
        numbers : numpy.ndarray of int, shape (m,)

        Returns
        -------
        list of LinearOperator
        """
        found = [self._order.rows_of(A, numbers).loaded() for A in self._matrices]
        for A in self._matrices:
            A.release()
        return found

    def release(self) -> None:
        """Free the memory of the chunk; a later batch from this chunk reads its rows again."""
        self._rows = []

    def _has(self, count: int) -> bool:
        """Whether the current chunk has rows for another batch."""
        return 2 * (len(self._numbers) - self._used) >= min(count, self.n)

    def _load(self, numbers: HostArray) -> None:
        self.release()
        self._rows, self._numbers, self._used = self.rows_of(numbers), numbers, 0
        self.read += len(numbers)
