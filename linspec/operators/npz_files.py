"""NumPy's archives `.npz`, which hold several arrays, or the arrays that make up a sparse matrix.

Problem: an archive of a few bytes may declare arrays of any size. Compiled code uses indices of a sparse matrix that
are negative or too large without a check, and fractional indices would be truncated.
Method: NumPy reads each array, and never unpickles; what an array takes is compared with the memory before. SciPy makes
the sparse matrix of its parts, and the check of every sparse matrix in memory looks at them.
Source: NumPy's format of arrays (NEP 1) and ``scipy.sparse.save_npz``.
Where we differ: ``scipy.sparse.load_npz`` trusts the parts in the file.
"""

from __future__ import annotations

import os
import zipfile
from collections.abc import Mapping
from typing import Any

import numpy as np
import scipy.sparse

from linspec.arrays import HostArray
from linspec.errors import InvalidProblem, LinspecError, UnsupportedData, called, one_line, printable
from linspec.operators.sparse import checked_rows
from linspec.process.files import check_memory, check_memory_for_sparse, looked_at

__all__ = ["check_matrix", "read_npz"]

LISTED = 10
"""Largest number of names of arrays that a message lists."""

INDICES = ("indices", "indptr", "row", "col", "coords", "offsets")
"""The arrays of sparse matrices that hold whole numbers, in the order in which SciPy takes those of a format."""


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
    check_matrix(array, name)
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
    more = " ..." if len(names) > LISTED else ""
    listed = (printable(", ".join(names[:LISTED])) or "none") + more
    wanted = f"no array {member!r}" if member else f"{len(names)} arrays"
    raise InvalidProblem(
        f"{path} has {wanted}; its arrays: {listed}. Name one with part=, or on the command line as in "
        f"{path}:{printable((names or ['X'])[0])}."
    )


def check_matrix(array: HostArray, name: str) -> None:
    """Raise an error unless an array holds real numbers in one or two dimensions."""
    if array.dtype.kind not in "biuf":
        raise UnsupportedData(
            f"{name} must hold real numbers; got dtype {array.dtype}. Convert it before saving."
        )
    if array.ndim not in (1, 2):
        remedy = "Save it as rows by columns: array.reshape(len(array), -1)."
        raise InvalidProblem(
            f"{name} must hold a matrix; got {array.ndim} dimensions, {array.shape}. {remedy}"
        )


def _sparse(path: str, parts: Mapping[str, Any]) -> Any:
    """Make the sparse matrix of its parts, in compressed rows, after a check of each part."""
    kind = parts["format"].tobytes().replace(b"\0", b"").decode("latin-1")[:20]
    names = [name for name in INDICES if name in parts]
    data, shape = parts.get("data", np.empty(0)), parts["shape"]
    whole = all(parts[name].dtype.kind in "iu" for name in ("shape", *names))
    if not whole or data.dtype.kind not in "biuf" or shape.shape != (2,) or shape.min() < 0:
        raise _unsound(path, "must have whole numbers as shape and places, and real ones as data")
    rows, columns = map(int, shape)
    check_memory_for_sparse(path, (rows, columns), data.size)
    if data.dtype == np.float16 or not data.dtype.isnative:  # SciPy makes no matrix of these
        data = data.astype("float32" if data.dtype.itemsize == 2 else data.dtype.newbyteorder("="))
    places: Any = [parts[name] for name in names]
    if kind == "coo":
        places = [tuple(places if len(places) > 1 else places[0])]
    try:
        matrix = getattr(scipy.sparse, f"{kind}_array")((data, *places), shape=(rows, columns))
    except Exception as error:
        raise _unsound(
            path, f"is of format {kind!r} and has {', '.join(names)} that do not fit: {one_line(error)[:200]}"
        ) from error
    with called(path):
        return checked_rows(matrix)


def _unsound(path: str, fault: str) -> InvalidProblem:
    return InvalidProblem(
        f"{path} holds no valid sparse matrix: it {fault}. Save it again with scipy.sparse.save_npz."
    )
