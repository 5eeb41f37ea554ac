"""zarr and h5py as libraries of arrays: what they open, what they may decode, and which of their chunks exist.

Problem: an HDF5 file may refer to other files: by a link to a group in one, by a dataset whose bytes are in any file of
the machine, by a dataset put together of others elsewhere. An array of zarr names the codecs that decode it, and some
execute their input (pickle) or make objects of it. A folder may hold pipes and devices, which never end.
Method: an HDF5 file of a path is walked link by link, and only what lies in it is read. It is open only while its
description or a slab of it is read: a pattern may stand for more files than a process may open. Codecs known here to
make bytes, numbers and texts are allowed, all others refused, before any entry is read. All files of a folder of zarr
are looked at before zarr opens one.
Source: https://zarr-specs.readthedocs.io, versions 2 and 3. In a sharded array a shard counts as a chunk.
Where we differ for datasets of h5py: the user has opened and so chosen them; their data may be in other files.
"""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from linspec.arrays import HostArray
from linspec.errors import InvalidProblem, UnsupportedData, printable
from linspec.operators import looked_at
from linspec_files.groups import Library, Rows
from linspec_files.slabs import Source, reading, stamp

CODECS = frozenset(
    {
        *("blosc", "bz2", "gzip", "lz4", "lzma", "zlib", "zstd"),
        *("adler32", "crc32", "crc32c", "fletcher32", "jenkins_lookup3", "shuffle"),
        *("astype", "bitround", "delta", "fixedscaleoffset", "packbits", "pcodec", "quantize", "zfpy"),
        *("vlen-utf8", "vlen-bytes", "bytes", "endian", "transpose", "sharding_indexed"),
    }
)
"""Codecs that turn bytes into bytes, numbers and texts, and do nothing else. Format 3 puts "numcodecs." before some."""


def zarr_rows(path: str, name: str, part: str = "", missing: str = "warn") -> Source:
    """Make the source of a matrix in a folder of zarr."""
    import zarr

    stamp([path])
    _check_description(path)
    with reading(printable(path), "it"):
        return Rows(Zarr((path,)), name, missing).source(zarr.open(path, mode="r"), part)


def rows_of_zarr(node: Any) -> Source:
    """Make the source of a `zarr.Array`, or of the matrix in a `zarr.Group`."""
    place, folder = printable(str(node.store_path).removeprefix("file://")), _folder(node)
    return Rows(Zarr(() if folder is None else (folder,)), place).source(node)


def _folder(node: Any) -> str | None:
    """Return the folder of an array or a group on this machine; None for other stores."""
    store = node.store_path.store
    local = type(store).__name__ == "LocalStore"
    return os.path.join(store.root, node.store_path.path) if local else None  # noqa: PTH118


class Zarr(Library):
    """zarr."""

    def __init__(self, paths: tuple[str, ...]) -> None:
        self.paths = paths

    def member(self, group: Any, key: str) -> Any:
        if not key.strip(".") or {"/", "\0"} & set(key) or key not in group:
            return None
        folder = _folder(group)
        if folder is not None:
            _check_description(os.path.join(folder, key))  # noqa: PTH118
        return group[key]

    def check(self, name: str, array: Any) -> None:
        check_codecs(name, array.metadata.to_dict())

    def reader(self, array: Any) -> Callable[[int, int], HostArray]:
        return partial(_read, array)

    def present(self, array: Any) -> tuple[tuple[int, ...] | None, int]:
        chunks, folder = tuple(getattr(array, "shards", None) or array.chunks), _folder(array)
        grid = [-(-size // length) for size, length in zip(array.shape, chunks, strict=True)]
        if folder is None:
            return chunks, round(array.nchunks_initialized * math.prod(grid) / max(array.nchunks, 1))
        key = re.escape(array.metadata.encode_chunk_key((0,) * len(grid))).replace("0", "(0|[1-9][0-9]*)")
        files = (
            os.path.relpath(os.path.join(place, one), folder)  # noqa: PTH118
            for place, _, inside in os.walk(folder)
            for one in inside
        )
        matches = filter(None, map(re.compile(key).fullmatch, files))
        return chunks, sum(
            all(int(i) < count for i, count in zip(one.groups(), grid, strict=True)) for one in matches
        )


def _read(array: Any, start: int, stop: int) -> HostArray:
    found: HostArray = array[start:stop]
    return found


def _check_description(folder: str) -> None:
    """Check the codecs of an array before zarr loads any of them."""
    for file in (Path(folder, "zarr.json"), Path(folder, ".zarray")):
        if file.is_file():
            with reading(printable(folder), "it"):
                check_codecs(printable(folder), json.loads(file.read_bytes()))


def check_codecs(name: str, description: Mapping[str, Any]) -> None:
    """Refuse an array that names a codec which is not known here, before any of its entries is decoded."""
    listed = [*(description.get("filters") or ()), description.get("compressor")]
    for codec, settings in _each([*filter(None, listed), *(description.get("codecs") or ())]):
        kinds = [
            str(settings.get(key) or "f8") for key in ("dtype", "astype", "encode_dtype", "decode_dtype")
        ]
        if codec.removeprefix("numcodecs.") not in CODECS or not all(
            re.fullmatch(r"[<>=|]?[?biufc][0-9]*|(bool|u?int|float)[0-9]*", kind) for kind in kinds
        ):
            raise UnsupportedData(
                f"{name} is decoded by {printable(codec)[:100]!r}, a codec that linspec does not know; some run what "
                "they decode. Write the array again with one of blosc, gzip, lz4, zstd or none. Where you trust it, "
                "read it by zarr and pass slices: lambda: (array[i : i + 1000] for i in range(0, n, 1000))."
            )


def _each(codecs: Iterable[Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield name and settings of each codec, and of those inside it, as a codec of shards has some."""
    for one in codecs:
        one = one.get_config() if hasattr(one, "get_config") else one  # zarr 3.0 does not convert some codecs
        one = one if isinstance(one, Mapping) else {"name": str(one)}
        settings = one.get("configuration") or {} if "name" in one else one
        yield str(one.get("name", one.get("id"))), settings
        yield from _each([*(settings.get("codecs") or ()), *(settings.get("index_codecs") or ())])


def hdf5_rows(path: str, name: str, part: str = "", missing: str = "warn") -> Source:
    """Make the source of a matrix in an HDF5 file."""
    with opened_hdf5(path) as file, reading(printable(path), "it"):
        return Rows(Hdf5(path, again=True), name, missing).source(file, part)


def rows_of_hdf5(node: Any) -> Source:
    """Make the source of an `h5py.Dataset`, or of the matrix in a group or a file."""
    if not node:
        raise InvalidProblem("the HDF5 file is closed. Leave it open while it is in use, or pass its path.")
    inner, path = node.name.strip("/"), node.file.filename
    return Rows(Hdf5(path, again=False), f"{printable(path)}{', ' if inner else ''}{inner}").source(node)


def opened_hdf5(path: str) -> Any:
    """Open the HDF5 file of a path for reading."""
    import h5py

    looked_at(path)
    try:
        return h5py.File(path, "r")
    except OSError as error:
        said = " ".join(str(error).split())[:200].rstrip(".")
        raise InvalidProblem(
            f"{printable(path)} cannot be read as HDF5 ({said}). It is no HDF5 file, it is damaged, or too many files "
            "are open: write it again, or raise the limit (ulimit -n)."
        ) from error


class Hdf5(Library):
    """h5py; with `again`, the file is opened for each reading, and nothing outside it is read."""

    def __init__(self, path: str, *, again: bool) -> None:
        self.path, self.again = path, again
        self.paths = (path,) if os.path.isfile(path) else ()  # noqa: PTH113  # or a file in memory

    def member(self, group: Any, key: str) -> Any:
        if not key.strip(".") or {"/", "\0"} & set(key) or not group.id.links.exists(os.fsencode(key)):
            return None
        return self._at(group, key) if self.again else group[key]

    def _at(self, place: Any, path: str) -> Any:
        """Follow a path step by step, because HDF5 would follow links to other files."""
        from h5py import h5l

        for step in filter(None, path.split("/")):
            links, key = place.id.links, os.fsencode(step)
            kind = links.get_info(key).type if links.exists(key) else None
            if kind == h5l.TYPE_HARD:
                place = place[step]
            elif kind == h5l.TYPE_SOFT:
                goal = os.fsdecode(links.get_val(key))
                place = self._at(place.file if goal.startswith("/") else place, goal)
            else:
                goal = "nothing" if kind is None else links.get_val(key)
                raise _elsewhere(self.path, f"{step} is a link to {goal}")
        return place

    def check(self, name: str, array: Any) -> None:
        if self.again and (array.external or array.is_virtual):
            raise _elsewhere(name, "the dataset has its bytes in other files or datasets")

    def reader(self, array: Any) -> Callable[[int, int], HostArray]:
        return partial(_read_again, self.path, array.name) if self.again else Dataset(self.path, array)

    def present(self, array: Any) -> tuple[tuple[int, ...] | None, int]:
        return (array.chunks, int(array.id.get_num_chunks())) if array.chunks else (None, 0)


class Dataset:
    """Reads an open dataset; another process opens its file again."""

    def __init__(self, path: str, array: Any) -> None:
        self.path, self.inner, self.array = path, array.name, array

    def __reduce__(self) -> Any:
        return partial, (_read_again, self.path, self.inner)

    def __call__(self, start: int, stop: int) -> HostArray:
        return _read(self.array, start, stop)


def _read_again(path: str, inner: str, start: int, stop: int) -> HostArray:
    with opened_hdf5(path) as file:
        return _read(file[inner], start, stop)


def _elsewhere(name: str, what: str) -> UnsupportedData:
    return UnsupportedData(
        f"{printable(name)}: {printable(what)[:300]}. linspec reads one file, and no others that it names. Where you trust it, "
        "open it with h5py and pass the dataset."
    )
