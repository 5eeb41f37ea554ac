"""Kernel ridge regression as an estimator."""

from __future__ import annotations

from typing import Any, Self

from linspec.estimators.base import Regressor, checked_number
from linspec.kernels.functions import as_kernel
from linspec.registry import get_problem


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
        self.dual_coef_, self.intercept_ = answer.dual, self._intercept(answer.intercept)
        return self

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = as_kernel(self.kernel, "kernel").precomputed
        return tags
