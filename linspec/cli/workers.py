"""`--workers`: the rows of a problem on processes of this machine, one thread each, by way of dask.

Rows of a `.npy` file are read by the worker that keeps them; others are read here and sent once. The number of blocks
depends only on the number of rows, so that the answer does not depend on the number of workers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from itertools import pairwise
from typing import Any

import numpy as np

from linspec.cli.output import missing_package
from linspec.operators import as_operator
from linspec.operators.npy_files import is_npy

ROWS, BLOCKS = 256, 64
"""Least number of rows in a block, and largest number of blocks."""

SETTINGS = {
    # Memory of the size of a block is kept for the next task, and messages for developers of dask are dropped.
    "distributed.nanny.pre-spawn-environ.MALLOC_TRIM_THRESHOLD_": 268435456,
    "distributed.nanny.pre-spawn-environ.MALLOC_MMAP_THRESHOLD_": 67108864,
    "distributed.admin.low-level-log-length": 10,
    "distributed.admin.large-graph-warning-threshold": "1TB",
}


@contextmanager
def on_workers(count: int, files: Mapping[str, str], matrices: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Put the rows of matrices of numbers in memory or in .npy files on workers while the block runs; yield all."""
    if find_spec("distributed") is None:
        raise missing_package("--workers needs dask", "dask")
    import dask
    from distributed import Client, LocalCluster

    def placed(name: str, rows: Any) -> Any:
        stored = getattr(rows, "stored_array", None)
        if stored is None:
            return rows
        cuts = np.linspace(0, stored.shape[0], max(1, min(BLOCKS, stored.shape[0] // ROWS)) + 1).astype(int)
        if is_npy(files[name]):
            blocks = [dask.delayed(_rows_of_file)(files[name], a, b) for a, b in pairwise(cuts.tolist())]
        else:
            blocks = [dask.delayed(stored[a:b]) for a, b in pairwise(cuts.tolist())]
        operator = as_operator(blocks, name)
        operator.column_names = rows.column_names
        return operator

    with (
        dask.config.set(SETTINGS),
        LocalCluster(n_workers=count, threads_per_worker=1, dashboard_address=":0", silence_logs=50) as cluster,
        Client(cluster),
    ):
        yield {name: placed(name, rows) for name, rows in matrices.items()}


def _rows_of_file(path: str, start: int, stop: int) -> Any:
    """Read some rows of a .npy file into memory."""
    return np.array(np.load(path, mmap_mode="r", allow_pickle=False)[start:stop])
