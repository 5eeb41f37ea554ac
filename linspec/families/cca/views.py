"""Solutions that map two views to variates: scores, loadings, and tables of both.

Problem: the functions of kernel CCA and the nets of deep CCA have no weight for a column of the data, but it is of
interest which columns they are related to.
Method: structure correlations. The variates of rows are computed, and the correlation of each column with each of them.
Source: Thompson 1984, Canonical Correlation Analysis, doi:10.4135/9781412983570 (structure coefficients).
Where we differ: variates may be nonlinear, and then a related column may have correlation 0, as x with x².
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from linspec.arrays import Array, at_home
from linspec.families.cca.variates import CCAScore, score_views
from linspec.operators import LinearOperator
from linspec.solving.linear_solution import LinearSolution, single_or_several
from linspec.solving.loadings import loadings_of
from linspec.solving.tables import check_columns

__all__ = ["TwoViewSolution"]


class TwoViewSolution(LinearSolution, vector="pair", score="total correlation captured"):
    """Base class of solutions whose variates may be any functions of the rows of two views.

    It computes scores, loadings and their tables.

    A class that derives from it has the fields of `linspec.Solution` and its own, and a method `variates`.

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

    @property
    def _matrices(self) -> tuple[str, ...]:
        return tuple(self.center_of)

    @at_home
    def transform(self, X: Any = None, Y: Any = None) -> Any:  # type: ignore[override]  # no confounds
        """Compute variates of rows of X, of Y, or of both.

        Parameters
        ----------
        X, Y : data of shape (n, p), (n, q), optional
            Anything that `linspec.as_operator` takes and whose entries can be read.

        Returns
        -------
        array of shape (n, k), or a pair of arrays when both are given
            In the library, on the device and in the working dtype of the rows; of NumPy for sparse matrices and files.

        Raises
        ------
        InvalidProblem
            Neither view is given, the column names or the number of columns of a view differ from the training data, or
            Y has the rows of X in another order.
        MissingCapability
            The entries cannot be read.
        """
        given = self._given("transform", (X, Y), {})
        for name, A in given.items():
            check_columns(self, name, A)
        return single_or_several([self.variates(name, A) for name, A in given.items()])

    @abstractmethod
    def variates(self, view: str, A: LinearOperator) -> Array:
        """Compute variates of rows of one view.

        Parameters
        ----------
        view : {"X", "Y"}
        A : LinearOperator of shape (n, p)
            The rows, whose names have been checked.

        Returns
        -------
        array of shape (n, k)
        """

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
        return score_views(self, X, Y, centered=getattr(self, self.center_of["X"]) is not None)

    @at_home
    def loadings(  # type: ignore[override]  # no confounds
        self, X: Any = None, Y: Any = None, *, sample_weight: Any = None
    ) -> Any:
        """Compute structure correlations, of each column of a view with each of its variates on the same rows.

        Parameters
        ----------
        X, Y : data of shape (n, p), (n, q), optional
            The training rows or other rows, of one view or of both. If the problem centres, the means of these rows are
            subtracted. They are read twice: once for the variates, and once for the correlations.
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
        given = self._given("loadings", (X, Y), {}, sample_weight=sample_weight)
        found = []
        for name, A in given.items():
            variates = self.transform(**{name: A})
            centred = getattr(self, self.center_of[name]) is not None
            rows, turn = {name: A, "the variates": variates}, np.eye(variates.shape[1])
            found += loadings_of(
                rows, [None, turn], crossed=True, center=centred, sample_weight=sample_weight
            )
        return single_or_several([part.given_back for part in found])
