"""Handling of Ctrl-C: the first ends a computation with its best answer so far, the second raises KeyboardInterrupt.

Problem: a user who presses Ctrl-C in a long solve wants the best answer so far; in a loop of solves, the user wants the
loop to end, although each solve could absorb one interrupt.
Method: a handler of SIGINT that acts once. It first restores the previous handler, so that no handler is lost, and
then notifies the computation. A previous handler that is not Python's default is called as well, so that its owner
receives the signal. The answer that an interrupt has ended is remembered. The next Ctrl-C is left to Python, which
raises KeyboardInterrupt, in two cases: no code has read how the answer ended, or the answer still exists and the same
code calls again. So a loop ends at the second Ctrl-C, whether it reads its answers or not. In another function, or
the next cell of a notebook, the next Ctrl-C counts as the first.

The remembered answer is global, like the handler of a signal; only the main thread uses the two.
"""

from __future__ import annotations

import math
import signal
import sys
import threading
import time
import weakref
from collections.abc import Callable
from types import CodeType, FrameType, TracebackType
from typing import Any

from linspec.errors import calling_frame


class _Interrupted:
    """The last answer whose computation an interrupt has ended, and the code outside linspec that received it."""

    def __init__(self, answer: Any, *, read: bool) -> None:
        caller = calling_frame()
        self.answer = weakref.ref(answer)
        self.code = weakref.ref(caller.f_code)
        self.program = weakref.ref(_program(caller))
        self.read = read


def _program(frame: FrameType) -> CodeType:
    """The outermost code that the user has started: a script, a statement at a prompt, or a cell of a notebook.

    The code of a statement or a cell is freed after it has run.
    """
    main, found = getattr(sys.modules.get("__main__"), "__dict__", None), frame.f_code
    above: FrameType | None = frame
    while above is not None:
        if above.f_globals is main:
            found = above.f_code
        above = above.f_back
    return found


_last: _Interrupted | None = None


def remember(answer: Any, *, read: bool = False) -> None:
    """Record that an interrupt has ended the computation of an answer, just before the answer is returned.

    Parameters
    ----------
    answer : object
        An object with a field `HowItEnded`, unless `read` is true.
    read : bool, default False
        Whether the caller is informed of the interrupt in another way.
    """
    global _last  # noqa: PLW0603  # global, as the handler is
    if threading.current_thread() is threading.main_thread():
        _last = _Interrupted(answer, read=read)


def _forget() -> None:
    global _last  # noqa: PLW0603
    _last = None


class HowItEnded:
    """A field that states how the computation of an answer ended; reading it marks the interrupt as noticed.

    Parameters
    ----------
    default : object, optional
        The default value; without one the field is required.
    """

    def __init__(self, *default: Any) -> None:
        self._default = default

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, answer: Any, owner: type | None = None) -> Any:
        if answer is None:  # dataclasses read the default from the class
            if not self._default:
                raise AttributeError(self._name)
            return self._default[0]
        if _last is not None and _last.answer() is answer:
            _last.read = True
        try:
            return answer.__dict__[self._name]
        except KeyError:  # an answer in the making
            raise AttributeError(self._name) from None

    def __set__(self, answer: Any, value: Any) -> None:
        answer.__dict__[self._name] = value


def _outstanding() -> bool:
    """Whether the next interrupt counts as the second one and is left to Python."""
    if _last is None or _last.program() is None:
        return False
    kept = _last.answer() is not None and _last.code() is calling_frame().f_code
    return kept or not _last.read


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
        if not callable(self._usual) or (self._pythons and _outstanding()):
            return
        self._installed = True
        try:
            signal.signal(signal.SIGINT, self._handle)
        except ValueError:  # a subinterpreter
            self._installed = False

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._installed:
            self._put_back()
            self._installed = False
        elif isinstance(error, KeyboardInterrupt) and self._pythons:  # the second one has done its work
            _forget()

    @property
    def _pythons(self) -> bool:
        return self._usual is signal.default_int_handler

    def _put_back(self) -> None:
        """Restore the previous handler of SIGINT, unless other code has set a handler since."""
        if signal.getsignal(signal.SIGINT) == self._handle:
            signal.signal(signal.SIGINT, self._usual)

    def _handle(self, signum: int, frame: FrameType | None) -> None:
        self._put_back()
        if self._installed:
            self._notice()
        if not (self._installed and self._pythons):
            self._usual(signum, frame)


class Request:
    """A request to end a computation; `made` is true once an interrupt has made it."""

    def __init__(self) -> None:
        self.made = False

    def make(self) -> None:
        """Make the request; pass this method as `notice` to `first_interrupt`."""
        self.made = True


def nothing_yet(text: str = "") -> KeyboardInterrupt:
    """Make the error for a first interrupt before there is an answer; forget any remembered answer."""
    _forget()
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
