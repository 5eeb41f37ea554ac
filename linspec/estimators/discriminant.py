"""Discriminant directions of classes or labels, and a classifier in their span, as an estimator."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import scipy.sparse
from sklearn.base import ClassifierMixin, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import column_or_1d
from sklearn.utils.multiclass import check_classification_targets

from linspec import targets
from linspec.arrays import Array, HostArray, from_host, is_array, namespace, to_host
from linspec.errors import InvalidOption, InvalidProblem, MissingCapability, shown
from linspec.estimators.base import LinspecEstimator, PairedRows, checked_number, like
from linspec.families.discriminant import problem
from linspec.families.discriminant.problem import Discriminant as Problem
from linspec.families.discriminant.problem import DiscriminantSolution, LinearClassifier
from linspec.operators.weights import weights_and_confounds

TARGETS = {**problem.TARGETS, "hsl": problem.TARGETS["hsl-zhou"]}
"""For each value of `target`, the function that makes targets from labels, and its options."""


class Discriminant(
    ClassNamePrefixFeaturesOutMixin,  # type: ignore[misc]
    PairedRows,
    ClassifierMixin,  # type: ignore[misc]
    TransformerMixin,  # type: ignore[misc]
    LinspecEstimator,
):
    """Discriminant directions of labels: LDA, orthonormalised PLS, CCA with labels, hypergraph spectral learning.

    If every row has a class, the estimator is also a classifier, by linear discriminant analysis of the variates.

    Parameters
    ----------
    n_components : int, optional
        The number of directions. By default the numerical rank of XᵀH, where H are the targets.
    target : {"lda", "opls", "cca", "hsl", "hsl-clique", "hsl-star"}, default "lda"
        The function of `linspec.targets` that makes targets from labels; "hsl" uses the hypergraph Laplacian of Zhou,
        Huang & Schölkopf, "hsl-clique" and "hsl-star" those of the clique and star expansions.
    ridge : float, default 1.0
        The ridge that is added to the unnormalised Gram matrix of X. With ridge 0 and more columns than rows, any
        labels are fitted exactly; then the scatter within classes is zero and no classifier exists.
    priors : None, "uniform" or sequence of positive numbers, optional
        Prior probabilities of the classes, in sorted order of the classes. By default the frequencies of the classes.
    scale : bool, default False
        Whether to divide columns by their standard deviations before the ridge is added.
    solver : str or linspec.Solver, default "auto"
        A solver of `linspec.Discriminant`, by name.
    tol, max_passes, random_state, solver_options
        As for `PCA`.

    Attributes
    ----------
    scalings_ : array of shape (n_features, n_components_)
        Weights of the columns.
    eigenvalues_ : array of shape (n_components_,)
        The leading eigenvalues λ of XᵀHHᵀX w = λ (XᵀX + ridge·I) w in decreasing order, for centred X and targets H.
    mean_ : array of shape (n_features,)
    classes_ : array of shape (n_classes,) or None
        The classes of rows with positive weight: numbers on the device of X, strings on the host. None if y was a
        matrix of labels.
    coef_, intercept_ : array of shape (n_classes, n_features) and (n_classes,), or (1, n_features) and (1,)
        `decision_function` is ``X @ coef_.T + intercept_``. Only where there is a classifier.
    n_components_ : int
    n_features_in_ : int
    feature_names_in_ : numpy.ndarray of shape (n_features,)
        Set only if the columns of X have names.
    solution_ : linspec.DiscriminantSolution
        The solution with its residual and costs. Its attribute `classes`, unless None, holds indices of `classes_`.

    Warns
    -----
    ConvergenceWarning
        If the residual of the solution is above the tolerance.

    Examples
    --------
    >>> import numpy as np
    >>> from linspec.estimators import Discriminant
    >>> y = np.repeat(["ash", "elm", "oak"], 40)
    >>> X = np.random.default_rng(0).standard_normal((120, 5)) + 4 * np.eye(3, 5).repeat(40, axis=0)
    >>> discriminant = Discriminant().fit(X, y)
    >>> discriminant.transform(X).shape, discriminant.predict(X[::40]).tolist()
    ((120, 2), ['ash', 'elm', 'oak'])
    """

    _weights = "scalings_"

    classes_: Any
    solution_: DiscriminantSolution
    _classifier: LinearClassifier | str  # the reason if there is none

    def __init__(
        self,
        n_components: int | None = None,
        *,
        target: str = "lda",
        ridge: float = 1.0,
        priors: Any = None,
        scale: bool = False,
        solver: Any = "auto",
        tol: float | None = None,
        max_passes: float | None = None,
        random_state: Any = None,
        solver_options: dict[str, Any] | None = None,
    ) -> None:
        self._store(locals())

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Compute the directions, and fit the classifier if y holds classes.

        Parameters
        ----------
        X : data of shape (n_samples, n_features)
            Anything that scikit-learn or `linspec.as_operator` accepts.
        y : array of shape (n_samples,), or matrix of shape (n_samples, n_labels)
            The class of each row, or a column for each label, dense or sparse.
        sample_weight : array of shape (n_samples,), optional
            How often each row counts.

        Returns
        -------
        Discriminant
            The estimator itself.
        """
        if not isinstance(self.target, str) or self.target not in TARGETS:
            raise InvalidOption(
                f"target must be one of {', '.join(map(repr, TARGETS))}; got {shown(self.target)}."
            )
        make, options = TARGETS[self.target]
        X, y = self._rows_and_targets(X, y, numeric=False, sample_weight=sample_weight)
        labels = _labels(y)
        w, _ = weights_and_confounds(sample_weight, None, labels.shape[0])
        names, labels = _classes(labels, w)
        self._numeric = names is not None and names.dtype.kind in "biuf"
        self.classes_ = _on_device_of(names, X) if self._numeric else names
        if make is not targets.opls:  # the problem centres opls, with its weights
            options = {**options, "sample_weight": w}
        H = make(_on_device_of(labels, X), **options)
        ridge = checked_number("ridge", self.ridge)
        stated = Problem(X, H, self.n_components, ridge=ridge, scale=self.scale, sample_weight=w)
        solution = self.solution_ = self._solved(stated)
        self.scalings_, self.mean_ = solution.weights, solution.mean
        self.eigenvalues_ = like(solution.weights, solution.eigenvalues)
        self.n_components_ = self._n_features_out = len(solution.eigenvalues)
        self._classifier = self._classifier_or_reason(X, labels, w)
        return self

    def transform(self, X: Any) -> Array:
        """Compute the variates of rows.

        Parameters
        ----------
        X : data of shape (n_samples, n_features)

        Returns
        -------
        array of shape (n_samples, n_components_)
        """
        return self._answer("transform", X)

    def predict(self, X: Any) -> Array:
        """The most probable class of each row.

        Parameters
        ----------
        X : data of shape (n_samples, n_features)

        Returns
        -------
        array of shape (n_samples,)
            Classes of the same type as in the fit: numbers in the library of X, strings on the host.
        """
        D = self._of_classes("decision", X, "predict")
        names = to_host(self.classes_)[to_host(namespace(D).argmax(D, axis=1))]
        return from_host(names, like=D) if self._numeric else names

    def decision_function(self, X: Any) -> Array:
        """The discriminant functions: log(prior times likelihood), up to a constant for each row.

        Parameters
        ----------
        X : data of shape (n_samples, n_features)

        Returns
        -------
        array of shape (n_samples, n_classes), or (n_samples,) for two classes
            For two classes, the function of the second class minus that of the first.
        """
        D = self._of_classes("decision", X, "decision_function")
        return D[:, 1] - D[:, 0] if D.shape[1] == 2 else D

    def predict_proba(self, X: Any) -> Array:
        """The posterior probability of each class.

        Parameters
        ----------
        X : data of shape (n_samples, n_features)

        Returns
        -------
        array of shape (n_samples, n_classes)
        """
        return self._of_classes("probabilities", X, "predict_proba")

    def predict_log_proba(self, X: Any) -> Array:
        """The logarithms of `predict_proba`, accurate even if probabilities underflow.

        Parameters
        ----------
        X : data of shape (n_samples, n_features)

        Returns
        -------
        array of shape (n_samples, n_classes)
        """
        return self._of_classes("log_probabilities", X, "predict_log_proba")

    @property
    def coef_(self) -> Array:
        """The coefficients of `decision_function`: a row for each class, or one row for two classes."""
        return self._functions()[0]

    @property
    def intercept_(self) -> Array:
        """The constants of `decision_function`: one for each class, or one for two classes."""
        return self._functions()[1]

    # ---- classes ------------------------------------------------------------------------------

    def _functions(self) -> tuple[Array, Array]:
        """Coefficients and constants of the discriminant functions, which are linear functions of the row."""
        classifier = self._classifier
        if isinstance(classifier, str):
            raise AttributeError(classifier)  # noqa: TRY004  # so that hasattr is False
        centred = classifier.means - classifier.priors @ classifier.means
        slopes = np.linalg.solve(classifier.covariance, centred.T)
        constants = classifier.decision(like(self.scalings_, np.zeros((1, self.n_features_in_))))[0, :]
        if len(centred) == 2:
            slopes, constants = slopes[:, 1:] - slopes[:, :1], constants[1:] - constants[:1]
        return (self.scalings_ @ like(self.scalings_, slopes)).T, constants

    def _classifier_or_reason(self, X: Any, labels: HostArray, w: HostArray | None) -> LinearClassifier | str:
        """A classifier, or the reason why none exists; reads rows only if the solution does not store classes."""
        if self.classes_ is None:
            return (
                "classes of rows are predicted where fit had a class for each row; it had a matrix of labels. Pass "
                "transform(X) to a classifier of several labels."
            )
        rows = {} if self.solution_.classes is not None else {"X": X, "y": labels, "sample_weight": w}
        try:
            return self.solution_.classifier(**rows, priors=self.priors)
        except InvalidProblem as error:
            return str(error)

    def _of_classes(self, of: str, X: Any, method: str) -> Array:
        """Call a method of the classifier with checked rows."""
        rows = self._new_rows(X, method)
        if isinstance(self._classifier, str):
            raise MissingCapability(self._classifier)
        return getattr(self._classifier, of)(rows)


def _labels(y: Any) -> Any:
    """Copy y to the host, as a class vector or a matrix of labels."""
    if scipy.sparse.issparse(y):
        return y
    if not is_array(y):
        raise InvalidProblem(f"y must be an array or a sparse matrix; got {type(y).__name__}.")
    host = to_host(y)
    host = column_or_1d(host, warn=True) if host.shape[1:] == (1,) else host
    if host.ndim == 1:
        check_classification_targets(host)
    return host


def _classes(labels: Any, w: HostArray | None) -> tuple[HostArray | None, Any]:
    """Classes of rows with positive weight, and the class index of each row; (None, labels) for a matrix of labels."""
    if labels.ndim == 2:
        return None, labels
    classes = np.unique(labels if w is None else labels[w > 0])
    if len(classes) < 2:
        raise InvalidProblem("y must have rows of at least two classes; got one class. Pass more rows.")
    codes = np.minimum(np.searchsorted(classes, labels), len(classes) - 1)
    return classes, np.where(classes[codes] == labels, codes, 0)  # rows of other classes have weight 0


def _on_device_of(labels: Any, X: Any) -> Any:
    """Copy labels to the library and device of X; return them unchanged if X is on the host."""
    there = X if is_array(X) or scipy.sparse.issparse(X) else X.device.zeros((1,), np.float32)
    if scipy.sparse.issparse(X) or isinstance(there, np.ndarray):
        return labels
    return from_host(labels.toarray() if scipy.sparse.issparse(labels) else labels, like=there)
