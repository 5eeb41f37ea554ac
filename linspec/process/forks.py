"""Locks that are free in a forked child.

A child process has only the thread that forked. A lock that another thread held at the fork would stay held in the
child forever. So a lock that is held only briefly is acquired before each fork; a lock that is held for long is
replaced by a new lock in the child.
"""

from __future__ import annotations

import functools
import os
import threading
from collections.abc import Callable
from typing import Any, TypeVar

__all__ = ["cached_property", "wait_before_forks"]

T = TypeVar("T")


def wait_before_forks(lock: Any, in_child: Callable[[], Any] | None = None) -> None:
    """Make forks wait until no other thread holds a lock.

    Parameters
    ----------
    lock : threading.Lock, threading.RLock or threading.Condition
        A global lock that is held only briefly.
    in_child : callable, optional
        Called in the child, which holds the lock, and must release it. By default the lock is only released.
    """
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(
            before=lock.acquire, after_in_parent=lock.release, after_in_child=in_child or lock.release
        )


class cached_property(functools.cached_property[T]):  # noqa: N801  # as functools calls it
    """A `functools.cached_property` whose lock, one for all instances in Python 3.11, is free in a forked child."""

    def __init__(self, func: Callable[[Any], T]) -> None:
        super().__init__(func)
        if hasattr(self, "lock") and hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._unlock)

    def _unlock(self) -> None:
        self.lock = threading.RLock()
