"""Tasks for products with n-row blocks: (X − 1 aboutᵀ) V of one view, in the order of the rows, and Xᵀ U."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from linspec.arrays import Array
from linspec.operators import LinearOperator
from linspec.sweeps.task import Task


@dataclass(frozen=True)
class Images(Task[list[Array]]):
    """Task that computes (X − 1 aboutᵀ) V, in pieces of consecutive rows.

    Parameters
    ----------
    V : array of shape (p, k)
    about : array of shape (p,), optional
    """

    V: Array
    about: Array | None = None

    def part(
        self, rows: Sequence[LinearOperator], first_row: int = 0, into: list[Array] | None = None
    ) -> list[Array]:
        """Append the products for some rows to `into`, the pieces of earlier rows."""
        A = rows[0] if self.about is None else rows[0].centered(self.about)
        pieces = [] if into is None else into
        pieces.append(A.matmat(self.V))
        return pieces

    def merge(self, left: list[Array], right: list[Array]) -> list[Array]:
        """Concatenate the lists of pieces."""
        return left + right

    def looked_at(self, part: list[Array]) -> Iterable[Array]:
        """All pieces, which are checked for finiteness."""
        return part


@dataclass(frozen=True)
class AdjointImages(Task[Array]):
    """Task that computes Aᵀ U for the two views A and U."""

    def part(self, rows: Sequence[LinearOperator], first_row: int = 0, into: Array | None = None) -> Array:
        """Aᵀ U for some rows, added to `into`, the product of earlier rows."""
        A, U = rows
        product = A.rmatmat(A.home.place(U.dense(), A.dtype))
        return product + 0.0 if into is None else into + product

    def merge(self, left: Array, right: Array) -> Array:
        """The sum of `left` and `right`."""
        return left + right

    def looked_at(self, part: Array) -> Iterable[Array]:
        """The whole part, which is checked for finiteness."""
        return [part]
