"""Gaps between the values of neighbouring components, estimated from the draws of a bootstrap.

Problem: two values of a sample are further apart than those of the source, because noise separates them. Draws from
the sample have its gap, so they rotate less within the plane of both vectors than the sample has rotated.
Method: in the coordinates of the components of all rows, a draw is a k x k matrix M that varies about the diagonal
matrix of the values. The singular values of a 2 x 2 matrix with a positive determinant satisfy (s₁ − s₂)² = (M₁₁ −
M₂₂)² + (M₁₂ + M₂₁)², and the eigenvalues of a symmetric one do so as well. Hence the expected square of the gap of a
sample is the squared gap of the source plus v, the sum of the variances of M₁₁ − M₂₂ and M₁₂ + M₂₁, which is
estimated from the draws. If two values are equal, g² is about exponential with mean v, since both terms have mean 0
and equal variances: exp(−g²/v) is the p-value of a tie.
Source: Hall, Lee, Park & Paul 2009, Bernoulli 15:380, doi:10.3150/08-BEJ154 (tied eigenvalues are made equal before
the draws). Where we differ: they decide by a test which are tied; we reduce every gap by the share of noise.
"""

from __future__ import annotations

import numpy as np

from linspec.arrays import HostArray


def nearest_rotation(T: HostArray) -> HostArray:
    """The orthogonal polar factor of T, which solves the orthogonal Procrustes problem."""
    U, _, Vt = np.linalg.svd(T, full_matrices=False)
    return np.asarray(U @ Vt)


def gaps_of(values: HostArray, crossings: HostArray) -> tuple[HostArray, HostArray]:
    """Estimate the gaps between neighbouring values of the source, and the p-values of ties.

    Parameters
    ----------
    values : numpy.ndarray of shape (k,)
        The values of all rows, decreasing.
    crossings : numpy.ndarray of shape (draws, k, k)
        The matrices M of the draws.

    Returns
    -------
    numpy.ndarray of shape (k - 1,), numpy.ndarray of shape (k - 1,)
    """
    i = np.arange(len(values) - 1)
    split = crossings[:, i, i] - crossings[:, i + 1, i + 1]
    turned = crossings[:, i, i + 1] + crossings[:, i + 1, i]
    v, squares = np.var(split, axis=0) + np.var(turned, axis=0), np.diff(values) ** 2
    ties = np.exp(-np.divide(squares, v, out=np.where(squares > 0, np.inf, 0.0), where=v > 0))
    return np.sqrt(np.maximum(squares - v, 0.0)), ties


def excess_of(values: HostArray, gaps: HostArray) -> HostArray:
    """Return the differences values − ρ̃, which are subtracted from the diagonals of the matrices M of the draws.

    ρ̃ are decreasing numbers with the given gaps between neighbours. Their mean is the mean of the values.
    """
    gains = np.append(np.cumsum((-np.diff(values) - gaps)[::-1])[::-1], 0.0)
    return np.asarray(gains - gains.mean())


def groups_of(ties: HostArray, count: int, alpha: float) -> tuple[tuple[int, ...], ...]:
    """Group components, counted from 0, into sets of neighbours whose values may be equal."""
    runs = np.split(np.arange(count), np.flatnonzero(ties <= alpha) + 1)
    return tuple(tuple(int(i) for i in run) for run in runs if len(run))
