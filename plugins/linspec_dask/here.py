"""Blocks of dask without a cluster: held in this process, or computed anew at every sweep."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import dask

from linspec.workers import Call, Engine, InProcess


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
    """The engine of blocks that do not fit into the memory of this process.

    Blocks are computed anew each time that they are needed, and so are the results of `map`. Only the results of `keep`
    and the values of `hold` are held. A handle is a delayed block, a deferred call, or a value that is held.
    """

    recomputes = True

    def map(self, work: Any, calls: Sequence[Call]) -> list[Any]:
        return [_Deferred(work, call) for call in calls]

    def keep(self, work: Any, calls: Sequence[Call]) -> list[Any]:
        """Make the calls now and hold their results, while `map` defers calls until their results are needed.

        An iteration uses the results of each step in the next one. Deferred calls would repeat all earlier steps.
        """
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
