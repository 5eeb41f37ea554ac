"""Parquet files, stacked into one matrix.

Problem: a table in many files is one matrix only if every file has the same columns; rows come in row groups, some of
them too large to be held; and a value may be missing.
Method: the description at the end of every file is read when the matrix is made, before any row: a file with other
columns or types is refused by its name. Slabs are row groups, several small ones together or parts of a large one, which
pyarrow gives batch by batch. An error for a missing value names its row and column.
Source: https://parquet.apache.org; pyarrow reads it, each slab on one thread.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from functools import partial
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

import numpy as np

from linspec.arrays import HostArray
from linspec.errors import InvalidProblem, NonFiniteData, UnsupportedData, called, printable, shown
from linspec.operators import LinearOperator, RowFiles, as_operator, columns_but_index, in_order, looked_at
from linspec.process import check_memory
from linspec_files.slabs import MOST_SLABS, SLAB_BYTES, Source, reading, stacked
from linspec_files.text import without_column, without_gaps

BUFFER = 2**16
"""Bytes that are read ahead of each column of a row group that is decoded in parts."""


def parquet_rows(files: RowFiles) -> Source:
    """Make the source of Parquet files, which may lie in folders.

    By default all columns are read except the index of a pandas frame; places count from 0, without that index. If
    `files` permits missing values, these become NaN, and columns of integers become floats.

    Raises
    ------
    InvalidProblem
        A file is damaged, or has other columns than the first; there is no such column, or there are no rows.
    UnsupportedData
        A column holds no numbers.
    """
    paths, sources = in_folders(files.paths), list[Source]()
    _, first = described(paths[0])
    columns = _chosen(files, first)
    kinds = [first.field(first.names.index(name)).type for name in columns]
    dtype = np.result_type(*(_dtype(kind, name, files) for kind, name in zip(kinds, columns, strict=True)))
    if files.missing == "nan" and dtype.kind != "f":
        dtype = np.result_type(dtype, np.float32)
    row_bytes = dtype.itemsize * len(columns)
    for path in paths:
        metadata, schema = described(path)
        _check_alike(path, schema, paths[0], first, columns, every=files.columns is None)
        read = _Reader(path, columns, dtype, files.missing == "nan", metadata)
        edges = read.edges()
        n, largest = int(edges[-1]), int(np.diff(edges).max(initial=0))
        sources.append(
            Source(
                printable(path), (n, len(columns)), dtype, edges, read, (path,), column_names=columns,
                entries=n * len(columns), slab_bytes=largest * row_bytes, whole=read.whole,
            )
        )  # fmt: skip
    found = stacked(f"{printable(paths[0])}{f' and {len(paths) - 1} more' * (len(paths) > 1)}", sources)
    if not found.shape[0]:
        raise InvalidProblem(f"{found.name} must have rows; got none. Pass files with rows.")
    return found


class _Reader:
    """Reads rows of one file; it keeps the description, and its place in a row group that is read in parts."""

    def __init__(self, path: str, columns: Sequence[str], dtype: Any, gaps: bool, metadata: Any) -> None:
        self.path, self.columns, self.dtype, self.gaps = path, list(columns), dtype, gaps
        self.most = max(1, SLAB_BYTES // (dtype.itemsize * len(columns)))
        self.part = max(1, self.most // 2)
        groups = [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)]
        if min(groups, default=0) < 0 or max(groups, default=0) > MOST_SLABS * self.most:
            raise InvalidProblem(
                f"{printable(path)} cannot have row groups of {groups[:3]} rows. Write it again."
            )
        self.starts, self._metadata = [0, *accumulate(groups)], metadata
        self._place: tuple[int, int] | None = None
        self._batches: Any = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_metadata": None, "_place": None, "_batches": None}

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
        """Decode the rows of a slab."""
        import pyarrow as pa

        group = int(np.searchsorted(self.starts, start, side="right")) - 1
        end = int(np.searchsorted(self.starts, stop))
        if start == self.starts[group] and stop == self.starts[end]:
            with opened(self.path, self._metadata) as file:
                table = file.read_row_groups(list(range(group, end)), self.columns, use_threads=False)
            return self._filled([table], start, stop)
        if self._place != (os.getpid(), start):  # a forked child shares the open file of its parent
            file = opened(self.path, self._metadata, BUFFER)
            self._batches = file.iter_batches(self.part, [group], self.columns, use_threads=False)
            for _ in range((start - self.starts[group]) // self.part):
                next(self._batches)
        out = self._filled([pa.Table.from_batches([next(self._batches)])], start, stop)
        self._place = os.getpid(), stop
        return out

    def whole(self) -> HostArray:
        """Decode all rows on all cores."""
        with opened(self.path, self._metadata) as file:
            return self._filled(file.iter_batches(self.part, columns=self.columns), 0, self.starts[-1])

    def _filled(self, tables: Iterable[Any], start: int, stop: int) -> HostArray:
        """Write the columns of some tables below each other to an array, in column order, as Parquet stores them."""
        import pyarrow as pa

        out, at = np.empty((stop - start, len(self.columns)), self.dtype, order="F"), 0
        for table in tables:
            for j, name in enumerate(self.columns):
                column = table.column(name)
                if column.null_count and not self.gaps:
                    row = start + at + next(i for i, value in enumerate(column) if not value.is_valid)
                    raise NonFiniteData(
                        f"{printable(self.path)} must be finite; a value is missing at row {row}, column {name!r}. "
                        f"{without_gaps(name)}"
                    )
                gaps = column.null_count and not pa.types.is_floating(column.type)
                if gaps or pa.types.is_decimal(column.type):
                    column = column.cast(pa.float64())
                out[at : at + len(column), j] = np.asarray(column)
            at += table.num_rows
        return out[:at]


def opened(path: str, metadata: Any = None, buffer: int = 0) -> Any:
    """Open a file by pyarrow, or by Python where its name is no UTF-8."""
    import pyarrow.parquet as pq

    source = path if path.isascii() else Path(path).open("rb")
    return pq.ParquetFile(source, metadata=metadata, buffer_size=buffer, pre_buffer=False)


def described(path: str) -> tuple[Any, Any]:
    """Return the metadata and the schema of a file, from its end."""
    looked_at(path)
    try:
        with opened(path) as file:
            return file.metadata, file.schema_arrow
    except (OSError, ValueError) as error:  # pyarrow's own derive from these
        if isinstance(error, PermissionError | FileNotFoundError):
            raise
        said = " ".join(str(error).split())[:200].rstrip(".")
        raise InvalidProblem(
            f"{printable(path)} is not a Parquet file, or it is damaged ({said}). Write it again."
        ) from error


def in_folders(paths: Sequence[str]) -> list[str]:
    """Replace folders among paths by the Parquet files in them whose names do not begin with `_` or `.`.

    Raises
    ------
    InvalidProblem
        A folder has no such files, or is partitioned: the names of folders in it are values of a column
        (``year=2024``).
    """
    found: list[str] = []
    for path in paths:
        if not Path(path).is_dir():
            found.append(path)
            continue
        inside = [one.relative_to(path) for kind in ("*.parquet", "*.pq") for one in Path(path).rglob(kind)]
        inside = [one for one in inside if not one.name.startswith(("_", "."))]
        keyed = next((one for one in inside if "=" in str(one.parent)), None)
        if not inside:
            raise InvalidProblem(f"{printable(path)} is a folder without Parquet files. Check the path.")
        if keyed is not None:
            raise InvalidProblem(
                f"{printable(path)} has folders such as {printable(str(keyed.parent))}, whose names are values of a "
                'column. Pass pyarrow.dataset.dataset(path, partitioning="hive"), which has that column, or a pattern, '
                "for the files without it."
            )
        found += in_order(str(Path(path) / one) for one in inside)
    return found


def of_data_set(data: Any) -> LinearOperator:
    """Make the operator of a `pyarrow.dataset.Dataset`.

    The Parquet files of a data set are read directly if they are local, and if the data set has all their rows and
    columns, with the same types. Any other data set may leave out rows, convert types or add columns (by a filter, a
    schema or the keys of partitions). Its rows are read as a stream of batches, which Arrow makes anew in every pass.
    """
    files = getattr(data, "files", None)
    local = type(getattr(data, "filesystem", None)).__name__ == "LocalFileSystem"
    plain = files and local and type(data.format).__name__ == "ParquetFileFormat"
    if plain and described(files[0])[1].equals(data.schema):
        source = parquet_rows(RowFiles(tuple(files)))
        if data.count_rows() == source.shape[0]:
            return source.operator()
    with called("the data set"):
        columns = columns_but_index(data.schema)
    return as_operator(partial(data.to_batches, columns=columns), rows=data.count_rows())


def names_in_parquet(files: RowFiles) -> list[str]:
    """Return the names of the columns of the first file, without those of an index."""
    path = in_folders(files.paths)[0]
    with called(printable(path)):
        return columns_but_index(described(path)[1])


def texts_in_parquet(files: RowFiles) -> list[str | None] | None:
    """Read the texts of a single chosen column; None for several columns or for one of numbers.

    Raises
    ------
    InvalidProblem
        There is no such column, or its texts do not fit into memory.
    NonFiniteData
        A text is missing.
    """
    paths, texts = in_folders(files.paths), list[str | None]()
    _, first = described(paths[0])
    columns = _chosen(files, first)
    if len(columns) > 1 or not (files.as_text or _is_text(first.field(columns[0]).type)):
        return None
    for path in paths:
        metadata, schema = described(path)
        _check_alike(path, schema, paths[0], first, columns, every=False)
        check_memory(path, 8 * metadata.num_rows, f"a column of {metadata.num_rows:,} texts")
        with reading(printable(path), "it"), opened(path) as file:
            texts += file.read(columns=list(columns)).column(0).to_pylist()
    if files.as_text:
        return ["" if value is None else str(value) for value in texts]
    if None in texts and files.missing != "nan":
        raise NonFiniteData(
            f"{printable(paths[0])}: a value is missing at row {texts.index(None)}, column {shown(columns[0])}. "
            f"{without_gaps(columns[0])}"
        )
    return texts


def _is_text(kind: Any) -> bool:
    import pyarrow as pa

    value = kind.value_type if pa.types.is_dictionary(kind) else kind
    return bool(pa.types.is_string(value) or pa.types.is_large_string(value))


def _chosen(files: RowFiles, schema: Any) -> tuple[str, ...]:
    """Return the requested columns, after a check that each exists once; those of an index may be named."""
    where, names = printable(files.paths[0]), list(schema.names)
    if files.columns is None or not all(isinstance(one, str) for one in files.columns):
        with called(where):
            names = columns_but_index(schema)
    places = files.places(names, len(names), where)
    columns = tuple(names if places is None else (names[j] for j in places))
    if not columns:
        raise InvalidProblem(f"{where} has no columns. Pass a file with columns of numbers.")
    twice = next((name for name in columns if schema.names.count(name) > 1), None)
    if twice is not None:
        raise InvalidProblem(
            f"{where}: the column {twice!r} occurs {schema.names.count(twice)} times. Rename them."
        )
    return columns


def _check_alike(
    path: str, schema: Any, first_path: str, first: Any, columns: Sequence[str], *, every: bool
) -> None:
    """Refuse a file whose columns are not those of the first file."""
    with called(printable(path)):
        others = [name for name in columns_but_index(schema) if name not in first.names] if every else []
    what = f"has the column {others[0]!r}, which the first has not" if others else ""
    for name in columns:
        if schema.names.count(name) != 1:
            what = f"has the column {name!r} {schema.names.count(name)} times"
        elif (found := schema.field(name).type) != first.field(name).type:
            what = f"its column {name!r} holds {found}, and there {first.field(name).type}"
    if what:
        raise InvalidProblem(
            f"{printable(path)} must have the columns of {printable(first_path)}; it {what}. Leave the file out, or "
            "name columns that all files have."
        )


def _dtype(kind: Any, name: str, files: RowFiles) -> np.dtype[Any]:
    """Return the dtype of the numbers of a column; refuse other types."""
    import pyarrow as pa

    if pa.types.is_null(kind) and files.missing == "nan":
        return np.dtype(np.float32)
    if pa.types.is_boolean(kind) or pa.types.is_integer(kind) or pa.types.is_floating(kind):
        return np.dtype(kind.to_pandas_dtype())
    if pa.types.is_decimal(kind):
        return np.dtype(np.float64)
    where, holds = printable(files.paths[0]), "text" if _is_text(kind) else kind
    raise UnsupportedData(
        f"{where}: numbers are needed; the column {shown(name)} holds {holds}. {without_column(name)}"
    )
