"""Ctrl-C, and the signals that end a process, while a command works.

Problem: an interrupt must act at once while data are read, end a run with its last iterate, and not lose an answer
that is already computed. Python's own handler raises an exception between any two steps of the main thread: in an
import or a callback of a destructor the exception is printed and lost, and after the run it would discard the answer.
Method: three handlers, one for each stage. Before a run, in a process of its own, a command ends at once, as there is
nothing to clean up. Within `raising` Python's own handler is in place, which `linspec.solve` replaces by one that ends
the run. Within `held` the first interrupt is counted and the current work is finished; a second one raises. None of
them replaces a handler that other code has set, and none acts outside the main thread.
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
    """End the process with one line; used while nothing has been written yet."""
    with suppress(OSError):  # nobody reads it
        os.write(2, b"Interrupted.\n")
    os._exit(INTERRUPTED)


class Interrupts:
    """A handler of Ctrl-C that counts interrupts.

    Attributes
    ----------
    count : int
    """

    def __init__(self) -> None:
        self.count = 0

    @property
    def came(self) -> bool:
        """Whether at least one interrupt has been counted."""
        return self.count > 0

    def __call__(self, signum: int, frame: FrameType | None) -> None:
        """Count an interrupt; raise KeyboardInterrupt at the second."""
        self.count += 1
        if self.count > 1:
            signal.default_int_handler(signum, frame)


@contextmanager
def quitting(own_process: bool) -> Iterator[None]:
    """If `own_process` is True, let Ctrl-C end the process at once, with the line "Interrupted." on standard error.

    After the block Ctrl-C is ignored while Python shuts down. If `own_process` is False, nothing is changed.
    """
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
    """Count the first Ctrl-C and go on; a second one raises KeyboardInterrupt."""
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
    """Set Python's own handler of Ctrl-C for the block. `linspec.solve` replaces only this handler by its own.

    If `held` has already counted a Ctrl-C, KeyboardInterrupt is raised at once and the block does not run. Nothing is
    changed if the current handler must not be replaced (see `_replaceable`).
    """
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
    """Return the current handler of Ctrl-C if it is Python's own handler, or a handler of this module.

    None if other code has set a handler, and in every thread but the main one, where no handler can be set.
    """
    if threading.current_thread() is not threading.main_thread():
        return None
    handler = signal.getsignal(signal.SIGINT)
    ours = handler is signal.default_int_handler or handler is _quit or isinstance(handler, Interrupts)
    return handler if ours else None
