"""The base class of estimators of two views X and y; y is a matrix or one column."""

from __future__ import annotations

from math import isnan
from typing import Any

from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin

from linspec.arrays import Array, is_array
from linspec.estimators.base import (
    SPARSE,
    LinspecEstimator,
    beside,
    checked_array,
    known_to_scikit_learn,
    like,
)
from linspec.frames import check_order
from linspec.solving.problem import Problem
from linspec.studies.held_out.defaults import number_of


class TwoViews(ClassNamePrefixFeaturesOutMixin, TransformerMixin, LinspecEstimator):  # type: ignore[misc]
    """Base class of estimators of two views: it computes canonical variates of rows, and their score."""

    _weights = "x_weights_"

    def _views(self, X: Any, y: Any, **others: Any) -> tuple[Any, Any]:
        """Check X and y of a fit; return X, and y with two dimensions."""
        X, y = self._rows_and_targets(X, y, **others)
        self._one_column = is_array(y) and y.ndim == 1
        return X, with_columns(y)

    def _learn(self, problem: Problem[Any]) -> None:
        found = self.solution_ = self._solved(problem)
        self.x_weights_, self.y_weights_ = found.x_weights, found.y_weights
        self.correlations_ = like(found.x_weights, found.correlations)
        self.n_components_ = self._n_features_out = len(found.correlations)

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
        check_order({"X": X, "y": y})
        X = self._new_rows(X, "transform")
        return (
            self.solution_.transform(X) if y is None else self.solution_.transform(X, second_rows(self, y, X))
        )

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
        check_order({"X": X, "y": y})
        X = self._new_rows(X, "score")
        found = self.solution_.score(X, second_rows(self, y, X))
        return float("nan") if isnan(number_of(found)) else float(found.correlations.sum())

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.target_tags.one_d_labels = False
        tags.target_tags.two_d_labels = True
        tags.target_tags.multi_output = True
        return tags


def second_rows(estimator: LinspecEstimator, y: Any, X: Any) -> Any:
    """Check rows of the second view, and return them in the library and on the device of X."""
    y = beside(y, X)
    if known_to_scikit_learn(y):
        y = checked_array(y, accept_sparse=SPARSE, ensure_2d=False, input_name="y", estimator=estimator)
    return with_columns(y)


def with_columns(y: Any) -> Array:
    """Return a vector as a matrix of one column, and a matrix unchanged."""
    return y[:, None] if is_array(y) and y.ndim == 1 else y
