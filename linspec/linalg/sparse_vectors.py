"""Nearest points of sets of sparse vectors: the ball of |u|₁, and unit vectors whose |u|₁ is bounded.

Problem: methods that want weights with zeros go to the nearest point of a set after each step.
Method: all columns of a block at once. The nearest point of y in {|u|₂ = 1, |u|₁ ≤ s} is y over its length where
|y|₁ ≤ s|y|₂, else soft(y, θ) over its length, where θ makes |soft|₁ = s|soft|₂. With the q largest magnitudes in the
support, their mean m and standard deviation σ,

    θ = m − s σ/√(q − s²),                                              (1)

and q is the least for which θ is at least the magnitude that comes next: a sort and sums. The nearest point of the
ball |u|₁ ≤ b is soft(y, θ), where θ is 0 within the ball and else the largest over q of

    θ = m − b/q.                                                        (2)

Source: the ratio of the two lengths as a measure of sparsity, Hoyer 2004, J. Mach. Learn. Res. 5; the ball of |u|₁,
Duchi et al. 2008, ICML, doi:10.1145/1390156.1390191.
Where we differ: θ has a closed form, and no search. Sums are made of differences from the largest magnitude, so that
nearly equal entries lose no digits. The set of unit vectors is not convex: where several entries are exactly equally
large and more than s² of them, the nearest point is not unique, and the first of them get more than the others.
"""

from __future__ import annotations

import numpy as np

from linspec.arrays import HostArray, reciprocal

TIE = 1e-13
"""The largest entries are taken to differ by up to this part, in their order, if they are nearly equal."""


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
    count = np.arange(1.0, len(A) + 1)[:, None]
    means = (np.cumsum(-np.sort(-A, axis=0), axis=0) - size) / count
    return np.copysign(np.maximum(A - np.maximum(means.max(axis=0), 0.0), 0.0), Y)  # (2)


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
    # |y|₁ ≤ √p |y|₂, but for rounding
    long = np.flatnonzero((A.sum(axis=0) > s * lengths) & (s * s < len(A)))
    if len(long):
        W[:, long] = _thresholded(A[:, long], s)
    return np.asarray(np.copysign(W, Y))


def _thresholded(A: HostArray, s: float) -> HostArray:
    """Columns of soft(A, θ) over their lengths, with |·|₁ = s; A has columns of magnitudes whose largest is 1."""
    near = A >= 1.0 - TIE
    A = np.where(near, 1.0 - TIE * np.minimum(np.cumsum(near, axis=0) - 1, 100) / 100, A)  # ties are broken
    D = np.sort(1.0 - A, axis=0)  # distances from the largest magnitude, increasing
    q = np.arange(1.0, len(D) + 1)[:, None]
    sums, room = np.cumsum(D, axis=0), q - s * s
    spread = np.sqrt(np.maximum(q * np.cumsum(D * D, axis=0) - sums**2, 0.0))
    tau = (sums + s * spread * reciprocal(np.sqrt(np.maximum(room, 0.0)))) / q  # 1 − θ for each q (1)
    fits = (room > 0) & (tau <= np.vstack([D[1:], np.full_like(D[:1], np.inf)]))
    tau = tau[np.argmax(fits, axis=0), np.arange(D.shape[1])]
    W = np.maximum(tau - (1.0 - A), 0.0)
    lengths: HostArray = np.linalg.norm(W, axis=0)
    return W / lengths
