"""The task of a first sweep: it runs another task and records the largest entry of every view.

Problem: the size of the entries of files, slices and distributed blocks is not known before all rows have been read,
and rows with large entries may come last.
Method: the first sweep runs its task inside the task `Measured`, which measures each block before the inner task
reads it. No result of the sweep is used before the largest entry of all its rows has been checked.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

import numpy as np

from linspec.arrays import Array
from linspec.operators import LinearOperator
from linspec.operators.largest_entry import in_float64, magnitude_of
from linspec.operators.range_of_entries import Magnitude
from linspec.operators.row_model import PLAIN, Change, RowModel
from linspec.sweeps.task import Task

Part = TypeVar("Part")


@dataclass(frozen=True)
class Sizes(Task[list[Magnitude]]):
    """Task that finds the largest magnitude of every view.

    Parameters
    ----------
    model : RowModel
        The weights of the rows.
    """

    model: RowModel = PLAIN

    def part(
        self, rows: Sequence[LinearOperator], first_row: int = 0, into: list[Magnitude] | None = None
    ) -> list[Magnitude]:
        """The magnitudes of some rows, one for each view, merged with `into`, those of earlier rows."""
        roots = [self.model.roots_of(first_row, A.shape[0], A.home.blocks) for A in rows]
        own = [magnitude_of(A, w) for A, w in zip(rows, roots, strict=True)]
        return self.merge(into, own) if into else own

    def merge(self, left: list[Magnitude], right: list[Magnitude]) -> list[Magnitude]:
        """For each view, the larger magnitude of `left` and `right`."""
        return [a.merged(b) for a, b in zip(left, right, strict=True)]


@dataclass
class MeasuredPart(Generic[Part]):
    """The result of the inner task for some rows, and for each view the largest magnitude of entries of these rows."""

    part: Part
    sizes: list[Magnitude]


@dataclass(frozen=True)
class Measured(Task[MeasuredPart[Part]]):
    """Task that runs another (inner) task; its parts also hold the magnitudes of the rows.

    Parameters
    ----------
    task : Task
    names : tuple of str
        The names of the views in messages.
    unknown : tuple of bool
        For each view, whether its magnitude is not known yet.
    wide : tuple of bool
        For each view, whether all its float32 rows are multiplied in float64. If False and the magnitude is unknown, a
        single block is multiplied in float64 if its own magnitude is out of the range of float32 products.
    model : RowModel
        The weights of the rows.
    """

    task: Task[Part]
    names: tuple[str, ...]
    unknown: tuple[bool, ...]
    wide: tuple[bool, ...]
    model: RowModel = PLAIN

    def part(
        self, rows: Sequence[LinearOperator], first_row: int = 0, into: MeasuredPart[Part] | None = None
    ) -> MeasuredPart[Part]:
        """The part of the inner task for some rows, with the magnitudes of the rows."""
        sizes = [Magnitude() for _ in rows] if into is None else into.sizes
        given = list(rows)
        for i, A in enumerate(rows):
            wide, own = self.wide[i], Magnitude()
            if self.unknown[i]:
                own = magnitude_of(A, self.model.roots_of(first_row, A.shape[0], A.home.blocks))
                sizes[i], wide = sizes[i].merged(own), wide or not own.fits_single
            if wide and A.dtype == np.float32:
                given[i] = in_float64(self.names[i], A, own)
        return MeasuredPart(self.task.part(given, first_row, None if into is None else into.part), sizes)

    def merge(self, left: MeasuredPart[Part], right: MeasuredPart[Part]) -> MeasuredPart[Part]:
        """Merge two parts of the inner task, and their magnitudes."""
        sizes = [a.merged(b) for a, b in zip(left.sizes, right.sizes, strict=True)]
        return MeasuredPart(self.task.merge(left.part, right.part), sizes)

    def with_models(self, change: Change) -> Measured[Part]:
        """The task with `change` applied to its row model and to those of the inner task."""
        return replace(self, task=self.task.with_models(change), model=change(self.model))

    def merger(self) -> Measured[Part]:
        """The task to be sent to workers that only merge: the inner task's merger, without row models."""
        own: Any = replace(self, task=self.task.merger(), model=PLAIN)
        return own  # type: ignore[no-any-return]

    def looked_at(self, part: MeasuredPart[Part]) -> Iterable[Array]:
        """The arrays of the inner task that are checked for finiteness."""
        return self.task.looked_at(part.part)
