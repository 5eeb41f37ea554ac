"""NumPy's files as sources: `.npy` files are mapped, matrices in `.npz` files are held.

Problem: an array in many `.npy` files is to be one matrix, and a file that was cut off or exchanged must be told.
Method: NumPy reads the header of a `.npy` file and maps the rest, whose length it compares. A slab is copied out of the
map. An `.npz` file holds one matrix or several, of which a part is named, or one that `scipy.sparse.save_npz` has
written. It is read whole, and refused where that would take more than half of the free memory. Nothing is ever
unpickled.
"""

from __future__ import annotations

import os
import zipfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse
from numpy.lib import format as npy

from linspec.arrays import HostArray
from linspec.errors import InvalidProblem, LinspecError, printable
from linspec_sources.held import HeldRows, check_room
from linspec_sources.stored import Stored

__all__ = ["NpyArray", "begins_as", "npz_rows"]

SPARSE = ("format", "shape", "data")
"""Arrays that each file of `scipy.sparse.save_npz` has; one without data has other ones."""


def begins_as(path: str, suffix: str) -> bool:
    """Whether a file begins as those of a suffix do."""
    magic = npy.MAGIC_PREFIX if suffix == ".npy" else b"PK"
    with suppress(OSError, ValueError), Path(path).open("rb") as file:
        return file.read(len(magic)) == magic
    return False


class NpyArray(Stored):
    """The array of a `.npy` file; one of one dimension is a column.

    Raises
    ------
    InvalidProblem
        It is no such file, it is cut off, or it holds Python objects.
    """

    def __init__(self, path: str) -> None:
        super().__init__(printable(path), _mapped(path), None)
        self._path = path

    def __getstate__(self) -> dict[str, Any]:
        """The place of the file: the other process maps it again."""
        return {**self.__dict__, "array": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.array = _mapped(self._path)

    def read(self, start: int, stop: int) -> HostArray:
        """A copy, so that the reading is done by the thread that reads ahead."""
        return np.array(self.array[start:stop])

    def absent(self) -> tuple[int, int]:
        return 0, 0

    def stamp(self, start: int, stop: int) -> Any:  # of the whole file
        with suppress(FileNotFoundError, NotADirectoryError):
            found = os.stat(self._path)  # noqa: PTH116  # a text stays one
            if (
                found.st_size < self.array.offset + self.array.nbytes
            ):  # to read what was cut off would end the process
                raise InvalidProblem(
                    f"{self.name} was cut off while it is in use. Write it again, and solve again."
                )
            return found.st_size, found.st_mtime_ns
        return None


def _mapped(path: str) -> Any:
    try:
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, OverflowError) as error:
        if isinstance(error, FileNotFoundError | PermissionError):
            raise
        raise _damaged(path, "a .npy file", error) from error
    if not isinstance(array, np.memmap):
        raise InvalidProblem(f"{printable(path)} must be a .npy file; it is an archive. Name it .npz.")
    return array.reshape(-1, 1) if array.ndim == 1 else array


def npz_rows(path: str, part: str = "") -> HeldRows:
    """The rows of a matrix in an `.npz` file.

    Raises
    ------
    InvalidProblem
        It is no such file, it is damaged, or it holds several matrices and none was named.
    UnsupportedData
        The matrix takes too much memory.
    """
    name = printable(path)
    try:
        with zipfile.ZipFile(path) as archive:
            sizes = {entry.filename.removesuffix(".npy"): entry.file_size for entry in archive.infolist()}
        sparse = not part and all(key in sizes for key in SPARSE)
        if not sparse:
            part = _chosen(name, part, list(sizes))
        label = f"{name}, {part}" if part else name
        check_room(
            label,
            sum(sizes.values()) if sparse else sizes[part],
            "must be read whole, as archives are",
            "Write it as a .npy file, of which some rows can be read.",
        )
        if sparse:
            matrix = scipy.sparse.load_npz(path)
            if hasattr(matrix, "check_format"):
                matrix.check_format(full_check=True)
            return HeldRows(label, scipy.sparse.csr_array(matrix))
        with np.load(path, allow_pickle=False) as file:
            array = file[part]
    except LinspecError:
        raise
    except (FileNotFoundError, PermissionError, MemoryError):
        raise
    except Exception as error:  # each way of being broken has errors of its own
        raise _damaged(path, "an .npz file", error) from error
    array = array.reshape(-1, 1) if array.ndim == 1 else array
    if array.ndim != 2:
        raise InvalidProblem(
            f"{label} must have two dimensions; got shape {array.shape}. Store it as a matrix."
        )
    return HeldRows(label, array)


def _chosen(name: str, part: str, names: list[str]) -> str:
    if part in names:
        return part
    listed = ", ".join(names[:10]) or "nothing"
    if part:
        raise InvalidProblem(f"{name} has no part {part!r}: it holds {listed}.")
    if len(names) != 1:
        raise InvalidProblem(f"{name} holds {len(names)} arrays ({listed}). Name one with part=.")
    return names[0]


def _damaged(path: str, what: str, error: BaseException) -> InvalidProblem:
    said = " ".join(f"{type(error).__name__}: {error}".split())[:200].rstrip(".")
    return InvalidProblem(
        f"{printable(path)} cannot be read as {what} ({said}). It is damaged or cut off, or something else: "
        "write it again."
    )
