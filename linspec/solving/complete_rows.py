"""Rows without missing values: those that lack one in any of some data leave all of them.

Problem: real data have gaps, and rows of several data are paired by their places, so a row that leaves one of them must
leave all.
Method: a product with a column of ones is not finite for each row with a gap. Only these few rows are looked at, so
that one pass over the data finds all gaps, whatever holds the rows. Infinity is no gap, and stays an error of solvers.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from linspec.arrays import HostArray, check_bare, is_array, to_host
from linspec.errors import InvalidProblem, MissingCapability, warn
from linspec.frames import (
    check_order,
    chosen_rows_of,
    is_frame,
    is_labelled,
    is_series,
    labels_of,
)
from linspec.operators import as_operator, open_rows
from linspec.operators.base import chosen_rows, named_rows
from linspec.operators.tables import is_flat_list
from linspec.process.plurals import count_of
from linspec.rows.reductions import entries_of, refuse_columns
from linspec.solving.problem import Problem
from linspec.targets import ClassTargets, present_entries


def drop_missing(*data: Any) -> Any:
    """Drop the rows that lack a value in any of some data from all of them, and warn of how many these are.

    Parameters
    ----------
    *data : data of n rows, or problems
        Everything whose rows belong together: the matrices of a problem, of any kind that `linspec.as_operator` takes
        and reads by rows; and vectors, such as targets, classes, weights, confounds, groups. Paths of files are opened.
        None stays None. A value is missing if it is NaN, None or what a library of frames writes for it. Of a problem
        it is the problem on the rows that are complete in all its matrices: ``linspec.solve(problem, missing="drop")``.

    Returns
    -------
    data, or tuple of data
        The same data on the rows that lack nothing. Arrays, frames, series and lists keep their type, and frames, a
        DataArray and an AnnData their labels; sparse matrices are in the format CSR. Of other data, such as files, it
        is an operator, and rows are left out as they are read.

    Warns
    -----
    UserWarning
        Rows are left out; the message says how many of how many.

    Raises
    ------
    InvalidProblem
        The data have other numbers of rows, the same labels in another order, or no row is complete.
    MissingCapability
        Rows come in slices, in blocks of other processes, or are known by products alone.

    Examples
    --------
    >>> import warnings
    >>> import numpy as np
    >>> import linspec as ls
    >>> X = np.array([[1.0, 2.0], [np.nan, 3.0], [4.0, 5.0], [6.0, 7.0]])
    >>> groups = ["a", "a", None, "b"]
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     X, groups = ls.drop_missing(X, groups)
    >>> print(caught[0].message)
    2 of 4 rows lack a value and are left out.
    >>> X.tolist(), groups
    ([[1.0, 2.0], [6.0, 7.0]], ['a', 'b'])
    """
    opened = [open_rows(x, missing="nan") if isinstance(x, str | os.PathLike) else x for x in data]
    named = {f"data[{i}]": x for i, x in enumerate(opened)}
    check_order(named)
    numbers, text = complete_rows(named)
    if numbers is not None:
        warn(text, UserWarning)
    chosen = [chosen_entries(x, numbers) for x in opened]
    return chosen[0] if len(data) == 1 else tuple(chosen)


def complete_rows(data: Mapping[str, Any]) -> tuple[HostArray | None, str]:
    """Return the numbers of the rows that lack nothing in any of some data, and how many are left out.

    The numbers are None if no row lacks anything.
    """
    gaps = {name: _gaps(x, name) for name, x in data.items() if x is not None}
    if len({*map(len, gaps.values())}) != 1:
        counts = ", ".join(f"{len(gone)} of {name}" for name, gone in gaps.items())
        raise InvalidProblem(
            f"rows are dropped together from data with equally many rows; got {counts or 'none'}."
        )
    gone = np.logical_or.reduce([*gaps.values()])
    text = f"{gone.sum()} of {count_of(len(gone), 'row')} lack a value and are left out."
    if gone.all():
        raise InvalidProblem(f"{text} Leave out columns with many gaps, or impute them.")
    return (np.flatnonzero(~gone) if gone.any() else None), text


def _gaps(data: Any, name: str) -> HostArray:
    """Return for each row whether a value is missing."""
    if isinstance(data, Problem):
        return np.logical_or.reduce([_gaps(A, key) for key, A in data.matrices.items()])
    check_bare(data, name)
    if is_frame(data) or is_series(data):
        data = labels_of(data, name)
    elif is_flat_list(data):
        data = np.array([*data, None], dtype=object)[:-1]
    if is_array(data) and data.ndim == 1:
        return ~present_entries(to_host(data))[0]
    A = as_operator(data, name)
    if isinstance(data, ClassTargets):
        raise InvalidProblem(
            f"{name} is scaled by how many rows each class has. Drop rows of the classes, and make targets of the rest."
        )
    if A.access != "rows" and not (A.access == "blocks" and hasattr(data, "chunks")):
        raise MissingCapability(
            f"rows of {name} cannot be left out by their numbers; got {type(data).__name__}. Leave them out where its "
            "slices or blocks are made, and pass several matrices as several arguments, drop_missing(*views)."
        )
    with np.errstate(all="ignore"):
        gone = ~np.isfinite(to_host(A.matmat(np.ones((A.shape[1], 1))))[:, 0])
    if gone.all():
        refuse_columns(A.in_blocks(name), name)
    suspects = chosen_rows(A, np.flatnonzero(gone)).in_blocks(name)
    parts = (part for block in suspects.blocks() for _, part in entries_of(block.about(None)))
    gone[gone] = [np.isnan(row).any() for part in parts for row in part]
    return gone


def chosen_entries(data: Any, numbers: HostArray | None) -> Any:
    """Return some rows of data, or entries of a vector; all of them if there are no numbers."""
    if data is None or numbers is None:
        return data
    if isinstance(data, Problem):
        return data.on_rows(numbers)
    if is_frame(data) or is_series(data):
        return chosen_rows_of(data, numbers)
    if isinstance(data, list | tuple):
        return [data[i] for i in numbers]
    if is_labelled(data) or hasattr(data, "dask") or (isinstance(data, np.ndarray) and data.ndim == 1):
        return data[numbers]
    if is_array(data) and data.ndim == 1:
        return chosen_entries(data[:, None], numbers)[:, 0]
    A = as_operator(data)
    rows = named_rows(A, numbers)
    return rows if A is data or rows.stored_array is None else rows.stored_array
