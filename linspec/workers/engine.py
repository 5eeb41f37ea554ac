"""Engines: owners of blocks of rows, which run functions on the blocks without moving them.

Problem: blocks are in this process, on the workers of dask or ray, or with any other cluster manager. The
computations on blocks, and the order in which results are merged, should be written once.
Method: an engine has three methods. `hold` hands it values of this process, `map` calls a function with the values
behind some handles and keeps the results where they were made, and `fetch` brings values to this process. A reduction
consists of levels of `map`: groups of `FAN` neighbours are merged until one result is left. The groups depend only on
the positions of the results, so that every engine gives the same bits.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

from linspec.process import machine
from linspec.process.pauses import pause
from linspec.rows.on_workers import Call

__all__ = ["FAN", "Call", "Engine", "Handle", "InProcess", "Work"]

Handle = Any
"""Reference to a value that an engine holds; any type."""

Work = Callable[..., Any]
"""A function that can be pickled, called as work(number, *values). It must not modify the values.

The number is `Call.number`, such as the position of a block or the number of its first row."""

FAN = 8
"""Number of results that are merged at once: a power of two, so that groups are subtrees of one binary tree."""


class Engine(ABC):
    """An owner of values behind handles, which calls functions with them: this process, or a cluster.

    A derived class defines `hold`, `map` and `fetch`; the defaults of the other methods use these three.

    Attributes
    ----------
    round_seconds, call_seconds : float, default 0.0
        The overhead of one `reduce`, and of one call in it, in seconds. `linspec.cost` adds them to the estimated time
        of a pass, by which solver "auto" and form "auto" are chosen.
    workers : int, default 1
        Number of calls that run in parallel, for the same estimates. No other result depends on the number.

    Examples
    --------
    >>> import numpy as np
    >>> from linspec.workers import Call, Engine, InProcess
    >>> engine: Engine = InProcess()
    >>> handles = engine.hold([np.array([1.0, 2.0]), np.array([3.0])])
    >>> calls = [Call(i, (handle,)) for i, handle in enumerate(handles)]
    >>> float(engine.reduce(lambda number, x: x.sum(), calls, lambda number, *sums: sum(sums)))
    6.0
    """

    round_seconds: float = 0.0
    call_seconds: float = 0.0
    workers: int = 1

    @abstractmethod
    def hold(self, values: Sequence[Any]) -> list[Handle]:
        """Take over values of this process, and return their handles.

        Parameters
        ----------
        values : sequence
            NumPy arrays, SciPy sparse matrices, or objects that can be pickled.

        Returns
        -------
        list of handles
            One for each value, of any type.
        """

    @abstractmethod
    def map(self, work: Work, calls: Sequence[Call]) -> list[Handle]:
        """Compute ``work(call.number, *values)`` for each call and the values of its handles; return result handles.

        Parameters
        ----------
        work : callable
            The function may be large: an engine sends it once, not with every call. It must not modify the values.
        calls : sequence of Call
            Calls are independent of each other. A call is repeated if its result is lost.

        Returns
        -------
        list of handles
        """

    @abstractmethod
    def fetch(self, handles: Sequence[Handle]) -> list[Any]:
        """The values behind handles, in this process.

        Parameters
        ----------
        handles : sequence of handles

        Returns
        -------
        list

        Raises
        ------
        DataLost
            Values are lost and cannot be computed again.
        """

    def keep(self, work: Work, calls: Sequence[Call]) -> list[Handle]:
        """Like `map`, for results that later calls use: the engine must store them rather than recompute them."""
        return self.map(work, calls)

    def joins(self, other: Engine) -> bool:
        """Whether one call may take handles of both engines."""
        return other is self

    def release(self, handles: Sequence[Handle]) -> None:  # noqa: B027 (most engines free values without references)
        """Release handles that will not be used again; calls that use them may still be pending."""

    def fetch_once(self, handles: Sequence[Handle]) -> list[Any]:
        """Fetch the values behind handles, and release the handles."""
        try:
            return self.fetch(handles)
        finally:
            self.release(handles)

    def reduce(self, work: Work, calls: Sequence[Call], merge: Work) -> Any:
        """Compute the results of all calls, and merge neighbouring results by a fixed tree.

        Parameters
        ----------
        work : callable
            As for `map`.
        calls : sequence of Call
            At least one.
        merge : callable
            ``merge(number, *results)`` merges 2 to `FAN` neighbouring results, in their order. The number is the
            position of this group among the groups that are merged at the same level of the tree.

        Returns
        -------
        result
            The merged result, in this process.

        Raises
        ------
        DataLost
            As for `fetch`.
        """
        level = self.map(work, calls)
        while len(level) > 1:
            groups = [tuple(level[i : i + FAN]) for i in range(0, len(level), FAN)]
            wide = [group for group in groups if len(group) > 1]
            merged = iter(self.map(merge, [Call(i, group) for i, group in enumerate(wide)]))
            level = [next(merged) if len(group) > 1 else group[0] for group in groups]
            self.release([handle for group in wide for handle in group])
        return self.fetch_once(level)[0]


class InProcess(Engine):
    """Engine of this process, where a handle is the value itself and several threads run the calls.

    Examples
    --------
    >>> import numpy as np
    >>> from linspec.workers import Call, InProcess
    >>> engine, block = InProcess(), np.ones((3, 2))
    >>> (handle,) = engine.hold([block])
    >>> handle is block, engine.fetch(engine.map(lambda number, rows: rows.shape, [Call(0, (handle,))]))
    (True, [(3, 2)])
    """

    def hold(self, values: Sequence[Any]) -> list[Handle]:
        return list(values)

    def map(self, work: Work, calls: Sequence[Call]) -> list[Handle]:
        return machine.map_parallel(lambda call: self._done(work, call), calls)

    def fetch(self, handles: Sequence[Handle]) -> list[Any]:
        return [self.taken(handle) for handle in handles]

    def taken(self, handle: Handle) -> Any:
        """The value behind a handle; here the handle itself."""
        return handle

    def joins(self, other: Engine) -> bool:
        return type(other) is type(self)

    def _done(self, work: Work, call: Call) -> Any:
        pause()
        return work(call.number, *(self.taken(handle) for handle in call.handles))
