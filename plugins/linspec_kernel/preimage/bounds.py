"""Sets for the point u of a kernel function k(·, u), and the nearest points of these sets.

Problem: without a bound, u may have any length and no zeros.
Method: three sets, all columns of a block at once. ("ratio", s) is {|u|₂ = 1, |u|₁ ≤ s}: the nearest point of y is y
over its length where |y|₁ ≤ s|y|₂, else soft(y, θ) over its length, where θ makes |soft|₁ = s|soft|₂. With the q
largest magnitudes in the support, their mean m and standard deviation σ,

    θ = m − s σ/√(q − s²),

and q is the least for which θ is at least the magnitude that comes next: a sort and sums. ("l1", b) and ("l2", b) are
the balls |u|₁ ≤ b and |u|₂ ≤ b.
Source: the ratio of the two lengths as a measure of sparsity, Hoyer 2004, J. Mach. Learn. Res. 5; the ball of |u|₁,
Duchi et al. 2008, ICML, doi:10.1145/1390156.1390191.
Where we differ: θ has a closed form, and no search. Sums are made of differences from the largest magnitude, so that
nearly equal entries lose no digits. The set of "ratio" is not convex: where several entries are exactly equally large
and more than s² of them, the nearest point is not unique, and the first of them gets more than the others.
"""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np

from linspec.arrays import HostArray, reciprocal
from linspec.errors import InvalidProblem, shown

KINDS = ("ratio", "l1", "l2")
"""Kinds of sets."""


@dataclass(frozen=True)
class Bound:
    """A set of points u.

    Attributes
    ----------
    kind : {"ratio", "l1", "l2"}
        {|u|₂ = 1, |u|₁ ≤ size}, {|u|₁ ≤ size}, or {|u|₂ ≤ size}.
    size : float
        At least 1 for "ratio", above 0 for the balls.
    """

    kind: str
    size: float

    @property
    def radius(self) -> float:
        """Unit in which lengths in the set are measured: 1 for "ratio", the radius for a ball."""
        return 1.0 if self.kind == "ratio" else self.size

    def nearest(self, Y: HostArray) -> HostArray:
        """Nearest points of the set.

        Parameters
        ----------
        Y : numpy.ndarray of shape (p, m)
            Finite.

        Returns
        -------
        numpy.ndarray of shape (p, m)
        """
        Y = np.asarray(Y, dtype=np.float64)
        if 0 in Y.shape:
            return Y.copy()
        if self.kind == "l2":
            return np.asarray(Y * np.minimum(self.size * reciprocal(np.linalg.norm(Y, axis=0)), 1.0))
        A = np.abs(Y)
        if self.kind == "l1":
            Z = -np.sort(-A, axis=0)
            excess = np.cumsum(Z, axis=0) - self.size
            count = np.arange(1, len(Z) + 1, dtype=np.float64)[:, None]
            q = len(Z) - 1 - np.argmax((count * Z > excess)[::-1], axis=0)
            threshold = excess[q, np.arange(Z.shape[1])] / (q + 1)
            shrunk = np.copysign(np.maximum(A - threshold, 0.0), Y)
            return np.where(excess[-1] <= 0, Y, shrunk)
        top = A.max(axis=0)
        A = A / np.where(top > 0, top, 1.0)
        A[0, top == 0] = 1.0  # all points of the set are equally near to 0
        lengths = np.linalg.norm(A, axis=0)
        W = A / lengths
        long = np.flatnonzero(A.sum(axis=0) > self.size * lengths)
        if len(long):
            W[:, long] = _thresholded(A[:, long], self.size)
        return np.asarray(np.copysign(W, Y))

    def __str__(self) -> str:
        return f"({self.kind!r}, {self.size:g})"


def as_bound(bound: Any, name: str, columns: int) -> Bound:
    """Bound that an argument describes: a pair (kind, number), or None.

    Parameters
    ----------
    bound : tuple of (str, float), str, Bound, or None
        The text "1.5" is ("ratio", 1.5), and "l2:1" is ("l2", 1.0). None is ("ratio", √p), that is |u|₂ = 1 alone.
    name : str
        Name in messages.
    columns : int
        p.

    Raises
    ------
    InvalidProblem
        The argument is neither a valid pair, nor a `Bound`, nor None.
    """
    if isinstance(bound, Bound):
        return bound
    pair: Any = ("ratio", math.sqrt(columns)) if bound is None else bound
    if isinstance(pair, str):
        pair = (f"ratio:{pair}" if ":" not in pair else pair).split(":", 1)
    with suppress(TypeError, ValueError):
        kind, size = pair[0], float(pair[1])
        if kind in KINDS and len(pair) == 2 and (1.0 if kind == "ratio" else 0.0) <= size < math.inf and size:
            return Bound(kind, size)
    raise InvalidProblem(
        f"{name} must be None or a pair such as ('ratio', 1.5), ('l1', 1.0) or ('l2', 1.0): the kind is one of "
        f"{', '.join(KINDS)}, and the number finite and above 0, for 'ratio' at least 1, which keeps one column, while "
        f"the square root of the columns restricts nothing; got {shown(bound)}."
    )


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
