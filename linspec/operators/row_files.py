"""Files of rows in formats that adapters read: zarr, HDF5, AnnData, Parquet.

Problem: rows lie in one file or in many, and which library reads them is not linspec's concern.
Method: what is to be read is stated by an object, `RowFiles`: paths, columns, and the part of a file that holds the
matrix. The adapters of plugins are asked about it as about any other data, and the one that knows the suffix makes an
operator of it. Nothing is opened before.
"""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from linspec.errors import InvalidOption, InvalidProblem, printable, shown
from linspec.process.files import looked_at
from linspec.process.paths import is_there

MISSING = ("warn", "fill", "refuse")
"""What may become of parts of a file that are not there, and that its format reads as a fill value."""

WILD = "*?["
"""Characters that make a path a pattern."""


@dataclass(frozen=True)
class RowFiles:
    """Files whose rows, one file below the other, are one matrix.

    Attributes
    ----------
    paths : tuple of str
        In the order of the rows.
    columns : tuple of str or None
        The columns, by name and in this order; None for all.
    part : str
        The array within a file that holds several, such as ``"layers/counts"``; "" for the usual one.
    missing : {"warn", "fill", "refuse"}
        What becomes of chunks that are not there, which their formats read as a fill value.

    Examples
    --------
    >>> from linspec.operators import RowFiles
    >>> RowFiles(("day1.parquet", "day2.parquet"), columns=("age",)).suffix
    '.parquet'
    """

    paths: tuple[str, ...]
    columns: tuple[str, ...] | None = None
    part: str = ""
    missing: str = "warn"

    @property
    def suffix(self) -> str:
        """That of the first file, in lower case."""
        return Path(self.paths[0]).suffix.lower()

    @property
    def name(self) -> str:
        """What messages call them."""
        more = f" and {len(self.paths) - 1} more" if len(self.paths) > 1 else ""
        return f"{printable(self.paths[0])}{more}"


def row_files(
    path: Any, *, columns: Sequence[str] | None = None, part: str = "", missing: str = "warn"
) -> RowFiles:
    """State files, with patterns in paths filled in.

    Raises
    ------
    InvalidProblem
        There is no such file, or the files are of several formats.
    InvalidOption
        Another argument is not what it must be.
    """
    given = [path] if isinstance(path, str | os.PathLike) else path
    if not isinstance(given, list | tuple) or not all(isinstance(one, str | os.PathLike) for one in given):
        raise InvalidOption(f"path must be a path, a pattern or a list of paths; got {shown(path)}.")
    if missing not in MISSING:
        raise InvalidOption(f"missing must be one of {', '.join(MISSING)}; got {shown(missing)}.")
    if not isinstance(part, str):
        raise InvalidOption(f"part must be the name of an array in the file; got {shown(part)}.")
    names: Any = [columns] if isinstance(columns, str) else columns
    names = list(names) if isinstance(names, Iterable) else names
    if names is not None and not (
        isinstance(names, list) and names and all(isinstance(name, str) for name in names)
    ):
        raise InvalidOption(f"columns must be names of columns; got {shown(columns)}.")
    paths = tuple(one for text in given for one in _there(os.fspath(text)))
    suffixes = sorted({Path(one).suffix.lower() for one in paths})
    if len(suffixes) != 1:
        got = f"files of the formats {', '.join(suffixes)}" if suffixes else "an empty list"
        raise InvalidProblem(f"the files of one matrix must have one format; got {got}. Name them apart.")
    return RowFiles(paths, None if names is None else tuple(names), part, missing)


def _there(path: str) -> list[str]:
    """The files of a path or a pattern, in the order of their names."""
    if not is_pattern(path) or is_there(path):
        looked_at(path, folder=True)
        return [path]
    found = in_order(glob.glob(path, recursive=True))  # noqa: PTH207  # a text stays one
    if not found:
        raise InvalidProblem(f"{printable(path)} cannot be read: no file fits the pattern. Check the path.")
    return found


def in_order(paths: Iterable[str]) -> list[str]:
    """Paths by their names, with numbers in these by their value: `part.2` comes before `part.10`.

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
    """The columns of a file but those that are the index of a pandas frame, whose labels are not data.

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
        labels = {one for one in index if isinstance(one, str)}
    except Exception as error:  # whatever parsing some bytes may raise
        raise InvalidProblem(
            f"data must say in readable metadata of pandas which columns are an index ({type(error).__name__}). Write "
            "the file again."
        ) from error
    return [name for name in schema.names if name not in labels]


def is_pattern(path: str) -> bool:
    """Whether a path may stand for several files."""
    return any(mark in path for mark in WILD)
