"""Files: a check of every path before it is opened, and files that are written completely or not at all.

Problem: opening a pipe waits for its writer, a device may never end, and a metadata file of a terabyte is read as a
whole by the library that parses it. An untrusted file, or a file in an untrusted folder, may be a link to any of these.
A header, an index or compressed data of a few bytes can require more memory than the machine has. If the disk fills
while a file is written, or the program fails, the previous file must remain.
Method: every path that is read, from Python, from the command line and within a folder, is checked by one function.
Each reader compares the memory that the declarations of a file require with that which this process may still use. A
writer checks the path first. Then a draft, ``.linspec-*.part``, is written in the same folder, flushed to the disk and
renamed, with the permissions of the file that it replaces; a symbolic link is followed. A process that is killed can
leave its draft behind.
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

from linspec.errors import InvalidOption, InvalidProblem, printable, shown
from linspec.process import machine

LONGEST_NAME = 300
"""Largest number of characters of a file name that a message shows."""


def looked_at(
    path: str | os.PathLike[str], *, folder: bool = False, most: int | None = None
) -> os.stat_result:
    """Check that a path is a readable regular file, or a folder if `folder` is true, and return its status.

    Links are followed. No file is opened, so the check never waits for the other end of a pipe.

    Parameters
    ----------
    path : path
    folder : bool, default False
        Whether the path may also be a folder.
    most : int, optional
        The largest number of bytes that the file may have.

    Returns
    -------
    os.stat_result
        Size, time and kind of the file or the folder.

    Raises
    ------
    InvalidProblem
        The path does not exist; is a pipe, a socket or a device; or is a folder and `folder` is false. The file is
        empty, not readable, or too large.

    Examples
    --------
    >>> from linspec.operators import looked_at
    >>> looked_at("nowhere.npy")
    Traceback (most recent call last):
    linspec.errors.InvalidProblem: nowhere.npy cannot be read: there is no such file. Check the path.
    """
    try:
        status = os.stat(path)  # noqa: PTH116  # a Path takes an empty text for the folder of the process
        fault = _fault(path, status, folder, most)
    except (FileNotFoundError, NotADirectoryError):
        fault = "there is no such file. Check the path."
    except OSError as error:
        fault = f"{error.strerror or type(error).__name__}. Check the path."
    except ValueError:  # a null character
        fault = "no file can have this name. Check the path."
    if fault:
        name = printable(os.fspath(path))[:LONGEST_NAME] or "an empty text"
        raise InvalidProblem(f"{name} cannot be read: {fault}")
    return status


def _fault(path: str | os.PathLike[str], status: os.stat_result, folder: bool, most: int | None) -> str:
    """Describe why a file cannot be read; "" if it can be read."""
    if stat.S_ISDIR(status.st_mode):
        return "" if folder else "it is a folder. Pass the path of one file."
    if not stat.S_ISREG(status.st_mode):
        return "it is a pipe or a device, no file that can be read more than once. Write the data to a file first."
    if not status.st_size:  # also files of the system itself, some of them endless
        return "it is empty. Write it again."
    if not os.access(path, os.R_OK):
        return "Permission denied. Let this user read it."
    if most is not None and status.st_size > most:
        return f"it has {status.st_size:,} bytes, and at most {most:,} are read. Write it again."
    return ""


def is_there(path: str | os.PathLike[str]) -> bool:
    """Whether a file, a folder or anything else exists at a path; a text that cannot be a name is none."""
    return os.path.exists(path)  # noqa: PTH110  # Path raises for some of these texts


def check_memory(path: Any, needed: int, what: str, remedy: str = "") -> None:
    """Raise an error if data do not fit into memory.

    Parameters
    ----------
    path : path
        The file.
    needed : int
        The smallest number of bytes that reading the file takes.
    what : str
        A phrase that names the data in the message.
    remedy : str, optional
        The remedy in the message. By default: use a machine with more memory, or a ``.npy`` file, which is read in
        blocks.

    Raises
    ------
    InvalidProblem
        Less memory is available.

    Examples
    --------
    >>> from linspec.process import check_memory
    >>> check_memory("small.csv", 1000, "a matrix of 25 x 5 numbers")
    >>> check_memory("large.csv", 2**80, "a matrix of 2^75 x 4 numbers")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    linspec.errors.InvalidProblem: large.csv: a matrix of 2^75 x 4 numbers takes ... of memory; ...
    """
    available = machine.available_memory()
    if needed > available:
        raise InvalidProblem(
            f"{printable(path)}: {what} takes {needed / 2**20:,.0f} MiB of memory; "
            f"{available / 2**20:,.0f} MiB are available. "
            f"{remedy or 'Use a machine with more memory, or a .npy file, which is read in blocks.'}"
        )


def check_memory_for_sparse(path: Any, shape: tuple[int, int], entries: int) -> None:
    """Raise an error if a sparse matrix does not fit into memory, or has too many columns for one vector.

    Parameters
    ----------
    path : path
        The file.
    shape : (int, int)
        Rows and columns.
    entries : int
        The number of stored entries.

    Raises
    ------
    InvalidProblem
        Less memory is available than the matrix in compressed rows and one vector with an entry for each column take;
        every solver needs such a vector.

    Examples
    --------
    >>> from linspec.process import check_memory_for_sparse
    >>> check_memory_for_sparse("counts.mtx", (1000, 500), 20_000)
    >>> check_memory_for_sparse("counts.mtx", (1000, 2**62), 20_000)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    linspec.errors.InvalidProblem: counts.mtx: a sparse matrix of ... takes ... of memory; ...
    """
    rows, columns = shape
    needed = 8 * (rows + 1) + 8 * columns + 12 * entries
    what = f"a sparse matrix of {rows:,} x {columns:,} with {entries:,} entries, and one vector of its width,"
    check_memory(path, needed, what, "Check its indices, or number the columns that occur.")


# ---- writing ----------------------------------------------------------------------------------

WRITABLE = 0o222

LONGEST_PATH = 4096
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
        if isinstance(name, str) and "\0" not in name and 0 < len(os.fsencode(name)) <= LONGEST_PATH:
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
    if not stat.S_ISREG(mode) or not mode & WRITABLE:  # which root could open nonetheless
        raise PermissionError(errno.EACCES, "it is no regular file that may be written", str(path))


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
