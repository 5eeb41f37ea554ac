"""The error of predictions for rows that were not fitted, and generalized cross-validation.

Problem: score all ridges of one split from second moments of its training rows and of its held-out rows.
Method: AᵀA = UΛUᵀ is decomposed once, and x = U(Λ + r)⁻¹UᵀAᵀB for each ridge. The sum of squares of the errors on
held-out rows is that of (B − A x), a quadratic form of their second moments.
Generalized cross-validation needs no split: see `linspec.families.least_squares.generalized`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from linspec import cost
from linspec.arrays import HostArray, to_host
from linspec.families.least_squares.generalized import generalized
from linspec.held_out.grams import Grams, Split
from linspec.held_out.scores import Generalized, HeldOutScore, Metric, weighted_rows


class SquaredErrors(HeldOutScore):
    """The mean of the squared errors of predictions, over held-out rows (by weight) and right-hand sides."""

    label = "mean squared error"
    higher = False

    def of_moments(
        self, problem: Any, split: Split, ridges: Sequence[Any], ks: Sequence[int | None]
    ) -> HostArray:
        held, total = split.held_out, float(split.spreads["B"].sum())
        found = [
            self._of(_error(held, x), total, held.count, problem.B.shape[1])
            for x in _coefficients(problem, split.training, ridges)
        ]
        return np.asarray(found)[:, None]

    def seconds_of_split(self, problem: Any, ridges: int) -> float:
        p, m = float(problem.A.shape[1]), float(problem.B.shape[1])
        return cost.EIGEN * p**3 / cost.FACTOR_RATE + (2 + 4 * ridges) * p**2 * m / cost.DENSE_RATE

    def of_solution(self, problem: Any, solution: Any, ks: Sequence[int | None]) -> HostArray:
        predicted, w = weighted_rows(solution.predict(problem.A, confounds=problem.confounds), problem)
        B = np.asarray(to_host(problem.B.dense()), dtype=np.float64)
        errors = B - np.reshape(predicted, B.shape)
        about = B - w @ B / w.sum()
        error, total = (float(np.sum(w @ D**2)) for D in (errors, about))
        return np.asarray([self._of(error, total, float(w.sum()), B.shape[1])])

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

    def _of(self, error: float, total: float, count: float, columns: int) -> float:
        return error / (count * columns)


class Explained(SquaredErrors):
    """R²: one less the squared errors over the squares of the held-out right-hand sides about their own means."""

    label = "R²"
    higher = True

    def _of(self, error: float, total: float, count: float, columns: int) -> float:
        return 1 - error / total if total > 0 else np.nan


def _coefficients(problem: Any, training: Grams, ridges: Sequence[Any]) -> Iterator[HostArray]:
    """The coefficients for each ridge."""
    eigen, AtB, turned = Metric(training["A", "A"], problem.A), training["A", "B"], None
    for ridge in ridges:
        if eigen.shares(ridge):
            turned = eigen.vectors.T @ AtB if turned is None else turned
            yield eigen.vectors @ (turned / (eigen.values + ridge)[:, None])
        else:
            factor = eigen.whitener(ridge)
            x = factor.solve_adjoint(factor.solve(AtB))
            rest = AtB - training["A", "A"] @ x - ridge * x
            yield x + factor.solve_adjoint(factor.solve(rest))  # one refinement


def _error(held: Grams, x: HostArray) -> float:
    """‖B − A x‖² of the held-out rows."""
    squares = np.trace(held["B", "B"]) - 2 * np.sum(x * held["A", "B"]) + np.sum(x * (held["A", "A"] @ x))
    return max(float(squares), 0.0)
