"""Matrices from files, each format by its suffix.

Problem: a matrix comes as `.npy`, `.npz`, Matrix Market, svmlight or delimited text, dense or sparse, and a file
that is broken, pickled or of another kind must end in a sentence, not in a traceback or worse.
Method: the suffix decides. What is no regular file is refused before it is opened. A `.npy` file is mapped and never
loaded whole; everything that is sparse in its file stays sparse; nothing is ever unpickled; what would not fit into
memory is refused before it is read. ``file.npz:name`` picks an array, ``file.h5ad:layers/counts`` a part,
``file.svm:labels`` the labels as a column and ``file.svm:classes`` the labels as one indicator column a class;
``file.csv:a,b`` and ``file.parquet:a..c`` pick columns by name. ``parts/*.parquet`` is one matrix, and so are the files
of a pattern of any other format of `linspec.open_rows`, which decodes rows of zarr, HDF5 and AnnData, and of several
files, some at a time.
Source: the formats of NumPy, SciPy, NIST (Matrix Market), LIBSVM, Apache Parquet, zarr, HDF5 and AnnData.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from linspec.cli.columns import NamedMatrix
from linspec.cli.delimited import names_in_text, read_delimited
from linspec.cli.failures import Failure, with_remedy
from linspec.cli.matrix_market import read_matrix_market
from linspec.cli.parquet import complete_rows, names_in_parquet, read_parquet
from linspec.cli.svmlight import read_svmlight
from linspec.errors import InvalidProblem, LinspecError
from linspec.process.files import looked_at
from linspec.process.paths import is_there

if TYPE_CHECKING:
    from linspec.arrays import Array, HostArray

__all__ = ["FORMATS", "column_names_in", "described", "gaps_of_parquet", "read_matrix", "read_named"]

#: What can be read, in words.
FORMATS = (
    ".npy, .npz, .mtx, .svm, .svmlight, .libsvm, .parquet, .zarr, .h5, .hdf5, .h5ad, .csv, .tsv, .txt; .gz "
    "after the text "
    "formats"
)


@dataclass(frozen=True)
class _Source:
    """A file, the member of it that is asked for ("" for the only one), and whether values of a text may be missing."""

    path: Path
    member: str
    gaps: bool = False

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
    """Read a matrix of numbers, without the names of its columns; otherwise as `read_named`."""
    found = read_named(text)
    if found.text:
        raise Failure(found.text)
    return found.values


def read_named(text: str, *, gaps: bool = False) -> NamedMatrix:
    """Read a matrix.

    Parameters
    ----------
    text : str
        A path, with ``:name`` after it for one array of an `.npz` file, ``:labels`` or ``:classes`` after an
        svmlight file, a part after `.zarr`, `.h5` and `.h5ad`, and columns after delimited text and `.parquet`. Of
        `.parquet`, `.zarr`, `.h5`, `.hdf5`, `.h5ad`, `.npy` and `.npz` a pattern stands for several files.

    gaps : bool, default False
        Whether values of delimited text may be missing: numbers are NaN then, and texts empty.

    Returns
    -------
    NamedMatrix
        Its values are a numpy.ndarray, numpy.memmap, scipy.sparse.csr_array or, of large `.parquet`
        files, of several files, of zarr, HDF5 and AnnData, an operator. They have two dimensions, but for a
        one-dimensional `.npy` or `.npz` array, which is returned as it is, and for the texts of a single column.

    Raises
    ------
    Failure
        The file is missing, is not of its suffix's format, or holds something that is no matrix.
    """
    source = _located(text)
    reader = _READERS.get(source.suffix)
    if reader is None or (source.compressed and source.suffix not in (".mtx", *_SVMLIGHT, *_TEXT)):
        ending = "".join(source.path.suffixes[-2:]) if source.compressed else source.path.suffix
        raise Failure(
            f"{source.path}: files with the suffix {ending!r} cannot be read. The formats: {FORMATS}."
        )
    if _is_several(source):
        return _read_stored(source)
    if source.member and source.suffix not in (".npz", ".parquet", *_STORED, *_SVMLIGHT, *_TEXT):
        raise Failure(
            f"{source.path} holds one matrix, whose columns have no names; got {source.member!r} after it. Leave it "
            "out."
        )
    try:
        found = reader(replace(source, gaps=gaps))
    except LinspecError as error:
        raise Failure(with_remedy(error)) from error
    return found if isinstance(found, NamedMatrix) else NamedMatrix(found)


def column_names_in(text: str) -> tuple[str, ...] | None:
    """The names of all columns of a file, without reading it; None of files that have none, and of picked columns."""
    source = _located(text)
    if source.member:
        return None
    if source.suffix == ".parquet":
        return names_in_parquet(source.path)
    return names_in_text(source.path, tabbed=source.suffix == ".tsv") if source.suffix in _TEXT else None


def gaps_of_parquet(text: str) -> tuple[HostArray, Callable[[HostArray], NamedMatrix]] | None:
    """Which rows of a Parquet file lack no value, and what reads some of them; None for other files."""
    source = _located(text)
    if source.suffix != ".parquet":
        return None
    return complete_rows(source.path, source.member), partial(read_parquet, source.path, source.member)


def described(matrix: Any) -> str:
    """Shape, dtype and kind of a matrix in words."""
    if isinstance(matrix, NamedMatrix):
        return f"{len(matrix.values)} texts" if matrix.text else described(matrix.values)
    shape = " x ".join(map(str, matrix.shape))
    if getattr(matrix, "streamed", False) or getattr(matrix, "rows_together", 1) > 1:
        return f"{shape}, {matrix.dtype}, read in slices"
    if hasattr(matrix, "nnz"):
        return f"{shape}, sparse, {matrix.nnz} entries"
    return f"{shape}, {matrix.dtype}"


def _located(text: str) -> _Source:
    from linspec.operators.row_files import is_pattern  # here: help loads no array library

    path, member = Path(text), ""
    if not is_there(path):
        parts = text.split(":")
        fronts = [":".join(parts[:i]) for i in range(len(parts) - 1, 0, -1)]
        there = next((front for front in fronts if is_there(front)), None)
        front, colon, _ = text.partition(":")
        if there:
            path, member = Path(there), text[len(there) + 1 :]
        elif is_pattern(front) and Path(front).suffix.lower() in (".npy", ".npz", ".parquet", *_STORED):
            return _Source(Path(front), text[len(front) + 1 :])
        elif colon and not _is_link(path) and Path(front).suffix:
            raise Failure(f"{front}: {_absent(Path(front))}")
        else:
            raise Failure(f"{text}: {_absent(path)}")
    if path.is_dir() and path.suffix.lower() != ".zarr":
        raise Failure(
            f"{path} is a folder; give a file, or a pattern in quotes such as '{path}/*.parquet'. The formats: "
            f"{FORMATS}."
        )
    try:
        looked_at(path, folder=True)
    except InvalidProblem as error:
        raise Failure(str(error)) from error
    return _Source(path, member)


def _absent(path: Path) -> str:
    return "a link that leads to no file." if _is_link(path) else "no such file."


def _is_link(path: Path) -> bool:
    return os.path.islink(path)  # noqa: PTH114  # Path.is_symlink raises where no name is so long


def _is_several(source: _Source) -> bool:
    """Whether a pattern stands for files that `linspec.open_rows` reads; of Parquet columns are picked before."""
    return source.suffix in (".npy", ".npz", *_STORED) and not is_there(source.path)


def _read_npy(source: _Source) -> Array:
    from linspec.operators.npy_files import mapped
    from linspec.operators.npz_files import check_matrix

    array = mapped(source.path)
    check_matrix(array, str(source.path))
    return array


def _read_npz(source: _Source) -> Array:
    from linspec.operators.npz_files import read_npz

    found: Array = read_npz(source.path, source.member)
    if 0 in found.shape:
        raise Failure(f"{source.path} must hold a matrix with rows and columns; got shape {found.shape}.")
    return found


def _read_stored(source: _Source) -> NamedMatrix:
    from linspec.operators import open_rows

    rows = open_rows(source.path, part=source.member)
    return NamedMatrix(rows, rows.column_names)


_STORED = (".zarr", ".h5", ".hdf5", ".h5ad")
_SVMLIGHT = (".svm", ".svmlight", ".libsvm")
_TEXT = (".csv", ".tsv", ".txt")
_READERS: dict[str, Callable[[_Source], Any]] = {
    ".npy": _read_npy,
    ".npz": _read_npz,
    ".mtx": lambda source: read_matrix_market(source.path),
    **dict.fromkeys(_SVMLIGHT, lambda source: read_svmlight(source.path, source.member)),
    ".parquet": lambda source: read_parquet(source.path, source.member),
    **dict.fromkeys(_STORED, _read_stored),
    **dict.fromkeys(
        _TEXT,
        lambda source: read_delimited(
            source.path, source.member, tabbed=source.suffix == ".tsv", gaps=source.gaps
        ),
    ),
}
