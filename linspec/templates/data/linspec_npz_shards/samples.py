"""Small data for the tests."""

import tempfile
from pathlib import Path

import numpy as np

from linspec_npz_shards.npz_shards import NpzShards


def sample():
    """40 rows in three files of a temporary folder."""
    rows = np.random.default_rng(0).standard_normal((40, 6))
    return written(Path(tempfile.mkdtemp()), rows, (15, 16))


def written(folder, rows, ends):
    """Write rows to files, and return the data. File i ends before row ends[i], and the last file with the last row."""
    paths = []
    for number, part in enumerate(np.split(rows, ends)):
        paths.append(str(folder / f"{number}.npz"))
        np.savez(paths[-1], rows=part)
    return NpzShards(tuple(paths))
