"""Parquet files, stacked into one matrix.

Problem: a table in many files is one matrix only if every file has the same columns; rows come in row groups, some of
them too large to be held; and a value may be missing.
Method: the description at the end of every file is read when the matrix is made, before any row: a file with other
columns or types is refused by its name. Slabs are row groups, several small ones together or parts of a large one,
which pyarrow gives batch by batch. An error for a missing value names its row and column.
Source: https://parquet.apache.org; pyarrow reads it.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from linspec.arrays import DType, HostArray
from linspec.errors import InvalidProblem, NonFiniteData, UnsupportedData, called, printable, shown
from linspec.operators import LinearOperator, RowFiles, as_operator, columns_but_index, in_order, looked_at
from linspec.process import check_memory
from linspec_files.slabs import (
    MOST_LABELS,
    MOST_SLABS,
    WITHOUT_COLUMN,
    WITHOUT_GAPS,
    FileRows,
    Source,
    reading,
    slab_bytes,
    stacked,
    without_part,
)

BUFFER = 2**16
"""Bytes that are read ahead of each column of a row group that is decoded in parts."""


def of_parquet(files: RowFiles) -> LinearOperator:
    """Make the operator of Parquet files, which may lie in folders.

    By default all columns are read except the index of a pandas frame; places count from 0, without that index. If
    `files` permits missing values, these become NaN, and columns of integers become floats.

    Raises
    ------
    InvalidProblem
        A file is damaged, or has other columns than the first; there is no such column, or there are no rows.
    UnsupportedData
        A column holds no numbers.
    """
    without_part(files, "a table")
    described, schema, columns = _table(files)
    kinds = [schema.field(schema.names.index(name)).type for name in columns]
    dtype = np.result_type(*(_dtype(kind, name, files) for kind, name in zip(kinds, columns, strict=True)))
    if files.missing == "nan" and dtype.kind != "f":
        dtype = np.result_type(dtype, np.float32)
    parts = list[LinearOperator]()
    for path, metadata in described:
        read = _Reader(path, metadata, columns, dtype, files.missing == "nan")
        edges = read.edges()
        shape = int(edges[-1]), len(columns)
        parts.append(
            FileRows(Source(printable(path), shape, dtype, edges, read, [path], shape[0] * shape[1]))
        )
        parts[-1].column_names, parts[-1].row_names = columns, _labels(path, metadata)
    operator = stacked(replace(files, paths=tuple(path for path, _ in described)), parts)
    if not operator.shape[0]:
        raise InvalidProblem(f"{files.name} must have rows; got none. Pass files with rows.")
    return operator


def of_data_set(data: Any) -> LinearOperator:
    """Make the operator of a `pyarrow.dataset.Dataset`: a stream of batches, which Arrow makes anew in every pass."""
    with called("the data set"):
        columns = columns_but_index(data.schema)
    return as_operator(partial(data.to_batches, columns=columns), rows=data.count_rows())


def names(files: RowFiles) -> list[str]:
    """Return the names of the columns of the first file, without those of an index."""
    path = _in_folders(files.paths)[0]
    with called(printable(path)):
        return columns_but_index(_opened(path).schema_arrow)


def texts(files: RowFiles) -> list[str | None] | None:
    """Read the texts of a single chosen column; None for several columns or for one of numbers.

    Raises
    ------
    InvalidProblem
        There is no such column, or its texts do not fit into memory.
    NonFiniteData
        A text is missing.
    """
    (described, schema, columns), column = _table(files), list[str | None]()
    if len(columns) > 1 or not (files.as_text or _is_text(schema.field(columns[0]).type)):
        return None
    for path, metadata in described:
        check_memory(path, 8 * metadata.num_rows, f"a column of {metadata.num_rows:,} texts")
        with reading(printable(path), "it"), _opened(path, metadata) as file:
            column += file.read(columns=list(columns)).column(0).to_pylist()
    if files.as_text:
        return ["" if value is None else str(value) for value in column]
    if None in column and files.missing != "nan":
        raise NonFiniteData(
            f"{printable(described[0][0])}: a value is missing at row {column.index(None)}, column "
            f"{shown(columns[0])}. {WITHOUT_GAPS}"
        )
    return column


def _table(files: RowFiles) -> tuple[list[tuple[str, Any]], Any, tuple[str, ...]]:
    """Return paths and descriptions of files, the schema of the first, and the requested columns, each once in all."""
    described = list[tuple[str, Any]]()
    schemas = list[Any]()
    for path in _in_folders(files.paths):
        with _opened(path) as file:
            described.append((path, file.metadata))
            schemas.append(file.schema_arrow)
    first = schemas[0]
    where = printable(described[0][0])
    every = list(schemas[0].names)
    if files.columns is None or not all(isinstance(column, str) for column in files.columns):
        with called(where):
            every = columns_but_index(first)  # which may be named, but not counted
    places = files.places(every, len(every), where)
    columns = tuple(every if places is None else (every[j] for j in places))
    if not columns:
        raise InvalidProblem(f"{where} has no columns. Pass a file with columns of numbers.")
    for (path, _), schema in zip(described, schemas, strict=True):
        with called(printable(path)):
            more = () if files.columns else set(columns_but_index(schema)) - set(first.names)
        for name in (*columns, *more):
            here, there = (
                [str(table.field(j).type) for j in table.get_all_field_indices(name)]
                for table in (schema, first)
            )
            if here != there or len(here) != 1:
                raise InvalidProblem(
                    f"{printable(path)} must have the columns of {where}, each once and of one type; its column "
                    f"{name!r} is another. Leave the file out, or name columns that all files have."
                )
    return described, first, columns


def _labels(path: str, metadata: Any) -> list[Any] | None:
    """Read the index of a pandas frame that was written, where it is one column of up to `MOST_LABELS` labels."""
    schema = metadata.schema.to_arrow_schema()
    index = sorted({*schema.names} - {*columns_but_index(schema)})
    if len(index) != 1 or metadata.num_rows > MOST_LABELS:
        return None
    with reading(printable(path), "its index"), _opened(path, metadata) as file:
        return list(file.read(columns=index).column(0).to_pylist())


def _in_folders(paths: Sequence[str]) -> list[str]:
    """Replace folders among paths by the Parquet files in them whose names do not begin with `_` or `.`."""
    files: list[str] = []
    for path in paths:
        every = [file for kind in ("*.parquet", "*.pq") for file in Path(path).rglob(kind)]
        inside = [file.relative_to(path) for file in every if not file.name.startswith(("_", "."))]
        keyed = next((str(file.parent) for file in inside if "=" in str(file.parent)), None)
        if keyed is not None:
            raise InvalidProblem(
                f"{printable(path)} has folders such as {printable(keyed)}, whose names are values of a column. Pass "
                'pyarrow.dataset.dataset(path, partitioning="hive"), which has that column, or a pattern, for the '
                "files without it."
            )
        files += in_order(str(Path(path) / file) for file in inside) or [path]
    return files


class _Reader:
    """Reads rows of one file; it keeps the description, and its place in a row group that is read in parts."""

    at_once = True  # on all cores

    def __init__(self, path: str, metadata: Any, columns: Sequence[str], dtype: DType, gaps: bool) -> None:
        self.path, self.metadata, self.columns, self.dtype, self.gaps = (
            path,
            metadata,
            list(columns),
            dtype,
            gaps,
        )
        groups = [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)]
        self.starts, self.most = (
            [0, *accumulate(groups)],
            max(1, slab_bytes() // (dtype.itemsize * len(columns))),
        )
        self.part = max(1, self.most // 2)
        if min(groups, default=0) < 0 or self.starts[-1] > MOST_SLABS * self.most:
            raise InvalidProblem(f"{printable(path)} cannot have {self.starts[-1]:,} rows. Write it again.")
        self._under_way: tuple[Any, Any] = None, None

    def __reduce__(self) -> Any:
        return _Reader, (self.path, self.metadata, self.columns, self.dtype, self.gaps)

    def edges(self) -> HostArray:
        """Return the first row of each slab: small row groups together, and parts of those above two slabs."""
        edges = [0]
        for start, stop in pairwise(self.starts):
            if stop - edges[-1] > self.most:
                edges.append(start)
            if stop - start > 2 * self.most:
                edges += [*range(start, stop, self.part), stop]
        return np.unique([*edges, self.starts[-1]]).astype(np.intp)

    def __call__(self, start: int, stop: int) -> HostArray:
        """Decode the rows of a slab, in column order, as Parquet stores them."""
        group = int(np.searchsorted(self.starts, start, side="right")) - 1
        end = int(np.searchsorted(self.starts, stop))
        if start == self.starts[group] and stop == self.starts[end]:
            with _opened(self.path, self.metadata) as file:
                table = file.read_row_groups(list(range(group, end)), self.columns)
        else:
            table = self._part(group, start, stop)
        out = np.empty((table.num_rows, len(self.columns)), self.dtype, order="F")
        for j, name in enumerate(self.columns):
            column = table.column(name)
            if column.null_count and not self.gaps:
                row = start + column.is_valid().index(False).as_py()
                raise NonFiniteData(
                    f"{printable(self.path)} must be finite; a value is missing at row {row}, column {name!r}. "
                    f"{WITHOUT_GAPS}"
                )
            gaps = column.null_count and not pa.types.is_floating(column.type)
            if gaps or pa.types.is_decimal(column.type):
                column = column.cast(pa.float64(), safe=False)  # rounds integers beyond 2⁵³, as NumPy does
            out[:, j] = np.asarray(column)
        return out

    def _part(self, group: int, start: int, stop: int) -> Any:
        """Decode a part of a row group: the next one of those under way, or one behind all parts before it."""
        place, batches = self._under_way
        if place != (os.getpid(), start):  # a forked child shares the open file of its parent
            file = _opened(self.path, self.metadata, BUFFER)
            batches = file.iter_batches(self.part, [group], self.columns, use_threads=False)
            for _ in range((start - self.starts[group]) // self.part):
                next(batches)
        table = next(batches)
        last = stop == self.starts[group + 1]  # gives the pages back
        self._under_way = (None, None) if last else ((os.getpid(), stop), batches)
        return table


def _opened(path: str, metadata: Any = None, buffer: int = 0) -> Any:
    """Open a file by pyarrow, or by Python where its name is no UTF-8."""
    looked_at(path)
    with reading(printable(path), "it as Parquet"):
        source = path if path.isascii() else Path(path).open("rb")  # noqa: SIM115  # closed with what reads it
        return pq.ParquetFile(source, metadata=metadata, buffer_size=buffer, pre_buffer=False)


def _is_text(kind: Any) -> bool:
    value = kind.value_type if pa.types.is_dictionary(kind) else kind
    return bool(pa.types.is_string(value) or pa.types.is_large_string(value))


def _dtype(kind: Any, name: str, files: RowFiles) -> DType:
    """Return the dtype of the numbers of a column; refuse other types."""
    if pa.types.is_null(kind) and files.missing == "nan":
        return np.dtype(np.float32)
    if pa.types.is_boolean(kind) or pa.types.is_integer(kind) or pa.types.is_floating(kind):
        return np.dtype(kind.to_pandas_dtype())
    if pa.types.is_decimal(kind):
        return np.dtype(np.float64)
    holds = "text" if _is_text(kind) else kind
    raise UnsupportedData(
        f"{files.name}: numbers are needed; the column {shown(name)} holds {holds}. {WITHOUT_COLUMN}"
    )
