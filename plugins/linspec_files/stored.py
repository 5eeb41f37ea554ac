"""Arrays that a file holds in chunks: dense ones, and the three arrays of compressed sparse rows.

Problem: zarr arrays and HDF5 datasets are read in the same way, by slices, but describe their chunks differently.
Method: `Stored` is the interface of both; `DenseRows` and `SparseRows` make sources of one array and of three.
Source: the on-disk format of AnnData for sparse matrices: a group with the arrays data, indices and indptr, whose
attribute encoding-type is csr_matrix or csc_matrix and whose attribute shape has rows and columns. Files from before
2020 call these h5sparse_format and h5sparse_shape.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

import numpy as np
import scipy.sparse

from linspec import cost
from linspec.arrays import HOST, HostArray, working_dtype
from linspec.errors import (
    AccuracyWarning,
    InvalidProblem,
    LinspecError,
    UnsupportedData,
    called,
    shown,
    warn,
)
from linspec_files.slabs import PIECES, SLAB_BYTES, RowSource, slab_edges

SHARE = 0.25
"""Largest share of the free memory that a stripe of chunks may take."""

MOST_PIECES = 2**16
"""Largest number of chunks that are decoded for one reading: a whole array such as labels, or one row of a dense array.
An array with more chunks is refused, because decoding them one by one would take many minutes."""

MOST_LABELS = 2**20
"""Largest number of rows for which the names of rows are read; for more rows `row_names` is None."""


class Stored(ABC):
    """An array in a file.

    Attributes
    ----------
    name : str
        The name of the array in messages.
    array : object
        An object with `shape` and `dtype`, whose slices are NumPy arrays.
    chunks : tuple of int or None
        The shape of the chunks, which are decoded whole; None if single rows can be read.
    """

    def __init__(self, name: str, array: Any, chunks: tuple[int, ...] | None) -> None:
        if array.shape is None:
            raise InvalidProblem(f"{name} is an array without entries. Write it again.")
        self.name, self.array = name, array
        self.shape = tuple(int(length) for length in array.shape)
        self.dtype = np.dtype(array.dtype)
        self.chunks = chunks

    def read(self, start: int, stop: int) -> HostArray:
        """Read entries along the first axis."""
        found: HostArray = self.array[start:stop]
        return found

    def read_whole(self) -> HostArray:
        """Read all entries of an array that must be held, such as labels.

        Raises
        ------
        InvalidProblem
            It declares more entries than can be held, or its description does not fit its contents.
        """
        count = math.prod(self.shape)
        pieces = 1 if self.chunks is None else chunk_count(self.shape, self.chunks)
        if pieces > MOST_PIECES or count * self.dtype.itemsize > max(SHARE * _free_memory(), 2 * SLAB_BYTES):
            raise InvalidProblem(
                f"{self.name} declares {count:,} entries in {pieces:,} chunks: too many to be held. It is damaged, or "
                "must be written again in fewer chunks."
            )
        length = self.shape[0] if self.shape else 0
        self.stamp(0, length)
        try:
            return np.asarray(self.read(0, length))
        except (LinspecError, MemoryError):
            raise
        except Exception as error:  # each way of being broken has errors of its own
            said = " ".join(f"{type(error).__name__}: {error}".split())[:200].rstrip(".")
            raise InvalidProblem(
                f"{self.name} cannot be read ({said}). It is damaged: write it again."
            ) from error

    @property
    def stripe(self) -> int:
        """The number of rows that are decoded together."""
        return 1 if self.chunks is None else int(self.chunks[0])

    @property
    def across(self) -> int:
        """The number of chunks side by side in a stripe."""
        return 1 if self.chunks is None else chunk_count(self.shape[1:], self.chunks[1:])

    @abstractmethod
    def stamp(self, start: int, stop: int) -> Any:
        """Return a value that stays equal while the entries `start` to `stop` - 1 of the first axis do not change."""

    @abstractmethod
    def absent(self) -> tuple[int, int]:
        """Return the number of missing chunks, and of all chunks."""

    def check_absent(self, missing: str) -> None:
        """Warn of missing chunks, which the format reads as a fill value, or refuse them.

        Parameters
        ----------
        missing : {"warn", "fill", "refuse", "nan"}
            "fill": nothing is checked. "refuse": missing chunks are an error. "warn" and "nan": they lead to an
            `AccuracyWarning`.

        Raises
        ------
        InvalidProblem
            Chunks are missing, and `missing` is "refuse".
        """
        if missing == "fill":
            return
        absent, expected = self.absent()
        if not absent:
            return
        fill = getattr(self.array, "fillvalue", getattr(self.array, "fill_value", 0))
        said = (
            f"{self.name} lacks {absent} of its {expected} chunks, and its format reads them as {fill}. That is "
            f"right if "
            "they were never written, and wrong if they were lost"
        )
        if missing == "refuse":
            raise InvalidProblem(f'{said}. Restore them, or pass missing="fill" to linspec.open_rows.')
        warn(f'{said}: linspec.open_rows(..., missing="fill") or "refuse" says which.', AccuracyWarning)


class DenseRows(RowSource):
    """A two-dimensional array.

    Parameters
    ----------
    stored : Stored
    missing : {"warn", "fill", "refuse", "nan"}
        As for `linspec.open_rows`. "nan" concerns values of tables, so it treats chunks as "warn" does.

    Raises
    ------
    InvalidProblem
        The array has another number of dimensions than two, or too many rows; or chunks are missing and refused.
    UnsupportedData
        The array holds no real numbers, or decoding one row takes too many chunks or too much memory.
    """

    def __init__(self, stored: Stored, missing: str = "warn") -> None:
        if len(stored.shape) != 2:
            raise InvalidProblem(
                f"{stored.name} must have two dimensions, rows and columns; got {len(stored.shape)} with shape "
                f"{stored.shape}. Store it as a matrix."
            )
        self.name, self._stored, self.decodes = stored.name, stored, stored.chunks is not None
        self.shape = (stored.shape[0], stored.shape[1])
        self.stored_dtype = stored.dtype
        with called(stored.name):
            working_dtype(stored.dtype)
        row_bytes = self.shape[1] * stored.dtype.itemsize
        pieces = 0 if stored.chunks is None else stored.across
        if pieces > MOST_PIECES:
            raise UnsupportedData(
                f"{stored.name} has {pieces:,} chunks side by side: to read one row takes too long. Write it again in "
                "chunks of all columns."
            )
        with called(stored.name):
            self.edges = slab_edges(self.shape[0], stored.stripe, row_bytes, pieces)
        self._check_memory(int(np.diff(self.edges).max(initial=0)), row_bytes)
        stored.check_absent(missing)

    def _check_memory(self, rows: int, row_bytes: int) -> None:
        free = _free_memory()
        if rows * row_bytes > max(SHARE * free, 2 * SLAB_BYTES):
            raise UnsupportedData(
                f"{self.name} has chunks of {self._stored.stripe} rows: to read one row takes "
                f"{cost.human_bytes(rows * row_bytes)}, and {cost.human_bytes(free)} are free. Write it again "
                f"in chunks "
                f"of fewer rows and all columns, such as {(max(1, SLAB_BYTES // max(row_bytes, 1)), self.shape[1])}."
            )

    def read(self, rows: slice) -> HostArray:
        """Decode the rows of a slab."""
        return np.asarray(self._stored.read(rows.start, rows.stop))

    def stamp(self, rows: slice) -> Any:
        """Return the stamp of the array."""
        return self._stored.stamp(rows.start, rows.stop)


class SparseRows(RowSource):
    """Compressed sparse rows in three arrays.

    Parameters
    ----------
    name : str
    parts : mapping of str to Stored
        data, indices and indptr.
    shape : tuple of int
    missing : {"warn", "fill", "refuse", "nan"}
        As for `linspec.open_rows`. "nan" concerns values of tables, so it treats chunks as "warn" does.

    Raises
    ------
    InvalidProblem
        The arrays do not fit together, or chunks are missing and refused.
    UnsupportedData
        The entries are no real numbers.
    """

    sparse = True

    def __init__(
        self, name: str, parts: Mapping[str, Stored], shape: tuple[int, int], missing: str = "warn"
    ) -> None:
        self.name, self.shape = name, shape
        self._data, self._indices = parts["data"], parts["indices"]
        self.decodes = self._data.chunks is not None
        with called(name):
            self.stored_dtype = dtype_of_sparse(self._data.dtype)
        starts = checked_starts(name, parts, shape, shape[0], missing)
        self._starts = starts
        self.edges = compressed_edges(starts, self._data, self._indices)

    @property
    def stored(self) -> int:
        return int(self._starts[-1])

    @property
    def slab_bytes(self) -> int:
        """Size of the entries and indices of the largest slab."""
        entry: int = self.stored_dtype.itemsize + self._indices.dtype.itemsize
        return int(np.diff(self._starts[self.edges]).max(initial=0)) * entry

    def read(self, rows: slice) -> Any:
        """Decode the rows of a slab to a `scipy.sparse.csr_array`."""
        start, stop = int(self._starts[rows.start]), int(self._starts[rows.stop])
        index = np.int32 if max(self.shape[1], stop - start) < 2**31 else np.int64
        matrix = scipy.sparse.csr_array((rows.stop - rows.start, self.shape[1]), dtype=self.stored_dtype)
        # The constructor of SciPy would check the indices; the operator of the rows does that, with better errors.
        matrix.data = np.asarray(self._data.read(start, stop)).astype(self.stored_dtype, copy=False)
        matrix.indices = np.asarray(self._indices.read(start, stop)).astype(index, copy=False)
        matrix.indptr = (self._starts[rows.start : rows.stop + 1] - start).astype(index)
        return matrix

    def stamp(self, rows: slice) -> Any:
        """Return the stamps of the entries and of the indices."""
        start, stop = int(self._starts[rows.start]), int(self._starts[rows.stop])
        return self._data.stamp(start, stop), self._indices.stamp(start, stop)


def dtype_of_sparse(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the dtype in which SciPy holds sparse entries: it has neither half precision nor foreign byte orders.

    Raises
    ------
    UnsupportedData
        The entries are no real numbers.
    """
    working_dtype(dtype)
    return np.dtype(np.float32) if dtype.str[1:] == "f2" else dtype.newbyteorder("=")


def compressed_edges(starts: HostArray, data: Stored, indices: Stored) -> HostArray:
    """Return the edges of slabs of compressed rows or columns, with about equally many bytes and several chunks each.

    Parameters
    ----------
    starts : numpy.ndarray of int
        The place of the first entry of each row or column.
    data, indices : Stored
    """
    entry = data.dtype.itemsize + indices.dtype.itemsize
    stripes = [1 if part.chunks is None else part.stripe for part in (data, indices)]
    entries = max(SLAB_BYTES // entry, 4 * max(stripes))
    if data.chunks is not None and indices.chunks is not None:
        entries = min(entries, PIECES * max(stripes))
    marks = np.arange(entries, max(int(starts[-1]), 1), entries)
    edges = np.concatenate([[0], np.searchsorted(starts, marks), [len(starts) - 1]])
    return np.unique(edges).astype(np.intp)


def checked_starts(
    name: str, parts: Mapping[str, Stored], shape: tuple[int, int], lines: int, missing: str
) -> HostArray:
    """Read the places where the rows or columns of a compressed matrix begin; check that its three arrays fit.

    Parameters
    ----------
    name : str
    parts : mapping of str to Stored
        data, indices and indptr.
    shape : tuple of int
    lines : int
        The number of compressed rows, or of compressed columns.
    missing : {"warn", "fill", "refuse", "nan"}
        How to treat missing chunks: see `Stored.check_absent`. "warn" and "nan" hold for indptr only:
        missing chunks of data and indices are refused then, because zeros there make another matrix.

    Returns
    -------
    numpy.ndarray of int64, shape (lines + 1,)
        The place in data and indices of the first entry of each row or column; the last number is the number of
        entries.

    Raises
    ------
    InvalidProblem
        indptr does not hold `lines` + 1 whole numbers that begin with 0 and never decrease, data or indices have
        another number of entries than its last number, or chunks are missing and refused.
    """
    for key, part in parts.items():  # zeros are plausible at the start of indptr only
        if key == "indptr" and not math.prod(parts["data"].shape):
            continue  # all of it is 0, correctly
        part.check_absent("refuse" if missing in ("warn", "nan") and key != "indptr" else missing)
    starts = parts["indptr"].read_whole()
    lengths = (parts["data"].shape, parts["indices"].shape)
    if (
        starts.dtype.kind not in "iu"
        or starts.shape != (lines + 1,)
        or lengths != ((int(starts[-1]),),) * 2
        or starts[0] != 0
        or (np.diff(starts.astype(np.int64)) < 0).any()
    ):
        raise InvalidProblem(
            f"{name} is no matrix of compressed sparse {'rows' if lines == shape[0] else 'columns'}: indptr has "
            f"shape {starts.shape} and ends at {starts[-1:].tolist()}, data and indices have {lengths[0]} and "
            f"{lengths[1]} entries, for shape {shape}. The file is damaged: write it again."
        )
    return starts.astype(np.int64)


def sparse_kind(attributes: Mapping[str, Any], name: str) -> tuple[str, tuple[int, int]] | None:
    """Return the kind of a sparse matrix in a group, "csr" or "csc", and its shape; None for other groups.

    Raises
    ------
    InvalidProblem
        The group states no valid shape.
    """
    kind = text_of(attributes.get("encoding-type", attributes.get("h5sparse_format", "")))[:3]
    if kind not in ("csr", "csc"):
        return None
    shape = np.asarray(attributes.get("shape", attributes.get("h5sparse_shape", ()))).reshape(-1)
    if shape.shape != (2,) or shape.dtype.kind not in "iu" or shape.min() < 0:
        raise InvalidProblem(
            f"{name} must have an attribute shape of rows and columns; got {shown(shape)}. Write it again."
        )
    return kind, (int(shape[0]), int(shape[1]))


def text_of(value: Any) -> str:
    """Convert an attribute to a text; old files keep texts as bytes."""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def chunk_count(shape: tuple[int, ...], chunks: tuple[int, ...]) -> int:
    """Return the number of chunks of an array."""
    return math.prod(-(-length // size) for length, size in zip(shape, chunks, strict=True))


def _free_memory() -> int:
    """Return the free memory of this machine in bytes."""
    return HOST.free_memory()
