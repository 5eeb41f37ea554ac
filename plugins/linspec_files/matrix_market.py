"""Matrix Market files: a banner, sizes, and a line for each entry.

Problem: SciPy's reader is fast, but accepts malformed numbers: it reads ``2 1.5 3`` as column 1 with the value .5, and
ignores text after a number. It allocates arrays by the declared sizes before it knows whether the file has that number
of entries.
Method: SciPy reads the banner and the sizes, which are compared with the memory and the lines of the file. One regular
expression checks that the lines have the format. Then SciPy reads the numbers.
Source: Boisvert, Pozo & Remington 1996, The Matrix Market Exchange Formats (NIST).
Where we differ: an entry is one line, with nothing else on it. Complex and hermitian matrices are refused, as
everywhere in linspec.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

from linspec.errors import InvalidProblem, UnsupportedData
from linspec.process import check_memory, check_memory_for_sparse
from linspec_files.text import INTEGER, REAL, check_lines, opened_bytes, surveyed, text_errors

PLACE = rb"[0-9]++[ \t]++[0-9]++"


def read_matrix_market(path: Path) -> Any:
    """Read a Matrix Market file.

    Parameters
    ----------
    path : Path
        The file; ``.gz`` is decompressed.

    Returns
    -------
    scipy.sparse.csr_array or numpy.ndarray
        Sparse for the coordinate format, dense for the array format; float64, int64 or uint64.

    Raises
    ------
    InvalidProblem
        It is no such file, or does not fit into memory.
    UnsupportedData
        It holds complex numbers.
    """
    import scipy.io
    import scipy.sparse

    with text_errors(path):
        lines = surveyed(path)["lines"]
        rows, columns, entries, layout, field, symmetry = _by_scipy(scipy.io.mminfo, path)
        if field == "complex" or symmetry == "hermitian":
            raise UnsupportedData(
                f"{path} holds complex numbers; real ones are needed. Split them into two matrices."
            )
        if not (rows and columns):  # SciPy's reader would end the process
            raise InvalidProblem(f"{path} holds a matrix of {rows} x {columns}, which has no entries.")
        if symmetry != "general" and rows != columns:
            raise InvalidProblem(f"{path}: a {symmetry} matrix is square; got {rows} x {columns}.")
        if layout == "array":
            check_memory(path, 8 * rows * columns, f"a matrix of {rows:,} x {columns:,} numbers")
        else:
            check_memory_for_sparse(path, (rows, columns), entries * (1 + (symmetry != "general")))
            if entries > lines:
                raise InvalidProblem(
                    f"{path} declares {entries:,} entries; it has {lines:,} lines. It may be cut off."
                )
        check_lines(path, *_entry(layout, field), begin=_lines_before(path))
        matrix = _by_scipy(scipy.io.mmread, path, spmatrix=False)
    return scipy.sparse.csr_array(matrix) if layout == "coordinate" else matrix


class _Unseekable:
    """A stream without `seek`, whose last line always has an end: SciPy's reader would end the process otherwise."""

    def __init__(self, stream: BinaryIO) -> None:
        self.stream, self.last = stream, b"\n"

    def read(self, size: int = -1) -> bytes:
        """Read the next bytes; add a line end at the end of the stream."""
        found = self.stream.read(size)
        if not found:
            found, self.last = self.last, b""
        return found


def _by_scipy(read: Callable[..., Any], path: Path, **extra: Any) -> Any:
    """Read a file with a function of SciPy; turn its errors into `InvalidProblem`."""
    with opened_bytes(path) as stream:
        try:
            return read(_Unseekable(stream), **extra)
        except (ValueError, OverflowError) as error:
            remedy = " Write such numbers as real." if isinstance(error, OverflowError) else ""
            raise InvalidProblem(
                f"{path} cannot be read as a Matrix Market file ({error}).{remedy}"
            ) from error


def _lines_before(path: Path) -> int:
    """Count the lines before the entries: the banner, comments, blank lines and the sizes."""
    with opened_bytes(path) as stream:
        return next(
            number
            for number, line in enumerate(stream, 1)
            if number > 1 and line.strip() and line[:1] != b"%"
        )


def _entry(layout: str, field: str) -> tuple[bytes, str]:
    """Return the pattern of a line with an entry, and its description in words."""
    whole = field in ("integer", "unsigned-integer")
    number = INTEGER if whole else REAL
    if layout == "array":
        return number, "one entry of the matrix"
    if field == "pattern":
        return PLACE, "'row column'"
    return PLACE + rb"[ \t]++" + number, "'row column value'" + " with a whole number" * whole
