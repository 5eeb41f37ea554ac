"""Nearest points of sets of sparse vectors: the ball of |u|₁, and unit vectors whose |u|₁ is bounded.

Problem: methods that want weights with zeros go to the nearest point of a set after each step.
Method: all columns of a block at once. The nearest point of y in {|u|₂ = 1, |u|₁ ≤ s} is y over its length where
|y|₁ ≤ s|y|₂, else soft(y, θ) over its length, where θ makes |soft|₁ = s|soft|₂. With the q largest magnitudes in the
support, their mean m and standard deviation σ,

    θ = m − s σ/√(q − s²),                                              (1)

and q is the least for which θ is at least the magnitude that comes next: a sort and sums. The ball |u|₁ ≤ b is such a
sort, too.
Source: the ratio of the two lengths as a measure of sparsity, Hoyer 2004, J. Mach. Learn. Res. 5; the ball of |u|₁,
Duchi et al. 2008, ICML, doi:10.1145/1390156.1390191.
Where we differ: θ has a closed form, and no search. Sums are made of differences from the largest magnitude, so that
nearly equal entries lose no digits. The set of unit vectors is not convex: where several entries are exactly equally
large and more than s² of them, the nearest point is not unique, and the first of them gets more than the others.
"""

from __future__ import annotations

import math

import numpy as np

from linspec.arrays import HostArray


def nearest_in_ball(Y: HostArray, size: float) -> HostArray:
    """Nearest points of the ball |u|₁ ≤ size for the columns of a block.

    Parameters
    ----------
    Y : numpy.ndarray of shape (p, m)
        Finite, with p and m above 0.
    size : float
        Above 0.

    Returns
    -------
    numpy.ndarray of shape (p, m)

    Examples
    --------
    >>> import numpy as np
    >>> from linspec.linalg import nearest_in_ball
    >>> nearest_in_ball(np.array([[3.0], [-2.5], [1.0]]), 1.0).ravel()
    array([ 0.75, -0.25,  0.  ])
    """
    A = np.abs(Y)
    Z = -np.sort(-A, axis=0)
    excess = np.cumsum(Z, axis=0) - size
    count = np.arange(1, len(Z) + 1, dtype=np.float64)[:, None]
    q = len(Z) - 1 - np.argmax((count * Z > excess)[::-1], axis=0)
    threshold = excess[q, np.arange(Z.shape[1])] / (q + 1)
    shrunk = np.copysign(np.maximum(A - threshold, 0.0), Y)
    return np.where(excess[-1] <= 0, Y, shrunk)


def nearest_unit(Y: HostArray, s: float) -> HostArray:
    """Nearest points of {|u|₂ = 1, |u|₁ ≤ s} for the columns of a block: also those with the largest product uᵀy.

    Parameters
    ----------
    Y : numpy.ndarray of shape (p, m)
        Finite, with p and m above 0. The first unit vector is taken for a column of zeros.
    s : float
        At least 1.

    Returns
    -------
    numpy.ndarray of shape (p, m)

    Examples
    --------
    >>> import numpy as np
    >>> from linspec.linalg import nearest_unit
    >>> nearest_unit(np.array([[3.0], [-2.5], [1.0]]), 1.2).ravel().round(3)
    array([ 0.974, -0.226,  0.   ])
    """
    A = np.abs(Y)
    top = A.max(axis=0)
    A = A / np.where(top > 0, top, 1.0)
    A[0, top == 0] = 1.0  # all points of the set are equally near to 0
    lengths = np.linalg.norm(A, axis=0)
    W = A / lengths
    long = np.flatnonzero(A.sum(axis=0) > s * lengths)
    if len(long):
        W[:, long] = _thresholded(A[:, long], s)
    return np.asarray(np.copysign(W, Y))


def _thresholded(A: HostArray, s: float) -> HostArray:
    """Columns of soft(A, θ) over their lengths, with |·|₁ = s; A has columns of magnitudes whose largest is 1."""
    p = len(A)
    D = np.sort(1.0 - A, axis=0)  # distances from the largest magnitude, increasing
    count = np.arange(1, p + 1, dtype=np.float64)[:, None]
    D1 = np.cumsum(D, axis=0)
    D2 = np.cumsum(D * D, axis=0)
    # τ = 1 − θ between D[q − 1] and D[q] has q entries in the support; the ratio of lengths grows with τ.
    after = np.vstack([D[1:], np.ones((1, D.shape[1]))])
    sums = count * after - D1
    squares = count * after**2 - 2 * after * D1 + D2
    q = np.argmax(np.vstack([sums[:-1] ** 2 > s * s * squares[:-1], np.ones((1, D.shape[1]), bool)]), axis=0)
    columns = np.arange(D.shape[1])
    support = q + 1.0
    d1, d2 = D1[q, columns], D2[q, columns]
    room = np.maximum(support - s * s, 0.0)
    spread = np.sqrt(np.maximum(support * d2 - d1**2, 0.0))
    tied = (room == 0) | (spread == 0)
    tau = (d1 + s * spread / np.sqrt(np.where(tied, 1.0, room))) / support
    W = np.maximum(tau - (1.0 - A), 0.0)
    for j in np.flatnonzero(tied | (W.sum(axis=0) == 0)):
        W[:, j] = _of_ties(A[:, j], s)
    lengths: HostArray = np.linalg.norm(W, axis=0)
    return W / lengths


def _of_ties(a: HostArray, s: float) -> HostArray:
    """Point w on the equal largest entries of a with |w|₂ = 1 and |w|₁ = s; its first entry is the largest."""
    w = np.zeros(len(a))
    ties = np.flatnonzero(a == a.max())
    m = len(ties)
    if m == 1:
        w[ties] = 1.0
        return w
    rest = (s * (m - 1) - math.sqrt((m - 1) * max(m - s * s, 0.0))) / (m * (m - 1))
    w[ties] = max(rest, 0.0)
    w[ties[0]] = s - (m - 1) * rest
    return w
