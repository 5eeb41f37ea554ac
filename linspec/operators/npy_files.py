"""Files that are passed by their path: `.npy` files are mapped; errors for other files name what they are.

A file is recognized by its first bytes, not by its name. Its header is read by NumPy, its size is compared with the
size that the header states, and nothing in it is ever unpickled.
"""

from __future__ import annotations

import codecs
import math
import os
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy

from linspec.arrays import HostArray
from linspec.errors import InvalidProblem, printable
from linspec.process.files import LONGEST_NAME, looked_at

KINDS = (
    (
        b"PK",
        "a zip archive, as .npz is, and holds several arrays. Load it, and pass one of them",
        "numpy.load or scipy.sparse.load_npz reads it",
    ),
    (b"%%MatrixMarket", "a Matrix Market file", "Give it the ending .mtx, by which it is read"),
    (
        b"\x89HDF\r\n\x1a\n",
        "an HDF5 file",
        "Give it the ending .h5, by which it is read, or pass what h5py reads",
    ),
    (b"MATLAB", "a MATLAB file", "scipy.io.loadmat reads it"),
    (b"PAR1", "a Parquet file", "Give it the ending .parquet, by which it is read"),
    (b"ARROW1", "an Arrow file", "pandas.read_feather reads it"),
    (b"\x1f\x8b", "compressed with gzip", "gunzip takes it apart"),
    (b"BZh", "compressed with bzip2", "bunzip2 takes it apart"),
    (b"\xfd7zXZ\x00", "compressed with xz", "unxz takes it apart"),
    (b"\x28\xb5\x2f\xfd", "compressed with zstd", "unzstd takes it apart"),
    (
        b"\x80",
        "a pickle, which runs what it holds when it is read",
        "Convert what it holds to an array where it was made, and save that with numpy.save",
    ),
)
"""For each kind of file: its first bytes, its name, and the remedy that a message suggests."""

HEAD = 512
"""Number of first bytes by which a file is recognized."""

LONGEST_HEADER = 1 << 16
"""Longest header that is read, in bytes; NumPy itself parses at most a sixth of this."""


def mapped(path: str | os.PathLike[str]) -> HostArray:
    """The array of a `.npy` file, mapped and not read.

    Raises
    ------
    InvalidProblem
        When there is no such file; or the file is no `.npy` file, is broken, holds Python objects, or continues after
        its array.

    Examples
    --------
    >>> import os, tempfile
    >>> import numpy as np
    >>> from linspec.operators import mapped
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.save(os.path.join(folder, "rows.npy"), np.eye(3))
    ...     mapped(os.path.join(folder, "rows.npy")).shape
    (3, 3)
    """
    try:
        return _mapped(path)
    except OSError as error:
        fault = f"{error.strerror or type(error).__name__}. Check the path."
    except _NoRows as error:
        fault = str(error)
    name = printable(os.fspath(path))[:LONGEST_NAME] or "an empty text"
    raise InvalidProblem(f"{name} cannot be read as the rows of a .npy file: {fault}")


def is_npy(path: str | os.PathLike[str]) -> bool:
    """Whether a path names a regular file that begins with the magic bytes of `.npy` files."""
    try:
        looked_at(path)
        with Path(path).open("rb") as file:
            return file.read(len(npy.MAGIC_PREFIX)) == npy.MAGIC_PREFIX
    except (OSError, InvalidProblem):
        return False


class _NoRows(Exception):  # noqa: N818  # an error once the name of the file stands before it
    """The reason why a file cannot be read as rows, without the name of the file."""


def _mapped(given: str | os.PathLike[str]) -> HostArray:
    looked_at(given)
    with Path(given).open("rb") as file:
        head = file.read(HEAD)
        if not head.startswith(npy.MAGIC_PREFIX):
            raise _NoRows(_what_it_is(head))
        shape, in_columns, dtype = checked_header(file)
        offset, size = file.tell(), os.fstat(file.fileno()).st_size
    if dtype.names is not None:
        raise _NoRows(
            f"it holds records with the fields {printable(', '.join(dtype.names))}. Put the numbers into the columns "
            "of one array."
        )
    if dtype.hasobject:
        raise _NoRows(
            "it holds Python objects, which only a pickle can give back, and that runs what it holds. Convert the "
            "array to float64 where it was made, and save it again."
        )
    expected = offset + dtype.itemsize * math.prod(shape)
    if size < expected:
        raise _NoRows(
            f"it is cut off: its header promises an array of shape {str(shape)[:100]}, {expected:,} bytes; it has "
            f"{size:,}. Write it again with numpy.save."
        )
    if size > expected:
        raise _NoRows(
            f"{size - expected:,} more bytes follow its array. It may hold more than one array: save each in a file of "
            "its own."
        )
    if 0 in shape:  # nothing can be mapped
        return np.empty(shape, dtype)
    array: HostArray = np.memmap(Path(given), dtype, "r", offset, shape, "F" if in_columns else "C")
    return array


def checked_header(file: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Read shape, order (True: by columns) and dtype from the header of an array; the file is left at its entries.

    Raises
    ------
    Exception
        With a message about the header, if the header is broken; or any error that reading raises.
    """
    file.seek(0)
    version = tuple(file.read(npy.MAGIC_LEN)[-2:])
    if version not in ((1, 0), (2, 0), (3, 0)):
        raise _NoRows("its header is cut off, or of a version of the format that NumPy does not read.")
    length = int.from_bytes(file.read(2 if version == (1, 0) else 4), "little")
    if length > LONGEST_HEADER:  # NumPy would read it first
        raise _NoRows(
            f"its header is broken: it states {length} bytes for itself. Write it again with numpy.save."
        )
    file.seek(npy.MAGIC_LEN)
    # Version 3 differs from 2 in the names of fields alone, and data with fields are refused.
    read: Any = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
    try:
        shape, in_columns, dtype = read(file)
    except OSError:
        raise
    except Exception as error:  # whatever parsing some bytes may raise
        raise _NoRows(
            "its header is broken: it begins like a .npy file, but states no array. Write it again with numpy.save."
        ) from error
    if not all(isinstance(length, int) and not isinstance(length, bool) and length >= 0 for length in shape):
        raise _NoRows(
            f"its header is broken: an array cannot have the shape {str(shape)[:100]}. Write it with numpy.save."
        )
    return shape, in_columns, dtype


def _what_it_is(head: bytes) -> str:
    """Text of a message about a file that is no `.npy` file: its kind, found by its first bytes, and the remedy."""
    for first, kind, remedy in KINDS:
        if head.startswith(first):
            return f"it is {kind}. {remedy}."
    if npy.MAGIC_PREFIX.startswith(head[: len(npy.MAGIC_PREFIX)]):
        return "it is cut off within the first bytes. Write it again with numpy.save."
    if _is_text(head):
        return (
            "it is a text. Give it the ending of its format, by which it is read: .csv, .tsv, .txt, .mtx or .svm. "
            "Write it with numpy.save to have it read in blocks."
        )
    start = head[:8].hex(" ")
    return f"it is of another format, and begins with {start}. Read it with what wrote it, and pass an array."


def _is_text(head: bytes) -> bool:
    if head.startswith((b"\xff\xfe", b"\xfe\xff", b"\xef\xbb\xbf")):
        return True
    try:
        text = codecs.getincrementaldecoder("utf-8")().decode(head)  # the last character may be cut
    except UnicodeDecodeError:
        return False
    return all(character.isprintable() or character in "\t\r\n\f" for character in text)
