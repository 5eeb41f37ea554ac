"""Files that are written completely or not at all.

Problem: if the disk fills, the folder is removed, or an interrupt or a signal comes, the previous file must remain,
and no other file may be left. A device, a pipe or a read-only file must not be replaced by a file.
Method: the path is checked first. Then a draft is written in the same folder and flushed to the disk. The draft gets
the permissions of the file that it replaces, or those of a new file, and is renamed; a symbolic link is followed. If
the system has files without a name (Linux), the draft gets a name only for the instant of its renaming, so that no
signal leaves it behind. On other systems the draft is called ``.linspec-*.part``: SIGKILL, a loss of power, and a
signal while another thread writes, can leave it behind. The writer holds a lock on the draft, which the system
releases when the writer dies; the next writer into the folder removes drafts without a lock.
"""

from __future__ import annotations

import errno
import math
import os
import re
import secrets
import signal
import stat
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import IO, Any

from linspec.errors import InvalidOption, shown

try:
    import fcntl
except ImportError:  # Windows refuses to remove an open file; elsewhere drafts are then left alone
    LOCKS = False
else:
    LOCKS = True

__all__ = ["check_replaceable", "named_file", "replaced"]

PERMISSIONS, WRITABLE = 0o777, 0o222

DRAFT = re.compile(r"\.linspec-[0-9a-f]{8}\.part")

LONGEST_NAME = 4096
"""Length, in bytes, of the longest path that is tried; no system allows longer paths."""

OWN_FILES = Path("/proc/self/fd")
"""Folder in which Linux lists the open files of a process, including those without a name."""


def named_file(path: Any, what: str = "path") -> Path:
    """Check that an argument can be the name of a file, and return it as a path.

    Parameters
    ----------
    path : object
        The argument.
    what : str, default "path"
        The name of the argument in messages.

    Raises
    ------
    InvalidOption
        The argument is neither text nor a path, or is empty, or no file can have that name.
    """
    name = os.fspath(path) if isinstance(path, str | os.PathLike) else None
    if not isinstance(name, str) or not name:
        raise InvalidOption(f"{what} must be that of a file; got {shown(path)}.")
    try:
        length: float = len(os.fsencode(name))
    except ValueError:  # characters that the encoding of the file system lacks
        length = math.inf
    if "\0" in name or length > LONGEST_NAME:
        raise InvalidOption(f"{what} must be that of a file; no file can be called {shown(name)}.")
    return Path(name)


def check_replaceable(path: Path) -> None:
    """Raise an error if a path is something other than a regular file, or a file that may not be written.

    Raises
    ------
    OSError
    """
    try:
        found = path.stat()
    except FileNotFoundError:
        return
    if stat.S_ISDIR(found.st_mode):
        raise IsADirectoryError(errno.EISDIR, "it is a folder", str(path))
    if not stat.S_ISREG(found.st_mode):
        raise OSError(errno.EINVAL, "it is no regular file", str(path))
    if not found.st_mode & WRITABLE:  # which root could open nonetheless
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
    os.close(os.open(path, os.O_WRONLY))


@contextmanager
def replaced(path: Path) -> Iterator[IO[bytes]]:
    """Yield a stream whose content replaces a file at the end of the `with` block, unless the block raises an
    exception.

    Raises
    ------
    OSError
        The path is something that must not be replaced by a file, or the file cannot be written.
    """
    check_replaceable(path)
    path = Path(os.path.realpath(path))
    if not path.parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, "there is no such folder", str(path.parent))
    _remove_drafts(path.parent)
    draft = path.with_name(f".linspec-{secrets.token_hex(4)}.part")

    def remove() -> None:
        with suppress(OSError):
            draft.unlink(missing_ok=True)

    nameless = _nameless(path.parent)
    with _undone_if_killed(remove):
        try:
            with nameless or _locked(draft) as stream:
                with suppress(FileNotFoundError):
                    mode = path.stat().st_mode & PERMISSIONS
                    if (
                        os.fstat(stream.fileno()).st_mode & PERMISSIONS != mode
                    ):  # some systems have none to change
                        os.chmod(stream.fileno() if nameless else draft, mode)  # noqa: PTH101  # it has no path
                yield stream
                stream.flush()
                os.fsync(stream.fileno())
                if nameless:
                    _give_name(stream, draft)
                if sys.platform != "win32":  # still locked
                    draft.replace(path)
            if sys.platform == "win32":  # which renames no open file
                draft.replace(path)
        finally:
            remove()


def _nameless(folder: Path) -> IO[bytes] | None:
    """Open a file without a name in a folder; None if the system or the file system has no such files."""
    flag = getattr(os, "O_TMPFILE", None)
    if flag is None or not OWN_FILES.is_dir():
        return None
    try:
        stream = os.fdopen(os.open(folder, flag | os.O_RDWR, 0o666), "w+b")
    except OSError:  # a file system without such files; other errors recur when a named file is opened
        return None
    _lock(stream)
    return stream


def _give_name(stream: IO[bytes], draft: Path) -> None:
    """Give the path `draft` to an open file without a name."""
    folder = os.open(draft.parent, os.O_RDONLY)
    try:  # with a folder, the system follows the link to the open file
        os.link(OWN_FILES / str(stream.fileno()), draft.name, src_dir_fd=folder, dst_dir_fd=folder)
    finally:
        os.close(folder)


def _locked(draft: Path) -> IO[bytes]:
    """Create a draft and lock it, so that no other writer takes it for an abandoned draft and removes it."""
    stream = draft.open("x+b")
    _lock(stream)
    if LOCKS and not draft.exists():  # removed by another in the instant before it was locked
        stream.close()
        return _locked(draft)
    return stream


def _lock(stream: IO[bytes]) -> None:
    if LOCKS:
        with suppress(OSError):  # a file system without locks, on which drafts are never removed
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _remove_drafts(folder: Path) -> None:
    """Remove the drafts in a folder whose writers have died."""
    with suppress(OSError), os.scandir(folder) as entries:
        left = [Path(entry.path) for entry in entries if DRAFT.fullmatch(entry.name)]
        for draft in left:
            with suppress(OSError):
                _remove_if_left(draft)


def _remove_if_left(draft: Path) -> None:
    if sys.platform == "win32":  # Windows refuses to remove an open file
        draft.unlink()
        return
    if not LOCKS or not stat.S_ISREG(draft.lstat().st_mode):
        return
    file = os.open(draft, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        draft.unlink()
    finally:
        os.close(file)


@contextmanager
def _undone_if_killed(undo: Callable[[], Any]) -> Iterator[None]:
    """Within the `with` block, call `undo` before SIGTERM or SIGHUP ends the process.

    For a signal that already has a handler, or is ignored, nothing is changed, and `undo` is not called.
    """
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
