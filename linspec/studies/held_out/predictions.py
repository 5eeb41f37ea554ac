"""The mean squared error and R² of predictions for held-out rows.

Problem: several problems predict targets, and score the predictions by sums of squares of the same two kinds.
Method: a family computes, from moments or from the rows, the squared errors and the squares of the held-out targets
about their means. Either score follows from the two.

Predictions by components are scored for all ridges and k of one split from moments. The problem computes factors R and
Q for each ridge from the training moments; the coefficients of the first k components are their first k columns, R Qᵀ.
The squared error on held-out rows is tr(YᵀY) − 2 tr(QRᵀXᵀY) + tr(RᵀXᵀX R QᵀQ): a component adds one column to Rᵀ[XᵀY]
and to RᵀXᵀX R. Where a fit is good the terms cancel. So each error has a bound of its rounding: of the terms, and of
the inverse of training moments.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from linspec.arrays import HostArray, reciprocal, to_host
from linspec.linalg.variation import r_squared, squares_about_means
from linspec.studies.held_out.grams import ROUNDING, Split, share_lost
from linspec.studies.held_out.scores import HeldOutScore, Ks, RidgeMetric, Rounded, weighted_rows


class PredictionScore(HeldOutScore):
    """The mean squared error of predictions, over held-out rows (weighted) and targets."""

    label = "mean squared error"
    higher = False

    def of_solution(self, problem: Any, solution: Any, ks: Ks) -> HostArray:
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

    def of_errors(self, error: float, total: float, count: float, columns: int) -> float:
        return float(r_squared(error, total))


class SquaredErrors(PredictionScore):
    """The mean squared error of predictions, over held-out rows (weighted) and right-hand sides.

    The problem has the matrices X and Y and these methods:

    - ``factors_of_moments(metric, C, ridge, k)``, with the `RidgeMetric` of XᵀX and C = XᵀY, NumPy arrays of the
      training rows: R of shape (p, m), Q of shape (q, m) with m at most k, and the factor by which the computation of R
      magnifies the rounding of moments.
    - ``seconds_of_factors(ridges)``: an estimate of the seconds that this takes for so many ridges.
    """

    def of_moments(self, problem: Any, split: Split, ridges: Sequence[Any], ks: Ks) -> Rounded:
        """Score every ridge and k of one split."""
        training, held = split.training, split.held_out
        metric, most = RidgeMetric(problem, split, "X"), max(k or 0 for k in ks)
        units = reciprocal(split.factors("Y"))  # errors are in the units of Y
        own = float(np.sum(split.unscaled_squares("Y")))  # also of targets that were constant in training
        total, columns = float(split.spreads["Y"].sum()), int(problem.Y.shape[1])
        scores, rounding = np.empty((2, len(ridges), len(ks)))
        for i, ridge in enumerate(ridges):
            R, Q, magnified = problem.factors_of_moments(metric, training["X", "Y"], ridge, most)
            R = metric.shortest(R, ridge)
            Q = Q * units[:, None]
            cross, between = (R.T @ (held["X", "Y"] * units)) * Q.T, (R.T @ (held["X", "X"] @ R)) * (Q.T @ Q)
            for j, k in enumerate(ks):
                m = slice(0, k)
                error = max(float(own - 2 * cross[m].sum() + between[m, m].sum()), 0.0)
                terms = own + 2 * float(np.abs(cross[m]).sum()) + float(np.abs(between[m, m]).sum())
                scores[i, j] = self.of_errors(error, total, held.count, columns)
                rounding[i, j] = share_lost(split.rounding * terms, error) + split.rounding * magnified
        return Rounded(scores, rounding)

    def seconds_of_split(self, problem: Any, ridges: int) -> float:
        """Estimate the seconds of the factors; the products with held-out moments take a small part of them."""
        return float(problem.seconds_of_factors(ridges))


class Explained(RSquared, SquaredErrors):
    """R², with the targets about their means over the held-out rows."""


def errors_of_rows(
    problem: Any, solution: Any, ks: Ks = (None,)
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
