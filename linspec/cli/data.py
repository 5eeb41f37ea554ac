"""Matrices from files, each format by its suffix.

Problem: a matrix comes as `.npy`, `.npz`, Matrix Market, svmlight or delimited text, dense or sparse, and a file
that is broken, pickled or of another kind must end in a sentence, not in a traceback or worse.
Method: the suffix decides. A `.npy` file is mapped and never loaded whole; everything that is sparse in its
file stays sparse; nothing is ever unpickled, and the indices of a sparse matrix are checked before a compiled
kernel follows them. ``file.npz:name`` picks an array, ``file.svm:labels`` the labels as a column and
``file.svm:classes`` the labels as one indicator column a class.
Source: the formats of NumPy, SciPy, NIST (Matrix Market) and LIBSVM.
Where we differ: ``scipy.sparse.load_npz`` trusts the indices in the file.
"""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from linspec.cli.delimited import read_delimited
from linspec.cli.failures import Failure, in_one_line
from linspec.cli.svmlight import read_svmlight

if TYPE_CHECKING:
    from linspec.arrays import Array

__all__ = ["FORMATS", "described", "read_matrix"]

#: What can be read, in words.
FORMATS = ".npy, .npz, .mtx, .svm, .svmlight, .libsvm, .csv, .tsv, .txt; .gz after the text formats"

_BROKEN = (OSError, ValueError, EOFError, KeyError, TypeError, zipfile.BadZipFile, zlib.error)


@dataclass(frozen=True)
class _Source:
    """A file, and the member of it that is asked for ("" for the only one)."""

    path: Path
    member: str

    @property
    def suffix(self) -> str:
        """The suffix that says the format, without a .gz after it."""
        path = self.path.with_suffix("") if self.path.suffix.lower() == ".gz" else self.path
        return path.suffix.lower()

    @property
    def compressed(self) -> bool:
        """Whether a .gz ends the name."""
        return self.path.suffix.lower() == ".gz"


def read_matrix(text: str) -> Array:
    """Read a matrix.

    Parameters
    ----------
    text : str
        A path, with ``:name`` after it for one array of an `.npz` file and ``:labels`` or ``:classes`` after an
        svmlight file.

    Returns
    -------
    numpy.ndarray, numpy.memmap or scipy.sparse.csr_array
        Two-dimensional, but for a one-dimensional `.npy` or `.npz` array, which is returned as it is.

    Raises
    ------
    Failure
        The file is missing, is not of its suffix's format, or holds something that is no matrix.
    """
    source = _located(text)
    reader = _READERS.get(source.suffix)
    if reader is None or (source.compressed and source.suffix in (".npy", ".npz")):
        ending = "".join(source.path.suffixes[-2:]) if source.compressed else source.path.suffix
        raise Failure(
            f"{source.path}: files with the suffix {ending!r} cannot be read. The formats: {FORMATS}."
        )
    if source.member and source.suffix not in (".npz", *_SVMLIGHT):
        raise Failure(
            f"{source.path} holds one matrix; got the name {source.member!r} after it. Leave it out."
        )
    return reader(source)


def described(matrix: Any) -> str:
    """Shape, dtype and kind of a matrix in words."""
    shape = " x ".join(map(str, matrix.shape))
    if hasattr(matrix, "nnz"):
        return f"{shape}, sparse, {matrix.nnz} entries"
    return f"{shape}, {matrix.dtype}"


def _located(text: str) -> _Source:
    path, member = Path(text), ""
    if not path.exists():
        front, colon, name = text.rpartition(":")
        if colon and Path(front).exists():
            path, member = Path(front), name
        elif colon and Path(front).suffix:
            raise Failure(f"{front}: no such file.")
        else:
            raise Failure(f"{text}: no such file.")
    if path.is_dir():
        raise Failure(f"{path} is a folder; give a file. The formats: {FORMATS}.")
    return _Source(path, member)


def _read_npy(source: _Source) -> Array:
    import numpy as np

    try:
        return _plain(np.load(source.path, mmap_mode="r", allow_pickle=False), source)
    except _BROKEN as error:
        raise _unreadable(source, "a .npy array", error) from error


def _read_npz(source: _Source) -> Array:
    import numpy as np

    try:
        with np.load(source.path, allow_pickle=False) as archive:
            names = list(archive.files)
            if "format" in names and "shape" in names and not source.member:
                return _read_sparse_npz(source)
            return _plain(archive[_chosen(source, names)], source)
    except _BROKEN as error:
        raise _unreadable(source, "an .npz archive", error) from error


def _chosen(source: _Source, names: list[str]) -> str:
    """The name of the array to read."""
    if source.member in names:
        return source.member
    listed = ", ".join(names) or "none"
    if source.member:
        raise Failure(f"{source.path} has no array {source.member!r}. Its arrays: {listed}.")
    if len(names) != 1:
        example = f"{source.path}:{names[0]}" if names else "a file that has one"
        raise Failure(f"{source.path} holds {len(names)} arrays ({listed}); say which, as in {example}.")
    return names[0]


def _read_sparse_npz(source: _Source) -> Array:
    import scipy.sparse

    matrix = scipy.sparse.load_npz(source.path)
    if hasattr(matrix, "check_format"):
        matrix.check_format(full_check=True)  # an index out of range would be followed by compiled code
    return scipy.sparse.csr_array(matrix)


def _read_matrix_market(source: _Source) -> Array:
    import scipy.io
    import scipy.sparse

    try:
        matrix = scipy.io.mmread(source.path)
    except _BROKEN as error:
        raise _unreadable(source, "a Matrix Market file", error) from error
    return scipy.sparse.csr_array(matrix) if scipy.sparse.issparse(matrix) else matrix


def _read_svmlight(source: _Source) -> Array:
    return read_svmlight(source.path, source.member)


def _read_text(source: _Source) -> Array:
    return read_delimited(source.path, tabbed=source.suffix == ".tsv")


def _plain(array: Any, source: _Source) -> Any:
    """The array where it holds numbers in one or two dimensions."""
    if array.dtype.kind not in "biuf":
        raise Failure(
            f"{source.path} must hold real numbers; got dtype {array.dtype}. Convert it before saving."
        )
    if array.ndim not in (1, 2):
        remedy = "Save it as rows by columns: array.reshape(len(array), -1)."
        raise Failure(
            f"{source.path} must hold a matrix; got {array.ndim} dimensions, {array.shape}. {remedy}"
        )
    return array


def _unreadable(source: _Source, what: str, error: BaseException) -> Failure:
    reason = in_one_line(str(error)).rstrip(".")
    if any(word in reason for word in ("pickle", "Python objects")):
        return Failure(
            f"{source.path} holds pickled objects, which are never loaded, or is not {what} at all. "
            "Save plain numbers: numpy.save, numpy.savez or scipy.sparse.save_npz."
        )
    named = f"{type(error).__name__}: {reason}" if isinstance(error, KeyError) else reason
    return Failure(
        f"{source.path} cannot be read as {what} ({named or type(error).__name__}). It may be truncated, or of "
        "another format than its suffix says."
    )


_SVMLIGHT = (".svm", ".svmlight", ".libsvm")
_READERS: dict[str, Callable[[_Source], Any]] = {
    ".npy": _read_npy,
    ".npz": _read_npz,
    ".mtx": _read_matrix_market,
    **dict.fromkeys(_SVMLIGHT, _read_svmlight),
    **dict.fromkeys((".csv", ".tsv", ".txt"), _read_text),
}
