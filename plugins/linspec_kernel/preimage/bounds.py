"""Sets for the point u of a kernel function k(·, u), and the nearest points of these sets.

Problem: without a bound, u may have any length and no zeros.
Method: three sets, all columns of a block at once: ("ratio", s) is {|u|₂ = 1, |u|₁ ≤ s}, and ("l1", b) and ("l2", b)
are the balls |u|₁ ≤ b and |u|₂ ≤ b. `linspec.linalg.sparse_vectors` has the nearest points.
"""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np

from linspec.arrays import HostArray, reciprocal
from linspec.errors import InvalidProblem, shown
from linspec.linalg import nearest_in_ball, nearest_unit

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
        return nearest_in_ball(Y, self.size) if self.kind == "l1" else nearest_unit(Y, self.size)

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
