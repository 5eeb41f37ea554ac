"""The error of predictions for rows that were not fitted, from second moments of rows.

Problem: score all ridges of one split from second moments of its training rows and of its held-out rows.
Method: AᵀA = UΛUᵀ is decomposed once, and x = U(Λ + r)⁻¹UᵀAᵀB for each ridge. The squared error ‖B − A x‖² on
held-out rows is a quadratic form of their second moments. Where the fit is good its terms are much larger than their
sum, so the sum may be rounding, and its value does not show that. The form is taken about the means of the rows, so
that large means do not enter it; the part of the means is a square by itself. The rounding of the form is at most ε
times the sum of the magnitudes of its terms. In addition, x has an error: the Gram matrix G and AᵀB are known up to
ε‖G‖ and ε‖A‖‖B‖, which moves fitted values A x by at most ε (‖G‖‖x‖ + ‖A‖‖B‖) max √λ/(λ + r), for eigenvalues λ of G.
Errors that may be rounding are recomputed from the rows themselves.
Source: Higham 2002, Accuracy and Stability of Numerical Algorithms, sections 3.1 and 20.4,
doi:10.1137/1.9780898718027 (inner products, and normal equations).
Where we differ: the bounds leave out factors of the number of rows, as roundings of many rows cancel in part.
Generalized cross-validation needs no split: see `linspec.families.least_squares.generalized`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from linspec import cost
from linspec.arrays import HOST, HostArray
from linspec.rows import Moments
from linspec.studies.held_out.grams import ROUNDING, Grams, Split, share_lost
from linspec.studies.held_out.predictions import PredictionScore, RSquared, errors_of_rows
from linspec.studies.held_out.scores import Generalized, Metric, Rounded


def solved(eigen: Metric, training: Grams, ridges: Sequence[Any]) -> Iterator[tuple[HostArray, float]]:
    """Yield for each ridge the coefficients x, and a bound of the rounding error of the fitted values A x.

    The error of a training row is the norm of its errors over all right-hand sides. The bound is for the root mean
    square of this norm over the training rows.
    """
    AtB, turned = training["A", "B"], None
    length = float(np.sqrt(np.trace(training["B", "B"])))
    for ridge in ridges:
        if eigen.shares(ridge):
            turned = eigen.vectors.T @ AtB if turned is None else turned
            x = eigen.vectors @ (turned / (eigen.values + ridge)[:, None])
            size, most = float(np.linalg.norm(x)), eigen.largest
            stretch = float(np.max(np.sqrt(eigen.values) / (eigen.values + ridge), initial=0.0))
        else:
            factor = eigen.whitener(ridge)
            x = factor.solve_adjoint(factor.solve(AtB))
            rest = AtB - training["A", "A"] @ x - ridge * x
            x += factor.solve_adjoint(factor.solve(rest))  # one refinement
            x = eigen.shortest(x, ridge)
            lengths = np.sqrt(np.diag(training["A", "A"]) + ridge)
            size, most = float(np.linalg.norm(lengths[:, None] * x)), factor.largest
            stretch = float(np.sqrt(eigen.condition(ridge) / most)) if most > 0 else 0.0
        off = eigen.rounding * (most * size + float(np.sqrt(most)) * length)
        yield x, off * stretch / float(np.sqrt(training.count)) if off > 0 else 0.0


def squared_error(split: Split, x: HostArray, off: float) -> tuple[float, float]:
    """Compute ‖B − A x‖² of the held-out rows, and a bound of the rounding in it.

    Parameters
    ----------
    split : Split
    x : numpy.ndarray of shape (p, m)
    off : float
        Bound of the rounding in the fitted values of a row.
    """
    # A right-hand side that was constant in training has the factor 0, but its errors count.
    errors = split.images([{"A": -x, "B": np.eye(x.shape[1])}], unscaled=("B",))
    error = float(errors.squares.sum())
    return error, float(errors.lost.sum()) + moved_by(off, error, errors.count)


def moved_by(off: float, error: float, count: float) -> float:
    """Return the largest change of `error`, a sum of squared errors over rows, if the fitted values change.

    `off` is the root mean square of the change over the rows, and `count` the total weight of the rows.
    """
    moved = off * float(np.sqrt(count))
    return moved * (2 * float(np.sqrt(error)) + moved)


def rounded_fits(squares: HostArray, x: HostArray, of_b: HostArray, rows: float) -> float:
    """Return a bound of the rounding error of b − xᵀa for a row a of A and b of B, if these rows are multiplied by x.

    The rows have average size: each entry is the root mean square of its column. The bound is for the norm over all
    right-hand sides. (The error of a b − xᵀa that comes from moments can be much larger.)

    Parameters
    ----------
    squares : numpy.ndarray of shape (p,)
        Squared lengths of the columns of A over all rows.
    x : numpy.ndarray of shape (p, m)
    of_b : numpy.ndarray of shape (m,)
        Squared lengths of the columns of B.
    rows : float
        The number of rows, or the sum of their weights.
    """
    size = np.sqrt(np.maximum(squares, 0.0)) @ np.abs(x) + np.sqrt(of_b)
    return ROUNDING * float(np.linalg.norm(size)) / float(np.sqrt(rows))


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
        from linspec.families.least_squares.generalized import generalized

        return generalized(problem, ridges, form, solver, rng, options)


class Explained(RSquared, SquaredErrors):
    """R², with the right-hand sides about their means over the held-out rows."""
