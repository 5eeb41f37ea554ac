"""Whether a text that a user has given is an existing path; a text that cannot be a name is none."""

from __future__ import annotations

import os

__all__ = ["is_there"]


def is_there(path: str | os.PathLike[str]) -> bool:
    """Whether a file, a folder or anything else exists at a path; links are followed."""
    return os.path.exists(path)  # noqa: PTH110  # Path raises for some of these texts
