"""Matrices from Parquet files, some columns of them by name.

Problem: a Parquet file is compressed, and holds texts and numbers side by side.
Method: pyarrow reads the columns that are asked for. What takes a large share of the memory, or lies in several
files, is not held: `linspec.open_rows` decodes some rows at a time, and every pass reads the files again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from linspec.cli.columns import DROPPED, NamedMatrix, chosen_columns, without_columns
from linspec.cli.failures import Failure, in_one_line, install_hint
from linspec.errors import called, shown
from linspec.process import machine
from linspec.process.files import looked_at
from linspec.process.room import check_memory

if TYPE_CHECKING:
    from linspec.arrays import HostArray

__all__ = ["complete_rows", "names_in_parquet", "read_parquet"]

SHARE = 0.25
"""Of the available memory: what takes more is read in slices."""


def read_parquet(path: Path, wanted: str = "", keep: HostArray | None = None) -> NamedMatrix:
    """Read columns of a Parquet file, or of several.

    Parameters
    ----------
    path : Path
        Of several files a pattern.
    wanted : str
        As `linspec.cli.columns.chosen_columns` takes them. The index of a pandas frame is no column.

    keep : numpy.ndarray of bool, optional
        The rows that are read.

    Returns
    -------
    NamedMatrix
        An array, an operator that reads slices, or the texts of a single column.

    Raises
    ------
    Failure
        pyarrow is not installed, the file is damaged, a column is missing or holds no numbers.
    """
    from linspec.operators.row_files import columns_but_index, row_files

    files = row_files(path)
    with _opened(Path(files.paths[0])) as file:
        with called(files.name):
            every = columns_but_index(file.schema_arrow)
        names = tuple(every[j] for j in chosen_columns(every, wanted, files.name))
        kinds = {name: file.schema_arrow.field(name).type for name in names}
        text = next((name for name in names if _is_text(kinds[name])), None)
        if text is not None and len(names) > 1:
            raise Failure(
                f"{path}: numbers are needed; the column {shown(text)} holds text. {without_columns(text)}"
            )
        if len(files.paths) > 1:
            return _in_slices(path, names, files.paths, keep)
        rows = file.metadata.num_rows
        if not rows:
            raise Failure(f"{path} has no rows.")
        size = 8 * rows * len(names)
        if text is not None:
            check_memory(path, size, f"a column of {rows:,} texts")
            return _texts(path, names, keep)
    if size > SHARE * machine.available_memory():
        return _in_slices(path, names, files.paths, keep)
    table = _table(path, names, keep)
    from linspec.frames import numbers_of

    return NamedMatrix(numbers_of(table, str(path)).values, names)


def complete_rows(path: Path, wanted: str = "") -> HostArray:
    """Which rows lack none of some columns; NaN is a missing value, too."""
    import numpy as np
    import pyarrow.compute as pc

    from linspec.operators.row_files import columns_but_index, row_files

    found = []
    files = row_files(path)
    for place in files.paths:
        with _opened(Path(place)) as file:
            every = columns_but_index(file.schema_arrow)
            names = [every[j] for j in chosen_columns(every, wanted, files.name)]
            for batch in file.iter_batches(columns=names):
                there = np.ones(batch.num_rows, dtype=bool)
                for column in batch.columns:
                    there &= ~np.asarray(pc.is_null(column, nan_is_null=True))
                found.append(there)
    return np.concatenate(found) if found else np.zeros(0, dtype=bool)


def names_in_parquet(path: Path) -> tuple[str, ...]:
    """The names of the columns but those of an index, of several files those of the first."""
    from linspec.operators.row_files import columns_but_index, row_files

    files = row_files(path)
    with _opened(Path(files.paths[0])) as file, called(files.name):
        return tuple(columns_but_index(file.schema_arrow))


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    """The file, of which only the end is read; what goes wrong while it is open is a Failure."""
    try:
        import pyarrow.parquet as pq
    except ImportError as error:
        raise install_hint(f"{path}: .parquet needs pyarrow", "parquet") from error
    looked_at(path)
    # pyarrow takes no names that are not UTF-8, but files.
    with _reading(path), path.open("rb") as stream, pq.ParquetFile(stream) as file:
        yield file


def _is_text(kind: Any) -> bool:
    import pyarrow as pa

    value = kind.value_type if pa.types.is_dictionary(kind) else kind
    return bool(pa.types.is_string(value) or pa.types.is_large_string(value))


def _texts(path: Path, names: tuple[str, ...], keep: HostArray | None = None) -> NamedMatrix:
    """The texts of a column, all there."""
    import numpy as np

    texts = _table(path, names, keep).column(0).to_pylist()
    gap = next((i for i, text in enumerate(texts) if text is None), None)
    if gap is not None:
        raise Failure(f"{path}: a value is missing at row {gap}, column {shown(names[0])}. {DROPPED}")
    first = f", such as {texts[0][:40]!r}" if texts else ""
    said = f"{path}: numbers are needed; the column {shown(names[0])} holds text{first}. {without_columns(names[0])}"
    return NamedMatrix(np.asarray(texts), names, said)


def _in_slices(
    path: Path, names: tuple[str, ...], paths: Sequence[str], keep: HostArray | None = None
) -> NamedMatrix:
    """An operator whose every pass reads the files."""
    from linspec.operators import as_operator, open_rows

    if keep is not None:
        some = keep

        def slices() -> Iterator[Any]:
            rows = 0
            for place in paths:
                with _opened(Path(place)) as file:
                    for batch in file.iter_batches(columns=list(names)):
                        kept = batch.select(list(names)).filter(_mask(some[rows : rows + batch.num_rows]))
                        rows += batch.num_rows
                        if kept.num_rows:
                            yield kept

        return NamedMatrix(as_operator(slices, rows=int(keep.sum())), names)
    return NamedMatrix(open_rows(path, columns=names), names)


def _table(path: Path, names: tuple[str, ...], keep: HostArray | None = None) -> Any:
    """The columns of all rows, or of some."""
    with _opened(path) as file:
        table = file.read(columns=list(names)).select(list(names))
        return table if keep is None else table.filter(_mask(keep))


def _mask(keep: HostArray) -> Any:
    import pyarrow as pa

    return pa.array(keep)


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    """Refuse, in a sentence, what is no Parquet file, or a damaged one."""
    import pyarrow as pa

    try:
        yield
    except (pa.ArrowException, OSError, EOFError) as error:
        if isinstance(error, PermissionError | FileNotFoundError | MemoryError):
            raise
        raise Failure(
            f"{path} is not a Parquet file, or it is damaged ({in_one_line(str(error))}). Write it again."
        ) from error
