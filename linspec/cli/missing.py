"""`--drop-missing`: rows that lack a value in any of the files are left out of all of them.

Problem: real files have gaps, and a row that is dropped from only one file shifts its rows against those of the others.
Method: each file is searched for rows that lack a value: an empty field, NA and the like, a null, NaN. Rows that are
complete in all files are read, and the number of the others is reported.
"""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import click

from linspec.cli.columns import REST, NamedMatrix, divided, in_quotes, left_out, without_columns
from linspec.cli.data import SHARE, column_names_in, read_named
from linspec.cli.failures import Failure
from linspec.cli.ids import read_ids, without_ids
from linspec.cli.kinds import ROW_FILES
from linspec.errors import shown
from linspec.process import machine
from linspec.process.plurals import count_of

if TYPE_CHECKING:
    from linspec.arrays import HostArray

__all__ = ["check_labels", "drop_option", "read_complete", "read_inputs"]

BLOCK = 1 << 22
"""Number of entries of an array that are checked together."""

LONGEST = 1000
"""Largest number of characters of the columns in a remedy."""


def drop_option() -> click.Option:
    """Make the option ``--drop-missing``."""
    text = "Leave rows that lack a value in any of the files out of all of them, and say how many."
    return click.Option(["--drop-missing"], is_flag=True, help=text)


def read_complete(
    texts: Mapping[str, str],
    labels: Collection[str] = (),
    carried: Mapping[str, NamedMatrix] = MappingProxyType({}),
) -> tuple[dict[str, NamedMatrix], str]:
    """Read files without the rows that lack a value in any of them.

    Parameters
    ----------
    texts : mapping from str to str
        The arguments of `linspec.cli.data.read_named`, by the names of the matrices.
    labels : collection of str, default ()
        The matrices that may be a column of texts.
    carried : mapping from str to NamedMatrix, optional
        Columns of texts that lack no value, and lose the same rows.

    Returns
    -------
    dict, str
        The matrices, with those that are carried, and a sentence on the number of rows left out.

    Raises
    ------
    Failure
        The files have different numbers of rows, or no row is complete.
    """
    import numpy as np

    read = {name: read_named(text, texts=name in labels, gaps=True) for name, text in texts.items()}
    read |= carried
    looked = {name: _complete(matrix.values) for name, matrix in read.items()}
    counts = {name: len(complete) for name, complete in looked.items()}
    if len(set(counts.values())) > 1:
        listed = ", ".join(f"{name} has {count}" for name, count in counts.items())
        raise Failure(f"--drop-missing needs files with equally many rows; {listed}.")
    keep = np.logical_and.reduce(list(looked.values()))
    total, dropped = len(keep), int(len(keep) - keep.sum())
    where = ", ".join(
        f"{len(keep) - int(complete.sum())} in {name}"
        for name, complete in looked.items()
        if not complete.all()
    )
    if dropped == total > 0:
        raise Failure(
            f"--drop-missing leaves no row: each of {total} lacks a value ({where}). Leave columns with many gaps "
            f"out{_remedy(texts, read)}."
        )
    told = (
        f"--drop-missing: {dropped} of {count_of(total, 'row')} lack a value{f' ({where})' if where else ''}"
    )
    check_labels(read)
    kept = {name: replace(_taken(matrix, keep), labels=None) for name, matrix in read.items()}
    return kept, f"{told} and are left out." if dropped else f"{told}."


def read_inputs(
    files: Mapping[str, str],
    values: Mapping[str, Any],
    labels: Collection[str] = (),
    *,
    drop: bool = False,
    ids: str | None = None,
) -> tuple[dict[str, NamedMatrix], dict[str, NamedMatrix], str]:
    """Read the matrices of a problem, and its weights and confounds.

    Parameters
    ----------
    files : mapping from str to str
        The file of each matrix.
    values : mapping
        The parameters of the problem.
    labels : collection of str, default ()
        The matrices that may be a column of texts.
    drop : bool, default False
        Whether rows that lack a value are left out.
    ids : str, optional
        The column of ids, which is compared between the files and left out of the numbers.

    Returns
    -------
    dict, dict, str
        First, the matrices by name. Second, the weights and confounds, by the parameters "sample_weight" and
        "confounds". Third, a sentence with the number of dropped rows; "" if `drop` is False.
    """
    beside = {ROW_FILES[name]: values[name] for name in ROW_FILES if values.get(name) is not None}
    texts = {**files, **beside}
    if ids is not None:
        read_ids(texts.values(), ids)
        texts = {name: without_ids(text, ids) for name, text in texts.items()}
    if drop:
        found, told = read_complete(texts, labels)
    else:
        found, told = {name: read_named(text, texts=name in labels) for name, text in texts.items()}, ""
    rows = {name: found.pop(words) for name, words in ROW_FILES.items() if words in beside}
    check_labels({**found, **rows})
    _check_apart({name: texts[name] for name in files}, found)
    return found, rows, told


def check_labels(read: Mapping[str, NamedMatrix]) -> None:
    """Refuse files whose rows have the same labels in another order."""
    from linspec.frames import RowNames, check_order

    check_order({name: RowNames(m.labels) for name, m in read.items() if m.labels is not None})


def _check_apart(files: Mapping[str, str], read: Mapping[str, NamedMatrix]) -> None:
    """Refuse a column of one file that is picked for two matrices: it would explain itself."""
    for (a, text), (b, other) in combinations(files.items(), 2):
        (path, columns), (other_path, other_columns) = divided(text), divided(other)
        names, others = read[a].names, read[b].names
        if path != other_path or not (columns or other_columns) or names is None or others is None:
            continue
        there = set(others)
        if shared := [name for name in names if name in there]:
            raise Failure(
                f"{a} and {b} both have the column {shown(shared[0])} of {path}, which would explain itself. Leave it "
                f"out of one of them: {without_columns(shared[0])}."
            )


def _remedy(texts: Mapping[str, str], read: Mapping[str, NamedMatrix]) -> str:
    """Return the argument that leaves out the named column with the most gaps, after a colon; "" if there is none."""
    import numpy as np

    remedy, most = "", 0
    for name, text in texts.items():
        matrix = read[name]
        if matrix.names is None or matrix.is_text:
            continue
        gaps = sum(_gaps(part) for part in _parts(matrix.values) if part.dtype.kind == "f")
        if np.max(gaps) > most:
            most = int(np.max(gaps))
            remedy = _without(text, matrix.names, int(np.argmax(gaps)))
    return remedy


def _gaps(part: Any) -> Any:
    """Return the number of missing values in each column of some rows."""
    import numpy as np

    if hasattr(part, "tocsc"):
        columns = part.tocsc()
        places = np.repeat(np.arange(columns.shape[1]), np.diff(columns.indptr))
        return np.bincount(places[np.isnan(columns.data)], minlength=columns.shape[1])
    return np.isnan(part).reshape(len(part), -1).sum(axis=0)


def _without(text: str, names: Sequence[str], column: int) -> str:
    """Return the argument of a file without one of its columns, as typed in a shell, after a colon.

    It is added to the columns that the user leaves out. If the user picks columns, those that are left are picked. ""
    if columns of the file cannot be picked, or the text is too long for a message.
    """
    path, picked = divided(text)
    if column_names_in(path) is None:
        return ""
    left = in_quotes([other for j, other in enumerate(names) if j != column])
    if not picked or picked.startswith(REST):
        left = left_out(names[column], picked)
    return f": {shlex.quote(f'{path}:{left}')}" if 0 < len(left) <= LONGEST else ""


def _complete(values: Any) -> HostArray:
    """Return a mask of the rows of a matrix that lack no value."""
    import numpy as np

    complete = np.ones(values.shape[0], dtype=bool)
    start = 0
    for part in _parts(values):
        stop = start + part.shape[0]
        if part.dtype.kind == "O":
            complete[start:stop] = [text is not None for text in part]
        elif hasattr(part, "tocsr"):
            rows = part.tocsr()
            gaps = np.isnan(rows.data) if rows.dtype.kind == "f" else np.zeros(rows.nnz, dtype=bool)
            complete[start + np.repeat(np.arange(rows.shape[0]), np.diff(rows.indptr))[gaps]] = False
        elif part.dtype.kind == "f":  # integers lack no value
            complete[start:stop] = ~np.isnan(part).reshape(len(part), -1).any(axis=1)
        start = stop
    return complete


def _parts(values: Any) -> Iterator[Any]:
    """Yield the rows of a matrix in order, in parts of at most `BLOCK` entries, but of at least one row.

    A sparse matrix in memory is one part.
    """
    import numpy as np

    if hasattr(values, "tocsr"):
        yield values
        return
    width = int(np.prod(values.shape[1:], dtype=np.int64)) or 1
    step = max(1, BLOCK // width)
    for start in range(0, values.shape[0], step):
        chosen = slice(start, min(start + step, values.shape[0]))
        if not hasattr(values, "matmat"):
            yield values[chosen]
            continue
        rows = values.rows(chosen)
        yield rows.dense() if rows.stored_array is None else rows.stored_array


def _taken(matrix: NamedMatrix, keep: HostArray) -> NamedMatrix:
    """Return a matrix with the rows for which the mask `keep` is True; unchanged if all rows are kept.

    The kept rows are in memory. But if they come from a file, and as float64 would take more than `SHARE` of the
    available memory, the result is an operator that reads the file in slices at every pass and drops rows as it reads.
    """
    import numpy as np

    values = matrix.values
    if matrix.is_text:
        return replace(matrix, values=values[keep].astype(str))
    if keep.all():
        return matrix
    in_file = isinstance(values, np.memmap) or hasattr(values, "matmat")
    if not in_file:
        return replace(matrix, values=values.tocsr()[keep] if hasattr(values, "tocsr") else values[keep])
    from linspec.operators import as_operator

    def slices() -> Iterator[Any]:
        start = 0
        for part in _parts(values):
            some = part[keep[start : start + part.shape[0]]]
            start += part.shape[0]
            if some.shape[0]:
                yield some

    kept = int(keep.sum())
    if 8 * kept * int(np.prod(values.shape[1:])) > SHARE * machine.available_memory():
        return replace(matrix, values=as_operator(slices, rows=kept))
    found = list(slices())
    if hasattr(found[0], "tocsr"):
        import scipy.sparse

        return replace(matrix, values=scipy.sparse.vstack(found, format="csr"))
    return replace(matrix, values=np.concatenate(found))
