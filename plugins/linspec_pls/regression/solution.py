"""The answer of a regression on components: coefficients, predictions and scores for every number of components."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

import linspec as ls
from linspec.arrays import Array, HostArray, at_home, to_host
from linspec.errors import InvalidProblem


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

    Examples
    --------
    >>> import numpy as np
    >>> import linspec as ls
    >>> X = np.random.default_rng(0).standard_normal((50, 3))
    >>> solution = ls.solve(ls.get_problem("pls-regression")(X, X[:, 0], k=3))
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
        count = self._count(k)
        found = self.x_rotations[:, :count] @ self.y_loadings[:, :count].T
        return found[:, 0] if self.vector else found

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
        """
        count = self._count(k)
        scores: Any = self.transform(X=X, confounds=confounds)
        found = scores[:, :count] @ self.y_loadings[:, :count].T
        if self.y_mean is not None:
            found = found + self.y_mean[None, :]
        if confounds is not None and self.y_slopes is not None:
            Z = np.asarray(to_host(confounds), dtype=np.float64).reshape(len(found), -1) - self.confound_mean
            found = found + Z @ self.y_slopes
        return found[:, 0] if self.vector else found

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
        w, Y, errors = errors_of_rows(self, X, Y, k=k, confounds=confounds, sample_weight=sample_weight)
        about = Y - w @ Y / w.sum()
        total = float(np.sum(w @ about**2))
        return 1 - float(np.sum(w @ errors**2)) / total if total > 0 else np.nan

    def _count(self, k: int | None) -> int:
        """Check a number of components."""
        most = int(self.x_rotations.shape[1])
        if k is None:
            return most
        if not 0 <= k <= most:
            raise InvalidProblem(f"k must be between 0 and the {most} components of the answer; got {k}.")
        return int(k)


def errors_of_rows(
    solution: PLSRegressionSolution, X: Any, Y: Any, *, k: int | None, confounds: Any, sample_weight: Any
) -> tuple[HostArray, HostArray, HostArray]:
    """Return weights of the rows, Y, and Y less its predictions, in float64 on the host."""
    found = np.asarray(to_host(solution.predict(X, k=k, confounds=confounds)), dtype=np.float64)
    Y = Y if getattr(Y, "ndim", 2) == 1 else ls.as_operator(Y, "Y").dense()
    Y = np.asarray(to_host(Y), dtype=np.float64).reshape(len(found), -1)
    w = np.ones(len(Y)) if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
    return w, Y, Y - found.reshape(Y.shape)
