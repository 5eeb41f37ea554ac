"""Coefficients from second moments, the squared errors of their predictions, and how much of these is rounding.

Problem: ‖B − A x‖² is a quadratic form of the second moments of the rows of A and B. Where the fit is good its terms
are much larger than their sum, so the sum may be rounding; and no number in it shows that.
Method: the form is taken about the means of the rows, so that large means do not take part; what the means add is a
square by itself. The rounding of the form is at most ε times the sum of the magnitudes of its terms. Besides, x is off:
the Gram matrix G and AᵀB are known up to ε‖G‖ and ε‖A‖‖B‖, which moves fitted values A x by at most
ε (‖G‖‖x‖ + ‖A‖‖B‖) max √λ/(λ + r), for eigenvalues λ of G.
Source: Higham 2002, Accuracy and Stability of Numerical Algorithms, sections 3.1 and 20.4,
doi:10.1137/1.9780898718027 (inner products, and normal equations).
Where we differ: the bounds leave out factors of the number of rows, as roundings of many rows cancel in part.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from linspec.arrays import HostArray
from linspec.studies.held_out.grams import ROUNDING, Grams, Split
from linspec.studies.held_out.scores import Metric


def metric(problem: Any, training: Grams) -> Metric:
    """The Gram matrix of A, whose factors all ridges share."""
    return Metric(training["A", "A"], problem.A, None if problem.center else training.spread("A", "A"))


def solved(eigen: Metric, training: Grams, ridges: Sequence[Any]) -> Iterator[tuple[HostArray, float]]:
    """The coefficients for each ridge, and how far rounding may move the fitted values of a training row."""
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
            lengths = np.sqrt(np.diag(training["A", "A"]) + ridge)
            size, most = float(np.linalg.norm(lengths[:, None] * x)), factor.largest
            stretch = float(np.sqrt(eigen.condition(ridge) / most)) if most > 0 else 0.0
        off = ROUNDING * (most * size + float(np.sqrt(most)) * length)
        yield x, off * stretch / float(np.sqrt(training.count)) if off > 0 else 0.0


def squared_error(split: Split, x: HostArray, off: float) -> tuple[float, float]:
    """‖B − A x‖² of the held-out rows, and how much of it may be rounding.

    Parameters
    ----------
    split : Split
    x : numpy.ndarray of shape (p, m)
    off : float
        How far rounding may move the fitted values of a row.
    """
    errors = split.images([{"A": -x, "B": np.eye(x.shape[1])}])
    error = float(errors.squares.sum())
    return error, float(errors.lost.sum()) + moved_by(off, error, errors.count)


def moved_by(off: float, error: float, count: float) -> float:
    """The largest change of an error whose fitted values are off by `off` for rows of a total weight `count`."""
    moved = off * float(np.sqrt(count))
    return moved * (2 * float(np.sqrt(error)) + moved)


def rounded_fits(squares: HostArray, x: HostArray, of_b: HostArray, rows: float) -> float:
    """How far rounding moves the error of a row that comes from the row itself: as far as its products.

    Parameters
    ----------
    squares : numpy.ndarray of shape (p,)
        Of the columns of A, summed over the rows.
    x : numpy.ndarray of shape (p, m)
    of_b : numpy.ndarray of shape (m,)
        The same of B.
    rows : float
    """
    size = np.sqrt(np.maximum(squares, 0.0)) @ np.abs(x) + np.sqrt(of_b)
    return ROUNDING * float(np.linalg.norm(size)) / float(np.sqrt(rows))
