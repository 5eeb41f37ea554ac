"""A task over the rows as they are multiplied: weighted, with means, confounds and scale taken out.

Problem: sweeps read the rows of the data themselves, and take out of products what `linspec.operators.row_model`
takes out of rows. A task from elsewhere knows nothing of that.
Method: the task is called with operators that have it taken out. Sparse rows stay sparse in them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from linspec.arrays import Array
from linspec.operators import LinearOperator
from linspec.operators.row_model import Change
from linspec.sweeps.task import Task
from linspec.sweeps.views import TakenOut

Part = TypeVar("Part")


@dataclass(frozen=True)
class AdjustedRows(Task[Part]):
    """Another task, over rows of which the rest is taken out.

    Parameters
    ----------
    task : Task
    taken_out : sequence of TakenOut
        What is taken out of the rows of each view; it is known.
    """

    task: Task[Part]
    taken_out: Sequence[TakenOut]

    def part(self, rows: Sequence[LinearOperator], first_row: int = 0, into: Part | None = None) -> Part:
        """Of some rows."""
        pairs = zip(self.taken_out, rows, strict=True)
        return self.task.part([out.left(A, first_row) for out, A in pairs], first_row, into)

    def merge(self, left: Part, right: Part) -> Part:
        """Of the rows of both."""
        return self.task.merge(left, right)

    def with_models(self, change: Change) -> AdjustedRows[Part]:
        """Those of what is taken out, and of the task itself."""
        return AdjustedRows(self.task.with_models(change), [out.with_model(change) for out in self.taken_out])

    def looked_at(self, part: Part) -> Iterable[Array]:
        """As the task says."""
        return self.task.looked_at(part)
