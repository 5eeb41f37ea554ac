"""Text files: opening them, and a survey before their numbers are read.

Problem: a text declares nothing about itself. A line may never end, a few bytes may expand to more than the memory, and
a zero byte shows that the file is no text at all; a reader notices that too late, and skips parts that it does not
understand.
Method: one look at the bytes, a piece at a time, counts bytes, lines and marks, and limits the length of lines. If the
format defines a line, a regular expression checks each one. Both take a small part of the time of reading the numbers,
and no memory.
"""

from __future__ import annotations

import codecs
import gzip
import io
import re
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, cast

from linspec.errors import InvalidProblem
from linspec.process import check_memory

__all__ = [
    "INTEGER",
    "REAL",
    "Survey",
    "check_lines",
    "opened",
    "opened_bytes",
    "said",
    "surveyed",
    "text_errors",
    "whole_lines",
]

PIECE = 2**20
PER_CHARACTER, LONG = 16, 2**20
"""PER_CHARACTER: largest number of bytes of memory that a character takes while the fields of its line are held as
texts and as numbers. LONG: the number of characters of a line, and of lines of a file, up to which the memory is not
checked. Longer lines, and files of more lines, are refused if they need more than the free memory."""

# Possessive: a match is never given back, so that there is no backtracking and the time is linear.
INTEGER = rb"[-+]?+[0-9]++"  # not \d, which is slower
REAL = rb"[-+]?+(?:(?:[0-9]++(?:\.[0-9]*+)?+|\.[0-9]++)(?:[eE][-+]?+[0-9]++)?+|(?i:nan|inf(?:inity)?+))"


@dataclass(frozen=True)
class Survey:
    """Counts of the bytes, lines and marks of a text file.

    Attributes
    ----------
    size : int
        The number of bytes, after decompression.
    lines : int
        The number of line ends, plus one.
    quotes, colons, hashes : int
        The numbers of these marks.
    """

    size: int
    lines: int
    quotes: int
    colons: int
    hashes: int = 0


def opened_bytes(path: Path) -> BinaryIO:
    """Open a file, decompressed if its name ends in .gz."""
    return cast("BinaryIO", gzip.GzipFile(path)) if path.suffix.lower() == ".gz" else path.open("rb")


def opened(path: Path) -> io.TextIOWrapper:
    """Open a text file, decompressed if its name ends in .gz; a byte order mark is skipped."""
    return io.TextIOWrapper(opened_bytes(path), encoding="utf-8-sig")


def said(error: BaseException) -> str:
    """Return the message of an error in one line; "" for an error without a message."""
    return " ".join(str(error).split())


@contextmanager
def text_errors(path: Path) -> Iterator[None]:
    """Turn errors of decoding and decompressing into an error that says that the file is not text, or not gzip."""
    try:
        yield
    except UnicodeDecodeError as error:
        reason = said(error)
        raise InvalidProblem(f"{path} is not a text file ({reason}). Save it as UTF-8.") from error
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise InvalidProblem(
            f"{path} is not a text file: it is not compressed by gzip, or it is damaged ({said(error)})."
        ) from error


def surveyed(path: Path) -> Survey:
    """Count the bytes, line ends, quotes, colons and hashes of a text file, and check that its lines fit into memory.

    Parameters
    ----------
    path : Path
        The file.

    Returns
    -------
    Survey

    Raises
    ------
    InvalidProblem
        It holds a zero byte, a line that is too long for the memory, or too many lines for it.
    """
    size = lines = quotes = colons = hashes = line = 0
    with opened_bytes(path) as stream:
        while piece := stream.read(PIECE):
            place = piece.find(b"\0")
            if place >= 0:
                raise InvalidProblem(
                    f"{path} is not a text file: byte {size + place} is zero. Save it as UTF-8, without zeros."
                )
            size += len(piece)
            quotes += piece.count(b'"')
            colons += piece.count(b":")
            hashes += piece.count(b"#")
            # Lines may end in \n, in \r\n or, in old files, in \r.
            lines += max(piece.count(b"\n"), piece.count(b"\r"))
            end = max(piece.rfind(b"\n"), piece.rfind(b"\r"))
            line = line + len(piece) if end < 0 else len(piece) - 1 - end
            if line > LONG:
                check_memory(path, PER_CHARACTER * line, f"a line of more than {line:,} characters")
            if lines > LONG:
                check_memory(path, 8 * lines, f"a file of more than {lines:,} lines")
    return Survey(size=size, lines=lines + 1, quotes=quotes, colons=colons, hashes=hashes)


def whole_lines(path: Path, begin: int = 0) -> Iterator[bytes]:
    """Yield the bytes after the first `begin` lines, in pieces of whole lines; a byte order mark is skipped."""
    with opened_bytes(path) as stream:
        for _ in range(begin):
            stream.readline()
        mark = b"" if begin else codecs.BOM_UTF8
        while piece := stream.read(PIECE):
            piece = piece.removeprefix(mark) + stream.readline()
            mark = b""
            yield piece if piece.endswith(b"\n") else piece + b"\n"


def _beginning(text: bytes) -> str:
    return repr(text[:40].decode("utf-8", "replace").strip())


def check_lines(path: Path, pattern: bytes, what: str, begin: int = 0) -> None:
    """Check that each line of a text file, after the first `begin` lines, is blank or matches a pattern.

    Parameters
    ----------
    path : Path
        The file.
    pattern : bytes
        The regular expression of a line without the blanks around it. Its quantifiers must be possessive (``++``, not
        ``+``): without backtracking the time is linear in the length of the file.
    what : str
        The pattern in words.
    begin : int
        The number of lines at the beginning that are not checked.

    Raises
    ------
    InvalidProblem
        A line is neither blank nor matches the pattern; the message has its number.
    """
    line = rb"[ \t]*+(?:" + pattern + rb")?+[ \t]*+"
    lines = re.compile(rb"(?:" + line + rb"(?:\r?+\n|\r))*+")
    before = begin
    for piece in whole_lines(path, begin):
        found = lines.match(piece)
        end = found.end() if found else 0
        if end < len(piece):
            before += len(piece[:end].splitlines())
            fits = re.match(line, piece[end:])
            rest = piece[end + (fits.end() if fits else 0) :].splitlines()[0]
            raise InvalidProblem(f"{path}, line {before + 1}: {what} is needed; got {_beginning(rest)}.")
        before += piece.count(b"\n")
