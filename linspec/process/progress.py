"""Progress of a run: a bar on a terminal, one line of text elsewhere.

Problem: `linspec.solve(..., progress=True)` is called in scripts, at prompts and in notebooks.
Method: a terminal gets a bar drawn by the package rich, or one line of text if rich is not installed, as a notebook and
a file do. A direct solver reports nothing while it runs, so its bar only shows that time passes. For an iterative
solver the bar shows the finished share of the criterion that will end the run first: the budget of passes or seconds,
or the decrease of the residual to the tolerance, measured in digits.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from linspec.process.plurals import count_of

__all__ = ["Goal", "report_progress"]

INTERVAL = 0.2
"""Smallest number of seconds between two drawings."""

Callback = Callable[[Any], None]


@dataclass
class Goal:
    """The criteria that end a run.

    Attributes
    ----------
    tol : float
        Tolerance; 0 if it is not known.
    max_passes, max_seconds : float
        Budgets; infinite without a limit.
    first : float
        The first residual that was reported.
    """

    tol: float = 0.0
    max_passes: float = math.inf
    max_seconds: float = math.inf
    first: float = 0.0

    def share(self, progress: Any) -> float:
        """The finished share of the run, from 0 to 1."""
        self.first = self.first or progress.residual
        shares = [progress.passes / self.max_passes, progress.seconds / self.max_seconds]
        if 0 < self.tol < self.first < math.inf and progress.residual > 0:
            shares.append(math.log(self.first / progress.residual) / math.log(self.first / self.tol))
        return float(min(1.0, max(0.0, *shares)))


@contextmanager
def report_progress(name: str, wanted: bool | None, goal: Goal) -> Iterator[tuple[Callback, ...]]:
    """Yield a tuple with the callback that shows the progress of a run; an empty tuple if progress is off.

    Parameters
    ----------
    name : str
        The name of the run.
    wanted : bool or None
        Whether to show progress; None: only if standard error is a terminal.
    goal : Goal
        The criteria that end the run.
    """
    on_terminal = sys.stderr.isatty()
    if not (on_terminal if wanted is None else wanted):
        yield ()
        return
    bar = _rich_bar() if on_terminal else None
    with _on_line(name) if bar is None else _on_terminal(bar, name, goal) as show:
        yield (show,)


def _state(progress: Any) -> str:
    return f"{count_of(progress.passes, 'pass')}, residual {progress.residual:.1e}"


# ---- one line of text -------------------------------------------------------------------------


@contextmanager
def _on_line(name: str) -> Iterator[Callback]:
    """Yield a callback that draws a line on standard error, at most five times a second; clear it at the end."""
    stream = sys.stderr
    last = 0.0
    width = 0

    def show(progress: Any) -> None:
        nonlocal last, width
        now = time.monotonic()
        if now - last < INTERVAL:
            return
        last = now
        line = (
            f"{name}: iteration {progress.iteration}, {count_of(progress.passes, 'pass')}, "
            f"residual {progress.residual:.2e}, {progress.seconds:.1f} s"
        )
        stream.write("\r" + line.ljust(width))
        stream.flush()
        width = len(line)

    try:
        yield show
    finally:
        if width:
            stream.write("\r" + " " * width + "\r")
            stream.flush()


# ---- a terminal -------------------------------------------------------------------------------


@contextmanager
def _on_terminal(bar: Any, name: str, goal: Goal) -> Iterator[Callback]:
    with bar:
        task = bar.add_task(name, total=None, state="")

        def show(progress: Any) -> None:
            bar.update(task, total=1.0, completed=goal.share(progress), state=_state(progress))

        yield show


def _rich_bar() -> Any:
    """Make a progress bar of the package rich that vanishes at the end; None if rich is not installed."""
    try:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
    except ImportError:
        return None
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TextColumn("{task.fields[state]}", markup=False),
        TimeElapsedColumn(),
    )
    return Progress(*columns, console=Console(stderr=True), transient=True)
