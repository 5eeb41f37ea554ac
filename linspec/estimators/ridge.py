"""Ridge regression as estimators: with a given ridge, with a ridge chosen by cross-validation, and of kernels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from sklearn.base import MultiOutputMixin, RegressorMixin
from sklearn.model_selection import check_cv

from linspec.arrays import Array, HostArray, is_array, to_host
from linspec.errors import InvalidOption, shown
from linspec.estimators.base import (
    AddsRows,
    LinspecEstimator,
    PairedRows,
    checked_number,
    intercept_of,
    like,
    seed_of,
)
from linspec.families.least_squares.problem import LeastSquares
from linspec.kernels.functions import as_kernel
from linspec.registry import get_problem
from linspec.studies.held_out.validation import cross_validate


class Regressor(PairedRows, MultiOutputMixin, RegressorMixin, LinspecEstimator):  # type: ignore[misc]
    """Base class of regressors, with an intercept and predictions."""

    fit_intercept: bool

    def predict(self, X: Any) -> Array:
        """Predict the targets of rows.

        Parameters
        ----------
        X : data of shape (n_samples, n_features)
            For a precomputed kernel its values between these rows and the training rows.

        Returns
        -------
        array of shape (n_samples,) or (n_samples, n_targets)
        """
        return self._answer("predict", X)


class LinearRegressor(Regressor):
    """Base class of linear regressors, with coefficients and an intercept."""

    _weights = "coef_"

    scale: bool

    def _learn(self, problem: LeastSquares) -> None:
        answer = self.solution_ = self._solved(problem)
        self.coef_ = answer.x if answer.x.ndim == 1 else answer.x.T
        self.intercept_ = intercept_of(answer.intercept)


class Ridge(AddsRows, LinearRegressor):
    """Ridge regression: min ‖y − X w − c‖² + alpha ‖w‖².

    Parameters
    ----------
    alpha : float, default 1.0
        The ridge, added to the unnormalised Gram matrix, as in scikit-learn. 0 gives the solution of least norm.
    fit_intercept : bool, default True
        Whether to fit an intercept c, which the ridge does not shrink; sparse rows stay sparse.
    scale : bool, default False
        Whether to divide columns by their standard deviations before the ridge is added. `coef_` are the coefficients
        of the undivided columns.
    solver : str or linspec.Solver, default "auto"
        A solver of `linspec.LeastSquares`, by name.
    tol : float, optional
        The residual at which to stop; by default 1e-8, and about 1e-5 for float32 data. The residual is the largest
        ratio ‖Xᵀ(y − X w) − alpha w‖ / ‖Xᵀy‖ of any target; with an intercept, X and y are centred. Exact solvers, and
        solvers passed as instances, ignore `tol`.
    max_passes : float, optional
        The largest number of passes over the data.
    random_state : None, int, numpy.random.RandomState or numpy.random.Generator
        Seed of all random numbers.
    solver_options : dict, optional
        Options of the solver.

    Attributes
    ----------
    coef_ : array of shape (n_features,) or (n_targets, n_features)
    intercept_ : float or array of shape (n_targets,)
    n_features_in_ : int
    feature_names_in_ : numpy.ndarray of shape (n_features,)
        Set only if the columns of X have names.
    solution_ : linspec.LeastSquaresSolution
        The solution with its residual and costs.

    Warns
    -----
    ConvergenceWarning
        If the residual of the solution is above the tolerance.

    Examples
    --------
    >>> import numpy as np
    >>> from linspec.estimators import Ridge
    >>> X = np.arange(10.0)[:, None]
    >>> ridge = Ridge(alpha=0.0).fit(X, 2 * X[:, 0] + 1)
    >>> ridge.coef_.round(6).tolist(), round(ridge.intercept_, 6)
    ([2.0], 1.0)
    """

    _problem = LeastSquares

    def __init__(
        self,
        alpha: float = 1.0,
        *,
        fit_intercept: bool = True,
        scale: bool = False,
        solver: Any = "auto",
        tol: float | None = None,
        max_passes: float | None = None,
        random_state: Any = None,
        solver_options: dict[str, Any] | None = None,
    ) -> None:
        self._store(locals())

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit the coefficients and the intercept.

        Parameters
        ----------
        X : data of shape (n_samples, n_features)
            Anything that scikit-learn or `linspec.as_operator` accepts.
        y : data of shape (n_samples,) or (n_samples, n_targets)
            Targets, dense or sparse.
        sample_weight : array of shape (n_samples,), optional
            How often each row counts.

        Returns
        -------
        Ridge
            The estimator itself.
        """
        return self._fitted(X, y, sample_weight, least=2)

    def _checked(self, X: Any, y: Any, sample_weight: Any, *, first: bool, least: int) -> tuple[Any, ...]:
        return self._rows_and_targets(X, y, first=first, least=least, sample_weight=sample_weight)

    def _numbers(self) -> dict[str, Any]:
        ridge = checked_number("alpha", self.alpha)
        return {"ridge": ridge, "center": self.fit_intercept, "scale": self.scale}


class RidgeCV(LinearRegressor):
    """Ridge regression with the ridge chosen by folds or by generalized cross-validation.

    Parameters
    ----------
    alphas : sequence of floats, default (0.1, 1.0, 10.0)
        The ridges from which one is chosen.
    cv : None, int, splitter of scikit-learn, or iterable of splits
        The folds. By default generalized cross-validation (Golub, Heath & Wahba 1979) on all rows in one run;
        scikit-learn's default leaves out one row at a time.
    fit_intercept : bool, default True
        Whether to fit an intercept, which the ridge does not shrink; sparse rows stay sparse.
    scale : bool, default False
        Whether to divide columns by their standard deviations before the ridge is added.
    solver : str or linspec.Solver, default "auto"
        A solver of `linspec.LeastSquares` that accepts a path of ridges, by name.
    tol : float, optional
        The residual at which a solve stops, as `Ridge` defines it; by default 1e-8, and about 1e-5 for float32 data.
        Exact solvers, and solvers passed as instances, ignore `tol`.
    max_passes : float, optional
        The largest number of passes over the data in each solve.
    random_state : None, int, numpy.random.RandomState or numpy.random.Generator
        Seed of all random numbers, including the random signs of generalized cross-validation.
    solver_options : dict, optional
        Options of the solver.

    Attributes
    ----------
    alpha_ : float
        The ridge with the smallest error; if errors are equal, the largest of these ridges.
    errors_ : array of shape (n_alphas,)
        For each ridge, the estimated mean squared error of prediction over targets and rows.
    coef_, intercept_, solution_, n_features_in_, feature_names_in_
        The attributes of `Ridge`, fitted on all rows with the chosen ridge.

    Warns
    -----
    ConvergenceWarning
        If the residual of the fit on all rows is above the tolerance.

    Notes
    -----
    The errors of all ridges may be computed without a solver. For folds, they are then computed from Gram matrices of
    the rows of the folds, which one pass forms. This needs none of `solver`, `tol`, `max_passes` and `solver_options`
    to be set, and Gram matrices that fit into half of the available memory; it is done if it takes less time, by
    estimate, than a solver. That is usual for few columns. Generalized cross-validation decomposes one Gram matrix if
    that is affordable; otherwise a solver and random signs estimate its trace.

    References
    ----------
    Golub, Heath & Wahba 1979, Technometrics 21(2):215, doi:10.1080/00401706.1979.10489751.

    Examples
    --------
    >>> import numpy as np
    >>> from linspec.estimators import RidgeCV
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((60, 40))
    >>> y = 0.1 * X.sum(axis=1) + rng.standard_normal(60)
    >>> RidgeCV(alphas=[0.01, 1, 100]).fit(X, y).alpha_
    100.0
    """

    def __init__(
        self,
        alphas: Sequence[float] = (0.1, 1.0, 10.0),
        *,
        cv: Any = None,
        fit_intercept: bool = True,
        scale: bool = False,
        solver: Any = "auto",
        tol: float | None = None,
        max_passes: float | None = None,
        random_state: Any = None,
        solver_options: dict[str, Any] | None = None,
    ) -> None:
        self._store(locals())

    def fit(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> Self:
        """Choose the ridge, and fit coefficients with the chosen ridge on all rows.

        Parameters
        ----------
        X : data of shape (n_samples, n_features)
            Anything that scikit-learn or `linspec.as_operator` accepts. If a function returns X slice by slice, it must
            do so repeatedly; an iterator, which can be read once, is not enough. With folds, none of `solver`, `tol`,
            `max_passes` and `solver_options` may then be set, and a Gram matrix of the columns of X and y must fit
            into memory for each fold.
        y : data of shape (n_samples,) or (n_samples, n_targets)
            Targets, dense or sparse.
        sample_weight : array of shape (n_samples,), optional
            How often each row counts, in the fits and in the errors.
        groups : array of shape (n_samples,), optional
            Group labels, for splitters that keep groups together.

        Returns
        -------
        RidgeCV
            The estimator itself.
        """
        alphas = _checked_ridges(self.alphas)
        X, y = self._rows_and_targets(X, y, sample_weight=sample_weight, groups=groups)

        stated = LeastSquares(
            X, y, alphas, center=self.fit_intercept, scale=self.scale, sample_weight=sample_weight
        )
        settings, seed = self._settings(stated), seed_of(self.random_state)
        errors = _errors(stated, y, self.cv, groups, seed, settings)
        self.alpha_ = max(alpha for alpha, error in zip(alphas, errors, strict=True) if error == errors.min())
        self._learn(stated.with_numbers(ridge=self.alpha_))
        self.errors_ = like(self.coef_, errors)
        return self


class KernelRidge(Regressor):
    """Ridge regression on a function in the space of a kernel: min ‖y − f(X)‖² + alpha ‖f‖².

    Parameters
    ----------
    alpha : float, default 1.0
        The ridge, above 0, added to the diagonal of the kernel matrix, as in scikit-learn.
    kernel : linspec kernel, str or callable, default "rbf"
        A kernel of `linspec.kernels`, its name, or a function of two blocks of rows. scikit-learn's default is the
        linear kernel, and its ``gamma`` of "rbf" is ``1 / (2 scale**2)``.
    fit_intercept : bool, default False
        Whether to fit a constant, which the ridge does not shrink. scikit-learn's KernelRidge has none.
    solver : str or linspec.Solver, default "auto"
        A solver of the problem "kernel-ridge", by name.
    tol : float, optional
        The residual at which to stop; by default 1e-8, and about 1e-5 for float32 data. Exact solvers, and solvers
        passed as instances, ignore it.
    max_passes : float, optional
        The largest number of passes over the data and the kernel matrix.
    random_state : None, int, numpy.random.RandomState or numpy.random.Generator
        Seed of all random numbers.
    solver_options : dict, optional
        Options of the solver.

    Attributes
    ----------
    dual_coef_ : array of shape (n_samples,) or (n_samples, n_targets)
        The coefficients of the kernel functions of the training rows.
    intercept_ : float or array of shape (n_targets,)
    n_features_in_ : int
    feature_names_in_ : numpy.ndarray of shape (n_features,)
        Set only if the columns of X have names.
    solution_ : linspec.Solution
        The solution with its residual, bounds and costs.

    Warns
    -----
    ConvergenceWarning
        If the residual of the solution is above the tolerance.

    Examples
    --------
    >>> import numpy as np
    >>> from linspec.estimators import KernelRidge
    >>> X = np.linspace(0, 6, 100)[:, None]
    >>> ridge = KernelRidge(alpha=0.01).fit(X[::2], np.sin(X[::2, 0]))
    >>> bool(ridge.score(X[1::2], np.sin(X[1::2, 0])) > 0.999)
    True
    """

    _weights = "dual_coef_"

    def __init__(
        self,
        alpha: float = 1.0,
        *,
        kernel: Any = "rbf",
        fit_intercept: bool = False,
        solver: Any = "auto",
        tol: float | None = None,
        max_passes: float | None = None,
        random_state: Any = None,
        solver_options: dict[str, Any] | None = None,
    ) -> None:
        self._store(locals())

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit the functions of the targets.

        Parameters
        ----------
        X : data of shape (n_samples, n_features)
            Anything that scikit-learn or `linspec.as_operator` accepts and whose entries can be read; for a precomputed
            kernel its values.
        y : data of shape (n_samples,) or (n_samples, n_targets)
            Targets, dense or sparse.
        sample_weight : array of shape (n_samples,), optional
            How often each row counts.

        Returns
        -------
        KernelRidge
            The estimator itself.
        """
        alpha = checked_number("alpha", self.alpha)
        X, y = self._rows_and_targets(X, y, sample_weight=sample_weight)
        problem: Any = get_problem("kernel-ridge")  # from a plugin
        answer = self.solution_ = self._solved(
            problem(X, y, alpha, self.kernel, center=self.fit_intercept, sample_weight=sample_weight)
        )
        self.dual_coef_, self.intercept_ = answer.dual, intercept_of(answer.intercept)
        return self

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = as_kernel(self.kernel, "kernel").precomputed
        return tags


def _checked_ridges(alphas: Any) -> tuple[float, ...]:
    numbers = np.atleast_1d(to_host(alphas))
    if numbers.ndim != 1 or len(numbers) == 0 or numbers.dtype.kind not in "iuf":
        raise InvalidOption(f"alphas must be a sequence of numbers; got {shown(alphas)}.")
    return tuple(float(alpha) for alpha in numbers)


def _errors(
    stated: LeastSquares, y: Any, cv: Any, groups: Any, rng: Any, settings: dict[str, Any]
) -> HostArray:
    """The weighted mean squared error of each ridge on rows that were not fitted, by `linspec.cross_validate`.

    Squared errors are multiplied by the weights of the rows, and folds are averaged with the sums of their weights.
    Generalized cross-validation has infinite errors if no degrees of freedom are left.
    """
    if cv is None:
        return np.asarray(cross_validate(stated, method="gcv", rng=rng, **settings).scores[0, :, 0])
    n = int(stated.B.shape[0])
    often = np.ones(n) if stated.sample_weight is None else stated.sample_weight
    labels = to_host(y) if is_array(y) else None
    splits = [
        (train, test)
        for train, test in check_cv(cv).split(np.empty((n, 1)), labels, groups)
        if often[test].sum() > 0
    ]
    scores = cross_validate(stated, splitter=splits, score="mse", rng=rng, **settings).scores
    counts = [often[test].sum() for _, test in splits]
    return np.asarray(np.average(scores[:, :, 0], axis=0, weights=counts))
