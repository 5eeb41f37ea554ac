"""Regression by components, and components of several views, as estimators: problems of plugins, by name.

Problem: users know these methods by name, with the parameters and attributes that scikit-learn's classes have.
Method: each class states its parameters; all else is that of the generic estimator (`generic`). Views are a list, as
linspec takes them. Or they are columns of one X, as pipelines and cross-validation need it.
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import check_is_fitted, validate_data

from linspec.arrays import Array, Device, to_host
from linspec.errors import InvalidOption, InvalidProblem, shown
from linspec.estimators.base import (
    SPARSE,
    checked_array,
    known_to_scikit_learn,
    like,
    merged,
    with_columns,
)
from linspec.estimators.generic import LinearPredictor, Scored, Transformer
from linspec.frames import is_frame


class PLSRegression(Transformer, LinearPredictor):
    """Regression of y on the components of X that have the largest covariance with y.

    Parameters
    ----------
    n_components : int, default 2
        The number of components, at most n_samples and n_features. If fewer explain all of y that X can explain,
        `n_components_` is smaller.
    scale : bool, default True
        Whether to divide the columns of X and of y by their standard deviations, as scikit-learn's class does by
        default; `linspec.PLSRegression` does not.
    center : bool, default True
        Whether to fit an intercept: X and y are centred. Sparse rows stay sparse.
    solver : str or linspec.Solver, default "auto"
        A solver of `linspec.PLSRegression`, by name.
    tol : float, optional
        The residual at which to stop; by default 1e-8. Exact solvers, and solvers passed as instances, ignore it.
    max_passes : float, optional
        The largest number of passes over the data.
    random_state : None, int, numpy.random.RandomState or numpy.random.Generator
        Seed of all random numbers.
    solver_options : dict, optional
        Options of the solver.

    Attributes
    ----------
    coef_ : array of shape (n_targets, n_features)
        Also if y is a vector. Predictions are ``X @ coef_.T + intercept_``.
    intercept_ : array of shape (n_targets,)
        In scikit-learn's class it is the mean of y, and to be added to centred X times the coefficients.
    x_rotations_ : array of shape (n_features, n_components_)
        `transform` multiplies the columns of X, less their means, by it.
    x_weights_, x_loadings_, y_weights_, y_loadings_, covariances_
        The fields of `linspec.PLSRegressionSolution`. Loadings and rotations belong to undivided columns.
        ``transform(X, y)`` also gives y times `y_weights_`, which have length 1.
    n_components_ : int
    n_features_in_ : int
    feature_names_in_ : numpy.ndarray of shape (n_features,)
        Set only if the columns of X have names.
    solution_ : linspec.PLSRegressionSolution
        The solution with its residual and costs.

    Warns
    -----
    ConvergenceWarning
        If the residual of the solution is above the tolerance.

    Examples
    --------
    >>> import numpy as np
    >>> from linspec.estimators import PLSRegression
    >>> X = np.random.default_rng(0).standard_normal((60, 5))
    >>> pls = PLSRegression(n_components=3).fit(X, X[:, 0] + 2)
    >>> pls.transform(X).shape, pls.coef_.shape, bool(pls.score(X, X[:, 0] + 2) > 0.99)
    ((60, 3), (1, 5), True)
    """

    _named = "pls-regression"
    _weights = "x_rotations_"

    def __init__(
        self,
        n_components: int = 2,
        *,
        scale: bool = True,
        center: bool = True,
        solver: Any = "auto",
        tol: float | None = None,
        max_passes: float | None = None,
        random_state: Any = None,
        solver_options: dict[str, Any] | None = None,
    ) -> None:
        self._store(locals())

    @property
    def coef_(self) -> Array:
        """The coefficients, of shape (n_targets, n_features), also if y is a vector."""
        return with_columns(self.solution_.coefficients()).T

    @property
    def intercept_(self) -> Array:
        """The intercept of each target."""
        return like(self.coef_, np.zeros(self.coef_.shape[0]) + to_host(super().intercept_))


class ReducedRankRegression(Transformer, LinearPredictor):
    """Regression of several targets by coefficients of a low rank, with a ridge.

    Parameters
    ----------
    n_components : int, default 1
        The rank: all targets are predicted from so many combinations of the columns of X.
    ridge : float, default 0.0
        The ridge that is added to the unnormalised Gram matrix of X.
    center : bool, default True
        Whether to fit an intercept, which the ridge does not shrink; sparse rows stay sparse.
    scale : bool, default False
        Whether to divide the columns of X and of y by their standard deviations before the ridge is added.
    solver : str or linspec.Solver, default "auto"
        A solver of `linspec.ReducedRankRegression`, by name.
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
    coef_ : array of shape (n_targets, n_features), or (n_features,) if y is a vector
        Predictions are ``X @ coef_.T + intercept_``.
    intercept_ : array of shape (n_targets,), or float
    weights_ : array of shape (n_features, n_components_)
        `transform` multiplies the columns of X, less their means, by it.
    y_weights_, y_loadings_, singular_values_
        The fields of `linspec.ReducedRankRegressionSolution`.
    n_components_ : int
    n_features_in_ : int
    feature_names_in_ : numpy.ndarray of shape (n_features,)
        Set only if the columns of X have names.
    solution_ : linspec.ReducedRankRegressionSolution
        The solution with its residual and costs.

    Warns
    -----
    ConvergenceWarning
        If the residual of the solution is above the tolerance.

    Examples
    --------
    >>> import numpy as np
    >>> from linspec.estimators import ReducedRankRegression
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((200, 6))
    >>> Y = X[:, :2] @ rng.standard_normal((2, 9)) + 0.1 * rng.standard_normal((200, 9))
    >>> model = ReducedRankRegression(n_components=2).fit(X[:100], Y[:100])
    >>> model.coef_.shape, int(np.linalg.matrix_rank(model.coef_)), bool(model.score(X[100:], Y[100:]) > 0.9)
    ((9, 6), 2, True)
    """

    _named = "reduced-rank-regression"
    _weights = "weights_"

    def __init__(
        self,
        n_components: int = 1,
        *,
        ridge: float = 0.0,
        center: bool = True,
        scale: bool = False,
        solver: Any = "auto",
        tol: float | None = None,
        max_passes: float | None = None,
        random_state: Any = None,
        solver_options: dict[str, Any] | None = None,
    ) -> None:
        self._store(locals())


class IncompletePCA(Transformer, Scored):
    """Principal components of rows with missing entries, which are NaN; of sparse rows those that are not stored.

    Parameters
    ----------
    n_components : int, default 1
        The number of components, below n_features.
    solver : str or linspec.Solver, default "auto"
        A solver of `linspec.IncompletePCA`, by name.
    tol : float, optional
        The residual at which to stop; by default 1e-6. Solvers passed as instances ignore it.
    max_passes : float, optional
        The largest number of passes over the data.
    random_state : None, int, numpy.random.RandomState or numpy.random.Generator
        Seed of all random numbers.
    solver_options : dict, optional
        Options of the solver.

    Attributes
    ----------
    weights_, explained_variance_, mean_, total_variance_, log_likelihood_
        The fields of `linspec.IncompletePCASolution`.
    n_components_ : int
    n_features_in_ : int
    feature_names_in_ : numpy.ndarray of shape (n_features,)
        Set only if the columns of X have names.
    solution_ : linspec.IncompletePCASolution
        The solution, whose method `impute` fills rows, and `score_errors` has the errors of scores.

    Warns
    -----
    ConvergenceWarning
        If the residual of the solution is above the tolerance.

    Examples
    --------
    >>> import numpy as np
    >>> from linspec.estimators import IncompletePCA
    >>> rng = np.random.default_rng(0)
    >>> rows = rng.standard_normal((200, 1)) @ rng.standard_normal((1, 5)) + 0.1 * rng.standard_normal((200, 5))
    >>> X = np.where(rng.random(rows.shape) < 0.2, np.nan, rows)
    >>> pca = IncompletePCA(n_components=1, random_state=0).fit(X)
    >>> bool(np.std(pca.inverse_transform(pca.transform(X)) - rows) < 0.15)
    True
    """

    _named = "incomplete-pca"
    _weights = "weights_"
    _gaps = True

    def __init__(
        self,
        n_components: int = 1,
        *,
        solver: Any = "auto",
        tol: float | None = None,
        max_passes: float | None = None,
        random_state: Any = None,
        solver_options: dict[str, Any] | None = None,
    ) -> None:
        self._store(locals())

    def fit(self, X: Any, y: Any = None) -> Self:  # type: ignore[override]  # no weights of rows
        """Compute the components of rows.

        Parameters
        ----------
        X : data of shape (n_samples, n_features)
            Anything that scikit-learn or `linspec.as_operator` accepts; missing entries are NaN.
        y : None
            Not used.

        Returns
        -------
        IncompletePCA
            The estimator itself.
        """
        return super().fit(X)

    def inverse_transform(self, X: Any) -> Array:
        """Compute the rows that have the given scores.

        Parameters
        ----------
        X : array of shape (n_samples, n_components_)
            Scores.

        Returns
        -------
        array of shape (n_samples, n_features)
        """
        check_is_fitted(self)
        return self.solution_.inverse_transform(X)


class MultisetCCA(Transformer, Scored):
    """The directions of several views on which the views agree most (MAXVAR, generalised CCA).

    X is a list of views. Cross-validation would cut a list into views, and not into rows, and is refused. With
    `columns` X is one array, frame or sparse matrix, and works in pipelines and cross-validation. `y` is not used.

    Parameters
    ----------
    n_components : int, default 1
        The number of components, at most n_samples and the number of columns of all views.
    columns : sequence, optional
        The columns of each view, if X is one matrix: for each view a slice, a list of numbers or of names, or a mask.
        Columns that are in no view are not used. `transform` then returns one array, with the scores of each view
        beside those of the views before it.
    ridge : float or sequence of floats, default 0.0
        The ridge that is added to the unnormalised Gram matrices; a number for each view, or one for all.
    center : bool, default True
        Whether to centre the columns; sparse rows stay sparse.
    scale : bool, default False
        Whether to divide columns by their standard deviations before the ridge is added.
    view_weights : sequence of floats, optional
        How much each view counts; by default 1.
    solver : str or linspec.Solver, default "auto"
        A solver of `linspec.MultisetCCA`, by name.
    tol, max_passes, random_state, solver_options
        As for `CCA`.

    Attributes
    ----------
    weights_ : tuple of arrays of shape (n_columns, n_components_)
        One array for each view.
    eigenvalues_ : array of shape (n_components_,)
        In decreasing order; at most the sum of the view weights, where all views agree.
    agreement_ : numpy.ndarray of shape (n_views, n_components_)
        The field of `linspec.MultisetCCASolution`.
    n_components_ : int
    n_features_in_ : int
        The number of columns of X, or of all views of a list together.
    solution_ : linspec.MultisetCCASolution
        The solution with its residual and costs.

    Warns
    -----
    ConvergenceWarning
        If the residual of the solution is above the tolerance.

    Examples
    --------
    >>> import numpy as np
    >>> from linspec.estimators import MultisetCCA
    >>> rng = np.random.default_rng(0)
    >>> common = rng.standard_normal((300, 1))
    >>> views = [common + rng.standard_normal((300, p)) for p in (3, 4, 5)]
    >>> [scores.shape for scores in MultisetCCA(n_components=2).fit_transform(views)]
    [(300, 2), (300, 2), (300, 2)]
    >>> by_columns = MultisetCCA(n_components=2, columns=[slice(0, 3), slice(3, 7), slice(7, 12)])
    >>> by_columns.fit_transform(np.hstack(views)).shape
    (300, 6)
    """

    _named = "multiset-cca"
    _weights = "eigenvalues_"

    def __init__(
        self,
        n_components: int = 1,
        *,
        columns: Any = None,
        ridge: Any = 0.0,
        center: bool = True,
        scale: bool = False,
        view_weights: Any = None,
        solver: Any = "auto",
        tol: float | None = None,
        max_passes: float | None = None,
        random_state: Any = None,
        solver_options: dict[str, Any] | None = None,
    ) -> None:
        self._store(locals())

    @property
    def _takes_list(self) -> bool:
        return self.columns is None

    @property
    def _n_features_out(self) -> int:
        return self.n_components_ * (1 if self._takes_list else len(self.weights_))

    def _list_of_views(self, X: Any, *, fitting: bool = False) -> list[Any]:
        if self._takes_list:
            return super()._list_of_views(X, fitting=fitting)
        if not isinstance(self.columns, list | tuple) or any(map(np.isscalar, self.columns)):
            raise InvalidOption(
                f"columns must have a slice, a list of columns or a mask for each view; got {shown(self.columns)}."
            )
        if not known_to_scikit_learn(X):
            raise InvalidProblem(
                f"columns select from an array, a frame or a sparse matrix; got {type(X).__name__} as X. Pass a list "
                "of views, without columns."
            )
        if not is_frame(X):  # columns of a frame that are in no view may be texts, or lack values
            least = 2 if fitting else 1
            X = checked_array(merged(X), accept_sparse=SPARSE, ensure_min_samples=least, estimator=self)
        validate_data(self, X, reset=fitting, skip_check_array=True)
        views = [_safe_indexing(X, columns, axis=1) for columns in self.columns]
        return super()._list_of_views(views, fitting=fitting)

    def _scores(self, X: Any, y: Any = None) -> Any:
        if self._takes_list:
            return super()._scores(X, y)
        scores = self._answer("transform", X, y)
        return Device.of(scores[0]).concat(list(scores))
