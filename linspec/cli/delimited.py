"""Numbers in delimited text: `.csv`, `.tsv` and `.txt`, with or without a line of column names.

Problem: such files say neither what separates their fields nor whether the first line holds names, and a
field that is no number must be named by line and place.
Method: the first line that is neither blank nor a comment (``#``) decides: the separator is the tab in a `.tsv`
file, else the first of comma, semicolon and tab that it contains, else blanks; it is a header when none of
its fields is a number, and some field begins as a name does, or all of several fields hold letters. NumPy's reader
does the rest, or that of pyarrow where it is installed and the file is large and plain; only when they object is the
file read again, line by line, for the culprit.
Source: RFC 4180 for the quotes; NumPy's ``loadtxt`` and pyarrow's ``open_csv`` for the reading.
Where we differ: a missing field is an error that names it, not a NaN. A quoted field ends on its line, and nothing else
stands beside its quotes: a quote that is not closed would swallow the lines after it.
"""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from linspec.cli.columns import DROPPED, NamedMatrix, chosen_columns, without_columns
from linspec.cli.failures import Failure, in_one_line
from linspec.cli.text import Survey, opened, surveyed, text_errors
from linspec.errors import shown
from linspec.room import check_memory

__all__ = ["names_in_text", "number_in", "read_delimited"]

MISSING = frozenset({"", "?", "-", ".", "na", "n/a", "nan", "nil", "none", "null"})
"""What stands for a number that is not known, and is no name of a column."""

LARGE = 4 << 20
"""Bytes from which on pyarrow is worth the time of its import."""

BLOCK = 1 << 20
"""Bytes that pyarrow parses at a time."""

HIDDEN = "\0"
"""Stands for a separator inside quotes while a line is split; no text file has it."""


def number_in(text: str) -> float:
    """The number that a text is, written in digits as other programs read them; a ValueError where it is none."""
    if "_" in text or not text.isascii():  # Python's own forms
        raise ValueError(text)
    return float(text)


def read_delimited(path: Path, wanted: str = "", *, tabbed: bool = False, gaps: bool = False) -> NamedMatrix:
    """Read the numbers of a text file, or the texts of a single column.

    Parameters
    ----------
    path : Path
        Where it is.
    wanted : str, default ""
        Columns, as `linspec.cli.columns.chosen_columns` takes them; those of a file without names are called 1, 2, ...
    tabbed : bool, default False
        Whether tabs separate the fields, whatever else a line contains.
    gaps : bool, default False
        Whether values may be missing: numbers are NaN then, and texts empty.

    Returns
    -------
    NamedMatrix
        Its values are a numpy.ndarray of shape (rows, columns), float64. If there is a line of names, and its single
        column begins with a text, they are its texts.

    Raises
    ------
    Failure
        It is not text, not numbers, or its lines differ in length; or it does not fit into memory.
    """
    with text_errors(path):
        return _read(path, surveyed(path), wanted, tabbed, gaps)


def names_in_text(path: Path, *, tabbed: bool = False) -> tuple[str, ...] | None:
    """The names of the columns, where the first line has some."""
    with text_errors(path):
        start, first = _first_line(path)
        fields = _fields(first, _separator(first, tabbed), path, start)
    return tuple(fields) if _are_names(fields) else None


def _are_names(fields: list[str]) -> bool:
    """Whether the fields of the first line are names of columns."""
    if any(map(_is_like_number, fields)):
        return False
    return any(map(_is_name, fields)) or (len(fields) > 1 and all(map(_has_letters, fields)))


@dataclass(frozen=True)
class _Layout:
    """How a text file is laid out.

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
        Fields of a line.
    columns : list of int or None
        Those that are read; None for all.
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
    def chosen(self) -> tuple[str, ...] | None:
        """The names of the columns that are read."""
        if self.names is None:
            return None
        return tuple(self.names if self.columns is None else (self.names[j] for j in self.columns))

    def reads(self, place: int) -> bool:
        """Whether the field of this number, from 0, is read."""
        return self.columns is None or place in self.columns


def _read(path: Path, survey: Survey, wanted: str, tabbed: bool, gaps: bool) -> NamedMatrix:
    start, first = _first_line(path)
    separator = _separator(first, tabbed)
    fields = _fields(first, separator, path, start)
    named = _are_names(fields)
    names = fields if named else None
    columns = (
        chosen_columns(names or [str(j + 1) for j in range(len(fields))], wanted, str(path))
        if wanted
        else None
    )
    layout = _Layout(path, start + named, separator, names, len(fields), columns, gaps)
    count = layout.width if columns is None else len(columns)
    check_memory(path, 8 * survey.lines * count, f"a matrix of {survey.lines:,} x {count:,} numbers")
    if named and count == 1 and _begins_with_text(layout):
        return _texts(layout)
    numbers = _numbers_with_gaps(layout, survey) if gaps else _numbers_by_arrow(layout, survey)
    if numbers is None:
        numbers = _numbers(layout, survey)
    if not numbers.size:
        raise Failure(
            f"{path} has no line of numbers; its first line, {first[:40]!r}, is read as column names."
        )
    if names and columns is None and numbers.shape[1] != len(names):
        raise Failure(
            f"{path}, line {start}: {len(names)} column names stand above lines of {numbers.shape[1]} numbers. Name "
            "each column once, with quotes around a name that holds separators or #, or remove the names."
        )
    chosen = layout.chosen
    return NamedMatrix(numbers, chosen if chosen and len(set(chosen)) == len(chosen) else None)


def _numbers(layout: _Layout, survey: Survey) -> Any:
    """The numbers, by NumPy's reader."""
    import numpy as np

    with opened(layout.path) as stream:
        for _ in range(layout.start - 1):
            stream.readline()
        lines: Iterable[str] = stream
        if survey.quotes:
            lines = _checked(lines, layout.start, layout.separator, layout.path)
        if layout.columns is not None:
            lines = _of_one_width(lines, layout)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)  # "no data", which is said by the caller
                return np.loadtxt(
                    lines, delimiter=layout.separator, quotechar='"', ndmin=2, usecols=layout.columns
                )
        except ValueError as error:
            if isinstance(error, UnicodeDecodeError):
                raise
            raise _culprit(layout, error) from error


def _numbers_with_gaps(layout: _Layout, survey: Survey) -> Any:
    """The numbers, NaN where one is missing."""
    import numpy as np

    places = range(layout.width) if layout.columns is None else layout.columns
    numbers = np.empty((survey.lines, len(places)))
    rows = 0
    for number, fields in _lines_of_fields(layout):
        if len(fields) != layout.width:
            raise _wrong_width(layout, number, len(fields))
        chosen = [fields[j] for j in places]
        try:
            numbers[rows] = [math.nan if _is_missing(field) else number_in(field) for field in chosen]
        except ValueError as error:
            raise _culprit(layout, error) from error
        rows += 1
    return numbers[:rows]


def _numbers_by_arrow(layout: _Layout, survey: Survey) -> Any:
    """The same numbers, by pyarrow where it is installed; None where it is not, or where it stumbles.

    It is faster, as strict, and rounds as well, but it says less of what is wrong: then NumPy's reader begins anew. It
    knows no comments, and quotes otherwise.
    """
    plain = layout.separator is not None and not survey.quotes and not survey.hashes
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
    """Whether the first field of the column that is read is no number, and not missing."""
    for _, fields in _lines_of_fields(layout):
        field = fields[layout.columns[0] if layout.columns else 0] if len(fields) == layout.width else ""
        if not (layout.gaps and _is_missing(field)):
            return not _is_like_number(field) and not _is_missing(field)
    return False


def _texts(layout: _Layout) -> NamedMatrix:
    """The texts of a single column."""
    import numpy as np

    place = layout.columns[0] if layout.columns else 0
    name = (layout.names or [""])[place]
    texts = []
    for number, fields in _lines_of_fields(layout):
        if len(fields) != layout.width:
            raise _wrong_width(layout, number, len(fields))
        if _is_missing(fields[place]):
            if layout.gaps:
                texts.append("")
                continue
            raise Failure(
                f"{layout.path}, line {number}, field {place + 1}: a text is needed in column {name!r}; got "
                f"{_got(fields[place])}. {DROPPED}"
            )
        texts.append(fields[place])
    first = next((text for text in texts if text), "")
    said = f"{layout.path}, line {layout.start}, field {place + 1}: a number is needed; got {_got(first)} in column"
    return NamedMatrix(np.asarray(texts), (name,), f"{said} {shown(name)}. {without_columns(name)}")


def _lines_of_fields(layout: _Layout) -> Iterator[tuple[int, list[str]]]:
    """The fields of each line that says something, with the number of the line."""
    with opened(layout.path) as stream:
        for number, line in _spoken(stream):
            if number >= layout.start:
                yield number, _fields(line, layout.separator, layout.path, number)


def _of_one_width(lines: Iterable[str], layout: _Layout) -> Iterator[str]:
    """The lines, once each has the fields of the first: NumPy does not count where it reads some of them."""
    for number, line in enumerate(lines, layout.start):
        text = _without_comment(line).rstrip("\r\n")
        if text.strip():
            fields = _fields(text, layout.separator, layout.path, number) if '"' in text else None
            count = len(text.split(layout.separator) if fields is None else fields)
            if count != layout.width:
                raise _wrong_width(layout, number, count)
        yield line


def _wrong_width(layout: _Layout, number: int, count: int) -> Failure:
    return Failure(
        f"{layout.path}, line {number}: {layout.width} fields are needed, as on the lines before; got {count}."
    )


def _got(field: str) -> str:
    return repr(field[:40]) if field else "an empty field"


def _first_line(path: Path) -> tuple[int, str]:
    """The number (from 1) and the text of the first line that says something."""
    with opened(path) as stream:
        for number, line in _spoken(stream):
            return number, line
    raise Failure(f"{path} has no line of numbers: it is empty.")


def _spoken(stream: Iterable[str]) -> Iterator[tuple[int, str]]:
    """Lines that are neither blank nor comments, with their numbers from 1."""
    for number, line in enumerate(stream, 1):
        text = _without_comment(line).rstrip("\r\n")
        if text.strip():
            yield number, text


def _without_comment(line: str) -> str:
    """The line up to the first # that is not in quotes."""
    if '"' not in line:
        return line.partition("#")[0]
    pieces = line.split('"')
    for place in range(0, len(pieces), 2):
        outside, mark, _ = pieces[place].partition("#")
        if mark:
            return '"'.join([*pieces[:place], outside])
    return line


def _separator(line: str, tabbed: bool) -> str | None:
    if tabbed:
        return "\t"
    return next((mark for mark in (",", ";", "\t") if mark in line), None)


def _checked(lines: Iterable[str], start: int, separator: str | None, path: Path) -> Iterator[str]:
    """The lines, once their quotes are as they must be."""
    for number, line in enumerate(lines, start):
        if '"' in line:
            _check_quotes(_without_comment(line).rstrip("\r\n").split('"'), separator, path, number)
        yield line


def _check_quotes(pieces: list[str], separator: str | None, path: Path, number: int) -> None:
    """Refuse a line, cut at its quotes, where one is not closed or stands inside a field."""
    if len(pieces) % 2 == 0:
        raise Failure(
            f"{path}, line {number}: a quote is not closed on its line. Close it, or remove it; a field cannot go "
            "on to the next line."
        )
    for place in range(0, len(pieces), 2):
        outside, first, last = pieces[place], place == 0, place == len(pieces) - 1
        if not outside and not (first or last):
            continue  # two quotes, which stand for one
        begins = first or _parts(outside, separator)
        ends = last or _parts(outside[::-1], separator)
        alone = (first or last) and not outside.strip(" ")
        if not (alone or (begins and ends)):
            raise Failure(
                f"{path}, line {number}: a quote stands inside a field. Put the whole field in quotes, or remove them."
            )


def _parts(text: str, separator: str | None) -> bool:
    """Whether a text, blanks aside, begins by parting two fields."""
    return text[:1].isspace() if separator is None else text.lstrip(" ").startswith(separator)


def _fields(line: str, separator: str | None, path: Path, number: int) -> list[str]:
    """The fields of a line, without the quotes around them."""
    if '"' in line:
        pieces = line.split('"')
        _check_quotes(pieces, separator, path, number)
        # What separates fields elsewhere belongs to the field inside quotes.
        within = re.escape(separator) if separator else r"\s"
        pieces[1::2] = [re.sub(within, HIDDEN, piece) for piece in pieces[1::2]]
        pieces[2:-1:2] = [piece or '"' for piece in pieces[2:-1:2]]  # two quotes inside a field stand for one
        line = "".join(pieces)
    fields = line.split(separator)
    return [field.replace(HIDDEN, separator or " ").strip() for field in fields]


def _is_name(text: str) -> bool:
    """Whether a field can be the name of a column: it begins as no number does, and stands for no missing one."""
    return text[:1] not in set("+-.,0123456789") and _has_letters(text)


def _has_letters(text: str) -> bool:
    """Whether a field may be a name, as `1007_s_at` is: a line whose every number is misspelt is not to be expected."""
    return any(map(str.isalpha, text)) and text.lower() not in MISSING


def _is_missing(text: str) -> bool:
    """Whether a field stands for a value that is not known; NaN is a number, too."""
    return text.lower() in MISSING


def _is_like_number(text: str) -> bool:
    """Whether Python takes a field for a number, which is more than the reader does."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def _is_number(text: str) -> bool:
    try:
        number_in(text)
    except ValueError:
        return False
    return True


def _culprit(layout: _Layout, error: ValueError) -> Failure:
    """The failure that names the first line at fault."""
    width = 0
    for number, fields in _lines_of_fields(layout):
        for place, field in enumerate(fields):
            if layout.reads(place) and not (_is_number(field) or (layout.gaps and _is_missing(field))):
                names = layout.names or ()
                fits = len(names) == len(fields)
                column = f" in column {shown(names[place])}" if fits else ""
                remedy = DROPPED if _is_missing(field) else without_columns(names[place] if fits else "")
                return Failure(
                    f"{layout.path}, line {number}, field {place + 1}: a number is needed; got {_got(field)}{column}. "
                    f"{remedy}"
                )
        width = width or len(fields)
        if len(fields) != width:
            return Failure(
                f"{layout.path}, line {number}: {width} fields are needed, as on the lines before; got {len(fields)}."
            )
    return Failure(f"{layout.path} cannot be read as numbers ({in_one_line(str(error))}).")
