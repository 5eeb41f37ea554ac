"""Files that are passed by their path: `.npy` files are mapped; errors for other files name what they are.

Problem: a file may be cut off, hold Python objects or several arrays, or be of another format than its name says.
Method: a file is recognized by its first bytes. NumPy reads its header, and the size that the header states is compared
with the size of the file. Nothing is ever unpickled.
Source: NumPy's format of arrays (NEP 1), read by ``numpy.lib.format``.
Where we differ from ``numpy.load``: a file that continues after its array is refused.
"""

from __future__ import annotations

import codecs
import math
import os
from pathlib import Path
from typing import Any

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
        looked_at(path)
        return _mapped(path)
    except InvalidProblem:
        raise
    except OSError as error:
        fault = f"{error.strerror or type(error).__name__}. Check the path."
    except _NoRows as error:
        fault = str(error)
    except Exception:  # noqa: BLE001  # whatever parsing some bytes may raise
        fault = "its header is broken: it states no array. Write it again with numpy.save."
    name = printable(os.fspath(path))[:LONGEST_NAME]
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


def _mapped(path: str | os.PathLike[str]) -> HostArray:
    with Path(path).open("rb") as file:
        head = file.read(HEAD)
        if not head.startswith(npy.MAGIC_PREFIX):
            raise _NoRows(_what_it_is(head))
        file.seek(0)
        # Version 3 differs from 2 in the names of fields alone, and data with fields are refused.
        read: Any = npy.read_array_header_1_0 if npy.read_magic(file) == (1, 0) else npy.read_array_header_2_0
        shape, in_columns, dtype = read(file)
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
    array: HostArray = np.memmap(Path(path), dtype, "r", offset, shape, "F" if in_columns else "C")
    return array


def _what_it_is(head: bytes) -> str:
    """Text of a message about a file that is no `.npy` file: its kind, found by its first bytes, and the remedy."""
    for first, kind, remedy in KINDS:
        if head.startswith(first):
            return f"it is {kind}. {remedy}."
    try:
        text = codecs.getincrementaldecoder("utf-8-sig")().decode(head)  # the last character may be cut
    except UnicodeDecodeError:
        text = "\0"
    if all(character.isprintable() or character in "\t\r\n\f" for character in text):
        return (
            "it is a text. Give it the ending of its format, by which it is read: .csv, .tsv, .txt, .mtx or .svm. "
            "Write it with numpy.save to have it read in blocks."
        )
    start = head[:8].hex(" ")
    return f"it is of another format, and begins with {start}. Read it with what wrote it, and pass an array."
