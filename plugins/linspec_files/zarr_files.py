"""Zarr arrays and groups, of the formats 2 and 3.

Problem: zarr reads a chunk that its store does not have as a fill value. A chunk that was lost, or is lost between two
passes, then becomes zeros without notice.
Method: the existing chunks are counted once, when the array is opened. In a folder of this machine the existence, size
and time of each chunk of a slab are compared in every pass. In other stores, a chunk whose entries are all the fill
value is looked up in the store.

An array names the codecs that decode it, and zarr and numcodecs register some that execute their input (pickle) or make
objects of it. So the names are checked before any entry is read: codecs known here to make bytes or numbers are
allowed, all others refused, whatever the installed release would do with them. A folder may come from anywhere, and its
parts may be links: descriptions and chunks are checked before they are opened.
Source: https://zarr-specs.readthedocs.io, versions 2 and 3. In a sharded array a shard counts as a chunk.
"""

from __future__ import annotations

import itertools
import json
import os
import re
import stat
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np

from linspec.arrays import HostArray
from linspec.errors import InvalidProblem, LinspecError, UnsupportedData, printable
from linspec.operators import looked_at
from linspec_files.stored import Stored, chunk_count

__all__ = ["ZarrArray", "ZarrGroup", "opened_zarr"]

DESCRIPTIONS = "zarr.json", ".zarray", ".zgroup", ".zattrs", ".zmetadata"
"""Files that describe an array or a group."""

LONGEST_DESCRIPTION = 64 << 20
"""Largest number of bytes of a file with a description."""

OF_BYTES = {
    *("blosc", "bz2", "gzip", "lz4", "lzma", "zlib", "zstd"),
    *("adler32", "crc32", "crc32c", "fletcher32", "jenkins_lookup3", "shuffle"),
}
OF_NUMBERS = {"astype", "bitround", "delta", "fixedscaleoffset", "packbits", "pcodec", "quantize", "zfpy"}
OF_TEXTS = {"vlen-utf8", "vlen-bytes"}
OF_FORMAT_3 = {"bytes", "endian", "transpose", "sharding_indexed"}
CODECS = frozenset(OF_BYTES | OF_NUMBERS | OF_TEXTS | OF_FORMAT_3)
"""Codecs that turn bytes into bytes, numbers and texts, and do nothing else. Format 3 puts "numcodecs." before some."""


def opened_zarr(path: str) -> Any:
    """Open the array or group of a path.

    Raises
    ------
    InvalidProblem
        zarr finds no array or group that it can read.
    """
    import zarr

    _check_description(Path(path))
    with _reading(printable(path)):
        return zarr.open(path, mode="r")


@contextmanager
def _reading(name: str) -> Iterator[None]:
    """Turn errors of zarr into `InvalidProblem` with the name of the data."""
    try:
        yield
    except (LinspecError, MemoryError):
        raise
    except Exception as error:  # each way of being broken has errors of its own
        said = printable(" ".join(f"{type(error).__name__}: {error}".split()))[:200].rstrip(".")
        raise InvalidProblem(
            f"{name} cannot be read as zarr ({said}). It is no array or group, or it is damaged: write it again."
        ) from error


class ZarrGroup:
    """A `zarr.Group` whose members are checked before zarr opens them."""

    def __init__(self, group: Any) -> None:
        self._group, self.attrs = group, group.attrs
        self._folder = _folder_of(group)
        self._name = printable(str(group.store_path).removeprefix("file://"))

    def __iter__(self) -> Iterator[str]:
        if self._folder is not None:  # zarr reads the descriptions of all
            with os.scandir(self._folder) as members:
                for member in members:
                    if member.is_dir():
                        _look_at_descriptions(Path(member.path))
        with _reading(self._name):
            return iter(list(self._group))

    def __contains__(self, name: str) -> bool:
        if name in ("", ".", "..") or "/" in name or "\0" in name:
            return False
        if self._folder is not None:
            _check_description(self._folder / name)
        with _reading(f"{self._name}, {printable(name)}"):
            return name in self._group

    def __getitem__(self, name: str) -> Any:
        if name not in self:
            raise InvalidProblem(f"{self._name} has no {printable(name)!r}. It is damaged: write it again.")
        with _reading(f"{self._name}, {printable(name)}"):
            found = self._group[name]
        return found if hasattr(found, "dtype") else ZarrGroup(found)


class ZarrArray(Stored):
    """A `zarr.Array`.

    Raises
    ------
    UnsupportedData
        One of its codecs is not known here.
    """

    def __init__(self, name: str, array: Any) -> None:
        check_codecs(name, array.metadata.to_dict())
        super().__init__(name, array, tuple(getattr(array, "shards", None) or array.chunks))
        self._folder = _folder_of(array)
        self._there: dict[str, bool] = {}

    def absent(self) -> tuple[int, int]:
        assert self.chunks is not None  # noqa: S101  # every zarr array has chunks
        expected = chunk_count(self.shape, self.chunks)
        if self._folder is not None:
            return expected - sum(1 for _ in self._files()), expected
        inner = chunk_count(self.shape, tuple(self.array.chunks))
        found = self.array.nchunks_initialized * expected / max(inner, 1)
        return max(0, expected - round(found)), expected

    def stamp(self, start: int, stop: int) -> Any:
        if self._folder is None:
            return None
        return tuple(_stat(self._folder / key) for key in self._keys(start, stop))

    def _files(self) -> Iterator[tuple[int, ...]]:
        """Yield the numbers of the chunks in the folder; an array may declare many more chunks than exist."""
        assert self._folder is not None  # noqa: S101
        assert self.chunks is not None  # noqa: S101
        grid = [-(-length // size) for length, size in zip(self.shape, self.chunks, strict=True)]
        key = self.array.metadata.encode_chunk_key((0,) * len(grid))
        pattern = re.compile(re.escape(key).replace("0", "(0|[1-9][0-9]*)"))
        for place in _below(self._folder, key.split("/")):
            match = pattern.fullmatch(place)
            numbers = tuple(map(int, match.groups())) if match else ()
            if match and all(number < count for number, count in zip(numbers, grid, strict=True)):
                yield numbers

    def read(self, start: int, stop: int) -> HostArray:
        """Read entries along the first axis; raise if a chunk is gone that an earlier pass has read."""
        found = super().read(start, stop)
        if self._folder is None:
            self._compare(found, start, stop)
        return found

    def _compare(self, found: HostArray, start: int, stop: int) -> None:
        """Compare the chunks of some rows with those of earlier passes, in a store that is no folder of this machine.

        `found` are the entries of rows `start` to `stop` - 1. A chunk whose entries are all the fill value may be
        missing, so the store is asked for it. Raise an error if such a chunk is missing now and was there in an earlier
        pass.
        """
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
        """Yield the number of each chunk that has entries of rows `start` to `stop` - 1.

        The number of a chunk is a tuple with its place along each axis, from 0.
        """
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
    """Return the folder of an array on this machine; None for other stores."""
    place = array.store_path
    root = getattr(place.store, "root", None)
    if type(place.store).__name__ != "LocalStore" or not isinstance(root, Path):
        return None
    return root / str(place.path)


def _below(folder: Path, steps: list[str], before: str = "") -> Iterator[str]:
    """Yield the paths, relative to `folder`, that lie as many levels below it as `steps` has names.

    `steps` are the parts of the path of the first chunk, such as ["c", "0", "0"]. Only folders are entered whose name
    is the name in `steps` at their level, or a decimal number. The last part of a path is any name. `before` is put
    before each path.
    """
    with suppress(FileNotFoundError, NotADirectoryError), os.scandir(folder) as members:
        for member in members:
            if len(steps) == 1:
                yield before + member.name
            elif member.name == steps[0] or member.name.isdecimal():
                yield from _below(folder / member.name, steps[1:], f"{before}{member.name}/")


def _stat(path: Path) -> tuple[int, int] | None:
    """Return size and time of a file; None if it does not exist.

    Raises
    ------
    InvalidProblem
        It is a pipe or a device.
    """
    try:
        found = os.stat(path)  # noqa: PTH116  # a list of chunks is long, and this is the quicker one
    except (FileNotFoundError, NotADirectoryError):
        return None
    if not stat.S_ISREG(found.st_mode):
        looked_at(path)
    return found.st_size, found.st_mtime_ns


def _look_at_descriptions(folder: Path) -> None:
    """Check the files that describe an array or a group, without reading them, before zarr opens them.

    Each must be a regular file that is not empty, is readable, and has at most `LONGEST_DESCRIPTION` bytes.
    """
    for name in DESCRIPTIONS:
        if os.path.lexists(folder / name):
            looked_at(folder / name, most=LONGEST_DESCRIPTION)


def _check_description(folder: Path) -> None:
    """Check the description of an array or a group as `_look_at_descriptions` does, then read it and check the codecs.

    The codecs are checked before zarr loads any of them.
    """
    _look_at_descriptions(folder)
    for name in (place for place in (folder / "zarr.json", folder / ".zarray") if place.exists()):
        with _reading(printable(str(folder))):
            description = json.loads(name.read_bytes())
            if isinstance(description, dict):
                check_codecs(printable(str(folder)), description)


def check_codecs(name: str, description: Mapping[str, Any]) -> None:
    """Refuse an array that names a codec which is not known here, before any of its entries is decoded.

    Parameters
    ----------
    name : str
        The name of the array in messages.
    description : mapping
        The metadata of the array, of format 2 or 3.

    Raises
    ------
    UnsupportedData
    """
    listed = [*(description.get("filters") or ()), description.get("compressor")]
    listed += description.get("codecs") or ()
    known = list(_each([one for one in listed if one is not None]))
    objects = "O" in re.findall("[A-Za-z]", str(description.get("dtype", "")))
    if objects and OF_TEXTS.isdisjoint(codec for codec, _ in known):
        known.append(("no codec of texts", {}))
    for codec, settings in known:
        if codec.removeprefix("numcodecs.") not in CODECS:
            raise UnsupportedData(
                f"{name} is decoded by {printable(codec)[:100]!r}, a codec that linspec does not know; some run what "
                "they decode. Write the array again with one of blosc, gzip, lz4, zstd or none. Where you trust it, "
                "read it by zarr and pass slices: lambda: (array[i : i + 1000] for i in range(0, n, 1000))."
            )
        for key in ("dtype", "astype", "encode_dtype", "decode_dtype"):
            if not re.fullmatch(
                r"[<>=|]?[?biufc][0-9]*|(bool|u?int|float)[0-9]*", str(settings.get(key) or "f8")
            ):
                raise UnsupportedData(
                    f"{name} is decoded by {codec!r} into {printable(str(settings[key]))[:100]!r}, which are no "
                    "numbers. Write the array again without it."
                )


def _each(codecs: Iterable[Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the name and the settings of each codec, and of the codecs inside it.

    In format 3 the codec of sharded arrays, sharding_indexed, lists the codecs of its chunks and of its index.
    """
    waiting = list(codecs)
    while waiting:
        one = waiting.pop()
        if hasattr(one, "get_config"):  # zarr 3.0 does not convert some codecs
            one = one.get_config()
        one = one if isinstance(one, Mapping) else {"name": str(one)}
        settings = one.get("configuration") or {} if "name" in one else one
        yield str(one.get("name", one.get("id"))), settings
        waiting += settings.get("codecs") or ()
        waiting += settings.get("index_codecs") or ()
