"""The error of predictions for rows that were not fitted, for every number of components, from second moments.

Problem: score all k of one split from the moments of its training rows and of its held-out rows.
Method: one deflation of the training moments has the coefficients B of every k. The squared error on held-out rows is
tr(YᵀY) − 2 tr(BᵀXᵀY) + tr(BᵀXᵀX B), where B = R Qᵀ: a component adds one column to Rᵀ[XᵀY] and to RᵀXᵀX R.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from linspec import HeldOutScore
from linspec.arrays import HOST, HostArray, reciprocal
from linspec.cost import DENSE_RATE
from linspec_pls.regression.components import deflated
from linspec_pls.regression.gram import component_seconds
from linspec_pls.regression.solution import errors_of_rows


class SquaredErrors(HeldOutScore):
    """The mean squared error of predictions, over held-out rows (weighted) and right-hand sides."""

    label = "mean squared error"
    higher = False

    def of_moments(
        self, problem: Any, split: Any, ridges: Sequence[Any], ks: Sequence[int | None]
    ) -> HostArray:
        """Score every k of one split."""
        S, C, most = split.training["X", "X"], split.training["X", "Y"], max(k or 0 for k in ks)
        found, held = deflated(C, lambda w: S @ w, most, HOST), split.held_out
        R, Q = found.R, found.Q * reciprocal(split.factors("Y"))[:, None]
        cross = R.T @ (held["X", "Y"] * reciprocal(split.factors("Y")))
        between, G = R.T @ (held["X", "X"] @ R), Q.T @ Q
        own = float(np.sum(np.diag(held["Y", "Y"]) * reciprocal(split.factors("Y")) ** 2))
        total, errors = float(split.spreads["Y"].sum()), []
        for k in ks:
            m = slice(0, k)
            error = own - 2 * np.sum(cross[m] * Q[:, m].T) + np.sum(between[m, m] * G[m, m])
            errors.append(self._of(max(float(error), 0.0), total, held.count, problem.Y.shape[1]))
        return np.tile(errors, (len(ridges), 1))

    def seconds_of_split(self, problem: Any, ridges: int) -> float:
        """Estimate the seconds of one deflation, and of the products with held-out moments."""
        sizes = problem.sizes()
        return float(sizes.k) * (4.0 * float(sizes.p) ** 2 / DENSE_RATE + component_seconds(sizes))

    def of_solution(self, problem: Any, solution: Any, ks: Sequence[int | None]) -> HostArray:
        """Score every k of a solution on held-out rows."""
        most, found = int(solution.x_rotations.shape[1]), []
        for k in ks:
            w, Y, errors = errors_of_rows(
                solution,
                problem.X,
                problem.Y,
                k=None if k is None else min(k, most),
                confounds=problem.confounds,
                sample_weight=problem.sample_weight,
            )
            count, about = float(w.sum()), Y - w @ Y / w.sum()
            error, total = (float(np.sum(w @ D**2)) for D in (errors, about))
            found.append(self._of(error, total, count, Y.shape[1]))
        return np.array(found)

    def _of(self, error: float, total: float, count: float, columns: int) -> float:
        return error / (count * columns)


class Explained(SquaredErrors):
    """R²: 1 minus the ratio of the squared errors to the squares of the held-out right-hand sides about their means."""

    label = "R²"
    higher = True

    def _of(self, error: float, total: float, count: float, columns: int) -> float:
        return 1 - error / total if total > 0 else np.nan
