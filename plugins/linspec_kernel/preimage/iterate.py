"""An iterate of preimage CCA: pairs of points, whose arrays are built on request or where the run ends."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from linspec import Iterate
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


class PairsOfPoints(Iterate):
    """Iterate of preimage CCA: the pairs found so far.

    Parameters
    ----------
    residual : float
    current : callable
        Returns the arguments of `problem.conclude`. For the pair in progress they have the start with the largest
        value so far, without a product.
    closed : callable
        Returns the arguments of `problem.conclude` for the end of a run. For the pair in progress they have the start
        that is best on all rows. If the starts were compared on a sample of rows only, a product computes their values
        on all rows, provided the budget allows it. `closed` is called at most once.
    **more
        As `Iterate` takes them.
    """

    def __init__(
        self,
        residual: float,
        current: Callable[[], Mapping[str, Any]],
        closed: Callable[[], Mapping[str, Any]],
        **more: Any,
    ) -> None:
        super().__init__(residual, **more)
        self._current, self._closed = current, cache(closed)

    def weights(self) -> Mapping[str, Any]:
        """Arrays for `problem.conclude`, without a product."""
        return self._current()

    def answer(self) -> Mapping[str, Any]:
        """Arrays for `problem.conclude` where the run ends."""
        return self._closed()


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
