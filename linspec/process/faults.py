"""Exceptions of plugins are contained, so that a broken plugin does not harm anything else.

A process that comes to a limit, of memory or of open files for instance, raises in whatever code asks next. That is
nobody's fault, so it is neither contained nor recorded.
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

#: Error numbers of the system for a limit of the process or of the machine: files, threads, space on a disk.
LIMITS = {
    getattr(errno, name, errno.ENOMEM)
    for name in ("ENOMEM", "EMFILE", "ENFILE", "EAGAIN", "ENOSPC", "EDQUOT")
}

#: What the loader of shared libraries says when there is no address space left; it has no error number.
NO_SPACE = "failed to map segment from shared object"


class Contained:
    """A context in which a plugin's code runs. It keeps the exception and does not raise it.

    Rust extensions raise classes that derive only from BaseException, so these are kept, too. An interrupt
    comes from the user and is raised. So is an exit while the program runs, because a signal handler may have
    requested it. A limit of the process is no fault of the plugin, and its exception is raised: `is_at_limit`, and
    too deep a recursion where the caller has used more than half of the depth.

    Parameters
    ----------
    exits : bool, default False
        Whether SystemExit is kept as well. During an import it comes from the plugin.

    Attributes
    ----------
    error : BaseException or None
        The exception, or None if the block came to its end.
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
    """Whether memory ran out.

    Parameters
    ----------
    error : BaseException
        Python's and NumPy's MemoryError; what torch and CuPy raise, told by its name; an error of the system with that
        number; or an ImportError that comes from one of these.
    """
    return any(_lacks_memory(one) for one in _origins(error))


def is_at_limit(error: BaseException) -> bool:
    """Whether the process or the machine came to a limit: of memory, open files, threads, or space on a disk.

    Parameters
    ----------
    error : BaseException
        As for `is_out_of_memory`.
    """
    return any(_lacks_memory(one) or _limit_of(one) is not None for one in _origins(error))


def _origins(error: BaseException) -> Iterator[BaseException]:
    """The error, and what an ImportError comes from."""
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
    """The number of the limit that an error of the system, of a thread's start or of the loader tells of."""
    if isinstance(error, OSError):
        return error.errno if error.errno in LIMITS else None
    if type(error) is RuntimeError and str(error) == "can't start new thread":
        return errno.EAGAIN
    if isinstance(error, ImportError):  # the loader gives the text of the number alone
        said = str(error)
        if said.endswith(NO_SPACE):
            return errno.ENOMEM
        return next((number for number in LIMITS if said.endswith(f": {os.strerror(number)}")), None)
    return None


def _is_deep(frame: FrameType | None) -> bool:
    """Whether the calls that led to a frame take more than half of the depth that Python allows."""
    depth = 0
    while frame is not None:
        depth, frame = depth + 1, frame.f_back
    return depth > sys.getrecursionlimit() // 2


def one_line(error: BaseException) -> str:
    """Type and text of an exception in one line; only the type if its text raises."""
    with suppress(Exception):
        return " ".join(f"{type(error).__name__}: {error}".split())
    return type(error).__name__
