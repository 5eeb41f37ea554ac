"""Numbers in delimited text: `.csv`, `.tsv` and `.txt`, with or without a line of column names.

Problem: such files say neither what separates their fields nor whether the first line holds names, and a
field that is no number must be named by line and place.
Method: the first line that is neither blank nor a comment (``#``) decides: the separator is the tab in a `.tsv`
file, else the first of comma, semicolon and tab that it contains, else blanks; it is a header when none of
its fields is a number. NumPy's reader does the rest; only when it objects is the file read again,
line by line, for the culprit.
Source: RFC 4180 for the quotes; NumPy's ``loadtxt`` for the reading.
Where we differ: a missing field is an error that names it, not a NaN.
"""

from __future__ import annotations

import csv
import gzip
import io
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from linspec.cli.failures import Failure, in_one_line

if TYPE_CHECKING:
    from linspec.arrays import Array

__all__ = ["opened", "read_delimited"]


def opened(path: Path) -> io.TextIOWrapper:
    """Open a text file, compressed by gzip where its name ends in .gz; a byte order mark is skipped."""
    stream: Any = gzip.GzipFile(path) if path.suffix.lower() == ".gz" else path.open("rb")
    return io.TextIOWrapper(stream, encoding="utf-8-sig")


def read_delimited(path: Path, *, tabbed: bool = False) -> Array:
    """Read the numbers of a text file.

    Parameters
    ----------
    path : Path
        Where it is.
    tabbed : bool, default False
        Whether tabs separate the fields, whatever else a line contains.

    Returns
    -------
    numpy.ndarray of shape (rows, columns), float64

    Raises
    ------
    Failure
        It is not text, not numbers, or its lines differ in length.
    """
    import numpy as np

    try:
        start, first = _first_line(path)
        separator = _separator(first, tabbed)
        named = not any(map(_is_number, _fields(first, separator)))
        with opened(path) as stream:
            for _ in range(start if named else start - 1):
                stream.readline()
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", UserWarning)  # "no data", which is said below
                    numbers = np.loadtxt(stream, delimiter=separator, quotechar='"', ndmin=2)
            except ValueError as error:
                raise _culprit(path, start + named, separator, error) from error
    except (UnicodeDecodeError, EOFError, gzip.BadGzipFile) as error:
        raise Failure(f"{path} is not a text file ({in_one_line(str(error))}).") from error
    if not numbers.size:
        raise Failure(
            f"{path} has no line of numbers; its first line, {first[:40]!r}, is read as column names."
        )
    return numbers


def _first_line(path: Path) -> tuple[int, str]:
    """The number (from 1) and the text of the first line that says something."""
    with opened(path) as stream:
        for number, line in _spoken(stream):
            return number, line
    raise Failure(f"{path} has no line of numbers: it is empty.")


def _spoken(stream: io.TextIOWrapper) -> Iterator[tuple[int, str]]:
    """Lines that are neither blank nor comments, with their numbers from 1."""
    for number, line in enumerate(stream, 1):
        text = line.partition("#")[0].rstrip("\r\n")
        if text.strip():
            yield number, text


def _separator(line: str, tabbed: bool) -> str | None:
    if tabbed:
        return "\t"
    return next((mark for mark in (",", ";", "\t") if mark in line), None)


def _fields(line: str, separator: str | None) -> list[str]:
    if separator is None:
        return line.split()
    return [field.strip() for field in next(csv.reader([line], delimiter=separator))]


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _culprit(path: Path, start: int, separator: str | None, error: ValueError) -> Failure:
    """The failure that names the first line at fault."""
    width = 0
    with opened(path) as stream:
        for number, line in _spoken(stream):
            if number < start:
                continue
            fields = _fields(line, separator)
            for place, field in enumerate(fields, 1):
                if not _is_number(field):
                    got = repr(field[:40]) if field else "an empty field"
                    return Failure(
                        f"{path}, line {number}, field {place}: a number is needed; got {got}. Remove such columns "
                        "and fill or drop such rows."
                    )
            width = width or len(fields)
            if len(fields) != width:
                return Failure(
                    f"{path}, line {number}: {width} fields are needed, as on the lines before; got {len(fields)}."
                )
    return Failure(f"{path} cannot be read as numbers ({in_one_line(str(error))}).")
