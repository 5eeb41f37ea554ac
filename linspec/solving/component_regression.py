"""Answers that predict Y from X by components, where the first components alone predict, too.

Problem: regressions on components differ in the choice of the components. Their coefficients, their predictions and the
score of these on rows with known Y are computed in the same way.
Method: an answer has R and Q such that the coefficients of the first k components are the first k columns of R times
those of Q, transposed. A prediction is one product of the rows, adjusted as the training rows were.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from linspec.arrays import Array, at_home, is_array
from linspec.errors import InvalidProblem
from linspec.solving.linear_solution import LinearSolution
from linspec.solving.new_rows import NewRows
from linspec.solving.prediction_score import score_of_predictions

COMPONENT_SCORES: Mapping[str, str] = MappingProxyType(
    {
        "mse": "linspec.studies.held_out.predictions:SquaredErrors",
        "r2": "linspec.studies.held_out.predictions:Explained",
    }
)
"""The scores of held-out rows for `Problem.held_out_scores` of a problem with such answers.

The problem has the matrices X and Y, and two methods: `factors_of_moments(metric, C, ridge, k)` and
`seconds_of_factors(ridges)`. See `linspec.studies.held_out.predictions`.
"""


class ComponentRegressionSolution(LinearSolution):
    """Base class of answers that predict Y from components of X.

    A class that derives from it has the fields that `linspec.field` declares for X and Y, a field `vector`, which
    states whether Y was a vector, and the method `_factors`.

    Examples
    --------
    >>> import numpy as np
    >>> import linspec as ls
    >>> from linspec.solving import ComponentRegressionSolution
    >>> X = np.random.default_rng(0).standard_normal((50, 3))
    >>> solution = ls.solve(ls.PLSRegression(X, X[:, :2], k=3))
    >>> isinstance(solution, ComponentRegressionSolution), solution.coefficients(2).shape
    (True, (3, 2))
    """

    vector: bool

    @abstractmethod
    def _factors(self) -> tuple[Array, Array]:
        """R of shape (p, k) and Q of shape (q, k), in units of the columns: the coefficients are R Qᵀ."""

    @at_home
    def coefficients(self, k: int | None = None) -> Array:
        """The coefficients of the columns of X for predictions with the first k components.

        Parameters
        ----------
        k : int, optional
            By default all components.

        Returns
        -------
        array of shape (p, q), or (p,) if Y was a vector
            In units of the columns of Y over those of X.
        """
        B = self._coefficients(k)
        return B[:, 0] if self.vector else B

    @at_home
    def predict(self, X: Any, *, k: int | None = None, confounds: Any = None) -> Array:
        """Predict the right-hand sides of rows with the first k components.

        Parameters
        ----------
        X : data of shape (n, p)
            Any kind of data that `linspec.as_operator` accepts; sparse rows stay sparse.
        k : int, optional
            By default all components.
        confounds : array of shape (n, c), optional
            The confounds of these rows, if the problem had any. Their effect is part of the prediction.

        Returns
        -------
        array of shape (n, q), or (n,) if Y was a vector
            In the library, on the device and in the working dtype of the rows. Predictions of rows in blocks of other
            processes stay there, with a column for a vector Y.
        """
        y = NewRows.of(self, "Y")
        found = NewRows.of(self, "X").images(
            X, self._coefficients(k), "X", confounds, offset=y.mean, slopes=y.slopes
        )
        return found[:, 0] if self.vector and is_array(found) else found

    @at_home
    def score(
        self, X: Any, Y: Any, *, k: int | None = None, confounds: Any = None, sample_weight: Any = None
    ) -> float:
        """Compute R²: 1 minus the squared errors of predictions over the squares of Y about its means on these rows.

        Parameters
        ----------
        X, Y : data of shape (n, p), (n, q)
        k : int, optional
            By default all components.
        confounds : array of shape (n, c), optional
        sample_weight : array of shape (n,), optional
            How often each row counts.

        Returns
        -------
        float
            At most 1.
        """
        return score_of_predictions(self, X, Y, k=k, confounds=confounds, sample_weight=sample_weight).total

    def _coefficients(self, k: int | None) -> Array:
        """R Qᵀ of the first k components, with a column for a vector Y."""
        R, Q = self._factors()
        most = int(R.shape[1])
        if k is not None and not 0 <= k <= most:
            raise InvalidProblem(f"k must be between 0 and the {most} components of the answer; got {k}.")
        return R[:, :k] @ Q[:, :k].T
