"""Products with blocks of n rows: X V of one view, in the order of its rows, and Xᵀ U."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from linspec.arrays import Array, HostArray, to_host
from linspec.operators import LinearOperator
from linspec.operators.adjustment import Adjustment
from linspec.operators.row_model import Change
from linspec.sweeps.task import Task


@dataclass(frozen=True)
class Images(Task[list[Array]]):
    """X V, in pieces of consecutive rows.

    Parameters
    ----------
    V : array of shape (p, k)
    """

    V: Array

    def part(
        self, rows: Sequence[LinearOperator], first_row: int = 0, into: list[Array] | None = None
    ) -> list[Array]:
        """Of some rows of the view, behind those before."""
        (A,) = rows
        pieces = [] if into is None else into
        pieces.append(A.matmat(self.V))
        return pieces

    def merge(self, left: list[Array], right: list[Array]) -> list[Array]:
        """The rows of both."""
        return left + right

    def looked_at(self, part: list[Array]) -> Iterable[Array]:
        """All of it."""
        return part


@dataclass(frozen=True)
class AdjointImages(Task[Array]):
    """Aᵀ U of two views, of which U is the second."""

    def part(self, rows: Sequence[LinearOperator], first_row: int = 0, into: Array | None = None) -> Array:
        """Of some rows, added to those before."""
        A, U = rows
        product = A.rmatmat(A.home.place(U.dense(), A.dtype))
        return product + 0.0 if into is None else into + product

    def merge(self, left: Array, right: Array) -> Array:
        """Of the rows of both."""
        return left + right

    def looked_at(self, part: Array) -> Iterable[Array]:
        """All of it."""
        return [part]


@dataclass(frozen=True)
class ImageGram(Task[HostArray]):
    """(A V)ᵀ(A V) of one view, on the host.

    Parameters
    ----------
    V : array of shape (p, k)
    adjustment : Adjustment
        That of the rows; it is known.
    """

    V: Array
    adjustment: Adjustment

    def part(
        self, rows: Sequence[LinearOperator], first_row: int = 0, into: HostArray | None = None
    ) -> HostArray:
        """Of some rows, added to those before."""
        (A,) = rows
        P = A.home.blocks.place(self.adjustment.applied(A, first_row).matmat(self.V))
        own = to_host(P.T @ P)
        return own if into is None else into + own

    def merge(self, left: HostArray, right: HostArray) -> HostArray:
        """Of the rows of both."""
        total: HostArray = left + right
        return total

    def merger(self) -> ImageGram:
        """Without the block."""
        return replace(self, V=None)

    def with_models(self, change: Change) -> ImageGram:
        """The model is that of the adjustment."""
        return replace(self, adjustment=self.adjustment.with_model(change))

    def looked_at(self, part: HostArray) -> Iterable[Array]:
        """All of it."""
        return [part]
