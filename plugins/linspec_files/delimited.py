"""Numbers in delimited text: `.csv`, `.tsv` and `.txt`, with or without a line of column names.

Problem: such files declare neither their separator nor whether the first line holds names, and a field that is no
number must be named by line and place. A line may never end, a few bytes may expand to more than the memory, and a zero
byte shows that the file is no text at all; a reader notices that too late.
Method: one look at the bytes, a piece at a time, counts lines and marks, before the numbers are read.
The first line that is neither blank nor a comment (``#``) decides: the separator is the tab in a `.tsv` file, else the
first of comma, semicolon and tab that it contains, else blanks. `first_line` says whether it is a header. Columns in
front without a name hold labels of the rows; so does the first field if the lines of data have one more than the
header, as R writes them. Python's module csv splits the lines. For a large and plain file pyarrow does that, if it is
installed; if it fails, the file is read again, to find the faulty field.
Source: RFC 4180 for the quotes; Python's ``csv`` and pyarrow's ``open_csv`` for the reading.
Where we differ: a missing field is an error that names it, not a NaN, and a line of other length is refused, where
pandas pads or cuts it. A quoted field ends on its line: a quote that is not closed would swallow the lines after it.
"""

from __future__ import annotations

import csv
import gzip
import io
import math
import re
import zlib
from array import array
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO, cast

from linspec.errors import InvalidProblem, LinspecError, NonFiniteData, UnsupportedData, shown
from linspec.operators import DenseOperator, LinearOperator, RowFiles, labels_in_front, long_fields
from linspec.process import check_memory, tell_rows
from linspec_files.first_line import holds_names, is_like_number, is_missing
from linspec_files.slabs import MOST_LABELS, WITHOUT_COLUMN, WITHOUT_GAPS, stacked, without_part

LARGE = 4 << 20
"""Least size of a file, in bytes, for which pyarrow saves more time than its import takes."""

BLOCK = 1 << 20
"""Number of bytes that pyarrow parses at a time."""

PIECE = 2**20
"""Number of bytes of a file that are looked at together."""

TOLD = 10_000
"""Number of lines that are read by Python between two looks at the line of progress."""

PER_CHARACTER = 16
"""Bytes of memory that a character takes while the fields of its line are held as texts and as numbers."""

BEFORE_COMMENT = re.compile(r'(?:[^"#]++|"[^"]*+"?+)*+')
"""A line up to the first # that is not in quotes."""

LINES, CHARACTERS = 20, 1 << 20
"""Largest numbers of lines, and of characters in them, with which the first line is compared; at least one line."""


# ---- texts ----------------------------------------------------------------------------------------------------


def opened_bytes(path: Path) -> BinaryIO:
    """Open a file, decompressed if its name ends in .gz."""
    return cast("BinaryIO", gzip.GzipFile(path)) if path.suffix.lower() == ".gz" else path.open("rb")


def opened(path: Path) -> io.TextIOWrapper:
    """Open a text file, decompressed if its name ends in .gz; a byte order mark is skipped."""
    return io.TextIOWrapper(opened_bytes(path), encoding="utf-8-sig")


@contextmanager
def text_errors(path: Path) -> Iterator[None]:
    """Turn errors of decoding and decompressing into an error that says that the file is not text, or not gzip."""
    try:
        yield
    except UnicodeDecodeError as error:
        raise InvalidProblem(f"{path} is not a text file ({error}). Save it as UTF-8.") from error
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise InvalidProblem(
            f"{path} is not a text file: it is not compressed by gzip, or it is damaged ({error})."
        ) from error


def surveyed(path: Path) -> Counter[str]:
    """Count the bytes as "size", the line ends (and 1) as "lines", and quotes and comments as "marks".

    Raises
    ------
    InvalidProblem
        It holds a zero byte, or a line that is too long for the memory.
    """
    counts, line = Counter(lines=1), 0
    with opened_bytes(path) as stream:
        while piece := stream.read(PIECE):
            if b"\0" in piece:
                place = counts["size"] + piece.index(b"\0")
                raise InvalidProblem(
                    f"{path} is not a text file: byte {place} is zero. Save it as UTF-8, without zeros."
                )
            ends = max(map(piece.count, (b"\n", b"\r")))  # old files end lines in \r alone
            counts.update(size=len(piece), lines=ends, marks=piece.count(b'"') + piece.count(b"#"))
            line = 0 if ends else line + len(piece)
            check_memory(path, PER_CHARACTER * line, f"a line of more than {line:,} characters")
    return counts


def number_in(text: str) -> float:
    """Convert a text to a number; raise ValueError for other texts, also for forms that only Python accepts."""
    if "_" in text or not text.isascii():  # forms that only Python accepts
        raise ValueError(text)
    return float(text)


# ---- numbers and texts of columns -----------------------------------------------------------------------------


def of_text(files: RowFiles) -> LinearOperator:
    """Make the operator of delimited text, with the names of its columns and the labels of its rows.

    Raises
    ------
    InvalidProblem
        A file is not text, its lines differ in their numbers of fields, the matrix does not fit into memory, or
        nobody can tell whether the first line holds names.
    UnsupportedData
        A field is neither a number nor stands for a missing value.
    NonFiniteData
        A field is empty or stands for a missing value, and `files` does not permit missing values.
    """
    without_part(files, "a table")
    return stacked(files, [_read(Path(path), files) for path in files.paths])


def _read(path: Path, files: RowFiles) -> LinearOperator:
    with text_errors(path):
        survey, layout = surveyed(path), _layout(path, files)
        lines, count, names = survey["lines"], len(layout.columns), layout.names
        check_memory(path, 8 * lines * count, f"a matrix of {lines:,} x {count:,} numbers")
        labelled = layout.labelled and lines <= MOST_LABELS
        numbers, labels = _by_arrow(layout, survey, labelled) or _numbers(layout, lines, labelled)
    if not len(numbers):
        first = ", ".join(names or ())[:40]
        raise InvalidProblem(
            f"{path} has no line of numbers; its first line, {first!r}, is read as column names."
        )
    operator = DenseOperator(numbers)
    chosen = tuple(names[j] for j in layout.columns) if names else ()
    operator.column_names = chosen if chosen and len(set(chosen)) == count else None
    whole = all(text.isdecimal() and str(int(text)) == text for text in labels)
    operator.row_names = (list(map(int, labels)) if whole else labels) if labelled else None
    return operator


def texts(files: RowFiles) -> list[str | None] | None:
    """Return the texts of a single named column, without its name; None for several columns or for one of numbers.

    Raises
    ------
    InvalidProblem
        The file is not text, its lines differ in their numbers of fields, or the column does not fit into memory.
    NonFiniteData
        A text is missing, and `files` does not permit missing values.
    """
    column = list[str | None]()
    for path in map(Path, files.paths):
        begun = files.as_text
        with text_errors(path):
            layout, lines = _layout(path, files), surveyed(path)["lines"]
            if layout.names is None or len(layout.columns) > 1:
                return None
            check_memory(path, 8 * lines, f"a column of {lines:,} texts")
            (place,), name = layout.columns, layout.names[layout.columns[0]]
            for number, _, fields in _lines(layout):
                text = fields[place].strip()
                missing = is_missing(text) and not files.as_text
                if not (missing and layout.gaps):
                    if not begun and (missing or is_like_number(text)):
                        return None
                    begun = True
                    if missing:
                        raise NonFiniteData(
                            f"{path}, line {number}, field {place + 1}: a text is needed in column {name!r}; "
                            f"got {_got(text)}. {WITHOUT_GAPS}"
                        )
                column.append(None if missing else text)
        if not begun:
            return None
    return column


def names(files: RowFiles) -> tuple[str, ...] | range:
    """Return the names of the columns of the first file, or their numbers from 1 on if its first line has no names."""
    path = Path(files.paths[0])
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
    names: list[str] | None
    width: int
    columns: Sequence[int]
    gaps: bool

    def number_in(self, text: str) -> float:
        """Convert a field to a number; NaN for a missing value, if these are permitted."""
        return math.nan if self.gaps and is_missing(text) else number_in(text)

    @property
    def labelled(self) -> bool:
        """Whether the first field of each line is a label of the row."""
        return labels_in_front(self.names or ()) > 0


def _layout(path: Path, files: RowFiles) -> _Layout:
    """Determine the layout of a file from its first lines that are neither blank nor comments."""
    lines, characters = list[tuple[int, str, list[str]]](), 0
    for number, line, fields in _spoken(path):
        lines.append((number, line, [field.strip() for field in fields]))
        characters += len(line)
        if len(lines) > 1 and (len(lines) > LINES or characters > CHARACTERS):
            break
    if not lines:
        raise InvalidProblem(f"{path} has no line of numbers: it is empty.")
    (number, first, fields), *below = lines
    named = holds_names(lines[0], below) if files.header == "auto" else files.header
    picked = {name for name in files.columns or () if isinstance(name, str)}
    if files.header == "auto" and picked and picked <= set(fields):
        named = True  # whoever picks columns by these names says that they are names
    if named is None:
        raise InvalidProblem(
            f"{path}, line {number}: it may hold names or numbers; got {shown(first)}. Say which: header=True or "
            "header=False of linspec.open_rows, on the command line --header or --no-header."
        )
    if (
        named
        and below
        and all(
            len(row) == len(fields) + 1 and row[-1] and (line.startswith('"') or not is_like_number(row[0]))
            for _, line, row in below
        )
    ):
        fields = ["", *fields]  # as R writes them
    if named and below and fields[0] == below[0][2][0] == "" and any(row[0] for *_, row in below):
        raise InvalidProblem(
            f"{path}, line {below[0][0]}: a label of the row is needed, as on the lines below; got "
            f"{shown(below[0][1])}. It may be a second line of names: write one name for each column."
        )
    names, width = fields if named else None, len(fields)
    columns = files.places(names, width, str(path)) or range(labels_in_front(names or ()), width)
    return _Layout(path, number + bool(names), names, width, columns, files.missing == "nan")


def _numbers(layout: _Layout, count: int, labelled: bool) -> tuple[Any, list[str]]:
    """Read the numbers, and the labels, of about so many lines; NaN for missing values, if these are permitted."""
    import numpy as np

    numbers, labels, tell = array("d"), list[str](), tell_rows(count)
    every = list(layout.columns) == list(range(layout.width))
    for number, line, fields in _lines(layout):
        plain = line.isascii() and "_" not in line and not layout.gaps
        convert = (
            float if plain else layout.number_in
        )  # float also accepts forms of Python alone, such as 1_000
        try:
            numbers.extend(map(convert, fields if every else [fields[j] for j in layout.columns]))
        except ValueError as error:
            raise _culprit(layout, number, fields) from error
        if labelled:
            labels.append(fields[0].strip())
        if number % TOLD == 0:
            tell(TOLD)
    return np.frombuffer(numbers).reshape(-1, len(layout.columns)), labels


def _by_arrow(layout: _Layout, survey: Counter[str], labelled: bool) -> tuple[Any, list[str]] | None:
    """Read the numbers and the labels with pyarrow; None if it is not installed, fails, or does not suit the file.

    pyarrow is faster than Python's `float`, as strict, and rounds as exactly. Its errors say less, so after an error
    the caller reads the file again, line by line. pyarrow is not used for files that are small (below `LARGE`) or
    compressed, that have comments or quotes, whose fields are separated by blanks, or whose values may be missing.
    """
    path, chosen = layout.path, list(map(str, layout.columns))
    separator = _separator(path, next(_spoken(path))[1])
    both = layout.labelled and "0" in chosen  # a column that is labels and numbers
    packed = path.suffix.lower() == ".gz"
    if survey["marks"] or survey["size"] < LARGE or packed or both or layout.gaps or separator is None:
        return None
    try:
        import pyarrow as pa
        from pyarrow import csv
    except ImportError:
        return None
    import numpy as np

    tell = tell_rows(survey["lines"])
    numbers, rows, labels = np.empty((survey["lines"], len(chosen)), order="F"), 0, list[str]()
    settings = (
        csv.ReadOptions(
            column_names=list(map(str, range(layout.width))), skip_rows=layout.start - 1, block_size=BLOCK
        ),
        csv.ParseOptions(delimiter=separator, quote_char=False),
        csv.ConvertOptions(
            column_types={"0": pa.string(), **dict.fromkeys(chosen, pa.float64())},
            include_columns=[*chosen, *["0"] * labelled],
            null_values=[],
        ),
    )
    try:
        with path.open("rb") as stream:
            for batch in csv.open_csv(stream, *settings):
                for j in range(len(chosen)):
                    numbers[rows : rows + batch.num_rows, j] = batch.column(j).to_numpy()  # refuses nulls
                rows += batch.num_rows
                tell(batch.num_rows)
                labels += map(str.strip, batch.column(len(chosen)).to_pylist() if labelled else ())
    except (pa.ArrowException, ValueError):
        return None
    return numbers[:rows], labels


def _lines(layout: _Layout) -> Iterator[tuple[int, str, list[str]]]:
    """Yield the number in the file, from 1, the text and the fields of each line of data."""
    for number, line, fields in _spoken(layout.path):
        if number >= layout.start and len(fields) != layout.width:
            message = (
                f"line {number}: {layout.width} fields are needed, as on the lines before; got {len(fields)}"
            )
            if layout.names and number == layout.start:
                message = (
                    f"line {number - 1} has {layout.width} names, line {number} has {len(fields)} fields"
                )
            raise InvalidProblem(
                f"{layout.path}, {message}. Name each column, and put quotes around a field that holds separators."
            )
        if number >= layout.start:
            yield number, line, fields


def _separator(path: Path, line: str) -> str | None:
    """Return what separates the fields of a file with this first line; None for blanks."""
    tabbed = path.name.lower().removesuffix(".gz").endswith(".tsv")
    return "\t" if tabbed else next((mark for mark in (",", ";", "\t") if mark in line), None)


def _spoken(path: Path) -> Iterator[tuple[int, str, list[str]]]:
    """Yield the number, from 1, the text and the fields of each line, up to a comment, that is not blank."""
    separator: str | None = ""
    with opened(path) as stream:
        for number, text in enumerate(stream, 1):
            line = (BEFORE_COMMENT.match(text)[0] if "#" in text else text).strip(" \r\n")  # type: ignore[index]
            if not line or line.isspace():
                continue
            separator = _separator(path, line) if separator == "" else separator
            if '"' not in line:
                yield number, line, line.split(separator)
                continue
            line = line if separator else re.sub(r"\s", " ", line).strip()
            try:
                with long_fields(len(line)):
                    (fields,) = csv.reader(
                        [line], delimiter=separator or " ", skipinitialspace=True, strict=True
                    )
            except csv.Error as error:
                raise InvalidProblem(
                    f"{path}, line {number}: a quote is not closed on its line, or stands inside a field ({error}). "
                    "Put the whole field in quotes, or remove them; a field cannot go on to the next line."
                ) from error
            yield number, line, fields


def _culprit(layout: _Layout, number: int, fields: list[str]) -> LinspecError:
    """Return the error that names the first chosen field of a line that is no number."""
    for place in layout.columns:
        try:
            layout.number_in(fields[place])
        except ValueError:
            break
    column = f" in column {shown(layout.names[place])}" if layout.names else ""
    field = fields[place].strip()
    kind, remedy = (NonFiniteData, WITHOUT_GAPS) if is_missing(field) else (UnsupportedData, WITHOUT_COLUMN)
    return kind(
        f"{layout.path}, line {number}, field {place + 1}: a number is needed; got {_got(field)}{column}. {remedy}"
    )


def _got(field: str) -> str:
    return repr(field[:40]) if field else "an empty field"
