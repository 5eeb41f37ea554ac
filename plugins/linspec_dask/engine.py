"""Blocks on the workers of dask.distributed.

Problem: a scheduler sees tasks, not sweeps. It moves blocks between workers as it decides, and the state that it must
remember grows with every sweep.
Method: blocks are bound to the worker that has them, and every task of a sweep to the worker of its first block; if
that worker is gone, any other may make it again. Each sweep is a fresh graph of a few tasks for each run of blocks,
whose results are merged on the workers and released when the sum has arrived here. Large data that all tasks of a
sweep share are a task of their own, which the scheduler can make again, and go to each worker once.
Source: `dask.distributed`, `Client.submit` with `workers` and `allow_other_workers`.
Where we differ from the graphs of `dask.array`: the order of sums is fixed by the numbers of the blocks, so that one
worker, two, and a worker that replaces another give the same bits.
"""

from __future__ import annotations

import asyncio
import os
import platform
import sys
import time
import weakref
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import dask
import threadpoolctl
from dask.delayed import Delayed

from linspec.errors import ClusterLost, DataLost, InvalidProblem, LinspecError, PerformanceWarning, warn
from linspec.process import pause
from linspec.rows import OutOfPasses
from linspec.workers import Call, Engine
from linspec_dask.waiting import SECONDS, Watch, as_ours, awaited, check

ANSWER_SECONDS = 60.0
"""Time limit for answers of the scheduler that do not wait for work."""

SMALL_TRIM = 1 << 24
"""Bytes. If MALLOC_TRIM_THRESHOLD_ of a worker is smaller, a warning is given: malloc then returns the freed memory of
a block to the system after each task, and the next task must request it again."""

LARGE_GRAPHS = {"distributed.admin.large-graph-warning-threshold": "1TB"}
"""The setting of dask without its warning of large graphs: large values are sent with tasks on purpose."""

ROUND_SECONDS, CALL_SECONDS = 0.02, 0.002
"""Overhead in seconds of one reduction over all blocks, and of each task that the reduction sends to a worker.

The program `git show 44a5d4f:asv_bench/measure_round.py` measures both.
"""


@dataclass(frozen=True, eq=False)
class Held:
    """A future, and the address of its worker.

    Attributes
    ----------
    number : int or None
        The number of the block, if the future holds a block or was computed from a single block. None if the future was
        computed from several blocks, or from none.
    given : Future or None
        The future of the user from which it was computed. linspec does not know how that one was computed: if its value
        is lost, and dask cannot repeat its task, DataLost is raised.
    """

    future: Any
    place: str | None
    number: int | None = None
    given: Any = None


def current_client() -> Any:
    """Return the client of this process, or None.

    dask.distributed is not imported here: without an import elsewhere there is no client.
    """
    distributed = sys.modules.get("distributed")
    if distributed is None:
        return None
    try:
        return distributed.get_client()
    except ValueError:
        return None


_ENGINES: weakref.WeakKeyDictionary[Any, DaskEngine] = weakref.WeakKeyDictionary()


def engine_of(client: Any) -> DaskEngine:
    """Return the engine of a client, always the same one."""
    if client not in _ENGINES:
        _ENGINES[client] = DaskEngine(client)
    return _ENGINES[client]


class DaskEngine(Engine):
    """The workers of a client.

    Parameters
    ----------
    client : distributed.Client
        A client that is not asynchronous.

    Raises
    ------
    InvalidProblem
        The client is asynchronous, or the workers lack linspec.
    ClusterLost
        The client was closed, or has no scheduler.
    """

    round_seconds, call_seconds = ROUND_SECONDS, CALL_SECONDS

    def __init__(self, client: Any) -> None:
        if client.asynchronous:
            raise InvalidProblem(
                "linspec needs a client that waits for results; got an asynchronous one. Make it without "
                "asynchronous=True."
            )
        self.client = weakref.proxy(client)  # the table of engines must not keep it alive
        self._blocks: weakref.WeakSet[Held] = weakref.WeakSet()
        self._parallel, self._said = 1, False
        self._workers()

    # ---- an engine --------------------------------------------------------------------------------

    @property
    def workers(self) -> int:
        """The number of calls that can run at the same time: the number of threads of all workers together.

        It is counted when the engine is made, and again each time that blocks are placed.
        """
        return self._parallel

    def hold(self, values: Sequence[Any]) -> list[Held]:
        with self._reached(), dask.config.set(LARGE_GRAPHS):
            return [Held(self.client.submit(_itself, value, pure=False), None) for value in values]

    def map(self, work: Any, calls: Sequence[Call]) -> list[Held]:
        if not calls:
            return []
        (shared,) = self.hold([work])
        found = []
        with self._reached():
            submit = self.client.submit
            for call in calls:
                first: Held = call.handles[0]
                where = {} if first.place is None else {"workers": [first.place], "allow_other_workers": True}
                futures = [handle.future for handle in call.handles]
                future = submit(_called, shared.future, call.number, *futures, pure=False, **where)
                number = first.number if len(call.handles) == 1 else None
                found.append(self._known_by(Held(future, first.place, number, first.given)))
            shared.future.release()
        return found

    def release(self, handles: Sequence[Held]) -> None:
        """Release futures at once, not only when Python collects them."""
        for handle in handles:
            handle.future.release()

    def fetch(self, handles: Sequence[Held]) -> list[Any]:
        futures = [handle.future for handle in handles]
        with self._reached():
            return list(awaited(self.client, lambda: self.client.gather(futures)))

    def together(self, first: Sequence[Held], second: Sequence[Held]) -> list[Held]:
        """Return handles of the values `second`, the i-th on the worker of the i-th value of `first`.

        The i-th value of `second` is copied to the worker of the i-th value of `first`. If both values are on one
        worker already, or if the worker of the i-th value of `first` is not known, the i-th value of `second` is not
        copied, and its handle is returned unchanged.
        """
        found = []
        with self._reached():
            for stays, comes in zip(first, second, strict=True):
                if stays.place is None or stays.place == comes.place:
                    found.append(comes)
                    continue
                future = self.client.submit(
                    _itself, comes.future, pure=False, workers=[stays.place], allow_other_workers=True
                )
                found.append(self._known_by(Held(future, stays.place, comes.number, comes.given)))
        return found

    # ---- where blocks are -------------------------------------------------------------------------

    def placed(self, blocks: Sequence[Any]) -> list[Held]:
        """Return handles of delayed blocks or futures.

        The blocks are divided, in their order, into as many contiguous ranges of about equal length as there are
        workers. Worker i computes and holds the blocks of range i, so that the same rows of two matrices are on one
        worker. Blocks that a worker has already stay on that worker. If there are no workers yet, because the cluster
        starts workers only for tasks, dask chooses the workers of the blocks.

        Parameters
        ----------
        blocks : sequence of Delayed or Future
        """
        workers, given = self._workers(), dict[int, Any]()
        with self._reached():
            for number, block in enumerate(blocks):
                if not isinstance(block, Delayed):
                    given[number] = block
                elif block.key in self.client.futures:  # its computation has been requested already
                    given[number] = self.client.compute(block)
        known = self._done(given, given=True)
        missing = [j for j, block in enumerate(blocks) if block.key not in known]
        if missing and not workers:
            with self._reached():
                made = self.client.compute([blocks[j] for j in missing])
            known |= self._done(dict(zip(missing, made, strict=True)))
            workers = self._workers()
        self._warn_of_settings()
        found: list[Held | None] = [known.get(block.key) for block in blocks]
        with self._reached():
            for i, address in enumerate(workers):
                stretch = range(
                    -(-len(blocks) * i // len(workers)), -(-len(blocks) * (i + 1) // len(workers))
                )
                missing = [j for j in stretch if found[j] is None]
                made = self.client.compute(
                    [blocks[j] for j in missing], workers=[address], allow_other_workers=True
                )
                for j, future in zip(missing, made, strict=True):
                    found[j] = Held(future, address, number=j)
        return [self._known_by(held) for held in found if held is not None]

    def _done(self, futures: Mapping[int, Any], *, given: bool = False) -> dict[Any, Held]:
        """Wait until futures, by the numbers of their blocks, are done; return handles by their keys."""
        if not futures:
            return {}
        waited, known = list(futures.values()), dict[Any, Held]()
        self._until_done(waited)
        with self._reached():
            found = awaited(self.client, lambda: self.client.who_has(waited), ANSWER_SECONDS)
        for number, future in futures.items():
            place = next(iter(found.get(future.key, ())), None)
            known[future.key] = Held(future, place, number, future if given else None)
        return known

    def _known_by(self, held: Held) -> Held:
        """Return `held`; keep a weak reference to it, so that an error can name the block by its number."""
        if held.number is not None:
            self._blocks.add(held)
        return held

    def _workers(self) -> list[str]:
        """Return the addresses of the current workers."""
        with self._reached():
            found: dict[str, int] = awaited(self.client, self.client.nthreads, ANSWER_SECONDS)
        self._parallel = max(1, sum(found.values()))
        return sorted(found)

    # ---- waiting, and errors ----------------------------------------------------------------------

    def _until_done(self, futures: Sequence[Any]) -> None:
        """Wait until the work of all futures is done or has failed; no results are fetched."""
        watch, waits = Watch(self.client), 0.002
        while not all(future.done() for future in futures):
            pause()
            check(self.client)
            time.sleep(waits)
            waits = min(2 * waits, SECONDS)
            if waits == SECONDS:
                watch.look()

    @contextmanager
    def _reached(self) -> Iterator[None]:
        """Turn errors that occur inside this context into errors of linspec.

        An interrupt (KeyboardInterrupt) passes unchanged. Tasks are never cancelled, as a scheduler that must cancel
        tasks on which other tasks depend drops the connection. Tasks end when their futures are released.
        """
        try:
            check(self.client)
            yield
        except ReferenceError as error:
            raise ClusterLost(
                "the client of dask must be kept until the solve ends; got one that is gone. Make a new client and "
                "state the problem again."
            ) from error
        except (Exception, asyncio.CancelledError) as error:
            if isinstance(error, LinspecError | OutOfPasses):
                raise
            ours = self._lost_blocks() or as_ours(self.client, error, self._failed(error))
            if ours is error:
                raise
            raise ours from error

    def _lost_blocks(self) -> DataLost | None:
        if self.client.status != "running":
            return None
        known = [held for held in self._blocks if held.given is not None]
        lost = {str(held.number) for held in known if held.given.status in ("cancelled", "lost")}
        if not lost:
            return None
        return DataLost(
            f"blocks must be on a worker; block {', '.join(sorted(lost, key=int))} of those given as futures "
            "is gone with the worker that had it, and nothing says how to make it again. Make blocks with "
            "tasks, such as dask.delayed(load)(path) or client.submit(load, path), which dask repeats, "
            "instead of client.scatter; or scatter them again."
        )

    def _failed(self, error: BaseException) -> str:
        """Return the numbers of the blocks whose tasks raised `error`, as text: "block 2, 5 of the data".

        "" if no such block is known.
        """
        if self.client.status != "running":
            return ""
        numbers = set()
        for held in list(self._blocks):
            if held.number is not None and held.future.status == "error":
                caught = held.future.exception(timeout=ANSWER_SECONDS)
                if type(caught) is type(error) and str(caught) == str(error):
                    numbers.add(held.number)
        return f"block {', '.join(map(str, sorted(numbers)))} of the data" if numbers else ""

    def _warn_of_settings(self) -> None:
        """Warn once for each client of settings that make its workers slow."""
        if self._said:
            return
        self._said = True
        with self._reached():
            try:
                found = awaited(self.client, lambda: self.client.run(settings), ANSWER_SECONDS)
            except (OSError, ClusterLost):  # a worker that is shutting down
                check(self.client)
                return
        warn_of(found.values())


def _itself(value: Any) -> Any:
    return value


def _called(work: Any, number: int, *values: Any) -> Any:
    return work(number, *values)


def settings() -> tuple[str | None, int, tuple[str, int]]:
    """Return MALLOC_TRIM_THRESHOLD_ of this process on Linux, the threads of its BLAS, and its host and number."""
    trim = os.environ.get("MALLOC_TRIM_THRESHOLD_") if sys.platform == "linux" else None
    libraries = threadpoolctl.threadpool_info()
    threads = max((each["num_threads"] for each in libraries if each["user_api"] == "blas"), default=1)
    return trim, threads, (platform.node(), os.getpid())


def warn_of(found: Collection[tuple[str | None, int, tuple[str, int]]]) -> None:
    """Warn of settings that make workers slow, with the remedy."""
    small = [trim for trim, _, _ in found if trim and trim.isdigit() and int(trim) < SMALL_TRIM]
    if small:
        warn(
            f"workers give memory back to the system at every task (MALLOC_TRIM_THRESHOLD_={small[0]}, which the "
            "nanny of dask sets), so that sweeps may take twice as long. Before the workers start, set "
            "dask.config.set({'distributed.nanny.pre-spawn-environ.MALLOC_TRIM_THRESHOLD_': 268435456, "
            "'distributed.nanny.pre-spawn-environ.MALLOC_MMAP_THRESHOLD_': 67108864}).",
            PerformanceWarning,
        )
    here = platform.node(), os.getpid()
    threads = max((count for _, count, process in found if process != here), default=1)
    if threads > 1:
        warn(
            f"workers let the BLAS use {threads} threads, so that tasks of several workers on a machine wait for each "
            "other's cores. linspec holds it to one in its own tasks, but not in those that make the blocks. Before "
            "workers start, set OMP_NUM_THREADS=1, OPENBLAS_NUM_THREADS=1 and MKL_NUM_THREADS=1 where they run, as the "
            "nanny of dask does by itself.",
            PerformanceWarning,
        )
