"""The correlation that canonical weights of training rows reach on held-out rows.

Problem: score all ridges and all k of one split from second moments of its training rows and of its held-out rows.
Method: Sx = UΛUᵀ and Sy = VMVᵀ are decomposed once. For each pair of ridges the leading singular triplets of (Λ +
rx)^(-1/2) UᵀCV (M + ry)^(-1/2) give the weights of the largest k; the leading columns of these are the weights of every
smaller k. The Gram matrix of the held-out variates about the training means gives the correlations.
Source: the scores are those of `linspec.families.cca.variates`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np

from linspec import cost
from linspec.algebra.small_matrices import EPS
from linspec.algebra.whitener import leading_svd
from linspec.arrays import HOST, HostArray, namespace
from linspec.families.cca.variates import captured, componentwise
from linspec.studies.held_out.grams import Split
from linspec.studies.held_out.scores import FEWEST, HeldOutScore, Metric, Rounded, still, weighted_rows


class TotalCaptured(HeldOutScore):
    """Total correlation captured by k pairs of variates: `total` of `CCASolution.score`.

    The score is the sum of the canonical correlations between the k variates of X and the k variates of Y on the
    held-out rows. The variates are rotated so that this sum is largest on these rows, so the sum cannot decrease with
    k: every further pair adds something, even if only by chance.
    """

    label = "total correlation captured"
    together = True

    def of_moments(
        self, problem: Any, split: Split, ridges: Sequence[Any], ks: Sequence[int | None]
    ) -> Rounded:
        rows, (found, rounding) = split.held_out.rows, np.zeros((2, len(ridges), len(ks)))
        most = max(k or 1 for k in ks)
        for i, (x, y, condition) in enumerate(_weights(problem, split, ridges, most)):
            both = split.images([{"X": x}, {"Y": y}])
            G = both.spread + np.outer(both.means * both.count, both.means)
            found[i] = self._scored(problem, G, both.means, both.count, rows, ks)
            lost = np.sum(np.reshape(both.share_lost, (2, -1)), axis=0)
            rounding[i] = [split.rounding * condition + float(lost[:k].sum()) for k in ks]
        return Rounded(found, rounding / np.maximum(np.abs(found), 1.0))

    def seconds_of_split(self, problem: Any, ridges: int) -> float:
        p, q = (float(A.shape[1]) for A in problem.matrices.values())
        shorter, longer = min(p, q), max(p, q)
        once = cost.EIGEN * (p**3 + q**3) / cost.FACTOR_RATE + 2 * p * q * (p + q) / cost.DENSE_RATE
        products = 2 * longer * shorter**2 + 4 * (p + q) ** 2 * int(problem.width)
        return once + ridges * (products / cost.DENSE_RATE + 4 / 3 * shorter**3 / cost.FACTOR_RATE)

    def of_solution(self, problem: Any, solution: Any, ks: Sequence[int | None]) -> HostArray:
        scores: HostArray = self.of_solutions(problem, [solution], ks)[0]
        return scores

    def of_solutions(self, problem: Any, solutions: Sequence[Any], ks: Sequence[int | None]) -> HostArray:
        """Score all solutions by one product with each view, because they differ only in their weights."""
        xp = namespace(solutions[0].x_weights)
        weights = {
            name: xp.concat([getattr(solution, name) for solution in solutions], axis=1)
            for name in ("x_weights", "y_weights")
        }
        P, Q = replace(solutions[0], **weights).transform(problem.X, problem.Y, confounds=problem.confounds)
        (P, w), (Q, _) = weighted_rows(P, problem), weighted_rows(Q, problem)
        edges = np.cumsum([0, *(len(solution.correlations) for solution in solutions)]).tolist()
        return np.asarray(
            [self._of_variates(problem, P[:, a:b], Q[:, a:b], w, ks) for a, b in pairwise(edges)]
        )

    def _of_variates(
        self, problem: Any, P: HostArray, Q: HostArray, w: HostArray, ks: Sequence[int | None]
    ) -> HostArray:
        Z, count = np.hstack([P, Q]), float(w.sum())
        G = Z.T @ (Z * w[:, None])
        return self._scored(problem, G, w @ Z / count, count, int(np.count_nonzero(w)), ks)

    def _scored(
        self,
        problem: Any,
        G: HostArray,
        means: HostArray,
        count: float,
        rows: int,
        ks: Sequence[int | None],
    ) -> HostArray:
        """Score each k from the Gram matrix of all variates of X and Y; NaN for rows that say nothing about them."""
        constant = still(np.diag(G), means, count, rows) & bool(problem.center)
        G = G * np.outer(~constant, ~constant)
        pairs, found = len(G) // 2, np.zeros(len(ks))
        if rows < FEWEST:
            return np.full(len(ks), np.nan)
        for j, k in enumerate(ks):
            first = np.arange(pairs if k is None else min(k, pairs))
            some = np.concatenate([first, pairs + first])
            if len(first):
                found[j] = self._of(G[np.ix_(some, some)], constant[some].reshape(2, -1))
        return found

    def _of(self, G: HostArray, constant: HostArray) -> float:
        return math.nan if constant.all(axis=1).any() else captured(G, constant.shape[1], cut=EPS)


class SumOfCorrelations(TotalCaptured):
    """The sum of the signed correlations of the pairs, without rotation; chance does not change it on average."""

    label = "sum of correlations"

    def _of(self, G: HostArray, constant: HostArray) -> float:
        return math.nan if constant.any() else float(componentwise(G, constant.shape[1]).sum())


def _weights(problem: Any, split: Split, ridges: Sequence[Any], k: int) -> Any:
    """Yield for each ridge the canonical weights of both views on the training rows, and a condition number.

    There are k columns or fewer; the condition number is the sum of the condition numbers of both views.
    """
    X, Y = (Metric.of(problem, split, name) for name in problem.matrices)
    C, between = split.training["X", "Y"], None
    for rx, ry in ridges:
        condition = X.condition(rx) + Y.condition(ry)
        if X.shares(rx) and Y.shares(ry):
            between = X.vectors.T @ C @ Y.vectors if between is None else between
            dx, dy = 1 / np.sqrt(X.values + rx), 1 / np.sqrt(Y.values + ry)
            U, _, V = _leading(dx[:, None] * between * dy, k)
            yield X.vectors @ (dx[:, None] * U), Y.vectors @ (dy[:, None] * V), condition
        else:
            Bx, By = X.inverse_root(rx), Y.inverse_root(ry)
            U, _, V = _leading(Bx.T @ C @ By, k)
            yield Bx @ U, By @ V, condition


def _leading(T: HostArray, k: int) -> Any:
    if 0 in T.shape:
        return np.zeros((T.shape[0], 0)), np.zeros(0), np.zeros((T.shape[1], 0))
    return leading_svd(T, k, HOST)
