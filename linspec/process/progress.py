"""Progress of a run: one line of text on standard error.

Problem: `linspec.solve(..., progress=True)` is called in scripts, at prompts and in notebooks.
Method: a callback of the run draws the line again, at most five times a second; it is cleared at the end. A direct
solver reports nothing while it runs.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from linspec.process.plurals import count_of

INTERVAL = 0.2
"""Smallest number of seconds between two drawings."""

WIDTH = 100
"""Characters of the line, which are cleared."""

Callback = Callable[[Any], None]


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
    last = 0.0

    def show(progress: Any) -> None:
        nonlocal last
        if time.monotonic() - last >= INTERVAL:
            last = time.monotonic()
            line = (
                f"{name}: iteration {progress.iteration}, {count_of(progress.passes, 'pass')}, "
                f"residual {progress.residual:.2e}, {progress.seconds:.1f} s"
            )
            print("\r" + line.ljust(WIDTH), end="", file=stream, flush=True)

    try:
        yield (show,)
    finally:
        if last:
            print("\r" + " " * WIDTH, end="\r", file=stream, flush=True)
