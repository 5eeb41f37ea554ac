"""A task over the rows as they are multiplied: weighted, less means and confounds, and scaled.

Problem: sweeps read the rows of the data themselves, and correct products. A task from elsewhere knows nothing of that.
Method: the task is called with the operators that the adjustments make of the rows. Sparse rows stay sparse in them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from linspec.arrays import Array
from linspec.operators import LinearOperator
from linspec.operators.adjustment import Adjustment
from linspec.operators.row_model import Change
from linspec.sweeps.task import Task

Part = TypeVar("Part")


@dataclass(frozen=True)
class AdjustedRows(Task[Part]):
    """Another task, over adjusted rows.

    Parameters
    ----------
    task : Task
    adjustments : sequence of Adjustment
        That of each view; it is known.
    """

    task: Task[Part]
    adjustments: Sequence[Adjustment]

    def part(self, rows: Sequence[LinearOperator], first_row: int = 0, into: Part | None = None) -> Part:
        """Of some rows."""
        pairs = zip(self.adjustments, rows, strict=True)
        return self.task.part([own.applied(A, first_row) for own, A in pairs], first_row, into)

    def merge(self, left: Part, right: Part) -> Part:
        """Of the rows of both."""
        return self.task.merge(left, right)

    def with_models(self, change: Change) -> AdjustedRows[Part]:
        """Those of the adjustments, and of the task itself."""
        own = [adjustment.with_model(change) for adjustment in self.adjustments]
        return AdjustedRows(self.task.with_models(change), own)

    def looked_at(self, part: Part) -> Iterable[Array]:
        """As the task says."""
        return self.task.looked_at(part)
