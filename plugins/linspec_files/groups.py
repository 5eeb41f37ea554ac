"""Arrays and groups of zarr and HDF5: the choice of a matrix in them, and the names of rows and columns from AnnData.

Problem: a file holds several arrays, dense or sparse, and AnnData puts the names of rows and columns beside them. Both
formats read a chunk that is not there as a fill value. A file may name other files, and what decodes it.
Method: groups of zarr and of h5py are read in the same way, by the few questions of a `Library`. In AnnData the matrix
is ``X``, unless a part is named: ``layers/counts``, ``obsm/X_pca``. Its columns are the variables, so they have names,
except for those of obsm; its rows are the observations. In other groups it is the only array, or the named part. The
existing chunks are counted when a matrix is opened. A matrix that is compressed by columns is read whole, and turned.
Source: https://anndata.readthedocs.io, the on-disk format: an AnnData has the attribute encoding-type anndata (old
files have none, and the groups obs, var and X), a data frame the attribute _index, which names the array of its labels.
That is an array of texts, categories, or, as anndata 0.13 writes it, a nullable array: values, and a mask of those that
are missing. A sparse matrix is a group with the arrays data, indices and indptr and the attributes encoding-type and
shape (before 2020: h5sparse_format and h5sparse_shape).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse

from linspec import cost
from linspec.arrays import HOST, HostArray, working_dtype
from linspec.errors import AccuracyWarning, InvalidProblem, UnsupportedData, called, printable, shown, warn
from linspec.operators import SparseOperator
from linspec_files.slabs import (
    MOST_LABELS,
    MOST_PIECES,
    PIECES,
    SHARE,
    SLAB_BYTES,
    Source,
    dense,
    held,
    reading,
)

MOST = 0.5
"""Largest share of the free memory that a matrix by columns may take while it is turned."""

LISTED = 10
"""Largest number of names that a message lists."""


class Library(ABC):
    """What zarr and h5py answer in different ways.

    Attributes
    ----------
    paths : tuple of str
        The files that are compared in each pass.
    """

    paths: tuple[str, ...] = ()

    @abstractmethod
    def member(self, group: Any, key: str) -> Any:
        """Return a member of a group, or None; raise if it leads out of the file."""

    @abstractmethod
    def check(self, name: str, array: Any) -> None:
        """Refuse an array whose bytes are elsewhere, or are decoded by what runs them."""

    @abstractmethod
    def reader(self, array: Any) -> Callable[[int, int], HostArray]:
        """Return a function that reads entries along the first axis."""

    @abstractmethod
    def present(self, array: Any) -> tuple[tuple[int, ...] | None, int]:
        """Return the shape of a chunk, None without chunks, and the number of chunks that exist."""


@dataclass
class Stored:
    """An array in a file; `expected` and `absent` count its chunks."""

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    read: Callable[[int, int], HostArray]
    chunks: tuple[int, ...] | None
    expected: int
    absent: int
    fill: Any

    def check_absent(self, missing: str) -> None:
        """Warn of missing chunks, or refuse them, or do nothing, as `linspec.open_rows` describes."""
        if missing == "fill" or self.absent <= 0:
            return
        said = (
            f"{self.name} lacks {self.absent} of its {self.expected} chunks, and its format reads them as {self.fill}. "
            "That is right if they were never written, and wrong if they were lost"
        )
        if missing == "refuse":
            raise InvalidProblem(f'{said}. Restore them, or pass missing="fill" to linspec.open_rows.')
        warn(f'{said}: linspec.open_rows(..., missing="fill") or "refuse" says which.', AccuracyWarning)

    def whole(self) -> HostArray:
        """Read all entries of an array that must be held, such as labels."""
        count = math.prod(self.shape)
        if self.expected > MOST_PIECES or count * self.dtype.itemsize > max(
            SHARE * HOST.free_memory(), 2 * SLAB_BYTES
        ):
            raise InvalidProblem(
                f"{self.name} declares {count:,} entries in {self.expected:,} chunks: too many to be held. It is "
                "damaged, or must be written again in fewer chunks."
            )
        with reading(self.name, "it"):
            return np.asarray(self.read(0, self.shape[0] if self.shape else 0))


@dataclass
class Rows:
    """Reads matrices and labels of a file.

    Attributes
    ----------
    library : Library
    name : str
        The name of the file in messages.
    missing : {"warn", "fill", "refuse", "nan"}
        How to treat missing chunks.
    """

    library: Library
    name: str
    missing: str = "warn"

    def source(self, node: Any, part: str = "") -> Source:
        """Make the source of an array, or of a matrix in a group: the part, X of an AnnData, or the only one.

        Raises
        ------
        InvalidProblem
            There is no such matrix, or there are several and none was named; or missing chunks are refused.
        UnsupportedData
            The part is no matrix of real numbers, or reading its rows takes too many chunks or too much memory.
        """
        if is_array(node):
            if part:
                raise InvalidProblem(f"{self.name} is one array and has no part {part!r}. Leave part out.")
            return self._matrix(node, self.name)
        kind = text_of(node.attrs.get("encoding-type", ""))
        annotated = kind == "anndata" or (
            not kind and all(self.library.member(node, key) is not None for key in ("obs", "var", "X"))
        )
        chosen = part or ("X" if annotated else self._only(node))
        matrix, walked = node, list[str]()
        for step in chosen.strip("/").split("/") if chosen else ():
            below = None if is_array(matrix) else self.library.member(matrix, step)
            if below is None:
                there = "an array" if is_array(matrix) else _listed(matrix)
                raise InvalidProblem(
                    f"{self.name} has no part {chosen!r}: {'/'.join(walked) or 'the file'} holds {there}."
                )
            matrix = below
            walked.append(step)
        found = self._matrix(matrix, f"{self.name}, {chosen}" if chosen else self.name)
        if annotated:
            self._label(found, node, walked[0])
        return found

    def _only(self, node: Any) -> str:
        """Return the name of the only matrix in a group; "" if the group itself is a sparse matrix."""
        if sparse_kind(node, self.name) is not None:
            return ""
        members = {str(key): self.library.member(node, str(key)) for key in node}
        keys = [
            key for key, one in members.items() if is_array(one) or sparse_kind(one, f"{self.name}, {key}")
        ]
        if len(keys) != 1:
            raise InvalidProblem(
                f"{self.name} holds {len(keys) or 'no'} matrices ({_listed(node)}). Name one with part=, or on the "
                "command line FILE:NAME."
            )
        return keys[0]

    def _stored(self, node: Any, name: str) -> Stored:
        if node is None or not is_array(node) or node.shape is None:
            raise InvalidProblem(
                f"{name} must be an array with entries. The file is damaged: write it again."
            )
        self.library.check(name, node)
        shape = tuple(map(int, node.shape))
        chunks, present = self.library.present(node)
        expected = math.prod(
            -(-size // length) for size, length in zip(shape, chunks or shape, strict=True) if size
        )
        fill = getattr(node, "fillvalue", getattr(node, "fill_value", 0))
        absent = expected - present if chunks and math.prod(shape) else 0
        read = self.library.reader(node)
        return Stored(name, shape, np.dtype(node.dtype), read, chunks, expected, absent, fill)

    def _matrix(self, node: Any, name: str) -> Source:
        if is_array(node):
            stored = self._stored(node, name)
            found = dense(name, stored.shape, stored.dtype, stored.read, self.library.paths, stored.chunks)
            stored.check_absent(self.missing)
            return found
        found = sparse_kind(node, name)
        nodes = {key: self.library.member(node, key) for key in ("data", "indices", "indptr")}
        if found is None or None in nodes.values():
            raise UnsupportedData(
                f"{name} must be an array, or a group of a compressed sparse matrix; got a group with {_listed(node)}. "
                "Name a matrix in it with part=."
            )
        kind, (n, p) = found
        parts = {key: self._stored(one, f"{name}/{key}") for key, one in nodes.items()}
        data, indices, ends = parts.values()
        for (
            key,
            part,
        ) in parts.items():  # zeros are plausible at the start of indptr only, or where all of it is 0
            strict = self.missing in ("warn", "nan") and key != "indptr"
            if math.prod(data.shape):
                part.check_absent("refuse" if strict else self.missing)
        starts, lines = ends.whole(), n if kind == "csr" else p
        if (
            starts.dtype.kind not in "iu"
            or starts.shape != (lines + 1,)
            or (data.shape, indices.shape) != ((int(starts[-1]),),) * 2
            or starts[0] != 0
            or (np.diff(starts.astype(np.int64)) < 0).any()
        ):
            raise InvalidProblem(
                f"{name} is no matrix of compressed sparse {'rows' if kind == 'csr' else 'columns'}: indptr has shape "
                f"{starts.shape} and ends at {starts[-1:].tolist()}, data and indices have {data.shape} and "
                f"{indices.shape} entries, for shape {(n, p)}. The file is damaged: write it again."
            )
        with called(name):
            working_dtype(data.dtype)
        half = data.dtype.str[1:] == "f2"  # SciPy has neither half precision nor foreign byte orders
        dtype = np.dtype(np.float32) if half else data.dtype.newbyteorder("=")
        starts = starts.astype(np.int64)
        read = partial(_compressed, kind, data.read, indices.read, starts, p if kind == "csr" else n, dtype)
        if kind == "csc":
            return held(name, self._turned(name, read, (n, p), starts[-1] * (dtype.itemsize + 8)))
        entry = data.dtype.itemsize + indices.dtype.itemsize
        stripes = [part.chunks[0] if part.chunks else 1 for part in (data, indices)]
        entries = max(SLAB_BYTES // entry, 4 * max(stripes))
        if max(stripes) > 1:
            entries = min(entries, PIECES * max(stripes))
        marks = np.searchsorted(starts, np.arange(entries, max(int(starts[-1]), 1), entries))
        edges = np.unique([0, *marks, n]).astype(np.intp)
        size = int(np.diff(starts[edges]).max(initial=0)) * entry
        return Source(
            name, (n, p), dtype, edges, read, self.library.paths,
            entries=int(starts[-1]), slab_bytes=size, sparse=True,
        )  # fmt: skip

    def _turned(self, name: str, read: Any, shape: tuple[int, int], needed: int) -> Any:
        """Read a matrix by columns whole, and return it by rows."""
        needed, free = 2 * int(needed) + 8 * sum(shape), HOST.free_memory()
        if needed > max(MOST * free, 2 * SLAB_BYTES):
            raise UnsupportedData(
                f"{name} is compressed by columns (csc_matrix), so its rows must be brought into memory together. That "
                f"takes {cost.human_bytes(needed)}, and {cost.human_bytes(free)} are free. Write it again as a "
                "csr_matrix: X.tocsr() where there is room."
            )
        with reading(name, "it"), called(name):
            return SparseOperator(read(0, shape[1])).matrix

    # ---- labels of AnnData --------------------------------------------------------------------------------

    def _label(self, source: Source, node: Any, axis: str) -> None:
        """Give a source the names of columns and rows from an AnnData."""
        n, p = source.shape
        variables = self.library.member(node, "raw") if axis == "raw" else node
        if axis in ("X", "layers", "raw"):
            names = self._index(variables, "var", source.name)
            if len(names) != p:
                raise InvalidProblem(
                    f"{source.name} has {p} columns, and the file names {len(names)} variables. Write it again."
                )
            if len(set(names)) == p:  # otherwise they do not identify columns
                source.column_names = tuple(names)
        if axis in ("X", "layers", "raw", "obsm") and n <= MOST_LABELS:
            names = self._index(node, "obs", source.name)
            source.row_names = names if len(names) == n else None

    def _index(self, node: Any, frame: str, name: str) -> list[str]:
        """Return the labels of a data frame; before 2020 it is one array of records."""
        where, table = f"{name}: {frame}", self.library.member(node, frame)
        if table is None or is_array(table):
            return self._texts(table, where)
        index = text_of(table.attrs.get("_index", "_index"))
        return self._texts(self.library.member(table, index), f"{where}/{printable(index)}")

    def _texts(self, node: Any, name: str) -> list[str]:
        """Return the texts of an array, of a nullable array, or of categories."""
        if node is None or is_array(node):
            values = self._line(node, name)
            return list(
                map(text_of, (values[values.dtype.names[0]] if values.dtype.names else values).tolist())
            )
        mask, codes = (self.library.member(node, key) for key in ("mask", "codes"))
        if mask is not None:
            texts = self._texts(self.library.member(node, "values"), f"{name}/values")
            gone = self._line(mask, f"{name}/mask")
            if gone.dtype != bool or len(gone) != len(texts):
                said = f"{gone.dtype} of shape {gone.shape}"
                raise InvalidProblem(
                    f"{name}/mask must hold {len(texts)} bools; got {said}. Write the file again."
                )
            absent = (
                "nan" if text_of(node.attrs.get("na-value", "")) == "NaN" else "<NA>"
            )  # as pandas shows it
            return [absent if missing else text for text, missing in zip(texts, gone.tolist(), strict=True)]
        places = self._line(codes, f"{name}/codes")
        texts = self._texts(self.library.member(node, "categories"), f"{name}/categories")
        if places.dtype.kind not in "iu" or not set(places.tolist()) <= set(range(len(texts))):
            raise InvalidProblem(
                f"{name}/codes must hold whole numbers from 0 to {len(texts) - 1}, one of its {len(texts)} categories "
                "each. Write the file again."
            )
        return [texts[code] for code in places.tolist()]

    def _line(self, node: Any, name: str) -> HostArray:
        stored = self._stored(node, name)
        if len(stored.shape) != 1:
            raise InvalidProblem(f"{name} must be an array of one dimension. Write the file again.")
        return stored.whole()


def _compressed(
    kind: str, data: Any, indices: Any, starts: HostArray, width: int, dtype: Any, first: int, last: int
) -> Any:
    """Read some rows of a `csr_array`, or columns of a `csc_array`, of `width` columns or rows."""
    start, stop = int(starts[first]), int(starts[last])
    index = np.int32 if max(width, stop - start) < 2**31 else np.int64
    shape = (last - first, width) if kind == "csr" else (width, last - first)
    matrix = getattr(scipy.sparse, f"{kind}_array")(shape, dtype=dtype)
    # The constructor of SciPy would check the indices; the operator of the rows does that, with better errors.
    matrix.data = np.asarray(data(start, stop)).astype(dtype, copy=False)
    matrix.indices = _whole_numbers(np.asarray(indices(start, stop)), index)
    matrix.indptr = (starts[first : last + 1] - start).astype(index)
    return matrix


def _whole_numbers(values: HostArray, dtype: Any) -> HostArray:
    """Return indices in another dtype if that changes none; those that it would change are refused by the operator."""
    found = values.astype(dtype, copy=False)
    return found if np.can_cast(values.dtype, dtype) or (found == values).all() else values


def is_array(node: Any) -> bool:
    """Whether a member of a file is an array and no group."""
    return hasattr(node, "dtype") and hasattr(node, "shape")


def sparse_kind(node: Any, name: str) -> tuple[str, tuple[int, int]] | None:
    """Return the kind of a sparse matrix in a group, "csr" or "csc", and its shape; None for other groups."""
    attributes = node.attrs
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


def _listed(node: Any) -> str:
    names = [str(key) for key in node]
    more = f" and {len(names) - LISTED} more" if len(names) > LISTED else ""
    return (", ".join(names[:LISTED]) or "nothing") + more


def named_rows(data: Any, operator: Any) -> Any:
    """Give the operator of X of an `anndata.AnnData` its names."""
    names: Sequence[str] = [str(name) for name in data.var_names]
    operator.column_names = tuple(names) if len(set(names)) == len(names) else None
    if operator.shape[0] <= MOST_LABELS:
        operator.row_names = [str(name) for name in data.obs_names]
    return operator
