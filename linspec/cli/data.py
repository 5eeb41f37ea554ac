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
import shlex
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

import click

from linspec.cli.output import Failure, echo, in_one_line
from linspec.errors import shown
from linspec.process import machine
from linspec.process.paths import is_there
from linspec.process.plurals import count_of

HEADER = "linspec.header"
"""The key of ``--header`` in the context of click."""

REST, RANGE = "~", ".."

SHARE, BLOCK = 0.25, 1 << 22
"""Largest share of the available memory that rows of a file may take if they are held in memory, and the number of
entries that are searched for gaps together."""

# ---- files and columns --------------------------------------------------------------------------


def divided(text: str) -> tuple[str, str]:
    """Split a text into the file, or the pattern of files, and the columns or the part behind it."""
    from linspec.operators.row_files import is_pattern

    parts = text.split(":")
    fronts = (":".join(parts[:i]) for i in range(len(parts), 0, -1))
    path = next((front for front in fronts if is_there(front)), None)
    if path is None and is_pattern(parts[0]):
        path = parts[0]
    if path is None:
        name = parts[0] if Path(parts[0]).suffix else text
        raise Failure(f"{name}: no such file{' behind the link' if Path(name).is_symlink() else ''}.")
    return path, text[len(path) + 1 :]


def names_in(path: str) -> list[str]:
    """Return the names of all columns of a file; none if it has no names."""
    from linspec.operators import names_of_columns

    names = names_of_columns(_files(path)) or ()
    return list(names) if names and isinstance(names[0], str) else []


def places(names: Sequence[str], rest: str, path: str) -> list[int]:
    """Return the places of the columns that a text behind a file picks: all columns, if it is empty."""
    from linspec.operators import RowFiles, labels_in_front

    def of(column: str | int) -> int:
        (place,) = RowFiles((path,), columns=(column,)).places(names, len(names), path) or [0]
        return place

    chosen: list[int] = []
    for part in _parts(rest.removeprefix(REST), path):
        first, dots, last = part.partition(RANGE)
        if part in names or not dots:
            chosen.append(of(part if part in names else part.strip()))  # blanks may belong to the name
        elif of(last.strip()) < of(first.strip()):
            raise Failure(f"{path}: the range {shown(part)} ends before it begins. Name its columns in order.")
        else:
            chosen += range(of(first.strip()), of(last.strip()) + 1)
    if rest.startswith(REST):
        chosen = [place for place in range(labels_in_front(names), len(names)) if place not in chosen]
    if rest and len(set(chosen)) < max(len(chosen), 1):
        raise Failure(f"{path}: {shown(rest)} picks a column twice, or none. Name each column once.")
    return chosen if rest else list(range(len(names)))


def _parts(text: str, path: str) -> list[str]:
    """Split a text into the names and ranges between its commas; in quotes a name may hold commas."""
    try:
        return next(csv.reader([text], skipinitialspace=True, strict=True)) if text else []
    except (csv.Error, StopIteration) as error:
        raise Failure(
            f"{path}: {shown(text)} are no names of columns ({error}). Put commas between names, and quotes around a "
            "name that holds commas, quotes or ends of lines."
        ) from error


def in_quotes(names: Sequence[str]) -> str:
    """Return names as a text that picks them, whatever characters they hold."""
    buffer = io.StringIO()
    csv.writer(buffer, quoting=csv.QUOTE_ALL, lineterminator="").writerow(names)
    return buffer.getvalue()


def with_columns(text: str, option: str | None) -> str:
    """Return the text of a file with the columns that an option names behind it."""
    if option and divided(text)[1]:
        raise Failure(f"the columns of {shown(text)} are named by an option and behind the file. Name them once.")
    return f"{text}:{option}" if option else text


def two_of_one_file(text: str, first: str | None, second: str) -> tuple[str, str]:
    """Return the texts of two matrices in one file: by default the first has all columns that the second has not."""
    path, behind = divided(text)
    if first and behind:
        raise Failure(f"the columns of {shown(text)} are named by an option and behind the file. Name them once.")
    picked = first or behind
    if second.startswith(REST):
        others = second.removeprefix(REST)
    else:
        others = f"{picked},{second}" if picked.startswith(REST) else f"{REST}{second}"
    return f"{path}:{picked if picked and not picked.startswith(REST) else others}", f"{path}:{second}"


# ---- rows ---------------------------------------------------------------------------------------


def read(text: str, *, texts: bool = False, gaps: bool = False) -> Any:
    """Read a matrix: an operator, a vector of a .npy file, or with `texts` perhaps an array of texts.

    With `gaps`, missing values are NaN, and missing texts None.
    """
    import numpy as np

    from linspec.operators import as_operator, mapped, texts_of_column
    from linspec.operators.npy_files import is_npy

    path, rest = divided(text)
    files = replace(_files(path), missing="nan" if gaps else "warn")
    names = names_in(path) if rest else []
    picked = {"columns": tuple(places(names, rest, path))} if names else {"part": rest}
    files = replace(files, **picked)
    column = texts_of_column(files) if texts else None
    if column is not None:
        return np.array(column, dtype=object if gaps else None)
    if is_npy(path) and not rest:
        array = mapped(path)
        if array.ndim == 1 and array.dtype.kind in "biuf":
            return array
    rows = as_operator(files, "the data")
    if 0 in rows.shape:
        raise Failure(f"{path} must hold a matrix with rows and columns; got shape {rows.shape}.")
    return rows.in_memory(SHARE * machine.available_memory())


def _files(path: str) -> Any:
    from linspec.operators.row_files import row_files

    header = click.get_current_context().meta.get(HEADER)
    return row_files(path, header="auto" if header is None else header)


def as_array(rows: Any) -> Any:
    """Return weights, groups or labels as an array; a single column becomes a vector."""
    array = rows.dense() if hasattr(rows, "dense") else rows
    return array.reshape(-1) if array.ndim > 1 and array.shape[1] == 1 else array


def described(rows: Any) -> str:
    """Return shape, dtype and kind of a matrix in words."""
    if rows.dtype.kind in "OU":
        return f"{len(rows)} texts"
    shape = " x ".join(map(str, rows.shape))
    if getattr(rows, "streamed", False) or getattr(rows, "rows_together", 1) > 1:
        return f"{shape}, {rows.dtype}, read in slices"
    count = getattr(getattr(rows, "stored_array", None), "nnz", None)
    return f"{shape}, {rows.dtype}" if count is None else f"{shape}, sparse, {count} entries"


def read_all(
    texts: Mapping[str, str], labels: Collection[str] = (), *, drop: bool = False, ids: str | None = None
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

    Returns
    -------
    dict, list of str
        The rows by name, and the ids.
    """
    from linspec.frames import RowNames, check_order

    rows_of_ids = _read_ids(texts.values(), ids) if ids is not None else []
    texts = {name: without_ids(text, ids) for name, text in texts.items()}
    rows = {name: read(text, texts=name in labels, gaps=drop) for name, text in texts.items()}
    names = {name: getattr(matrix, "row_names", None) for name, matrix in rows.items()}
    check_order({name: RowNames(index) for name, index in names.items() if index is not None})
    for (a, text), (b, other) in combinations(texts.items(), 2):
        _check_apart(a, text, b, other)
    return _complete(rows, rows_of_ids) if drop else (rows, rows_of_ids)


def _check_apart(a: str, text: str, b: str, other: str) -> None:
    """Refuse a column of one file that is picked for two matrices."""
    (path, picked), (path_of_other, picked_of_other) = divided(text), divided(other)
    if path != path_of_other or not (picked or picked_of_other) or not (names := names_in(path)):
        return
    shared = {*places(names, picked, path)} & {*places(names, picked_of_other, path)}
    if shared:
        name = names[min(shared)]
        raise Failure(
            f"{a} and {b} both have the column {shown(name)} of {path}, which would explain itself. Leave it out of "
            f"one of them: --columns {shlex.quote(REST + name)}."
        )


# ---- ids ----------------------------------------------------------------------------------------


def without_ids(text: str, column: str | None) -> str:
    """Return the text of a file without the column of ids, unless the user picks columns by name."""
    path, rest = divided(text)
    if column is None or (rest and not rest.startswith(REST)) or column not in names_in(path):
        return text
    return f"{path}:{rest or REST}{',' * bool(rest)}{in_quotes([column])}"


def _read_ids(texts: Collection[str], column: str) -> list[str]:
    """Read the ids of the first file, and check that those of all other files are the same."""
    from linspec.operators import texts_of_column

    ids: dict[str, list[Any]] = {}
    for path in dict.fromkeys(divided(text)[0] for text in texts):
        names = names_in(path)
        if column in names or not ids:
            if not names:
                raise Failure(f"{path} has no names of columns, so there is no column {column!r} in it.")
            files = replace(_files(path), columns=(_place(names, column, path),), as_text=True)
            ids[path] = list(texts_of_column(files) or ())
        else:
            first = next(iter(ids))
            text = f"{path} has no column {shown(column)}: its rows are paired with those of {first} by their places."
            echo(f"Warning: {in_one_line(text)}", err=True)
    (first, wanted), *others = ids.items()
    for path, listed in others:
        if listed != wanted:
            _refuse_ids(path, listed, first, wanted, column)
    return wanted


def _refuse_ids(path: str, ids: list[str], first: str, wanted: list[str], column: str) -> None:
    rows = [row for row, (one, other) in enumerate(zip(ids, wanted, strict=False)) if one != other]
    what = f"have {len(ids)} and {len(wanted)} rows"
    if rows:
        what = f"differ in row {rows[0]}, from 0: {shown(ids[rows[0]])} and {shown(wanted[rows[0]])}"
    raise Failure(
        f"{path} and {first} must have the same ids in the column {column!r}, as rows are paired by their places; they "
        f"{what}; sort both files alike."
    )


# ---- gaps ---------------------------------------------------------------------------------------


def _complete(rows: Mapping[str, Any], ids: list[str]) -> tuple[dict[str, Any], list[str]]:
    """Return the rows that lack no value in any matrix, and say on standard error how many are left out."""
    import numpy as np

    gaps = {name: _gaps(matrix) for name, matrix in rows.items()}
    counts = {name: len(missing) for name, (missing, _) in gaps.items()}
    if len(set(counts.values())) > 1:
        listed = ", ".join(f"{name} has {count}" for name, count in counts.items())
        raise Failure(f"--drop-missing needs files with equally many rows; {listed}.")
    lost = np.logical_or.reduce([missing for missing, _ in gaps.values()])
    where = ", ".join(f"{missing.sum()} in {name}" for name, (missing, _) in gaps.items() if missing.any())
    where = f" ({where})" if where else ""
    if lost.all():
        name = max(gaps, key=lambda name: gaps[name][1].max())
        names = getattr(rows[name], "column_names", None)
        worst = f", such as --columns {shlex.quote(REST + names[np.argmax(gaps[name][1])])}" if names else ""
        raise Failure(
            f"--drop-missing leaves no row: each of {len(lost)} lacks a value{where}. Leave columns with many gaps "
            f"out{worst}."
        )
    count = int(lost.sum())
    end = " and are left out" if count else ""
    echo(f"--drop-missing: {count} of {count_of(len(lost), 'row')} lack a value{where}{end}.", err=True)
    kept = np.flatnonzero(~lost)
    return {name: _chosen(matrix, kept) for name, matrix in rows.items()}, [ids[i] for i in kept if ids]


def _chosen(matrix: Any, kept: Any) -> Any:
    """Return some rows of a matrix, or of an array of texts that lack no value any more."""
    from linspec.operators.chosen_rows import chosen_rows

    if not hasattr(matrix, "matmat"):
        return matrix[kept].astype(str) if matrix.dtype.kind == "O" else matrix[kept]
    rows = matrix if len(kept) == matrix.shape[0] else chosen_rows(matrix, kept)
    rows.column_names = matrix.column_names
    return rows


def _gaps(matrix: Any) -> tuple[Any, Any]:
    """Return a mask of the rows that lack a value, and the number of missing values of each column."""
    import numpy as np

    if not hasattr(matrix, "matmat"):
        return np.array([value is None or value != value for value in matrix.tolist()]), np.zeros(1)
    masks, counts = [], np.zeros(matrix.shape[1], dtype=int)
    step = max(1, BLOCK // matrix.shape[1])
    for start in range(0, matrix.shape[0], step):
        missing = np.isnan(matrix.rows(slice(start, min(start + step, matrix.shape[0]))).dense())
        masks.append(missing.any(axis=1))
        counts += missing.sum(axis=0)
    return np.concatenate(masks), counts
