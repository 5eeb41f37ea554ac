"""Files that are written completely or not at all.

Problem: if the disk fills, or the program fails, the previous file must remain. A device, a pipe or a read-only file
must not be replaced by a file.
Method: the path is checked first. Then a draft, ``.linspec-*.part``, is written in the same folder, flushed to the disk
and renamed, with the permissions of the file that it replaces; a symbolic link is followed. A process that is killed
can leave its draft behind.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from linspec.errors import InvalidOption, shown

__all__ = ["check_replaceable", "named_file", "replaced"]

WRITABLE = 0o222

LONGEST_NAME = 4096
"""Length, in bytes, of the longest path that is tried; no system allows longer paths."""


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
    with suppress(TypeError, ValueError):  # the encoding of the file system may lack a character
        name = os.fspath(path)
        if isinstance(name, str) and "\0" not in name and 0 < len(os.fsencode(name)) <= LONGEST_NAME:
            return Path(name)
    raise InvalidOption(f"{what} must be that of a file; got {shown(path)}.")


def check_replaceable(path: Path) -> None:
    """Raise an error if a path is something other than a regular file, or a file that may not be written.

    Raises
    ------
    OSError
    """
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        return
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, "it is a folder", str(path))
    if not stat.S_ISREG(mode):
        raise OSError(errno.EINVAL, "it is no regular file", str(path))
    if not mode & WRITABLE:  # which root could open nonetheless
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))


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
    draft = path.with_name(f".linspec-{secrets.token_hex(4)}.part")
    try:
        with draft.open("x+b") as stream:
            if path.exists():
                draft.chmod(stat.S_IMODE(path.stat().st_mode))
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)
