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
from typing import Any

import numpy as np

from linspec.arrays import HOST, HostArray
from linspec.families.cca.variates import captured, componentwise
from linspec.linalg.small_matrices import leading_svd
from linspec.studies.held_out.grams import Split
from linspec.studies.held_out.scores import FEWEST, HeldOutScore, RidgeMetric, Rounded, still, weighted_rows

TIED = 1 - 1e-6
"""Correlations with this quotient are equal: which of them is returned is a choice, and so is its score."""


class TotalCaptured(HeldOutScore):
    """Total correlation captured by k pairs of variates: `total` of `CCASolution.score`.

    The score is the sum of the canonical correlations between the k variates of X and the k variates of Y on the
    held-out rows. The variates are rotated so that this sum is largest on these rows, so the sum cannot decrease with
    k: every further pair adds something, even if only by chance.
    """

    label = "total correlation captured"

    def of_moments(
        self, problem: Any, split: Split, ridges: Sequence[Any], ks: Sequence[int | None]
    ) -> Rounded:
        X, Y = (RidgeMetric(problem, split, name) for name in problem.matrices)
        C = split.training["X", "Y"]
        most = max(k or 1 for k in ks)
        rows = split.held_out.rows
        found, rounding = np.zeros((2, len(ridges), len(ks)))
        for i, (rx, ry) in enumerate(ridges):
            Bx, By = X.inverse_root(rx), Y.inverse_root(ry)
            U, rho, V = Bx[:0].T, np.zeros(0), By[:0].T
            if Bx.shape[1] and By.shape[1]:
                U, rho, V = leading_svd(Bx.T @ C @ By, most + 1, HOST)
            both = split.images([{"X": Bx @ U[:, :most]}, {"Y": By @ V[:, :most]}])
            G = both.spread + np.outer(both.means * both.count, both.means)
            found[i] = self._scored(problem, G, both.means, both.count, rows, ks)
            lost = both.share_lost.reshape(2, -1).sum(axis=0)
            condition = X.condition(rx) + Y.condition(ry)
            rounding[i] = [
                math.inf
                if k and k < len(rho) and rho[k] > TIED * rho[k - 1]
                else split.rounding * condition + lost[:k].sum()
                for k in ks
            ]
        return Rounded(found, rounding / np.maximum(np.abs(found), 1.0))

    def of_solution(self, problem: Any, solution: Any, ks: Sequence[int | None]) -> HostArray:
        variates = solution.transform(problem.X, problem.Y, confounds=problem.confounds)
        (P, w), (Q, _) = (weighted_rows(V, problem) for V in variates)
        Z, count = np.hstack([P, Q]), float(w.sum())
        rows = int(np.count_nonzero(w))
        return self._scored(problem, Z.T @ (Z * w[:, None]), w @ Z / count, count, rows, ks)

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
        return math.nan if constant.all(axis=1).any() else captured(G)


class SumOfCorrelations(TotalCaptured):
    """The sum of the signed correlations of the pairs, without rotation; chance does not change it on average."""

    label = "sum of correlations"

    def _of(self, G: HostArray, constant: HostArray) -> float:
        return math.nan if constant.any() else float(componentwise(G).sum())
