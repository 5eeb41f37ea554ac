"""Numbers in delimited text: `.csv`, `.tsv` and `.txt`, with or without a line of column names.

Problem: such files declare neither their separator nor whether the first line holds names, and a field that is no
number must be named by line and place.
Method: the first line that is neither blank nor a comment (``#``) decides: the separator is the tab in a `.tsv`
file, else the first of comma, semicolon and tab that it contains, else blanks. `first_line` says whether it is a
header. Columns in front without a name hold labels of the rows; so does the first field if the lines of data have one
more than the header, as R writes them. Python's module csv splits the lines. For a large and plain file pyarrow does
that, if it is installed; if it fails, the file is read again, to find the faulty field.
Source: RFC 4180 for the quotes; Python's ``csv`` and pyarrow's ``open_csv`` for the reading.
Where we differ: a missing field is an error that names it, not a NaN, and a line of other length is refused, where
pandas pads or cuts it. A quoted field ends on its line: a quote that is not closed would swallow the lines after it.
"""

from __future__ import annotations

import csv
import math
import re
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from linspec.errors import InvalidProblem, LinspecError, NonFiniteData, UnsupportedData, shown
from linspec.operators import RowFiles, labels_in_front, long_fields
from linspec.process import check_memory
from linspec_files.first_line import holds_names, is_like_number, is_missing
from linspec_files.slabs import MOST_LABELS
from linspec_files.text import opened, surveyed, text_errors, without_column, without_gaps

LARGE = 4 << 20
"""Least size of a file, in bytes, for which pyarrow saves more time than its import takes."""

LINES, CHARACTERS = 20, 1 << 20
"""Largest numbers of lines, and of characters in them, with which the first line is compared; at least one line."""


def number_in(text: str) -> float:
    """Convert a text to a number; raise ValueError for other texts, also for forms that only Python accepts."""
    if "_" in text or not text.isascii():  # forms that only Python accepts
        raise ValueError(text)
    return float(text)


def read_delimited(path: Path, files: RowFiles) -> tuple[Any, tuple[str, ...] | None, Sequence[Any] | None]:
    """Read the numbers of a text file.

    Parameters
    ----------
    path : Path
        The file. In a `.tsv` file tabs separate the fields, whatever else a line contains.
    files : RowFiles
        The columns to read, and whether values may be missing; these become NaN.

    Returns
    -------
    numpy.ndarray of shape (rows, columns), tuple of str or None, sequence of n str or int, or None
        The numbers, in float64; the names of the columns, or None if there are none or two are equal; and the labels of
        the rows, or None if there are none or too many.

    Raises
    ------
    InvalidProblem
        The file is not text, its lines differ in their numbers of fields, the matrix does not fit into memory, or
        nobody can tell whether the first line holds names.
    UnsupportedData
        A field is neither a number nor stands for a missing value.
    NonFiniteData
        A field is empty or stands for a missing value, and `files` does not permit missing values.
    """
    with text_errors(path):
        survey = surveyed(path)
        layout = _layout(path, files)
        count = len(layout.columns)
        check_memory(
            path, 8 * survey["lines"] * count, f"a matrix of {survey['lines']:,} x {count:,} numbers"
        )
        labelled = layout.labelled and survey["lines"] <= MOST_LABELS
        found = _by_arrow(layout, survey, labelled) or _by_lines(layout, labelled)
    if not found[0].size:
        first = ", ".join(layout.names or ())[:40]
        raise InvalidProblem(
            f"{path} has no line of numbers; its first line, {first!r}, is read as column names."
        )
    chosen = tuple(layout.names[j] for j in layout.columns) if layout.names else None
    return found[0], chosen if chosen and len(set(chosen)) == len(chosen) else None, _labels(found[1])


def read_texts(path: Path, files: RowFiles) -> list[str | None] | None:
    """Return the texts of a single named column, without its name; None for several columns or for one of numbers.

    Raises
    ------
    InvalidProblem
        The file is not text, its lines differ in their numbers of fields, or the column does not fit into memory.
    NonFiniteData
        A text is missing, and `files` does not permit missing values.
    """
    with text_errors(path):
        layout = _layout(path, files)
        if layout.names is None or len(layout.columns) > 1:
            return None
        count = surveyed(path)["lines"]
        check_memory(path, 8 * count, f"a column of {count:,} texts")
        (place,), texts, begun = layout.columns, list[str | None](), files.as_text
        for number, fields, _ in _rows(layout):
            text = fields[place].strip()
            missing = is_missing(text) and not files.as_text
            if missing and layout.gaps:
                texts.append(None)
                continue
            if not begun and (missing or is_like_number(text)):
                return None
            if missing:
                name = layout.names[place]
                raise NonFiniteData(
                    f"{path}, line {number}, field {place + 1}: a text is needed in column {name!r}; "
                    f"got {_got(text)}. {without_gaps(name)}"
                )
            begun = True
            texts.append(text)
    return texts if begun else None


def names_in_text(path: Path, files: RowFiles) -> tuple[str, ...] | range:
    """Return the names of the columns, or their numbers from 1 on if the first line has no names."""
    with text_errors(path):
        layout = _layout(path, replace(files, columns=None))
    return tuple(layout.names) if layout.names else range(1, layout.width + 1)


@dataclass(frozen=True)
class _Layout:
    """The layout of a text file.

    Attributes
    ----------
    path : Path
    start : int
        The number, from 1, of the first line with numbers.
    separator : str or None
        None for blanks.
    names : list of str or None
        The names of all columns; "" for labels of rows.
    width : int
        The number of fields in a line.
    columns : sequence of int
        The numbers of the columns to read.
    gaps : bool
        Whether values may be missing.
    """

    path: Path
    start: int
    separator: str | None
    names: list[str] | None
    width: int
    columns: Sequence[int]
    gaps: bool

    @property
    def labelled(self) -> bool:
        """Whether the first field of each line is a label of the row."""
        return labels_in_front(self.names or ()) > 0

    def number_in(self, text: str) -> float:
        """Convert a field to a number; NaN for a missing value, if these are permitted."""
        return math.nan if self.gaps and is_missing(text) else number_in(text)


def _layout(path: Path, files: RowFiles) -> _Layout:
    """Determine the layout of a file from its first lines that are neither blank nor comments."""
    lines, characters = list[tuple[int, str]](), 0
    with opened(path) as stream:
        for number, line in _spoken(stream):
            lines.append((number, line))
            characters += len(line)
            if len(lines) > 1 and (len(lines) > LINES or characters > CHARACTERS):
                break
    if not lines:
        raise InvalidProblem(f"{path} has no line of numbers: it is empty.")
    number, first = lines[0]
    tabbed = files.suffix.startswith(".tsv")
    separator = "\t" if tabbed else next((mark for mark in (",", ";", "\t") if mark in first), None)
    (_, fields), *below = split = [
        (line, [field.strip() for field in _fields(line, separator, path, at)]) for at, line in lines
    ]
    named = holds_names(split[0], below) if files.header == "auto" else files.header
    picked = {one for one in files.columns or () if isinstance(one, str)}
    if files.header == "auto" and picked and picked <= set(fields):
        named = True  # whoever picks columns by these names says that they are names
    if named is None and str(path) != files.paths[0]:  # as in the first of several files
        named = _layout(Path(files.paths[0]), files).names is not None
    if named is None:
        raise InvalidProblem(
            f"{path}, line {number}: it may hold names or numbers; got {shown(first)}. Say which: header=True or "
            "header=False of linspec.open_rows, on the command line --header or --no-header."
        )
    if named and below and all(_has_label(line, row, len(fields)) for line, row in below):
        fields = ["", *fields]  # as R writes them
    if named and below and fields[0] == below[0][1][0] == "" and any(row[0] for _, row in below):
        raise InvalidProblem(
            f"{path}, line {lines[1][0]}: a label of the row is needed, as on the lines below; got "
            f"{shown(lines[1][1])}. It may be a second line of names: write one name for each column."
        )
    names, width = fields if named else None, len(fields)
    columns = files.places(names, width, str(path)) or range(labels_in_front(names or ()), width)
    return _Layout(path, number + bool(names), separator, names, width, columns, files.missing == "nan")


def _has_label(line: str, row: list[str], names: int) -> bool:
    """Whether a line has one field more than there are names, and begins with a text."""
    return len(row) == names + 1 and row[-1] != "" and (line.startswith('"') or not is_like_number(row[0]))


def _labels(texts: list[str] | None) -> Sequence[Any] | None:
    """Return labels as whole numbers if all are."""
    if texts and all(text.isdecimal() and str(int(text)) == text for text in texts):
        return [int(text) for text in texts]
    return texts


def _by_lines(layout: _Layout, labelled: bool) -> tuple[Any, list[str] | None]:
    """Read the numbers, and the labels, line by line; NaN for missing values, if these are permitted."""
    import numpy as np

    numbers, labels = array("d"), list[str]()
    every = list(layout.columns) == list(range(layout.width))
    for number, fields, plain in _rows(layout):
        chosen = fields if every else [fields[j] for j in layout.columns]
        try:
            numbers.extend(map(float if plain and not layout.gaps else layout.number_in, chosen))
        except ValueError as error:
            raise _culprit(layout, number, fields) from error
        if labelled:
            labels.append(fields[0].strip())
    return np.frombuffer(numbers).reshape(-1, len(layout.columns)), labels if labelled else None


def _by_arrow(layout: _Layout, survey: Counter[str], labelled: bool) -> tuple[Any, list[str] | None] | None:
    """Read the numbers and the labels with pyarrow; None if it is not installed, fails, or does not suit the file.

    pyarrow is faster than Python's `float`, as strict, and rounds as exactly. Its errors say less, so after an error
    the caller reads the file again, line by line. pyarrow is not used for files that are small (below `LARGE`) or
    compressed, that have comments or quotes, whose fields are separated by blanks, or whose values may be missing.
    """
    plain = layout.separator is not None and not (survey['"'] or survey["#"] or layout.gaps)
    both = layout.labelled and 0 in layout.columns  # a column that is labels and numbers
    if not plain or both or survey["size"] < LARGE or layout.path.suffix.lower() == ".gz":
        return None
    try:
        import pyarrow as pa
        from pyarrow import csv
    except ImportError:
        return None
    import numpy as np

    names, chosen = [str(j) for j in range(layout.width)], [str(j) for j in layout.columns]
    numbers, rows, labels = np.empty((survey["lines"], len(chosen)), order="F"), 0, list[str]()
    try:
        with layout.path.open("rb") as stream:
            for batch in csv.open_csv(
                stream,
                csv.ReadOptions(column_names=names, skip_rows=layout.start - 1),
                csv.ParseOptions(delimiter=layout.separator, quote_char=False),
                csv.ConvertOptions(
                    column_types={"0": pa.string(), **dict.fromkeys(chosen, pa.float64())},
                    include_columns=[*chosen, *["0"] * labelled],
                    null_values=[],
                ),
            ):
                for j, column in enumerate(batch.columns[: len(chosen)]):
                    numbers[rows : rows + len(column), j] = column.to_numpy()  # raises if there are nulls
                rows += batch.num_rows
                labels += map(str.strip, batch.columns[-1].to_pylist() if labelled else ())
    except (pa.ArrowException, ValueError):
        return None
    return numbers[:rows], labels if labelled else None


def _rows(layout: _Layout) -> Iterator[tuple[int, list[str], bool]]:
    """Yield three values for each line of data: its number in the file from 1, its fields, and whether it is plain.

    A plain line is ASCII and has no underscore. In such a line `float` accepts the usual forms of numbers only; in
    other lines it would also accept forms of Python alone, such as 1_000.
    """
    with opened(layout.path) as stream:
        for number, line in _spoken(stream):
            if number < layout.start:
                continue
            fields = _fields(line, layout.separator, layout.path, number)
            if len(fields) > layout.width and layout.names and number == layout.start:
                raise InvalidProblem(
                    f"{layout.path}: line {number - 1} has {layout.width} names, line {number} has {len(fields)} "
                    "fields. Name each column, put quotes around labels of rows, or around a field that holds "
                    "separators or #."
                )
            if len(fields) != layout.width:
                raise InvalidProblem(
                    f"{layout.path}, line {number}: {layout.width} fields are needed, as on the lines before; got "
                    f"{len(fields)}. Put quotes around a field that holds separators or #."
                )
            yield number, fields, "_" not in line and line.isascii()


def _fields(line: str, separator: str | None, path: Path, number: int) -> list[str]:
    """Split a line into its fields, without the quotes around them."""
    if '"' not in line:
        return line.split(separator)
    line = line if separator else re.sub(r"\s", " ", line).strip()
    try:
        with long_fields(len(line)):
            (fields,) = csv.reader([line], delimiter=separator or " ", skipinitialspace=True, strict=True)
    except csv.Error as error:
        raise InvalidProblem(
            f"{path}, line {number}: a quote is not closed on its line, or stands inside a field ({error}). Put the "
            "whole field in quotes, or remove them; a field cannot go on to the next line."
        ) from error
    return fields


def _got(field: str) -> str:
    return repr(field[:40]) if field else "an empty field"


def _spoken(stream: Iterable[str]) -> Iterator[tuple[int, str]]:
    """Yield the number, from 1, and the text of each line that is neither blank nor only a comment.

    The text has no comment at its end, and no blanks around it.
    """
    for number, line in enumerate(stream, 1):
        text = _without_comment(line).strip(" \r\n") if "#" in line else line.strip(" \r\n")
        if text and not text.isspace():
            yield number, text


def _without_comment(line: str) -> str:
    """Return the line up to the first # that is not in quotes."""
    pieces = line.split('"')
    for place in range(0, len(pieces), 2):
        outside, mark, _ = pieces[place].partition("#")
        if mark:
            return '"'.join([*pieces[:place], outside])
    return line


def _culprit(layout: _Layout, number: int, fields: list[str]) -> LinspecError:
    """Return the error that names the first chosen field of a line that is no number."""
    for place in layout.columns:
        try:
            layout.number_in(fields[place])
        except ValueError:
            break
    name = layout.names[place] if layout.names else ""
    column = f" in column {shown(name)}" if layout.names else ""
    if any(map(is_like_number, layout.names or ())):
        column += f", as line {layout.start - 1} is read as a header"
    field = fields[place].strip()
    missing = is_missing(field)
    kind, remedy = (NonFiniteData, without_gaps(name)) if missing else (UnsupportedData, without_column(name))
    return kind(
        f"{layout.path}, line {number}, field {place + 1}: a number is needed; got {_got(field)}{column}. "
        f"{remedy}"
    )
