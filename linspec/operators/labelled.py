"""Labels of rows for data of every kind.

Problem: rows stand for people, words or days, which have names, and tables of scores should show these names. A
pandas frame has an index; frames of other libraries have a column of labels, and arrays, sparse matrices and files
have none.
Method: `labelled` makes an operator with `row_names`. A problem takes its labels from its first matrix that has some,
and tables of scores show the labels of their rows.
"""

from __future__ import annotations

import copy
import math
from typing import Any

from linspec.errors import InvalidProblem, shown
from linspec.frames import RowNames, check_order, column_names_of, is_frame, without_column
from linspec.operators import LinearOperator, as_operator
from linspec.registry.keywords import hinted

__all__ = ["labelled"]


@hinted
def labelled(data: Any, labels: Any) -> LinearOperator:
    """Data with a label for each row, for tables of scores.

    Parameters
    ----------
    data : data of shape (n, p)
        Any kind of data that `linspec.as_operator` takes.
    labels : str, or sequence of n labels
        The name of a column of a frame, which is left out of the numbers; or the labels: a list, an array, or a
        series.

    Returns
    -------
    LinearOperator of shape (n, p)
        The data with `row_names`. Problems, `transform` and `scores_table` accept it like the data themselves. The
        labels themselves are not copied.

    Raises
    ------
    InvalidProblem
        The named column does not exist, the numbers of labels and rows differ, or the number of rows is not known yet.

    Examples
    --------
    >>> import numpy as np
    >>> import linspec as ls
    >>> A = ls.labelled(np.diag([3.0, 2.0]), ["ann", "bob"])
    >>> ls.solve(ls.SVD(A, k=1)).scores_table(A)
    [{'row': 'ann', 'component1': 3.0}, {'row': 'bob', 'component1': 0.0}]
    """
    name = ""
    if isinstance(labels, str):
        known = (column_names_of(data) or ()) if is_frame(data) else ()
        if labels not in known:
            raise InvalidProblem(
                f"labels must be the name of a column of a frame, or a label for each row; got {shown(labels)} for "
                f"{type(data).__name__}. Pass the labels themselves."
            )
        name = labels
        data, labels = without_column(data, labels)
    elif not hasattr(labels, "__len__") or getattr(labels, "ndim", 1) != 1:
        raise InvalidProblem(
            f"labels must be the name of a column of a frame, or a label for each row; got {shown(labels)}. "
            "Pass a list."
        )
    operator = copy.copy(as_operator(data))  # an operator that was passed is not modified
    check_order({"data": operator, "labels": labels})
    rows = operator.shape[0]
    if math.isinf(rows):
        raise InvalidProblem(
            "rows that come slice by slice need their number for labels; got none. Pass rows=."
        )
    if len(labels) != rows:
        raise InvalidProblem(f"labels must have one for each of the {rows} rows; got {len(labels)}.")
    operator.row_names = operator.row_index = RowNames(labels, name)
    return operator
