"""The text format of SVMlight and LIBSVM: ``label qid:1 3:0.5 7:1.25 # comment``, one row a line.

Problem: the usual format of sparse, labelled data; indices count from 1 in most files and from 0 in some, and a
row may have several labels (``1,5``).
Method: one pass over the lines gathers values, indices and row ends. Indices count from 0 if a 0 occurs, from 1
otherwise. Labels are returned as a column, or as one indicator column for each label that occurs, sorted.
Source: the programs SVMlight (Joachims) and LIBSVM (Chang & Lin).
Where we differ: a row without labels is allowed (its line begins with a feature), as in multi-label files; an
index that a row has twice is an error, for nobody can say what it means.
"""

from __future__ import annotations

from array import array
from collections import Counter
from itertools import repeat
from operator import contains
from pathlib import Path
from typing import TYPE_CHECKING, Any

from linspec.cli.delimited import number_in
from linspec.cli.failures import Failure
from linspec.cli.text import opened, surveyed, text_errors
from linspec.room import check_memory, check_memory_for_sparse

if TYPE_CHECKING:
    from linspec.arrays import Array

__all__ = ["read_svmlight"]

PER_ENTRY, PER_ROW = 24, 80
"""Bytes that an entry takes while it is read, as a value and twice as an index, and a row with its label as a text."""

LARGEST = 2**63 - 1
"""The largest index that an array can hold."""


def read_svmlight(path: Path, member: str = "") -> Array:
    """Read an svmlight file.

    Parameters
    ----------
    path : Path
        Where it is; ``.gz`` is decompressed.
    member : {"", "labels", "classes"}
        The features, the labels as numbers, or the labels as indicator columns.

    Returns
    -------
    scipy.sparse.csr_array of shape (rows, features) or (rows, classes), or numpy.ndarray of shape (rows, 1)
        float64.

    Raises
    ------
    Failure
        A line is malformed (its number is named), there is no such member, or the matrix does not fit into memory.
    """
    if member not in ("", "labels", "classes"):
        raise Failure(f"{path} has the members 'labels' and 'classes'; got {member!r}.")
    rows = _Rows(path)
    with text_errors(path):
        rows.read()
    if not rows.labels:
        raise Failure(f"{path} has no rows.")
    if member == "labels":
        return _column(rows.labels, path)
    return _indicators(rows.labels) if member == "classes" else rows.matrix()


class _Rows:
    """What has been read so far."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.labels: list[str] = []
        self.values = array("d")
        self.indices = array("q")
        self.ends = array("q", [0])

    def read(self) -> None:
        """Read all lines."""
        survey = surveyed(self.path)
        needed = PER_ENTRY * survey.colons + PER_ROW * survey.lines
        check_memory(self.path, needed, f"reading {survey.lines:,} lines with {survey.colons:,} entries")
        with opened(self.path) as stream:
            for number, line in enumerate(stream, 1):
                fields = line.partition("#")[0].split()
                if fields:
                    self._add(fields, number)

    def _add(self, fields: list[str], number: int) -> None:
        """Append one row."""
        self.labels.append("" if ":" in fields[0] else fields.pop(0))
        if fields and fields[0].startswith("qid:"):
            fields.pop(0)
        try:
            indices, values = _features(fields)
            self.indices.extend(indices)
        except (ValueError, OverflowError):
            raise Failure(self._fault(fields, number)) from None
        if len(set(indices)) != len(indices):
            twice = next(index for index, times in Counter(indices).items() if times > 1)
            raise Failure(f"{self.path}, line {number}: the index {twice} occurs twice. Merge its values.")
        self.values.extend(values)
        self.ends.append(len(self.indices))

    def _fault(self, fields: list[str], number: int) -> str:
        """What is wrong with a line."""
        culprit = next(field for field in fields if not _is_feature(field))
        where = f"{self.path}, line {number}"
        if _is_beyond(culprit):
            return f"{where}: an index of at most {LARGEST} is needed; got {culprit[:40]!r}."
        return f"{where}: 'index:value' is needed; got {culprit[:40]!r}."

    def matrix(self) -> Any:
        """The features as a sparse matrix."""
        import numpy as np
        import scipy.sparse

        indices = np.frombuffer(self.indices, dtype=np.int64) if self.indices else np.zeros(0, np.int64)
        values = np.frombuffer(self.values, dtype=np.float64) if self.values else np.zeros(0)
        if not len(indices):
            raise Failure(f"{self.path} has no features: its lines hold labels only.")
        first = 0 if indices.min() == 0 else 1
        shape = (len(self.labels), int(indices.max()) + 1 - first)
        check_memory_for_sparse(self.path, shape, len(indices))
        ends = np.frombuffer(self.ends, dtype=np.int64)
        matrix = scipy.sparse.csr_array((values, indices - first, ends), shape=shape)
        matrix.sort_indices()
        return matrix


def _features(fields: list[str]) -> tuple[list[int], list[float]]:
    """Indices and values of one row; a ValueError where a field is not of the form index:value."""
    text = " ".join(fields)
    parts = text.replace(":", " ").split()
    indices = list(map(int, parts[::2]))
    values = list(map(float, parts[1::2]))
    # One colon in each field, and a number on both sides of it.
    paired = text.count(":") == len(fields) and all(map(contains, fields, repeat(":")))
    plain = "_" not in text and text.isascii()  # digits as other programs read them
    counted = len(indices) == len(values) == len(fields)
    if not (paired and plain and counted) or min(indices, default=0) < 0:
        raise ValueError(fields)
    return indices, values


def _is_feature(field: str) -> bool:
    """Whether a field is an index, a colon and a number."""
    try:
        indices, _ = _features([field])
    except ValueError:
        return False
    return indices[0] <= LARGEST


def _is_beyond(field: str) -> bool:
    """Whether a field would be a feature, were its index smaller."""
    index, _, value = field.partition(":")
    return index.isascii() and index.isdigit() and _is_feature(f"0:{value}")


def _column(labels: list[str], path: Path) -> Array:
    """The labels as one column of numbers."""
    import numpy as np

    column = np.empty((len(labels), 1))
    for row, label in enumerate(labels):
        try:
            column[row, 0] = number_in(label)
        except ValueError:
            what = f"the labels {label!r}" if label else "no label"
            raise Failure(
                f"{path}, row {row}: one number is needed as its label; got {what}. "
                f"{path}:classes gives an indicator column for each label."
            ) from None
    return column


def _indicators(labels: list[str]) -> Any:
    """One column a label, 1 where a row has it."""
    import numpy as np
    import scipy.sparse

    sets = [sorted(set(filter(None, label.split(",")))) for label in labels]
    names = sorted(set().union(*sets), key=_label_order)
    place = {name: column for column, name in enumerate(names)}
    indices = np.array([place[name] for row in sets for name in row], dtype=np.int64)
    ends = np.cumsum([0, *map(len, sets)])
    matrix = scipy.sparse.csr_array((np.ones(len(indices)), indices, ends), shape=(len(labels), len(names)))
    matrix.sort_indices()
    return matrix


def _label_order(label: str) -> tuple[int, float, str]:
    try:
        return 0, float(label), label
    except ValueError:
        return 1, 0.0, label
