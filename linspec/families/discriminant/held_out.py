"""Scores of held-out rows: how much discriminant directions explain of their targets, and the share of right classes.

Problem: score all ridges and all k of one split from second moments of its training rows and of its held-out rows.
Method: M = XᵀX = UΛUᵀ is decomposed once. For each ridge the left singular vectors of (Λ + r)^(-1/2) UᵀXᵀH give the
weights W. The score is Pillai's trace of the held-out rows, the sum of the squared canonical correlations of X W with
the targets, about their own means if X is centred. It is between 0 and k, and depends neither on the scale of the
targets nor on the ridge.
Source: Pillai 1955, Ann. Math. Stat. 26:117, doi:10.1214/aoms/1177728599.
Where we differ: targets of `linspec.targets.lda` are scaled anew by the class sizes of the training rows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

import linspec as ls
from linspec.arrays import HOST, HostArray, reciprocal, to_host
from linspec.errors import MissingCapability
from linspec.linalg import EPS, leading_svd, whitening
from linspec.solving.prediction_score import prediction_score
from linspec.studies.held_out.grams import Split
from linspec.studies.held_out.scores import (
    FEWEST,
    HeldOutScore,
    RidgeMetric,
    Rounded,
    first_components,
    still,
    weighted_rows,
)
from linspec.targets import class_codes


class PillaiTrace(HeldOutScore):
    """The sum of the squared canonical correlations of the variates of held-out rows with their targets."""

    label = "Pillai's trace"

    def of_moments(
        self, problem: ls.Discriminant, split: Split, ridges: Sequence[Any], ks: Sequence[int | None]
    ) -> Rounded:
        training = split.training
        held = split.held_out
        turn = _turn(problem, split.squares["H"])
        eigen = RidgeMetric(problem, split, "X")
        C = training["X", "H"] @ turn
        of = held.spread if problem.center else lambda a, b: held[a, b]
        Sx = of("X", "X")
        Sxh = of("X", "H") @ turn
        T = whitening(turn.T @ of("H", "H") @ turn)
        if held.rows < FEWEST or not T.shape[1]:  # such as rows of one class
            return Rounded(*np.full((2, len(ridges), len(ks)), [[[math.nan]], [[0.0]]]))
        length = math.sqrt(float(np.trace(turn.T @ training["H", "H"] @ turn)))
        most = max(k or problem.targets for k in ks)
        traces, rounding = np.zeros((2, len(ridges), len(ks)))
        for i, ridge in enumerate(ridges):
            B = eigen.shortest(eigen.inverse_root(ridge), ridge)
            if 0 in (B.shape[1], C.shape[1]):
                continue
            U, s, _ = leading_svd(B.T @ C, most, HOST)
            condition = eigen.condition(ridge)
            noise = split.rounding * length * math.sqrt(min(condition, 1 / EPS))
            W = B @ U[:, s > max(problem.resolution * s[0], noise)]
            images = split.images([{"X": W}])
            constant = still(images.squares, images.means, held.count, held.rows) & bool(problem.center)
            traces[i] = _traces(W.T @ Sx @ W, W.T @ (Sxh @ T), constant, ks)
            rounding[i] = [split.rounding * condition + float(images.share_lost[:k].sum()) for k in ks]
        return Rounded(traces, rounding / np.maximum(np.abs(traces), 1.0))

    def of_solution(self, problem: Any, solution: Any, ks: Sequence[int | None]) -> HostArray:
        P, w = weighted_rows(solution.transform(problem.X, confounds=problem.confounds), problem)
        H = HOST.asarray(problem.H.dense())
        H = H if problem.factor is None else H @ to_host(problem.factor)
        rows = int(np.count_nonzero(w))
        count = float(w.sum())
        constant = np.zeros(P.shape[1], dtype=bool)
        if problem.center:
            constant = still(w @ P**2, w @ P / count, count, rows)
            P, H = (block - w @ block / count for block in (P, H))
        wH = H * w[:, None]
        T = whitening(H.T @ wH)
        if rows < FEWEST or not T.shape[1]:
            return np.full(len(ks), math.nan)
        return _traces(P.T @ (P * w[:, None]), P.T @ (wH @ T), constant, ks)


class Accuracy(HeldOutScore):
    """The share of the held-out rows whose class is predicted, for targets that `linspec.targets.lda` made."""

    label = "accuracy"

    def of_solution(self, problem: Any, solution: Any, ks: Sequence[int | None]) -> HostArray:
        truth = problem.labels  # rows without a class do not count
        if truth is None:
            raise MissingCapability(
                "accuracy needs the class of each row, which targets.lda of a class vector on the host knows; these "
                'targets know none. Pass score="pillai".'
            )
        w = problem.sample_weight
        if not np.any((class_codes(truth)[0] >= 0) & (True if w is None else w > 0)):
            return np.full(len(ks), math.nan)
        predictions = (
            first_components(solution, k).predict(problem.X, confounds=problem.confounds) for k in ks
        )
        return np.array(
            [
                prediction_score(part, truth, solution.classes, problem.sample_weight).total
                for part in predictions
            ]
        )


def _turn(problem: ls.Discriminant, squares: HostArray) -> HostArray:
    """The matrix K for which the labels `problem.H` times K are the targets, scaled for the training rows.

    If the problem has a `factor`, K is this factor. If the targets come from classes, K is diagonal and divides each
    column of the labels by its length over the training rows; `squares` holds the squares of these lengths. Otherwise
    K is the identity.
    """
    if problem.factor is not None:
        return np.asarray(to_host(problem.factor))
    return np.diag(np.ones(len(squares)) if problem.classes is None else reciprocal(np.sqrt(squares)))


def _traces(S: HostArray, C: HostArray, constant: HostArray, ks: Sequence[int | None]) -> HostArray:
    """Pillai's trace of the leading k variates and the targets, for each k.

    S is the Gram matrix of the variates over the held-out rows. C holds the inner products of the variates with the
    targets, which are whitened over the same rows. Let S₁ be the first k rows and columns of S, C₁ the first k rows of
    C, and TᵀS₁T = I. The trace is ‖TᵀC₁‖² in the Frobenius norm. It is NaN if all variates, one or more,
    are `constant`.
    """
    traces = np.zeros(len(ks))
    for j, k in enumerate(ks):
        T = whitening(S[:k, :k])
        nothing = len(constant) and constant[:k].all()
        traces[j] = math.nan if nothing else float(np.sum((T.T @ C[:k]) ** 2))
    return traces
