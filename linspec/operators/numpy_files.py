"""Files of NumPy: `.npy`, which are mapped, and archives `.npz`, which hold several arrays or a sparse matrix.

Problem: a file may be cut off, hold Python objects or several arrays, or be of another format than its name says. An
archive of a few bytes may declare arrays of any size. Compiled code uses indices of a sparse matrix that are negative
or too large without a check, and fractional indices would be truncated.
Method: a file is recognized by its first bytes. NumPy reads its header, and the size that the header states is compared
with the size of the file; what an array of an archive takes is compared with the memory. Nothing is ever unpickled.
SciPy makes the sparse matrix of its parts, and the check of every sparse matrix in memory looks at them.
Source: NumPy's format of arrays (NEP 1), read by ``numpy.lib.format``, and ``scipy.sparse.save_npz``.
Where we differ: ``numpy.load`` takes a file that continues after its array, and ``scipy.sparse.load_npz`` trusts the
parts in the file.
"""

from __future__ import annotations

import math
import os
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse
from numpy.lib import format as npy

from linspec.arrays import HostArray
from linspec.errors import InvalidProblem, LinspecError, UnsupportedData, called, one_line, printable, shown
from linspec.operators.sparse import checked_rows
from linspec.process.files import LONGEST_NAME, check_memory, check_memory_for_sparse, looked_at

__all__ = ["is_npy", "mapped", "read_npz"]

INDICES = ("indices", "indptr", "row", "col", "coords", "offsets")
"""The arrays of sparse matrices that hold whole numbers, in the order in which SciPy takes those of a format."""


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
    looked_at(path)
    name = printable(os.fspath(path))[:LONGEST_NAME]
    try:
        with Path(path).open("rb") as file:
            # Version 3 differs from 2 in the names of fields alone, and data with fields are refused.
            first = npy.read_magic(file) == (1, 0)
            read: Any = npy.read_array_header_1_0 if first else npy.read_array_header_2_0
            shape, in_columns, dtype = read(file)
            offset, size = file.tell(), os.fstat(file.fileno()).st_size
    except Exception as error:  # whatever parsing some bytes may raise
        raise InvalidProblem(
            f"{name} cannot be read as the rows of a .npy file: {one_line(error)} Write it again with numpy.save, or "
            "give it the ending of its own format."
        ) from error
    expected = offset + dtype.itemsize * math.prod(shape)
    if dtype.names is not None or dtype.hasobject or size != expected:
        raise InvalidProblem(
            f"{name} cannot be read as the rows of a .npy file: it must hold one array of plain numbers, and nothing "
            f"else; its header promises {str(dtype)[:100]} of shape {str(shape)[:100]}, {expected:,} bytes, and it has "
            f"{size:,}. Convert the array where it was made, and write it again with numpy.save."
        )
    if 0 in shape:  # nothing can be mapped
        return np.empty(shape, dtype)
    return np.memmap(Path(path), dtype, "r", offset, shape, "F" if in_columns else "C")


def is_npy(path: str | os.PathLike[str]) -> bool:
    """Whether a path names a regular file that begins with the magic bytes of `.npy` files."""
    try:
        looked_at(path)
        with Path(path).open("rb") as file:
            return file.read(len(npy.MAGIC_PREFIX)) == npy.MAGIC_PREFIX
    except (OSError, InvalidProblem):
        return False


def read_npz(path: str | os.PathLike[str], member: str = "") -> Any:
    """Read an array, or a sparse matrix, of an `.npz` archive.

    Parameters
    ----------
    path : path
        The file.
    member : str, default ""
        The name of an array. Empty: the only array, or the sparse matrix that the arrays make up.

    Returns
    -------
    numpy.ndarray of one or two dimensions, or scipy.sparse.csr_array
        Real numbers.

    Raises
    ------
    InvalidProblem
        The file is no `.npz` archive, is damaged or encrypted, or has no array of that name; or its parts make no
        matrix, or its contents do not fit into memory.
    UnsupportedData
        The array holds no real numbers.

    Examples
    --------
    >>> import os, tempfile
    >>> import numpy as np
    >>> from linspec.operators import read_npz
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.savez(os.path.join(folder, "two.npz"), X=np.eye(3), Y=np.ones(3))
    ...     read_npz(os.path.join(folder, "two.npz"), "Y")
    array([1., 1., 1.])
    """
    looked_at(path)
    name = printable(os.fspath(path))
    try:
        with zipfile.ZipFile(path) as archive:
            entries = {entry.filename.removesuffix(".npy"): entry for entry in archive.infolist()}
            if not member and {"format", "shape"} <= set(entries):
                return _sparse(name, {part: _read(archive, entries[part], name) for part in entries})
            array = _read(archive, entries[_chosen(name, member, list(entries))], name)
    except LinspecError:
        raise
    except Exception as error:  # of the archive, of each method of compression, and of broken headers
        reason = printable(" ".join(str(error).split())).rstrip(".")[:200] or type(error).__name__
        raise InvalidProblem(
            f"{name} cannot be read as an .npz archive ({reason}). It may be truncated, damaged or pickled, or of "
            "another format than its suffix says."
        ) from error
    if array.dtype.kind not in "biuf":
        raise UnsupportedData(
            f"{name} must hold real numbers; got dtype {array.dtype}. Convert it before saving."
        )
    if array.ndim not in (1, 2):
        raise InvalidProblem(
            f"{name} must hold a matrix; got {array.ndim} dimensions, {array.shape}. Save it as rows by columns: "
            "array.reshape(len(array), -1)."
        )
    return array


def _read(archive: zipfile.ZipFile, entry: zipfile.ZipInfo, path: str) -> Any:
    """Read an array to its end, where zipfile compares the checksum."""
    what = f"the array {printable(entry.filename)[:100]!r}"
    check_memory(path, entry.file_size, what)
    with archive.open(entry) as stream:
        array = np.lib.format.read_array(stream, allow_pickle=False)
        if stream.read(1):
            raise InvalidProblem(
                f"{path}: more bytes follow {what}. It is damaged, or holds more than one array: save it again."
            )
    return array


def _chosen(path: str, member: str, names: list[str]) -> str:
    """Return the name of the array to read: `member`, or the only name."""
    if member in names or (not member and len(names) == 1):
        return member or names[0]
    raise InvalidProblem(
        f"{path} has no array {member!r}, or several; its arrays: {shown(names)}. Name one with part=, or on the "
        "command line as in FILE:NAME."
    )


def _sparse(path: str, parts: Mapping[str, Any]) -> Any:
    """Make the sparse matrix of its parts, in compressed rows, after a check of each part."""
    kind = parts["format"].tobytes().replace(b"\0", b"").decode("latin-1")[:20]
    data, shape = parts.get("data", np.empty(0)), parts["shape"]
    places: Any = [parts[name] for name in INDICES if name in parts]
    if data.dtype == np.float16 or not data.dtype.isnative:  # SciPy makes no matrix of these
        data = data.astype("float32" if data.dtype.itemsize == 2 else data.dtype.newbyteorder("="))
    if not all(part.dtype.kind in "iu" for part in (shape, *places)) or data.dtype.kind not in "biuf":
        raise InvalidProblem(
            f"{path} holds no valid sparse matrix: shape and places must be whole numbers, and data real ones. Save it "
            "again with scipy.sparse.save_npz."
        )
    rows, columns = map(int, shape)
    check_memory_for_sparse(path, (rows, columns), data.size)
    if kind == "coo":
        places = [tuple(places if len(places) > 1 else places[0])]
    with called(path):
        return checked_rows(getattr(scipy.sparse, f"{kind}_array")((data, *places), shape=(rows, columns)))
