"""A check of every path before it is opened.

Problem: opening a pipe waits for its writer, a device may never end, and a metadata file of a terabyte is read as a
whole by the library that parses it. An untrusted file, or a file in an untrusted folder, may be a link to any of these.
Method: every path that is read, from Python, from the command line and within a folder, is checked by one function.
"""

from __future__ import annotations

import os
import stat

from linspec.errors import InvalidProblem, printable

__all__ = ["looked_at"]

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
        found = os.stat(path)  # noqa: PTH116  # a Path takes an empty text for the folder of the process
        fault = _fault(path, found, folder, most)
    except (FileNotFoundError, NotADirectoryError):
        fault = "there is no such file. Check the path."
    except OSError as error:
        fault = f"{error.strerror or type(error).__name__}. Check the path."
    except ValueError:  # a null character
        fault = "no file can have this name. Check the path."
    if fault:
        name = printable(os.fspath(path))[:LONGEST_NAME] or "an empty text"
        raise InvalidProblem(f"{name} cannot be read: {fault}")
    return found


def _fault(path: str | os.PathLike[str], found: os.stat_result, folder: bool, most: int | None) -> str:
    """Describe why a file cannot be read; "" if it can be read."""
    if stat.S_ISDIR(found.st_mode):
        return "" if folder else "it is a folder. Pass the path of one file."
    if not stat.S_ISREG(found.st_mode):
        return "it is a pipe or a device, no file that can be read more than once. Write the data to a file first."
    if not found.st_size:  # also files of the system itself, some of them endless
        return "it is empty. Write it again."
    if not os.access(path, os.R_OK):
        return "Permission denied. Let this user read it."
    if most is not None and found.st_size > most:
        return f"it has {found.st_size:,} bytes, and at most {most:,} are read. Write it again."
    return ""
