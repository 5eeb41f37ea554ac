"""Blocks on the workers of dask.distributed.

Problem: a scheduler sees tasks, not sweeps. It moves blocks between workers as it thinks best, and what it is asked to
remember grows with every sweep.
Method: blocks are bound to the worker that has them, and every task of a sweep to the worker of its first block; where
that worker is gone, any other may make it again. Each sweep is a fresh graph of a few tasks for each run of blocks,
whose results are merged on the workers and forgotten when the sum is here. What is large and common to all tasks of a
sweep is a task of its own, which the scheduler can make again, and goes to each worker once.
Source: `dask.distributed`, `Client.submit` with `workers` and `allow_other_workers`.
Where we differ from the graphs of `dask.array`: the order of sums is fixed by the numbers of the blocks, so that one
worker, two, and a worker that replaces another give the same bits.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

import dask
from dask.delayed import Delayed

from linspec.blocks import Call, Engine
from linspec.errors import DataLost, InvalidProblem, PerformanceWarning, warn
from linspec.pauses import pause

SECONDS = 0.5
"""How often one who waits looks whether the run is to end."""

UNTIL_FREED = 6
"""How often one who waits looks before the scheduler is asked for tasks that no worker takes."""

SMALL_TRIM = 1 << 24
"""Bytes of MALLOC_TRIM_THRESHOLD_ below which memory of the size of a block goes back to the system at each task."""


ROUND_SECONDS, CALL_SECONDS = 0.02, 0.002
"""What a reduction takes beside its work, and each of its calls, on one machine: `asv_bench/measure_round.py`."""


@dataclass(frozen=True, eq=False)
class Given:
    """A future that the user has made: nobody here can make it again."""

    number: int
    future: Any


@dataclass(frozen=True, eq=False)
class Held:
    """A future, the worker that has it or is to have it, and what it was made of."""

    future: Any
    place: str | None
    given: Given | None = None


def current_client() -> Any:
    """The client of this process, or None.

    Nothing of dask.distributed is loaded where nobody else has.
    """
    import sys

    distributed = sys.modules.get("distributed")
    if distributed is None:
        return None
    try:
        return distributed.get_client()
    except ValueError:
        return None


_ENGINES: weakref.WeakKeyDictionary[Any, DaskEngine] = weakref.WeakKeyDictionary()


def engine_of(client: Any) -> DaskEngine:
    """The engine of a client, always the same one."""
    if client not in _ENGINES:
        _ENGINES[client] = DaskEngine(client)
    return _ENGINES[client]


class DaskEngine(Engine):
    """The workers of a client.

    Parameters
    ----------
    client : distributed.Client
        It has workers, and does not wait for its results asynchronously.

    Raises
    ------
    InvalidProblem
        The client has no workers, or is asynchronous.
    """

    round_seconds, call_seconds = ROUND_SECONDS, CALL_SECONDS

    def __init__(self, client: Any) -> None:
        if client.asynchronous:
            raise InvalidProblem(
                "linspec needs a client that waits for results; got an asynchronous one. Make it without "
                "asynchronous=True."
            )
        self.client = weakref.proxy(client)  # the table of engines is not to keep it
        self._given: weakref.WeakSet[Given] = weakref.WeakSet()
        self._workers()
        self._warn_of_settings()

    # ---- an engine --------------------------------------------------------------------------------

    @property
    def workers(self) -> int:
        """The threads of all workers: each takes a call at a time."""
        threads: int = sum(self.client.nthreads().values())
        return max(1, threads)

    def hold(self, values: Sequence[Any]) -> list[Held]:
        with _large_graphs():
            return [Held(self.client.submit(_itself, value, pure=False), None) for value in values]

    def map(self, work: Any, calls: Sequence[Call]) -> list[Held]:
        if not calls:
            return []
        (shared,) = self.hold([work])
        submit = self.client.submit
        found = []
        for call in calls:
            first: Held = call.handles[0]
            where = {} if first.place is None else {"workers": [first.place], "allow_other_workers": True}
            futures = [handle.future for handle in call.handles]
            future = submit(_called, shared.future, call.number, *futures, pure=False, **where)
            found.append(Held(future, first.place, first.given))
        shared.future.release()
        return found

    def release(self, handles: Sequence[Held]) -> None:
        """At once, and not when Python finds that nobody has the futures."""
        for handle in handles:
            handle.future.release()

    def fetch(self, handles: Sequence[Held]) -> list[Any]:
        futures = [handle.future for handle in handles]
        try:
            self._wait_for(futures)
            return list(self.client.gather(futures))
        except BaseException as error:
            lost = sorted(
                given.number for given in self._given if given.future.status in ("cancelled", "lost")
            )
            if lost and isinstance(error, Exception):
                raise DataLost(
                    f"blocks must be on a worker; block {', '.join(map(str, lost))} of those given as futures "
                    "is gone with the worker that had it, and nothing says how to make it again. Make blocks with "
                    "tasks, such as dask.delayed(load)(path) or client.submit(load, path), which dask repeats, "
                    "instead of client.scatter; or scatter them again."
                ) from error
            self.client.cancel(futures)
            raise

    def together(self, first: Sequence[Held], second: Sequence[Held]) -> list[Held]:
        """The second values beside the first: those that lie elsewhere are copied once."""
        found = []
        for stays, comes in zip(first, second, strict=True):
            if stays.place is None or stays.place == comes.place:
                found.append(comes)
                continue
            future = self.client.submit(
                _itself, comes.future, pure=False, workers=[stays.place], allow_other_workers=True
            )
            found.append(Held(future, stays.place, comes.given))
        return found

    # ---- where blocks are -------------------------------------------------------------------------

    def placed(self, blocks: Sequence[Any]) -> list[Held]:
        """Handles of delayed blocks or futures.

        Blocks that a worker has stay there. Others go to the workers in as many stretches as there are workers, so that
        the same rows of two matrices meet.

        Parameters
        ----------
        blocks : sequence of Delayed or Future
        """
        workers, known = self._workers(), self._known(blocks)
        found: list[Held | None] = [known.get(_key(block)) for block in blocks]
        for i, address in enumerate(workers):
            stretch = range(-(-len(blocks) * i // len(workers)), -(-len(blocks) * (i + 1) // len(workers)))
            missing = [j for j in stretch if found[j] is None]
            made = self.client.compute(
                [blocks[j] for j in missing], workers=[address], allow_other_workers=True
            )
            for j, future in zip(missing, made, strict=True):
                found[j] = Held(future, address)
        return [held for held in found if held is not None]

    def _known(self, blocks: Sequence[Any]) -> dict[Any, Held]:
        """Blocks that are on a worker, or on their way to one."""
        futures = {}
        for number, block in enumerate(blocks):
            if not isinstance(block, Delayed):
                futures[block.key] = Given(number, block)
            elif block.key in self.client.futures:
                futures[block.key] = Given(number, self.client.compute(block))
        if not futures:
            return {}
        self._wait_for([given.future for given in futures.values()])
        holders = self.client.who_has([given.future for given in futures.values()])
        self._given.update(futures.values())
        return {
            key: Held(given.future, next(iter(holders.get(key, ())), None), given)
            for key, given in futures.items()
        }

    def _workers(self) -> list[str]:
        workers = sorted(self.client.scheduler_info(n_workers=-1)["workers"])
        if not workers:
            raise InvalidProblem(
                "the current client of dask must have workers; got none. Start some, or wait for them: "
                "client.wait_for_workers(1)."
            )
        return workers

    # ---- waiting, and what goes wrong -------------------------------------------------------------

    def _wait_for(self, futures: Sequence[Any]) -> None:
        """Wait until all are done; the run may end meanwhile."""
        from distributed import wait

        for waited in count(1):
            pause()
            try:
                wait(futures, timeout=SECONDS)
            except TimeoutError:
                if waited % UNTIL_FREED == 0:
                    self.client.run_on_scheduler(_freed)
                continue
            return

    def _warn_of_settings(self) -> None:
        """Say once for a client what makes its workers slow."""
        trims = [text for text in self.client.run(_malloc_trim).values() if text is not None]
        small = [text for text in trims if text.isdigit() and int(text) < SMALL_TRIM]
        if small:
            warn(
                f"workers give memory back to the system at every task (MALLOC_TRIM_THRESHOLD_={small[0]}, which the "
                "nanny of dask sets), so that sweeps may take twice as long. Before the workers start, set "
                "dask.config.set({'distributed.nanny.pre-spawn-environ.MALLOC_TRIM_THRESHOLD_': 268435456, "
                "'distributed.nanny.pre-spawn-environ.MALLOC_MMAP_THRESHOLD_': 67108864}).",
                PerformanceWarning,
            )


def _key(block: Any) -> Any:
    return block.key


def _itself(value: Any) -> Any:
    return value


def _called(work: Any, number: int, *values: Any) -> Any:
    return work(number, *values)


def _freed(dask_scheduler: Any = None) -> int:
    """Let any worker take the tasks whose own worker is gone; how many there were. Runs on the scheduler.

    They may go elsewhere by what was asked of it. But where there was no worker at all for a moment, as when the only
    one is started again, the scheduler waits for that very worker.
    """
    stuck = [
        task
        for task in dask_scheduler.unrunnable
        if task.loose_restrictions and task.worker_restrictions and not dask_scheduler.valid_workers(task)
    ]
    if not dask_scheduler.running:
        return 0
    for task in stuck:
        task.worker_restrictions = None
    dask_scheduler.transitions({task.key: "processing" for task in stuck}, f"linspec-{id(stuck)}")
    return len(stuck)


def _malloc_trim() -> str | None:
    """The setting of a worker; None where it does not matter."""
    import os
    import sys

    return os.environ.get("MALLOC_TRIM_THRESHOLD_") if sys.platform == "linux" else None


def _large_graphs() -> Any:
    """What is sent with a task is meant to be."""
    return dask.config.set({"distributed.admin.large-graph-warning-threshold": "1TB"})
