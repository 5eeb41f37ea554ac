"""Rows in slices that are read one after the other: from a callable that begins anew, or from an iterator, once.

Each slice is any data that `as_operator` takes. A slice is used up before the next one is asked for, so that a reader
may fill the same memory again.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from linspec._new.operators.base import Block, Rows
from linspec.errors import InvalidProblem, MissingCapability

__all__ = ["Slices"]


class Slices(Rows):
    """A matrix whose rows are read in slices.

    Parameters
    ----------
    read : callable or iterator
        A callable returns an iterable of slices each time. An iterator can be read once.
    opened : callable
        Makes an operator of one slice.
    name : str, default "data"
        The name in messages.
    """

    def __init__(self, read: Any, opened: Callable[[Any], Rows], name: str = "data") -> None:
        self.name, self._opened = name, opened
        self._read: Callable[[], Iterable[Any]] = read if callable(read) else lambda: read
        self.readings = math.inf if callable(read) else 1
        self._ahead: tuple[Rows, Iterator[Any]] | None = None
        first = self._begun()[0]
        self.shape, self.dtype, self.backend = (math.inf, first.shape[1]), first.dtype, first.backend

    def blocks(self) -> Iterator[Block]:
        if self.readings < 1:
            raise MissingCapability(
                f"the rows of {self.name} can be read once only, and a second pass was asked for. Pass a callable that "
                "returns the slices anew, or a solver that reads once."
            )
        first, rest = self._begun()
        self._ahead, self.readings, rows = None, self.readings - 1, 0
        for each in self._all(first, rest):
            if each.shape[1] != self.shape[1]:
                raise InvalidProblem(
                    f"every slice of {self.name} must have {self.shape[1]} columns; the one after {rows} rows has "
                    f"{each.shape[1]}."
                )
            each.far = self.far
            yield from each.blocks()
            rows += int(each.shape[0])
        self.shape = (rows, self.shape[1])

    def _all(self, first: Rows, rest: Iterator[Any]) -> Iterator[Rows]:
        yield first
        yield from map(self._opened, rest)

    def _begun(self) -> tuple[Rows, Iterator[Any]]:
        """The first slice, which tells the columns, and the others."""
        if self._ahead is None:
            rest = iter(self._read())
            for slice_ in rest:
                self._ahead = self._opened(slice_), rest
                break
            else:
                raise InvalidProblem(f"{self.name} must have rows; got no slice. Pass slices with rows.")
        return self._ahead
