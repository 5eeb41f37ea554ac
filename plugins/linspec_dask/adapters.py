"""Arrays, frames and lists of blocks of dask as operators whose blocks stay on their workers.

Problem: data of dask are recipes, one for each block. A method sweeps them many times, but should compute each block
only once and not move it.
Method: the blocks are computed once and held by the workers of the current client, the same rows of every matrix by
the same worker. Without a client the blocks are computed in this process and held, if they take little of its memory;
otherwise they are computed anew at every sweep.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from linspec.arrays import HOST
from linspec.errors import InvalidProblem
from linspec.workers import BlockOperator, Engine, InProcess
from linspec_dask.engine import DaskEngine, current_client, engine_of
from linspec_dask.here import Recomputed, computed, taken

HELD_SHARE = 1 / 4
"""If there is no client: largest share of the free memory of this process that blocks may take to be held in it."""


def of_array(data: Any) -> BlockOperator:
    """Make the operator of a dask array.

    Parameters
    ----------
    data : dask.array.Array of shape (n, p) or (n,)
        Chunked along the rows; chunks along the columns are joined. Chunks are NumPy arrays or SciPy sparse matrices.

    Raises
    ------
    InvalidProblem
        The array does not have one or two dimensions, or its columns are in several chunks whose sizes are unknown.
    """
    return _operator(*blocks_of_array(data))


def of_frame(data: Any) -> BlockOperator:
    """Make the operator of a dask data frame or series; its partitions are the blocks."""
    return _operator(*blocks_of_others(data))


def of_list(data: list[Any]) -> BlockOperator:
    """Make the operator of a list of delayed blocks or futures, in the order of the rows."""
    return _operator(*blocks_of_others(data))


def blocks_of_array(data: Any) -> tuple[Engine, list[Any]]:
    """Return the engine that holds the chunks of an array, and their handles; argument and errors as for `of_array`."""
    if data.ndim not in (1, 2):
        raise InvalidProblem(
            f"data must have two dimensions; got {data.ndim} with shape {data.shape}. Reshape the array."
        )
    if data.ndim == 2 and data.numblocks[1] > 1:
        if any(math.isnan(size) for size in data.chunks[1]):
            raise InvalidProblem(
                "data must have all columns of a row in one chunk, and the sizes of its chunks are not known; got "
                f"{data.numblocks[1]} chunks of columns. Call compute_chunk_sizes() and rechunk({{1: -1}}) first."
            )
        data = data.rechunk({1: -1})
    return _held(list(data.to_delayed().ravel()), _bytes_of(data))


def blocks_of_others(data: Any) -> tuple[Engine, list[Any]]:
    """Return the engine that holds the partitions of a frame or series, or the blocks of a list, and their handles."""
    return _held(list(data if isinstance(data, list) else data.to_delayed()), math.nan)


def _bytes_of(data: Any) -> float:
    """Return the bytes of all chunks; NaN if sizes are unknown, or chunks may be sparse or hold Python objects."""
    known = isinstance(data._meta, np.ndarray) and not data.dtype.hasobject
    return float(data.nbytes) if known else math.nan


def _operator(engine: Engine, handles: list[Any]) -> BlockOperator:
    return BlockOperator(handles, engine, given_back=as_array)


def as_array(A: BlockOperator) -> Any:
    """Return dense rows in blocks as a dask array, whose chunks stay on the workers of the blocks.

    Returns
    -------
    dask.array.Array of shape (n, p)
    """
    import dask
    import dask.array

    chunks = []
    for handle, height in zip(A.handles, A.layout, strict=True):
        there = handle.future if isinstance(A.engine, DaskEngine) else handle
        delayed = dask.delayed(taken, pure=False)(there)
        chunks.append(dask.array.from_delayed(delayed, (height, A.shape[1]), A.dtype))
    return dask.array.concatenate(chunks)


def _held(blocks: list[Any], size: float) -> tuple[Engine, list[Any]]:
    if not blocks:
        raise InvalidProblem("data must have rows; got no blocks. Pass at least one.")
    client = current_client()
    if client is not None:
        engine = engine_of(client)
        return engine, engine.placed(blocks)
    if size > HELD_SHARE * HOST.free_memory():
        return Recomputed(), blocks
    return InProcess(), computed(blocks)


# ---- for the conformance kit -------------------------------------------------------------------


def sample_array() -> Any:
    """Make an array in three chunks."""
    import dask.array

    return dask.array.from_array(np.random.default_rng(0).standard_normal((30, 6)), chunks=(11, 6))


def sample_frame() -> Any:
    """Make a frame in two partitions."""
    import dask.dataframe
    import pandas as pd

    rows = np.random.default_rng(0).standard_normal((30, 4))
    return dask.dataframe.from_pandas(pd.DataFrame(rows, columns=list("abcd")), npartitions=2)


def sample_list() -> Any:
    """Make two delayed blocks of different heights."""
    import dask

    rows = np.random.default_rng(0).standard_normal((30, 5))
    return [dask.delayed(rows[:12]), dask.delayed(rows[12:])]
