"""Data of dask as operators whose blocks stay on the workers of dask.distributed.

Problem: data of dask are recipes, one for each block. A method passes over them many times, but should compute each
block only once and not move it. A scheduler sees tasks, not passes: it moves blocks between workers as it decides, and
the state that it must remember grows with every pass. A call of a client waits without end if the scheduler is gone or
the client was closed.
Method: the blocks are computed once and held by the workers of the current client, the same rows of every matrix by
the same worker. Without a client they are computed in this process and held, if they take little of its memory;
otherwise they are slices, which are computed anew in every pass.
Blocks are bound to the worker that has them, and every task of a pass to the worker of its first block; if that worker
is gone, any other may make it again. Each pass is a fresh graph of a few tasks for each run of blocks, whose results
are merged on the workers and released when the sum has arrived here. Large data that all tasks of a pass share are a
task of their own, which the scheduler can make again, and go to each worker once. Every request is a coroutine on the
loop of the client: while it waits, linspec looks twice a second whether the run should end and whether the client still
has its scheduler.
Source: `dask.distributed`, `Client.submit` with `workers` and `allow_other_workers`.
Where we differ from the graphs of `dask.array`: the order of sums is fixed by the numbers of the blocks, so that one
worker, two, and a worker that replaces another give the same bits.
"""

from __future__ import annotations

import asyncio
import math
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError, wait
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import dask
import dask.array
import numpy as np
from dask.delayed import Delayed

from linspec.arrays import HOST
from linspec.errors import ClusterLost, DataLost, InvalidProblem, LinspecError, OutOfMemory
from linspec.operators import LinearOperator, StreamedOperator
from linspec.process import pause
from linspec.rows import OutOfPasses
from linspec.workers import BlockOperator, Call, Engine, InProcess

SECONDS = 0.5
"""Interval at which a wait looks whether the run should end."""

LARGE_GRAPHS = {"distributed.admin.large-graph-warning-threshold": "1TB"}
"""The setting of dask without its warning of large graphs: large values are sent with tasks on purpose."""

ROUND_SECONDS, CALL_SECONDS = 0.02, 0.002
"""Overhead in seconds of one reduction over all blocks, and of each task that the reduction sends to a worker.

The program `git show 44a5d4f:asv_bench/measure_round.py` measures both.
"""

HELD_SHARE = 1 / 4
"""If there is no client: largest share of the free memory of this process that blocks may take to be held in it."""


@dataclass(frozen=True, eq=False)
class Held:
    """A future, and the address of its worker; None if any will do."""

    future: Any
    place: str | None

    @property
    def where(self) -> dict[str, Any]:
        """The words of `Client.submit` that bind a task to that worker."""
        return {} if self.place is None else {"workers": [self.place], "allow_other_workers": True}


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
        self.client = client
        self._addresses()

    def joins(self, other: Engine) -> bool:
        return isinstance(other, DaskEngine) and other.client is self.client

    def hold(self, values: Sequence[Any]) -> list[Held]:
        with self._reached(), dask.config.set(LARGE_GRAPHS):
            return [Held(self.client.submit(_itself, value, pure=False), None) for value in values]

    def map(self, work: Any, calls: Sequence[Call]) -> list[Held]:
        if not calls:
            return []
        (shared,) = self.hold([work])
        handles = []
        with self._reached():
            for call in calls:
                first: Held = call.handles[0]
                values = [handle.future for handle in call.handles]
                future = self.client.submit(
                    _called, shared.future, call.number, *values, pure=False, **first.where
                )
                handles.append(Held(future, first.place))
            shared.future.release()
        return handles

    def release(self, handles: Sequence[Held]) -> None:
        """Release futures at once, not only when Python collects them."""
        for handle in handles:
            handle.future.release()

    def fetch(self, handles: Sequence[Held]) -> list[Any]:
        futures = [handle.future for handle in handles]
        with self._reached():
            return list(self._awaited(lambda: self.client.gather(futures)))

    # ---- where blocks are -------------------------------------------------------------------------

    def placed(self, blocks: Sequence[Any]) -> list[Held]:
        """Return handles of delayed blocks or futures, once they are computed.

        The blocks are divided, in their order, into as many contiguous ranges of about equal length as there are
        workers. Worker i computes and holds the blocks of range i, so that the same rows of two matrices are on one
        worker. Blocks that a worker has already stay on that worker. If there are no workers yet, because the cluster
        starts workers only for tasks, dask chooses the workers of the blocks.

        Parameters
        ----------
        blocks : sequence of Delayed or Future
        """
        places: list[str | None] = [*self._addresses()] or [None]
        futures: list[Any] = []
        with self._reached():
            for i, place in enumerate(places):
                some = blocks[-(-len(blocks) * i // len(places)) : -(-len(blocks) * (i + 1) // len(places))]
                fresh = [block for block in some if isinstance(block, Delayed)]
                computed = iter(self.client.compute(fresh, **Held(None, place).where))
                futures += [next(computed) if isinstance(block, Delayed) else block for block in some]
            self._awaited(lambda: _done(futures))
            holders = self._awaited(lambda: self.client.who_has(futures))
        self._addresses()
        return [Held(future, next(iter(holders.get(future.key, ())), None)) for future in futures]

    def _addresses(self) -> list[str]:
        """Return the addresses of the current workers, and count their threads."""
        with self._reached():
            threads: dict[str, int] = self._awaited(self.client.nthreads)
        self.workers = max(1, sum(threads.values()))
        return sorted(threads)

    # ---- waiting, and errors ----------------------------------------------------------------------

    def _awaited(self, begin: Callable[[], Any]) -> Any:
        """Wait for the result of a request to the cluster; an interrupt or a time limit can end the wait.

        `begin` makes the request by a call of the client, on the thread of its loop, where such a call returns an
        awaitable.
        """
        check(self.client)
        request = self._requested(begin)
        try:
            while not wait([request], SECONDS).done:
                pause()
                check(self.client)
                self._requested(lambda: self.client.run_on_scheduler(freed))
            return request.result()
        finally:
            request.cancel()  # no effect on a finished request

    def _requested(self, begin: Callable[[], Any]) -> Any:
        async def outcome() -> Any:
            return await begin()

        return asyncio.run_coroutine_threadsafe(outcome(), self.client.loop.asyncio_loop)

    @contextmanager
    def _reached(self) -> Iterator[None]:
        """Turn errors that occur inside this context into errors of linspec.

        An interrupt (KeyboardInterrupt) passes unchanged. Tasks are never cancelled, as a scheduler that must cancel
        tasks on which other tasks depend drops the connection. Tasks end when their futures are released.
        """
        try:
            check(self.client)
            yield
        except (Exception, asyncio.CancelledError) as error:
            if isinstance(error, LinspecError | OutOfPasses):
                raise
            raise as_ours(self.client, error) from error


async def _done(futures: Sequence[Any]) -> None:
    """Wait until the work of all futures is done or has failed; no results are fetched."""
    while not all(future.done() for future in futures):
        await asyncio.sleep(0.01)


def _itself(value: Any) -> Any:
    return value


def _called(work: Any, number: int, *values: Any) -> Any:
    return work(number, *values)


def freed(dask_scheduler: Any = None) -> None:
    """Let any worker take the tasks whose own worker is gone. Runs on the scheduler.

    The tasks allow other workers already. But if there was no worker at all for a moment, as when all are restarted,
    the scheduler waits for those very workers.
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


def check(client: Any) -> None:
    """Raise if a client has lost its scheduler.

    Raises
    ------
    ClusterLost
        The client was closed, or its scheduler cannot be reached.
    """
    if client.status != "running":
        raise ClusterLost(
            "the scheduler of dask must be reachable, and its client must stay open until the solve ends; got a client "
            "that was closed, or whose connection broke. Start a cluster, make a new client and state the problem "
            "again; a solve with checkpoint= goes on from its file by start=."
        )


def as_ours(client: Any, error: BaseException) -> LinspecError:
    """Translate an error of the cluster, or of what a user has it do, into one of linspec."""
    text = " ".join(f"{type(error).__name__}: {error}".split())
    if isinstance(error, MemoryError):
        return OutOfMemory(
            f"a worker must have memory for a block and its share of a pass; got {text}. Give workers more memory, or "
            "make the blocks smaller."
        )
    killed = type(error).__name__ == "KilledWorker"
    if killed or client.status != "running" or "scheduler-connection-lost" in text:
        return ClusterLost(
            f"the scheduler and the workers of dask must be reachable; got {text} Start a cluster, make a new client "
            "and state the problem again. Most workers that died again and again ran out of memory: give them more, "
            "or make the blocks smaller."
        )
    if isinstance(error, (CancelledError, asyncio.CancelledError)):
        return DataLost(
            f"blocks must stay on the cluster until the solve ends; got {text} The worker that had them is gone, or "
            "somebody has cancelled them. Make blocks with tasks, such as dask.delayed(load)(path), which dask "
            "repeats, instead of client.scatter; or state the problem again."
        )
    return InvalidProblem(
        f"what the workers do must not fail; got {text}. Mend the block from which it comes; if a module is missing, "
        "install the same environment on the scheduler and the workers."
    )


# ---- data -----------------------------------------------------------------------------------------


def adapted(data: Any) -> LinearOperator:
    """Make the operator of data of dask, whose chunks, partitions or delayed blocks are its blocks."""
    client, blocks = current_client(), _parts(data)
    # Chunks may be sparse or hold Python objects, and sizes may be unknown; a comparison with NaN is false.
    known = isinstance(data, dask.array.Array) and isinstance(data._meta, np.ndarray)
    if client is None and known and data.nbytes > HELD_SHARE * HOST.free_memory():
        return StreamedOperator(partial(_computed, blocks))
    engine, handles = _held(client, blocks)
    return BlockOperator(handles, engine, given_back=as_array)


def _held(client: Any, blocks: list[Any]) -> tuple[Engine, list[Any]]:
    if client is None:
        return InProcess(), list(dask.compute(*blocks))
    engine = DaskEngine(client)
    return engine, engine.placed(blocks)


def _computed(blocks: list[Any]) -> Iterator[Any]:
    """Compute one block after the other."""
    for block in blocks:
        rows = block.compute()
        yield rows[:, None] if np.ndim(rows) == 1 else rows


def _parts(data: Any) -> list[Any]:
    """The delayed blocks of an array, a frame, a series or a list.

    Raises
    ------
    InvalidProblem
        There are no blocks, or an array does not have one or two dimensions, or its columns are in several chunks
        whose sizes are unknown.
    """
    is_array = isinstance(data, dask.array.Array)
    if is_array and data.ndim not in (1, 2):
        raise InvalidProblem(
            f"data must have two dimensions; got {data.ndim} with shape {data.shape}. Reshape the array."
        )
    if is_array and data.ndim == 2 and data.numblocks[1] > 1:
        if any(math.isnan(size) for size in data.chunks[1]):
            raise InvalidProblem(
                "data must have all columns of a row in one chunk, and the sizes of its chunks are not known; got "
                f"{data.numblocks[1]} chunks of columns. Call compute_chunk_sizes() and rechunk({{1: -1}}) first."
            )
        data = data.rechunk({1: -1})
    parts: Any = data if isinstance(data, list) else data.to_delayed()
    blocks = list(parts.ravel() if is_array else parts)
    if not blocks:
        raise InvalidProblem("data must have rows; got no blocks. Pass at least one.")
    return blocks


def as_array(A: BlockOperator) -> Any:
    """Return dense rows in blocks as a dask array, whose chunks stay on the workers of the blocks.

    Returns
    -------
    dask.array.Array of shape (n, p)
    """
    chunks = []
    for handle, height in zip(A.handles, A.layout, strict=True):
        there = handle.future if isinstance(A.engine, DaskEngine) else handle
        delayed = dask.delayed(_itself, pure=False)(there)
        chunks.append(dask.array.from_delayed(delayed, (height, A.shape[1]), A.dtype))
    return dask.array.concatenate(chunks)


# ---- for the conformance kit -------------------------------------------------------------------


def sample_array() -> Any:
    """Make an array in three chunks."""
    return dask.array.from_array(np.random.default_rng(0).standard_normal((30, 6)), chunks=(11, 6))


def sample_frame() -> Any:
    """Make a frame in two partitions."""
    import dask.dataframe
    import pandas as pd

    rows = np.random.default_rng(0).standard_normal((30, 4))
    return dask.dataframe.from_pandas(pd.DataFrame(rows, columns=list("abcd")), npartitions=2)


def sample_list() -> Any:
    """Make two delayed blocks of different heights."""
    rows = np.random.default_rng(0).standard_normal((30, 5))
    return [dask.delayed(rows[:12]), dask.delayed(rows[12:])]
