"""Sparse matrices in text: Matrix Market and svmlight, which are read whole.

Problem: SciPy's reader of Matrix Market is fast, but reads ``2 1.5 3`` as column 1 with the value .5, and ignores text
after a number. In svmlight (``label qid:1 3:0.5 7:1.25 # comment``) indices count from 1 in most files and from 0 in
some, and a row may have several labels (``1,5``); no file tells by itself how many features there are.
Method: one regular expression checks the format of all lines. Then SciPy reads Matrix Market, after a comparison of the
declared sizes with memory and lines; and NumPy the numbers of svmlight, of all files of a matrix together. Indices
count from 0 if a 0 occurs in one of them, from 1 otherwise, unless the user says. Labels are returned as a column, or
as one indicator column for each label that occurs, sorted.
Source: Boisvert, Pozo & Remington 1996, The Matrix Market Exchange Formats (NIST); SVMlight (Joachims) and LIBSVM
(Chang & Lin).
Where we differ from scikit-learn: a row without labels is allowed (its line begins with a feature), and indices in any
order; an index that a row has twice is an error, because its meaning is unknown.
"""

from __future__ import annotations

import io
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import scipy.io
import scipy.sparse

from linspec.errors import InvalidProblem, UnsupportedData
from linspec.operators import LinearOperator, RowFiles
from linspec.process import check_memory, check_memory_for_sparse
from linspec_files.delimited import number_in, opened_bytes, surveyed, text_errors
from linspec_files.slabs import held, of_files, picked, without_part

INTEGER = rb"[-+]?+[0-9]++"  # not \d, which is slower
"""Possessive: a match is never given back, so that there is no backtracking and the time is linear."""

REAL = rb"[-+]?+(?:(?:[0-9]++(?:\.[0-9]*+)?+|\.[0-9]++)(?:[eE][-+]?+[0-9]++)?+|(?i:nan|inf(?:inity)?+))"
PLACE = rb"[0-9]++[ \t]++[0-9]++"

FRONT = rb"(?:([^\s:#]++)(?=[\s#]|$))?+(?:[ \t]*+qid:[^\s#]*+)?+"
"""The labels and the query in front of a line of svmlight."""

ROW = FRONT + rb"(?:[ \t]*+[0-9]{1,19}+:" + REAL + rb"(?=[\s#]))*+[ \t]*+(?:#[^\r\n]*+)?+"


def _text(path: Path, per_byte: int) -> bytes:
    """Read a text whose numbers take at most so many bytes for each of its own."""
    with text_errors(path):
        size = surveyed(path)["size"]
        check_memory(path, per_byte * size, f"reading a text of {size:,} bytes")
        with opened_bytes(path) as stream:
            return stream.read().removeprefix(b"\xef\xbb\xbf") + b"\n"


def _check_lines(path: Path, text: bytes, pattern: bytes, what: str, begin: int = 0) -> None:
    """Check that each line from the byte `begin` on is blank or matches a pattern; the error has its number."""
    line = rb"[ \t]*+(?:" + pattern + rb")?+[ \t]*+"
    lines = re.compile(rb"(?:" + line + rb"(?:\r?+\n|\r))*+").match(text, begin)
    end = lines.end() if lines else begin
    if end < len(text):
        fits = re.compile(line).match(text, end)
        rest = text[fits.end() if fits else end :].splitlines()[0][:40].decode("utf-8", "replace").strip()
        number = len(text[:end].splitlines()) + 1
        raise InvalidProblem(f"{path}, line {number}: {what} is needed; got {rest!r}.")


# ---- Matrix Market --------------------------------------------------------------------------------------------


def of_matrix_market(files: RowFiles) -> LinearOperator:
    """Make the operator of Matrix Market files: sparse by coordinates, or arrays."""
    without_part(files, "one array, whose columns have no names,")
    return of_files(files, lambda path: held(path, _matrix_market(Path(path))))


def _matrix_market(path: Path) -> Any:
    text = _text(path, 3)

    def by_scipy(
        read: Any, **more: Any
    ) -> Any:  # a stream that has no `seek`, for which SciPy may end the process
        try:
            return read(SimpleNamespace(read=io.BytesIO(text).read), **more)
        except (ValueError, OverflowError) as error:
            raise InvalidProblem(
                f"{path} cannot be read as a Matrix Market file ({error}). Write large numbers as real."
            ) from error

    rows, columns, entries, layout, field, symmetry = by_scipy(scipy.io.mminfo)
    if field == "complex" or symmetry == "hermitian":
        raise UnsupportedData(
            f"{path} holds complex numbers; real ones are needed. Split them into two matrices."
        )
    if not (rows and columns):  # SciPy's reader would end the process
        raise InvalidProblem(f"{path} holds a matrix of {rows} x {columns}, which has no entries.")
    if symmetry != "general" and rows != columns:
        raise InvalidProblem(f"{path}: a {symmetry} matrix is square; got {rows} x {columns}.")
    if layout == "array":
        check_memory(path, 8 * rows * columns, f"a matrix of {rows:,} x {columns:,} numbers")
    else:
        check_memory_for_sparse(path, (rows, columns), entries * (1 + (symmetry != "general")))
        if entries > (lines := text.count(b"\n") + text.count(b"\r")):
            raise InvalidProblem(
                f"{path} declares {entries:,} entries; it has {lines:,} lines. It may be cut off."
            )
    whole = field in ("integer", "unsigned-integer")
    number = INTEGER if whole else REAL
    pattern = PLACE if field == "pattern" else PLACE + rb"[ \t]++" + number
    head = re.compile(rb"[^\r\n]*+[\r\n]++(?:[ \t]*+(?:%[^\r\n]*+)?+[\r\n]++)*+[^\r\n]*+").match(text)
    pattern = number if layout == "array" else pattern
    _check_lines(path, text, pattern, f"an entry of a matrix of {field} numbers", head.end() if head else 0)
    matrix = by_scipy(scipy.io.mmread, spmatrix=False)
    return scipy.sparse.csr_array(matrix) if layout == "coordinate" else matrix


# ---- svmlight -------------------------------------------------------------------------------------------------


def of_svmlight(files: RowFiles) -> LinearOperator:
    """Make the operator of svmlight files, read together: features, ``part="labels"`` or ``part="classes"``.

    Raises
    ------
    InvalidProblem
        A line is malformed (its number is named), there is no such part, or the matrix does not fit into memory.
    """
    if files.part not in ("", "labels", "classes"):
        raise InvalidProblem(f"{files.name} has the parts 'labels' and 'classes'; got {files.part!r}.")
    rows = list[tuple[str, bytes, str]]()
    front = re.compile(FRONT)
    for path in map(Path, files.paths):
        text = _text(path, 4)
        _check_lines(path, text, ROW, "'index:value'")
        lines = filter(None, (line.partition(b"#")[0].strip() for line in text.splitlines()))
        for row, line in enumerate(lines):
            match = front.match(line)
            label, end = (match[1] or b"", match.end()) if match else (b"", 0)
            rows.append((label.decode(), line[end:], f"{path}, row {row}"))
    if not rows or not (files.part or files.columns or any(b":" in features for _, features, _ in rows)):
        raise InvalidProblem(f"{files.name} has no rows, or no features in them.")
    if files.part == "classes":
        matrix = _classes(rows)
    else:
        matrix = _column(rows, files) if files.part else _features(rows, files)
    operator = held(files.name, matrix)
    return picked(operator, files.places(None, operator.shape[1], files.name))


def _features(rows: list[tuple[str, bytes, str]], files: RowFiles) -> Any:
    """Make the sparse matrix of the features."""
    texts = [features for _, features, _ in rows]
    numbers = np.fromstring(b" ".join(texts).replace(b":", b" ").strip(), sep=" ")
    places, values = numbers[::2], numbers[1::2]  # places are exact up to sizes beyond any memory
    ends = np.cumsum([0, *(text.count(b":") for text in texts)])
    least = int(places.min(initial=1))
    first = least if files.base is None else files.base
    if least < first:
        raise InvalidProblem(f"{files.name} must count from base=1; got the index 0. Leave base out.")
    width = int(places.max(initial=first - 1)) + 1 - first
    chosen = [place for place in files.columns or () if isinstance(place, int)]
    if chosen and min(chosen) < max(width, 1):  # places behind the last feature, beside others
        width = max(width, 1 + max(chosen))
    check_memory_for_sparse(files.name, (len(rows), width), len(places))
    columns = places.astype("int32" if width < 2**31 else "int64") - first
    matrix = scipy.sparse.csr_array((values.copy(), columns, ends), shape=(len(rows), width))
    matrix.sort_indices()
    owners = np.repeat(np.arange(len(rows)), np.diff(ends))
    for at in np.flatnonzero((np.diff(matrix.indices) == 0) & (np.diff(owners) == 0)):
        index = matrix.indices[at] + first
        raise InvalidProblem(f"{rows[owners[at]][2]}: the index {index} occurs twice. Merge its values.")
    return matrix


def _column(rows: list[tuple[str, bytes, str]], files: RowFiles) -> Any:
    """Make a column of the labels as numbers."""
    column = np.empty((len(rows), 1))
    for i, (label, _, place) in enumerate(rows):
        try:
            column[i, 0] = number_in(label)
        except ValueError:
            raise InvalidProblem(
                f"{place}: one number is needed as its label; got {label!r}. part='classes', on the command line "
                f"{files.name}:classes, gives an indicator column for each label."
            ) from None
    return column


def _classes(rows: list[tuple[str, bytes, str]]) -> Any:
    """Make one indicator column for each label: 1 in the rows that have it."""
    sets = [sorted(set(filter(None, label.split(",")))) for label, _, _ in rows]
    names = sorted(set().union(*sets), key=_order)
    places = {name: column for column, name in enumerate(names)}
    indices = [places[name] for row in sets for name in row]
    ends = np.cumsum([0, *map(len, sets)])
    matrix = scipy.sparse.csr_array((np.ones(len(indices)), indices, ends), shape=(len(rows), len(names)))
    matrix.sort_indices()
    return matrix


def _order(label: str) -> tuple[int, float, str]:
    try:
        return 0, float(label), label
    except ValueError:
        return 1, 0.0, label
