"""Rows in random order, a few at a time, for stochastic methods.

Problem: a method that takes a few rows in each step wants random rows, and every row once before any row
twice.
Method: rows are read in chunks of a few megabytes, and batches are cut out of a chunk without a copy. Files:
to read single rows at random places would read one page for each row. So runs of neighbouring rows are drawn
instead. A chunk holds several runs, and its rows are put into random order in memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from linspec.arrays import HostArray
from linspec.operators import LinearOperator, MappedOperator, uncounted

__all__ = ["DEVICE_FACTOR", "FEWEST_ROWS", "RandomRows", "equal_slices", "rows_at_once"]

DEVICE_FACTOR = 64
"""On an accelerator, batches and chunks are larger by this factor."""

CHUNK_BYTES = 4 << 20
"""Bytes of the rows that are gathered at once; batches are cut out of them without a copy."""

FEWEST_ROWS = 32
"""Rows of a batch: enough that its products take longer than their calls."""

RUN_BYTES = 1 << 18
"""Bytes of the neighbouring rows that are read together from a file."""


def rows_at_once(A: LinearOperator) -> int:
    """The number of rows that are read together: a few megabytes, and more than a batch.

    Parameters
    ----------
    A : LinearOperator

    Returns
    -------
    int
    """
    size = CHUNK_BYTES if A.home.on_host else DEVICE_FACTOR * CHUNK_BYTES
    return int(max(size // A.row_bytes, 2 * FEWEST_ROWS))


def equal_slices(n: int, size: int) -> Iterator[slice]:
    """Slices of about `size` that cover n. Their lengths differ by at most one.

    Parameters
    ----------
    n, size : int

    Yields
    ------
    slice
    """
    count = max(1, round(n / size))
    for i in range(count):
        yield slice(n * i // count, n * (i + 1) // count)


class RandomRows:
    """The rows of several matrices, in the same random order, without end.

    Parameters
    ----------
    matrices : sequence of LinearOperator
        Operators with row slices, and with equally many rows.
    rng : numpy.random.Generator
    """

    def __init__(self, matrices: Sequence[LinearOperator], rng: np.random.Generator) -> None:
        self.n = int(matrices[0].shape[0])
        self._rng = rng
        files = [A for A in matrices if isinstance(uncounted(A)[0], MappedOperator)]
        self._run = max(1, *(RUN_BYTES // A.row_bytes for A in files)) if files else 1
        self._order = np.zeros(0, dtype=np.intp)
        self._next = 0

    def draw(self, count: int) -> HostArray:
        """The numbers of the next rows. Every row comes once before any row comes twice.

        Parameters
        ----------
        count : int
            The largest number of rows to return. At the end of all rows there are fewer.

        Returns
        -------
        numpy.ndarray of int
        """
        if self._next == len(self._order):
            self._order, self._next = self._shuffled(), 0
        chosen = self._order[self._next : self._next + count]
        self._next += len(chosen)
        return chosen if self._run == 1 else self._rng.permutation(chosen)

    @property
    def left(self) -> int:
        """The number of rows that are left before the first row comes again."""
        return len(self._order) - self._next or self.n

    def _shuffled(self) -> HostArray:
        if self._run == 1:
            return self._rng.permutation(self.n)
        runs = -(-self.n // self._run)
        starts = self._rng.permutation(runs) * self._run
        return np.concatenate([np.arange(a, min(a + self._run, self.n)) for a in starts])
