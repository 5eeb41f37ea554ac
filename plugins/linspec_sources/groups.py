"""Groups of zarr and HDF5: which matrix in them is meant, and what AnnData says of its rows and columns.

Problem: a file holds several arrays, dense or sparse, and AnnData puts the names of rows and columns beside them.
Method: groups of zarr and of h5py are read in the same way. Of AnnData the matrix is ``X``, unless a part is named:
``layers/counts``, ``obsm/X_pca``. Its columns are the variables, so they have names, but for those of obsm; its
rows are the observations. Of other groups the only array is meant, or the part.
Source: https://anndata.readthedocs.io, the on-disk format: an AnnData has the attribute encoding-type anndata (old
files have none, and the groups obs, var and X), a data frame the attribute _index, which names the array of its labels.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from linspec.errors import InvalidProblem, UnsupportedData
from linspec_sources.held import rows_of_columns
from linspec_sources.slabs import RowSource
from linspec_sources.stored import (
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
    """The rows of an array or of a group.

    Parameters
    ----------
    node : zarr.Array, zarr.Group, h5py.Dataset or h5py.Group
    make : callable
        Takes a name and an array, and returns its `Stored`.
    name : str
        What messages call the file.
    part : str
        The matrix in a group.
    missing : {"warn", "fill", "refuse"}

    Raises
    ------
    InvalidProblem
        There is no such matrix, or there are several and none was named.
    UnsupportedData
        It has no rows that can be read some at a time.
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
        _name(source, node, chosen, label)
    return source


def is_annotated(node: Any) -> bool:
    """Whether a group is an AnnData."""
    kind = text_of(node.attrs.get("encoding-type", ""))
    return kind == "anndata" or (not kind and all(one in node for one in ("obs", "var", MATRIX)))


def _is_array(node: Any) -> bool:
    return hasattr(node, "dtype")


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
    """The only matrix of a group: "" for the group itself."""
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


def _name(source: RowSource, node: Any, part: str, name: str) -> None:
    """Give the rows of a matrix of AnnData its names."""
    axes = part.strip("/").split("/")
    if axes[0] in BY_VARIABLE:
        variables = node["raw"] if axes[0] == "raw" else node
        names = _labels(variables["var"])
        if len(names) != source.shape[1]:
            raise InvalidProblem(
                f"{name} has {source.shape[1]} columns, and the file names {len(names)} variables. Write it again."
            )
        if len(set(names)) == len(names):  # otherwise they tell nothing apart
            source.column_names = tuple(names)
    if axes[0] in (*BY_VARIABLE, "obsm") and source.shape[0] <= MOST_LABELS:
        labels = _labels(node["obs"])
        if len(labels) == source.shape[0]:
            source.row_names = labels


def _labels(frame: Any) -> list[str]:
    """The labels of a data frame: its index."""
    if _is_array(frame):  # of files of before 2020: one array of records
        return [text_of(value) for value in frame[:][frame.dtype.names[0]]]
    index = text_of(frame.attrs.get("_index", "_index"))
    stored = frame[index]
    if not _is_array(stored):  # categories
        names = [text_of(value) for value in np.asarray(stored["categories"][:]).tolist()]
        return [names[code] for code in np.asarray(stored["codes"][:]).tolist()]
    return [text_of(value) for value in np.asarray(stored[:]).tolist()]
