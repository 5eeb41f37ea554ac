"""Numbers in delimited text: `.csv`, `.tsv` and `.txt`, with or without a line of column names.

Problem: such files declare neither their separator nor whether the first line holds names, and a field that is no
number must be named by line and place.
Method: the first line that is neither blank nor a comment (``#``) decides: the separator is the tab in a `.tsv`
file, else the first of comma, semicolon and tab that it contains, else blanks. `first_line` says whether it is a
header. Columns in front without a name hold labels of the rows; so does the first field if the lines of data have one
more than the header, as R writes them. Python's module csv splits the lines. For a large and plain file pyarrow does
that, if it is installed; if it fails, the file is read again, to find the faulty field.
Source: RFC 4180 for the quotes; Python's ``csv`` and pyarrow's ``open_csv`` for the reading.
Where we differ: a missing field is an error that names it, not a NaN. A quoted field ends on its line: a quote that is
not closed would swallow the lines after it.
"""

from __future__ import annotations

import csv
import math
import re
from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from linspec.errors import InvalidProblem, LinspecError, NonFiniteData, UnsupportedData, shown
from linspec.operators import RowFiles, labels_in_front, long_fields
from linspec.process import check_memory
from linspec_files.first_line import holds_names, is_like_number, is_missing
from linspec_files.stored import MOST_LABELS
from linspec_files.tables import without_column, without_gaps
from linspec_files.text import Survey, opened, surveyed, text_errors

__all__ = ["names_in_text", "number_in", "read_delimited", "read_texts"]

LARGE = 4 << 20
"""Least size of a file, in bytes, for which pyarrow saves more time than its import takes."""

BLOCK = 1 << 20
"""Number of bytes that pyarrow parses at a time."""

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
        survey, layout = surveyed(path), _layout(path, files)
        count = layout.count
        check_memory(path, 8 * survey.lines * count, f"a matrix of {survey.lines:,} x {count:,} numbers")
        labels: list[str] | None = [] if layout.labelled and survey.lines <= MOST_LABELS else None
        numbers = _numbers_by_arrow(layout, survey, labels)
        if numbers is None:
            numbers = _numbers(layout, labels)
        if not numbers.size:
            raise _without_numbers(layout)
        chosen = layout.chosen
        return numbers, chosen if chosen and len(set(chosen)) == len(chosen) else None, _labels(labels)


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
        if layout.names is None or layout.count > 1:
            return None
        survey = surveyed(path)
        check_memory(path, 8 * survey.lines, f"a column of {survey.lines:,} texts")
        if files.as_text:
            place = layout.columns[0] if layout.columns else 0
            return [fields[place].strip() for _, fields, _ in _rows(layout)]
        return _texts(layout) if _begins_with_text(layout) else None


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
    columns : list of int or None
        The numbers of the columns to read; None for all.
    gaps : bool
        Whether values may be missing.
    """

    path: Path
    start: int
    separator: str | None
    names: list[str] | None
    width: int
    columns: list[int] | None
    gaps: bool = False

    @property
    def labelled(self) -> bool:
        """Whether the first field of each line is a label of the row."""
        return labels_in_front(self.names or ()) > 0

    @property
    def count(self) -> int:
        """The number of columns to read."""
        return self.width if self.columns is None else len(self.columns)

    @property
    def chosen(self) -> tuple[str, ...] | None:
        """The names of the columns to read."""
        if self.names is None:
            return None
        return tuple(self.names if self.columns is None else (self.names[j] for j in self.columns))

    def number_in(self, text: str) -> float:
        """Convert a field to a number; NaN for a missing value, if these are permitted."""
        return math.nan if self.gaps and is_missing(text) else number_in(text)


def _layout(path: Path, files: RowFiles) -> _Layout:
    """Determine the layout of a file from its first lines that are neither blank nor comments."""
    lines = _beginning(path)
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
    names = fields if named else None
    columns = files.places(names, len(fields), str(path))
    if columns is None and (front := labels_in_front(names or ())):
        columns = list(range(front, len(fields)))
    return _Layout(path, number + bool(names), separator, names, len(fields), columns, files.missing == "nan")


def _beginning(path: Path) -> list[tuple[int, str]]:
    """Return the first lines of a file that are neither blank nor comments, with their numbers."""
    found: list[tuple[int, str]] = []
    with opened(path) as stream:
        for number, line in _spoken(stream):
            found.append((number, line))
            if len(found) > 1 and (len(found) > LINES or sum(len(one) for _, one in found) > CHARACTERS):
                break
    return found


def _has_label(line: str, row: list[str], names: int) -> bool:
    """Whether a line has one field more than there are names, and begins with a text."""
    return len(row) == names + 1 and row[-1] != "" and (line.startswith('"') or not is_like_number(row[0]))


def _labels(texts: list[str] | None) -> Sequence[Any] | None:
    """Return labels as whole numbers if all are."""
    if texts and all(text.isdecimal() and str(int(text)) == text for text in texts):
        return [int(text) for text in texts]
    return texts


def _without_numbers(layout: _Layout) -> InvalidProblem:
    said = ", ".join(layout.names or ())[:40]
    return InvalidProblem(
        f"{layout.path} has no line of numbers; its first line, {said!r}, is read as column names."
    )


def _numbers(layout: _Layout, labels: list[str] | None) -> Any:
    """Read the numbers, and the labels, line by line; NaN for missing values, if these are permitted."""
    import numpy as np

    numbers = array("d")
    for number, fields, plain in _rows(layout):
        chosen = fields if layout.columns is None else [fields[j] for j in layout.columns]
        try:
            numbers.extend(map(float if plain and not layout.gaps else layout.number_in, chosen))
        except ValueError as error:
            raise _culprit(layout, number, fields) from error
        if labels is not None:
            labels.append(fields[0].strip())
    return np.frombuffer(numbers).reshape(-1, layout.count) if numbers else np.empty((0, layout.count))


def _numbers_by_arrow(layout: _Layout, survey: Survey, labels: list[str] | None) -> Any:
    """Read the numbers and the labels with pyarrow; None if it is not installed, fails, or does not suit the file.

    pyarrow is faster than Python's `float`, as strict, and rounds as exactly. Its errors say less, so after an error
    the caller reads the file again, line by line. pyarrow is not used for files that are small (below `LARGE`) or
    compressed, that have comments or quotes, whose fields are separated by blanks, or whose values may be missing.
    """
    plain = layout.separator is not None and not survey.quotes and not survey.hashes and not layout.gaps
    plain = plain and not (
        layout.labelled and 0 in (layout.columns or ())
    )  # a column that is labels and numbers
    if not plain or survey.size < LARGE or layout.path.suffix.lower() == ".gz":
        return None
    try:
        import pyarrow as pa
        from pyarrow import csv
    except ImportError:
        return None
    import numpy as np

    names = [str(j) for j in range(layout.width)]
    chosen = names if layout.columns is None else [names[j] for j in layout.columns]
    numbers = np.empty((survey.lines, len(chosen)), order="F")
    types, wanted = dict.fromkeys(chosen, pa.float64()), list(chosen)
    if labels is not None:
        types, wanted = {**types, "0": pa.string()}, [*chosen, "0"]
    rows, found = 0, list[str]()
    try:
        with (
            layout.path.open("rb") as stream,
            csv.open_csv(
                stream,
                csv.ReadOptions(column_names=names, skip_rows=layout.start - 1, block_size=BLOCK),
                csv.ParseOptions(delimiter=layout.separator, quote_char=False),
                csv.ConvertOptions(column_types=types, include_columns=wanted, null_values=[]),
            ) as batches,
        ):
            for batch in batches:
                for j, column in enumerate(batch.columns[: len(chosen)]):
                    if column.null_count:
                        return None
                    numbers[rows : rows + len(column), j] = column.to_numpy()
                rows += batch.num_rows
                if labels is not None:
                    found += map(str.strip, batch.columns[-1].to_pylist())
    except (pa.ArrowException, ValueError):
        return None
    if labels is not None:
        labels += found
    return numbers[:rows]


def _begins_with_text(layout: _Layout) -> bool:
    """Whether the first present value of the chosen column is a text, not a number."""
    place = layout.columns[0] if layout.columns else 0
    for _, fields, _ in _rows(layout):
        field = fields[place].strip()
        if not (layout.gaps and is_missing(field)):
            return not is_like_number(field) and not is_missing(field)
    return False


def _texts(layout: _Layout) -> list[str | None]:
    """Read the texts of a single column; None for missing ones, if these are permitted."""
    place = layout.columns[0] if layout.columns else 0
    name = (layout.names or [""])[place]
    texts: list[str | None] = []
    for number, fields, _ in _rows(layout):
        text = fields[place].strip()
        missing = is_missing(text)
        if missing and not layout.gaps:
            raise NonFiniteData(
                f"{layout.path}, line {number}, field {place + 1}: a text is needed in column {name!r}; "
                f"got {_got(text)}. {without_gaps(name)}"
            )
        texts.append(None if missing else text)
    return texts


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
    for place in layout.columns or range(len(fields)):
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
