"""Locks that are free in a forked child, which has only the thread that forked."""

from __future__ import annotations

import os
from typing import Any

__all__ = ["wait_before_forks"]


def wait_before_forks(lock: Any) -> None:
    """Make forks wait until no other thread holds a global lock that is held only briefly."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(before=lock.acquire, after_in_parent=lock.release, after_in_child=lock.release)
