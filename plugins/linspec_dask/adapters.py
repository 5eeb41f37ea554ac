"""Arrays, frames and lists of blocks of dask as operators whose blocks stay on their workers.

Problem: data of dask are recipes, one for each block. A method passes over them many times, but should compute each
block only once and not move it.
Method: the blocks are computed once and held by the workers of the current client, the same rows of every matrix by
the same worker. Without a client the blocks are computed in this process and held, if they take little of its memory;
otherwise they are slices, which are computed anew in every pass.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial
from typing import Any

import dask.array
import numpy as np

from linspec.arrays import HOST
from linspec.errors import InvalidProblem
from linspec.operators import LinearOperator, StreamedOperator
from linspec.workers import BlockOperator, Engine, InProcess
from linspec_dask.engine import DaskEngine, _itself, current_client

HELD_SHARE = 1 / 4
"""If there is no client: largest share of the free memory of this process that blocks may take to be held in it."""


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
