"""`--workers`: the rows of a problem on processes of this machine, one thread each.

Problem: rows in files are to be read and multiplied by several processes, as on a cluster, from the command line.
Method: a local cluster of dask, and the rows of each matrix as blocks of it. Rows of a `.npy` file are read by the
worker that keeps them; others are read here and sent once. Into how many blocks depends on the rows alone, so that the
answer has the same bits with any number of workers.
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
"""The least rows of a block, and the most blocks."""

SETTINGS = {
    # Memory of the size of a block is kept for the next: the default gives it back to the system at every task.
    "distributed.nanny.pre-spawn-environ.MALLOC_TRIM_THRESHOLD_": 268435456,
    "distributed.nanny.pre-spawn-environ.MALLOC_MMAP_THRESHOLD_": 67108864,
    "distributed.admin.low-level-log-length": 10,  # messages that dask keeps for its developers hold what they carried
    "distributed.admin.large-graph-warning-threshold": "1TB",  # rows that were read here are sent with their tasks
}


@contextmanager
def on_workers(
    count: int | None, matrices: Mapping[str, NamedMatrix], kept: Collection[str] = ()
) -> Iterator[dict[str, NamedMatrix]]:
    """The same matrices, with their rows on workers while the block runs.

    Parameters
    ----------
    count : int or None
        Workers; None leaves everything where it is.
    matrices : mapping from str to NamedMatrix
    kept : collection of str
        The names of those that stay here: labels.

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
    """A matrix of numbers as blocks; anything else as it is."""
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
    """Some rows of a mapped file, in memory."""
    whole = np.memmap(path, dtype, "r", offset, shape, "C" if rowwise else "F")
    return np.array(whole[slice(*rows)])
