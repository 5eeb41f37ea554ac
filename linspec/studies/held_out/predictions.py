"""The mean squared error and R² of predictions for held-out rows.

Problem: several problems predict targets, and score the predictions by sums of squares of the same two kinds.
Method: a family computes, from moments or from the rows, the squared errors and the squares of the held-out targets
about their means. Either score follows from the two.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from linspec.algebra.variation import r_squared, squares_about_means
from linspec.arrays import HostArray, to_host
from linspec.studies.held_out.grams import ROUNDING, share_lost
from linspec.studies.held_out.scores import HeldOutScore, weighted_rows


class PredictionScore(HeldOutScore):
    """The mean squared error of predictions, over held-out rows (weighted) and targets."""

    label = "mean squared error"
    higher = False

    def of_solution(self, problem: Any, solution: Any, ks: Sequence[int | None]) -> HostArray:
        """Score every k of a solution on held-out rows."""
        found = []
        for Y, errors, w in errors_of_rows(problem, solution, ks):
            error, total = float(np.sum(w @ errors**2)), float(np.sum(squares_about_means(Y, w)))
            found.append(self.of_errors(error, total, float(w.sum()), Y.shape[1]))
        return np.array(found)

    def rounding_of_solutions(self, problem: Any, solutions: Sequence[Any], moved: HostArray) -> HostArray:
        """Estimate the rounding of squared errors by that of targets and of predictions of their size."""
        found = np.empty_like(moved)
        for i, solution in enumerate(solutions):
            Y, errors, w = next(errors_of_rows(problem, solution))
            off, length = ROUNDING * np.sqrt(np.sum(w @ Y**2)), np.sqrt(np.sum(w @ errors**2))
            found[i] = share_lost(off * (2 * length + off), length**2)
        return found

    def sizes(self, scores: HostArray) -> HostArray:
        """Return the squared errors, up to a factor."""
        return scores

    def of_errors(self, error: float, total: float, count: float, columns: int) -> float:
        """Compute the score.

        Parameters
        ----------
        error, total : float
            The squared errors, and the squares of the targets about their means, summed over rows and targets.
        count : float
            The number of rows, or the sum of their weights.
        columns : int
            The number of targets.
        """
        return error / (count * columns)


class RSquared(PredictionScore):
    """R²: 1 minus the ratio of the squared errors to the squares of the held-out targets about their means."""

    label = "R²"
    higher = True

    def sizes(self, scores: HostArray) -> HostArray:
        return 1 - scores

    def of_errors(self, error: float, total: float, count: float, columns: int) -> float:
        return float(r_squared(error, total))


def errors_of_rows(
    problem: Any, solution: Any, ks: Sequence[int | None] = (None,)
) -> Iterator[tuple[HostArray, HostArray, HostArray]]:
    """Yield, for each k, the targets, the errors of their predictions, and the weight of each row.

    Parameters
    ----------
    problem : Problem
        With two matrices, of which the second one has the targets.
    solution : Solution
    ks : sequence of int or None
        Numbers of components by which the solution predicts; None for all, or if it has no components.
    """
    X, targets = problem.matrices.values()
    Y = np.asarray(to_host(targets.dense()), dtype=np.float64)
    for k in ks:
        some = {} if k is None else {"k": min(k, int(solution._factors()[0].shape[1]))}
        predicted, w = weighted_rows(solution.predict(X, confounds=problem.confounds, **some), problem)
        yield Y, Y - np.reshape(predicted, Y.shape), w
