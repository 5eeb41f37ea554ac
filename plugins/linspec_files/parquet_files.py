"""Parquet files, stacked into one matrix.

Problem: a table in many files is one matrix only if every file has the same columns; rows come in row groups, some of
them too large to be held; and a value may be missing.
Method: the description at the end of every file is read when the matrix is made, before any row: a file with other
columns or types is refused by its name. Slabs are row groups, several small ones together or parts of a large one. An
error for a missing value names its row and column.
Source: https://parquet.apache.org; pyarrow reads it, each slab on one thread.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np

from linspec.arrays import HostArray
from linspec.errors import InvalidProblem, NonFiniteData, UnsupportedData, called, printable, shown
from linspec.operators import RowFiles, columns_but_index, in_order, looked_at
from linspec.process import check_memory
from linspec_files.slabs import MOST_SLABS, SLAB_BYTES, RowSource, reading
from linspec_files.tables import without_column, without_gaps

__all__ = ["ParquetRows", "names_in_parquet", "texts_in_parquet"]


@dataclass(frozen=True)
class _Piece:
    """Rows of one file that are decoded together: whole row groups, or a part of one."""

    file: int
    groups: tuple[int, ...]
    skip: int  # rows of the first group that belong to earlier pieces
    rows: int


class ParquetRows(RowSource):
    """The rows of Parquet files.

    Parameters
    ----------
    files : RowFiles
        The paths and the columns to read. By default all columns are read except the index of a pandas frame. Numbers
        of columns count from 0, without that index. If `files` permits missing values, these become NaN, and columns
        of integers become floats.

    Raises
    ------
    InvalidProblem
        A file is damaged, or has other columns than the first; there is no such column, or there are no rows.
    UnsupportedData
        A column holds no numbers.
    """

    def __init__(self, files: RowFiles) -> None:
        paths = files.paths
        more = f" and {len(paths) - 1} more" if len(paths) > 1 else ""
        self.name, self._paths = f"{printable(paths[0])}{more}", tuple(paths)
        metadata, schemas = zip(*map(_described, paths), strict=True)
        self._columns = _chosen(files, schemas[0])
        types = [schemas[0].field(schemas[0].names.index(name)).type for name in self._columns]
        for path, schema in zip(paths[1:], schemas[1:], strict=True):
            _check_alike(path, schema, paths[0], schemas[0], self._columns, every=files.columns is None)
        self.stored_dtype = np.result_type(
            *(_dtype(kind, name, files) for kind, name in zip(types, self._columns, strict=True))
        )
        self._gaps = files.missing == "nan"
        if self._gaps and self.stored_dtype.kind != "f":
            self.stored_dtype = np.result_type(self.stored_dtype, np.float32)
        self.column_names = self._columns
        row_bytes = self.stored_dtype.itemsize * len(self._columns)
        with called(self.name):
            self._pieces = [piece for i, one in enumerate(metadata) for piece in _cut(i, one, row_bytes)]
        edges = [0, *accumulate(piece.rows for piece in self._pieces)]
        self.edges = np.asarray(edges, dtype=np.intp)
        self.shape = (edges[-1], len(self._columns))
        if not edges[-1]:
            raise InvalidProblem(f"{self.name} must have rows; got none. Pass files with rows.")
        self._under_way: tuple[tuple[int, int], Any, Iterator[Any]] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_under_way": None}

    def stamp(self, rows: slice) -> Any:
        """Return size and time of the file."""
        found = os.stat(self._paths[self._piece(rows).file])  # noqa: PTH116  # a text stays one
        return found.st_size, found.st_mtime_ns

    def _piece(self, rows: slice) -> _Piece:
        return self._pieces[int(np.searchsorted(self.edges, rows.start))]

    def read(self, rows: slice) -> HostArray:
        """Decode the rows of a slab, in column order, because Parquet stores columns."""
        number = int(np.searchsorted(self.edges, rows.start))
        piece = self._pieces[number]
        table = (
            self._group_in_parts(number)
            if piece.skip or self._row_group_continues(number)
            else self._groups(piece)
        )
        return self._filled(table, rows.start)

    def whole(self) -> HostArray | None:
        """Decode the rows of a single file on all cores; None for several files."""
        if len(self._paths) > 1:
            return None
        with _opened(self._paths[0]) as file:
            return self._filled(file.read(columns=list(self._columns)), 0)

    def _filled(self, table: Any, first: int) -> HostArray:
        """Convert a table to an array; `first` is its first row, for messages."""
        out = np.empty((table.num_rows, len(self._columns)), self.stored_dtype, order="F")
        for j, name in enumerate(self._columns):
            column = table.column(table.schema.names.index(name))
            if column.null_count and not self._gaps:
                row = next(i for i, value in enumerate(column) if not value.is_valid)
                raise NonFiniteData(
                    f"{self.name} must be finite; a value is missing at row {first + row}, column {name!r}. "
                    f"{without_gaps(name)}"
                )
            out[:, j] = _numbers(column, floats=bool(column.null_count))
        return out

    def _row_group_continues(self, number: int) -> bool:
        """Whether piece `number` + 1 holds further rows of the row group to which piece `number` belongs."""
        return number + 1 < len(self._pieces) and self._pieces[number + 1].skip > 0

    def _groups(self, piece: _Piece) -> Any:
        """Decode whole row groups."""
        with _opened(self._paths[piece.file]) as file:
            return file.read_row_groups(list(piece.groups), columns=list(self._columns), use_threads=False)

    def _group_in_parts(self, number: int) -> Any:
        """Decode piece `number`, which is a part of a row group.

        The open file and its iterator over the parts of the row group are kept after each part. They are used for piece
        `number` if the part that this process decoded last is piece `number` − 1 of the same row group. Otherwise the
        file is opened anew, and the earlier parts of the row group are decoded once more and dropped.
        """
        import pyarrow as pa

        piece = self._pieces[number]
        # A forked child shares the open file, and would move the parent's position in it.
        place = os.getpid(), number
        if self._under_way is None or self._under_way[0] != place or piece.skip == 0:
            self._under_way = None
            file = _file(self._paths[piece.file])
            batches = file.iter_batches(
                self._pieces[number].rows if piece.skip == 0 else self._first_part(number).rows,
                row_groups=list(piece.groups),
                columns=list(self._columns),
                use_threads=False,
            )
            for _ in range(number - self._first_number(number)):
                next(batches)
        else:
            _, file, batches = self._under_way
        table = pa.Table.from_batches([next(batches)])
        after = os.getpid(), number + 1
        self._under_way = (after, file, batches) if self._row_group_continues(number) else None
        return table

    def _first_number(self, number: int) -> int:
        while self._pieces[number].skip:
            number -= 1
        return number

    def _first_part(self, number: int) -> _Piece:
        return self._pieces[self._first_number(number)]


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
        keyed = next((one for one in inside if any("=" in part for part in one.parts[:-1])), None)
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


def columns_of(path: str) -> list[tuple[str, Any]]:
    """Return the columns of a file and their types."""
    return [(field.name, field.type) for field in _described(path)[1]]


def _file(path: str) -> Any:
    import pyarrow.parquet as pq

    # pyarrow does not accept names that are not UTF-8, but open files.
    return pq.ParquetFile(open(path, "rb"), pre_buffer=False)  # noqa: PTH123  # closed with its batches


@contextmanager
def _opened(path: str) -> Iterator[Any]:
    import pyarrow.parquet as pq

    with open(path, "rb") as stream, pq.ParquetFile(stream) as file:  # noqa: PTH123
        yield file


def _described(path: str) -> tuple[Any, Any]:
    """Return the metadata and the schema of a file, from its end."""
    looked_at(path)
    try:
        with _opened(path) as file:
            return file.metadata, file.schema_arrow
    except (OSError, ValueError) as error:  # pyarrow's own derive from these
        if isinstance(error, PermissionError | FileNotFoundError):
            raise
        said = " ".join(str(error).split())[:200].rstrip(".")
        raise InvalidProblem(
            f"{printable(path)} is not a Parquet file, or it is damaged ({said}). Write it again."
        ) from error


def names_in_parquet(files: RowFiles) -> list[str]:
    """Return the names of the columns of the first file, without those of an index."""
    path = in_folders(files.paths)[0]
    with called(printable(path)):
        return columns_but_index(_described(path)[1])


def texts_in_parquet(files: RowFiles) -> list[str | None] | None:
    """Read the texts of a single chosen column; None for several columns or for one of numbers.

    Raises
    ------
    InvalidProblem
        There is no such column, or its texts do not fit into memory.
    NonFiniteData
        A text is missing.
    """
    paths = in_folders(files.paths)
    metadata, schemas = zip(*map(_described, paths), strict=True)
    columns = _chosen(files, schemas[0])
    if len(columns) > 1:
        return None
    kind = schemas[0].field(schemas[0].names.index(columns[0])).type
    if not files.as_text and not _is_text(kind):
        return None
    for path, schema in zip(paths[1:], schemas[1:], strict=True):
        _check_alike(path, schema, paths[0], schemas[0], columns, every=False)
    rows = sum(one.num_rows for one in metadata)
    check_memory(paths[0], 8 * rows, f"a column of {rows:,} texts")
    texts: list[str | None] = []
    for path in paths:
        with reading(printable(path), "it"), _opened(path) as file:
            texts += file.read(columns=list(columns)).column(0).to_pylist()
    if files.as_text:
        return ["" if value is None else str(value) for value in texts]
    gap = next((i for i, text in enumerate(texts) if text is None), None)
    if gap is not None and files.missing != "nan":
        raise NonFiniteData(
            f"{printable(paths[0])}: a value is missing at row {gap}, column {shown(columns[0])}. "
            f"{without_gaps(columns[0])}"
        )
    return texts


def _is_text(kind: Any) -> bool:
    import pyarrow as pa

    value = kind.value_type if pa.types.is_dictionary(kind) else kind
    return bool(pa.types.is_string(value) or pa.types.is_large_string(value))


def _chosen(files: RowFiles, schema: Any) -> tuple[str, ...]:
    """Return the requested columns, after a check that each exists once."""
    where, names = printable(files.paths[0]), list(schema.names)
    wanted: Sequence[str] = ()
    if files.columns is not None and all(isinstance(one, str) for one in files.columns):
        wanted = [names[j] for j in files.places(names, len(names), where) or ()]
    else:  # those of an index are not counted
        with called(where):
            every = columns_but_index(schema)
        places = files.places(every, len(every), where)
        wanted = every if places is None else [every[j] for j in places]
    if not wanted:
        raise InvalidProblem(f"{where} has no columns. Pass a file with columns of numbers.")
    twice = next((name for name in wanted if schema.names.count(name) > 1), None)
    if twice is not None:
        raise InvalidProblem(
            f"{where}: the column {twice!r} occurs {schema.names.count(twice)} times. Rename them."
        )
    return tuple(wanted)


def _check_alike(
    path: str, schema: Any, first_path: str, first: Any, columns: Sequence[str], *, every: bool
) -> None:
    """Refuse a file whose columns are not those of the first file."""
    absent = [name for name in columns if name not in schema.names]
    with called(printable(path)):
        every_name = columns_but_index(schema) if every else []
    other = [name for name in every_name if name not in first.names]
    if absent or other:
        what = (
            f"lacks the column {absent[0]!r}"
            if absent
            else f"has the column {other[0]!r}, which the first has not"
        )
        raise InvalidProblem(
            f"{printable(path)} must have the columns of {printable(first_path)}; it {what}. Leave the file "
            f"out, or name "
            "columns that all files have."
        )
    for name in columns:
        types = [one.field(one.names.index(name)).type for one in (schema, first)]
        if schema.names.count(name) > 1 or types[0] != types[1]:
            raise InvalidProblem(
                f"{printable(path)} must have the columns of {printable(first_path)}; its column {name!r} holds "
                f"{types[0]}, and there {types[1]}. Write it with that type."
            )


def _dtype(kind: Any, name: str, files: RowFiles) -> np.dtype[Any]:
    """Return the dtype of the numbers of a column; refuse other types."""
    import pyarrow as pa

    if pa.types.is_null(kind) and files.missing == "nan":
        return np.dtype(np.float32)
    if pa.types.is_boolean(kind):
        return np.dtype(bool)
    if pa.types.is_integer(kind) or pa.types.is_floating(kind):
        found: np.dtype[Any] = np.dtype(kind.to_pandas_dtype())
        return found
    if pa.types.is_decimal(kind):
        return np.dtype(np.float64)
    where, held = printable(files.paths[0]), "text" if _is_text(kind) else kind
    raise UnsupportedData(
        f"{where}: numbers are needed; the column {shown(name)} holds {held}. {without_column(name)}"
    )


def _numbers(column: Any, *, floats: bool) -> HostArray:
    """Return the numbers of a column, NaN for missing ones."""
    import pyarrow as pa

    floats = floats and not pa.types.is_floating(column.type)
    as_floats = floats or pa.types.is_decimal(column.type)
    found: HostArray = (column.cast(pa.float64()) if as_floats else column).to_numpy()
    return found


def _cut(file: int, metadata: Any, row_bytes: int) -> Iterator[_Piece]:
    """Yield the pieces of a file, which are decoded one at a time, each about as large as a slab (`SLAB_BYTES`).

    Neighbouring row groups make one piece while they fit into a slab together. A row group that is larger than two
    slabs is cut into parts of one slab each. Any other row group that exceeds a slab is a piece of its own.
    """
    most = max(1, SLAB_BYTES // max(row_bytes, 1))
    groups: list[int] = []
    rows = 0
    for group in range(metadata.num_row_groups):
        count = metadata.row_group(group).num_rows
        if groups and rows + count > most:
            yield _Piece(file, tuple(groups), 0, rows)
            groups, rows = [], 0
        if not 0 <= count <= MOST_SLABS * most:
            raise InvalidProblem(
                f"data cannot have a row group of {count:,} rows. They are damaged: write them again."
            )
        if count > 2 * most:
            for start in range(0, count, most):
                yield _Piece(file, (group,), start, min(most, count - start))
        elif count:
            groups, rows = [*groups, group], rows + count
    if rows:
        yield _Piece(file, tuple(groups), 0, rows)
