"""HDF5 datasets and groups, by h5py.

Problem: a truncated file may open, and fail only when the missing part is read; and HDF5 reads chunks that were never
written as a fill value. A file may also refer to other files: by a link to a group in one, by a dataset whose bytes are
in any file of the machine, by a dataset assembled from others elsewhere; and it names the library that decodes it.
Method: h5py compares the length of a file with its header, when it opens it. The existing chunks are counted then, too.
Size and time of the file are compared whenever a slab is decoded. For a path, data in other files are not read, and
only filters known here are used. A file is open only while its description or a slab of it is read: a pattern may stand
for more files than a process may open.
Where we differ for datasets of h5py: the user has opened and so chosen them; their data may be in other files.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from linspec.arrays import HostArray
from linspec.errors import InvalidProblem, UnsupportedData, printable
from linspec.operators import looked_at
from linspec_files.stored import Stored, chunk_count

__all__ = ["Hdf5Array", "Hdf5Group", "opened_hdf5"]

FILTERS = frozenset(
    {
        *range(1, 7),  # of HDF5: deflate, shuffle, fletcher32, szip, nbit, scaleoffset
        *(307, 32000, 32001, 32004, 32008),  # of h5py and hdf5plugin: bzip2, lzf, blosc, lz4, bitshuffle
        *(32013, 32015, 32017, 32018),  # zfp, zstd, sz, fcidecomp
        *(32024, 32026, 32028),  # sz3, blosc2, sperr
    }
)
"""Registered numbers of the HDF5 filters that linspec lets decode the data of a file opened by its path."""

MOST_LINKS = 16
"""Largest number of soft links that are followed one after the other."""


def opened_hdf5(path: str) -> Any:
    """Open the HDF5 file of a path for reading.

    Raises
    ------
    InvalidProblem
        It is no HDF5 file, or it is truncated.
    """
    import h5py

    looked_at(path)
    try:
        return h5py.File(path, "r")
    except OSError as error:
        said = " ".join(str(error).split())[:200].rstrip(".")
        if "Too many open files" in said:
            raise InvalidProblem(
                f"{printable(path)} cannot be opened: too many files are open. Close some, or raise the limit "
                "(ulimit -n)."
            ) from error
        raise InvalidProblem(
            f"{printable(path)} cannot be read as HDF5 ({said}). It is no HDF5 file, or it is damaged: write it again."
        ) from error


class Hdf5Group:
    """A group of a file that gives only members in the same file.

    Parameters
    ----------
    group : h5py.Group
    name : str
        The name of the file in messages.
    """

    def __init__(self, group: Any, name: str) -> None:
        self._group, self.attrs, self._name = group, group.attrs, name

    def __iter__(self) -> Iterator[str]:
        return iter(self._group)

    def __contains__(self, member: str) -> bool:
        return _link(self._group, member) is not None

    def __getitem__(self, member: str) -> Any:
        found = self._at(self._group, member, MOST_LINKS)
        return Hdf5Group(found, self._name) if hasattr(found, "keys") else found

    def _at(self, place: Any, path: str, links: int) -> Any:
        """Follow a path within the file step by step, because HDF5 would follow links to other files."""
        from h5py import h5l

        for step in [step for step in path.split("/") if step not in ("", ".")]:
            link = _link(place, step)
            if link is None:
                raise InvalidProblem(
                    f"{self._name} has a link to {printable(path)[:200]}, where nothing is. Write it again."
                )
            kind, goal = link
            if kind == h5l.TYPE_HARD:
                place = place[step]
            elif kind == h5l.TYPE_SOFT and links:
                place = self._at(place.file if goal.startswith("/") else place, goal, links - 1)
            else:
                what = (
                    f"is a link to {printable(goal)[:200]}" if kind != h5l.TYPE_SOFT else "leads in a circle"
                )
                raise _elsewhere(self._name, step, what)
        return place


def _link(place: Any, name: str) -> tuple[int, str] | None:
    """Return the kind of a link in a group and its target, without following it; None if there is no such link."""
    from h5py import h5l

    key = name.encode("utf-8", "surrogateescape")
    if name in ("", ".", "..") or "/" in name or "\0" in name or not hasattr(place, "keys"):
        return None
    if not place.id.links.exists(key):
        return None
    kind = place.id.links.get_info(key).type
    value = place.id.links.get_val(key) if kind in (h5l.TYPE_SOFT, h5l.TYPE_EXTERNAL) else b""
    return kind, os.fsdecode(value[0] if isinstance(value, tuple) else value)


class Hdf5Array(Stored):
    """An `h5py.Dataset`.

    Parameters
    ----------
    name : str
    array : h5py.Dataset
    path : str, optional
        The file of the dataset, to open it again for each reading; by default the dataset stays open.

    Raises
    ------
    UnsupportedData
        A dataset opened by path has its bytes in another file, or an unknown filter.
    """

    def __init__(self, name: str, array: Any, path: str | None = None) -> None:
        super().__init__(name, array, None if array.chunks is None else tuple(array.chunks))
        self._again = path is not None
        self._path = array.file.filename if path is None else path
        self._inner = array.name
        if self._again:
            _check_own(name, array)

    def __getstate__(self) -> dict[str, Any]:
        """Return the state for another process, without the open dataset: that process opens the file again."""
        return {**self.__dict__, "array": None, "_again": True}

    def read(self, start: int, stop: int) -> HostArray:
        """Read entries along the first axis."""
        if not self._again:
            return super().read(start, stop)
        with opened_hdf5(self._path) as file:
            found: HostArray = file[self._inner][start:stop]
            return found

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


def _check_own(name: str, array: Any) -> None:
    """Refuse a dataset whose bytes are in another file, or that an unknown filter decodes."""
    about = array.id.get_create_plist()
    if about.get_external_count():
        raise _elsewhere(
            name, "", f"has its bytes in {printable(os.fsdecode(about.get_external(0)[0]))[:200]}"
        )
    if array.is_virtual:
        raise _elsewhere(name, "", "is put together of datasets elsewhere")
    for number in range(about.get_nfilters()):
        code = about.get_filter(number)[0]
        if code not in FILTERS:
            raise UnsupportedData(
                f"{name} is decoded by the filter {code}, which linspec does not know. Write it again with gzip or "
                "lzf, or open it with h5py, where you trust it, and pass the dataset."
            )


def _elsewhere(name: str, member: str, what: str) -> UnsupportedData:
    """Return the error for a member of a file that is in another file."""
    return UnsupportedData(
        f"{name}: {printable(member) or 'the dataset'} {what}. linspec reads one file, and no others that it names. "
        "Where you trust it, open it with h5py and pass the dataset."
    )
