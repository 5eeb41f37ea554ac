"""Containment of exceptions of plugins, so that a broken plugin harms nothing else.

If a process reaches a limit, such as that of memory or of open files, whichever code allocates next raises an
exception. A plugin that raises it is not at fault, so the exception is neither contained nor recorded.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from types import FrameType, TracebackType
from typing import Self

__all__ = ["Contained", "is_at_limit", "is_out_of_memory", "one_line"]

#: Error numbers of the system for a limit of the process or of the machine: memory, files, threads, disk space.
LIMITS = {
    getattr(errno, name, errno.ENOMEM)
    for name in ("ENOMEM", "EMFILE", "ENFILE", "EAGAIN", "ENOSPC", "EDQUOT")
}

#: Message of the loader of shared libraries when there is no address space left; it has no error number.
NO_SPACE = "failed to map segment from shared object"


class Contained:
    """A context in which a plugin's code runs: an exception of the code is kept in `error` and not raised.

    Exceptions that derive only from BaseException are kept, too, because Rust extensions raise such classes.
    Exceptions that are no fault of the plugin are raised: KeyboardInterrupt, which comes from the user; SystemExit,
    which a signal handler may raise; exceptions for a limit that the process has reached, such as that of memory (see
    `is_at_limit`); and RecursionError if the function with the `with` block and its callers are more than half of
    Python's recursion limit.

    Parameters
    ----------
    exits : bool, default False
        Whether SystemExit is kept as well: during an import it comes from the plugin.

    Attributes
    ----------
    error : BaseException or None
        The exception, or None if the block ended without one.
    """

    def __init__(self, *, exits: bool = False) -> None:
        self.error: BaseException | None = None
        self._passed_on = (KeyboardInterrupt, GeneratorExit) if exits else INTERRUPTS

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool:
        if error is None or isinstance(error, self._passed_on) or is_at_limit(error):
            return False
        if isinstance(error, RecursionError) and trace is not None and _is_deep(trace.tb_frame):
            return False
        self.error = error
        return True


#: Exceptions that no context keeps by default.
INTERRUPTS = (KeyboardInterrupt, GeneratorExit, SystemExit)


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an exception means that memory ran out.

    Parameters
    ----------
    error : BaseException
        These count: MemoryError of Python and NumPy; OutOfMemoryError of torch and CuPy, recognized by name; an
        OSError with the number ENOMEM; and an ImportError caused by one of these.
    """
    return any(_lacks_memory(one) for one in _origins(error))


def is_at_limit(error: BaseException) -> bool:
    """Whether an exception means that a limit was reached: of memory, open files, threads, or disk space.

    Parameters
    ----------
    error : BaseException
        These count: the errors of `is_out_of_memory`; an OSError with an error number in `LIMITS`; the RuntimeError
        "can't start new thread"; an ImportError whose message ends with the text of such an error number, or with
        `NO_SPACE`; and an ImportError caused by one of these.
    """
    return any(_lacks_memory(one) or _limit_of(one) is not None for one in _origins(error))


def _origins(error: BaseException) -> Iterator[BaseException]:
    """Yield the error; if it is an ImportError, then its cause, and so on along the chain."""
    seen: set[int] = set()
    found: BaseException | None = error
    while found is not None and id(found) not in seen:
        seen.add(id(found))
        yield found
        if not isinstance(found, ImportError):
            return
        found = found.__cause__ or found.__context__


def _lacks_memory(error: BaseException) -> bool:
    if isinstance(error, MemoryError) or _limit_of(error) == errno.ENOMEM:
        return True
    return any(kind.__name__ == "OutOfMemoryError" for kind in type(error).__mro__)


def _limit_of(error: BaseException) -> int | None:
    """Error number of the limit that caused an OSError, a failed thread start or an ImportError; None for others."""
    if isinstance(error, OSError):
        return error.errno if error.errno in LIMITS else None
    if type(error) is RuntimeError and str(error) == "can't start new thread":
        return errno.EAGAIN
    if isinstance(error, ImportError):  # the loader gives only the text of the error number
        said = str(error)
        if said.endswith(NO_SPACE):
            return errno.ENOMEM
        return next((number for number in LIMITS if said.endswith(f": {os.strerror(number)}")), None)
    return None


def _is_deep(frame: FrameType | None) -> bool:
    """Whether a frame and all its callers are more than half of the recursion limit; False if the frame is None."""
    depth = 0
    while frame is not None:
        depth, frame = depth + 1, frame.f_back
    return depth > sys.getrecursionlimit() // 2


def one_line(error: BaseException) -> str:
    """Type and text of an exception in one line; only the type if its text raises."""
    with suppress(Exception):
        return " ".join(f"{type(error).__name__}: {error}".split())
    return type(error).__name__
