"""Matrices from files: what was typed, as a call of `linspec.open_rows`.

Problem: a command line has one text for a file and for what is read of it, and an error must end in a sentence.
Method: the longest front of ``FILE:REST`` that is the name of something there is the file, or a pattern of files. The
record of the adapter that reads such files says whether they are tables. If they are, the rest picks columns by name
(``file.csv:a,b``, ``file.parquet:a..c``), else it is a part of the file: an array (``file.npz:name``), a layer
(``file.h5ad:layers/counts``), or the labels (``file.svm:labels``, ``file.svm:classes``). Formats are known to
adapters alone, but that of a `.npy` file, which is mapped. What is quicker to read as a whole, and takes a small part
of the memory, is held.
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from linspec.cli.columns import NamedMatrix, chosen_columns
from linspec.cli.failures import Failure, with_remedy
from linspec.errors import LinspecError
from linspec.process import machine
from linspec.process.paths import is_there

if TYPE_CHECKING:
    from linspec.arrays import Array
    from linspec.operators import RowFiles

__all__ = ["SHARE", "column_names_in", "described", "read_matrix", "read_named"]

SHARE = 0.25
"""Of the available memory: rows that take more are read in slices, in every pass anew."""


def read_matrix(text: str) -> Array:
    """Read a matrix of numbers, without the names of its columns; otherwise as `read_named`."""
    return read_named(text).values


def read_named(text: str, *, texts: bool = False, gaps: bool = False) -> NamedMatrix:
    """Read a matrix.

    Parameters
    ----------
    text : str
        A path or a pattern, with ``:columns`` or ``:part`` after it.
    texts : bool, default False
        Whether it may be a column of texts.
    gaps : bool, default False
        Whether values of tables may be missing: numbers are NaN then, and texts None.

    Returns
    -------
    NamedMatrix
        Its values are an array, a memory map or a sparse matrix, an operator of rows that are not held, or an array of
        texts: with gaps one of objects.

    Raises
    ------
    Failure
        The file is missing, is not of its suffix's format, or holds something that is no matrix.
    """
    try:
        files = _located(text, gaps)
        found = _texts(files) if texts else None
        return _numbers(files) if found is None else found
    except LinspecError as error:
        raise Failure(with_remedy(error)) from error


def column_names_in(text: str) -> tuple[str, ...] | None:
    """The names of all columns of a file, without reading it; None of files that have none, and of picked columns."""
    from linspec.operators import names_of_columns

    try:
        path, rest = _divided(text)
        names = None if rest else names_of_columns(_files(path))
    except LinspecError as error:
        raise Failure(with_remedy(error)) from error
    return tuple(map(str, names)) if names and isinstance(names[0], str) else None


def described(matrix: Any) -> str:
    """Shape, dtype and kind of a matrix in words."""
    if isinstance(matrix, NamedMatrix):
        return f"{len(matrix.values)} texts" if matrix.is_text else described(matrix.values)
    shape = " x ".join(map(str, matrix.shape))
    if getattr(matrix, "streamed", False) or getattr(matrix, "rows_together", 1) > 1:
        return f"{shape}, {matrix.dtype}, read in slices"
    if hasattr(matrix, "nnz"):
        return f"{shape}, sparse, {matrix.nnz} entries"
    return f"{shape}, {matrix.dtype}"


def _located(text: str, gaps: bool) -> RowFiles:
    """What a text asks for."""
    from linspec.operators import names_of_columns  # here: help loads no array library

    path, rest = _divided(text)
    files = replace(_files(path), missing="nan" if gaps else "warn")
    names = names_of_columns(files) if rest else None
    if names is None:
        return replace(files, part=rest)
    return replace(files, columns=tuple(chosen_columns(list(map(str, names)), rest, path)))


def _divided(text: str) -> tuple[str, str]:
    """The file of a text, or its pattern, and what stands behind."""
    if is_there(text):
        return text, ""
    from linspec.operators.row_files import is_pattern

    parts = text.split(":")
    fronts = (":".join(parts[:i]) for i in range(len(parts) - 1, 0, -1))
    there = next((front for front in fronts if is_there(front)), None)
    if there:
        return there, text[len(there) + 1 :]
    front, colon, rest = text.partition(":")
    if is_pattern(front):
        return front, rest
    linked = os.path.islink(text)  # noqa: PTH114  # Path.is_symlink raises where no name is so long
    name = front if colon and not linked and Path(front).suffix else text
    what = "a link that leads to no file" if os.path.islink(name) else "no such file"  # noqa: PTH114
    raise Failure(f"{name}: {what}.")


def _files(path: str) -> RowFiles:
    from linspec.operators.row_files import row_files

    return row_files(path)


def _texts(files: RowFiles) -> NamedMatrix | None:
    """The texts of a column; None of numbers."""
    import numpy as np

    from linspec.operators import names_of_columns, texts_of_column

    texts = texts_of_column(files)
    if texts is None:
        return None
    names, places = names_of_columns(files) or (), files.columns or (0,)
    values = np.array(texts, dtype=object if files.missing == "nan" else None)
    return NamedMatrix(values, tuple(str(names[int(place)]) for place in places))


def _numbers(files: RowFiles) -> NamedMatrix:
    """The rows of files of numbers."""
    from linspec.operators import RowFiles, as_operator, mapped
    from linspec.operators.npy_files import is_npy
    from linspec.operators.npz_files import check_matrix

    path = files.paths[0]
    if is_npy(path) and files == RowFiles((path,), missing=files.missing):  # its vectors stay vectors
        array = mapped(path)
        check_matrix(array, path)
        return NamedMatrix(array)
    rows = as_operator(files, "the data")
    if 0 in rows.shape:
        raise Failure(f"{path} must hold a matrix with rows and columns; got shape {rows.shape}.")
    rows = rows.in_memory(SHARE * machine.available_memory())
    return NamedMatrix(rows if rows.stored_array is None else rows.stored_array, rows.column_names)
