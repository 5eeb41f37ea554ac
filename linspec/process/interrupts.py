"""Ctrl-C: the first ends a computation with what it has, the second is Python's own.

Problem: who presses Ctrl-C in a long solve wants the best answer so far; who presses it in a loop of solves wants the
loop to end, although each solve by itself could swallow one.
Method: a handler of SIGINT that acts once. It first puts back the handler that was there before, so none is ever
lost, and then tells the computation. A handler that is not Python's own is called as well: its owner is to hear of the
signal. The answer that an interrupt has ended is remembered. As long as nobody has read how it ended, and after that as
long as it is kept and the same code calls again, the next Ctrl-C is left to Python, which raises KeyboardInterrupt. So
a loop ends at the second one, whether it reads its answers or not; another function, or the next cell of a notebook,
starts afresh.

The memory is of the process, as the handler of a signal is; the main thread alone has to do with either.
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
    """The last answer that an interrupt has ended."""

    def __init__(self, answer: Any, *, read: bool) -> None:
        caller = calling_frame()
        self.answer = weakref.ref(answer)
        self.code = weakref.ref(caller.f_code)
        self.program = weakref.ref(_program(caller))
        self.read = read


def _program(frame: FrameType) -> CodeType:
    """The code that the user has started: of a script, of a statement at a prompt, of a cell of a notebook.

    The last two are gone when they have run.
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
    """An interrupt has ended the computation of this answer, which is about to be returned.

    Parameters
    ----------
    answer : object
        With a `HowItEnded`, or else
    read : bool, default False
        where the caller has been told in another way.
    """
    global _last  # noqa: PLW0603  # of the process, as the handler is
    if threading.current_thread() is threading.main_thread():
        _last = _Interrupted(answer, read=read)


def _forget() -> None:
    global _last  # noqa: PLW0603
    _last = None


class HowItEnded:
    """A field of an answer that says how it ended: whoever reads it knows of the interrupt.

    Parameters
    ----------
    default : object, optional
        Its value where none is given; without one it must be given.
    """

    def __init__(self, *default: Any) -> None:
        self._default = default

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, answer: Any, owner: type | None = None) -> Any:
        if answer is None:  # dataclasses ask the class for the default
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
    """Whether the next interrupt is the second one."""
    if _last is None or _last.program() is None:
        return False
    kept = _last.answer() is not None and _last.code() is calling_frame().f_code
    return kept or not _last.read


class first_interrupt:  # noqa: N801  # a context, read as one: with first_interrupt(...)
    """Inside the block the first Ctrl-C calls `notice`; every later one goes where it went before.

    In threads other than the main one, and where the signal is ignored, or ends the process, nothing is changed.

    Parameters
    ----------
    notice : callable
        Must return at once.
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
        except ValueError:  # an interpreter beside the main one
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
        """The handler that was there, where nobody has set another one since."""
        if signal.getsignal(signal.SIGINT) == self._handle:
            signal.signal(signal.SIGINT, self._usual)

    def _handle(self, signum: int, frame: FrameType | None) -> None:
        self._put_back()
        if self._installed:
            self._notice()
        if not (self._installed and self._pythons):
            self._usual(signum, frame)


class Request:
    """Whether an interrupt has asked for the end."""

    def __init__(self) -> None:
        self.made = False

    def make(self) -> None:
        """To be given to `first_interrupt`."""
        self.made = True


def nothing_yet() -> KeyboardInterrupt:
    """What a first interrupt raises where there is nothing to return; an answer that it ended on the way is dropped."""
    _forget()
    error = KeyboardInterrupt()
    vars(error)["linspec_had_nothing"] = True
    return error


def had_nothing(error: KeyboardInterrupt) -> bool:
    """Whether this is the first interrupt, before there was an answer: who has other answers can return those."""
    return "linspec_had_nothing" in vars(error)


def repeated(call: Callable[[int], None], count: int, stop: Request, *, until: float = math.inf) -> int:
    """How many calls were made, of at most `count`, before an interrupt or the time ended them.

    Parameters
    ----------
    call : callable
        It is given the number of the call. A call that raises `nothing_yet` ends the calls, and does not count.
    count : int
    stop : Request
        As it is given to `first_interrupt` around this.
    until : float, default infinity
        No call begins after this time of `time.perf_counter`.
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
