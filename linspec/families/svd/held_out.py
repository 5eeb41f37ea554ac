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
from typing import Any, NamedTuple

import numpy as np

import linspec as ls
from linspec.arrays import HOST, Device, HostArray, host_dtype
from linspec.errors import MissingCapability
from linspec.linalg.variation import varies
from linspec.solving import NewRows
from linspec.studies.held_out.grams import Split
from linspec.studies.held_out.scores import HeldOutScore, Rounded, weighted_rows


class Along(NamedTuple):
    """What is known of p columns along the right singular vectors of the training rows.

    `values` are the variances of the training rows along each vector, and `total` that over all columns. `along` are
    the sums of squares of the held-out rows along each vector, and `squares` that over all columns. `rows` is the
    number of held-out rows, or the sum of their weights.
    """

    p: int
    values: HostArray
    total: float
    along: HostArray
    squares: float
    rows: float


class Reconstruction(HeldOutScore):
    """The sum of squares of the held-out rows along the first k right singular vectors, over their sum of squares.

    If the problem centres, the means of the training rows are subtracted from the held-out rows first.
    """

    label = "share reconstructed"

    def of_moments(
        self, problem: ls.SVD, split: Split, ridges: Sequence[Any], ks: Sequence[int | None]
    ) -> Rounded:
        values, V = np.linalg.eigh(split.training["A", "A"])
        values = np.maximum(values[::-1], 0.0) / split.training.count
        V = V[:, ::-1]
        held = split.held_out["A", "A"]
        constant = split.factors("A") == 0  # in training
        squares = float(np.trace(held) + split.unscaled_squares("A")[constant].sum())
        along = (V * (held @ V)).sum(axis=0)
        known = Along(len(V), values, float(values.sum()), along, squares, split.held_out.count)
        scores, magnified = self._scored(known, ks)
        lost = split.rounding * magnified / np.maximum(np.abs(scores), 1.0)
        return Rounded(np.tile(scores, (len(ridges), 1)), np.tile(lost, (len(ridges), 1)))

    def of_solution(self, problem: Any, solution: Any, ks: Sequence[int | None]) -> HostArray:
        unit = Device.of(solution.Vh).asarray(np.eye(problem.A.shape[1]), host_dtype(solution.Vh))
        preprocessed = NewRows.of(solution, "A").images(problem.A, unit, "A", problem.confounds)
        rows, w = weighted_rows(preprocessed, problem)
        if solution.total_squares is None:
            raise MissingCapability(
                "the score needs the squares of all entries. Pass data whose rows can be read."
            )
        count = float(solution.rows)
        along = w @ (rows @ HOST.asarray(solution.Vh).T) ** 2
        squares = float((w @ rows**2).sum())
        values = np.asarray(solution.S) ** 2 / count
        total = solution.total_squares / count
        known = Along(rows.shape[1], values, total, along, squares, float(w.sum()))
        return np.asarray(self._scored(known, ks)[0])

    def _scored(self, known: Along, ks: Sequence[int | None]) -> HostArray:
        """The score of each k, and the factor by which it magnifies rounding of moments."""
        most = len(known.values)
        return np.array([self._of(most if k is None else min(k, most), known) for k in ks]).T

    def _of(self, k: int, known: Along) -> tuple[float, float]:
        some = varies(known.squares, known.rows * known.total)
        return float(known.along[:k].sum()) / known.squares if some else math.nan, 1.0


class LogLikelihood(Reconstruction):
    """The mean log-likelihood of a held-out row under probabilistic principal components."""

    label = "log-likelihood of a row"

    def _of(self, k: int, known: Along) -> tuple[float, float]:
        """Logarithms of variances: their rounding is relative to the sum of all variances."""
        p, total, first, along = known.p, known.total, known.values[:k], known.along[:k]
        noise = (total - float(first.sum())) / max(p - k, 1)
        least = p * np.finfo(np.float64).eps * total
        if (k < p and noise <= least) or first.min(initial=math.inf) <= least:
            return -math.inf, 0.0  # the model has variance zero in some direction
        mahalanobis = float((along / first).sum())
        logarithms = float(np.log(first).sum())
        inverse = float((1 / first).sum())
        if k < p:
            mahalanobis += (known.squares - float(along.sum())) / noise
            logarithms += (p - k) * math.log(noise)
            inverse += 1 / noise
        score = -0.5 * (p * math.log(2 * math.pi) + logarithms + mahalanobis / known.rows)
        return score, total * inverse
