"""The error of predictions for rows that were not fitted, and generalized cross-validation.

Problem: score all ridges of one split from second moments of its training rows and of its held-out rows.
Method: AᵀA = UΛUᵀ is decomposed once, and x = U(Λ + r)⁻¹UᵀAᵀB for each ridge. The squared error ‖B − A x‖² on
held-out rows is a quadratic form of their second moments about their means. Its terms cancel if the fit is good. So
each error has a bound of its rounding, and errors that may be rounding are recomputed from the rows themselves.
Generalized cross-validation needs no split: see `linspec.families.least_squares.generalized`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from linspec import cost
from linspec.arrays import HOST, HostArray
from linspec.families.least_squares.errors_of_moments import (
    moved_by,
    rounded_fits,
    solved,
    squared_error,
)
from linspec.families.least_squares.generalized import generalized
from linspec.rows import Moments
from linspec.studies.held_out.grams import Split, share_lost
from linspec.studies.held_out.predictions import PredictionScore, RSquared, errors_of_rows
from linspec.studies.held_out.scores import Generalized, Metric, Rounded


class SquaredErrors(PredictionScore):
    """The mean squared error of predictions, over held-out rows (weighted) and right-hand sides."""

    def of_moments(
        self, problem: Any, split: Split, ridges: Sequence[Any], ks: Sequence[int | None]
    ) -> Rounded:
        held, total, m = split.held_out, float(split.spreads["B"].sum()), int(problem.B.shape[1])
        scores, rounding, moved = np.empty((3, len(ridges), 1))
        for i, (x, off) in enumerate(solved(Metric.of(problem, split, "A"), split.training, ridges)):
            error, lost = squared_error(split, x, off)
            scores[i], rounding[i] = self.of_errors(error, total, held.count, m), share_lost(lost, error)
            moved[i] = off
        return Rounded(scores, rounding, moved)

    def seconds_of_split(self, problem: Any, ridges: int) -> float:
        p, m = float(problem.A.shape[1]), float(problem.B.shape[1])
        return (
            cost.EIGEN * p**3 / cost.FACTOR_RATE
            + (2 * p**2 + ridges * (2 * p**2 + 4 * (p + m) ** 2)) * m / cost.DENSE_RATE
        )

    def rounding_of_solutions(self, problem: Any, solutions: Sequence[Any], moved: HostArray) -> HostArray:
        moments = Moments([problem.A.in_blocks("A")])
        moments.settle()
        squares, found = moments.fitted[0].squares, np.empty((len(solutions), 1))
        for i, solution in enumerate(solutions):
            B, errors, w = next(errors_of_rows(problem, solution))
            x = np.reshape(HOST.place(solution.x), (len(squares), -1))
            off = float(moved[i, 0]) + rounded_fits(squares, x, np.sum(B**2, axis=0), len(B))
            error = float(np.sum(w @ errors**2))
            found[i] = share_lost(moved_by(off, error, float(w.sum())), error)
        return found

    def generalized(
        self,
        problem: Any,
        ridges: Sequence[Any],
        form: str,
        solver: Any,
        rng: Any,
        options: dict[str, Any],
    ) -> Generalized:
        return generalized(problem, ridges, form, solver, rng, options)


class Explained(RSquared, SquaredErrors):
    """R², with the right-hand sides about their means over the held-out rows."""
