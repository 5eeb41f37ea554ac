"""Blocks of dask without a cluster: held in this process, or computed anew at every sweep."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import dask

from linspec.sweeps import Call, Engine, InProcess


def computed(blocks: Sequence[Any]) -> list[Any]:
    """The values of delayed blocks, by the scheduler of dask that is set for this process."""
    return list(dask.compute(*blocks))


@dataclass(frozen=True)
class _Deferred:
    """A call that is made when its result is wanted, every time."""

    work: Any
    call: Call

    def made(self) -> Any:
        return self.work(self.call.number, *map(taken, self.call.handles))


def taken(handle: Any) -> Any:
    """The value behind a handle."""
    if isinstance(handle, _Deferred):
        return handle.made()
    if dask.is_dask_collection(handle):
        return handle.compute(scheduler="synchronous")
    return handle


class Recomputed(InProcess):
    """Blocks that do not fit into the memory of this process: nothing but small results is held.

    Handles are delayed blocks, calls that are made when their results are wanted, and values.
    """

    def map(self, work: Any, calls: Sequence[Call]) -> list[Any]:
        return [_Deferred(work, call) for call in calls]

    def keep(self, work: Any, calls: Sequence[Call]) -> list[Any]:
        """Made now: made anew, each step of an iteration would make all before it again."""
        return super().map(work, calls)

    def fetch(self, handles: Sequence[Any]) -> list[Any]:
        deferred = [Call(i, (handle,)) for i, handle in enumerate(handles)]
        return super().map(_same, deferred)

    def taken(self, handle: Any) -> Any:
        return taken(handle)

    def joins(self, other: Engine) -> bool:
        return isinstance(other, InProcess)


def _same(_number: int, value: Any) -> Any:
    return value
