"""The accounts of a run: what it has used so far, and what it may still use."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, TypeVar

from linspec.process.pauses import OutOfPasses

if TYPE_CHECKING:
    from linspec.solving.run import Run

Item = TypeVar("Item")


class Counts:
    """The products and the time of a run so far; its sweeps are `Run.passes`."""

    def __init__(self, run: Run) -> None:
        self._run = run

    @property
    def columns(self) -> float:
        """Products with one column so far, forward and adjoint, over all matrices."""
        return sum(ledger.columns for ledger in self._run._ledgers.values())

    @property
    def flops(self) -> float:
        """Floating-point operations of those products."""
        return sum(ledger.flops for ledger in self._run._ledgers.values())

    @property
    def seconds(self) -> float:
        """Wall time since the run began, with that of the runs before its checkpoint."""
        return self._run._budget.seconds + self._run._earlier_seconds


class Allowance:
    """The passes that a run has left, for solvers that do more than one step where the budget allows it."""

    def __init__(self, run: Run) -> None:
        self._run = run

    def affords(self, passes: float) -> bool:
        """Whether `passes` more passes leave enough for the certificate, and time is left.

        Parameters
        ----------
        passes : float
        """
        run = self._run
        affordable = run._budget.affords(run.passes, passes, run._certificate())
        return affordable and not run._interrupted

    def affordable(self, items: Iterator[Item]) -> Iterator[Item]:
        """The items of an iterator, up to the first one that the budget has no passes for.

        Parameters
        ----------
        items : iterator
            Each item may take sweeps. A generator is closed at the end.

        Yields
        ------
        object
            The items. Where the first one is refused, there is none.
        """
        while True:
            try:
                item = next(items)
            except (StopIteration, OutOfPasses):
                return
            yield item

    def reserving(self, passes: float) -> AbstractContextManager[None]:
        """Reserve passes, which parts inside the `with` block may not use.

        Parameters
        ----------
        passes : float
        """
        return self._run._budget.reserving(passes)
