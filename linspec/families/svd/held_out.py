"""Scores of how well singular vectors of training rows describe held-out rows.

Problem: score all k of one split from second moments of its training rows and of its held-out rows.
Method: compute the eigenvectors of the training moments, with decreasing eigenvalues, and the squares of the held-out
rows along them. They give two scores. The share of the squares that k vectors reconstruct grows with k, so it shows how
much they explain, and not which k to choose. The likelihood of rows under probabilistic principal components (Tipping &
Bishop 1999) models the remaining directions as noise of equal variance, and is largest at some k.
Source: Tipping & Bishop 1999, J. R. Stat. Soc. B 61:611, doi:10.1111/1467-9868.00196, equations 4 and 8.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from linspec.arrays import HOST, Home, HostArray, host_dtype
from linspec.errors import MissingCapability
from linspec.linalg.variation import varies
from linspec.solving import NewRows
from linspec.studies.held_out.grams import Split
from linspec.studies.held_out.scores import HeldOutScore, Rounded, weighted_rows


class Reconstruction(HeldOutScore):
    """The sum of squares of the held-out rows along the first k right singular vectors, over their sum of squares.

    If the problem centres, the means of the training rows are subtracted from the held-out rows first.
    """

    label = "share reconstructed"

    def of_moments(
        self, problem: Any, split: Split, ridges: Sequence[Any], ks: Sequence[int | None]
    ) -> Rounded:
        values, V = np.linalg.eigh(split.training["A", "A"])
        values = np.maximum(values[::-1], 0.0) / split.training.count
        V = V[:, ::-1]
        held = split.held_out["A", "A"]
        along = (V * (held @ V)).sum(axis=0)
        constant = split.factors("A") == 0  # in training
        squares = float(np.trace(held) + split.unscaled_squares("A")[constant].sum())
        arguments = values, float(values.sum()), along, squares, split.held_out.count
        sizes = [len(values) if k is None else k for k in ks]
        found = np.asarray([self._of(k, len(values), *arguments) for k in sizes])
        lost = split.rounding * np.asarray([self._magnified(k, values) for k in sizes])
        lost /= np.maximum(np.abs(found), 1.0)
        return Rounded(np.tile(found, (len(ridges), 1)), np.tile(lost, (len(ridges), 1)))

    def _magnified(self, k: int, values: HostArray) -> float:
        """The factor by which a score magnifies rounding of moments; 1 here: no terms of a share of squares cancel."""
        return 1.0

    def of_solution(self, problem: Any, solution: Any, ks: Sequence[int | None]) -> HostArray:
        unit = Home.of(solution.Vh).place(np.eye(problem.A.shape[1]), host_dtype(solution.Vh))
        preprocessed = NewRows.of(solution, "A").images(problem.A, unit, "A", problem.confounds)
        rows, w = weighted_rows(preprocessed, problem)
        if solution.total_squares is None:
            raise MissingCapability(
                "the score needs the squares of all entries. Pass data whose rows can be read."
            )
        count = float(solution.rows)
        values = np.asarray(solution.S) ** 2 / count
        along = w @ (rows @ HOST.place(solution.Vh).T) ** 2
        arguments = values, solution.total_squares / count, along, float((w @ rows**2).sum()), float(w.sum())
        found = [
            self._of(min(len(values) if k is None else k, len(values)), rows.shape[1], *arguments) for k in ks
        ]
        return np.asarray(found)

    def _of(
        self, k: int, p: int, values: HostArray, total: float, along: HostArray, squares: float, count: float
    ) -> float:
        """Score the first k of the singular vectors of p columns.

        `values` holds the variance of the training rows along each vector, and `total` is their variance over all
        columns. `along` holds the sum of squares of the held-out rows along each vector, and `squares` is their sum of
        squares over all columns. `count` is the number of held-out rows, or the sum of their weights.
        """
        return float(along[:k].sum()) / squares if varies(squares, count * total) else np.nan


class LogLikelihood(Reconstruction):
    """The mean log-likelihood of a held-out row under probabilistic principal components."""

    label = "log-likelihood of a row"

    def _magnified(self, k: int, values: HostArray) -> float:
        """Return the factor for logarithms of variances; 0 if the score is −inf.

        The score contains logarithms of the first k variances and of the mean of the other variances. The rounding
        error of each variance is relative to the sum of all variances, so small variances have large relative errors.
        """
        p, total = len(values), float(values.sum())
        widths = [*values[:k], *([float(values[k:].sum()) / (p - k)] if k < p else [])]
        least = min(widths, default=0.0)
        if least <= p * np.finfo(np.float64).eps * total:
            return 0.0  # the likelihood is -inf
        return float(total * sum(1 / width for width in widths))

    def _of(
        self, k: int, p: int, values: HostArray, total: float, along: HostArray, squares: float, count: float
    ) -> float:
        noise = (total - float(values[:k].sum())) / max(p - k, 1)
        least = p * np.finfo(np.float64).eps * total
        if (k < p and noise <= least) or values[:k].min(initial=math.inf) <= least:
            return -math.inf  # the model has variance zero in some direction
        mahalanobis = float((along[:k] / values[:k]).sum())
        logarithms = float(np.log(values[:k]).sum())
        if k < p:
            mahalanobis += (squares - float(along[:k].sum())) / noise
            logarithms += (p - k) * math.log(noise)
        return -0.5 * (p * math.log(2 * math.pi) + logarithms + mahalanobis / count)
