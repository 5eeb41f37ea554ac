"""Rows that are read piece by piece: of files, and of iterators and callables that yield slices."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from linspec.blocks import Rows
from linspec.blocks.base import RUN_BYTES, Block, row_blocks

__all__ = ["ReadRows"]


class ReadRows(Rows):
    """The rows of an operator that reads them.

    Parameters
    ----------
    A : linspec.operators.LinearOperator
    name : str
        The name in messages.
    """

    def __init__(self, A: Any, name: str) -> None:
        self.A, self.name, self.backend = A, name, A.home
        self.together = max(A.rows_together, RUN_BYTES // max(A.row_bytes, 1))

    @property
    def shape(self) -> tuple[float, int]:  # type: ignore[override]
        """(n, p); n is infinite until the rows have been counted."""
        n, p = self.A.shape
        return n, p

    @property
    def readings(self) -> float:  # type: ignore[override]
        """How often the rows can still be read."""
        return 0 if getattr(self.A, "spent", False) else float(self.A.sweeps)

    def blocks(self) -> Iterator[Block]:
        for piece in self._pieces():
            yield from self._held(piece).blocks()
            self.A.release()

    def take(self, rows: Any) -> Block:
        """Rows by their numbers."""
        return next(iter(self._held(self.A.rows(rows)).blocks()))

    def _pieces(self) -> Iterator[Any]:
        """All rows, some at a time."""
        if self.A.access == "slices":
            yield from self.A.blocks()
            return
        for rows in row_blocks(self.A.shape[0], self.A.row_bytes, on_host=self.backend.on_host):
            yield self.A.rows(rows)

    def _held(self, piece: Any) -> Rows:
        rows: Rows = piece.loaded(self.name)
        rows.dtype, rows.far = self.dtype, self.far
        return rows
