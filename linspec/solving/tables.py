"""Tables of an answer: a row for each component, column of a matrix, row of data, or training row.

Problem: weights, loadings, scores and coefficients are arrays; users want them beside the names of columns and rows.
Method: the columns of a table are the vectors of the answer, named by the word of its layout and a number. The rows are
labelled by the names that the answer keeps, or that other data carry. The table is made in the library that is
requested, or that `linspec.frames.library_for_table` picks. The summary is a list of mappings, one for each component,
below lines that state the certificate, shown as text: a user wants to see first whether the answer can be trusted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from linspec.arrays import Array, HostArray, to_host
from linspec.errors import printable
from linspec.frames import (
    RowNames,
    check_names,
    column_names_of,
    library_for_table,
    row_names_of,
    table,
)
from linspec.workers import brought_here


def vectors_by_name(solution: Any, vectors: Array, axis: int = 0) -> dict[str, HostArray]:
    """Return the columns (axis 0) or rows (axis 1) of an array, on the host, by their names in tables.

    Examples
    --------
    >>> import numpy as np
    >>> import linspec as ls
    >>> from linspec.solving import vectors_by_name
    >>> vectors_by_name(ls.solve(ls.SVD(np.eye(2), k=1)), np.ones((2, 1)))
    {'component1': array([1., 1.])}
    """
    host = to_host(vectors)
    host = host if axis == 0 else host.T
    return {f"{solution.layout.vector}{i + 1}": np.asarray(host[:, i]) for i in range(host.shape[1])}


def check_columns(solution: Any, matrix: str, data: Any) -> None:
    """Refuse a frame whose columns are not those of the training data, by name and order.

    Parameters
    ----------
    solution : Solution
    matrix : str
        The name of the matrix.
    data : data
        New rows of the matrix. Data without names pass.

    Raises
    ------
    InvalidProblem

    Examples
    --------
    >>> import numpy as np
    >>> import linspec as ls
    >>> from linspec.solving import check_columns
    >>> check_columns(ls.solve(ls.SVD(np.eye(2), k=1)), "A", np.ones((3, 2)))  # no names: it passes
    """
    check_names(column_names_of(data), solution.column_names.get(matrix), matrix, "the training data")


def table_of_columns(
    solution: Any, matrix: str, vectors: Any, library: str | None = None, data: Any = None
) -> Any:
    """Make a table with a row for each column of a matrix.

    Parameters
    ----------
    solution : Solution
    matrix : str
        The name of the matrix.
    vectors : array of shape (p, k), or mapping of str to numpy.ndarray of shape (p,)
        The columns of the table; those of an array are named by `vectors_by_name`.
    library : str, optional
        As for `Solution.weights_table`.
    data : data, optional
        Other data of this matrix. Their library is the default for the table.

    Examples
    --------
    >>> import numpy as np
    >>> import linspec as ls
    >>> from linspec.solving import table_of_columns
    >>> table_of_columns(ls.solve(ls.SVD(np.eye(2), k=1)), "A", {"loading": np.array([0.5, 1.0])}, "")
    [{'column': 0, 'loading': 0.5}, {'column': 1, 'loading': 1.0}]
    """
    named = vectors if isinstance(vectors, Mapping) else vectors_by_name(solution, vectors)
    count = len(next(iter(named.values()), ()))
    names = solution.column_names.get(matrix) or (column_names_of(data) if data is not None else None)
    return table("column", names or range(count), named, library_for_table(library, data, solution))


class SignedColumns(NamedTuple):
    """The leading columns of one vector, as pairs (name, weight), the largest weights first."""

    vector: str
    positive: tuple[tuple[Any, float], ...]
    negative: tuple[tuple[Any, float], ...]


class LeadingColumns(tuple[SignedColumns, ...]):
    """The columns with the largest positive and negative weights of each vector; printed, a line for each sign."""

    __slots__ = ()

    def __repr__(self) -> str:
        lines = []
        for name, positive, negative in self:
            vector = printable(name)
            for head, pairs in ((f"{vector} +", positive), (f"{'':{len(vector)}} -", negative)):
                listed = ", ".join(f"{printable(column)} {weight:.3g}" for column, weight in pairs) or "none"
                lines.append(f"{head} {listed}")
        return "\n".join(lines)


def leading_columns(
    solution: Any, matrix: str, vectors: Mapping[str, HostArray], count: int
) -> LeadingColumns:
    """Return the columns of a matrix with the largest weights of each sign, for each vector."""
    known = solution.column_names.get(matrix)

    def largest(w: HostArray, sign: float) -> tuple[tuple[Any, float], ...]:
        order = np.argsort(-sign * w, kind="stable")[:count]
        return tuple((known[i] if known else int(i), float(w[i])) for i in order if sign * w[i] > 0)

    return LeadingColumns(
        SignedColumns(vector, largest(w, 1.0), largest(w, -1.0)) for vector, w in vectors.items()
    )


def table_of_components(
    solution: Any,
    columns: Mapping[str, HostArray],
    library: str | None = None,
    labels: Sequence[Any] | None = None,
    head: str = "",
) -> Any:
    """Make a table with a row for each component of an answer.

    Parameters
    ----------
    solution : Solution
        Or another result that has its `layout` and `frame_library`.
    columns : mapping of str to numpy.ndarray of shape (k,)
    library : str, optional
        As for `Solution.weights_table`.
    labels : sequence of length k, optional
        The labels of the components; by default numbers from 1.
    head : str, optional
        What the labels are, such as "target"; by default the word of the answer for components.

    Examples
    --------
    >>> import numpy as np
    >>> import linspec as ls
    >>> from linspec.solving import table_of_components
    >>> table_of_components(ls.solve(ls.SVD(np.eye(2), k=1)), {"singular value": np.array([1.0])}, "")
    [{'component': 1, 'singular value': 1.0}]
    """
    if labels is None:
        labels = range(1, len(next(iter(columns.values()))) + 1)
    return table(head or solution.layout.component, labels, columns, library_for_table(library, solution))


def table_of_rows(solution: Any, values: Any, data: Any, library: str | None = None) -> Any:
    """Make a table with a row for each row of data, such as scores.

    Parameters
    ----------
    solution : Solution
    values : array of shape (n, k), or mapping of str to numpy.ndarray of shape (n,)
        The columns of the table; those of an array are named by `vectors_by_name`.
    data : data with n rows
        The rows; the labels of a pandas frame become those of the table.
    library : str, optional
        As for `Solution.weights_table`; by default the library of the data.

    Examples
    --------
    >>> import numpy as np
    >>> import linspec as ls
    >>> from linspec.solving import table_of_rows
    >>> table_of_rows(ls.solve(ls.SVD(np.eye(2), k=1)), np.array([[2.0]]), np.ones((1, 2)), "")
    [{'component1': 2.0}]
    """
    named = values if isinstance(values, Mapping) else vectors_by_name(solution, brought_here(values))
    return table("row", row_names_of(data), named, library_for_table(library, data, solution))


def table_of_training_rows(
    solution: Any, values: Any, library: str | None = None, numbers: HostArray | None = None
) -> Any:
    """Make a table with a row for each training row, labelled by its name if the solution keeps it, or its number.

    Parameters
    ----------
    solution : Solution
    values : array of shape (m, k), or mapping of str to numpy.ndarray of shape (m,)
        The columns of the table; those of an array are named by `vectors_by_name`.
    library : str, optional
        As for `Solution.weights_table`.
    numbers : numpy.ndarray of shape (m,), optional
        The numbers of these training rows; by default all n of them.

    Examples
    --------
    >>> import numpy as np
    >>> import linspec as ls
    >>> from linspec.solving import table_of_training_rows
    >>> table_of_training_rows(ls.solve(ls.SVD(np.eye(2), k=1)), np.array([[2.0]]), "", np.array([1]))
    [{'row': 1, 'component1': 2.0}]
    """
    named = values if isinstance(values, Mapping) else vectors_by_name(solution, values)
    numbers = np.arange(len(next(iter(named.values()), ()))) if numbers is None else numbers
    known = solution.row_names
    labels = RowNames(numbers) if known is None else RowNames(known[numbers], solution.row_label)
    return table("row", labels, named, library_for_table(library, solution))


def table_of_features(solution: Any, values: Array, library: str | None = None) -> Any:
    """Make a table with a row for each feature computed from the data, labelled by its number.

    Examples
    --------
    >>> import numpy as np
    >>> import linspec as ls
    >>> from linspec.solving import table_of_features
    >>> table_of_features(ls.solve(ls.SVD(np.eye(2), k=1)), np.array([[2.0]]), "")
    [{'feature': 0, 'component1': 2.0}]
    """
    named = vectors_by_name(solution, values)
    return table("feature", range(values.shape[0]), named, library_for_table(library, solution))


# ---- ridges: a number, or one for each of several matrices -------------------------------------


def size_of_ridge(ridge: Any) -> float:
    """Return a ridge as one number, by which ridges are ordered."""
    return 0.0 if ridge is None else float(np.sum(ridge))


def ridge_in_words(ridge: Any) -> str:
    """Return a ridge as text: a number, two different numbers in brackets, or "" for a problem without a ridge."""
    if ridge is None:
        return ""
    pair: Sequence[float] = ridge if isinstance(ridge, tuple) else (ridge,)
    return f"{pair[0]:g}" if len(set(pair)) == 1 else f"({', '.join(f'{r:g}' for r in pair)})"


def ridge_labels(ridges: Sequence[float]) -> list[str]:
    """Return different texts for the ridges of a path: with six digits, or all digits, or also their numbers."""
    for texts in ([f"{ridge:g}" for ridge in ridges], [repr(float(ridge)) for ridge in ridges]):
        if len(set(texts)) == len(texts):
            return texts
    return [f"{ridge!r} [{i}]" for i, ridge in enumerate(map(float, ridges))]


def ridge_columns(ridges: Sequence[Any], matrices: Sequence[str]) -> dict[str, HostArray]:
    """Return the columns of a table that hold ridges.

    Parameters
    ----------
    ridges : sequence
        Numbers, or tuples with a number for each matrix; None for a problem without a ridge.
    matrices : sequence of str
        The names of the matrices with weights.

    Returns
    -------
    dict of str to numpy.ndarray
        "ridge", or "ridge X" and "ridge Y" for tuples. Empty without a ridge.
    """
    if not ridges or ridges[0] is None:
        return {}
    if not isinstance(ridges[0], tuple):
        return {"ridge": np.asarray(ridges, dtype=np.float64)}
    count = len(ridges[0])
    names = matrices if len(matrices) == count else range(1, count + 1)
    return {f"ridge {name}": np.array([ridge[i] for ridge in ridges]) for i, name in enumerate(names)}


# ---- the summary --------------------------------------------------------------------------------

FEW = 10
"""Largest number of texts in one line."""

SHOWN = 30
"""Largest number of rows that are shown; the list has all."""


class Summary(list[dict[str, Any]]):
    """One mapping for each component, with the same keys; shown as a table below the certificate.

    Parameters
    ----------
    rows : iterable of mappings
    title : str
        The heading.
    facts : sequence of (str, str)
        Names and texts that are shown above the table.
    """

    def __init__(
        self, rows: Iterable[Mapping[str, Any]], title: str, facts: Sequence[tuple[str, str]]
    ) -> None:
        super().__init__(dict(row) for row in rows)
        self.title = title
        self.facts = tuple(facts)

    def __repr__(self) -> str:
        width = max((len(name) for name, _ in self.facts), default=0)
        lines = [self.title, *(f"{name.ljust(width)}  {text}" for name, text in self.facts)]
        if self:
            cells = [list(self[0]), *([_text(value) for value in row.values()] for row in self[:SHOWN])]
            widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
            aligned = (zip(row, widths, strict=True) for row in cells)
            lines += ["", *("  ".join(text.rjust(width) for text, width in row) for row in aligned)]
        more = [f"... {len(self)} rows in all"] if len(self) > SHOWN else []
        return "\n".join([*lines, *more])


def percent(share: float) -> str:
    """Return a share in per cent with three decimals; one below 1, by more than rounding, is never "100.000 %"."""
    text = f"{100 * share:.3f} %"
    return "99.999 %" if text.startswith("100.000") and share < 1 - 1e-9 else text


def some_of(texts: Sequence[str]) -> str:
    """Return the first of some texts in one line, and how many there are in all if some are left out."""
    more = f"  … ({len(texts)} in all)" if len(texts) > FEW else ""
    return "  ".join(texts[:FEW]) + more


def _text(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:.6g}" if isinstance(value, float) else str(value)
