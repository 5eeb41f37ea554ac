"""The door from data as problems hold them to rows in blocks.

It goes with the operators of `linspec.operators`, once all problems hold rows in blocks themselves.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from linspec._new.operators import ByProducts, Dense, Rows, as_operator
from linspec._new.operators.base import RUN_BYTES, Block
from linspec.arrays import is_array
from linspec.operators import DenseOperator
from linspec.operators.row_blocks import row_blocks
from linspec.rows.on_workers import WorkerRows

__all__ = ["rows_of"]


def rows_of(A: Any, name: str = "data") -> Rows:
    """Return the rows of an operator of `linspec.operators`, in its working precision.

    Parameters
    ----------
    A : linspec.operators.LinearOperator
    name : str, default "data"
        The name in messages.

    Returns
    -------
    Rows

    Examples
    --------
    >>> import numpy as np
    >>> import linspec as ls
    >>> from linspec.rows import Moments
    >>> from linspec.solving import rows_of
    >>> rows = rows_of(ls.as_operator(np.array([[1.0, 2.0], [3.0, 4.0]])))
    >>> Moments([rows]).images(np.ones((2, 1))).tolist()
    [[3.0], [7.0]]
    """
    bring = getattr(A, "rows_in_blocks", None)
    if bring is not None:
        there = WorkerRows(**bring())
        there.name = name
        return there
    kept = A.resident and (isinstance(A, DenseOperator) or A.stored_array is not None)
    if A.access in ("rows", "slices") and A.readable | A.streamed and not kept:
        return ReadRows(A, name)
    return in_memory(A, name)


def in_memory(A: Any, name: str) -> Rows:
    """The rows of an operator that holds them, or its products."""
    bare = A.bare if isinstance(A, DenseOperator) else A
    data = A.dense() if bare.stored_array is None and A.readable else bare.stored_array
    rows: Rows = (
        ByProducts(A, name)
        if data is None
        else Dense(data, name)
        if is_array(data)
        else as_operator(data, name)
    )
    rows.dtype, rows.rounding = A.dtype, rounding_of(A)
    if bare is not A:
        rows.less = A.mean
    return rows


def rounding_of(A: Any) -> float:
    """The relative rounding of the entries of an operator."""
    return float(np.finfo(A.rounded_dtype).eps)


class ReadRows(Rows):
    """Rows that are read piece by piece: of files, and of iterators and callables that yield slices."""

    def __init__(self, A: Any, name: str) -> None:
        self.A, self.name, self.dtype, self.backend = A, name, A.dtype, A.home
        self.rounding = rounding_of(A)
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
            rows = in_memory(piece, self.name)
            rows.dtype, rows.far = self.dtype, self.far
            yield from rows.blocks()
            self.A.release()

    def _pieces(self) -> Iterator[Any]:
        """All rows, some at a time."""
        if self.A.access == "slices":
            yield from self.A.blocks()
            return
        for rows in row_blocks(self.A.shape[0], self.A.row_bytes, self.backend):
            yield self.A.rows(rows)

    def take(self, rows: Any) -> Block:
        """Rows by their numbers."""
        kept = in_memory(self.A.rows(rows).loaded(), self.name)
        kept.dtype, kept.far = self.dtype, self.far
        return next(iter(kept.blocks()))
