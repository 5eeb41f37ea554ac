"""Parquet files, stacked into one matrix.

Problem: a table in many files is one matrix only if every file has the same columns; rows come in row groups, some of
them too large to be held; and a value may be missing.
Method: the description at the end of every file is read when the matrix is made, before any row: a file with other
columns or types is refused by its name. Slabs are row groups, several small ones together or parts of a large one. An
error for a missing value names its row and column.
Memory: a large row group is decoded some rows at a time. Its columns go forward together, so pyarrow holds one page of
every column, and a small buffer in front of it; without buffers it would hold the whole row group. The description of a
file of many row groups and columns takes more memory than a slab, so it is read once and kept. Both are counted in
`decoding_bytes`; a file whose buffers leave too little memory is refused when it is opened.
Source: https://parquet.apache.org, with the header of a page in parquet.thrift; pyarrow reads it, each slab on one
thread.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np

from linspec import cost
from linspec.arrays import HOST, HostArray
from linspec.errors import InvalidProblem, NonFiniteData, UnsupportedData, called, printable, shown
from linspec.operators import RowFiles, columns_but_index, in_order, looked_at
from linspec.process import check_memory
from linspec_files.slabs import MOST_SLABS, SLAB_BYTES, SLABS_IN_MEMORY, RowSource, reading
from linspec_files.tables import without_column, without_gaps

__all__ = ["ParquetRows", "names_in_parquet", "texts_in_parquet"]

TOGETHER = 4 * SLAB_BYTES
"""Size of the rows and columns that are decoded together when a file is read into memory."""

PARTS = 2
"""Number of parts of a large row group that take a slab: smaller parts leave fewer gaps in the pool of pyarrow."""

BUFFERS = 4
"""The buffers in front of all columns of a row group take this part of a slab."""

PEEK = 2**14
"""Number of bytes in which pyarrow looks for the header of a page; it takes so large a buffer at least."""

MOST_BUFFER = 2**20
"""Size of the largest buffer in front of each column of a row group that is decoded in parts."""

COLUMN = 20 * 2**10
"""Bytes that a column takes beside its pages and its buffer while it is decoded in parts; measured."""

HEADER_BYTES = 64
"""Number of bytes read of a page, whose header begins with its sizes."""

DESCRIBING = 12
"""Memory of a description, divided by its length in the file; measured with 3 and 150 row groups of 1,024 columns."""

RETAINED = 1.5
"""Memory of a process for pages and tables, divided by their size: pyarrow's pool gives memory back with delay."""

SMALL = 8 * SLAB_BYTES
"""Size of buffers up to which no file is refused."""

MOST = 0.85
"""Largest share of the free memory that the buffers of a file may take; solvers need the rest."""


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
        self._under_way: tuple[tuple[int, int], Any, Iterator[Any]] | None = None
        self._description: tuple[tuple[int, Any], tuple[Any, Any]] | None = None
        looked_at(paths[0])
        first, schema = self._described(0)
        self._columns = _chosen(files, schema)
        types = [schema.field(schema.names.index(name)).type for name in self._columns]
        self.stored_dtype = np.result_type(
            *(_dtype(kind, name, files) for kind, name in zip(types, self._columns, strict=True))
        )
        self._gaps = files.missing == "nan"
        if self._gaps and self.stored_dtype.kind != "f":
            self.stored_dtype = np.result_type(self.stored_dtype, np.float32)
        self.column_names = self._columns
        row_bytes = self.stored_dtype.itemsize * len(self._columns)
        self._pieces: list[_Piece] = []
        self.decoding_bytes = 0
        for i, path in enumerate(paths):
            metadata, other = (first, schema) if i == 0 else _described(path)
            if i > 0:
                _check_alike(path, other, paths[0], schema, self._columns, every=files.columns is None)
            with called(self.name):
                pieces = list(_cut(i, metadata, row_bytes))
            self._pieces += pieces
            self._check_memory(path, metadata, pieces)
        edges = [0, *accumulate(piece.rows for piece in self._pieces)]
        self.edges = np.asarray(edges, dtype=np.intp)
        self.shape = (edges[-1], len(self._columns))
        if not edges[-1]:
            raise InvalidProblem(f"{self.name} must have rows; got none. Pass files with rows.")

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_under_way": None, "_description": None}

    def _check_memory(self, path: str, metadata: Any, pieces: Sequence[_Piece]) -> None:
        """Count what decoding takes beside the slabs, and refuse a file that leaves too little memory."""
        row_bytes = self.stored_dtype.itemsize * len(self._columns)
        slab = max((piece.rows for piece in pieces), default=0) * row_bytes
        description = DESCRIBING * metadata.serialized_size
        stored = self._stored_at_once(path, metadata, pieces)
        decoding = description + int(RETAINED * (stored + slab))
        self.decoding_bytes = max(self.decoding_bytes, decoding)
        needed = decoding + min(SLABS_IN_MEMORY, len(pieces)) * slab
        free = math.inf if needed <= SMALL else HOST.free_memory()
        if needed > MOST * free:
            rows = max(1, SLAB_BYTES // row_bytes)
            raise UnsupportedData(
                f"{printable(path)} has {metadata.num_row_groups:,} row groups: to read {len(self._columns):,} "
                f"columns takes {cost.human_bytes(needed)}, with {cost.human_bytes(description)} for its description "
                f"and {cost.human_bytes(RETAINED * stored)} for what is decoded at once; {cost.human_bytes(free)} are "
                f"free. Pass fewer columns, or write it again in row groups of {rows:,} to {8 * rows:,} rows."
            )

    def _stored_at_once(self, path: str, metadata: Any, pieces: Sequence[_Piece]) -> int:
        """Return the bytes that are held before they are decoded: pages of all columns, or a row group."""
        parted = {group for piece in pieces if piece.skip for group in piece.groups}
        groups = parted or {group for piece in pieces for group in piece.groups}
        if not groups:
            return 0
        largest = max(groups, key=lambda group: metadata.row_group(group).total_byte_size)
        chunks = list(_chunks(metadata, largest, self._columns))
        if parted:
            return _page_bytes(path, chunks, self._buffer)
        return sum(chunk.total_compressed_size for chunk in chunks)

    @property
    def _buffer(self) -> int:
        """The size of the buffer in front of each column of a row group that is decoded in parts."""
        return min(MOST_BUFFER, max(PEEK, SLAB_BYTES // BUFFERS // len(self._columns)))

    def _opened(self, file: int) -> AbstractContextManager[Any]:
        """Open a file with its description."""
        return _opened(self._paths[file], self._described(file)[0])

    def _described(self, file: int) -> tuple[Any, Any]:
        """Return metadata and schema; they are read again after another file, and where the file has changed."""
        key, kept = (file, self._stamp(file)), self._description
        if kept is None or kept[0] != key:
            kept = self._description = None  # frees its memory before the next one is read
            kept = self._description = key, _described(self._paths[file])
        return kept[1]

    def _stamp(self, file: int) -> Any:
        found = os.stat(self._paths[file])  # noqa: PTH116  # a text stays one
        return found.st_size, found.st_mtime_ns

    def stamp(self, rows: slice) -> Any:
        """Return size and time of the file."""
        return self._stamp(self._piece(rows).file)

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
        out = np.empty((table.num_rows, len(self._columns)), self.stored_dtype, order="F")
        self._fill(out, table, rows.start, range(len(self._columns)))
        return out

    def whole(self) -> HostArray | None:
        """Decode the rows of a single file on all cores; None for several files."""
        if len(self._paths) > 1:
            return None
        out = np.empty(self.shape, self.stored_dtype, order="F")
        with self._opened(0) as file:
            for groups, first, rows, columns in self._tiles(file.metadata):
                names = [self._columns[j] for j in columns]
                table = file.read_row_groups(groups, columns=names)
                self._fill(out[first : first + rows], table, first, columns)
        return out

    def _tiles(self, metadata: Any) -> Iterator[tuple[list[int], int, int, range]]:
        """Yield row groups, their first row and number of rows, and columns that are decoded together."""
        p, first, groups, rows = len(self._columns), 0, [], 0
        most = max(1, TOGETHER // (self.stored_dtype.itemsize * p))
        for group in range(metadata.num_row_groups):
            groups.append(group)
            rows += metadata.row_group(group).num_rows
            if rows < most and group + 1 < metadata.num_row_groups:
                continue
            width = max(1, TOGETHER // max(self.stored_dtype.itemsize * rows, 1))
            for column in range(0, p, width):
                yield groups, first, rows, range(column, min(column + width, p))
            first, groups, rows = first + rows, [], 0

    def _fill(self, out: HostArray, table: Any, first: int, columns: range) -> None:
        """Write columns of a table to an array; `first` is its first row, for messages."""
        places = {name: i for i, name in enumerate(table.schema.names)}
        for j in columns:
            name = self._columns[j]
            column = table.column(places[name])
            if column.null_count and not self._gaps:
                row = next(i for i, value in enumerate(column) if not value.is_valid)
                raise NonFiniteData(
                    f"{self.name} must be finite; a value is missing at row {first + row}, column {name!r}. "
                    f"{without_gaps(name)}"
                )
            out[:, j] = _numbers(column, floats=bool(column.null_count))

    def _row_group_continues(self, number: int) -> bool:
        """Whether piece `number` + 1 holds further rows of the row group to which piece `number` belongs."""
        return number + 1 < len(self._pieces) and self._pieces[number + 1].skip > 0

    def _groups(self, piece: _Piece) -> Any:
        """Decode whole row groups."""
        with self._opened(piece.file) as file:
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
            file = _file(self._paths[piece.file], self._described(piece.file)[0], self._buffer)
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


def _file(path: str, metadata: Any = None, buffer: int = 0) -> Any:
    """Open a file that is closed with its batches."""
    import pyarrow.parquet as pq

    return pq.ParquetFile(_stream(path), metadata=metadata, buffer_size=buffer, pre_buffer=False)


@contextmanager
def _opened(path: str, metadata: Any = None) -> Iterator[Any]:
    """Open a file within a `with` block."""
    import pyarrow.parquet as pq

    with _stream(path) as stream, pq.ParquetFile(stream, metadata=metadata, pre_buffer=False) as file:
        yield file


def _stream(path: str) -> Any:
    """Open the bytes of a file by pyarrow, or by Python where its name is no UTF-8."""
    import pyarrow as pa

    try:
        path.encode()
    except UnicodeEncodeError:
        return open(path, "rb")  # noqa: PTH123  # closed with what reads it
    return pa.OSFile(path)


def _chunks(metadata: Any, group: int, columns: Sequence[str]) -> Iterator[Any]:
    """Yield the descriptions of the chosen columns of a row group."""
    described, chosen = metadata.row_group(group), set(columns)
    for j in range(described.num_columns):
        chunk = described.column(j)
        if chunk.path_in_schema in chosen:
            yield chunk


def _page_bytes(path: str, chunks: Sequence[Any], buffer: int) -> int:
    """Return the bytes that are held of columns while their pages are decoded one after the other.

    The pages of a column are alike, so the first one is taken, or the dictionary if that is larger: pages behind it may
    have its size. A column is counted whole if a header cannot be read.
    """
    total = 0
    with open(path, "rb") as stream:  # noqa: PTH123  # a text stays one
        for chunk in chunks:
            whole = chunk.total_uncompressed_size + 2 * chunk.total_compressed_size
            total += COLUMN + min(_pages(stream, chunk, buffer) or whole, whole)
    return total


def _pages(stream: Any, chunk: Any, buffer: int) -> int:
    """Return the bytes of the dictionary of a column, of one page, and of the buffer; 0 if they are not known."""
    found = []
    for place in (chunk.dictionary_page_offset or chunk.data_page_offset, chunk.data_page_offset):
        stream.seek(place)
        found.append(_sizes_of_page(stream.read(HEADER_BYTES)))
    (dictionary, of_dictionary), (page, stored) = found
    if not page:
        return 0
    if stored <= PEEK:
        buffer = max(buffer, chunk.total_compressed_size)  # pyarrow then keeps what it has read
    largest, of_largest = max(page, dictionary), max(stored, of_dictionary)
    kept = dictionary if chunk.has_dictionary_page else 0
    compressed = (
        0 if of_largest == largest else of_largest
    )  # stored pages that are not compressed are not copied
    return kept + largest + compressed + buffer


def _sizes_of_page(header: bytes) -> tuple[int, int]:
    """Return the decoded and the stored size of a page from its header; zeros if it has none.

    The header is in the compact protocol of Thrift. Its first three fields are numbers of 32 bits: the type of the page
    and both sizes.
    """
    numbers: list[int] = []
    place = 0
    while len(numbers) < 3:
        if header[place : place + 1] != b"\x15":  # the next field, of 32 bits
            return 0, 0
        number, shift, place = 0, 0, place + 1
        while place < len(header):
            byte = header[place]
            number |= (byte & 0x7F) << shift
            shift, place = shift + 7, place + 1
            if byte < 0x80:
                break
        numbers.append((number >> 1) ^ -(number & 1))
    return max(numbers[1], 0), max(numbers[2], 0)


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
    slabs is cut into `PARTS` parts for each slab. Any other row group that exceeds a slab is a piece of its own.
    """
    most = max(1, SLAB_BYTES // max(row_bytes, 1))
    part = max(1, most // PARTS)
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
            for start in range(0, count, part):
                yield _Piece(file, (group,), start, min(part, count - start))
        elif count:
            groups, rows = [*groups, group], rows + count
    if rows:
        yield _Piece(file, tuple(groups), 0, rows)
