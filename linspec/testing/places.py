"""Where in an author's files the fault is: the line of a class or function, and the line that raised an exception.

Problem: "a check failed" sends the author of a plugin looking, often into the wrong package.
Method: a class and a function know where they are defined. Of an exception the innermost frame counts that belongs to
the package under test: deeper frames are those of NumPy or of linspec, to which the package handed something.
"""

from __future__ import annotations

import inspect
import os
import traceback
from typing import Any

__all__ = ["package_of", "place_of", "said_of"]


def package_of(thing: Any) -> str:
    """The top-level package, or module, in which a class or function is defined."""
    return str(getattr(thing, "__module__", None) or "").partition(".")[0]


def place_of(thing: Any) -> str:
    """Where a class or function is defined, "folder/file.py:12"; "" where no file has it."""
    try:
        file, line = inspect.getsourcefile(thing), inspect.getsourcelines(thing)[1]
    except (TypeError, OSError):  # built in, or typed into a session
        return ""
    return _shown(file, line) if file else ""


def said_of(error: BaseException, package: str) -> str:
    """What an exception says, and where in a package it came from: "KeyError: 'x' (folder/file.py:31)"."""
    frames = [
        (frame.f_code.co_filename, line)
        for frame, line in traceback.walk_tb(error.__traceback__)
        if str(frame.f_globals.get("__name__", "")).partition(".")[0] == package
    ]
    where = f" ({_shown(*frames[-1])})" if frames else ""
    return f"{type(error).__name__}: {error}{where}"


def _shown(file: str, line: int) -> str:
    """A path from the working folder where the file is below it."""
    inside = os.path.relpath(file)
    return f"{file if inside.startswith(os.pardir) else inside}:{line}"
