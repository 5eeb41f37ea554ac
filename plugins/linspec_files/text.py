"""Text files: how they are opened, and what is learnt of one before its numbers are read.

Problem: a text declares nothing. A line may never end, a few bytes may expand to more than the memory, and a zero byte
tells that the file is no text at all; a reader finds that out when it is too late, and passes over what it does not
understand.
Method: one look at the bytes, a piece at a time: how many there are, how many lines, how long the longest is, and which
marks occur. Where the format says what a line is, a regular expression holds each line to it. Both take a small part of
the time that the numbers take, and no memory.
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
"""Bytes that a character of a line takes at most while its fields are read, as text and as numbers; and the length from
which on the memory is asked for them."""

# Possessive: what has matched is never given back, so that the time is that of one look.
INTEGER = rb"[-+]?+[0-9]++"  # not \d, which is slower
REAL = rb"[-+]?+(?:(?:[0-9]++(?:\.[0-9]*+)?+|\.[0-9]++)(?:[eE][-+]?+[0-9]++)?+|(?i:nan|inf(?:inity)?+))"


@dataclass(frozen=True)
class Survey:
    """What a look at a text file tells.

    Attributes
    ----------
    size : int
        Bytes, after decompression.
    lines : int
        Line ends.
    quotes, colons, hashes : int
        How often these marks occur.
    """

    size: int
    lines: int
    quotes: int
    colons: int
    hashes: int = 0


def opened_bytes(path: Path) -> BinaryIO:
    """Open a file, decompressed where its name ends in .gz."""
    return cast("BinaryIO", gzip.GzipFile(path)) if path.suffix.lower() == ".gz" else path.open("rb")


def opened(path: Path) -> io.TextIOWrapper:
    """Open a text file, compressed by gzip where its name ends in .gz; a byte order mark is skipped."""
    return io.TextIOWrapper(opened_bytes(path), encoding="utf-8-sig")


def said(error: BaseException) -> str:
    """What an error says, in one line."""
    return " ".join(str(error).split())


@contextmanager
def text_errors(path: Path) -> Iterator[None]:
    """Refuse, in a sentence, what is found not to be text, or not to be compressed as its name says."""
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
    """Look through a text file.

    Parameters
    ----------
    path : Path
        Where it is.

    Returns
    -------
    Survey

    Raises
    ------
    InvalidProblem
        It holds a zero byte, or a line that is longer, or more lines, than the memory can hold.
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
    """Pieces of a text file that end where a line ends, after some lines, without a byte order mark."""
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
    """Refuse a text file of which a line, after some that are passed over, is neither blank nor what it must be.

    Parameters
    ----------
    path : Path
        Where it is.
    pattern : bytes
        A line without the blanks around it, possessive.
    what : str
        What the pattern stands for.
    begin : int
        How many lines are passed over.
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
