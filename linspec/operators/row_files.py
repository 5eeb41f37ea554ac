"""Files of rows in formats that adapters read: delimited text, Matrix Market, svmlight, Parquet, zarr, HDF5 and others.

Problem: rows are in one file or in many, and linspec itself does not read their formats.
Method: the object `RowFiles` states what to read: paths, columns, and the part of a file that holds the matrix. The
object is offered to the adapters of plugins like any other data, and the adapter that knows the suffix makes an
operator of the files. Before that no file is opened. An adapter whose files are tables can also return the names of
all columns, and the texts of one column.
"""

from __future__ import annotations

import csv
import glob
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from linspec.errors import InvalidOption, InvalidProblem, printable, shown
from linspec.process.files import is_there, looked_at

MISSING = ("warn", "fill", "refuse", "nan")
"""Ways to treat missing chunks, which a format reads as a fill value, and missing values of a table."""

WILD = "*?["
"""Characters that make a path a pattern."""


UNNAMED = r"|Unnamed: \d+(\.\d+|_level_\d+)*"
"""The names of a column without a name, in text and as pandas writes it again."""

INDEX = r"__index_level_\d+__"
"""The name in Parquet of an index of pandas without a name."""


@dataclass(frozen=True)
class RowFiles:
    """Files whose rows, one file below the other, are one matrix.

    Attributes
    ----------
    paths : tuple of str
        In the order of the rows.
    columns : tuple of str or int, or None
        The columns in this order, by name or by place from 0; None for all.
    part : str
        The name of the array within a file that holds several, such as ``"layers/counts"``; "" for the default array.
    missing : {"warn", "fill", "refuse", "nan"}
        How to treat missing chunks of zarr or HDF5, which these formats read as a fill value. ``"warn"`` and ``"nan"``:
        the fill value, with a warning. ``"fill"``: the fill value, without a warning. ``"refuse"``: an error. With
        ``"nan"`` missing values of tables become NaN; with the other three they are an error.
    as_text : bool
        Whether `texts_of_column` returns a column as it stands in the file, numbers as well; a missing value is "".
    header : bool or "auto"
        Whether the first line of delimited text holds names of columns.
    base : {0, 1} or None
        The index of the first feature of svmlight; None for 0 if a 0 occurs in one of the files, else 1.

    Examples
    --------
    >>> from linspec.operators import RowFiles
    >>> RowFiles(("day1.parquet", "day2.parquet"), columns=("age",)).suffix
    '.parquet'
    """

    paths: tuple[str, ...]
    columns: tuple[str | int, ...] | None = None
    part: str = ""
    missing: str = "warn"
    as_text: bool = False
    header: bool | str = "auto"
    base: int | None = None

    @property
    def suffix(self) -> str:
        """The suffix of the first file, in lower case; the last two suffixes if the last is ``".gz"``."""
        return _suffix(self.paths[0])

    @property
    def name(self) -> str:
        """The name of the files in messages."""
        more = f" and {len(self.paths) - 1} more" if len(self.paths) > 1 else ""
        return f"{printable(self.paths[0])}{more}"

    def places(self, names: Sequence[str] | None, count: int, where: str = "") -> list[int] | None:
        """Places, from 0, of the requested columns in a file whose columns are `names`; None if all are requested.

        Parameters
        ----------
        names : sequence of str or None
            The names of all columns of the file; None if they have none.
        count : int
            The number of columns of the file.
        where : str, optional
            The name of the file in messages.

        Raises
        ------
        InvalidProblem
            A requested column does not exist or is requested twice, or its name belongs to several columns.

        Examples
        --------
        >>> from linspec.operators import RowFiles
        >>> RowFiles(("people.csv",), columns=("height", 0)).places(["age", "weight", "height"], 3)
        [2, 0]
        """
        if self.columns is None:
            return None
        places = [
            column if isinstance(column, int) else self._place(column, names) for column in self.columns
        ]
        for column, j in zip(self.columns, places, strict=True):
            if not 0 <= j < count or places.count(j) > 1:
                raise InvalidProblem(
                    f"{where or self.name}: no column is called {shown(column)}, or several are, or it is named "
                    f"several times. There are {count}: {shown(names or 'no names')}. Pick columns by place if need be."
                )
        return places

    @staticmethod
    def _place(name: str, names: Sequence[str] | None) -> int:
        """The place of the only column with this name; -1 if no column or several columns have it."""
        known = list(names or ())
        return known.index(name) if known.count(name) == 1 else -1


def row_files(
    path: Any,
    *,
    columns: Sequence[str | int] | None = None,
    part: str = "",
    missing: str = "warn",
    header: bool | str = "auto",
    base: int | None = None,
) -> RowFiles:
    """Make the `RowFiles` of paths, with patterns expanded.

    Raises
    ------
    InvalidProblem
        A file does not exist or cannot be read, the list of paths is empty, or the files are of several formats.
    InvalidOption
        An argument has the wrong type, `columns` is empty or has a negative place, or `missing`, `header` or `base` is
        not a known choice.
    """
    named: Any = [path] if isinstance(path, str | os.PathLike) else path
    names: Any = [columns] if isinstance(columns, str) else columns
    names = list(names) if isinstance(names, Iterable) else names
    are_paths = isinstance(named, list | tuple) and all(isinstance(text, str | os.PathLike) for text in named)
    are_columns = isinstance(names, list) and bool(names) and all(map(_is_column, names))
    for fits, what, got in (
        (are_paths, "path must be a path, a pattern or a list of paths", path),
        (missing in MISSING, f"missing must be one of {', '.join(MISSING)}", missing),
        (isinstance(header, bool) or header == "auto", "header must be True, False or 'auto'", header),
        (base is None or (type(base) is int and base in (0, 1)), "base must be 0, 1 or None", base),
        (isinstance(part, str), "part must be the name of an array in the file", part),
        (names is None or are_columns, "columns must be names of columns, or their places", columns),
    ):
        if not fits:
            raise InvalidOption(f"{what}; got {shown(got)}.")
    paths = tuple(file for text in named for file in _there(os.fspath(text)))
    suffixes = sorted(set(map(_suffix, paths)))
    if len(suffixes) != 1:
        got = f"files of the formats {', '.join(suffixes)}" if suffixes else "an empty list"
        raise InvalidProblem(f"the files of one matrix must have one format; got {got}. Name them apart.")
    return RowFiles(paths, None if names is None else tuple(names), part, missing, header=header, base=base)


def _is_column(column: Any) -> bool:
    """Whether an object is the name of a column (a string) or the place of a column (an integer from 0)."""
    return isinstance(column, str) or (
        isinstance(column, int) and not isinstance(column, bool) and column >= 0
    )


def _suffix(path: str) -> str:
    """Return the suffix of a file, in lower case; the last two suffixes if the last is ``".gz"``."""
    suffixes = [suffix.lower() for suffix in Path(path).suffixes[-2:]]
    return "".join(suffixes if suffixes[-1:] == [".gz"] else suffixes[-1:])


def _there(path: str) -> list[str]:
    """Return the existing files of a path or a pattern, in the order of their names."""
    if not is_pattern(path) or is_there(path):
        looked_at(path, folder=True)
        return [path]
    paths = in_order(glob.glob(path, recursive=True))  # noqa: PTH207  # a text stays one
    if not paths:
        raise InvalidProblem(f"{printable(path)} cannot be read: no file fits the pattern. Check the path.")
    return paths


def in_order(paths: Iterable[str]) -> list[str]:
    """Sort paths by name, with numbers in names compared by value: `part.2` comes before `part.10`.

    Parameters
    ----------
    paths : iterable of str

    Examples
    --------
    >>> from linspec.operators import in_order
    >>> in_order(["part.10", "part.2", "other"])
    ['other', 'part.2', 'part.10']
    """

    def key(path: str) -> tuple[list[Any], str]:
        pieces = re.split(r"([0-9]+)", path)  # texts and numbers in turn
        return [int(piece) if i % 2 else piece for i, piece in enumerate(pieces)], path

    return sorted(paths, key=key)


def columns_but_index(schema: Any) -> list[str]:
    """The names of the columns of a file, without the columns that hold the index of a pandas frame.

    Where the metadata of pandas are lost, its name of an index without a name tells, such as ``__index_level_0__``.

    Parameters
    ----------
    schema : pyarrow.Schema

    Returns
    -------
    list of str

    Raises
    ------
    InvalidProblem
        The metadata of pandas cannot be read.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> from linspec.operators import columns_but_index
    >>> schema = SimpleNamespace(names=["age", "id"], pandas_metadata={"index_columns": ["id"]})
    >>> columns_but_index(schema)
    ['age']
    """
    try:
        index = (schema.pandas_metadata or {}).get("index_columns") or []
        labels = {name for name in index if isinstance(name, str)}
    except Exception as error:  # whatever parsing some bytes may raise
        raise InvalidProblem(
            f"data must say in readable metadata of pandas which columns are an index ({type(error).__name__}). Write "
            "the file again."
        ) from error
    return [name for name in schema.names if name not in labels and not re.fullmatch(INDEX, name)]


def labels_in_front(names: Sequence[str]) -> int:
    """The number of columns in front that have no name: they hold labels of rows, not numbers.

    Parameters
    ----------
    names : sequence of str
        Those of all columns. ``Unnamed: 0`` is what pandas calls a column without a name.

    Examples
    --------
    >>> from linspec.operators import labels_in_front
    >>> labels_in_front(["", "age", "height"])
    1
    """
    return next((j for j, name in enumerate(names) if not re.fullmatch(UNNAMED, name)), 0)


def is_pattern(path: str) -> bool:
    """Whether a path may stand for several files."""
    return any(mark in path for mark in WILD)


def record_of(files: RowFiles) -> Any:
    """The registered record of the adapter that reads files of this suffix, or None."""
    from linspec.registry import operator_adapters

    return next((adapter for adapter in operator_adapters() if files.suffix in adapter.suffixes), None)


def formats() -> str:
    """The suffixes of all files that can be read, as text for messages."""
    from linspec.registry import operator_adapters

    suffixes = dict.fromkeys(suffix for adapter in operator_adapters() for suffix in adapter.suffixes)
    packed = any(suffix.endswith(".gz") for suffix in suffixes)
    listed = ", ".join(suffix for suffix in suffixes if not suffix.endswith(".gz"))
    return f"{listed}{'; .gz after the text formats' * packed}"


def names_of_columns(files: RowFiles) -> Sequence[str] | Sequence[int] | None:
    """The names of all columns of files that are a table, without reading the rows.

    Parameters
    ----------
    files : RowFiles

    Returns
    -------
    sequence of str, or of int, or None
        The numbers from 1 on if the columns of a table have no names; None for files that are no table.

    Raises
    ------
    LinspecError
        The files cannot be read.

    Examples
    --------
    >>> from pathlib import Path
    >>> from linspec.operators import RowFiles, names_of_columns
    >>> _ = Path("trees.csv").write_text(chr(10).join(["height,kind", "12,oak", "9,elm"]))
    >>> names_of_columns(RowFiles(("trees.csv",)))
    ('height', 'kind')
    """
    record = record_of(files)
    return None if record is None or record.column_names is None else record.column_names(files)


def texts_of_column(files: RowFiles) -> Sequence[str | None] | None:
    """The texts of a column of a table, such as class labels, if the column holds texts and not numbers.

    Parameters
    ----------
    files : RowFiles
        Files with one column, or whose attribute `columns` has one element.

    Returns
    -------
    sequence of n str, or None
        None if several columns are requested, if the column holds numbers, or if the files are no table. A column of
        delimited text holds numbers if its first value looks like a number. With ``missing="nan"`` a missing text is
        None. With ``as_text=True`` numbers are texts, too.

    Raises
    ------
    LinspecError
        The files cannot be read, or a text is missing.

    Examples
    --------
    >>> from pathlib import Path
    >>> from linspec.operators import RowFiles, texts_of_column
    >>> _ = Path("trees.csv").write_text(chr(10).join(["height,kind", "12,oak", "9,elm"]))
    >>> texts_of_column(RowFiles(("trees.csv",), columns=("kind",)))
    ['oak', 'elm']
    """
    record = record_of(files)
    return None if record is None or record.texts is None else record.texts(files)


@contextmanager
def long_fields(length: int) -> Iterator[None]:
    """Let the module csv read fields of up to `length` characters, within a with statement.

    Parameters
    ----------
    length : int
        Characters.

    Examples
    --------
    >>> import csv
    >>> from linspec.operators import long_fields
    >>> with long_fields(200_000):
    ...     (fields,) = csv.reader(["x" * 200_000])
    >>> len(fields[0])
    200000
    """
    longest = csv.field_size_limit()
    csv.field_size_limit(max(longest, length))
    try:
        yield
    finally:
        csv.field_size_limit(longest)
