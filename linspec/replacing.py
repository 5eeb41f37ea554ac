"""Files that are written whole or not at all.

Problem: a disk that fills, a folder that goes away or an interrupt must leave the file that was there.
Method: a file is written under a name of its own in the same folder, flushed to the disk, given the permissions of
the file it replaces or those of a new one, and renamed; whatever ends this before takes the draft away. A symbolic
link is followed. Only SIGKILL and a loss of power can leave a draft, ``.linspec-*.part``.
"""

from __future__ import annotations

import os
import secrets
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import IO, Any

__all__ = ["replaced"]

PERMISSIONS = 0o777


@contextmanager
def replaced(path: Path) -> Iterator[IO[bytes]]:
    """A stream whose content takes the place of a file at the end, unless an exception comes first."""
    path = Path(os.path.realpath(path))
    draft = path.with_name(f".linspec-{secrets.token_hex(4)}.part")

    def remove() -> None:
        with suppress(OSError):
            draft.unlink(missing_ok=True)

    with _undone_if_killed(remove):
        try:
            with draft.open("x+b") as stream:
                with suppress(FileNotFoundError):
                    mode = path.stat().st_mode & PERMISSIONS
                    if draft.stat().st_mode & PERMISSIONS != mode:  # some file systems have none to change
                        draft.chmod(mode)
                yield stream
                stream.flush()
                os.fsync(stream.fileno())
            draft.replace(path)
        finally:
            remove()


@contextmanager
def _undone_if_killed(undo: Callable[[], Any]) -> Iterator[None]:
    """Call a function before SIGTERM or SIGHUP ends the process, where they would end it."""
    ending = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
    if threading.current_thread() is not threading.main_thread():
        ending = []
    ending = [number for number in ending if signal.getsignal(number) is signal.SIG_DFL]

    def end(signum: int, _: FrameType | None) -> None:
        undo()
        signal.signal(signum, signal.SIG_DFL)
        signal.raise_signal(signum)

    for number in ending:
        signal.signal(number, end)
    try:
        yield
    finally:
        for number in ending:
            signal.signal(number, signal.SIG_DFL)
