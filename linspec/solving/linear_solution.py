"""Answers whose weights multiply the rows of matrices: their scores of new rows, and tables of these."""

from __future__ import annotations

from typing import Any

from linspec.arrays import at_home
from linspec.errors import InvalidProblem, shown
from linspec.frames import check_order
from linspec.solving.fields import view_names
from linspec.solving.new_rows import NewRows
from linspec.solving.solution import Solution, weights_by_matrix
from linspec.solving.tables import table_of_rows

__all__ = ["LinearSolution"]


class LinearSolution(Solution):
    """Base class of answers whose weights multiply rows; the declared fields give `transform` and tables.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> import linspec as ls
    >>> from linspec.arrays import Array, HostArray
    >>> @dataclass(frozen=True, kw_only=True, repr=False)
    ... class Pairs(ls.LinearSolution, vector="pair"):
    ...     x_weights: Array = ls.field(rows_of="X", leading=True)
    ...     y_weights: Array = ls.field(rows_of="Y", leading=True)
    ...     covariances: HostArray = ls.field(value="covariance")
    >>> Pairs.layout.means
    {'X': 'x_mean', 'Y': 'y_mean'}
    """

    @at_home
    def transform(self, *rows: Any, confounds: Any = None, **named: Any) -> Any:
        """Compute scores of rows: the rows, less what the problem subtracts from training rows, times the weights.

        Parameters
        ----------
        *rows : data
            Rows of each matrix with weights, in the order of the problem; None for a matrix without. If the problem
            takes any number of views, a list of views.
        confounds : array of shape (n, c), optional
            The confounds of these rows, if the problem had any.
        **named : data
            The same rows by the names of their matrices.

        Returns
        -------
        array of shape (n, k), or a tuple of them
            For one matrix its scores, for several a tuple of scores.

        Raises
        ------
        InvalidProblem
            There are no rows, or they do not fit the training data.
        """
        given, _ = self._given(rows, named)
        check_order({**given, "confounds": confounds})
        weights = weights_by_matrix(self)
        found = []
        for name, data in given.items():
            W, axis = weights[name]
            new_rows = NewRows.of(self, name)
            found.append(new_rows.images(data, W.T if axis else W, name, confounds))
        return found[0] if len(found) == 1 else tuple(found)

    @at_home
    def scores_table(
        self, *rows: Any, confounds: Any = None, library: str | None = None, **named: Any
    ) -> Any:
        """Make tables of the scores of `transform`, with the labels of the rows.

        Parameters
        ----------
        *rows, confounds, **named
            As for `transform`.
        library : {"pandas", "polars", "pyarrow", ""}, optional
            As for `weights_table`; by default the library of the rows.

        Returns
        -------
        table, or a tuple of tables
        """
        given, _ = self._given(rows, named)
        found = self.transform(confounds=confounds, **given)
        parts = found if isinstance(found, tuple) else (found,)
        tables = [
            table_of_rows(self, part, data, library) for part, data in zip(parts, given.values(), strict=True)
        ]
        return tables[0] if len(tables) == 1 else tuple(tables)

    def _given(self, rows: tuple[Any, ...], named: dict[str, Any]) -> tuple[dict[str, Any], tuple[str, ...]]:
        """Return the passed rows by matrix, and the names of all matrices with weights."""
        known = tuple(weights_by_matrix(self))
        if len(rows) == 1 and isinstance(rows[0], list | tuple) and known == view_names(len(known)):
            rows = tuple(rows[0])
        given = dict(zip(known, rows, strict=False)) | named
        listed = ", ".join(known)
        if len(rows) > len(known) or given.keys() - set(known):
            raise InvalidProblem(
                f"rows must be those of {listed}; got {shown(sorted(given) if named else len(rows))}."
            )
        given = {name: data for name, data in given.items() if data is not None}
        if not given:
            raise InvalidProblem(f"this needs rows of {listed}; got none.")
        return given, known
