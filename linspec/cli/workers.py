"""`--workers`: the rows of a problem on processes of this machine, one thread each.

Problem: several processes should read and multiply the rows of files, as on a cluster, from the command line.
Method: a local dask cluster, which holds the rows of each matrix in blocks. Rows of a `.npy` file are read by the
worker that keeps them; others are read here and sent once. The number of blocks depends only on the number of rows, so
that the answer has the same bits with any number of workers.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np

from linspec.cli.columns import NamedMatrix
from linspec.cli.failures import Failure

ROWS, BLOCKS = 256, 64
"""Least number of rows in a block, and largest number of blocks."""

SETTINGS = {
    # Keep memory of the size of a block for the next task: the default returns it to the system after every task.
    "distributed.nanny.pre-spawn-environ.MALLOC_TRIM_THRESHOLD_": 268435456,
    "distributed.nanny.pre-spawn-environ.MALLOC_MMAP_THRESHOLD_": 67108864,
    "distributed.admin.low-level-log-length": 10,  # messages that dask keeps for its developers keep their data alive
    "distributed.admin.large-graph-warning-threshold": "1TB",  # rows that were read here are sent with their tasks
}


@contextmanager
def on_workers(
    count: int | None, matrices: Mapping[str, NamedMatrix], kept: Collection[str] = ()
) -> Iterator[dict[str, NamedMatrix]]:
    """Put the rows of matrices on workers while the block runs; yield the new matrices.

    Parameters
    ----------
    count : int or None
        The number of workers; None leaves all matrices in this process.
    matrices : mapping from str to NamedMatrix
    kept : collection of str
        The names of matrices that stay in this process: labels.

    Raises
    ------
    Failure
        dask is not installed.
    """
    if count is None:
        yield dict(matrices)
        return
    if importlib.util.find_spec("distributed") is None:
        raise Failure("--workers needs dask: pip install 'linspec[dask]'.")
    import dask
    from distributed import Client, LocalCluster

    with (
        dask.config.set(SETTINGS),
        LocalCluster(
            n_workers=count, threads_per_worker=1, dashboard_address=":0", silence_logs=50
        ) as cluster,
        Client(cluster),
    ):
        yield {name: m if name in kept else _placed(name, m) for name, m in matrices.items()}


def _placed(name: str, matrix: NamedMatrix) -> NamedMatrix:
    """Return a matrix of numbers as blocks on the workers; anything else unchanged."""
    import dask

    from linspec.operators import as_operator

    values = matrix.values
    if matrix.is_text or getattr(values, "ndim", 0) != 2 or not hasattr(values, "dtype"):
        return matrix
    count = max(1, min(BLOCKS, values.shape[0] // ROWS))
    cuts = np.linspace(0, values.shape[0], count + 1).astype(int).tolist()
    if isinstance(values, np.memmap) and values.filename is not None:
        about = str(values.filename), values.dtype.str, values.offset, values.shape, values.flags.c_contiguous
        blocks = [dask.delayed(_rows_of_file)(*about, rows) for rows in pairwise(cuts)]
    else:
        blocks = [dask.delayed(values[a:b]) for a, b in pairwise(cuts)]
    return replace(matrix, values=as_operator(blocks, name))


def _rows_of_file(
    path: str, dtype: str, offset: int, shape: tuple[int, int], rowwise: bool, rows: tuple[int, int]
) -> Any:
    """Read some rows of a mapped file into memory."""
    whole = np.memmap(path, dtype, "r", offset, shape, "C" if rowwise else "F")
    return np.array(whole[slice(*rows)])
