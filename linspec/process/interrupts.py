"""Handling of Ctrl-C: the first ends a computation with its best answer so far, the second raises KeyboardInterrupt.

Problem: a user who presses Ctrl-C in a long solve wants the best answer so far.
Method: a handler of SIGINT that acts once. It first restores the previous handler, so that no handler is lost, and
then notifies the computation; the next Ctrl-C goes to the previous handler, which raises KeyboardInterrupt unless the
user has set another one. A previous handler that is not Python's default is called at the first Ctrl-C as well, so that
its owner receives the signal. Each solve has its first Ctrl-C: a loop of solves ends by two, close together.
"""

from __future__ import annotations

import math
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def first_interrupt(notice: Callable[[], None]) -> Iterator[None]:
    """Call `notice` at the first Ctrl-C within a `with` block; later ones go to the previous handler.

    Nothing is changed in threads other than the main one, or if SIGINT is ignored or ends the process.

    Parameters
    ----------
    notice : callable
        Called without arguments; it must return at once.
    """
    usual = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(usual):
        yield
        return

    def handle(signum: int, frame: FrameType | None) -> None:
        signal.signal(signal.SIGINT, usual)
        notice()
        if usual is not signal.default_int_handler:
            usual(signum, frame)

    signal.signal(signal.SIGINT, handle)
    try:
        yield
    finally:  # unless other code has set a handler since
        if signal.getsignal(signal.SIGINT) is handle:
            signal.signal(signal.SIGINT, usual)


class Request:
    """A request to end a computation; `made` is true once an interrupt has made it."""

    def __init__(self) -> None:
        self.made = False

    def make(self) -> None:
        """Make the request; pass this method as `notice` to `first_interrupt`."""
        self.made = True


class NothingYet(KeyboardInterrupt):
    """A first interrupt before there is an answer: a caller that has earlier answers can then return these."""


def repeated(call: Callable[[int], None], count: int, stop: Request, *, until: float = math.inf) -> int:
    """Call a function up to `count` times, until an interrupt or the time limit; return the number of calls made.

    Parameters
    ----------
    call : callable
        Called with the number of the call. A call that raises `NothingYet` ends the calls, and does not count.
    count : int
    stop : Request
        The request whose `make` is the `notice` of the `first_interrupt` context around this call.
    until : float, default infinity
        The time of `time.perf_counter` after which no call begins.
    """
    calls = 0
    while calls < count and not stop.made and time.perf_counter() < until:
        try:
            call(calls)
        except NothingYet:
            break
        calls += 1
    return calls
