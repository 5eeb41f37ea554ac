"""A task over adjusted rows: rows with weights applied, means and confounds subtracted, and columns scaled.

Problem: sweeps read the unadjusted rows and correct products. A task that a user defines makes no such corrections.
Method: the task is called with adjusted rows as operators, which keep sparse rows sparse.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from linspec.arrays import Array
from linspec.operators import LinearOperator
from linspec.operators.adjustment import Adjustment
from linspec.operators.weights import Change
from linspec.sweeps.task import Task

Part = TypeVar("Part")


@dataclass(frozen=True)
class AdjustedRows(Task[Part]):
    """Task that applies another task (the inner task) to adjusted rows.

    Parameters
    ----------
    task : Task
    adjustments : sequence of Adjustment
        The adjustment of each view; it must be known.
    """

    task: Task[Part]
    adjustments: Sequence[Adjustment]

    def part(self, rows: Sequence[LinearOperator], first_row: int = 0, into: Part | None = None) -> Part:
        """The part of the inner task for some rows, after their adjustment."""
        pairs = zip(self.adjustments, rows, strict=True)
        return self.task.part([own.applied(A, first_row) for own, A in pairs], first_row, into)

    def merge(self, left: Part, right: Part) -> Part:
        """Merge two parts of the inner task."""
        return self.task.merge(left, right)

    def with_models(self, change: Change) -> AdjustedRows[Part]:
        """The task with `change` applied to the row models of its adjustments and of the inner task."""
        own = [adjustment.with_model(change) for adjustment in self.adjustments]
        return AdjustedRows(self.task.with_models(change), own)

    def looked_at(self, part: Part) -> Iterable[Array]:
        """The arrays of the inner task that are checked for finiteness."""
        return self.task.looked_at(part)
