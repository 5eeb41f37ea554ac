"""Principal component analysis and truncated SVD as an estimator."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from linspec.arrays import Array, to_host
from linspec.estimators.base import AddsRows, LinspecEstimator, checked_array, like
from linspec.families.svd.problem import SVD
from linspec.frames import check_order


class PCA(AddsRows, ClassNamePrefixFeaturesOutMixin, TransformerMixin, LinspecEstimator):  # type: ignore[misc]
    """Principal components of dense or sparse rows, or their truncated SVD.

    Parameters
    ----------
    n_components : int, optional
        The number of components. By default the smaller of n_samples and n_features; if that exceeds 4096, `fit`
        raises InvalidProblem, and the number must be given. If the rank of the data is lower, `n_components_` is
        smaller.
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
        n_components: int | None = None,
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
        found = self.solution_ = self._solved(problem)
        self.components_ = found.Vh
        self.n_components_ = self._n_features_out = int(found.Vh.shape[0])
        self.mean_, self.scale_ = found.mean, found.scale
        self.singular_values_ = like(found.Vh, found.S)
        for name in ("explained_variance", "explained_variance_ratio"):
            numbers = getattr(found, name)
            setattr(self, f"{name}_", None if numbers is None else like(found.Vh, numbers))

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
