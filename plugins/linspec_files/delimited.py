"""Numbers in delimited text: `.csv`, `.tsv` and `.txt`, with or without a line of column names.

Problem: such files declare neither their separator nor whether the first line holds names, and a field that is no
number must be named by line and place.
Method: the first line that is neither blank nor a comment (``#``) decides: the separator is the tab in a `.tsv`
file, else the first of comma, semicolon and tab that it contains, else blanks; it is a header if none of its fields is
a number, and some field begins like a name, or all of several fields hold letters. Python's module csv splits the
lines. For a large and plain file pyarrow does that, if it is installed; if it fails, the file is read again, to find
the faulty field.
Source: RFC 4180 for the quotes; Python's ``csv`` and pyarrow's ``open_csv`` for the reading.
Where we differ: a missing field is an error that names it, not a NaN. A quoted field ends on its line: a quote that is
not closed would swallow the lines after it.
"""

from __future__ import annotations

import csv
import math
import re
from array import array
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from linspec.errors import InvalidProblem, LinspecError, NonFiniteData, UnsupportedData, shown
from linspec.operators import RowFiles, long_fields
from linspec.process import check_memory
from linspec_files.tables import without_column, without_gaps
from linspec_files.text import Survey, opened, surveyed, text_errors

__all__ = ["names_in_text", "number_in", "read_delimited", "read_texts"]

MISSING = frozenset({"", "?", "-", ".", "na", "n/a", "nan", "nil", "none", "null"})
"""Texts that stand for a missing number, and cannot be names of columns."""

LARGE = 4 << 20
"""Least size of a file, in bytes, for which pyarrow saves more time than its import takes."""

BLOCK = 1 << 20
"""Number of bytes that pyarrow parses at a time."""


def number_in(text: str) -> float:
    """Convert a text to a number; raise ValueError for other texts, also for forms that only Python accepts."""
    if "_" in text or not text.isascii():  # forms that only Python accepts
        raise ValueError(text)
    return float(text)


def read_delimited(path: Path, files: RowFiles) -> tuple[Any, tuple[str, ...] | None]:
    """Read the numbers of a text file.

    Parameters
    ----------
    path : Path
        The file. In a `.tsv` file tabs separate the fields, whatever else a line contains.
    files : RowFiles
        The columns to read, and whether values may be missing; these become NaN.

    Returns
    -------
    numpy.ndarray of shape (rows, columns), tuple of str or None
        The numbers, in float64; and the names of the columns, or None if there are none or two are equal.

    Raises
    ------
    InvalidProblem
        The file is not text, its lines differ in their numbers of fields, or the matrix does not fit into memory.
    UnsupportedData
        A field is neither a number nor stands for a missing value.
    NonFiniteData
        A field is empty or stands for a missing value, and `files` does not permit missing values.
    """
    with text_errors(path):
        survey, layout = surveyed(path), _layout(path, files)
        count = layout.count
        check_memory(path, 8 * survey.lines * count, f"a matrix of {survey.lines:,} x {count:,} numbers")
        numbers = _numbers_by_arrow(layout, survey)
        if numbers is None:
            numbers = _numbers(layout)
        if not numbers.size:
            raise _without_numbers(layout)
        chosen = layout.chosen
        return numbers, chosen if chosen and len(set(chosen)) == len(chosen) else None


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


def names_in_text(path: Path) -> tuple[str, ...] | range:
    """Return the names of the columns, or their numbers from 1 on if the first line has no names."""
    with text_errors(path):
        layout = _layout(path, RowFiles((str(path),)))
    return tuple(layout.names) if layout.names else range(1, layout.width + 1)


def _are_names(fields: list[str]) -> bool:
    """Whether the fields of the first line are names of columns."""
    if any(map(_is_like_number, fields)):
        return False
    return any(map(_is_name, fields)) or (len(fields) > 1 and all(map(_has_letters, fields)))


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
        The names of all columns.
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
        return math.nan if self.gaps and _is_missing(text) else number_in(text)


def _layout(path: Path, files: RowFiles) -> _Layout:
    """Determine the layout of a file from its first line that is neither blank nor a comment."""
    with opened(path) as stream:
        number, first = next(_spoken(stream), (0, ""))
    if not number:
        raise InvalidProblem(f"{path} has no line of numbers: it is empty.")
    tabbed = files.suffix.startswith(".tsv")
    separator = "\t" if tabbed else next((mark for mark in (",", ";", "\t") if mark in first), None)
    fields = [field.strip() for field in _fields(first, separator, path, number)]
    names = fields if _are_names(fields) else None
    columns = files.places(names, len(fields), str(path))
    return _Layout(path, number + bool(names), separator, names, len(fields), columns, files.missing == "nan")


def _without_numbers(layout: _Layout) -> InvalidProblem:
    said = ", ".join(layout.names or ())[:40]
    return InvalidProblem(
        f"{layout.path} has no line of numbers; its first line, {said!r}, is read as column names."
    )


def _numbers(layout: _Layout) -> Any:
    """Read the numbers line by line; NaN for missing values, if these are permitted."""
    import numpy as np

    numbers = array("d")
    for number, fields, plain in _rows(layout):
        chosen = fields if layout.columns is None else [fields[j] for j in layout.columns]
        try:
            numbers.extend(map(float if plain and not layout.gaps else layout.number_in, chosen))
        except ValueError as error:
            raise _culprit(layout, number, fields) from error
    return np.frombuffer(numbers).reshape(-1, layout.count) if numbers else np.empty((0, layout.count))


def _numbers_by_arrow(layout: _Layout, survey: Survey) -> Any:
    """Read the numbers with pyarrow. Return None if pyarrow is not installed, fails, or cannot be used for the file.

    pyarrow is faster than Python's `float`, as strict, and rounds as exactly. Its errors say less, so after an error
    the caller reads the file again, line by line. pyarrow is not used for files that are small (below `LARGE`) or
    compressed, that have comments or quotes, whose fields are separated by blanks, or whose values may be missing.
    """
    plain = layout.separator is not None and not survey.quotes and not survey.hashes and not layout.gaps
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
    rows = 0
    try:
        with (
            layout.path.open("rb") as stream,
            csv.open_csv(
                stream,
                csv.ReadOptions(column_names=names, skip_rows=layout.start - 1, block_size=BLOCK),
                csv.ParseOptions(delimiter=layout.separator, quote_char=False),
                csv.ConvertOptions(
                    column_types=dict.fromkeys(chosen, pa.float64()), include_columns=chosen, null_values=[]
                ),
            ) as batches,
        ):
            for batch in batches:
                for j, column in enumerate(batch.columns):
                    if column.null_count:
                        return None
                    numbers[rows : rows + len(column), j] = column.to_numpy()
                rows += batch.num_rows
    except (pa.ArrowException, ValueError):
        return None
    return numbers[:rows]


def _begins_with_text(layout: _Layout) -> bool:
    """Whether the first present value of the chosen column is a text, not a number."""
    place = layout.columns[0] if layout.columns else 0
    for _, fields, _ in _rows(layout):
        field = fields[place].strip()
        if not (layout.gaps and _is_missing(field)):
            return not _is_like_number(field) and not _is_missing(field)
    return False


def _texts(layout: _Layout) -> list[str | None]:
    """Read the texts of a single column; None for missing ones, if these are permitted."""
    place = layout.columns[0] if layout.columns else 0
    name = (layout.names or [""])[place]
    texts: list[str | None] = []
    for number, fields, _ in _rows(layout):
        text = fields[place].strip()
        missing = _is_missing(text)
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


def _is_name(text: str) -> bool:
    """Whether a field has letters, does not begin like a number, and does not stand for a missing value."""
    return text[:1] not in set("+-.,0123456789") and _has_letters(text)


def _has_letters(text: str) -> bool:
    """Whether a field contains letters and does not stand for a missing value.

    The field may begin like a number: the name `1007_s_at` has letters.
    """
    return any(map(str.isalpha, text)) and text.lower() not in MISSING


def _is_missing(text: str) -> bool:
    """Whether a field stands for a missing value; NaN is both missing and a number."""
    return text.strip().lower() in MISSING


def _is_like_number(text: str) -> bool:
    """Whether Python accepts a field as a number; Python accepts more forms than `number_in`."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def _culprit(layout: _Layout, number: int, fields: list[str]) -> LinspecError:
    """Return the error that names the first chosen field of a line that is no number."""
    for place in layout.columns or range(len(fields)):
        try:
            layout.number_in(fields[place])
        except ValueError:
            break
    name = layout.names[place] if layout.names else ""
    column = f" in column {shown(name)}" if layout.names else ""
    field = fields[place].strip()
    missing = _is_missing(field)
    kind, remedy = (NonFiniteData, without_gaps(name)) if missing else (UnsupportedData, without_column(name))
    return kind(
        f"{layout.path}, line {number}, field {place + 1}: a number is needed; got {_got(field)}{column}. "
        f"{remedy}"
    )
