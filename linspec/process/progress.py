"""Progress of a run: one line of text on standard error.

Problem: `linspec.solve(..., progress=True)` is called in scripts, at prompts and in notebooks. A pass over a large file
takes minutes, and a direct solver makes no iteration.
Method: a callback of the run draws the line again, at most five times a second; it is cleared at the end. Within a pass
the blocks that are read draw it: a context variable leads from the loops over blocks to the line, as for pauses. The
time that is left follows from the rows read in this pass.
"""

from __future__ import annotations

import math
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from linspec.process.plurals import count_of

INTERVAL = 0.2
"""Smallest number of seconds between two drawings."""

Callback = Callable[[Any], None]
Tell = Callable[[int], None]
"""Takes the number of rows that have been read since the last call."""


class _Line:
    """The line of one run.

    Parameters
    ----------
    name : str
        The name of the run.
    stream : text stream
    """

    def __init__(self, name: str, stream: Any) -> None:
        self.name, self.stream, self.drawn, self.residual = name, stream, 0.0, ""

    def show(self, progress: Any) -> None:
        """Show an iterate."""
        self.residual = f"; residual {progress.residual:.2e}"
        if time.monotonic() - self.drawn >= INTERVAL:
            self._draw(
                f"iteration {progress.iteration}, {count_of(progress.passes, 'pass')}, "
                f"residual {progress.residual:.2e}, {progress.seconds:.1f} s"
            )

    def tell(self, rows: float, number: int) -> Tell:
        """Return the function that shows the rows of a pass of some number."""
        began, first, read = math.inf, 0, 0
        front = f"pass {number}, " if number else ""

        def tell(count: int) -> None:
            nonlocal began, first, read
            read += count
            now = time.monotonic()
            if began == math.inf:  # before the first block files were opened
                began, first = now, read
            if now - max(began, self.drawn) < INTERVAL:
                return
            text = f"{front}{read:,} rows"
            if rows < math.inf:
                left = (now - began) * (rows - read) / max(read - first, 1)
                text = f"{front}{read:,} of {rows:,} rows, {_in_words(left)} left"
            self._draw(text + self.residual)

        return tell

    def _draw(self, text: str) -> None:
        self.drawn = time.monotonic()
        self._write(f"{self.name}: {text}")

    def _write(self, line: str, end: str = "") -> None:
        width = shutil.get_terminal_size().columns - 1  # a line that breaks is not cleared
        print("\r" + line[:width].ljust(width), end=end, file=self.stream, flush=True)

    def clear(self) -> None:
        """Clear the line, if it was drawn."""
        if self.drawn:
            self._write("", end="\r")


_line: ContextVar[_Line | None] = ContextVar("linspec_line", default=None)


def tell_rows(rows: float, number: int = 0) -> Tell:
    """What a loop over the rows of data calls with the number of rows in each step.

    It shows these rows, and the time that is left, in the line of progress; where no progress is shown it does nothing.

    Parameters
    ----------
    rows : float
        The number of all rows; infinity where it is not known.
    number : int, default 0
        The number of the pass, from 1; 0 for a loop that is no pass.

    Returns
    -------
    callable
        Takes the number of rows that have been read since its last call. It draws at most five times a second.

    Examples
    --------
    >>> import numpy as np
    >>> from linspec.process import tell_rows
    >>> total, tell = 0.0, tell_rows(3)
    >>> for block in np.arange(6.0).reshape(3, 2):
    ...     total += float(block.sum())
    ...     tell(1)  # outside a run with progress nothing happens
    >>> total
    15.0
    """
    line = _line.get()
    return _untold if line is None else line.tell(rows, number)


def _untold(count: int) -> None:
    """Show nothing."""


def _in_words(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 100 else f"{seconds / 60:.0f} min"


@contextmanager
def report_progress(name: str, *, wanted: bool | None) -> Iterator[tuple[Callback, ...]]:
    """Yield a tuple with the callback that shows the progress of a run; an empty tuple if progress is off.

    Parameters
    ----------
    name : str
        The name of the run.
    wanted : bool or None
        Whether to show progress; None: only if standard error is a terminal.
    """
    stream = sys.stderr
    if not (stream.isatty() if wanted is None else wanted):
        yield ()
        return
    line = _Line(name, stream)
    before = _line.set(line)
    try:
        yield (line.show,)
    finally:
        _line.reset(before)
        line.clear()
