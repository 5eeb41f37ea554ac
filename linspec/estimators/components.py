"""Estimators of components: principal ones of X, and canonical pairs of X and y, also of kernels.

Of two views, y is a matrix or one column.
"""

from __future__ import annotations

from math import isnan
from typing import Any, Self

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from linspec.arrays import Array, to_host
from linspec.estimators.base import AddsRows, LinspecEstimator, checked_array, like
from linspec.families.cca import problem as cca
from linspec.families.svd.problem import SVD
from linspec.frames import check_order
from linspec.kernels.functions import as_kernel
from linspec.registry import get_problem
from linspec.solving.problem import Problem
from linspec.studies.held_out.scores import number_of

SHARE = 1e-4
"""The default ridge is this number times the number of rows, which suits kernels with k(x, x) = 1."""


class TwoViews(ClassNamePrefixFeaturesOutMixin, TransformerMixin, LinspecEstimator):  # type: ignore[misc]
    """Base class of estimators of two views: it computes canonical variates of rows, and their score."""

    _weights = "x_weights_"

    def _learn(self, problem: Problem[Any]) -> None:
        solution = self.solution_ = self._solved(problem)
        self.x_weights_ = solution.x_weights
        self.y_weights_ = solution.y_weights
        self.correlations_ = like(solution.x_weights, solution.correlations)
        self.n_components_ = self._n_features_out = len(solution.correlations)

    def transform(self, X: Any, y: Any = None) -> Any:
        """Compute canonical variates of rows.

        Parameters
        ----------
        X : data of shape (n_samples, n_features)
        y : data of shape (n_samples, n_targets), optional

        Returns
        -------
        array of shape (n_samples, n_components_), or a pair of them when y is given
        """
        return self._scores(X, y)

    def score(self, X: Any, y: Any) -> float:
        """Compute the sum of the correlations of the canonical pairs on given rows, usually new ones.

        Parameters
        ----------
        X : data of shape (n_samples, n_features)
        y : data of shape (n_samples, n_targets)

        Returns
        -------
        float
            The sum of signed correlations without the ridge. A pair that fits the training rows only by chance adds
            nothing on average. NaN for a single row, or rows that do not vary.
        """
        score = self._answer("score", X, y)
        return float("nan") if isnan(number_of(score)) else float(score.correlations.sum())

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.target_tags.one_d_labels = False
        tags.target_tags.two_d_labels = True
        tags.target_tags.multi_output = True
        return tags


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
        predicted = self._answer("predict", X)
        return predicted[:, 0] if self._one_column else predicted

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
        y_variates = [] if y is None else [checked_array(y, input_name="y", estimator=self)]
        return self.solution_.inverse_transform(P, *y_variates)


class KernelCCA(TwoViews):
    """Canonical pairs of functions of X and y, in the spaces of two kernels.

    Parameters
    ----------
    n_components : int, default 1
        The number of pairs.
    kernel_x : linspec kernel, str or callable, default "rbf"
        A kernel of `linspec.kernels`, its name, or a function of two blocks of rows.
    kernel_y : linspec kernel, str or callable, optional
        The kernel of y; by default that of X. A precomputed kernel does not work with cross-validation, which selects
        rows of y but not columns.
    ridge : float or pair of floats, optional
        Positive numbers that are added to the unnormalised Gram matrices of the features. By default 1e-4 times the
        number of rows.
    center : bool, default True
        Whether to centre the features.
    solver : str or linspec.Solver, default "auto"
        A solver of the problem "kernel-cca", by name.
    tol : float, optional
        The residual at which to stop; by default 1e-6. Exact solvers, and solvers passed as instances, ignore it.
    max_passes : float, optional
        The largest number of passes over the data and the kernel matrices.
    random_state : None, int, numpy.random.RandomState or numpy.random.Generator
        Seed of all random numbers.
    solver_options : dict, optional
        Options of the solver.

    Attributes
    ----------
    x_weights_, y_weights_ : array of shape (m, n_components_)
        Coefficients of the functions. For "nystrom-kcca", m is the number of landmarks; for "rff-kcca" and "knoi", the
        number of random features; for other solvers, the number of training rows.
    correlations_ : array of shape (n_components_,)
        Canonical correlations in decreasing order, computed with the ridge.
    n_components_ : int
    n_features_in_ : int
    feature_names_in_ : numpy.ndarray of shape (n_features,)
        Set only if the columns of X have names.
    solution_ : linspec.Solution
        The solution with its residual, bounds and costs.

    Warns
    -----
    ConvergenceWarning
        If the residual of the solution is above the tolerance, or the solver computes no residual.

    Examples
    --------
    >>> import numpy as np
    >>> from linspec.estimators import KernelCCA
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((300, 2))
    >>> Y = X[:, :1] ** 2 + 0.3 * rng.standard_normal((300, 1))
    >>> kcca = KernelCCA(ridge=0.3).fit(X[:200], Y[:200])
    >>> bool(kcca.score(X[200:], Y[200:]) > 0.8)
    True
    """

    def __init__(
        self,
        n_components: int = 1,
        *,
        kernel_x: Any = "rbf",
        kernel_y: Any = None,
        ridge: Any = None,
        center: bool = True,
        solver: Any = "auto",
        tol: float | None = None,
        max_passes: float | None = None,
        random_state: Any = None,
        solver_options: dict[str, Any] | None = None,
    ) -> None:
        self._store(locals())

    def fit(self, X: Any, y: Any) -> Self:
        """Compute the canonical pairs of functions of two views.

        Parameters
        ----------
        X : data of shape (n_samples, n_features)
            Anything that scikit-learn or `linspec.as_operator` accepts and whose entries can be read.
        y : data of shape (n_samples, n_targets) or (n_samples,)
            The second view, of any kind that X may have.

        Returns
        -------
        KernelCCA
            The estimator itself.
        """
        X, Y = self._views(X, y)
        ridge = SHARE * X.shape[0] if self.ridge is None else self.ridge
        kernels = {"kernel_x": self.kernel_x, "kernel_y": self.kernel_y}
        problem: Any = get_problem("kernel-cca")  # from a plugin
        self._learn(problem(X, Y, self.n_components, ridge=ridge, center=self.center, **kernels))
        return self

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = as_kernel(self.kernel_x, "kernel_x").precomputed
        return tags


class PCA(AddsRows, ClassNamePrefixFeaturesOutMixin, TransformerMixin, LinspecEstimator):  # type: ignore[misc]
    """Principal components of dense or sparse rows, or their truncated SVD.

    Parameters
    ----------
    n_components : int or float, optional
        The number of components, by default the smaller of n_samples and n_features. If the rank of the data is lower,
        `n_components_` is smaller. Or a share above 0 and below 1: as few components as hold this share of the total
        variance; without centring, of the sum of squares.
    center : bool, default True
        Whether to centre the columns; sparse rows stay sparse. False gives a truncated SVD.
    scale : bool, default False
        Whether to divide columns by their standard deviations (without centring, by their root mean squares).
    whiten : bool, default False
        Whether to divide scores by their standard deviations over the training rows.
    solver : str or linspec.Solver, default "auto"
        A solver of `linspec.SVD`, by name.
    tol : float, optional
        The residual at which to stop; by default 1e-6. Exact solvers, and solvers passed as instances, ignore it.
    max_passes : float, optional
        The largest number of passes over the data.
    random_state : None, int, numpy.random.RandomState or numpy.random.Generator
        Seed of all random numbers.
    solver_options : dict, optional
        Options of the solver.

    Attributes
    ----------
    components_ : array of shape (n_components_, n_features)
        Right singular vectors; in each the entry of largest magnitude is positive.
    explained_variance_ : array of shape (n_components_,) or None
        Variances of the scores; None without centring.
    explained_variance_ratio_ : array of shape (n_components_,) or None
        The fractions of the total variance; without centring, the fractions of the sum of squares. None for operators
        that only give products.
    singular_values_ : array of shape (n_components_,)
    mean_ : array of shape (n_features,) or None
        The means of the columns; None without centring.
    scale_ : array of shape (n_features,) or None
        The numbers by which the columns are divided; None if `scale` is False.
    n_components_ : int
    n_features_in_ : int
    feature_names_in_ : numpy.ndarray of shape (n_features,)
        Set only if the columns of X have names.
    solution_ : linspec.SVDSolution
        The solution with its residual and costs.

    Warns
    -----
    ConvergenceWarning
        If the residual of the solution is above the tolerance.

    Examples
    --------
    >>> import scipy.sparse
    >>> from linspec.estimators import PCA
    >>> X = scipy.sparse.random_array((200, 30), density=0.1, rng=0)
    >>> pca = PCA(n_components=3, random_state=0).fit(X)
    >>> pca.transform(X).shape, bool(pca.solution_.converged)
    ((200, 3), True)
    """

    _weights = "components_"
    _problem = SVD

    def __init__(
        self,
        n_components: float | None = None,
        *,
        center: bool = True,
        scale: bool = False,
        whiten: bool = False,
        solver: Any = "auto",
        tol: float | None = None,
        max_passes: float | None = None,
        random_state: Any = None,
        solver_options: dict[str, Any] | None = None,
    ) -> None:
        self._store(locals())

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Compute the components of rows.

        Parameters
        ----------
        X : data of shape (n_samples, n_features)
            Anything that scikit-learn or `linspec.as_operator` accepts.
        y : None
            Not used.
        sample_weight : array of shape (n_samples,), optional
            How often each row counts.

        Returns
        -------
        PCA
            The estimator itself.
        """
        return self._fitted(X, y, sample_weight, least=2 if self.center else 1)

    def _checked(self, X: Any, y: Any, sample_weight: Any, *, first: bool, least: int) -> tuple[Any, ...]:
        check_order({"X": X, "sample_weight": sample_weight})
        return (self._rows(X, fitting=first, least=least),)

    def _numbers(self) -> dict[str, Any]:
        return {"k": self.n_components, "center": self.center, "scale": self.scale}

    def _learn(self, problem: SVD) -> None:
        solution = self.solution_ = self._solved(problem)
        self.components_ = solution.Vh
        self.n_components_ = self._n_features_out = int(solution.Vh.shape[0])
        self.mean_, self.scale_ = solution.mean, solution.scale
        self.singular_values_ = like(solution.Vh, solution.S)
        for name in ("explained_variance", "explained_variance_ratio"):
            numbers = getattr(solution, name)
            setattr(self, f"{name}_", None if numbers is None else like(solution.Vh, numbers))

    def transform(self, X: Any) -> Array:
        """Compute the scores of rows.

        Parameters
        ----------
        X : data of shape (n_samples, n_features)

        Returns
        -------
        array of shape (n_samples, n_components_)
        """
        scores = self._answer("transform", X)
        return scores / like(scores, self._deviations()) if self.whiten else scores

    def inverse_transform(self, X: Any) -> Array:
        """Compute the rows that belong to given scores, in the span of the components.

        Parameters
        ----------
        X : array of shape (n_samples, n_components_)
            Scores.

        Returns
        -------
        array of shape (n_samples, n_features)
        """
        check_is_fitted(self)
        scores = checked_array(X, input_name="X", estimator=self)
        scores = scores * like(scores, self._deviations()) if self.whiten else scores
        return self.solution_.inverse_transform(scores)

    def _deviations(self) -> Any:
        """Standard deviations of the training scores, raised to at least the rounding error of the largest."""
        S = to_host(self.solution_.S)
        least = np.finfo(np.float64).eps * max(float(S.max(initial=0.0)), np.finfo(np.float64).tiny)
        return np.maximum(S, least) / np.sqrt(max(self.solution_.rows - 1, 1))
