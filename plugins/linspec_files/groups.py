"""Groups of zarr and HDF5: the choice of a matrix in them, and the names of rows and columns from AnnData.

Problem: a file holds several arrays, dense or sparse, and AnnData puts the names of rows and columns beside them.
Method: groups of zarr and of h5py are read in the same way. In AnnData the matrix is ``X``, unless a part is named:
``layers/counts``, ``obsm/X_pca``. Its columns are the variables, so they have names, except for those of obsm; its
rows are the observations. In other groups it is the only array, or the named part.
Source: https://anndata.readthedocs.io, the on-disk format: an AnnData has the attribute encoding-type anndata (old
files have none, and the groups obs, var and X), a data frame the attribute _index, which names the array of its labels.
That is an array of texts, categories, or, as anndata 0.13 writes it, a nullable array: values, and a mask of those that
are missing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from linspec.arrays import HostArray
from linspec.errors import InvalidProblem, UnsupportedData, printable
from linspec_files.held import rows_of_columns
from linspec_files.slabs import RowSource
from linspec_files.stored import (
    MOST_LABELS,
    DenseRows,
    SparseRows,
    Stored,
    sparse_kind,
    text_of,
)

__all__ = ["rows_in"]

Make = Callable[[str, Any], Stored]

PARTS = ("data", "indices", "indptr")

MATRIX = "X"

BY_VARIABLE = ("X", "layers", "raw")
"""Parts of AnnData whose columns are the variables."""

LISTED = 10


def rows_in(node: Any, make: Make, name: str, part: str = "", missing: str = "warn") -> RowSource:
    """Make the source of an array or of a matrix in a group.

    Parameters
    ----------
    node : zarr.Array, zarr.Group, h5py.Dataset or h5py.Group
    make : callable
        Takes a name and an array, and returns its `Stored`.
    name : str
        The name of the file in messages.
    part : str
        The matrix in a group.
    missing : {"warn", "fill", "refuse", "nan"}

    Raises
    ------
    InvalidProblem
        There is no such matrix, or there are several and none was named; or missing chunks are refused.
    UnsupportedData
        The part is no matrix of real numbers, or reading its rows takes too many chunks or too much memory.
    """
    if _is_array(node):
        if part:
            raise InvalidProblem(f"{name} is one array and has no part {part!r}. Leave part out.")
        return DenseRows(make(name, node), missing)
    annotated = is_annotated(node)
    chosen = part or (MATRIX if annotated else _only(node, name))
    matrix = node if chosen == "" else _found(node, chosen, name)
    label = f"{name}, {chosen}" if chosen else name
    source = _source(matrix, make, label, missing)
    if annotated:
        _name(source, node, make, chosen, label)
    return source


def is_annotated(node: Any) -> bool:
    """Whether a group is an AnnData."""
    kind = text_of(node.attrs.get("encoding-type", ""))
    return kind == "anndata" or (not kind and all(one in node for one in ("obs", "var", MATRIX)))


def _is_array(node: Any) -> bool:
    return hasattr(node, "dtype") and hasattr(node, "shape")


def _source(matrix: Any, make: Make, name: str, missing: str) -> RowSource:
    if _is_array(matrix):
        return DenseRows(make(name, matrix), missing)
    found = sparse_kind(matrix.attrs, name)
    if found is None or any(part not in matrix for part in PARTS):
        raise UnsupportedData(
            f"{name} must be an array, or a group of a compressed sparse matrix; got a group with "
            f"{_listed(matrix)}. Name a matrix in it with part=."
        )
    parts = {part: make(f"{name}/{part}", matrix[part]) for part in PARTS}
    kind, shape = found
    return (SparseRows if kind == "csr" else rows_of_columns)(name, parts, shape, missing)


def _only(node: Any, name: str) -> str:
    """Return the name of the only matrix in a group; "" if the group itself is a sparse matrix."""
    if sparse_kind(node.attrs, name) is not None:
        return ""
    arrays = [
        key
        for key in node
        if _is_array(node[key]) or sparse_kind(node[key].attrs, f"{name}, {key}") is not None
    ]
    if len(arrays) != 1:
        raise InvalidProblem(
            f"{name} holds {len(arrays) or 'no'} matrices ({_listed(node)}). Name one with part=, or on the "
            f"command line "
            "FILE:NAME."
        )
    return str(arrays[0])


def _found(node: Any, part: str, name: str) -> Any:
    place = node
    walked: list[str] = []
    for step in part.strip("/").split("/"):
        if _is_array(place) or step not in place:
            where = "/".join(walked)
            there = "an array" if _is_array(place) else _listed(place)
            raise InvalidProblem(f"{name} has no part {part!r}: {where or 'the file'} holds {there}.")
        place = place[step]
        walked.append(step)
    return place


def _listed(node: Any) -> str:
    names = [str(key) for key in node]
    more = f" and {len(names) - LISTED} more" if len(names) > LISTED else ""
    return (", ".join(names[:LISTED]) or "nothing") + more


def _name(source: RowSource, node: Any, make: Make, part: str, name: str) -> None:
    """Give a source the names of columns and rows from an AnnData."""
    axes = part.strip("/").split("/")
    n, p = source.shape
    if axes[0] in BY_VARIABLE:
        variables = _member(node, "raw", name) if axes[0] == "raw" else node
        count, read = _labels(_member(variables, "var", name), make, f"{name}: var")
        if count != p:
            raise InvalidProblem(
                f"{name} has {p} columns, and the file names {count} variables. Write it again."
            )
        names = read()
        if len(set(names)) == len(names):  # otherwise they do not identify columns
            source.column_names = tuple(names)
    if axes[0] in (*BY_VARIABLE, "obsm") and n <= MOST_LABELS:
        count, read = _labels(_member(node, "obs", name), make, f"{name}: obs")
        if count == n:
            source.row_names = read()


def _labels(frame: Any, make: Make, name: str) -> tuple[int, Callable[[], list[str]]]:
    """Return the number of labels in the index of a data frame, and a function that reads them.

    Raises
    ------
    InvalidProblem
        The frame has no index, or a damaged one.
    """
    if _is_array(frame):  # in files from before 2020: one array of records
        records = _line(frame, make, name)
        fields = records.dtype.names
        if not fields:
            raise _damaged(name, "is no data frame")
        return records.shape[0], lambda: _texts(records.read_whole()[fields[0]])
    index = text_of(frame.attrs.get("_index", "_index"))
    return _label_array(_member(frame, index, name), make, f"{name}/{printable(index)}")


def _label_array(stored: Any, make: Make, name: str) -> tuple[int, Callable[[], list[str]]]:
    """Return the number of labels in an array, a nullable array or categories, and a function that reads them."""
    if _is_array(stored):
        labels = _line(stored, make, name)
        return labels.shape[0], lambda: _texts(labels.read_whole())
    if "mask" in stored:
        values, mask = (
            _line(_member(stored, part, name), make, f"{name}/{part}") for part in ("values", "mask")
        )
        absent = "nan" if text_of(stored.attrs.get("na-value", "")) == "NaN" else "<NA>"
        return values.shape[0], lambda: _unmasked(values, mask, absent)
    codes = _line(_member(stored, "codes", name), make, f"{name}/codes")
    _, names = _label_array(_member(stored, "categories", name), make, f"{name}/categories")
    return codes.shape[0], lambda: _of_categories(codes, names())


def _line(node: Any, make: Make, name: str) -> Stored:
    """Return an array after a check that it has one dimension."""
    if not _is_array(node) or node.shape is None or len(node.shape) != 1:
        raise _damaged(name, "must be an array of one dimension")
    return make(name, node)


def _unmasked(values: Stored, mask: Stored, absent: str) -> list[str]:
    """Return the labels of a nullable array; a masked one is shown as pandas shows it."""
    missing = mask.read_whole()
    if missing.dtype != bool or mask.shape != values.shape:
        said = f"must hold {values.shape[0]} bools; got {missing.dtype} of shape {mask.shape}"
        raise _damaged(mask.name, said)
    names = _texts(values.read_whole())
    return [absent if gone else name for name, gone in zip(names, missing.tolist(), strict=True)]


def _of_categories(coded: Stored, names: list[str]) -> list[str]:
    """Return the label of each code; refuse codes without a category."""
    codes = coded.read_whole()
    if codes.dtype.kind not in "iu":
        raise _damaged(coded.name, f"must hold whole numbers; got {codes.dtype}")
    wrong = np.flatnonzero((codes < 0) | (codes >= len(names)))
    if len(wrong):
        code, place = codes[wrong[0]], wrong[0]
        raise _damaged(
            coded.name, f"has {code} at place {place}, which is none of its {len(names)} categories"
        )
    return [names[code] for code in codes.tolist()]


def _texts(values: HostArray) -> list[str]:
    return [text_of(value) for value in values.tolist()]


def _member(node: Any, key: str, name: str) -> Any:
    """Return a member of a group, or raise if it is missing."""
    if _is_array(node) or key not in node:
        raise _damaged(name, f"has no {printable(key)!r}")
    return node[key]


def _damaged(name: str, what: str) -> InvalidProblem:
    return InvalidProblem(f"{name} {what}. The file is damaged: write it again with anndata.")
