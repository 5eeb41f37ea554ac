"""Products with n rows: X V of one view, in the order of its rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from linspec.arrays import Array
from linspec.operators import LinearOperator
from linspec.sweeps.task import Task


@dataclass(frozen=True)
class Images(Task[list[Array]]):
    """X V, in pieces of consecutive rows.

    Parameters
    ----------
    V : array of shape (p, k)
    about : array of shape (p,), optional
        A row that is taken out of all rows.
    """

    V: Array
    about: Array | None = None

    def part(
        self, rows: Sequence[LinearOperator], first_row: int = 0, into: list[Array] | None = None
    ) -> list[Array]:
        """Of some rows of the view, behind those before."""
        (A,) = rows
        pieces = [] if into is None else into
        pieces.append((A if self.about is None else A.centered(self.about)).matmat(self.V))
        return pieces

    def merge(self, left: list[Array], right: list[Array]) -> list[Array]:
        """The rows of both."""
        return left + right

    def looked_at(self, part: list[Array]) -> Iterable[Array]:
        """All of it."""
        return part
