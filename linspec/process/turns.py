"""Turns of threads that use one source of slices, or the same moments.

Problem: a callable that returns a fresh iterator of slices may fill one buffer again and again, or seek in one file.
Two threads that read from one source at once would each get some rows that the other needs, without an error.

If threads share moments, each thread would form them, and the sweeps would be counted wrongly.

Method: a thread that uses a source owns it until the sweep ends; other threads wait. Within one thread sweeps may
overlap. A turn ends at the latest with its thread, so that other threads do not wait for a thread that has died or
that a forked child lacks.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from types import MethodType
from typing import Any

from linspec.process.forks import wait_before_forks

SECONDS = 0.5
"""Interval at which waiting threads check that the owner of the source is still alive."""


class in_turn:  # noqa: N801  # a context, read as one: with in_turn(source)
    """A context in which no other thread uses a source.

    The context is a class, because small solves enter it dozens of times, and a generator would take several times as
    long.
    """

    __slots__ = ("_key", "_source")

    def __init__(self, source: Any) -> None:
        self._key, self._source = object(), _identity(source)

    def __enter__(self) -> None:
        _TURNS.take(self._source, self._key)

    def __exit__(self, *_: object) -> None:
        try:
            _TURNS.give_back(self._key)
        finally:
            _TURNS.give_back(
                self._key
            )  # does nothing the second time; an interrupt may have cut the first short

    def __del__(self) -> None:
        _TURNS.give_back(self._key)  # if an interrupt came between the turn and the block


def _identity(source: Any) -> tuple[int, ...]:
    """A key of a source, valid while it exists: its id, or for a bound method the ids of its object and function."""
    bound = isinstance(source, MethodType)
    return (id(source.__self__), id(source.__func__)) if bound else (id(source),)


class _Turns:
    """Record of the running sweeps: the source and the thread of each sweep."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self._waiting = 0
        self._made: dict[object, tuple[tuple[int, ...], threading.Thread]] = {}

    def take(self, source: tuple[int, ...], key: object) -> None:
        """Wait until no other thread uses the source, then record that this thread does."""
        thread = threading.current_thread()
        with self.changed:
            while self._made and any(self._others(source, thread)):
                self._waiting += 1
                try:
                    self.changed.wait(SECONDS)
                finally:
                    self._waiting -= 1
            self._made[key] = source, thread

    def give_back(self, key: object) -> None:
        """Remove a sweep from the record, if it is there, and wake waiting threads."""
        if key not in self._made:
            return
        with self.changed:
            if self._made.pop(key, None) is not None and self._waiting:
                self.changed.notify_all()

    def _others(self, source: tuple[int, ...], thread: threading.Thread) -> Iterator[bool]:
        for taken, other in self._made.values():
            yield taken == source and other is not thread and other.is_alive()


_TURNS = _Turns()

wait_before_forks(_TURNS.changed)
