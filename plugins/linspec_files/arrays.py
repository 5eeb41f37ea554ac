"""NumPy's files: `.npy` files are mapped slab by slab, matrices in `.npz` files are held."""

from __future__ import annotations

from functools import partial

import numpy as np

from linspec.arrays import HostArray
from linspec.errors import printable
from linspec.operators import LinearOperator, RowFiles, mapped, read_npz
from linspec_files.slabs import dense, held, of_files, without_part


def of_numpy(files: RowFiles) -> LinearOperator:
    """Make the operator of `.npy` files, or of the named or only matrix of `.npz` files; a vector becomes a column."""
    if files.suffix == ".npz":
        return of_files(files, lambda path: held(printable(path), read_npz(path, files.part)))
    without_part(files, "one array, whose columns have no names,")

    def one(path: str) -> LinearOperator:
        array = mapped(path)
        shape = (*array.shape, 1) if array.ndim == 1 else array.shape
        return dense(printable(path), shape, array.dtype, partial(_read, path), path)

    return of_files(files, one)


def _read(path: str, start: int, stop: int) -> HostArray:
    """Copy some rows of a new map: it looks at the size of the file again, and is closed at once."""
    array = mapped(path)
    return np.array(array[start:stop]).reshape(stop - start, *(array.shape[1:] or (1,)))
