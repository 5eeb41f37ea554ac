"""Kernel canonical correlation analysis as an estimator."""

from __future__ import annotations

from typing import Any, Self

from linspec.estimators.two_views import TwoViews
from linspec.kernels.functions import as_kernel
from linspec.registry import get_problem

SHARE = 1e-4
"""The default ridge is this number times the number of rows, which suits kernels with k(x, x) = 1."""


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
