"""A test whether a text of a user is an existing path.

Problem: a text that may be a path, or a path followed by columns, may be longer than any name, or contain a zero byte;
the file system then raises an error.
Method: a text that cannot be a name does not exist. Other errors, such as a folder without permission, stay errors.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path

__all__ = ["is_there"]


def is_there(path: str | os.PathLike[str]) -> bool:
    """Whether a file, a folder or anything else exists at a path, links followed."""
    try:
        return Path(path).exists()
    except ValueError:  # a zero byte, or characters that the file system's encoding lacks
        return False
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            return False
        raise
