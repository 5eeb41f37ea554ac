"""Solutions that map two views to variates: scores, loadings, and tables of both.

Problem: the functions of kernel CCA and the nets of deep CCA have no weight for a column of the data, but it is of
interest which columns they are related to.
Method: structure correlations. The variates of rows are computed, and the correlation of each column with each of them.
Source: Thompson 1984, Canonical Correlation Analysis, doi:10.4135/9781412983570 (structure coefficients).
Where we differ: variates may be nonlinear, and then a related column may have correlation 0, as x with x².
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from linspec.arrays import Array, at_home
from linspec.families.cca.variates import CCAScore, paired_views, score_views, single_or_pair
from linspec.moments.loadings import column_loadings
from linspec.solving.solution import Solution
from linspec.solving.tables import check_columns, table_of_columns, table_of_rows

__all__ = ["TwoViewSolution", "loadings_tables", "scores_tables"]


def scores_tables(solution: Solution, X: Any, Y: Any, library: str | None, **beside: Any) -> Any:
    """Tables of the variates of one view or both, with the labels of the rows."""
    given = [data for data in (X, Y) if data is not None]
    found = solution.transform(X, Y, **beside)  # type: ignore[attr-defined]  # solutions of two views have it
    parts = found if len(given) == 2 else (found,)
    tables = [table_of_rows(solution, part, data, library) for part, data in zip(parts, given, strict=True)]
    return single_or_pair(tables, "scores_table needs X, Y or both")


def loadings_tables(solution: Solution, X: Any, Y: Any, library: str | None, **beside: Any) -> Any:
    """Tables of the loadings of one view or both, with the names of the columns."""
    given = {name: data for name, data in (("X", X), ("Y", Y)) if data is not None}
    found = solution.loadings(X, Y, **beside)  # type: ignore[attr-defined]  # solutions of two views have it
    parts = found if len(given) == 2 else (found,)
    tables = [
        table_of_columns(solution, name, part, library, given[name])
        for name, part in zip(given, parts, strict=True)
    ]
    return single_or_pair(tables, "loadings_table needs X, Y or both")


class TwoViewSolution(Solution, vector="pair", score="total correlation captured"):
    """Base class of solutions whose variates may be any functions of the rows of two views.

    It computes scores, loadings and their tables.

    A class that derives from it has the fields of `linspec.Solution` and its own, and a method `transform`.

    Attributes
    ----------
    center_of : mapping of str to str
        For "X" and for "Y" the name of a field of the solution that is None if the problem does not centre. `score` and
        `loadings` read it to determine whether means are subtracted. By default "x_mean" and "y_mean".

    Examples
    --------
    >>> import numpy as np
    >>> import linspec as ls
    >>> from linspec.families.cca import TwoViewSolution
    >>> X = np.linspace(-1, 1, 40)[:, None]
    >>> solution = ls.solve(ls.KernelCCA(X, X**2, k=1, ridge=0.1))
    >>> isinstance(solution, TwoViewSolution)
    True
    >>> solution.loadings(X=X).shape, solution.score(X, X**2).rows
    ((1, 1), 40)
    """

    center_of: ClassVar[Mapping[str, str]] = {
        "X": "x_mean",
        "Y": "y_mean",
    }  # the field that is None without centring

    def transform(self, X: Any = None, Y: Any = None) -> Any:
        """Compute variates of rows of X, of Y, or of both.

        Parameters
        ----------
        X, Y : data of shape (n, p), (n, q), optional

        Returns
        -------
        array of shape (n, k), or a pair of arrays when both are given
            See `single_or_pair`.

        Raises
        ------
        NotImplementedError
            If the subclass does not define `transform`.
        """
        raise NotImplementedError

    def checked_views(self, X: Any, Y: Any) -> tuple[Any, Any]:
        """Check columns and row order of the views, and return them as operators, for `transform`.

        Parameters
        ----------
        X, Y : data of shape (n, p), (n, q), or None

        Returns
        -------
        LinearOperator or None, LinearOperator or None

        Raises
        ------
        InvalidProblem
            If the column names of a view differ from the training data, or Y has the rows of X in another order.
        """
        X, Y = paired_views(X, Y)
        for name, data in (("X", X), ("Y", Y)):
            check_columns(self, name, data)
        return X, Y

    def _centers(self, view: str) -> bool:
        return getattr(self, self.center_of[view]) is not None

    @at_home
    def score(self, X: Any, Y: Any) -> CCAScore:
        """Compute the correlations of the variates on rows, usually on new rows, without the ridge.

        Parameters
        ----------
        X, Y : data of shape (n, p), (n, q)
            Matching rows.

        Returns
        -------
        CCAScore
            ``correlations`` of shape (k,), one for each pair, about the training means; ``total``, the total
            correlation captured by the best rotation of the variates; and ``rows``. It unpacks into the first two:
            ``correlations, total = solution.score(X, Y)``.

        Raises
        ------
        InvalidProblem
            If a view is missing, does not have the columns of the training rows, or not the rows of the other view.
        """
        return score_views(self, X, Y, centered=self._centers("X"))

    @at_home
    def scores_table(self, X: Any = None, Y: Any = None, *, library: str | None = None) -> Any:
        """The variates of `transform` in a table, with the labels of the rows.

        Parameters
        ----------
        X, Y : data of shape (n, p), (n, q), optional
        library : {"pandas", "polars", "pyarrow", ""}, optional
            As for `weights_table`; by default the library of the data.

        Returns
        -------
        list of dict, pandas.DataFrame, polars.DataFrame or pyarrow.Table
            A column for each pair; two tables when both views are given. The rows are labelled by the index of a pandas
            frame, or by the labels passed to `linspec.labelled`.
        """
        return scores_tables(self, X, Y, library)

    @at_home
    def loadings(self, X: Any = None, Y: Any = None, *, sample_weight: Any = None) -> Any:
        """Compute structure correlations, of each column of a view with each of its variates on the same rows.

        Parameters
        ----------
        X, Y : data of shape (n, p), (n, q), optional
            The training rows or other rows, of one view or of both. If the problem centres, the means of these rows are
            subtracted. They are read three times: once for the variates, and twice for the correlations.
        sample_weight : array of shape (n,), optional
            How often each row counts.

        Returns
        -------
        array of shape (p, k), or a pair of arrays of shapes (p, k) and (q, k) when both are given
            Between -1 and 1; 0 for a column that does not vary. A column that is related to a variate nonlinearly may
            have correlation 0 with it.

        Raises
        ------
        InvalidProblem
            If the rows do not have the columns of the training data, or neither X nor Y is passed.
        MissingCapability
            If an operator is known only by its products.
        """
        X, Y = paired_views(X, Y, sample_weight=sample_weight)
        found: list[Array] = [
            column_loadings(
                data,
                self.transform(**{name: data}),
                name,
                center=self._centers(name),
                sample_weight=sample_weight,
            )
            for name, data in (("X", X), ("Y", Y))
            if data is not None
        ]
        return single_or_pair(found, "loadings need X, Y or both")

    @at_home
    def loadings_table(
        self, X: Any = None, Y: Any = None, *, sample_weight: Any = None, library: str | None = None
    ) -> Any:
        """The structure correlations of `loadings` in a table, with the names of the columns.

        Parameters
        ----------
        X, Y : data of shape (n, p), (n, q), optional
            As for `loadings`.
        sample_weight : array of shape (n,), optional
        library : {"pandas", "polars", "pyarrow", ""}, optional
            As for `weights_table`.

        Returns
        -------
        list of dict, pandas.DataFrame, polars.DataFrame or pyarrow.Table
            A row for each column of the view, and a column for each pair; or two tables when both views are given.
        """
        return loadings_tables(self, X, Y, library, sample_weight=sample_weight)
