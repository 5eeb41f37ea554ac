"""Matrix Market files: a banner, sizes, and a line for each entry.

Problem: SciPy's reader is fast, but takes what is no number: of ``2 1.5 3`` it makes column 1 with the value .5, it
passes over what follows a number, a zero byte crashes it, and it makes the arrays that the sizes ask for before it
knows whether the file has as many entries.
Method: banner and sizes are read here; the lines are counted and held to the format by one regular expression, a
piece at a time; then SciPy reads the numbers.
Source: Boisvert, Pozo & Remington 1996, The Matrix Market Exchange Formats (NIST).
Where we differ: an entry is one line, and nothing else stands on it. Complex and hermitian matrices are refused, as
everywhere in linspec.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from linspec.cli.failures import Failure, in_one_line
from linspec.cli.text import PIECE, opened_bytes, surveyed, text_errors
from linspec.room import check_memory, check_memory_for_sparse

__all__ = ["read_matrix_market"]

FORMATS = ("coordinate", "array")
FIELDS = ("real", "double", "integer", "unsigned-integer", "pattern")
SYMMETRIES = ("general", "symmetric", "skew-symmetric")

LARGEST = 2**63 - 1
"""The largest size that an array can have."""

INTEGER = rb"[-+]?+[0-9]++"  # not \d, which is slower
REAL = rb"[-+]?+(?:(?:[0-9]++(?:\.[0-9]*+)?+|\.[0-9]++)(?:[eE][-+]?+[0-9]++)?+|(?i:nan|inf(?:inity)?+))"


@dataclass(frozen=True)
class _Header:
    """What a file says of itself.

    Attributes
    ----------
    format, field, symmetry : str
        Of the banner, in lower case.
    rows, columns, lines : int
        The sizes, and how many lines of entries there must be.
    number : int
        Of the line with the sizes, from 1.
    """

    format: str
    field: str
    symmetry: str
    rows: int
    columns: int
    lines: int
    number: int


def read_matrix_market(path: Path) -> Any:
    """Read a Matrix Market file.

    Parameters
    ----------
    path : Path
        Where it is; ``.gz`` is decompressed.

    Returns
    -------
    scipy.sparse.csr_array or numpy.ndarray
        Of the coordinate format and of the array format, float64, int64 or uint64.

    Raises
    ------
    Failure
        It is no such file, or does not fit into memory.
    """
    with text_errors(path):
        surveyed(path)
        with opened_bytes(path) as stream:
            header = _header(stream, path)
            _check_lines(stream, header, path)
        return _read(path, header)


def _read(path: Path, header: _Header) -> Any:
    """The numbers, of a file that has been looked through."""
    import scipy.io
    import scipy.sparse

    entries = header.lines if header.symmetry == "general" else 2 * header.lines
    if header.format == "coordinate":
        check_memory_for_sparse(path, (header.rows, header.columns), entries)
    with opened_bytes(path) as stream:
        try:
            matrix = scipy.io.mmread(_Unseekable(stream), spmatrix=False)
        except (ValueError, OverflowError) as error:
            remedy = " Write such numbers as real." if isinstance(error, OverflowError) else ""
            reason = in_one_line(str(error)).rstrip(".")
            raise Failure(f"{path} cannot be read as a Matrix Market file ({reason}).{remedy}") from error
    return scipy.sparse.csr_array(matrix) if header.format == "coordinate" else matrix


class _Unseekable:
    """A stream that can only be read.

    A stream, and not the name: the C++ reader knows no names that are not UTF-8. It goes back in a stream that it gives
    up, to a place that may not exist, and ends the process then.
    """

    def __init__(self, stream: BinaryIO) -> None:
        self.read = stream.read


# ---- the banner and the sizes -----------------------------------------------------------------


def _header(stream: BinaryIO, path: Path) -> _Header:
    """Read up to the line with the sizes, and look whether they are possible."""
    banner = stream.readline(PIECE).split()  # bytes: blanks are those of ASCII
    words = [word.decode("utf-8", "replace") for word in banner]
    if len(words) != 5 or words[0].lower() not in ("%%matrixmarket", "%matrixmarket"):
        raise Failure(
            f"{path} is not a Matrix Market file: its first line must be '%%MatrixMarket matrix' with a format, a kind "
            "of number and a symmetry."
        )
    kind, layout, field, symmetry = (word.lower() for word in words[1:])
    known = ((kind, ("matrix",)), (layout, FORMATS), (field, FIELDS), (symmetry, SYMMETRIES))
    for word, choices in known:
        if word not in choices:
            raise Failure(f"{path}, line 1: {' or '.join(choices)} is needed; got {word[:40]!r}.")
    if layout == "array" and field == "pattern":
        raise Failure(f"{path}, line 1: a pattern has no numbers for the array format.")
    number, sizes = _sizes(stream)
    wanted = 3 if layout == "coordinate" else 2
    if len(sizes) != wanted or not all(re.fullmatch(rb"\d{1,19}", size) for size in sizes):
        got = b" ".join(sizes)[:40].decode("utf-8", "replace")
        raise Failure(f"{path}, line {number}: {wanted} sizes are needed, below 2^63; got {got!r}.")
    rows, columns, *rest = map(int, sizes)
    if max(rows, columns, *rest) > LARGEST:
        raise Failure(f"{path}, line {number}: sizes are needed below 2^63; got {max(rows, columns, *rest)}.")
    if not (rows and columns):
        raise Failure(f"{path} holds a matrix of {rows} x {columns}, which has no entries.")
    if symmetry != "general" and rows != columns:
        raise Failure(f"{path}: a {symmetry} matrix is square; got {rows} x {columns}.")
    return _Header(
        layout, field, symmetry, rows, columns, _lines(path, rows, columns, rest, symmetry), number
    )


def _sizes(stream: BinaryIO) -> tuple[int, list[bytes]]:
    """The first line that is neither blank nor a comment: its number, and its words."""
    number = 1
    while line := stream.readline(PIECE):
        number += 1
        if line.strip() and not line.startswith(b"%"):
            return number, line.split()
    return number, []


def _lines(path: Path, rows: int, columns: int, rest: list[int], symmetry: str) -> int:
    """How many entries must follow."""
    if rest:
        return rest[0]
    check_memory(path, 8 * rows * columns, f"a matrix of {rows:,} x {columns:,} numbers")
    # The lower triangle, with its diagonal or without.
    return {
        "general": rows * columns,
        "symmetric": rows * (rows + 1) // 2,
        "skew-symmetric": rows * (rows - 1) // 2,
    }[symmetry]


# ---- the lines --------------------------------------------------------------------------------


def _check_lines(stream: BinaryIO, header: _Header, path: Path) -> None:
    """Refuse a line that is no entry, and another number of them than the sizes say."""
    entry = _entry(header)
    # Possessive: what has matched is never given back, so that the time is that of one look.
    pattern = re.compile(rb"(?:[ \t]*+(?:" + entry + rb")?+[ \t]*+\r?+\n)*+")
    before = header.number
    filled = 0
    for piece in _whole_lines(stream):
        match = pattern.match(piece)
        end = match.end() if match else 0
        before += piece.count(b"\n", 0, end)
        if end < len(piece):
            line = piece[end : end + 100].partition(b"\n")[0].decode("utf-8", "replace").strip()
            what = "one entry of the matrix" if header.format == "array" else _expected(header)
            raise Failure(f"{path}, line {before + 1}: {what} is needed; got {line[:40]!r}.")
        filled += _filled(piece)
    if filled != header.lines:
        raise Failure(
            f"{path} declares {header.lines:,} entries; it holds {filled:,}. It may be cut off, or its line "
            f"{header.number} is wrong."
        )


def _whole_lines(stream: BinaryIO) -> Iterator[bytes]:
    """Pieces of a file that end where a line ends."""
    while piece := stream.read(PIECE):
        piece += stream.readline(PIECE)  # no entry is longer
        yield piece if piece.endswith(b"\n") else piece + b"\n"


def _filled(piece: bytes) -> int:
    """How many lines are not blank."""
    lines = piece.count(b"\n")
    if piece[:1] > b" " and not any(mark in piece for mark in (b"\n\n", b"\n\r", b"\n ", b"\n\t")):
        return lines
    return lines - sum(not line.strip() for line in piece.split(b"\n")[:-1])


def _entry(header: _Header) -> bytes:
    number = INTEGER if header.field in ("integer", "unsigned-integer") else REAL
    if header.format == "array":
        return number
    place = rb"[0-9]++[ \t]++[0-9]++"
    return place if header.field == "pattern" else place + rb"[ \t]++" + number


def _expected(header: _Header) -> str:
    if header.field == "pattern":
        return "'row column'"
    whole = " with a whole number" if header.field in ("integer", "unsigned-integer") else ""
    return f"'row column value'{whole}"
