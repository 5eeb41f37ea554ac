"""Passes over the data: how many were made, and how many may be made."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field

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
    count : float, default 0
        Passes that were made, also in part.
    """

    most: float = math.inf
    until: float = math.inf
    count: float = field(default=0.0)

    def take(self, passes: float = 1.0) -> None:
        """Count a pass before it begins."""
        self.look()
        if self.count + passes > self.most + 1e-9:
            raise OutOfPasses(
                f"{self.count:g} of {self.most:g} passes are made, and the next step takes {passes:g}."
            )
        self.count += passes

    def look(self) -> None:
        """Raise `OutOfPasses` if the time is over; called between blocks."""
        if self.until < math.inf and time.perf_counter() > self.until:
            raise OutOfPasses("the time is over.")
