"""Passes over the data: how many were made, and how many may be made."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass

from linspec.process.progress import tell_rows

__all__ = ["OutOfPasses", "Passes"]


class OutOfPasses(Exception):  # noqa: N818  # an end, and no error
    """The limit of passes or seconds is reached."""


@dataclass
class Passes:
    """Count of passes, with a limit of passes and of time.

    Parameters
    ----------
    most : float, default infinity
        Passes that may be made.
    until : float, default infinity
        The time of `time.perf_counter` from which on no block is begun.
    reserved : float, default 0
        Passes that are set aside, as for the certificate.
    count : float, default 0
        Passes that were made, also in part.
    columns, flops : float, default 0
        Products with one column, forward and adjoint, and their operations.
    interrupted : bool, default False
        Whether the run shall end at its last iterate.
    closing : bool, default False
        Whether the last iterate is judged, which no interrupt ends.
    lacking : float, default 0
        The limit that the pass which was refused last would have needed.
    """

    most: float = math.inf
    until: float = math.inf
    reserved: float = 0.0
    count: float = 0.0
    columns: float = 0.0
    flops: float = 0.0
    lacking: float = 0.0
    interrupted: bool = False
    closing: bool = False

    def take(self, passes: float = 1.0) -> None:
        """Count a pass before it begins."""
        self.look()
        if not self.allows(passes):
            self.lacking = self.count + passes + self.reserved
            raise OutOfPasses(
                f"{self.count:g} of {self.most:g} passes are made, and the next one takes {passes:g}."
            )
        self.count = min(self.count + passes, self.most)  # sums of shares are rounded

    def allows(self, passes: float) -> bool:
        """Whether so many passes are left beside those that are set aside."""
        return self.count + passes + self.reserved <= self.most + 1e-9

    def interrupt(self) -> None:
        """End the run at its last iterate, as the first Ctrl-C does."""
        self.interrupted = True

    def between(self, rows: float) -> Callable[..., None]:
        """Return what is called before each block of a pass over so many rows, with the number of those in the block.

        It does what `look` does, and shows the rows where progress is shown.
        """
        tell = tell_rows(rows, math.ceil(self.count))

        def between(count: int = 0) -> None:
            self.look()
            if count:  # rows on workers are not counted
                tell(count)

        return between

    def look(self) -> None:
        """Raise `OutOfPasses` if the time is over, or after an interrupt; called between blocks."""
        late = self.until < math.inf and time.perf_counter() > self.until
        if late or (self.interrupted and not self.closing):
            raise OutOfPasses("the time is over, or an interrupt came.")
