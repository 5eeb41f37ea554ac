"""NumPy's files as sources: `.npy` files are mapped, matrices in `.npz` files are held.

Problem: an array in many `.npy` files should be one matrix, and truncated or exchanged files must be noticed.
Method: each slab is copied from a map of its own, for which header and size are compared again: a map keeps its file
open, a pattern may stand for more files than a process may open, and to read beyond the end of a file would end the
process. An `.npz` file holds one matrix, several with names, or one that `scipy.sparse.save_npz` has written. It is
read whole.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from linspec.arrays import HostArray
from linspec.errors import printable
from linspec.operators import mapped, read_npz
from linspec_files.slabs import Source, dense, held


def npy_rows(path: str) -> Source:
    """Make the source of a `.npy` file; a vector becomes a column."""
    array = mapped(path)
    shape = (*array.shape, 1) if array.ndim == 1 else array.shape
    return dense(printable(path), shape, array.dtype, partial(_read, path), [path])


def _read(path: str, start: int, stop: int) -> HostArray:
    """Copy some rows, which reads them at once, in the thread that reads ahead."""
    array = mapped(path)
    return np.array(array[start:stop]).reshape(stop - start, *(array.shape[1:] or (1,)))


def npz_rows(path: str, part: str = "") -> Source:
    """Read the matrix in an `.npz` file."""
    name = printable(path)
    return held(f"{name}, {part}" if part else name, read_npz(path, part))
