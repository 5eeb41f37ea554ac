"""Numbers in delimited text: `.csv`, `.tsv` and `.txt`, with or without a line of column names.

Problem: such files say neither what separates their fields nor whether the first line holds names, and a
field that is no number must be named by line and place.
Method: the first line that is neither blank nor a comment (``#``) decides: the separator is the tab in a `.tsv`
file, else the first of comma, semicolon and tab that it contains, else blanks; it is a header when none of
its fields is a number and some field can be a name. NumPy's reader does the rest; only when it objects is the file read
again, line by line, for the culprit.
Source: RFC 4180 for the quotes; NumPy's ``loadtxt`` for the reading.
Where we differ: a missing field is an error that names it, not a NaN. A quoted field ends on its line, and nothing else
stands beside its quotes: a quote that is not closed would swallow the lines after it.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from linspec.cli.failures import Failure, in_one_line
from linspec.cli.memory import check_memory
from linspec.cli.text import Survey, opened, surveyed, text_errors

if TYPE_CHECKING:
    from linspec.arrays import Array

__all__ = ["number_in", "read_delimited"]

MISSING = frozenset({"", "?", "-", ".", "na", "n/a", "nan", "nil", "none", "null"})
"""What stands for a number that is not known, and is no name of a column."""

HIDDEN = "\0"
"""Stands for a separator inside quotes while a line is split; no text file has it."""


def number_in(text: str) -> float:
    """The number that a text is, written in digits as other programs read them; a ValueError where it is none."""
    if "_" in text or not text.isascii():  # Python's own forms
        raise ValueError(text)
    return float(text)


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
        It is not text, not numbers, or its lines differ in length; or it does not fit into memory.
    """
    with text_errors(path):
        return _read(path, surveyed(path), tabbed)


def _read(path: Path, survey: Survey, tabbed: bool) -> Array:
    import numpy as np

    start, first = _first_line(path)
    separator = _separator(first, tabbed)
    names = _fields(first, separator, path, start)
    named = not any(map(_is_like_number, names)) and any(map(_is_name, names))
    check_memory(
        path, 8 * survey.lines * len(names), f"a matrix of {survey.lines:,} x {len(names):,} numbers"
    )
    with opened(path) as stream:
        for _ in range(start if named else start - 1):
            stream.readline()
        lines = _checked(stream, start + named, separator, path) if survey.quotes else stream
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)  # "no data", which is said below
                numbers = np.loadtxt(lines, delimiter=separator, quotechar='"', ndmin=2)
        except ValueError as error:
            if isinstance(error, UnicodeDecodeError):
                raise
            raise _culprit(path, start + named, separator, error) from error
    if not numbers.size:
        raise Failure(
            f"{path} has no line of numbers; its first line, {first[:40]!r}, is read as column names."
        )
    if named and numbers.shape[1] != len(names):
        raise Failure(
            f"{path}, line {start}: {len(names)} column names stand above lines of {numbers.shape[1]} numbers. Name "
            "each column once, with quotes around a name that holds separators, or remove the names."
        )
    return numbers


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
        line = "".join(pieces)
    fields = line.split(separator)
    return [field.replace(HIDDEN, separator or " ").strip() for field in fields]


def _is_name(text: str) -> bool:
    """Whether a field can be the name of a column: it begins as no number does, and stands for no missing one."""
    begins = text[:1] not in set("+-.,0123456789")
    return begins and any(map(str.isalpha, text)) and text.lower() not in MISSING


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


def _culprit(path: Path, start: int, separator: str | None, error: ValueError) -> Failure:
    """The failure that names the first line at fault."""
    width = 0
    with opened(path) as stream:
        for number, line in _spoken(stream):
            if number < start:
                continue
            fields = _fields(line, separator, path, number)
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
