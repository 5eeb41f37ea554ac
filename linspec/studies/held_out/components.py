"""The error of predictions by components for rows that were not fitted, for every ridge and number of components.

Problem: score all ridges and k of one split from the moments of its training rows and of its held-out rows.
Method: the problem computes factors R and Q for each ridge from the training moments; the coefficients of the first k
components are their first k columns, R Qᵀ. The squared error on held-out rows is tr(YᵀY) − 2 tr(QRᵀXᵀY) +
tr(RᵀXᵀX R QᵀQ): a component adds one column to Rᵀ[XᵀY] and to RᵀXᵀX R. Where a fit is good the terms cancel. So each
error has a bound of its rounding: of the terms, and of the inverse of training moments.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from linspec.arrays import reciprocal
from linspec.studies.held_out.grams import Split, share_lost
from linspec.studies.held_out.predictions import PredictionScore, RSquared
from linspec.studies.held_out.scores import Metric, Rounded

__all__ = ["Explained", "SquaredErrors"]


class SquaredErrors(PredictionScore):
    """The mean squared error of predictions, over held-out rows (weighted) and right-hand sides.

    The problem has the matrices X and Y and these methods:

    - ``factors_of_moments(metric, C, ridge, k)``, with the `Metric` of XᵀX and C = XᵀY, NumPy arrays of the training
      rows: R of shape (p, m), Q of shape (q, m) with m at most k, and the factor by which the computation of R
      magnifies the rounding of moments.
    - ``seconds_of_factors(ridges)``: an estimate of the seconds that this takes for so many ridges.
    """

    def of_moments(
        self, problem: Any, split: Split, ridges: Sequence[Any], ks: Sequence[int | None]
    ) -> Rounded:
        """Score every ridge and k of one split."""
        training, held = split.training, split.held_out
        metric, most = Metric.of(problem, split, "X"), max(k or 0 for k in ks)
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
