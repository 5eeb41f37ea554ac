"""The answer of a regression on components: coefficients, predictions and scores for every number of components."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

import linspec as ls
from linspec.arrays import Array, HostArray, at_home, is_array, to_host
from linspec.errors import InvalidProblem
from linspec.solving import NewRows, score_of_predictions


@dataclass(frozen=True, kw_only=True, repr=False)
class PLSRegressionSolution(ls.LinearSolution, vector="component", score="R²"):
    """Components of X with the largest covariance with Y, and the coefficients of Y on them.

    Attributes
    ----------
    x_rotations : array of shape (p, k)
        R: `transform` multiplies the columns of X, less their means, by it, and gives scores T that are orthogonal on
        the training rows.
    y_weights : array of shape (q, k)
        Right singular vectors, of length 1.
    x_weights : array of shape (p, k)
        W: left singular vectors, orthonormal; they belong to deflated columns. If the problem scales, they and
        `y_weights` belong to the scaled columns.
    x_loadings, y_loadings : array of shape (p, k), (q, k)
        P and Q: the coefficients of the columns of X and of Y on the scores.
    covariances : numpy.ndarray of shape (k,)
        The singular values to which `x_weights` and `y_weights` belong. They need not decrease.
    vector : bool
        Whether Y was a vector.
    x_mean, y_mean : array of shape (p,), (q,), or None
        The column means, if the problem centres.
    x_scale, y_scale : array of shape (p,), (q,), or None
        The numbers that the columns were divided by, if the problem scales.
    confound_mean : numpy.ndarray of shape (c,) or None
        The means of the confounds, if the problem has any (0 without centring).
    x_slopes, y_slopes : array of shape (c, p), (c, q), or None
        The slopes of the columns in the confounds.

    Examples
    --------
    >>> import numpy as np
    >>> import linspec as ls
    >>> X = np.random.default_rng(0).standard_normal((50, 3))
    >>> solution = ls.solve(ls.PLSRegression(X, X[:, 0], k=3))
    >>> solution.coefficients().round(6) + 0.0
    array([1., 0., 0.])
    >>> solution.coefficients(1).shape
    (3,)
    """

    x_rotations: Array = ls.field(rows_of="X", leading=True)
    y_weights: Array = ls.field(rows_of="Y", leading=True, of_scaled=True)
    x_weights: Array = ls.field(shape="X k", in_home=True)
    x_loadings: Array = ls.field(rows_of="X")
    y_loadings: Array = ls.field(rows_of="Y")
    covariances: HostArray = ls.field(shape="k")
    vector: bool = False
    x_mean: Array | None = None
    y_mean: Array | None = None
    x_scale: Array | None = None
    y_scale: Array | None = None
    confound_mean: HostArray | None = None
    x_slopes: Array | None = None
    y_slopes: Array | None = None

    def _headline(self) -> str:
        return f"{self.x_rotations.shape[1]} components"

    def _per_component(self) -> dict[str, Any]:
        return {"covariance": self.covariances}

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
        found = NewRows.of(self, "X").images(
            X, self._coefficients(k), "X", confounds, offset=self.y_mean, slopes=self.y_slopes
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
        most = int(self.x_rotations.shape[1])
        if k is not None and not 0 <= k <= most:
            raise InvalidProblem(f"k must be between 0 and the {most} components of the answer; got {k}.")
        return self.x_rotations[:, :k] @ self.y_loadings[:, :k].T


def errors_of_rows(
    solution: PLSRegressionSolution, X: Any, Y: Any, *, k: int | None, confounds: Any, sample_weight: Any
) -> tuple[HostArray, HostArray, HostArray]:
    """Return weights of the rows, Y, and Y less its predictions, in float64 on the host."""
    predicted, right = on_host(solution.predict(X, k=k, confounds=confounds)), on_host(Y)
    w = np.ones(len(right)) if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
    return w, right, right - predicted


def on_host(rows: Any) -> HostArray:
    """Return rows of any kind as a dense matrix on the host; a vector as one column."""
    dense = rows if getattr(rows, "ndim", 2) == 1 else ls.as_operator(rows, "Y").dense()
    found: HostArray = np.asarray(to_host(dense), dtype=np.float64)
    return found.reshape(len(found), -1)
