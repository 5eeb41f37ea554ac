"""Pairs of points that a search of preimage CCA has found, and the arrays that the law takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from linspec.arrays import HostArray
from linspec_kernel.preimage.views import PreimageView

Points = tuple[HostArray, HostArray]
"""Points of both views, column by column."""


@dataclass(frozen=True)
class PointPair:
    """Pair of points that a search has found.

    Attributes
    ----------
    points : pair of numpy.ndarray of shape (p, 1), (q, 1)
        u and v.
    value, residual : float
    agreeing : int
        Number of starts that led to the best value.
    """

    points: Points
    value: float
    residual: float
    agreeing: int


def arrays(
    views: Sequence[PreimageView], found: Sequence[PointPair], spare: Points, k: int, **more: Any
) -> dict[str, Any]:
    """Arguments of `problem.conclude`: the pairs, with spare points in place of pairs not yet found.

    Parameters
    ----------
    views : pair of PreimageView
    found : sequence of PointPair
    spare : pair of numpy.ndarray
        Spare points of both views.
    k : int
        The number of pairs.
    **more
        Further arguments of `problem.conclude`.
    """
    points = [
        view.home.place(np.hstack([*(pair.points[i] for pair in found), spare[i][:, len(found) : k]]))
        for i, view in enumerate(views)
    ]
    agreeing = [*(pair.agreeing for pair in found), *[0] * k]
    return {
        "x_preimages": points[0],
        "y_preimages": points[1],
        "agreeing": np.asarray(agreeing, dtype=np.int64)[: points[0].shape[1]],
        **more,
    }
