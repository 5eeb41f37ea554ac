"""Arrays, frames and lists of blocks of dask as operators whose blocks stay on their workers.

Problem: data of dask are recipes, one for each block. A method sweeps them many times, but should compute each block
only once and not move it.
Method: the blocks are computed once and held by the workers of the current client, the same rows of every matrix by
the same worker. Without a client the blocks are computed in this process and held, if they take little of its memory;
otherwise they are computed anew at every sweep.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import dask.array
import numpy as np

from linspec.arrays import HOST
from linspec.errors import InvalidProblem
from linspec.workers import BlockOperator, Call, Engine, InProcess
from linspec_dask.engine import DaskEngine, current_client

HELD_SHARE = 1 / 4
"""If there is no client: largest share of the free memory of this process that blocks may take to be held in it."""


def adapted(data: Any) -> BlockOperator:
    """Make the operator of data of dask, whose chunks, partitions or delayed blocks are its blocks."""
    engine, handles = blocks_of(data)
    return BlockOperator(handles, engine, given_back=as_array)


def blocks_of(data: Any) -> tuple[Engine, list[Any]]:
    """Return the engine that holds the blocks of an array, a frame, a series or a list, and their handles.

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
    client = current_client()
    if client is not None:
        engine = DaskEngine(client)
        return engine, engine.placed(blocks)
    # Chunks may be sparse or hold Python objects, and sizes may be unknown; a comparison with NaN is false.
    known = is_array and isinstance(data._meta, np.ndarray) and not data.dtype.hasobject
    if known and data.nbytes > HELD_SHARE * HOST.free_memory():
        return Recomputed(), blocks
    return InProcess(), list(dask.compute(*blocks))


def as_array(A: BlockOperator) -> Any:
    """Return dense rows in blocks as a dask array, whose chunks stay on the workers of the blocks.

    Returns
    -------
    dask.array.Array of shape (n, p)
    """
    chunks = []
    for handle, height in zip(A.handles, A.layout, strict=True):
        there = handle.future if isinstance(A.engine, DaskEngine) else handle
        delayed = dask.delayed(taken, pure=False)(there)
        chunks.append(dask.array.from_delayed(delayed, (height, A.shape[1]), A.dtype))
    return dask.array.concatenate(chunks)


# ---- blocks that are computed anew ---------------------------------------------------------------


@dataclass(frozen=True)
class _Deferred:
    """A call that is made anew each time its result is needed."""

    work: Any
    call: Call


def taken(handle: Any) -> Any:
    """Return the value of a handle, computed now if it is deferred or delayed."""
    if isinstance(handle, _Deferred):
        return handle.work(handle.call.number, *map(taken, handle.call.handles))
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
