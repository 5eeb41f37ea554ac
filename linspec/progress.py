"""One line on a terminal that shows the progress of a run."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def report_progress(name: str, wanted: bool) -> Iterator[tuple[Callable[[Any], None], ...]]:
    """Callbacks that keep one line of standard error up to date, or none if progress is off.

    The line is redrawn at most five times a second and cleared at the end.
    """
    if not wanted:
        yield ()
        return
    stream = sys.stderr
    last = 0.0
    width = 0

    def show(progress: Any) -> None:
        nonlocal last, width
        now = time.monotonic()
        if now - last < 0.2:
            return
        last = now
        line = (
            f"{name}: iteration {progress.iteration}, {progress.passes:g} passes, "
            f"residual {progress.residual:.2e}, {progress.seconds:.1f} s"
        )
        stream.write("\r" + line.ljust(width))
        stream.flush()
        width = len(line)

    try:
        yield (show,)
    finally:
        if width:
            stream.write("\r" + " " * width + "\r")
            stream.flush()
