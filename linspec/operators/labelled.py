"""Labels of rows and names of columns for data of every kind.

Problem: rows stand for people, words or days, and columns for words or measurements. Tables should show their names.
A pandas frame has an index and names of columns; frames of other libraries have a column of labels; arrays, sparse
matrices and files have neither.
Method: `labelled` makes an operator with `row_names` or `column_names`. A problem takes its labels from its first
matrix that has some, and tables show the labels of their rows. Answers keep the names of columns of each matrix.
"""

from __future__ import annotations

import copy
from typing import Any

from linspec.errors import InvalidProblem, shown
from linspec.frames import RowNames, check_order, column_names_of, is_frame, without_column
from linspec.operators import LinearOperator, as_operator

__all__ = ["labelled"]


def labelled(data: Any, rows: Any = None, *, columns: Any = None) -> LinearOperator:
    """Data with a label for each row, a name for each column, or both, which tables show.

    Parameters
    ----------
    data : data of shape (n, p)
        Any kind of data that `linspec.as_operator` takes.
    rows : str, or sequence of n labels, optional
        The name of a column of a frame, which is left out of the numbers; or the labels: a list, an array, or a
        series.
    columns : sequence of p str, optional
        The names of the columns, such as the words that a vectorizer counts. They replace those of a frame.

    Returns
    -------
    LinearOperator of shape (n, p)
        The data with `row_names` and `column_names`. Problems, `transform` and tables accept it like the data
        themselves. The labels of rows are not copied.

    Raises
    ------
    InvalidProblem
        The named column does not exist, the numbers of labels and rows, or of names and columns, differ, a name
        occurs twice, or the number of rows is not known yet.

    Examples
    --------
    >>> import numpy as np
    >>> import linspec as ls
    >>> A = ls.labelled(np.diag([3.0, 2.0]), rows=["ann", "bob"], columns=["height", "weight"])
    >>> solution = ls.solve(ls.SVD(A, k=1))
    >>> solution.scores_table(A)
    [{'row': 'ann', 'component1': 3.0}, {'row': 'bob', 'component1': 0.0}]
    >>> solution.weights_table()
    [{'column': 'height', 'component1': 1.0}, {'column': 'weight', 'component1': 0.0}]
    """
    if rows is None and columns is None:
        raise InvalidProblem("labelled needs rows, columns or both; got neither. Pass labels or names.")
    name = ""
    if isinstance(rows, str):
        known = (column_names_of(data) or ()) if is_frame(data) else ()
        if rows not in known:
            raise InvalidProblem(
                f"rows must be the name of a column of a frame, or a label for each row; got {shown(rows)} for "
                f"{type(data).__name__}. Pass the labels themselves."
            )
        name = rows
        data, rows = without_column(data, rows)
    operator = copy.copy(as_operator(data))  # an operator that was passed is not modified
    if rows is not None:
        operator.row_names = operator.row_index = _labels_of_rows(operator, rows, name)
    if columns is not None:
        operator.column_names = _names_of_columns(operator, columns)
    return operator


def _labels_of_rows(operator: LinearOperator, labels: Any, name: str) -> RowNames:
    """Check labels of rows, and return them with the name of the column that they come from."""
    check_order({"data": operator, "labels": labels})
    count = operator.shape[0]
    if not hasattr(labels, "__len__") or getattr(labels, "ndim", 1) != 1 or len(labels) != count:
        raise InvalidProblem(
            f"rows must be the name of a column of a frame, or a label for each of the {count} rows; got "
            f"{shown(labels)}. Pass a list; of rows that come slice by slice, pass their number rows= to "
            "linspec.as_operator, too."
        )
    return RowNames(labels, name)


def _names_of_columns(operator: LinearOperator, names: Any) -> tuple[str, ...]:
    """Check names of columns, and return them."""
    listed = hasattr(names, "__iter__") and not isinstance(names, str) and getattr(names, "ndim", 1) == 1
    found = tuple(map(str, names)) if listed else ()
    if len(found) != operator.shape[1] or len(set(found)) != len(found):
        raise InvalidProblem(
            f"columns must have a name for each of the {operator.shape[1]} columns, all different; got {shown(names)}. "
            "Pass a list."
        )
    return found
