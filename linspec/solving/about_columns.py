"""What is said of columns: those that are constant, that confounds explain, or whose squares underflow.

Columns are listed by the names that the data have, or by numbers. A few functions on matrices and fields that solutions
are made with stand here, too.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from linspec.arrays import Array, to_host
from linspec.errors import InvalidProblem, shown
from linspec.process.plurals import count_of
from linspec.solving.fields import view_names
from linspec.status import Status

CENTRING = 10
"""A finding is reported if subtracting means from products may cause an error above this multiple of the
tolerance."""


def check_rows_count(problem: Any) -> None:
    """Refuse a problem with a matrix whose rows are all absent or of weight 0.

    Parameters
    ----------
    problem : Problem

    Raises
    ------
    InvalidProblem
        There is such a matrix.

    Examples
    --------
    >>> import numpy as np
    >>> import linspec as ls
    >>> from linspec.solving import check_rows_count
    >>> check_rows_count(ls.SVD(np.eye(2), k=1, sample_weight=[0.0, 1.0]))
    """
    for name in problem.matrices:
        weights = problem.weights_of(name)
        if weights is not None and not weights.any():
            raise InvalidProblem(
                f"{name} must have a row that counts; each of its rows is absent or has weight 0. Leave it out, or "
                "pass other weights."
            )


def in_field(problem: Any, field: str) -> tuple[str, ...]:
    """Return the names of the matrices that a field holds."""
    value = getattr(problem, field)
    return view_names(len(value)) if isinstance(value, tuple) else (field,)


def wide_enough(values: Array, dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return `dtype`, or float64 for values beyond its range: confounds may be in any unit beside float32 data."""
    sizes, limits = np.abs(to_host(values)), np.finfo(dtype)
    within = (sizes == 0) | ((sizes >= limits.tiny) & (sizes <= limits.max))
    return dtype if within.all() else np.dtype(np.float64)


def nearly_explained(problem: Any, name: str, columns: tuple[int, ...]) -> tuple[Status, str]:
    """Return the finding that confounds leave only rounding of some columns."""
    text = (
        f"The confounds explain {len(columns)} of the columns of {name} but for a share of 1e-8 or less of "
    )
    text += (
        f"their squares: {listed(problem, name, columns)}. What is left of them is rounding. Leave them out."
    )
    return Status.ILL_CONDITIONED, text


def about_constant(
    problem: Any, name: str, columns: tuple[int, ...], *, centred: bool, deficient: bool
) -> list[tuple[None, str]]:
    """Return a remark on the constant columns of a matrix, if it has no others or if ranks are deficient."""
    count = problem.matrices[name].shape[1]
    if not columns or not (deficient or len(columns) == count):
        return []
    of_all = f"{len(columns)} of the {count_of(count, 'column')} of {name}"
    what, verb = "constant" if centred else "zero", "is" if len(columns) == 1 else "are"
    return [(None, f"{of_all} {verb} {what}: {listed(problem, name, columns)}.")]


FEW = 5
"""The number of columns that a message lists."""


def listed(problem: Any, name: str, columns: tuple[int, ...]) -> str:
    """List the first columns of a matrix by name, or by number from 0 if they have no names."""
    names = problem.column_names.get(name)
    known = [shown(names[j]) if names else str(j) for j in columns[:FEW]]
    return ", ".join(known) + ", …" * (len(columns) > FEW)


def underflowing_columns(name: str, columns: tuple[int, ...]) -> tuple[Status, str]:
    """Return the finding that squares of entries underflow in some columns, although the solution depends on them.

    Parameters
    ----------
    name : str
        The name of the matrix.
    columns : tuple of int
        The numbers of these columns.
    """
    text = f"{len(columns)} of the columns of {name} (the first is column {columns[0]}) are so small that squares of "
    text += "their entries are no numbers: what they say may be missing. Multiply these columns."
    return Status.ILL_CONDITIONED, text
