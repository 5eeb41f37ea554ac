"""Text files: opening them, a survey before their numbers are read, and remedies in messages.

Problem: a text declares nothing about itself. A line may never end, a few bytes may expand to more than the memory, and
a zero byte shows that the file is no text at all; a reader notices that too late, and skips parts that it does not
understand.
Method: one look at the bytes, a piece at a time, counts lines and marks. It takes a small part of the time of reading
the numbers, and no memory.
"""

from __future__ import annotations

import gzip
import io
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

LONGEST = 200
"""Largest number of characters of a name in a remedy."""


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


def without_column(name: str) -> str:
    """Return the remedy for a column of texts, with its name if it has one."""
    ids = f"--ids {shlex.quote(name)} if it names the rows, else " * (0 < len(name) <= LONGEST)
    return (
        f"Leave such columns out: columns=, on the command line {ids}{_rest(name)}; missing values in others are "
        "dropped by --drop-missing."
    )


def without_gaps(name: str) -> str:
    """Return the remedy for a missing value, with the name of its column if it has one."""
    column = f", or leave the column out: {_rest(name)}" * bool(name)
    return (
        f"Fill such values, or leave their rows out of all files: on the command line --drop-missing{column}."
    )


def _rest(name: str) -> str:
    """Return the argument of the command line that leaves a column of any file out, as typed in a shell."""
    quoted = name if name.replace("_", "a").isalnum() else '"' + name.replace('"', '""') + '"'
    return shlex.quote(f"FILE:~{quoted}") if 0 < len(name) <= LONGEST else "FILE:COLUMNS"
