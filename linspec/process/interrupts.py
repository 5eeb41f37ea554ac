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
from collections.abc import Callable
from types import FrameType
from typing import Any


class first_interrupt:  # noqa: N801  # a context, read as one: with first_interrupt(...)
    """A context in which the first Ctrl-C calls `notice`; later ones go to the previous handler.

    The context changes nothing in threads other than the main one, or if SIGINT is ignored or ends the process.

    Parameters
    ----------
    notice : callable
        Called without arguments; it must return at once.
    """

    def __init__(self, notice: Callable[[], None]) -> None:
        self._notice = notice
        self._usual: Any = None
        self._installed = False

    def __enter__(self) -> None:
        if threading.current_thread() is not threading.main_thread():
            return
        self._usual = signal.getsignal(signal.SIGINT)
        if not callable(self._usual):
            return
        self._installed = True
        try:
            signal.signal(signal.SIGINT, self._handle)
        except ValueError:  # a subinterpreter
            self._installed = False

    def __exit__(self, *_: object) -> None:
        if self._installed:
            self._put_back()
            self._installed = False

    def _put_back(self) -> None:
        """Restore the previous handler of SIGINT, unless other code has set a handler since."""
        if signal.getsignal(signal.SIGINT) == self._handle:
            signal.signal(signal.SIGINT, self._usual)

    def _handle(self, signum: int, frame: FrameType | None) -> None:
        self._put_back()
        if self._installed:
            self._notice()
        if not (self._installed and self._usual is signal.default_int_handler):
            self._usual(signum, frame)


class Request:
    """A request to end a computation; `made` is true once an interrupt has made it."""

    def __init__(self) -> None:
        self.made = False

    def make(self) -> None:
        """Make the request; pass this method as `notice` to `first_interrupt`."""
        self.made = True


def nothing_yet(text: str = "") -> KeyboardInterrupt:
    """Make the error for a first interrupt before there is an answer."""
    error = KeyboardInterrupt(*([text] if text else []))
    vars(error)["linspec_had_nothing"] = True
    return error


def had_nothing(error: KeyboardInterrupt) -> bool:
    """Whether `nothing_yet` made an error: a caller that has earlier answers can then return these."""
    return "linspec_had_nothing" in vars(error)


def repeated(call: Callable[[int], None], count: int, stop: Request, *, until: float = math.inf) -> int:
    """Call a function up to `count` times, until an interrupt or the time limit; return the number of calls made.

    Parameters
    ----------
    call : callable
        Called with the number of the call. A call that raises `nothing_yet` ends the calls, and does not count.
    count : int
    stop : Request
        The request whose `make` is the `notice` of the `first_interrupt` context around this call.
    until : float, default infinity
        The time of `time.perf_counter` after which no call begins.
    """
    made = 0
    while made < count and not stop.made and time.perf_counter() < until:
        try:
            call(made)
        except KeyboardInterrupt as interrupt:
            if not had_nothing(interrupt):
                raise
            break
        made += 1
    return made
