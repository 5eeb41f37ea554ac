"""Matrices from files: the text of an argument as a call of `linspec.open_rows`.

Problem: a command line has one text for a file and for the part of it to read, and an error must be one sentence.
Method: the file, or pattern of files, is the longest front of ``FILE:REST`` that exists. The record of the adapter
that reads such files says whether they are tables. If they are, the rest picks columns by name (``file.csv:a,b``,
``file.parquet:a..c``), else it is a part of the file: an array (``file.npz:name``), a layer
(``file.h5ad:layers/counts``), or the labels (``file.svm:labels``, ``file.svm:classes``). Only adapters know formats,
except for `.npy` files, which are mapped. Rows that are read faster as a whole, and take a small part of the memory,
are held.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from linspec.cli.columns import NamedMatrix, chosen_columns, divided, in_quotes
from linspec.cli.failures import Failure, with_remedy
from linspec.errors import LinspecError
from linspec.process import machine

if TYPE_CHECKING:
    from linspec.operators import RowFiles

__all__ = [
    "SHARE",
    "column_as_text",
    "column_names_in",
    "described",
    "header_option",
    "read_named",
]

_HEADER = "linspec.cli.header"

SHARE = 0.25
"""Largest share of the available memory that the rows of a file may take if they are held in memory.

A matrix that would take more stays in its file, and every pass reads its rows in slices.
"""


def header_option() -> click.Option:
    """Make the option ``--header/--no-header``, which holds for all files of delimited text."""
    return click.Option(
        ["--header/--no-header"],
        default=None,
        expose_value=False,
        callback=lambda context, _, value: context.meta.__setitem__(_HEADER, value),
        help="Whether the first line of delimited text holds names of columns. By default the lines below tell.",
    )


def read_named(text: str, *, texts: bool = False, gaps: bool = False) -> NamedMatrix:
    """Read a matrix.

    Parameters
    ----------
    text : str
        A path or a pattern, with ``:columns`` or ``:part`` after it.
    texts : bool, default False
        Whether the matrix may be a column of texts.
    gaps : bool, default False
        Whether values of tables may be missing: missing numbers become NaN, missing texts None.

    Returns
    -------
    NamedMatrix
        Its values are an array, a memory map, a sparse matrix, an operator of rows that are not held, or an array of
        texts (of objects, with gaps).

    Raises
    ------
    Failure
        The file is missing, does not have the format of its suffix, or holds no matrix.
    """
    try:
        files = _located(text, gaps)
        found = _texts(files) if texts else None
        return _numbers(files) if found is None else found
    except LinspecError as error:
        raise Failure(with_remedy(error)) from error


def column_names_in(text: str) -> tuple[str, ...] | None:
    """Return the names of all columns of a file, without reading its rows.

    None if the columns of the file have no names, or if `text` picks columns or a part of the file (``FILE:COLUMNS``).
    """
    from linspec.operators import names_of_columns

    try:
        path, rest = divided(text)
        names = None if rest else names_of_columns(_files(path))
    except LinspecError as error:
        raise Failure(with_remedy(error)) from error
    return tuple(map(str, names)) if names and isinstance(names[0], str) else None


def column_as_text(text: str, name: str) -> NamedMatrix:
    """Read a column of a file by its name, as it stands there: numbers are not converted, and gaps are "".

    Parameters
    ----------
    text : str
        The file; columns behind it do not matter.
    name : str

    Raises
    ------
    Failure
        The file has no names of columns, or not this one.
    """
    import numpy as np

    from linspec.operators import texts_of_column  # here: help loads no array library

    try:
        path, _ = divided(text)
        if column_names_in(path) is None:
            raise Failure(f"{path} has no names of columns, so there is no column {name!r} in it.")
        found = texts_of_column(replace(_located(f"{path}:{in_quotes([name])}", gaps=False), as_text=True))
    except LinspecError as error:
        raise Failure(with_remedy(error)) from error
    if found is None:
        raise Failure(f"{path}: columns of its format cannot be read as texts; got {name!r}.")
    return NamedMatrix(np.array(found, dtype=object), (name,))


def described(matrix: Any) -> str:
    """Return shape, dtype and kind of a matrix in words."""
    if isinstance(matrix, NamedMatrix):
        return f"{len(matrix.values)} texts" if matrix.is_text else described(matrix.values)
    shape = " x ".join(map(str, matrix.shape))
    if getattr(matrix, "streamed", False) or getattr(matrix, "rows_together", 1) > 1:
        return f"{shape}, {matrix.dtype}, read in slices"
    if hasattr(matrix, "nnz"):
        return f"{shape}, sparse, {matrix.nnz} entries"
    return f"{shape}, {matrix.dtype}"


def _located(text: str, gaps: bool) -> RowFiles:
    """Return the files of a text, with the columns or the part that it picks."""
    from linspec.operators import names_of_columns  # here: help loads no array library

    path, rest = divided(text)
    files = replace(_files(path), missing="nan" if gaps else "warn")
    names = names_of_columns(files) if rest else None
    if names is None:
        return replace(files, part=rest)
    return replace(files, columns=tuple(chosen_columns(list(map(str, names)), rest, path)))


def _files(path: str) -> RowFiles:
    from linspec.operators.row_files import row_files

    context = click.get_current_context(silent=True)
    header = None if context is None else context.meta.get(_HEADER)
    return row_files(path, header="auto" if header is None else header)


def _texts(files: RowFiles) -> NamedMatrix | None:
    """Read the texts of a column; None if it holds numbers."""
    import numpy as np

    from linspec.operators import names_of_columns, texts_of_column

    texts = texts_of_column(files)
    if texts is None:
        return None
    names, places = names_of_columns(files) or (), files.columns or (0,)
    values = np.array(texts, dtype=object if files.missing == "nan" else None)
    return NamedMatrix(values, tuple(str(names[int(place)]) for place in places))


def _numbers(files: RowFiles) -> NamedMatrix:
    """Read the rows of files of numbers, or open them if they do not fit into memory."""
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
    values = rows if rows.stored_array is None else rows.stored_array
    return NamedMatrix(values, rows.column_names, rows.row_names)
