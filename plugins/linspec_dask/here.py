"""Blocks of dask without a cluster: held in this process, or computed anew at every sweep."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import dask

from linspec.sweeps import Call, Engine, InProcess


def computed(blocks: Sequence[Any]) -> list[Any]:
    """Compute delayed blocks with the dask scheduler that is set for this process."""
    return list(dask.compute(*blocks))


@dataclass(frozen=True)
class _Deferred:
    """A call that is made anew each time its result is needed."""

    work: Any
    call: Call

    def made(self) -> Any:
        return self.work(self.call.number, *map(taken, self.call.handles))


def taken(handle: Any) -> Any:
    """Return the value of a handle, computed now if it is deferred or delayed."""
    if isinstance(handle, _Deferred):
        return handle.made()
    if dask.is_dask_collection(handle):
        return handle.compute(scheduler="synchronous")
    return handle


class Recomputed(InProcess):
    """The engine of blocks that do not fit into the memory of this process: only small results are held.

    Handles are delayed blocks, calls that are made when their results are needed, and values.
    """

    def map(self, work: Any, calls: Sequence[Call]) -> list[Any]:
        return [_Deferred(work, call) for call in calls]

    def keep(self, work: Any, calls: Sequence[Call]) -> list[Any]:
        """Make the calls now: deferred ones would repeat all earlier steps in each step of an iteration."""
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
