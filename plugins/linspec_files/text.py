"""Text files: opening them, a survey before their numbers are read, and remedies in messages.

Problem: a text declares nothing about itself. A line may never end, a few bytes may expand to more than the memory, and
a zero byte shows that the file is no text at all; a reader notices that too late, and skips parts that it does not
understand.
Method: one look at the bytes, a piece at a time, counts lines and marks, and measures the longest line. If the format
defines a line, a regular expression checks each one. Both take a small part of the time of reading the numbers, and no
memory.
"""

from __future__ import annotations

import codecs
import gzip
import io
import re
import shlex
import zlib
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, cast

from linspec.errors import InvalidProblem
from linspec.process import check_memory

PIECE = 2**20
PER_CHARACTER = 16
"""Bytes of memory that a character takes while the fields of its line are held as texts and as numbers."""

MARKS = '":#'
"""Characters that `surveyed` counts."""

# Possessive: a match is never given back, so that there is no backtracking and the time is linear.
INTEGER = rb"[-+]?+[0-9]++"  # not \d, which is slower
REAL = rb"[-+]?+(?:(?:[0-9]++(?:\.[0-9]*+)?+|\.[0-9]++)(?:[eE][-+]?+[0-9]++)?+|(?i:nan|inf(?:inity)?+))"


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
    """Count the line ends (and 1) as "lines", the bytes as "size", and the `MARKS`.

    Raises
    ------
    InvalidProblem
        It holds a zero byte, or a line that is too long for the memory.
    """
    counts, line, longest = Counter(lines=1), 0, 0
    with opened_bytes(path) as stream:
        while piece := stream.read(PIECE):
            if b"\0" in piece:
                place = counts["size"] + piece.index(b"\0")
                raise InvalidProblem(
                    f"{path} is not a text file: byte {place} is zero. Save it as UTF-8, without zeros."
                )
            counts["size"] += len(piece)
            counts["lines"] += max(map(piece.count, (b"\n", b"\r")))  # old files end lines in \r alone
            for mark in MARKS:
                counts[mark] += piece.count(mark.encode())
            end = max(map(piece.rfind, (b"\n", b"\r")))
            line = line + len(piece) if end < 0 else len(piece) - 1 - end
            longest = max(longest, line)
    check_memory(path, PER_CHARACTER * longest, f"a line of more than {longest:,} characters")
    return counts


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


def check_lines(path: Path, pattern: bytes, what: str, begin: int = 0) -> None:
    """Check that each line after the first `begin` ones is blank or matches a pattern; the error has its number.

    Parameters
    ----------
    path : Path
    pattern : bytes
        The regular expression of a line without the blanks around it, with possessive quantifiers (``++``, not ``+``).
    what : str
        The pattern in words.
    begin : int
    """
    line = rb"[ \t]*+(?:" + pattern + rb")?+[ \t]*+"
    lines = re.compile(rb"(?:" + line + rb"(?:\r?+\n|\r))*+")
    number = begin + 1
    for piece in whole_lines(path, begin):
        end = cast("re.Match[bytes]", lines.match(piece)).end()
        number += len(piece[:end].splitlines())
        if end < len(piece):
            fits = cast("re.Match[bytes]", re.match(line, piece[end:])).end()
            rest = piece[end + fits :].splitlines()[0][:40].decode("utf-8", "replace").strip()
            raise InvalidProblem(f"{path}, line {number}: {what} is needed; got {rest!r}.")


def without_column(name: str) -> str:
    """Return the remedy for a column of texts, with its name if it has one."""
    ids = f"--ids {shlex.quote(name)} if it names the rows, else " if 0 < len(name) <= 200 else ""
    return (
        f"Leave such columns out: columns=, on the command line {ids}{_rest(name)}; missing values in others are "
        "dropped by --drop-missing."
    )


def without_gaps(name: str) -> str:
    """Return the remedy for a missing value, with the name of its column if it has one."""
    column = f", or leave the column out: {_rest(name)}" if name else ""
    return (
        f"Fill such values, or leave their rows out of all files: on the command line --drop-missing{column}."
    )


def _rest(name: str) -> str:
    """Return the argument of the command line that leaves a column of any file out, as typed in a shell."""
    quoted = name if name.replace("_", "a").isalnum() else '"' + name.replace('"', '""') + '"'
    return shlex.quote(f"FILE:~{quoted}") if 0 < len(name) <= 200 else "FILE:COLUMNS"
