"""Zarr arrays and groups, of the formats 2 and 3.

Problem: zarr reads a chunk that its store does not have as a fill value. A chunk that was lost, or that is lost between
two passes, is then zeros, and nobody notices.
Method: the chunks that are there are counted once, when the array is opened. In a folder of this machine the size
and time of each chunk of a slab are compared in every pass, and so is whether it is there. Of other stores, a
chunk that decodes to the fill value alone is looked for in the store.
Source: https://zarr-specs.readthedocs.io, versions 2 and 3. In a sharded array a shard counts as a chunk.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from linspec.arrays import HostArray
from linspec.errors import InvalidProblem, printable
from linspec_sources.stored import Stored, chunk_count

__all__ = ["ZarrArray", "opened_zarr"]


def opened_zarr(path: str) -> Any:
    """The array or group of a path.

    Raises
    ------
    InvalidProblem
        There is none that zarr can read.
    """
    import zarr

    try:
        return zarr.open(path, mode="r")
    except Exception as error:
        said = " ".join(f"{type(error).__name__}: {error}".split())[:200].rstrip(".")
        raise InvalidProblem(
            f"{printable(path)} cannot be read as zarr ({said}). Check that it is the folder of an array or a group."
        ) from error


class ZarrArray(Stored):
    """A `zarr.Array`."""

    def __init__(self, name: str, array: Any) -> None:
        super().__init__(name, array, tuple(getattr(array, "shards", None) or array.chunks))
        self._folder = _folder_of(array)
        self._there: dict[str, bool] = {}

    def absent(self) -> tuple[int, int]:
        assert self.chunks is not None  # noqa: S101  # every zarr array has chunks
        expected = chunk_count(self.shape, self.chunks)
        if self._folder is not None:
            return sum(_stat(self._folder / key) is None for key in self._keys(0, self.shape[0])), expected
        inner = chunk_count(self.shape, tuple(self.array.chunks))
        found = self.array.nchunks_initialized * expected / max(inner, 1)
        return max(0, expected - round(found)), expected

    def stamp(self, start: int, stop: int) -> Any:
        if self._folder is None:
            return None
        return tuple(_stat(self._folder / key) for key in self._keys(start, stop))

    def read(self, start: int, stop: int) -> HostArray:
        """Entries along the first axis; a chunk that an earlier pass has found and that is gone is refused."""
        found = super().read(start, stop)
        if self._folder is None:
            self._compare(found, start, stop)
        return found

    def _compare(self, found: HostArray, start: int, stop: int) -> None:
        """Look in the store for chunks of which all entries are the fill value."""
        assert self.chunks is not None  # noqa: S101
        fill = np.asarray(self.array.fill_value, dtype=self.dtype) if self.array.fill_value is not None else 0
        for index, key in zip(self._indices(start, stop), self._keys(start, stop), strict=True):
            rows = slice(
                max(index[0] * self.chunks[0], start) - start, (index[0] + 1) * self.chunks[0] - start
            )
            others = (slice(i * c, (i + 1) * c) for i, c in zip(index[1:], self.chunks[1:], strict=True))
            part = found[(rows, *others)]
            filled = part.flat[0] == fill and bool((part == fill).all())
            there = not filled or self._in_store(key)
            if self._there.setdefault(key, there) and not there:
                raise InvalidProblem(
                    f"{self.name} has lost the chunk {key}, which an earlier pass has read. Restore it, and "
                    f"solve again."
                )

    def _in_store(self, key: str) -> bool:
        from zarr.core.sync import sync

        place = self.array.store_path
        return bool(sync(place.store.exists(f"{place.path}/{key}".lstrip("/"))))

    def _indices(self, start: int, stop: int) -> Iterator[tuple[int, ...]]:
        """The numbers of the chunks of some rows."""
        assert self.chunks is not None  # noqa: S101
        first, last = start // self.chunks[0], -(-stop // self.chunks[0])
        rest = [
            range(-(-length // size)) for length, size in zip(self.shape[1:], self.chunks[1:], strict=True)
        ]
        return itertools.product(range(first, last), *rest)

    def _keys(self, start: int, stop: int) -> Iterator[str]:
        metadata = self.array.metadata
        return (metadata.encode_chunk_key(index) for index in self._indices(start, stop))


def _folder_of(array: Any) -> Path | None:
    """The folder of an array on this machine; None of other stores."""
    place = array.store_path
    root = getattr(place.store, "root", None)
    if type(place.store).__name__ != "LocalStore" or not isinstance(root, Path):
        return None
    return root / str(place.path)


def _stat(path: Path) -> tuple[int, int] | None:
    """Size and time of a file; None where there is none."""
    try:
        found = os.stat(path)  # noqa: PTH116  # a list of chunks is long, and this is the quicker one
    except (FileNotFoundError, NotADirectoryError):
        return None
    return found.st_size, found.st_mtime_ns
