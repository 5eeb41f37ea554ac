"""NumPy's archives `.npz`, which hold several arrays, or the arrays that make up a sparse matrix.

Problem: an archive of a few bytes may declare arrays of any size. Compiled code uses indices of a sparse matrix that
are negative or too large without a check, and fractional indices would be truncated.
Method: the header of an array is read first: kind of number, dimensions, and whether the declared bytes are in the
archive and fit into memory. Nothing is ever unpickled. The parts of a sparse matrix are checked against its format
before a matrix is made.
Source: NumPy's format of arrays (NEP 1) and ``scipy.sparse.save_npz``.
Where we differ: ``scipy.sparse.load_npz`` trusts the parts in the file.
"""

from __future__ import annotations

import math
import os
import zipfile
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse

from linspec.arrays import HostArray
from linspec.errors import InvalidProblem, LinspecError, UnsupportedData, printable
from linspec.operators.npy_files import checked_header
from linspec.operators.sparse import merged_rows
from linspec.process.files import looked_at
from linspec.process.room import check_memory, check_memory_for_sparse

__all__ = ["check_matrix", "read_npz"]

LISTED = 10
"""Largest number of names of arrays that a message lists."""


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
        archive = zipfile.ZipFile(path)
    except (zipfile.BadZipFile, ValueError, NotImplementedError) as error:
        raise _unreadable(name, "an .npz archive", error) from error
    with archive:
        arrays = _Arrays(archive, name)
        if not member and {"format", "shape"} <= set(arrays.names):
            return _sparse(arrays)
        array = arrays.read(_chosen(name, member, arrays.names))
    check_matrix(array, name)
    return array


class _Arrays:
    """The arrays of an archive, by name."""

    def __init__(self, archive: zipfile.ZipFile, path: str) -> None:
        self.archive = archive
        self.path = path
        self.entries = {entry.filename.removesuffix(".npy"): entry for entry in archive.infolist()}
        self.names = list(self.entries)

    def read(self, name: str) -> Any:
        """Read an array after a check that it holds no objects, is complete, and fits into memory."""
        entry, what = self.entries[name], f"the array {printable(name)!r} of an .npz archive"
        try:
            with self.archive.open(entry) as stream:
                shape, _, dtype = checked_header(stream)
                size = math.prod(shape) * dtype.itemsize
                held = entry.file_size - stream.tell()
                if dtype.hasobject:
                    raise InvalidProblem(  # noqa: TRY301  # passed on below
                        f"{self.path} holds pickled objects, which are never loaded. "
                        "Save plain numbers: numpy.savez or scipy.sparse.save_npz."
                    )
                if size != held:
                    raise InvalidProblem(  # noqa: TRY301  # passed on below
                        f"{self.path} cannot be read as {what}: its header declares {str(shape)[:40]} of "
                        f"{dtype.str[:20]}, but {held:,} bytes follow. It may be truncated or damaged, or hold more "
                        "than one array."
                    )
                check_memory(self.path, size, f"the array {printable(name)!r}")
                stream.seek(0)
                array = np.lib.format.read_array(stream, allow_pickle=False)
                stream.read(1)  # zipfile compares the checksum at the end of the member
        except (LinspecError, MemoryError):
            raise
        except Exception as error:  # each compression method has its own errors
            raise _unreadable(self.path, what, error) from error
        return array


def _chosen(path: str, member: str, names: list[str]) -> str:
    """Return the name of the array to read: `member`, or the only name."""
    if member in names:
        return member
    more = f", ... ({len(names)} in all)" if len(names) > LISTED else ""
    listed = (printable(", ".join(names[:LISTED])) or "none") + more
    if member:
        raise InvalidProblem(f"{path} has no array {member!r}. Its arrays: {listed}.")
    if len(names) != 1:
        example = f"{path}:{printable(names[0])}" if names else "a file that has one"
        raise InvalidProblem(
            f"{path} holds {len(names)} arrays ({listed}). Name one with part=, or on the command line as in {example}."
        )
    return names[0]


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


def _unreadable(name: str, what: str, error: BaseException) -> InvalidProblem:
    reason = printable(" ".join(str(error).split())).rstrip(".")[:200] or type(error).__name__
    return InvalidProblem(
        f"{name} cannot be read as {what} ({reason}). It may be truncated, or of another format than its suffix says."
    )


# ---- sparse matrices --------------------------------------------------------------------------


def _sparse(arrays: _Arrays) -> Any:
    """Assemble the sparse matrix that the arrays of an archive make up."""
    kind = arrays.read("format")
    text = kind.tobytes().decode("utf-32-le" if kind.dtype.kind == "U" else "latin-1", "replace")
    reader = _SPARSE.get(text if kind.dtype.kind in "SU" else "")
    if reader is None:
        raise InvalidProblem(
            f"{arrays.path} holds a sparse matrix of the unknown format {text[:20]!r}. "
            f"The formats: {', '.join(_SPARSE)}."
        )
    parts = _Parts(arrays)
    parts.check_names(_PARTS[text])
    check_memory(arrays.path, sum(entry.file_size for entry in arrays.entries.values()), "a sparse matrix")
    shape = parts.indices("shape")
    if len(shape) != 2 or shape.min() < 0:
        raise InvalidProblem(
            f"{arrays.path} must hold a matrix with rows and columns; its 'shape' is {printable(str(shape))[:40]}."
        )
    rows, columns = map(int, shape)
    matrix = reader(parts, rows, columns)
    return merged_rows(matrix)


class _Parts:
    """Checked access to the arrays that make up a sparse matrix; an error names the invalid array."""

    def __init__(self, arrays: _Arrays) -> None:
        self.arrays = arrays
        self.path = arrays.path

    def check_names(self, needed: tuple[str, ...]) -> None:
        """Raise an error if the archive lacks one of the `needed` arrays."""
        names = self.arrays.names
        known = {*names, "row", "col"} if "coords" in names else {*names}
        missing = [name for name in needed if name not in known]
        if missing:
            raise self.fault(f"lacks {', '.join(map(repr, missing))}")

    def fault(self, what: str) -> InvalidProblem:
        """Make the error for an archive that holds no valid sparse matrix; `what` says why."""
        remedy = "Save it again with scipy.sparse.save_npz."
        return InvalidProblem(f"{self.path} holds no valid sparse matrix: it {what}. {remedy}")

    def values(self, dimensions: int) -> Any:
        """Read the entries, an array of real numbers with the given number of dimensions."""
        data = self.arrays.read("data")
        if data.dtype.kind not in "biuf":
            raise self.fault(f"must hold real numbers; got dtype {data.dtype}")
        if data.ndim != dimensions:
            raise self.fault(f"must have 'data' of {dimensions} dimensions; got {data.ndim}")
        # SciPy's sparse matrices have neither half precision nor foreign byte orders.
        return data.astype(
            "float32" if data.dtype.str[1:] == "f2" else data.dtype.newbyteorder("="), copy=False
        )

    def indices(self, name: str, end: int | None = None, count: int | None = None) -> Any:
        """Read the array `name` as int64, after a check that it has `count` integers from 0 to end - 1."""
        return self.checked(self.arrays.read(name), name, end, count)

    def checked(self, values: Any, name: str, end: int | None = None, count: int | None = None) -> Any:
        """Check that `values` are `count` integers from 0 to end - 1, and return them as int64."""
        if values.dtype.kind not in "iu" or values.ndim != 1:
            raise self.fault(
                f"must have whole numbers in {name!r}; got dtype {values.dtype} in {values.ndim} dimensions"
            )
        if count is not None and len(values) != count:
            raise self.fault(f"must have {count:,} numbers in {name!r}; got {len(values):,}")
        if len(values):
            least, most = int(values.min()), int(values.max())
            last = 2**63 - 1 if end is None else end - 1
            if least < 0 or most > last:
                raise self.fault(
                    f"must have numbers from 0 to {last} in {name!r}; got {least if least < 0 else most}"
                )
        return values.astype("int64")


def _compressed(parts: _Parts, major: int, minor: int, data: Any) -> tuple[Any, Any]:
    """Read and check `indices` and `indptr` of compressed rows (or columns, or blocks)."""
    starts = parts.indices("indptr", count=major + 1)
    indices = parts.indices("indices", minor, len(data))
    if starts[0] != 0 or (np.diff(starts) < 0).any() or starts[-1] > len(data):
        raise parts.fault(f"must have an 'indptr' that begins at 0, never falls and ends by {len(data):,}")
    return indices, starts


def _csr(parts: _Parts, rows: int, columns: int) -> Any:
    data = parts.values(1)
    check_memory_for_sparse(parts.path, (rows, columns), len(data))
    return scipy.sparse.csr_array((data, *_compressed(parts, rows, columns, data)), shape=(rows, columns))


def _csc(parts: _Parts, rows: int, columns: int) -> Any:
    data = parts.values(1)
    check_memory_for_sparse(parts.path, (rows, columns), len(data))
    return scipy.sparse.csc_array((data, *_compressed(parts, columns, rows, data)), shape=(rows, columns))


def _bsr(parts: _Parts, rows: int, columns: int) -> Any:
    data = parts.values(3)
    height, width = data.shape[1:]
    if not (height and width) or rows % height or columns % width:
        raise parts.fault(f"has blocks of {height} x {width} in a matrix of {rows} x {columns}")
    check_memory_for_sparse(parts.path, (rows, columns), data.size)
    found = _compressed(parts, rows // height, columns // width, data)
    return scipy.sparse.bsr_array((data, *found), shape=(rows, columns))


def _coo(parts: _Parts, rows: int, columns: int) -> Any:
    data = parts.values(1)
    check_memory_for_sparse(parts.path, (rows, columns), len(data))
    if "coords" in parts.arrays.names:  # as matrices of other than two dimensions are saved
        found = parts.arrays.read("coords")
        if found.shape[:1] != (2,):
            raise parts.fault(f"must have 'coords' for two dimensions; got them of shape {found.shape}")
    else:
        found = [parts.arrays.read(name) for name in ("row", "col")]
    places = [
        parts.checked(values, name, end, len(data))
        for values, name, end in zip(found, ("row", "col"), (rows, columns), strict=True)
    ]
    return scipy.sparse.coo_array((data, places), shape=(rows, columns))


def _dia(parts: _Parts, rows: int, columns: int) -> Any:
    data = parts.values(2)
    check_memory_for_sparse(parts.path, (rows, columns), data.size)
    offsets = parts.arrays.read("offsets")
    if offsets.dtype.kind not in "iu" or offsets.shape != data.shape[:1]:
        raise parts.fault(
            f"must have {len(data):,} whole numbers in 'offsets'; got {offsets.dtype} {offsets.shape}"
        )
    if len(np.unique(offsets)) != len(offsets):
        raise parts.fault("has a diagonal twice in 'offsets'")
    within = (offsets < columns) & (offsets > -rows if offsets.dtype.kind == "i" else True)
    # SciPy's way to compressed rows takes memory for every row and diagonal, and there may be many rows.
    column = np.arange(data.shape[1])
    row = column - offsets[within].astype("int64")[:, None]
    filled = (row >= 0) & (row < rows) & (column < columns) & (data[within] != 0)
    places = (row[filled], np.broadcast_to(column, row.shape)[filled])
    return scipy.sparse.coo_array((data[within][filled], places), shape=(rows, columns))


_SPARSE: dict[str, Callable[[_Parts, int, int], Any]] = {
    "csr": _csr,
    "csc": _csc,
    "coo": _coo,
    "bsr": _bsr,
    "dia": _dia,
}
_PARTS = {
    **dict.fromkeys(("csr", "csc", "bsr"), ("data", "indices", "indptr")),
    "coo": ("data", "row", "col"),
    "dia": ("data", "offsets"),
}
