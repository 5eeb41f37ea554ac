"""Ctrl-C, and the signals that end a process, while a command works.

Problem: an interrupt is wanted at once while data are read, ends a run with what it has, and must not cost an answer
that is there already. Python's own handler raises an exception between any two steps of the main thread: within an
import or a callback of a destructor that is printed and lost, and after the run it would throw the answer away.
Method: three handlers, one for each stage. Before a run, in a process of its own, a command ends at once, as there is
nothing to put in order. Within `raising` Python's own handler is in place, which `linspec.solve` replaces by one
that ends the run. Within `held` the first interrupt is noted and the work at hand is finished; a second one raises.
All of them leave alone a handler that somebody else has set, and do nothing outside the main thread.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any

__all__ = ["INTERRUPTED", "Interrupts", "held", "quitting", "raising"]

INTERRUPTED = 130
"""Exit status of a command that Ctrl-C has ended: 128 + SIGINT."""


def _quit(_: int, __: FrameType | None) -> None:
    """End the process in one line; for the time in which nothing has been written yet."""
    with suppress(OSError):  # nobody reads it
        os.write(2, b"Interrupted.\n")
    os._exit(INTERRUPTED)


class Interrupts:
    """The interrupts that came while they were held.

    Attributes
    ----------
    count : int
    """

    def __init__(self) -> None:
        self.count = 0

    @property
    def came(self) -> bool:
        """Whether there was one."""
        return self.count > 0

    def __call__(self, signum: int, frame: FrameType | None) -> None:
        """Note one; a second one raises."""
        self.count += 1
        if self.count > 1:
            signal.default_int_handler(signum, frame)


@contextmanager
def quitting(own_process: bool) -> Iterator[None]:
    """End the process in one line at Ctrl-C; and when all is done, let none disturb what Python does at its end."""
    if not own_process:
        yield
        return
    signal.signal(signal.SIGINT, _quit)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)


@contextmanager
def held() -> Iterator[Interrupts]:
    """Note the first Ctrl-C instead of being ended by it; a second one raises KeyboardInterrupt."""
    before = _replaceable()
    interrupts = Interrupts()
    if before is None:
        yield interrupts
        return
    signal.signal(signal.SIGINT, interrupts)
    try:
        yield interrupts
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def raising() -> Iterator[None]:
    """Python's own handler, which `linspec.solve` looks for; an interrupt that is held is raised."""
    before = _replaceable()
    if before is None or before is signal.default_int_handler:
        yield
        return
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        if isinstance(before, Interrupts) and before.came:
            raise KeyboardInterrupt
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _replaceable() -> Any:
    """The handler of Ctrl-C where it may be replaced for a while; None where it is another's."""
    if threading.current_thread() is not threading.main_thread():
        return None
    handler = signal.getsignal(signal.SIGINT)
    ours = handler is signal.default_int_handler or handler is _quit or isinstance(handler, Interrupts)
    return handler if ours else None
