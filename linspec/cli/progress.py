"""The progress of a run, where the command line shows it: by default on a terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from linspec.progress import Goal, report_progress

__all__ = ["Goal", "shown_progress"]


@contextmanager
def shown_progress(name: str, goal: Goal, wanted: bool | None) -> Iterator[Callable[[Any], None] | None]:
    """A callback that shows the progress of one solver; None where none is to be shown.

    Parameters
    ----------
    name : str
        What is running.
    goal : Goal
        What will end it.
    wanted : bool or None
        None: on a terminal.
    """
    with report_progress(name, sys.stderr.isatty() if wanted is None else wanted, goal) as reporters:
        yield next(iter(reporters), None)
