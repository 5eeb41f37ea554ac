"""Waits for a cluster of dask, and the errors if it cannot go on.

Problem: a call of a client waits without end if the scheduler is gone, the client was closed or no worker is left; and
the errors that it raises are in the terms of dask.
Method: every request is a coroutine on the loop of the client. While it waits, linspec checks twice a second whether
the run should end and whether the client still has its scheduler, and looks every few seconds for tasks that no worker
takes. Every failure becomes one error of linspec.
Source: `dask.distributed`, whose calls return coroutines on the thread of their loop.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable
from concurrent.futures import CancelledError
from typing import Any

from linspec.errors import (
    ClusterLost,
    InvalidProblem,
    OutOfMemory,
    PerformanceWarning,
    warn,
)
from linspec.process import pause

SECONDS = 0.5
"""Interval at which a wait checks whether the run should end."""

UNTIL_FREED = 6
"""Every UNTIL_FREED-th call of `Watch.look` calls `freed` on the scheduler, if the last call has been answered."""

PATIENCE = 5.0
"""Seconds without workers after which a warning is given."""

SILENCE = 30.0
"""Seconds without an answer of the scheduler after which a warning is given."""


def started(client: Any, begin: Callable[[], Any]) -> Any:
    """Start a request to the cluster.

    Parameters
    ----------
    client : distributed.Client
    begin : callable
        Takes no arguments, makes the request by a call of the client, and returns the awaitable that this call returns.
        It is called on the thread of the client's event loop, as the client's methods return awaitables only there.

    Returns
    -------
    concurrent.futures.Future
        Its result is a pair: (the result of the request, None), or (None, the error of the request).
    """

    async def outcome() -> tuple[Any, BaseException | None]:
        try:
            return await begin(), None
        except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001  (a future would lose the cause of the error)
            return None, error

    return asyncio.run_coroutine_threadsafe(outcome(), client.loop.asyncio_loop)


def awaited(client: Any, begin: Callable[[], Any], limit: float = math.inf) -> Any:
    """Wait for the result of a request to the cluster; an interrupt or a time limit can end the wait.

    Parameters
    ----------
    client, begin
        As for `started`.
    limit : float
        Time limit in seconds; by default there is none. It is for requests that the scheduler answers at once. A
        request whose result the workers must compute needs no limit.

    Raises
    ------
    ClusterLost
        The client has lost its scheduler, or there was no answer within the limit.
    """
    check(client)
    request, watch, began = started(client, begin), Watch(client), time.monotonic()
    try:
        while not request.done():
            pause()
            try:
                request.result(timeout=SECONDS)
            except TimeoutError:
                check(client)
                watch.look()
            if time.monotonic() - began > limit and not request.done():
                raise ClusterLost(
                    f"the scheduler of dask at {address(client)} must answer; got no answer within {limit:g} s. See "
                    "whether it runs and is not busy with other work, and call again."
                )
        result, error = request.result()
    finally:
        request.cancel()  # no effect on a finished request
    if error is not None:
        raise error
    return result


def check(client: Any) -> None:
    """Raise if a client has lost its scheduler.

    Raises
    ------
    ClusterLost
        The client was closed, or its scheduler cannot be reached.
    """
    status = client.status
    if status in ("closing", "closed"):
        raise ClusterLost(
            "the client of dask must stay open until the solve ends; got one that is closed, by close(), or because "
            "its scheduler was gone. Make a new client and state the problem again."
        )
    if status != "running":
        raise ClusterLost(_lost(client))


def address(client: Any) -> str:
    """Return the address of the scheduler."""
    return str(getattr(client.scheduler, "address", "an unknown address"))


def _lost(client: Any) -> str:
    return (
        f"the scheduler of dask at {address(client)} must be reachable; got a connection that broke. What the workers "
        "held is gone with it. Start a cluster, make a new client and state the problem again; a solve with "
        "checkpoint= goes on from its file by start=."
    )


class Watch:
    """Observer of a cluster during a wait; it warns once of each reason why the wait may take long.

    Parameters
    ----------
    client : distributed.Client
    """

    def __init__(self, client: Any) -> None:
        self._client = client
        self._looks = 0
        self._probe: Any = None
        self._asked = 0.0
        self._alone: float | None = None
        self._said: set[str] = set()

    def look(self) -> None:
        """Warn if there have been no workers for PATIENCE seconds, or if the scheduler is silent for SILENCE seconds.

        The number of workers is the answer of `freed`. Some calls of `look` start `freed` on the scheduler, and do not
        wait for its answer; a later call of `look` reads the answer.
        """
        self._looks += 1
        now = time.monotonic()
        if self._probe is not None and self._probe.done():
            workers, error = self._probe.result()
            if error is None:  # otherwise the scheduler lacks linspec
                self._alone = None if workers else self._alone or self._asked
            self._probe = None
        if self._probe is None and self._looks % UNTIL_FREED == 2:
            client = self._client
            self._probe, self._asked = started(client, lambda: client.run_on_scheduler(freed)), now
        if self._alone is not None and now - self._alone > PATIENCE:
            self._say(
                "the cluster of dask has no workers, and linspec waits for some. Start workers, or end the wait by "
                "Ctrl-C; max_seconds ends it within a solve, not while the problem is stated."
            )
        if self._probe is not None and now - self._asked > SILENCE:
            self._say(
                f"the scheduler of dask at {address(self._client)} has not answered for {SILENCE:g} s, and linspec "
                "waits. See whether it runs; max_seconds or Ctrl-C end the solve."
            )

    def _say(self, message: str) -> None:
        if message not in self._said:
            self._said.add(message)
            warn(message, PerformanceWarning)


def freed(dask_scheduler: Any = None) -> int:
    """Let any worker take the tasks whose own worker is gone; return the number of workers. Runs on the scheduler.

    The tasks allow other workers already. But if there was no worker at all for a moment, as when the only one is
    restarted, the scheduler waits for that very worker.
    """
    stuck = [
        task
        for task in dask_scheduler.unrunnable
        if task.loose_restrictions and task.worker_restrictions and not dask_scheduler.valid_workers(task)
    ]
    if dask_scheduler.running:
        for task in stuck:
            task.worker_restrictions = None
        dask_scheduler.transitions({task.key: "processing" for task in stuck}, f"linspec-{id(stuck)}")
    return len(dask_scheduler.workers)


def as_ours(client: Any, error: BaseException, where: str) -> BaseException:
    """Translate an error of the cluster into one of linspec.

    Parameters
    ----------
    client : distributed.Client
    error : BaseException
    where : str
        The blocks whose computation has failed, such as "block 3 of the data"; "" for other errors.

    Returns
    -------
    BaseException
        The error itself if there is no translation.
    """
    text = " ".join(f"{type(error).__name__}: {error}".split())
    if isinstance(error, MemoryError):
        return OutOfMemory(
            f"a worker must have memory for {where or 'its share of a pass'}; got {text}. Give workers more memory, or "
            "make the blocks smaller."
        )
    if type(error).__name__ == "KilledWorker":
        return ClusterLost(
            f"workers must outlive their work; got workers that died of {where or 'the same piece of work'} again and "
            f"again: {text} Mostly they run out of memory: give them more, or make the blocks smaller."
        )
    if "No module named" in _all(error) and not where:
        return InvalidProblem(
            "the scheduler and the workers of dask must have linspec and the packages of this process; got "
            f"{_all(error)}. Install the same environment there."
        )
    if where:
        return InvalidProblem(
            f"{where} must come out of what makes it; got {text}. Mend that, or leave it out."
        )
    if client.status != "running" or "scheduler-connection-lost" in text:
        return ClusterLost(_lost(client))
    if isinstance(error, (CancelledError, asyncio.CancelledError)):
        return ClusterLost(
            f"blocks must stay on the cluster until the solve ends; got {text} Somebody has cancelled them or started "
            "the cluster again. State the problem again."
        )
    return error


def _all(error: BaseException | None) -> str:
    """Return an error and its causes in one line."""
    found = []
    while error is not None:
        found.append(f"{type(error).__name__}: {error}")
        error = error.__cause__
    return " ".join(" from ".join(found).split())
