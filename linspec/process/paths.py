"""Whether a text of a user is the name of something there.

Problem: a text that may be a path, or columns behind one, may be longer than any name, or hold a zero byte; the file
system answers such questions with an error.
Method: what no name can be names nothing. Other errors, such as a folder that may not be looked into, stay errors.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path

__all__ = ["is_there"]


def is_there(path: str | os.PathLike[str]) -> bool:
    """Whether a file, a folder or anything else has this name, links followed."""
    try:
        return Path(path).exists()
    except ValueError:  # a zero byte, or characters that the file system's encoding lacks
        return False
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            return False
        raise
