"""The answer of a regression on components: coefficients, predictions and scores for every number of components."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import linspec as ls
from linspec.arrays import Array, HostArray
from linspec.solving import ComponentRegressionSolution


@dataclass(frozen=True, kw_only=True, repr=False)
class PLSRegressionSolution(ComponentRegressionSolution, vector="component", score="R²"):
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

    def _factors(self) -> tuple[Array, Array]:
        return self.x_rotations, self.y_loadings
