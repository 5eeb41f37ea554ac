"""NumPy's files as sources: `.npy` files are mapped, matrices in `.npz` files are held.

Problem: an array in many `.npy` files should be one matrix, and truncated or exchanged files must be noticed.
Method: linspec reads the header of a `.npy` file, compares its length, and maps the rest. Each slab is copied from a
map of its own: a map keeps its file open, and a pattern may stand for more files than a process may open. An `.npz`
file holds one matrix, several with names, or one that `scipy.sparse.save_npz` has written. It is read whole.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib import format as npy

from linspec.arrays import HostArray
from linspec.errors import InvalidProblem, printable
from linspec.operators import mapped, read_npz
from linspec_files.held import HeldRows
from linspec_files.stored import Stored

__all__ = ["NpyArray", "begins_as", "npz_rows"]


def begins_as(path: str, suffix: str) -> bool:
    """Whether a file begins with the bytes that its suffix, .npy or .npz, demands."""
    magic = npy.MAGIC_PREFIX if suffix == ".npy" else b"PK"
    with suppress(OSError, ValueError), Path(path).open("rb") as file:
        return file.read(len(magic)) == magic
    return False


class NpyArray(Stored):
    """The array of a `.npy` file; a vector becomes a column.

    Raises
    ------
    InvalidProblem
        It is no such file, it is truncated, or it holds Python objects.
    """

    def __init__(self, path: str) -> None:
        array = mapped(path)
        super().__init__(printable(path), array.reshape(-1, 1) if array.ndim == 1 else array, None)
        self._path, self._end = path, getattr(array, "offset", 0) + array.nbytes
        self._placed: Any = (getattr(array, "offset", 0), array.shape, "F" if _in_columns(array) else "C")
        self.array = None

    def read(self, start: int, stop: int) -> HostArray:
        """Return a copy of the entries `start` to `stop` - 1 along the first axis.

        The copy reads the entries from the disk at once, in the thread that reads ahead. A view of the memory map would
        read them only when they are multiplied, and would keep the file open.
        """
        if 0 in self.shape:  # nothing can be mapped
            return np.empty((stop - start, *self.shape[1:]), self.dtype)
        whole: HostArray = np.memmap(Path(self._path), self.dtype, "r", *self._placed)
        return np.array(whole[start:stop]).reshape(stop - start, *self.shape[1:])

    def absent(self) -> tuple[int, int]:
        return 0, 0

    def stamp(self, start: int, stop: int) -> Any:  # of the whole file
        with suppress(FileNotFoundError, NotADirectoryError):
            found = os.stat(self._path)  # noqa: PTH116  # a text stays one
            if found.st_size < self._end:  # a read beyond the end would end the process
                raise InvalidProblem(
                    f"{self.name} was cut off while it is in use. Write it again, and solve again."
                )
            return found.st_size, found.st_mtime_ns
        return None


def _in_columns(array: HostArray) -> bool:
    return array.ndim > 1 and bool(array.flags.f_contiguous)


def npz_rows(path: str, part: str = "") -> HeldRows:
    """Read the rows of a matrix in an `.npz` file.

    Raises
    ------
    InvalidProblem
        It is no such file, it is damaged, or it holds several matrices and none was named.
    UnsupportedData
        It holds no real numbers.
    """
    name = printable(path)
    return HeldRows(f"{name}, {part}" if part else name, read_npz(path, part))
