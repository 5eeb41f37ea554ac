"""Matrices from files: ``FILE:COLUMNS`` picks columns by name, ``FILE:PART`` a part of a file.

Problem: a file of people has names, classes and numbers side by side, and a problem takes some of its columns as one
matrix and others as another; rows of several files are paired by their places; and real files have gaps.
Method: the file, or pattern of files, is the longest front of the text that exists. If files of its format have names
of columns, the rest picks some: ``a,b``, ranges ``first..last``, and ``~a,b`` for all others; else it is a part of the
file. ``--ids`` compares a column of ids between the files, and ``--drop-missing`` leaves rows that lack a value in any
of the files out of all. Formats are known only to the adapters behind `linspec.open_rows`.
"""

from __future__ import annotations

import csv
import io
import os
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate, zip_longest
from pathlib import Path
from typing import Any

import click
import numpy as np

from linspec.cli.output import Failure, Values, echo, in_one_line, refuse
from linspec.errors import shown
from linspec.frames import RowNames, check_order
from linspec.operators import (
    RowFiles,
    as_operator,
    labels_in_front,
    mapped,
    names_of_columns,
    texts_of_column,
)
from linspec.operators.numpy_files import is_npy
from linspec.operators.row_files import is_pattern, row_files
from linspec.process import machine
from linspec.process.files import is_there
from linspec.process.progress import report_progress
from linspec.solving.complete_rows import chosen_entries, complete_rows

HEADER, DROPPED = "linspec.header", "linspec.dropped"
"""The keys of ``--header``, and of the sentence on rows that lack a value, in the context of click."""

REST, RANGE = "~", ".."

SHARE = 0.25
"""Largest share of the available memory that rows of a file may take if they are held in memory."""

# ---- files and columns --------------------------------------------------------------------------


def divided(text: str) -> tuple[str, str]:
    """Split a text into the file, or the pattern of files, and the columns or the part behind it."""
    first, *longer = accumulate(text.split(":"), "{}:{}".format)
    for path in (*reversed(longer), first):
        if is_there(path) or (path == first and is_pattern(path)):
            return path, text[len(path) + 1 :]
    name = first if Path(first).suffix else text
    link = os.path.islink(name)  # noqa: PTH114  # Path.is_symlink raises where no name is so long
    raise Failure(f"{name}: {'a link that leads to no file' if link else 'no such file'}.")


def names_in(path: str) -> list[str]:
    """Return the names of all columns of a file; none if it has no names."""
    names = names_of_columns(_files(path)) or ()
    return [name for name in names if isinstance(name, str)]


def _files(path: str) -> Any:
    context = click.get_current_context(silent=True)
    header = context.meta.get(HEADER) if context else None
    return row_files(path, header="auto" if header is None else header)


def places(names: Sequence[str], rest: str, path: str) -> list[int]:
    """Return the places of the columns that a text behind a file picks."""
    known, counts = {name: asarray for asarray, name in enumerate(names)}, Counter(names)

    def asarray(name: str) -> int:
        name = name if name in known else name.strip()  # blanks may belong to the name
        if counts[name] != 1:  # it raises an error
            RowFiles((path,), columns=(name,)).places(names or None, len(names), path)
        return known[name]

    chosen: list[int] = []
    for part in _parts(rest.removeprefix(REST), path):
        ends = [asarray(name) for name in ([part] if part in known else part.split(RANGE, 1))]
        refuse(
            ends[-1] < ends[0],
            f"{path}: the range {shown(part)} ends before it begins. Name its columns in order.",
        )
        chosen += range(ends[0], ends[-1] + 1)
    if rest.startswith(REST):
        chosen = sorted({*range(labels_in_front(names), len(names))}.difference(chosen))
    refuse(
        not chosen or len(set(chosen)) < len(chosen),
        f"{path}: {shown(rest)} picks {'one column twice' if chosen else 'no column'}. Name each once.",
    )
    return chosen


def _parts(text: str, path: str) -> list[str]:
    """Split a text into the names and ranges between its commas; in quotes a name may hold commas."""
    try:
        return next(csv.reader([text], skipinitialspace=True))
    except (csv.Error, StopIteration) as error:
        raise Failure(
            f"{path}: {shown(text)} are no names of columns. Put commas between names, and quotes around a name that "
            "holds commas, quotes or ends of lines."
        ) from error


def in_quotes(names: Sequence[str]) -> str:
    """Return names as a text that picks them, whatever characters they hold."""
    buffer = io.StringIO()
    csv.writer(buffer, quoting=csv.QUOTE_ALL, lineterminator="").writerow(names)
    return buffer.getvalue()


def two_of_one_file(text: str, first: str | None, second: str) -> tuple[str, str]:
    """Return the texts of two matrices in one file: by default the first has all columns that the second has not."""
    path, behind = divided(with_columns(text, first))
    if second.startswith(REST):
        return f"{path}:{behind or second.removeprefix(REST)}", f"{path}:{second}"
    return f"{path}:{_but(behind, second)}", f"{path}:{second}"


def _but(rest: str, excluded: str) -> str:
    """Return the text of the columns of `rest` without the excluded ones, unless it names its columns."""
    names = rest and not rest.startswith(REST)
    return rest if names else f"{rest or REST}{',' * bool(rest)}{excluded}"


def with_columns(text: str, picked: str | None) -> str:
    """Return the text of a file with the columns that an option names behind it."""
    refuse(
        picked and divided(text)[1],
        f"the columns of {shown(text)} are named by an option and behind the file. Name them once.",
    )
    return f"{text}:{picked}" if picked else text


# ---- rows ---------------------------------------------------------------------------------------


def read(text: str, *, texts: bool = False, gaps: bool = False) -> Any:
    """Read a matrix: an operator, a vector of a .npy file, or with `texts` perhaps an array of texts.

    With `gaps`, missing values are NaN, and missing texts None.
    """
    path, rest = divided(text)
    files = replace(_files(path), missing="nan" if gaps else "warn")
    names = list(map(str, names_of_columns(files) or ())) if rest else []
    files = replace(files, columns=tuple(places(names, rest, path))) if names else replace(files, part=rest)
    column = texts_of_column(files) if texts else None
    if column is not None:
        return np.array(column, dtype=object if gaps else None)
    source = mapped(path) if is_npy(path) and not rest else files
    if getattr(source, "ndim", 2) == 1 and source.dtype.kind in "biuf":
        return source
    rows = as_operator(source, "the data")
    refuse(0 in rows.shape, f"{path} must hold a matrix with rows and columns; got shape {rows.shape}.")
    return rows.in_memory(SHARE * machine.available_memory())


def as_array(rows: Any) -> Any:
    """Return weights, groups or targets as an array; a single column becomes a vector."""
    array = rows.dense() if hasattr(rows, "matmat") else rows
    return array[:, 0] if array.ndim > 1 and array.shape[1] == 1 else array


def read_all(
    texts: Mapping[str, str],
    labels: Collection[str] = (),
    *,
    drop: bool = False,
    ids: str | None = None,
    span: str | None = None,
    problem: Any = None,
) -> tuple[dict[str, Any], list[str]]:
    """Read files whose rows belong together, and the ids of the rows, if a column of ids is named.

    Parameters
    ----------
    texts : mapping from str to str
        The files by name, each perhaps with columns behind it.
    labels : collection of str, default ()
        The names of those that may be a column of texts.
    drop : bool, default False
        Whether rows that lack a value in any file are left out of all.
    ids : str, optional
        The column of ids, which is none of the numbers.
    span : str, optional
        The first row and the one behind the last, ``0:900``; by default all rows are read.
    problem : type of Problem, optional
        The problem of which matrices are read, and which may take missing entries.

    Returns
    -------
    dict, list of str
        The rows by name, and the ids.
    """
    holed = [name for name, matrix in (problem.stated.matrices.items() if problem else ()) if matrix.gaps]
    rows_of_ids = _read_ids([divided(text)[0] for text in texts.values()], ids) if ids else []
    texts = {name: _without_ids(text, ids) for name, text in texts.items()} if ids else texts
    context = click.get_current_context(silent=True)
    wanted = context.params.get("progress") if context else None
    with report_progress("reading", wanted=wanted):
        rows = {
            name: read(text, texts=name in labels, gaps=drop or name in holed) for name, text in texts.items()
        }
    if span is not None:
        chosen = _range(span)
        rows = {name: matrix[chosen] for name, matrix in rows.items()}
        rows_of_ids = rows_of_ids[chosen]
        empty = [name for name, matrix in rows.items() if not matrix.shape[0]]
        refuse(empty, f"--rows {span} leaves no row of {', '.join(empty)}. The first row is 0.")
    names = {name: getattr(matrix, "row_names", None) for name, matrix in rows.items()}
    check_order({name: RowNames(index) for name, index in names.items() if index is not None})
    return _complete(rows, rows_of_ids) if drop else (rows, rows_of_ids)


def _range(text: str) -> slice:
    """Return the slice of rows that `--rows` names."""
    ends = re.fullmatch(r"(-?\d+)?:(-?\d+)?", text)
    if ends is None:
        raise Failure(f"--rows must be FIRST:END, such as 0:900 or 900:; got {shown(text)}.")
    return slice(*(None if number is None else int(number) for number in ends.groups()))


# ---- ids ----------------------------------------------------------------------------------------


def _without_ids(text: str, column: str) -> str:
    """Return the text of a file without the column of ids, unless the user picks columns by name."""
    path, rest = divided(text)
    return f"{path}:{_but(rest, in_quotes([column]))}" if column in names_in(path) else text


def _read_ids(paths: Iterable[str], column: str) -> list[Any]:
    """Read the ids of the first file, and check that those of all other files are the same."""
    first = ""
    wanted = list[Any]()
    for path in dict.fromkeys(paths):
        names = names_in(path)
        if first and column not in names:
            text = f"{path} has no column {shown(column)}: its rows are paired with those of {first} by their places."
            echo(f"Warning: {in_one_line(text)}", err=True)
            continue
        refuse(
            not names,
            f"{path}: its columns have no names, so --ids {shown(column)} names none of them. Put a line of names "
            "above the rows of delimited text, or leave --ids out.",
        )
        files = replace(_files(path), columns=tuple(places(names, in_quotes([column]), path)), as_text=True)
        ids = list(texts_of_column(files) or ())
        first, wanted = first or path, wanted or ids
        row = next((row for row, (a, b) in enumerate(zip_longest(ids, wanted)) if a != b), None)
        refuse(
            row is not None,
            f"{path} and {first} must have the same ids in the column {column!r}, as rows are paired by their places; "
            f"got {len(ids)} and {len(wanted)} rows that differ in row {row}, counted from 0. Sort both files alike.",
        )
    return wanted


# ---- gaps ---------------------------------------------------------------------------------------


def _complete(rows: Values, ids: list[str]) -> tuple[dict[str, Any], list[str]]:
    """Return the rows that lack no value in any matrix, and say on standard error how many are left out."""
    numbers, text = complete_rows(rows)
    text = f"--drop-missing: {text}"
    click.get_current_context().meta[DROPPED] = text
    echo(text, err=True)
    complete = {name: chosen_entries(matrix, numbers) for name, matrix in rows.items()}
    ids = ids if numbers is None else [ids[i] for i in numbers if ids]
    texts = {name: matrix.astype(str) for name, matrix in complete.items() if matrix.dtype.kind == "O"}
    return {**complete, **texts}, ids
