"""HDF5 datasets and groups, by h5py.

Problem: a file that was cut off may open, and fail where the missing part is read; and HDF5 reads chunks that were
never written as a fill value.
Method: h5py compares the length of a file with what its header says, when it opens it. The chunks that are there are
counted then, too. Size and time of the file are compared whenever a slab is decoded.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import Any

from linspec.errors import InvalidProblem, printable
from linspec_sources.stored import Stored, chunk_count

__all__ = ["Hdf5Array", "opened_hdf5"]


def opened_hdf5(path: str) -> Any:
    """The file of a path, for reading.

    Raises
    ------
    InvalidProblem
        It is no HDF5 file, or it is cut off.
    """
    import h5py

    try:
        return h5py.File(path, "r")
    except OSError as error:
        said = " ".join(str(error).split())[:200].rstrip(".")
        raise InvalidProblem(
            f"{printable(path)} cannot be read as HDF5 ({said}). It is no HDF5 file, or it is damaged: write it again."
        ) from error


class Hdf5Array(Stored):
    """An `h5py.Dataset`."""

    def __init__(self, name: str, array: Any) -> None:
        super().__init__(name, array, None if array.chunks is None else tuple(array.chunks))
        self._path = array.file.filename

    def __getstate__(self) -> dict[str, Any]:
        """The place of the dataset: the other process opens the file again."""
        return {**self.__dict__, "array": self.array.name}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.array = opened_hdf5(self._path)[state["array"]]

    def absent(self) -> tuple[int, int]:
        if self.chunks is None:
            return 0, 0
        expected = chunk_count(self.shape, self.chunks)
        return max(0, expected - int(self.array.id.get_num_chunks())), expected

    def stamp(self, start: int, stop: int) -> Any:
        with suppress(FileNotFoundError, NotADirectoryError):
            found = os.stat(self._path)  # noqa: PTH116  # the name is a text, or bytes
            return found.st_size, found.st_mtime_ns
        return None
