"""The accounts of a run: what it has used so far, and what it may still use."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from linspec.solving.run import Run


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
        """Floating-point operations of all products that the run has made so far, over all matrices."""
        return sum(ledger.flops for ledger in self._run._ledgers.values())

    @property
    def seconds(self) -> float:
        """Wall time in seconds since the run began.

        If the run continues from a checkpoint, the time of the earlier runs up to this checkpoint is included.
        """
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
        granted = affordable and not run._interrupted
        run._budget.refused |= not granted
        return granted

    def reserving(self, passes: float) -> AbstractContextManager[None]:
        """Reserve passes for code after the `with` block: no sweep inside the block, of a part or not, may use them.

        Parameters
        ----------
        passes : float
            The number of passes, in addition to those of the certificate.
        """
        return self._run._budget.reserving(passes)
