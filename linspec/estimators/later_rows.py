"""Estimators to which rows are added: `partial_fit` of methods that follow from second moments.

Problem: scikit-learn's `partial_fit` goes on with rows that come later, and its methods forget a part of the earlier
ones, or are stochastic.
Method: means and second moments of all rows are held (`linspec.HeldMoments`), and the problem on all of them is solved
after each batch. So the answer is that of `fit` on all rows.
"""

from __future__ import annotations

from typing import Any, Self

from linspec.estimators.base import LinspecEstimator
from linspec.process.turns import in_turn
from linspec.solving.held_moments import HeldMoments


class AddsRows(LinspecEstimator):
    """Base of estimators with `partial_fit`.

    A derived class has the attribute `_problem`, the class of its problem, and three methods: `_checked` makes the
    matrices of the problem of X, y, sample_weight, first and least; `_numbers` gives its other arguments; `_learn`
    solves it, and sets the attributes.
    """

    _held: HeldMoments | None = None

    def _fitted(self, X: Any, y: Any, sample_weight: Any, *, least: int) -> Self:
        """Solve the problem on these rows alone."""
        numbers = self._numbers()
        matrices = self._checked(X, y, sample_weight, first=True, least=least)
        with in_turn(self):
            self._held = None
            self._learn(self._problem(*matrices, **numbers, sample_weight=sample_weight))
        return self

    def partial_fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Add rows to those of earlier calls, and solve the problem on all of them.

        Parameters
        ----------
        X : data of shape (n_samples, n_features)
            As for `fit`; columns and their names must be those of the first call.
        y : data of shape (n_samples,) or (n_samples, n_targets), optional
            As for `fit`.
        sample_weight : array of shape (n_samples,), optional
            How often each row counts.

        Returns
        -------
        estimator
            The estimator itself. Its attributes are those of `fit` on all rows since the first call, or since the last
            call of `fit`, whose own rows do not count. As long as there are fewer rows than `n_components`, there are
            fewer components.
        """
        with in_turn(self):  # threads that add at once would each go on from the same rows
            held = self._held or HeldMoments(self._problem)
            numbers = self._numbers()
            matrices = self._checked(X, y, sample_weight, first=self._held is None, least=1)
            held.add(*matrices, sample_weight=sample_weight)
            self._held = held
            if numbers.get("k") is not None:
                numbers["k"] = min(numbers["k"], held.rows)
            self._learn(held.problem(**numbers))
        return self
