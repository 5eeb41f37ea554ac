"""Rows in random order, some at a time: what stochastic methods read.

Problem: a method that takes a few rows at a step wants them at random, and each row of the data once before any comes
twice. Rows are read in chunks of a few megabytes, out of which batches are then cut without a copy.
Where files differ: there one row in another place each time would read a page for each, so runs of neighbouring rows
are drawn instead, and the rows of a chunk, which holds several such runs, are put into random order in memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from linspec.arrays import HostArray
from linspec.operators import LinearOperator, MappedOperator, uncounted

__all__ = ["DEVICE_FACTOR", "FEWEST_ROWS", "RandomRows", "equal_slices", "rows_at_once"]

DEVICE_FACTOR = 64
"""An accelerator takes batches and chunks so many times larger."""

CHUNK_BYTES = 4 << 20
"""Rows that are gathered at once, out of which batches are then cut without a copy."""

FEWEST_ROWS = 32
"""Rows of a batch, so that its products are worth their calls."""

RUN_BYTES = 1 << 18
"""Neighbouring rows that are read together from a file."""


def rows_at_once(A: LinearOperator) -> int:
    """Rows that are read together: a few megabytes, and more than a batch.

    Parameters
    ----------
    A : LinearOperator

    Returns
    -------
    int
    """
    size = CHUNK_BYTES if A.home.on_host else DEVICE_FACTOR * CHUNK_BYTES
    return int(max(size // _row_bytes(A), 2 * FEWEST_ROWS))


def equal_slices(n: int, size: int) -> Iterator[slice]:
    """Slices of about `size` that cover n, none longer than another by more than one.

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
    """The rows of matrices that are read side by side, in random order without end.

    Parameters
    ----------
    matrices : sequence of LinearOperator
        With row slices, and equally many rows.
    rng : numpy.random.Generator
    """

    def __init__(self, matrices: Sequence[LinearOperator], rng: np.random.Generator) -> None:
        self.n = int(matrices[0].shape[0])
        self._rng = rng
        files = [A for A in matrices if isinstance(uncounted(A)[0], MappedOperator)]
        self._run = max(1, *(RUN_BYTES // _row_bytes(A) for A in files)) if files else 1
        self._order = np.zeros(0, dtype=np.intp)
        self._next = 0

    def draw(self, count: int) -> HostArray:
        """The numbers of the next rows; each row once before any comes twice.

        Parameters
        ----------
        count : int
            How many at most: fewer come at the end of all rows.

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
        """Rows that come before the first one comes again."""
        return len(self._order) - self._next or self.n

    def _shuffled(self) -> HostArray:
        if self._run == 1:
            return self._rng.permutation(self.n)
        runs = -(-self.n // self._run)
        starts = self._rng.permutation(runs) * self._run
        return np.concatenate([np.arange(a, min(a + self._run, self.n)) for a in starts])


def _row_bytes(A: LinearOperator) -> int:
    n, p = A.shape
    return int(min(p * A.dtype.itemsize, A.nnz * (A.dtype.itemsize + 4) // n + 1))
