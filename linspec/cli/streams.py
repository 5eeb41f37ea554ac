"""Standard output and error that may fail while a command works.

Problem: a full disk behind ``> file`` or a reader that has seen enough (``| head``) must not end a command that has
files to write yet, and Python reports a stream that it cannot flush at its very end, in a traceback.
Method: below the text layer is a stream that keeps its first failure and drops all later output. The command checks it
at the end. Characters that the encoding lacks are written as escapes. A stream that is closed from the start becomes
the null device, so that no file that is opened later takes its number.
"""

from __future__ import annotations

import io
import os
import select
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TextIO

__all__ = ["lasting_output"]


class _Lasting(io.RawIOBase):
    """A raw stream that passes its output on to an inner stream.

    The first failure of the inner stream is kept as `failure`, and no error is raised. All later output is dropped.
    """

    def __init__(self, inner: io.RawIOBase) -> None:
        self._inner = inner
        self.failure: OSError | None = None

    def writable(self) -> bool:
        """Return True."""
        return True

    def fileno(self) -> int:
        """Return the number of the inner stream."""
        return self._inner.fileno()

    def isatty(self) -> bool:
        """Whether the inner stream is a terminal."""
        return self._inner.isatty()

    def write(self, data: Any) -> int | None:
        """Write to the inner stream, or drop the data after a failure."""
        while self.failure is None:
            try:
                written = self._inner.write(data)
                if written is not None:
                    return written
                select.select([], [self.fileno()], [])  # another program has made the pipe non-blocking
            except OSError as error:
                self.failure = error
        return len(data)


@contextmanager
def lasting_output() -> Iterator[_Lasting | None]:
    """In the block, replace standard output and standard error by streams that raise no error if a write fails.

    After the first failure of a stream its later output is dropped. A stream that was closed from the start is replaced
    by the null device. A stream that does not write to an `io.FileIO` is left as it is: a console of Windows, or a
    stream that a test has set.

    Yields the raw stream of standard output, which keeps the first error as `failure`. Yields None if standard output
    was closed from the start, or is left as it is.
    """
    given = sys.stdout, sys.stderr
    sys.stdout, out = _lasting(sys.stdout)
    sys.stderr, _ = _lasting(sys.stderr)
    try:
        yield out
    finally:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        sys.stdout, sys.stderr = given


def _lasting(stream: TextIO | None) -> tuple[TextIO, _Lasting | None]:
    if stream is None:
        return open(os.devnull, "w", encoding="utf-8"), None  # noqa: PTH123 (as long as the command runs)
    buffer = getattr(stream, "buffer", None)
    inner = getattr(buffer, "raw", buffer)  # without buffer under PYTHONUNBUFFERED
    if not isinstance(inner, io.FileIO):  # a console of Windows, or what a test has put there
        return stream, None
    stream.flush()
    raw = _Lasting(inner)
    text = io.TextIOWrapper(
        io.BufferedWriter(raw),
        encoding=stream.encoding,
        errors="backslashreplace",
        line_buffering=True,
    )
    return text, raw
