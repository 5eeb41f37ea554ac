"""`--drop-missing`: rows that lack a value in any of the files are left out of all of them.

Problem: real files have gaps, and a row that is dropped from one file alone puts the rows of the others beside the
wrong ones.
Method: each file is looked through for the rows that lack a value: an empty field, NA and the like, a null, NaN. What
lacks none anywhere is read, and how many rows were left out is said.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from linspec.cli.columns import NamedMatrix
from linspec.cli.data import gaps_of_parquet, read_named
from linspec.cli.failures import Failure
from linspec.cli.kinds import ROW_FILES
from linspec.process import machine
from linspec.process.plurals import count_of

if TYPE_CHECKING:
    from linspec.arrays import HostArray

__all__ = ["drop_option", "read_complete", "read_inputs"]

SHARE = 0.25
"""Of the available memory: the rows that are kept of a larger file are read in slices, in every pass anew."""

BLOCK = 1 << 22
"""Entries of an array that are looked at together."""


def drop_option() -> click.Option:
    """Whether rows that lack a value are left out."""
    text = "Leave rows that lack a value in any of the files out of all of them, and say how many."
    return click.Option(["--drop-missing"], is_flag=True, help=text)


def read_complete(texts: Mapping[str, str]) -> tuple[dict[str, NamedMatrix], str]:
    """Read files without the rows that lack a value in any of them.

    Parameters
    ----------
    texts : mapping from str to str
        As `linspec.cli.data.read_named` takes them, by what they are called.

    Returns
    -------
    dict, str
        The matrices, and how many rows were left out, in words.

    Raises
    ------
    Failure
        The files have different numbers of rows, or no row is complete.
    """
    import numpy as np

    looked = {name: _looked_through(text) for name, text in texts.items()}
    counts = {name: len(complete) for name, (complete, _) in looked.items()}
    if len(set(counts.values())) > 1:
        listed = ", ".join(f"{name} has {count}" for name, count in counts.items())
        raise Failure(f"--drop-missing needs files with equally many rows; {listed}.")
    keep = np.logical_and.reduce([complete for complete, _ in looked.values()])
    total, dropped = len(keep), int(len(keep) - keep.sum())
    where = ", ".join(
        f"{len(keep) - int(complete.sum())} in {name}"
        for name, (complete, _) in looked.items()
        if not complete.all()
    )
    if dropped == total > 0:
        raise Failure(
            f"--drop-missing leaves no row: each of {total} lacks a value ({where}). Leave columns with many gaps out, "
            "as in --columns ~NAME."
        )
    told = (
        f"--drop-missing: {dropped} of {count_of(total, 'row')} lack a value{f' ({where})' if where else ''}"
    )
    return {
        name: read(keep) for name, (_, read) in looked.items()
    }, f"{told} and are left out." if dropped else f"{told}."


def read_inputs(
    files: Mapping[str, str], values: Mapping[str, Any], drop: bool
) -> tuple[dict[str, NamedMatrix], dict[str, NamedMatrix], str]:
    """Read the matrices of a problem; where rows are dropped, also its files with a row for each of theirs.

    Parameters
    ----------
    files : mapping from str to str
        The matrices.
    values : mapping
        The parameters of the problem.
    drop : bool
        Whether rows that lack a value are left out.

    Returns
    -------
    dict, dict, str
        The matrices; what else was read, as `Kind.construct` takes it; and what was dropped, in words.
    """
    if not drop:
        return {name: read_named(text) for name, text in files.items()}, {}, ""
    beside = {ROW_FILES[name]: values[name] for name in ROW_FILES if values.get(name) is not None}
    found, told = read_complete({**files, **beside})
    rows = {name: found.pop(words) for name, words in ROW_FILES.items() if words in beside}
    return found, rows, told


def _looked_through(text: str) -> tuple[HostArray, Callable[[HostArray], NamedMatrix]]:
    """Which rows of a file are complete, and what reads some of them."""
    found = gaps_of_parquet(text)
    if found is not None:
        return found
    matrix = read_named(text, gaps=True)
    return _complete(matrix), partial(_taken, matrix)


def _complete(matrix: NamedMatrix) -> HostArray:
    """Which rows of a matrix lack no value."""
    import numpy as np

    values = matrix.values
    if matrix.text or getattr(getattr(values, "dtype", None), "kind", "") in "US":
        return np.asarray(values != "")
    if hasattr(values, "nnz") and hasattr(values, "tocsr"):
        rows = values.tocsr()
        gaps = np.isnan(rows.data) if rows.dtype.kind == "f" else np.zeros(rows.nnz, dtype=bool)
        complete = np.ones(rows.shape[0], dtype=bool)
        complete[np.repeat(np.arange(rows.shape[0]), np.diff(rows.indptr))[gaps]] = False
        return complete
    complete = np.ones(values.shape[0], dtype=bool)
    start = 0
    for part in _parts(values):
        if part.dtype.kind == "f":  # integers lack no value
            complete[start : start + len(part)] = ~np.isnan(part).reshape(len(part), -1).any(axis=1)
        start += len(part)
    return complete


def _parts(values: Any) -> Iterator[HostArray]:
    """The rows of an array, or of an operator that reads slices, some at a time."""
    import numpy as np

    width = int(np.prod(values.shape[1:], dtype=np.int64)) or 1
    step = max(1, BLOCK // width)
    for start in range(0, values.shape[0], step):
        chosen = slice(start, min(start + step, values.shape[0]))
        yield values.rows(chosen).dense() if hasattr(values, "matmat") else values[chosen]


def _taken(matrix: NamedMatrix, keep: HostArray) -> NamedMatrix:
    """The rows that are kept."""
    import numpy as np

    values = matrix.values
    if keep.all():
        return matrix
    if hasattr(values, "nnz") and hasattr(values, "tocsr"):
        return replace(matrix, values=values.tocsr()[keep])
    large = isinstance(values, np.memmap) and values.nbytes > SHARE * machine.available_memory()
    if not (large or hasattr(values, "matmat")):
        return replace(matrix, values=values[keep])
    from linspec.operators import as_operator

    def slices() -> Iterator[Any]:
        start = 0
        for part in _parts(values):
            some = part[keep[start : start + len(part)]]
            start += len(part)
            if len(some):
                yield some

    return replace(matrix, values=as_operator(slices, rows=int(keep.sum())))
