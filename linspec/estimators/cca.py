"""Canonical correlation analysis as an estimator."""

from __future__ import annotations

from typing import Any, Self

from sklearn.utils.validation import check_is_fitted

from linspec.arrays import Array
from linspec.estimators.base import checked_array
from linspec.estimators.later_rows import AddsRows
from linspec.estimators.two_views import TwoViews
from linspec.families.cca import problem as cca
from linspec.frames import check_order


class CCA(AddsRows, TwoViews):
    """Canonical correlation analysis: canonical pairs of X and y.

    Parameters
    ----------
    n_components : int, optional
        The number of pairs. By default the smallest of n_samples, n_features and n_targets; if that exceeds 4096,
        `fit` raises InvalidProblem, and the number must be given.
    ridge : float or pair of floats, default 0.0
        The ridge that is added to the unnormalised Gram matrices of X and y.
    center : bool, default True
        Whether to centre the columns; sparse rows stay sparse.
    scale : bool, default False
        Whether to divide columns by their standard deviations before the ridge is added.
    solver : str or linspec.Solver, default "auto"
        A solver of `linspec.CCA`, by name.
    tol : float, optional
        The residual at which to stop; by default 1e-6, and about 1e-5 for float32 data. The residual is the sum of the
        squared errors of the equations of all pairs, divided by the sum of the correlations (`linspec.CCA` defines it).
        Exact solvers, and solvers passed as instances, ignore `tol`.
    max_passes : float, optional
        The largest number of passes over the data.
    random_state : None, int, numpy.random.RandomState or numpy.random.Generator
        Seed of all random numbers.
    solver_options : dict, optional
        Options of the solver.

    Attributes
    ----------
    x_weights_ : array of shape (n_features, n_components_)
        Weights of the columns of X. Without a ridge, variates of the training rows have unit length.
    y_weights_ : array of shape (n_targets, n_components_)
        Weights of the columns of y. Without a ridge, variates of the training rows have unit length.
    correlations_ : array of shape (n_components_,)
        Canonical correlations in decreasing order, computed with the ridge.
    n_components_ : int
    n_features_in_ : int
    feature_names_in_ : numpy.ndarray of shape (n_features,)
        Set only if the columns of X have names.
    solution_ : linspec.CCASolution
        The solution with its residual, bounds and costs.

    Warns
    -----
    ConvergenceWarning
        If the residual of the solution is above the tolerance.

    Examples
    --------
    >>> import numpy as np
    >>> from linspec.estimators import CCA
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((300, 5))
    >>> Y = X[:, :2] + 0.5 * rng.standard_normal((300, 2))
    >>> cca = CCA(n_components=2).fit(X[:200], Y[:200])
    >>> cca.transform(X[200:]).shape, bool(cca.score(X[200:], Y[200:]) > 1.5)
    ((100, 2), True)
    """

    _problem = cca.CCA

    def __init__(
        self,
        n_components: int | None = None,
        *,
        ridge: Any = 0.0,
        center: bool = True,
        scale: bool = False,
        solver: Any = "auto",
        tol: float | None = None,
        max_passes: float | None = None,
        random_state: Any = None,
        solver_options: dict[str, Any] | None = None,
    ) -> None:
        self._store(locals())

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Compute the canonical pairs of two views.

        Parameters
        ----------
        X : data of shape (n_samples, n_features)
            Anything that scikit-learn or `linspec.as_operator` accepts.
        y : data of shape (n_samples, n_targets) or (n_samples,)
            The second view, of any kind that X may have.
        sample_weight : array of shape (n_samples,), optional
            How often each row counts.

        Returns
        -------
        CCA
            The estimator itself.
        """
        return self._fitted(X, y, sample_weight, least=2)

    def _checked(self, X: Any, y: Any, sample_weight: Any, *, first: bool, least: int) -> tuple[Any, ...]:
        return self._views(X, y, first=first, least=least, sample_weight=sample_weight)

    def _numbers(self) -> dict[str, Any]:
        return {"k": self.n_components, "ridge": self.ridge, "center": self.center, "scale": self.scale}

    def predict(self, X: Any) -> Array:
        """Predict the second view of rows from the variates of X, by least squares.

        Parameters
        ----------
        X : data of shape (n_samples, n_features)

        Returns
        -------
        array of shape (n_samples, n_targets), or (n_samples,) if y was a vector
        """
        X = self._new_rows(X, "predict")
        found = self.solution_.predict(X)
        return found[:, 0] if self._one_column else found

    def inverse_transform(self, X: Any, y: Any = None) -> Any:
        """Estimate rows of X, or of both views, from their variates by least squares.

        Parameters
        ----------
        X : array of shape (n_samples, n_components_)
            Variates of X.
        y : array of shape (n_samples, n_components_), optional
            Variates of y.

        Returns
        -------
        array of shape (n_samples, n_features), or a pair of arrays when y is given
            The second array has shape (n_samples, n_targets).
        """
        check_is_fitted(self)
        check_order({"X": X, "y": y})
        P = checked_array(X, input_name="X", estimator=self)
        others = [] if y is None else [checked_array(y, input_name="y", estimator=self)]
        return self.solution_.inverse_transform(P, *others)
