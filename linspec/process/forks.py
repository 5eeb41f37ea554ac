"""Locks that a forked child finds free.

A child has no thread but the one that forked. A lock that another thread held then would stay held in the child for
ever. A lock that is held for a moment only is taken before each fork; one that is held for long is made anew in the
child.
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
    """Fork only while no other thread holds a lock.

    Parameters
    ----------
    lock : threading.Lock, threading.RLock or threading.Condition
        Of the process, held for a moment at a time.
    in_child : callable, optional
        Called in the child, which holds the lock, to release it; by default it is released.
    """
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(
            before=lock.acquire, after_in_parent=lock.release, after_in_child=in_child or lock.release
        )


class cached_property(functools.cached_property[T]):  # noqa: N801  # as functools calls it
    """`functools.cached_property`; Python 3.11 holds a lock for all instances while it computes a value."""

    def __init__(self, func: Callable[[Any], T]) -> None:
        super().__init__(func)
        if hasattr(self, "lock") and hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._unlock)

    def _unlock(self) -> None:
        self.lock = threading.RLock()
