"""Tables of bootstrap intervals: a row for each component, or a row for each column of a matrix.

Problem: intervals are arrays whose first axis holds lower and upper ends; users want them beside the estimates, with
the names of the columns.
Method: each table has the estimate, then columns of the same name with "lower" and "upper".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from linspec.arrays import HostArray
from linspec.errors import InvalidOption, shown
from linspec.solving.tables import table_of_columns, table_of_components

__all__ = ["OfColumns", "table_of_column_intervals", "table_of_value_intervals"]


class OfColumns(NamedTuple):
    """Numbers of the columns of one matrix, such as weights, with their intervals.

    Attributes
    ----------
    estimates : numpy.ndarray of shape (p, k)
        The numbers of the solution for all rows.
    ends : numpy.ndarray of shape (2, p, k)
        Lower ends, then upper ends.
    errors : numpy.ndarray of shape (p, k) or None
        Standard errors, if they are known.
    """

    estimates: HostArray
    ends: HostArray
    errors: HostArray | None = None


def table_of_value_intervals(
    solution: Any,
    values: HostArray,
    ends: HostArray,
    *,
    bias: HostArray,
    errors: HostArray,
    agreement: HostArray,
    library: str | None,
) -> Any:
    """Make a table with a row for each component: value, lower and upper end, bias, standard error, agreement."""
    columns = {solution.layout.value_label: values, "lower": ends[0], "upper": ends[1]}
    columns |= {"bias": bias, "standard error": errors, "agreement": agreement}
    return table_of_components(solution, columns, library)


def table_of_column_intervals(
    solution: Any, matrix: str, known: Mapping[str, OfColumns], library: str | None
) -> Any:
    """Make a table with a row for each column of a matrix: for each vector the number, its interval and error.

    Parameters
    ----------
    solution : Solution
    matrix : str
        The name of the matrix; "" if there is only one.
    known : mapping of str to OfColumns
        The numbers by matrix.
    library : str or None
        As for `Solution.weights_table`.

    Raises
    ------
    InvalidOption
        There is no such matrix or library.
    """
    names = list(known)
    matrix = names[0] if not matrix and len(names) == 1 else matrix
    if matrix not in names:
        raise InvalidOption(f"matrix must be one of {', '.join(map(repr, names))}; got {shown(matrix)}.")
    estimates, ends, errors = known[matrix]
    parts = {"": estimates, " lower": ends[0], " upper": ends[1]}
    parts |= {} if errors is None else {" standard error": errors}
    vector = solution.layout.vector
    columns = {
        f"{vector}{i + 1}{part}": values[:, i]
        for i in range(estimates.shape[1])
        for part, values in parts.items()
    }
    return table_of_columns(solution, matrix, columns, library)
