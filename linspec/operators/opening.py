"""Operators made from any data: by `as_operator` from objects, by `open_rows` from files, by `labelled` with names.

Problem: data come as arrays, sparse matrices, frames, lists, streams, files and objects of other libraries, and each
must become one of the few kinds of matrices that solvers know.
Rows stand for people, words or days, and columns for words or measurements, whose names tables should show.
Method: kinds of data that linspec itself knows are tried first, then the adapters of installed plugins, then slices.
A problem takes its labels from its first matrix that has some. Answers keep the names of columns of each matrix.
"""

from __future__ import annotations

import copy
import os
from collections.abc import Iterable, Sequence
from functools import partial
from numbers import Integral, Real
from typing import Any

import numpy as np

from linspec.arrays import check_bare, is_array
from linspec.borrowed import borrowed
from linspec.errors import (
    BrokenPlugin,
    InvalidOption,
    InvalidProblem,
    LinspecError,
    PluginWarning,
    UnsupportedData,
    called,
    one_line,
    shown,
    warn,
)
from linspec.frames import (
    RowNames,
    check_order,
    column_names_of,
    index_of,
    is_frame,
    is_labelled,
    is_series,
    row_names_of,
    values_of_labelled,
    without_column,
)
from linspec.operators.base import (
    LinearOperator,
)
from linspec.operators.dense import DenseOperator, MappedOperator
from linspec.operators.foreign import is_cupy_sparse, known
from linspec.operators.numpy_files import is_npy, mapped
from linspec.operators.row_files import RowFiles, formats, row_files
from linspec.operators.sparse import is_scipy_sparse
from linspec.operators.streamed import StreamedOperator, is_stream
from linspec.operators.tables import array_of_list, of_frame
from linspec.process.files import looked_at
from linspec.registry.objects import instead_of

__all__ = ["as_operator", "labelled", "open_rows"]


def as_operator(
    data: Any, name: str = "data", *, rows: int | None = None, dtype: Any = None
) -> LinearOperator:
    """Make an operator of any data that can be multiplied.

    Parameters
    ----------
    data : array, sparse matrix, frame, memory map, path of a file, operator, list, iterator or callable
        One of these:

        - NumPy, CuPy, torch and array-api-strict arrays; `scipy.sparse` and `cupyx.scipy.sparse` matrices;
          `numpy.memmap`; a linspec or SciPy LinearOperator, or any object with `shape`, `dtype`, `matmat` and
          `rmatmat`; and the data of the adapters of installed plugins. Nothing is copied; integers and bools become
          floats block by block. The indices of a sparse matrix are read once, to check that its arrays fit together.
        - Arrays of JAX, sparse torch tensors (CSR, CSC; COO is converted to CSR), and objects that export their memory
          by DLPack (`__dlpack__`), all on the CPU. They are borrowed as NumPy arrays or SciPy sparse matrices on the
          same memory.
        - Frames and series of pandas, polars and pyarrow, and lists of rows. They are copied into one array, except
          pandas frames of one NumPy dtype in one block. Sparse columns of pandas stay sparse.
        - A DataArray of xarray with two dimensions, rows and columns: the array that it holds, which may be one of
          dask. Its coordinates are the labels.
        - Slices of rows: dense arrays, SciPy sparse matrices or frames with equally many columns. An iterator of slices
          is read once. A list or tuple of slices, and a callable that takes no arguments and returns a new iterator,
          can be read several times. The first slice is read by this function, and kept for the first pass. For an
          iterator or a callable, the number of rows is known after the first pass, unless `rows` states it; until then
          `shape[0]` is `math.inf`.
    name : str, default "data"
        The name of the data in messages.
    rows : int, optional
        The number of rows of an iterator or a callable, if it is known before the first pass.
    dtype : float32 or float64, optional
        The dtype of products. By default it is float32 for float16, float32, bools and integers of up to 16
        bits, which float32 represents exactly, and float64 for all other dtypes. Nothing is copied: entries
        are converted block by block, as integers are.

    Returns
    -------
    LinearOperator
        For a frame it has `column_names` and, if pandas has an index, `row_names`; for a DataArray both.

    Raises
    ------
    UnsupportedData
        The dtype is complex, object or string, or the data cannot be multiplied. For a frame the message names
        the columns.
    InvalidProblem
        The data do not have two dimensions, or not `rows` rows, or a file cannot be read.
    NonFiniteData
        A value of a frame is missing or not finite; the message names its row and column.

    Examples
    --------
    >>> import numpy as np
    >>> import linspec as ls
    >>> A = np.random.default_rng(0).standard_normal((200, 10)) * np.geomspace(10, 1, 10)
    >>> ls.as_operator(A).shape
    (200, 10)
    >>> ls.as_operator(lambda: (A[i : i + 50] for i in range(0, 200, 50))).matmat(np.ones((10, 1))).shape
    (200, 1)
    """
    operator = data if isinstance(data, LinearOperator) else _borrowed(data, name, rows)
    if operator is not data and hasattr(data, "row_index"):
        operator.row_index = data.row_index
    if rows is not None and (np.ndim(rows) > 0 or operator.shape[0] != rows):
        raise InvalidProblem(f"{name} has {operator.shape[0]} rows; got rows={shown(rows)}. Leave rows out.")
    if dtype is None:
        return operator
    converted = _in_dtype(operator, name, dtype)
    return converted if converted is operator else converted.with_names_of(operator)


def open_rows(
    path: Any,
    *,
    columns: Sequence[str | int] | None = None,
    part: str = "",
    missing: str = "warn",
    header: bool | str = "auto",
    base: int | None = None,
    rows: slice | Sequence[int] | None = None,
) -> LinearOperator:
    """The rows of files as data: text, sparse text, tables, arrays and groups, each format by its suffix.

    Delimited text (`.csv`, `.tsv`, `.txt`), Matrix Market (`.mtx`) and svmlight (`.svm`, `.svmlight`, `.libsvm`), also
    compressed by gzip; `.npy`, `.npz`, Parquet, zarr, HDF5, AnnData (`.h5ad`), MATLAB 7.3 (`.mat`). Plugins add others.

    Parameters
    ----------
    path : path, pattern, or list of these
        Such as ``"people.csv"``, ``"counts.zarr"`` or ``"parts/*.parquet"``, or a folder of Parquet files. Files of a
        pattern or a folder come in the order of their names, with numbers in these by value (``part.2`` before
        ``part.10``); their rows are one matrix. A file with other columns or another dtype than the first is refused.
    columns : sequence of str or int, optional
        Columns by name, or by place from 0, in this order. By default all, except the index of a pandas frame in a
        Parquet file, and columns without a name in front of delimited text, which hold labels of rows. In svmlight,
        ``columns=range(p)`` gives test rows the width of the training rows.
    part : str, optional
        The array or the group within a file: ``"layers/counts"`` or ``"obsm/X_pca"`` of AnnData, whose ``X`` is read
        by default; any path within a zarr group, an HDF5 file or an `.npz` file, which may be left out if there is one
        array. Of svmlight ``"labels"``, as one column, or ``"classes"``, one column for each label with 1 in its rows.
    missing : {"warn", "fill", "refuse", "nan"}, default "warn"
        What is done about missing chunks of zarr or HDF5, which these formats read as a fill value, also where they
        were lost: a warning (an error for sparse matrices), nothing, or an error. A missing value of text or Parquet
        is an error with its row and column, but with "nan".
    header : bool or "auto", default "auto"
        Whether the first line of delimited text holds names of columns. ``"auto"``: texts are names; numbers are names
        where that can be told from the lines below, such as years, or wavelengths that rise evenly. A first line of
        which nobody can tell is an error.
    base : {0, 1}, optional
        The index of the first feature of svmlight files; by default 0 if that occurs, else 1.
    rows : slice or (int, int), optional
        Only these: ``slice(0, 900)``, or as a pair ``(0, 900)``; ``open_rows(path)[900:]`` selects in the same way.

    Returns
    -------
    LinearOperator of shape (n, p)
        Only metadata is read at first. Every pass reads and decodes the rows again, in slices, the next one while the
        current one is in use. Text, matrices compressed by columns and arrays of `.npz` are read whole, and kept.

    Raises
    ------
    InvalidProblem
        There is no such file, it is damaged or does not fit, or nobody can tell whether a first line holds names.
    NonFiniteData, UnsupportedData
        A value is missing (the message names row and column), or a column holds no numbers.
    MissingPackage
        The library that reads the format is not installed.

    Examples
    --------
    >>> import linspec as ls
    >>> ls.open_rows("nowhere/*.parquet")
    Traceback (most recent call last):
    linspec.errors.InvalidProblem: nowhere/*.parquet cannot be read: no file fits the pattern. Check the path.
    >>> from pathlib import Path
    >>> _ = Path("people.csv").write_text(chr(10).join(["age,weight,height", "31,70,1.8", "28,65,1.7"]))
    >>> people = ls.open_rows("people.csv", columns=["height", "age"])
    >>> people.shape, people.column_names
    ((2, 2), ('height', 'age'))
    """
    files = row_files(path, columns=columns, part=part, missing=missing, header=header, base=base)
    chosen = slice(None) if rows is None else _range_of(rows)
    operator = as_operator(files, "the data")
    return operator if rows is None else operator[chosen]


def _range_of(rows: Any) -> slice:
    """The slice of rows that a user names."""
    if isinstance(rows, slice):
        return rows
    if isinstance(rows, list | tuple) and len(rows) == 2 and all(isinstance(end, Integral) for end in rows):
        return slice(*rows)
    raise InvalidOption(
        f"rows must be a slice or a pair of row numbers, (first, behind the last); got {shown(rows)}. "
        "linspec.open_rows(path)[numbers] selects rows by an array of their numbers."
    )


def _in_dtype(operator: LinearOperator, name: str, dtype: Any) -> LinearOperator:
    if not isinstance(dtype, str | type | np.dtype) or dtype not in (
        np.float32,
        np.float64,
        "float32",
        "float64",
    ):
        raise InvalidProblem(f"dtype of {name} must be float32 or float64; got {shown(dtype)}.")
    converted = operator.in_dtype(np.dtype(dtype))
    if converted is None:
        raise UnsupportedData(
            f"{name} is multiplied in {operator.dtype}, as its parts are. Convert the parts: "
            "linspec.as_operator(part, dtype=...)."
        )
    return converted


def _borrowed(data: Any, name: str, rows: int | None) -> LinearOperator:
    """Make the operator of data that are no operator; those of another library are borrowed."""
    check_bare(data, name)
    return _operator_of(borrowed(data, name), name, rows)


def _operator_of(data: Any, name: str, rows: int | None) -> LinearOperator:
    if is_frame(data) or is_series(data):
        return of_frame(data, name)
    if is_labelled(data):
        return _of_labelled(data, name)
    if isinstance(data, list | tuple):
        return _of_list(data, name, rows)
    if isinstance(data, str | os.PathLike):
        return _of_files(row_files(data), name, mappable=True)
    if isinstance(data, RowFiles):
        return _of_files(data, name)
    with called(name):  # the operators do not know the name of their data
        operator = known(data)
    operator = _adapted(data) if operator is None else operator
    if operator is None and is_stream(data):
        return StreamedOperator(data, rows, name)
    if operator is None:
        raise UnsupportedData(
            f"{name} must be an array, a sparse matrix, a frame, a .npy file, an object with shape, dtype, matmat and "
            f"rmatmat, or an iterator of row slices; got {type(data).__module__}.{type(data).__qualname__}. "
            f"{instead_of(data)}"
        )
    return operator


def _of_labelled(data: Any, name: str) -> LinearOperator:
    """Make the operator of the array that a DataArray or an AnnData holds, with the labels of both axes."""
    operator = as_operator(values_of_labelled(data, name), name)
    operator.column_names = column_names_of(data)
    operator.row_names, operator.row_index = row_names_of(data), index_of(data)
    return operator


def _of_list(data: Any, name: str, rows: int | None) -> LinearOperator:
    """Make the operator of a list of rows of numbers, or of slices, which can be read several times."""
    if data and _is_slice(data[0]):
        known = all(_is_slice(part) for part in data)
        return StreamedOperator(
            partial(iter, data), sum(part.shape[0] for part in data) if known else rows, name
        )
    foreign = bool(data) and not isinstance(data[0], Real | Sequence | np.generic)
    operator = _adapted(data) if foreign else None
    if operator is not None:
        return operator
    with called(name):
        return DenseOperator(array_of_list(data))


def _is_slice(entry: Any) -> bool:
    readable = is_array(entry) or is_scipy_sparse(entry) or is_cupy_sparse(entry)
    return is_frame(entry) or (readable and entry.ndim == 2)


def _of_files(files: RowFiles, name: str, *, mappable: bool = False) -> LinearOperator:
    """Make the operator of files by the adapter that knows their suffix, or of a `.npy` file, known by its bytes."""
    with called(name):
        for path in files.paths:  # before an adapter opens one
            looked_at(path, folder=True)
        if mappable and len(files.paths) == 1 and is_npy(files.paths[0]):
            return MappedOperator(mapped(files.paths[0]))
    operator = _adapted(files)
    if operator is None:
        raise UnsupportedData(
            f"{files.name} cannot be read as the rows of one matrix: no plugin knows files that end in "
            f"{files.suffix!r}, or the bytes are not of that format, or it is a folder of several matrices. Give files "
            f"the ending of their format ({formats()}), or read them with what wrote them, and pass an array."
        )
    return operator


def _adapted(data: Any) -> LinearOperator | None:
    """Make the operator by the adapter of a plugin; None if none takes the data."""
    from linspec.registry import operator_adapters

    adapter = _first_match(operator_adapters(), data)
    if adapter is None:
        return None
    error = None
    try:
        operator: Any = adapter.adapt(data)
        got = f"got {type(operator).__name__}"
    except (LinspecError, MemoryError):
        raise
    except Exception as raised:  # noqa: BLE001  # whatever a plugin raises
        operator, error, got = None, raised, f"it raised {one_line(raised)}"
    if not isinstance(operator, LinearOperator):
        raise BrokenPlugin(
            f"{adapter.qualified} must make a linspec.LinearOperator of {type(data).__name__}; {got}. This is a fault "
            "of the plugin that has the adapter: either adapt fails, or matches is true of data that are not its own."
        ) from error
    return operator


def _first_match(adapters: Iterable[Any], data: Any) -> Any:
    """Return the first adapter that takes the data, or None; warn of those that fail."""
    for adapter in adapters:
        try:
            if adapter.matches(data):
                return adapter
        except Exception as error:  # noqa: BLE001  # whatever a plugin raises
            warn(
                f"{adapter.qualified}: matches raised {one_line(error)}, asked about a {type(data).__name__}.",
                PluginWarning,
            )
    return None


def labelled(data: Any, rows: Any = None, *, columns: Any = None) -> LinearOperator:
    """Data with a label for each row, a name for each column, or both, which tables show.

    Parameters
    ----------
    data : data of shape (n, p)
        Any kind of data that `linspec.as_operator` takes.
    rows : str, or sequence of n labels, optional
        The name of a column of a frame, which is left out of the numbers; or the labels: a list, an array, or a
        series.
    columns : sequence of p str, optional
        The names of the columns, such as the words that a vectorizer counts. They replace those of a frame.

    Returns
    -------
    LinearOperator of shape (n, p)
        The data with `row_names` and `column_names`. Problems, `transform` and tables accept it like the data
        themselves. The labels of rows are not copied.

    Raises
    ------
    InvalidProblem
        The named column does not exist, the numbers of labels and rows, or of names and columns, differ, a name
        occurs twice, or the number of rows is not known yet.

    Examples
    --------
    >>> import numpy as np
    >>> import linspec as ls
    >>> A = ls.labelled(np.diag([3.0, 2.0]), rows=["ann", "bob"], columns=["height", "weight"])
    >>> solution = ls.solve(ls.SVD(A, k=1))
    >>> solution.scores_table(A, library="")
    [{'row': 'ann', 'component1': 3.0}, {'row': 'bob', 'component1': 0.0}]
    >>> solution.weights_table(library="")
    [{'column': 'height', 'component1': 1.0}, {'column': 'weight', 'component1': 0.0}]
    """
    name = ""
    if isinstance(rows, str):
        known = (column_names_of(data) or ()) if is_frame(data) else ()
        if rows not in known:
            raise InvalidProblem(
                f"rows must be the name of a column of a frame, or a label for each row; got {shown(rows)} for "
                f"{type(data).__name__}. Pass the labels themselves."
            )
        name = rows
        data, rows = without_column(data, rows)
    operator = copy.copy(as_operator(data))  # an operator that was passed is not modified
    if rows is not None:
        operator.row_names = operator.row_index = _labels_of_rows(operator, rows, name)
    if columns is not None:
        operator.column_names = _names_of_columns(operator, columns)
    return operator


def _labels_of_rows(operator: LinearOperator, labels: Any, name: str) -> RowNames:
    """Check labels of rows, and return them with the name of the column that they come from."""
    check_order({"data": operator, "labels": labels})
    count = operator.shape[0]
    if not hasattr(labels, "__len__") or getattr(labels, "ndim", 1) != 1 or len(labels) != count:
        raise InvalidProblem(
            f"rows must be the name of a column of a frame, or a label for each of the {count} rows; got "
            f"{shown(labels)}. Pass a list; of rows that come slice by slice, pass their number rows= to "
            "linspec.as_operator, too."
        )
    return RowNames(labels, name)


def _names_of_columns(operator: LinearOperator, names: Any) -> tuple[str, ...]:
    """Check names of columns, and return them."""
    listed = hasattr(names, "__iter__") and not isinstance(names, str) and getattr(names, "ndim", 1) == 1
    columns = tuple(map(str, names)) if listed else ()
    if len(columns) != operator.shape[1] or len(set(columns)) != len(columns):
        raise InvalidProblem(
            f"columns must have a name for each of the {operator.shape[1]} columns, all different; got {shown(names)}. "
            "Pass a list."
        )
    return columns
