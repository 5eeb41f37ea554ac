"""The rows of an epoch, in random order, a few megabytes at a time.

Problem: a stochastic method walks through a share of the rows, each once before any occurs twice, and another run is to
go on with the same rows.
Method: every epoch has an order of its own. Rows in blocks elsewhere come in runs of neighbours, whose order goes on
from one epoch to the next (`linspec.sweeps.RandomRows`).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from linspec import LinearOperator
from linspec.arrays import HostArray
from linspec.sweeps import RandomRows, equal_slices, random_order, rows_at_once


class EpochRows:
    """Random rows, epoch by epoch.

    Parameters
    ----------
    A : LinearOperator of shape (n, p)
        With row slices.
    rng : numpy.random.Generator
    count : int
        The rows of an epoch.
    batch : int, optional
        A chunk has at least as many.

    Attributes
    ----------
    count : int
    share : float
        Of all rows.
    """

    def __init__(
        self, A: LinearOperator, rng: np.random.Generator, count: int, batch: int | None = None
    ) -> None:
        self.A, self.count, self.share, self._rng = A, count, count / A.shape[0], rng
        self._chunk = max(rows_at_once(A), batch or 1)
        self._runs = RandomRows([A], rng) if A.access == "blocks" else None

    @property
    def place(self) -> tuple[HostArray, int] | None:
        """How far runs of rows have been drawn; None where every epoch has an order of its own."""
        return None if self._runs is None else self._runs.place

    @place.setter
    def place(self, place: tuple[HostArray, int] | None) -> None:
        if self._runs is not None and place is not None:
            self._runs.place = place

    def epoch(self) -> Iterator[HostArray]:
        """The numbers of the rows of an epoch, chunk by chunk; by their weights, if they have some."""
        left = self.count
        while left > 0 and self._runs is not None:
            chosen = self._runs.draw(min(self._chunk, left))
            left -= len(chosen)
            yield chosen
        while left > 0:
            order = random_order(self.A, self._rng)[:left]
            left -= len(order)
            for part in equal_slices(len(order), self._chunk):
                yield order[part]

    def taken(self, chosen: HostArray) -> LinearOperator:
        """The rows that were drawn, in memory."""
        rows = self.A.drawn(chosen) if self._runs is None else self._runs.rows_of(self.A, chosen)
        return rows.loaded()
