"""Arrays, frames and lists of blocks of dask as operators whose blocks stay where they are.

Problem: data of dask are recipes, one for each block. A method sweeps them many times, and is to read each block once
and to leave it where it is.
Method: the blocks are computed once and held by the workers of the current client, the same rows of every matrix by
the same worker. Without a client the blocks are computed in this process and held, where they take little of its
memory, and else computed anew at every sweep.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from linspec.arrays import HOST
from linspec.errors import InvalidProblem
from linspec.sweeps import BlockOperator, Engine, InProcess
from linspec_dask.engine import DaskEngine, current_client, engine_of
from linspec_dask.here import Recomputed, computed, taken

HELD_SHARE = 1 / 4
"""The share of the free memory of this process that blocks may take without a client."""


def of_array(data: Any) -> BlockOperator:
    """The operator of an array of dask.

    Parameters
    ----------
    data : dask.array.Array of shape (n, p) or (n,)
        Chunked along the rows; chunks along the columns are joined. Chunks are NumPy arrays or SciPy sparse matrices.

    Raises
    ------
    InvalidProblem
        It has more dimensions, or its columns lie in chunks of unknown sizes.
    """
    return _operator(*blocks_of_array(data))


def of_frame(data: Any) -> BlockOperator:
    """The operator of a data frame or a series of dask, by its partitions."""
    return _operator(*blocks_of_others(data))


def of_list(data: list[Any]) -> BlockOperator:
    """The operator of a list of delayed blocks or futures, in the order of the rows."""
    return _operator(*blocks_of_others(data))


def blocks_of_array(data: Any) -> tuple[Engine, list[Any]]:
    """Who has the chunks of an array, and the handles of these; parameters and errors as for `of_array`."""
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
    """Who has the partitions of a frame or a series, or the blocks of a list, and the handles of these."""
    return _held(list(data if isinstance(data, list) else data.to_delayed()), math.nan)


def _bytes_of(data: Any) -> float:
    """What the chunks take together; unknown where their sizes are, or where zeros may not be stored."""
    known = isinstance(data._meta, np.ndarray) and not data.dtype.hasobject
    return float(data.nbytes) if known else math.nan


def _operator(engine: Engine, handles: list[Any]) -> BlockOperator:
    return BlockOperator(handles, engine, given_back=as_array)


def as_array(A: BlockOperator) -> Any:
    """Dense rows in blocks as an array of dask, whose chunks stay where the blocks are.

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
    """An array in three chunks."""
    import dask.array

    return dask.array.from_array(np.random.default_rng(0).standard_normal((30, 6)), chunks=(11, 6))


def sample_frame() -> Any:
    """A frame in two partitions."""
    import dask.dataframe
    import pandas as pd

    rows = np.random.default_rng(0).standard_normal((30, 4))
    return dask.dataframe.from_pandas(pd.DataFrame(rows, columns=list("abcd")), npartitions=2)


def sample_list() -> Any:
    """Two blocks of different heights."""
    import dask

    rows = np.random.default_rng(0).standard_normal((30, 5))
    return [dask.delayed(rows[:12]), dask.delayed(rows[12:])]
