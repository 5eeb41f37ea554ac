"""Arrays in files of NumPy, zarr and HDF5: the choice of a matrix, and the names of rows and columns from AnnData.

Problem: a file holds several arrays, dense or sparse, and AnnData puts the names of rows and columns beside them. Both
formats read a chunk that is not there as a fill value. An HDF5 file may refer to other files, and an array of zarr
names the codecs that decode it, of which some run what they decode.
Method: `.npy` files are mapped slab by slab, matrices in `.npz` files are held. zarr and h5py are asked in the same
way. In AnnData the matrix is ``X``, unless a part is named:
``layers/counts``, ``obsm/X_pca``. Its columns are the variables, so they have names, except for those of obsm; its
rows are the observations. In other groups it is the only array, or the named part. The chunks that exist are counted
when a matrix is opened. Codecs that linspec does not know are refused, as are HDF5 files with links to others, and all
files of a folder of zarr are looked at before zarr opens one. An HDF5 file of a path is open only while it is read: a
pattern may stand for more files than a process may open.
Source: https://anndata.readthedocs.io, the on-disk format: a data frame has the attribute _index, which names the array
of its labels: texts, categories, or, as anndata 0.13 writes it, a nullable array of values and a mask of those that are
missing. A sparse matrix is a group of the arrays data, indices and indptr. https://zarr-specs.readthedocs.io.
https://www.10xgenomics.com, feature-barcode matrices in HDF5: features x cells by columns, which are cells x features
by rows. MATLAB, MAT-files of version 7.3: matrices by columns, which HDF5 shows transposed; sparse: data, ir and jc.
https://loompy.org: genes x cells. https://docs.unidata.ucar.edu/netcdf-c: what is written where nothing was, and the
attributes by which numbers are missing, packed or out of bounds; xarray puts them into zarr.
Where we differ for objects of zarr and h5py: the user has opened and so chosen them; their data may be in other files.
"""

from __future__ import annotations

import base64
import json
import math
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse

from linspec.arrays import HostArray, working_dtype
from linspec.errors import AccuracyWarning, InvalidProblem, UnsupportedData, called, printable, warn
from linspec.operators import LinearOperator, RowFiles, SparseOperator, mapped, read_npz
from linspec.process import check_memory
from linspec_files.slabs import (
    MOST_LABELS,
    MOST_PIECES,
    PIECES,
    FileRows,
    Source,
    dense,
    files_below,
    held,
    of_files,
    reading,
    slab_bytes,
    stamp,
    without_part,
)

BY_VARIABLE = ("X", "layers", "raw")
"""Parts of AnnData whose columns are the variables."""

CODECS = frozenset(
    [
        "blosc", "bz2", "gzip", "lz4", "lzma", "zlib", "zstd",
        "adler32", "crc32", "crc32c", "fletcher32", "jenkins_lookup3", "shuffle",
        "astype", "bitround", "delta", "fixedscaleoffset", "packbits", "pcodec", "quantize", "zfpy",
        "vlen-utf8", "vlen-bytes", "bytes", "endian", "transpose", "sharding_indexed", "regular",
    ]
)  # fmt: skip
"""Codecs that turn bytes into bytes, numbers and texts, and do nothing else; and the grid of equal chunks. Format 3
puts "numcodecs." before some."""


CHANGED_BY = frozenset(
    {"scale_factor", "add_offset", "_Unsigned", "valid_min", "valid_max", "valid_range", "MATLAB_empty"}
)
"""Attributes by which the numbers of an array are not the data as they stand."""

NEVER_WRITTEN = (
    -127, 255, -32767, 65535, -2147483647, 4294967295,
    -9223372036854775806, 18446744073709551614, 9.969209968386869e36,
)  # fmt: skip
"""What netCDF writes where nothing was written, for each dtype, and then reads as missing. In HDF5 its arrays have the
attribute DIMENSION_LIST."""


# ---- files of NumPy -------------------------------------------------------------------------------------------


def of_numpy(files: RowFiles) -> LinearOperator:
    """Make the operator of `.npy` files, or of the named or only matrix of `.npz` files; a vector becomes a column."""
    if files.suffix == ".npz":
        return of_files(files, lambda path: held(printable(path), read_npz(path, files.part)))
    without_part(files, "one array, whose columns have no names,")

    def of_file(path: str) -> LinearOperator:
        array = mapped(path)
        shape = (*array.shape, 1) if array.ndim == 1 else array.shape
        return dense(printable(path), shape, array.dtype, partial(_read_npy, path), path)

    return of_files(files, of_file)


def _read_npy(path: str, start: int, stop: int) -> HostArray:
    """Copy some rows of a new map: it looks at the size of the file again, and is closed at once."""
    array = mapped(path)
    return np.array(array[start:stop]).reshape(stop - start, *(array.shape[1:] or (1,)))


# ---- zarr, HDF5 and AnnData -----------------------------------------------------------------------------------


def of_zarr(files: RowFiles) -> LinearOperator:
    """Make the operator of folders of zarr."""
    import zarr

    def read(path: str) -> LinearOperator:
        stamp([path])  # refuses pipes and devices
        with reading(printable(path), "it"):
            for file in filter(Path.is_file, (Path(path, "zarr.json"), Path(path, ".zarray"))):
                check_codecs(printable(path), json.loads(file.read_bytes()))
            return Node(zarr.open(path, mode="r"), printable(path), path, files.missing).matrix(files.part)

    return of_files(files, read)


def of_hdf5(files: RowFiles) -> LinearOperator:
    """Make the operator of HDF5 files, or of AnnData in them."""
    import h5py

    def read(path: str) -> LinearOperator:
        with reading(printable(path), "it as HDF5"), h5py.File(path, "r") as file:
            link = file.visititems_links(
                lambda _, target: target if isinstance(target, h5py.ExternalLink) else None
            )
            if link is not None:
                raise _elsewhere(printable(path), f"a link to {printable(link.filename)[:200]}")
            return Node(file, printable(path), path, files.missing, again=True).matrix(files.part)

    return of_files(files, read)


def of_object(data: Any) -> LinearOperator:
    """Make the operator of an array, a group or a file of zarr or h5py, or of a sparse matrix of anndata in one."""
    data = getattr(data, "group", data)
    if hasattr(data, "store_path"):
        place = data.store_path
        path = os.path.join(getattr(place.store, "root", ""), place.path)  # noqa: PTH118
        name = str(place).removeprefix("file://")
    elif not data:
        raise InvalidProblem("the HDF5 file is closed. Leave it open while it is in use, or pass its path.")
    else:
        path, inner = data.file.filename, data.name.strip("/")
        name = f"{path}{', ' * bool(inner)}{inner}"
    return Node(data, printable(name), path if os.path.exists(path) else "", "warn").matrix()  # noqa: PTH110


def _elsewhere(name: str, what: str) -> UnsupportedData:
    return UnsupportedData(
        f"{name} has {what}. linspec reads one file, and no others that it names. Where you trust it, open it with "
        "h5py and pass the dataset; what is not in the other files h5py reads as the fill value, and does not say so."
    )


@dataclass(frozen=True)
class Node:
    """An array or a group of zarr or h5py.

    Attributes
    ----------
    node : object
    name : str
        Its name in messages.
    path : str
        The file or the folder that is compared in each pass.
    missing : {"warn", "fill", "refuse", "nan"}
        How to treat missing chunks.
    again : bool
        Whether the file of a dataset is opened again for each reading.
    """

    node: Any
    name: str
    path: str
    missing: str
    again: bool = False

    @property
    def is_array(self) -> bool:
        """Whether it is an array."""
        return hasattr(self.node, "dtype")

    @property
    def kind(self) -> str:
        """The type of the element, as AnnData states it: "csr", "csc", "ann", or another or none."""
        if self.is_of_cells:
            return "csr"  # columns of its features are rows of cells
        if "MATLAB_sparse" in self.node.attrs:
            return "csc"
        return str(self.node.attrs.get("encoding-type", ""))[:3]

    @property
    def is_of_cells(self) -> bool:
        """Whether it is a matrix of features x cells as 10x Genomics writes it, compressed by cells."""
        return not self.is_array and all(key in self.node for key in ("barcodes", "indptr", "shape"))

    @property
    def listed(self) -> str:
        """What is in a group, for messages."""
        return "one array" if self.is_array else ", ".join(map(str, self.node))[:200] or "nothing"

    def member(self, key: str) -> Node:
        """Return the member at a path below a group."""
        if self.is_array or "\0" in key or key not in self.node:
            raise InvalidProblem(f"{self.name} has no part {key!r}: it holds {self.listed}.")
        return replace(self, node=self.node[key], name=f"{self.name}, {printable(key)}")

    # ---- arrays -------------------------------------------------------------------------------------------

    def reader(self, missing: str) -> Any:
        """Return a function that reads entries along the first axis, after a check of codecs and chunks."""
        node = self.node
        if not self.is_array or node.shape is None:
            raise InvalidProblem(f"{self.name} must be an array with entries. Write the file again.")
        if hasattr(node, "metadata"):
            check_codecs(self.name, node.metadata.to_dict())
        elif self.again and (node.external or node.is_virtual):
            raise _elsewhere(self.name, "its bytes in other files or datasets")
        if missing != "fill" and self.chunks and 0 not in node.shape:
            self._check_chunks(missing)
        return partial(_read_again, self.path, node.name) if self.again else partial(_read, node)

    @property
    def chunks(self) -> tuple[int, ...] | None:
        """The shape of the chunks, or of the shards; None for an array without chunks."""
        return getattr(self.node, "shards", None) or self.node.chunks

    def _check_chunks(self, missing: str) -> None:
        """Warn of missing chunks, or refuse them, as `linspec.open_rows` describes."""
        node, chunks = self.node, self.chunks or ()
        expected = math.prod(-(-size // length) for size, length in zip(node.shape, chunks, strict=True))
        if not hasattr(node, "metadata"):
            present = node.id.get_num_chunks()
        elif type(node.store_path.store).__name__ == "LocalStore":
            files = files_below(os.path.join(node.store_path.store.root, node.store_path.path))  # noqa: PTH118
            names = (os.path.basename(file) for file in files if os.path.isfile(file))  # noqa: PTH113, PTH119
            present = sum(not name.startswith((".", "zarr.json")) for name in names)
        else:
            present = node.nchunks_initialized * expected // node.nchunks
        if present >= expected:
            return
        message = (
            f"{self.name} lacks {expected - present} of its {expected} chunks, and its format reads them as a fill "
            "value. That is right if they were never written, and wrong if they were lost"
        )
        if missing == "refuse":
            raise InvalidProblem(f'{message}. Restore them, or pass missing="fill" to linspec.open_rows.')
        warn(f'{message}: linspec.open_rows(..., missing="fill") or "refuse" says which.', AccuracyWarning)

    def line(self, missing: str = "fill") -> HostArray:
        """Read an array of one dimension, such as labels."""
        read, shape = self.reader(missing), self.node.shape
        check_memory(self.name, 16 * math.prod(shape), f"an array of {shape[:1]} entries", "Is it damaged?")
        if len(shape) != 1 or shape[0] > MOST_PIECES * (self.chunks or shape)[0]:
            raise InvalidProblem(
                f"{self.name} must have one dimension and few chunks; got the shape {shape} in chunks {self.chunks}. "
                "It is damaged, or must be written again."
            )
        return np.asarray(read(0, shape[0]))

    # ---- matrices -----------------------------------------------------------------------------------------

    def matrix(self, part: str = "") -> LinearOperator:
        """Make the operator of an array, or of a matrix in a group: the part, X of an AnnData, or the only one.

        Raises
        ------
        InvalidProblem
            There is no such matrix, or there are several and none was named; or missing chunks are refused.
        UnsupportedData
            The part is no matrix of real numbers.
        """
        annotated = self.kind == "ann" or (
            not self.is_array and all(key in self.node for key in ("obs", "var", "X"))
        )
        chosen = part.strip("/") or ("X" if annotated else self._only())
        member = self.member(chosen) if chosen else self
        node = member.node
        if member.is_array:
            if node.attrs.get("MATLAB_class") == b"char" or CHANGED_BY.intersection(node.attrs):
                raise UnsupportedData(
                    f"{member.name} holds packed numbers, with a scale_factor or add_offset, or others that netCDF "
                    "would change (_Unsigned, valid_range), or text or nothing of MATLAB. Pass what xarray or netCDF4 "
                    "makes of them, or name a matrix of numbers with part=."
                )
            step = -1 if self.again and _is_turned(node) else 1
            shape = (node.shape or ())[::step]
            dtype = np.dtype(node.dtype)
            read = member.reader(self.missing)
            absent = member.absent if dtype.kind in "iuf" else None
            if absent:
                read, dtype = partial(_with_gaps, read, absent), np.result_type(dtype, np.float32)
            chunks = member.chunks and member.chunks[::step]
            operator: LinearOperator = dense(member.name, shape, dtype, read, self.path, chunks)
        else:
            operator = member._compressed()
        if annotated:
            self._label(operator, chosen.partition("/")[0])
        elif member.is_of_cells or (self.again and "row_attrs" in self.node):
            (member if member.is_of_cells else self)._label_cells(operator)
        return operator

    @property
    def absent(self) -> set[float]:
        """The numbers that stand for missing ones, as netCDF, xarray and R declare them."""
        node, attributes = self.node, self.node.attrs
        of_zarr = hasattr(node, "metadata")
        fill = np.asarray(node.fill_value if of_zarr else node.fillvalue).tolist()
        of_xarray = of_zarr and "_ARRAY_DIMENSIONS" in attributes and node.metadata.zarr_format == 2
        declared = of_xarray or ("DIMENSION_LIST" in attributes and fill in NEVER_WRITTEN)
        named = [
            attributes.get("_FillValue"),
            attributes.get("missing_value"),
            fill if declared else None,
            -2147483648 if "rhdf5-NA.OK" in attributes else None,
        ]
        with reading(self.name, "its _FillValue or missing_value"):
            # In format 3 of zarr xarray writes the eight bytes of a number, which end in "=".
            numbers = [np.frombuffer(base64.b64decode(v)) if str(v).endswith("=") else v for v in named]
            absent = np.concatenate(numbers, axis=None, dtype=object).astype(float)
        return {*absent[np.isfinite(absent)].tolist()}

    def _only(self) -> str:
        """Return the name of the only matrix in a group; "" for an array, and for a group that is a sparse matrix."""
        if self.is_array or self.kind in ("csr", "csc"):
            return ""
        members = ((str(key), replace(self, node=self.node.get(key))) for key in self.node)
        keys = [
            key for key, it in members if it.node is not None and (it.is_array or it.kind in ("csr", "csc"))
        ]
        if len(keys) != 1:
            raise InvalidProblem(
                f"{self.name} holds {len(keys) or 'no'} matrices ({self.listed}). Name one with part=, or on the "
                "command line FILE:NAME."
            )
        return keys[0]

    def _compressed(self) -> LinearOperator:
        """Make the operator of a matrix of compressed rows, or read one of compressed columns and turn it."""
        shape = np.asarray(self.node.attrs.get("shape", ()))
        keys = ("data", "indices", "indptr")
        if self.is_of_cells:
            shape = self.member("shape").line()[::-1]
        elif "MATLAB_sparse" in self.node.attrs:
            keys = ("data", "ir", "jc")
            shape = np.array(
                [self.node.attrs["MATLAB_sparse"], self.member("jc").node.size - 1], dtype=np.intp
            )
        if self.kind not in ("csr", "csc") or shape.shape != (2,) or shape.dtype.kind not in "iu":
            raise UnsupportedData(
                f"{self.name} must be an array, or a compressed sparse matrix with its shape; got a group with "
                f"{self.listed}. Name a matrix in it with part=, or pass what the library that wrote it reads: of a "
                "frame of pandas, pandas.read_hdf(path)."
            )
        parts = [self.member(key) for key in keys[:2]]
        strict = "fill" if self.missing == "fill" else "refuse"  # zeros there make another matrix
        reads = [part.reader(strict) for part in parts]
        # Zeros are plausible in indptr, too.
        ends = self.member(keys[2]).line(self.missing if parts[0].node.size else "fill")
        n, p = map(int, shape)
        starts, lengths = ends.astype(np.int64), [part.node.shape for part in parts]
        if (
            ends.dtype.kind not in "iu"
            or len(starts) != (n if self.kind == "csr" else p) + 1
            or lengths != [(starts[-1],)] * 2
            or starts[0] != 0
            or (np.diff(starts) < 0).any()
        ):
            raise InvalidProblem(
                f"{self.name} is no compressed sparse matrix: its indptr, data and indices do not fit the shape "
                f"{(n, p)}. The file is damaged: write it again."
            )
        stored = np.dtype(parts[0].node.dtype)
        working_dtype(stored, self.name)
        # SciPy has neither half precision nor foreign byte orders.
        dtype = np.dtype(np.float32) if stored.str[1:] == "f2" else stored.newbyteorder("=")
        read = partial(
            _read_compressed, f"{self.kind}_array", reads, starts, p if self.kind == "csr" else n, dtype
        )
        entries = int(starts[-1])
        if self.kind == "csc":
            check_memory(self.name, 2 * (dtype.itemsize + 8) * entries, "turning its columns into rows")
            with called(self.name):
                return held(self.name, SparseOperator(read(0, p)).matrix)
        stripe = max((part.chunks or (1,))[0] for part in parts)
        most = max(slab_bytes() // (dtype.itemsize + 4), 4 * stripe)
        most = min(most, PIECES * stripe) if stripe > 1 else most
        edges = np.searchsorted(starts, np.arange(most, max(entries, 1), most))
        edges = np.unique([0, *edges, n]).astype(np.intp)
        paths = [self.path] * bool(self.path)
        decodes = parts[0].chunks is not None
        return FileRows(
            Source(self.name, (n, p), dtype, edges, read, paths, entries, sparse=True, decodes=decodes)
        )

    # ---- labels --------------------------------------------------------------------------------

    def _label_cells(self, operator: LinearOperator) -> None:
        """Give a matrix of cells its barcodes, and the names of features, or their ids where a name occurs twice."""
        n, p = operator.shape
        for key in ("features/name", "features/id", "gene_names", "genes", "row_attrs/Gene"):
            names = self.member(key)._texts() if key in self.node else []
            if len(set(names)) == len(names) == p:
                operator.column_names = tuple(names)
                break
        key = "barcodes" if "barcodes" in self.node else "col_attrs/CellID"
        if n <= MOST_LABELS and key in self.node:
            names = self.member(key)._texts()
            operator.row_names = names if len(names) == n else None

    def _label(self, operator: LinearOperator, axis: str) -> None:
        """Give the matrix of an AnnData the names of its columns and rows."""
        n, p = operator.shape
        if axis in BY_VARIABLE:
            names = (self.member("raw") if axis == "raw" else self).member("var")._index()
            if len(names) != p:
                raise InvalidProblem(
                    f"{self.name} has {p} columns, and the file names {len(names)} variables. Write it again."
                )
            if len(set(names)) == p:  # otherwise they do not identify columns
                operator.column_names = tuple(names)
        if axis in (*BY_VARIABLE, "obsm") and n <= MOST_LABELS:
            names = self.member("obs")._index()
            operator.row_names = names if len(names) == n else None

    def _index(self) -> list[str]:
        """Return the labels of a data frame."""
        return self.member(str(self.node.attrs.get("_index", "_index")))._texts()

    def _texts(self) -> list[str]:
        """Return the texts of an array, of a nullable array, or of categories."""
        if self.is_array:
            return [
                value.decode() if isinstance(value, bytes) else str(value) for value in self.line().tolist()
            ]
        if "mask" in self.node:
            texts, gone = self.member("values")._texts(), self.member("mask").line()
            if gone.dtype != bool or len(gone) != len(texts):
                raise InvalidProblem(f"{self.name}, mask must hold {len(texts)} bools. Write it again.")
            return ["<NA>" if missing else text for text, missing in zip(texts, gone.tolist(), strict=True)]
        codes, texts = self.member("codes").line(), self.member("categories")._texts()
        if codes.dtype.kind not in "iu" or not set(codes.tolist()) <= set(range(len(texts))):
            raise InvalidProblem(
                f"{self.name} has codes that are none of its {len(texts)} categories. Write it again."
            )
        return [texts[code] for code in codes.tolist()]


def _read(array: Any, start: int, stop: int) -> HostArray:
    return array[start:stop]


def _read_again(path: str, inner: str, start: int, stop: int) -> HostArray:
    import h5py

    with h5py.File(path, "r") as file:
        node = file[inner]
        return node[:, start:stop].T if _is_turned(node) else _read(node, start, stop)


def _is_turned(array: Any) -> bool:
    """Whether an array is a matrix of MATLAB or Octave, or of genes x cells in a loom file, and so a transpose."""
    of_loom = "row_attrs" in array.file and re.fullmatch("/matrix|/layers/.*", array.name)
    return array.ndim == 2 and bool(
        of_loom or "MATLAB_class" in array.attrs or "OCTAVE_NEW_FORMAT" in array.parent.attrs
    )


def _with_gaps(read: Any, absent: set[float], start: int, stop: int) -> HostArray:
    """Read some rows, with NaN where a number stands for a missing one."""
    rows = read(start, stop)
    rows = rows.astype(np.result_type(rows, np.float32))
    with np.errstate(over="ignore"):  # -1.8e308 among numbers of float32
        for number in absent:
            rows[rows == number] = np.nan
    return rows


def _read_compressed(
    kind: str, reads: Any, starts: HostArray, width: int, dtype: Any, first: int, last: int
) -> Any:
    """Read some rows of a `csr_array`, or columns of a `csc_array`, of `width` columns or rows."""
    start, stop = int(starts[first]), int(starts[last])
    data, indices = (np.asarray(read(start, stop)) for read in reads)
    index = np.int32 if max(width, stop - start) < 2**31 else np.int64
    places = indices.astype(index, copy=False)
    shape = (last - first, width) if kind == "csr_array" else (width, last - first)
    matrix = getattr(scipy.sparse, kind)(shape, dtype=dtype)
    # The constructor of SciPy would check the indices; the operator of the rows does that, with better errors.
    matrix.data, matrix.indptr = (
        data.astype(dtype, copy=False),
        (starts[first : last + 1] - start).astype(index),
    )
    matrix.indices = places if np.can_cast(indices.dtype, index) or (places == indices).all() else indices
    return matrix


def check_codecs(name: str, description: Mapping[str, Any]) -> None:
    """Refuse an array that names a codec which is not known here, before any of its entries is decoded."""
    listed = [
        *(description.get("filters") or ()),
        description.get("compressor"),
        *(description.get("codecs") or ()),
        description.get("chunk_grid"),
    ]
    for codec, settings in _named_settings(listed):
        kinds = [
            str(settings.get(key) or "f8") for key in ("dtype", "astype", "encode_dtype", "decode_dtype")
        ]
        if codec.removeprefix("numcodecs.") not in CODECS or not all(
            re.fullmatch(r"[<>=|]?[?biufc][0-9]*|(bool|u?int|float)[0-9]*", kind) for kind in kinds
        ):
            raise UnsupportedData(
                f"{name} is decoded by {printable(codec)[:100]!r}, a codec or a grid of chunks that linspec does not "
                "know; some codecs run what they decode. Write the array again in equal chunks, with one of blosc, "
                "gzip, lz4, zstd or none. Where you trust it, read it by zarr and pass slices: "
                "lambda: (array[i : i + 1000] for i in range(0, n, 1000))."
            )


def _named_settings(codecs: Iterable[Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield name and settings of each codec, and of those inside it, as a codec of shards has some."""
    for codec in filter(None, codecs):
        # zarr 3.0 does not convert some codecs
        codec = codec.get_config() if hasattr(codec, "get_config") else codec
        codec = codec if isinstance(codec, Mapping) else {"name": str(codec)}
        settings = codec.get("configuration") or codec
        yield str(codec.get("name", codec.get("id"))), settings
        yield from _named_settings([*settings.get("codecs", ()), *settings.get("index_codecs", ())])
