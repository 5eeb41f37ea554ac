"""A test whether a text that a user has given is an existing path.

Problem: a text that may be a path, or a path followed by columns, may be longer than any name, or contain a zero byte;
the file system then raises an error.
Method: the answer for a text that cannot be a name is False. Other errors, such as a folder without permission, are
raised.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path

__all__ = ["is_there"]


def is_there(path: str | os.PathLike[str]) -> bool:
    """Whether a file, a folder or anything else exists at a path; links are followed."""
    try:
        return Path(path).exists()
    except ValueError:  # a zero byte, or characters that the file system's encoding lacks
        return False
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            return False
        raise
