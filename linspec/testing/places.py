"""The place of a fault in an author's files: the line of a class or function, and the line that raised an exception.

Problem: after "a check failed" the author of a plugin has to search, often in the wrong package.
Method: classes and functions know where they are defined. For an exception, the innermost frame that belongs
to the package under test is reported. Deeper frames belong to NumPy or linspec, which the package called.
"""

from __future__ import annotations

import inspect
import os
import traceback
from typing import Any

__all__ = ["line_in", "package_of", "place_of", "said_of"]


def package_of(thing: Any) -> str:
    """Return the top-level package, or module, in which a class or function is defined."""
    return str(getattr(thing, "__module__", None) or "").partition(".")[0]


def place_of(thing: Any) -> str:
    """Return the place of a definition, "folder/file.py:12", or "" if it is in no file."""
    try:
        file, line = inspect.getsourcefile(thing), inspect.getsourcelines(thing)[1]
    except (TypeError, OSError):  # built in, or typed into a session
        return ""
    return _shown(file, line) if file else ""


def said_of(error: BaseException, package: str) -> str:
    """Return the text of an exception, and its place in a package: "KeyError: 'x' (folder/file.py:31)"."""
    where = line_in(error, package)
    return f"{type(error).__name__}: {error}{where and f' ({where})'}"


def line_in(error: BaseException, package: str) -> str:
    """Return the line of a package at which an exception was raised, as "folder/file.py:31".

    It belongs to the deepest frame of the traceback that runs code of the package; "" if there is no such frame.
    """
    frames = [
        (frame.f_code.co_filename, line)
        for frame, line in traceback.walk_tb(error.__traceback__)
        if str(frame.f_globals.get("__name__", "")).partition(".")[0] == package
    ]
    return _shown(*frames[-1]) if frames else ""


def _shown(file: str, line: int) -> str:
    """Return file and line as text, with a path relative to the working folder if the file is inside it."""
    inside = os.path.relpath(file)
    return f"{file if inside.startswith(os.pardir) else inside}:{line}"
