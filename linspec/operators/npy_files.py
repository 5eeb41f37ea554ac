"""Files that are passed by their path: `.npy` files are mapped, and of others it is said what they are.

A file is known by its first bytes, not by its name. Its header is read by NumPy, its size is compared with what the
header promises, and nothing in it is ever unpickled. What is no regular file is not opened: a pipe would be waited for.
"""

from __future__ import annotations

import io
import os
import stat
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib import format as npy

from linspec.arrays import HostArray
from linspec.errors import InvalidProblem, UnsupportedData, printable

KINDS = (
    (
        b"PK\x03\x04",
        "a zip archive, as .npz is",
        "numpy.load or scipy.sparse.load_npz",
    ),
    (b"PK\x05\x06", "an empty zip archive, as .npz is", "numpy.savez again"),
    (b"%%MatrixMarket", "a Matrix Market file", "scipy.io.mmread"),
    (b"\x89HDF\r\n\x1a\n", "an HDF5 file", "h5py or pandas.read_hdf"),
    (b"MATLAB", "a MATLAB file", "scipy.io.loadmat"),
    (b"PAR1", "a Parquet file", "pandas.read_parquet"),
    (b"ARROW1", "an Arrow file", "pandas.read_feather"),
    (b"\x1f\x8b", "compressed with gzip", "gzip.open, or gunzip it"),
    (b"BZh", "compressed with bzip2", "bz2.open, or bunzip2 it"),
    (b"\xfd7zXZ\x00", "compressed with xz", "lzma.open, or unxz it"),
    (b"\x28\xb5\x2f\xfd", "compressed with zstd", "unzstd it"),
    (b"\x80", "a pickle, which runs what it holds when it is read", "what wrote it, if you trust it"),
)
"""First bytes of files, what they are, and what reads them."""

HEAD = 512
"""Bytes by which a file is known."""

LONGEST_NAME = 300
"""Characters of a name that a message shows."""


def mapped(path: str | os.PathLike[str]) -> HostArray:
    """The array of a `.npy` file, mapped and not read.

    Raises
    ------
    InvalidProblem
        When there is no such file, or it is no `.npy` file, or a broken one.
    UnsupportedData
        When it holds Python objects.
    """
    name = printable(os.fspath(path))[:LONGEST_NAME]
    if not name:
        raise InvalidProblem("an empty text is no path of a .npy file. Pass the data, or the path.")
    path = Path(path)
    try:
        with _opened(path, name) as file:
            head = file.read(HEAD)
            if not head.startswith(npy.MAGIC_PREFIX):
                raise InvalidProblem(_what_it_is(name, head))
            shape, in_columns, dtype = _header(file, name)
            offset, size = file.tell(), os.fstat(file.fileno()).st_size
    except OSError as error:
        raise InvalidProblem(f"{name} cannot be read: {error.strerror or type(error).__name__}.") from error
    if dtype.names is not None:
        raise UnsupportedData(
            f"{name} must hold numbers; it holds records with the fields {', '.join(map(printable, dtype.names))}. Put "
            "the numbers into the columns of one array, and save it again."
        )
    if dtype.hasobject:
        raise UnsupportedData(
            f"{name} must hold numbers; it holds Python objects, which only a pickle can give back, and that runs what "
            "it holds. Convert the array to float64 where it was made, and save it again."
        )
    expected = offset + dtype.itemsize * _product(shape)
    if size < expected:
        raise InvalidProblem(
            f"{name} is cut off: its header promises an array of shape {shape}, {expected} bytes; the file has {size}. "
            "Write it again with numpy.save."
        )
    if 0 in shape:  # nothing can be mapped
        return np.empty(shape, dtype)
    array: HostArray = np.memmap(path, dtype, "r", offset, shape, "F" if in_columns else "C")
    return array


def _opened(path: Path, name: str) -> io.BufferedReader:
    """A regular file, opened."""
    try:
        kind = path.stat().st_mode
    except FileNotFoundError as error:
        raise InvalidProblem(
            f"there is no file {name} here (a text is taken for the path of a .npy file). Write one with numpy.save."
        ) from error
    except ValueError as error:  # a null character, or a character that names cannot have
        raise InvalidProblem(f"{name} cannot be the name of a file. Pass the path of a .npy file.") from error
    if stat.S_ISDIR(kind):
        raise InvalidProblem(f"{name} is a folder. Pass the path of one .npy file.")
    if not stat.S_ISREG(kind):
        raise InvalidProblem(f"{name} is a pipe or a device. Pass a .npy file, or an iterator of row slices.")
    return path.open("rb")


def _header(file: io.BufferedReader, name: str) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Shape, order and dtype, as the header states them."""
    file.seek(0)
    try:
        version = npy.read_magic(file)  # type: ignore[no-untyped-call]
        if version not in ((1, 0), (2, 0), (3, 0)):
            raise ValueError(version)
        # Version 3 differs from 2 in the names of fields alone, and data with fields are refused.
        read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
        shape, in_columns, dtype = read(file)  # type: ignore[no-untyped-call]
    except OSError:
        raise
    except Exception as error:  # whatever parsing some bytes may raise
        raise InvalidProblem(
            f"{name} has a broken header: it begins like a .npy file, but states no array. Write it again with "
            "numpy.save."
        ) from error
    if not all(isinstance(length, int) and not isinstance(length, bool) and length >= 0 for length in shape):
        raise InvalidProblem(
            f"{name} has a broken header: an array cannot have the shape {shape}. Write it again."
        )
    return shape, in_columns, dtype


def _product(shape: tuple[int, ...]) -> int:
    """Entries of an array, in integers without a limit."""
    total = 1
    for length in shape:
        total *= length
    return total


def _what_it_is(name: str, head: bytes) -> str:
    """What a file is that is no `.npy` file, and what reads it."""
    if not head:
        return f"{name} is empty. Write a .npy file with numpy.save."
    for start, kind, reader in KINDS:
        if head.startswith(start):
            return f"{name} is no .npy file: it is {kind}. Read it with {reader}, and pass the numbers."
    if npy.MAGIC_PREFIX.startswith(head[: len(npy.MAGIC_PREFIX)]):
        return f"{name} is cut off: it ends within the first bytes of a .npy file. Write it again with numpy.save."
    if _is_text(head):
        return (
            f"{name} is no .npy file: it is a text. Read numbers with numpy.loadtxt or pandas.read_csv, svmlight with "
            "sklearn.datasets.load_svmlight_file, and pass what they return."
        )
    return f"{name} is no .npy file: it begins with {head[:8].hex(' ')}. Read it with what wrote it, and pass an array."


def _is_text(head: bytes) -> bool:
    if head.startswith((b"\xff\xfe", b"\xfe\xff", b"\xef\xbb\xbf")):
        return True
    try:
        text = head[:-3].decode() if len(head) == HEAD else head.decode()
    except UnicodeDecodeError:
        return False
    return all(character.isprintable() or character in "\t\r\n\f" for character in text)
