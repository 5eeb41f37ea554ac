"""The text format of SVMlight and LIBSVM: ``label qid:1 3:0.5 7:1.25 # comment``, one row on each line.

Problem: the usual format of sparse, labelled data; indices count from 1 in most files and from 0 in some, and a
row may have several labels (``1,5``).
Method: one regular expression checks the format of the lines, and one pass gathers labels, indices and values, of all
files of a matrix together: no file tells by itself how many features there are, nor where the others begin to count.
Indices count from 0 if a 0 occurs in one of them, from 1 otherwise, unless the user says. Labels are returned as a
column, or as one indicator column for each label that occurs, sorted.
Source: the programs SVMlight (Joachims) and LIBSVM (Chang & Lin).
Where we differ: a row without labels is allowed (its line begins with a feature), as in multi-label files; an
index that a row has twice is an error, because its meaning is unknown. scikit-learn's reader accepts no rows without
labels, no labels other than numbers, and no unsorted indices.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from linspec.errors import InvalidProblem
from linspec.process import check_memory, check_memory_for_sparse
from linspec_files.delimited import number_in
from linspec_files.text import REAL, check_lines, surveyed, text_errors, whole_lines

if TYPE_CHECKING:
    from linspec.arrays import Array
    from linspec.operators import RowFiles

PER_ENTRY, PER_ROW = 32, 80
"""Largest numbers of bytes of memory that reading takes: for each entry (index:value), and for each row, with its label
held as a text."""

FRONT = rb"(?:([^\s:#]++)(?=[\s#]|$))?+(?:[ \t]*+qid:[^\s#]*+)?+"
"""Labels and a query."""

LINE = FRONT + rb"(?:[ \t]*+[0-9]{1,19}+:" + REAL + rb"(?=[\s#]))*+[ \t]*+(?:#[^\r\n]*+)?+"


def read_svmlight(files: RowFiles) -> Array:
    """Read svmlight files.

    Parameters
    ----------
    files : RowFiles
        The files, of which ``.gz`` are decompressed. Their part is "" for the features, "labels" for the labels as
        numbers, or "classes" for the labels as indicator columns. Columns behind the last feature are empty.

    Returns
    -------
    scipy.sparse.csr_array of shape (rows, features) or (rows, classes), or numpy.ndarray of shape (rows, 1)
        The part, in float64.

    Raises
    ------
    InvalidProblem
        A line is malformed (its number is named), there is no such part, or the matrix does not fit into memory.
    """
    paths = [Path(path) for path in files.paths]
    if files.part not in ("", "labels", "classes"):
        raise InvalidProblem(f"{files.name} has the parts 'labels' and 'classes'; got {files.part!r}.")
    for path in paths:
        with text_errors(path):
            counts = surveyed(path)
            lines, entries = counts["lines"], counts[":"]
            check_memory(
                path,
                PER_ENTRY * entries + PER_ROW * lines,
                f"reading {lines:,} lines with {entries:,} entries",
            )
            check_lines(path, LINE, "'index:value'")
    if not files.part:
        return _features(paths, files)
    labels = [(label, path, row) for path in paths for row, (label, _) in enumerate(_rows(path))]
    if not labels:
        raise InvalidProblem(f"{files.name} has no rows.")
    return _column(labels) if files.part == "labels" else _indicators([label for label, _, _ in labels])


def _rows(path: Path) -> Iterator[tuple[str, bytes]]:
    """Yield label (or "") and features of each line that is not blank, for a file whose lines have been checked."""
    front = re.compile(FRONT)
    for piece in whole_lines(path):
        for line in piece.splitlines():
            text = line.partition(b"#")[0].strip()
            match = front.match(text)
            if text and match:
                yield (match[1] or b"").decode(), text[match.end() :]


def _features(paths: Sequence[Path], files: RowFiles) -> Any:
    """Read the features as a sparse matrix."""
    import numpy as np
    import scipy.sparse

    indices, values, lengths, starts = array("d"), array("d"), array("q", [0]), [0]
    for path in paths:
        for _, features in _rows(path):
            numbers = np.fromstring(features.replace(b":", b" "), sep=" ")
            indices.frombytes(numbers[::2].tobytes())
            values.frombytes(numbers[1::2].tobytes())
            lengths.append(len(numbers) // 2)
        starts.append(len(lengths) - 1)
    if not indices and not files.columns:
        raise InvalidProblem(f"{files.name} has no features: its lines hold labels only.")
    places = np.frombuffer(indices)  # whole numbers, exact up to sizes beyond any memory
    least = int(places.min(initial=1))
    first = least if files.base is None else files.base
    if least < first:
        raise InvalidProblem(f"{files.name} must count from base=1; got the index 0. Leave base out.")
    width = int(places.max(initial=first - 1)) + 1 - first
    asked = [place for place in files.columns or () if isinstance(place, int)]
    if asked and min(asked) < max(width, 1):  # places behind the last feature, beside others
        width = max(width, 1 + max(asked))
    shape = (len(lengths) - 1, width)
    check_memory_for_sparse(paths[0], shape, len(places))
    columns = places.astype("int32" if width < 2**31 else "int64") - first
    matrix = scipy.sparse.csr_array((np.frombuffer(values), columns, np.cumsum(lengths)), shape=shape)
    matrix.sort_indices()
    twice = np.flatnonzero(np.diff(matrix.indices) == 0)
    rows = np.searchsorted(matrix.indptr, twice, side="right") - 1
    within = twice + 1 < matrix.indptr[rows + 1]
    if within.any():
        row, index = rows[within][0], matrix.indices[twice[within][0]] + first
        part = int(np.searchsorted(starts, row, side="right")) - 1
        raise InvalidProblem(
            f"{paths[part]}, row {row - starts[part]}: the index {index} occurs twice. Merge its values."
        )
    return matrix


def _column(labels: Sequence[tuple[str, Path, int]]) -> Array:
    """Convert the labels to one column of numbers."""
    import numpy as np

    column = np.empty((len(labels), 1))
    for i, (label, path, row) in enumerate(labels):
        try:
            column[i, 0] = number_in(label)
        except ValueError:
            what = f"the labels {label!r}" if label else "no label"
            raise InvalidProblem(
                f"{path}, row {row}: one number is needed as its label; got {what}. "
                f"part='classes', on the command line {path}:classes, gives an indicator column for "
                "each label."
            ) from None
    return column


def _indicators(labels: list[str]) -> Any:
    """Return one indicator column for each label: 1 in the rows that have it."""
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
