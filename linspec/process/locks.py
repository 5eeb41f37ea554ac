"""Locks for threads that use one source of slices, or the same moments.

Problem: a callable that returns a fresh iterator of slices may fill one buffer again and again, or seek in one file.
Two threads that read from one source at once would each get some rows that the other needs, without an error.

If threads share moments, each thread would form them, and the passes would be counted wrongly.

Method: a thread that uses a source owns it until the pass ends; other threads wait. Within one thread passes may
overlap. A lock ends at the latest with its thread, so that other threads do not wait for a thread that has died.
"""

from __future__ import annotations

import threading
from types import MethodType
from typing import Any

SECONDS = 0.5
"""Interval at which waiting threads check that the owner of the source is still alive."""

_CHANGED = threading.Condition()
_OWNERS: dict[object, tuple[tuple[int, ...], threading.Thread]] = {}
"""The source and the thread of each running pass."""


class locked:  # noqa: N801  # a context, read as one: with locked(source)
    """A context in which no other thread uses a source."""

    def __init__(self, source: Any) -> None:
        # A key of a source, valid while it exists: its id, or for a bound method the ids of its object and function.
        bound = isinstance(source, MethodType)
        self._source = (id(source.__self__), id(source.__func__)) if bound else (id(source),)

    def __enter__(self) -> None:
        thread = threading.current_thread()
        with _CHANGED:
            while any(
                source == self._source and owner is not thread and owner.is_alive()
                for source, owner in _OWNERS.values()
            ):
                _CHANGED.wait(SECONDS)
            _OWNERS[self] = self._source, thread

    def __exit__(self, *_: object) -> None:
        with _CHANGED:
            _OWNERS.pop(self, None)
            _CHANGED.notify_all()
