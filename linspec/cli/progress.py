"""How far a run has come: a bar by rich on a terminal, the library's own line where rich is not installed.

A direct solver reports nothing on its way, so its bar only shows that time passes. For an iterative one the bar
is the share done of what will end the run first: the budget of passes or seconds, or the way from the first
residual down to the tolerance, measured in digits.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from linspec.progress import report_progress

__all__ = ["Goal", "shown_progress"]


@dataclass
class Goal:
    """What will end a run.

    Attributes
    ----------
    tol : float
        Tolerance; 0 where it is not known.
    max_passes, max_seconds : float
        Budgets, infinite where there is none.
    """

    tol: float = 0.0
    max_passes: float = math.inf
    max_seconds: float = math.inf
    first: float = 0.0

    def share(self, progress: Any) -> float:
        """The share that is done, from 0 to 1."""
        self.first = self.first or progress.residual
        shares = [progress.passes / self.max_passes, progress.seconds / self.max_seconds]
        if 0 < self.tol < self.first < math.inf and progress.residual > 0:
            shares.append(math.log(self.first / progress.residual) / math.log(self.first / self.tol))
        return float(min(1.0, max(0.0, *shares)))


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
    terminal = sys.stderr.isatty()
    if not (terminal if wanted is None else wanted):
        yield None
        return
    bar = _rich_bar() if terminal else None
    if bar is None:
        with report_progress(name, True) as (line,):
            yield line
        return
    with bar:
        task = bar.add_task(name, total=None, state="")

        def update(progress: Any) -> None:
            state = f"{progress.passes:g} passes, residual {progress.residual:.1e}"
            bar.update(task, total=1.0, completed=goal.share(progress), state=state)

        yield update


def _rich_bar() -> Any:
    """A bar that vanishes at the end; None without rich."""
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
