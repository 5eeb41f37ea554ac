"""The gradient of least squares in one sweep: Aᵀ(A x − B), from the residual of each block of rows.

Problem: Aᵀ(A x − B) is also AᵀA x − AᵀB, but this difference of large numbers loses digits near the solution.
Method: the residual of a block of rows is computed and multiplied at once, so that no array of n rows is held.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from linspec.arrays import Array
from linspec.operators import LinearOperator
from linspec.sweeps.task import Task


@dataclass(frozen=True)
class GradientOfSquares(Task[Any]):
    """Task that computes Aᵀ(A x − B) for the views A and B.

    Parameters
    ----------
    x : array of shape (p, k)
    """

    x: Array

    def part(self, rows: Sequence[LinearOperator], first_row: int = 0, into: Any = None) -> Any:
        """The sum over some rows, added to `into`, the sum over earlier rows."""
        A, B = rows
        own = A.rmatmat(residual(A, B, self.x))
        return own if into is None else into + own

    def merge(self, left: Any, right: Any) -> Any:
        """Add two sums."""
        return left + right

    def looked_at(self, part: Any) -> Iterable[Array]:
        """The sum, which must be finite."""
        return [part]


def residual(A: LinearOperator, B: LinearOperator, x: Array) -> Array:
    """A x − B in the more precise of the dtypes of A and B."""
    dtype, home = np.result_type(A.dtype, B.dtype), A.home
    entries = B.dense() if B.readable else B.matmat(B.home.blocks.eye(B.shape[1]))
    return home.place(A.matmat(x), dtype) - home.place(entries, dtype)
