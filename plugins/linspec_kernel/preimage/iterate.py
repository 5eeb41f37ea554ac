"""Pairs of points that a search of preimage CCA has found, and the search for the next pair."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from linspec import Run, Status
from linspec.arrays import HostArray
from linspec_kernel.iterate import Functions
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


class Hunt(ABC):
    """Search for pairs, one after the other.

    Attributes
    ----------
    views : pair of PreimageView
    every_view : sequence of PreimageView
        The views, and their samples of rows if there are any.
    kernels : pair of Kernel
        Kernels with all their numbers.
    starts : int
        Number of starts of each pair.
    beginning : dict
        What is drawn once, at the beginning of a run. Its entry "spare" has points of both views for pairs that are not
        found.
    """

    views: tuple[PreimageView, PreimageView]
    every_view: Sequence[PreimageView]
    kernels: Any
    starts: int
    beginning: dict[str, Any]

    def __init__(self, problem: Any, run: Run) -> None:
        self.problem, self.run = problem, run
        moments: Any = run.moments("implicit")
        self.kernels = moments.settle(run.rng)
        self.views = self.every_view = moments.views

    @abstractmethod
    def closed(self, found: Sequence[PointPair], now: Any) -> PointPair:
        """The best points for the pair in progress, where the run ends; they may take products."""

    def iterate(
        self,
        residual: float,
        found: tuple[PointPair, ...],
        now: Any,
        judged: bool,
        ending: Status | None = None,
    ) -> Functions:
        """Iterate of the pairs found and of the pair in progress: the best one of its climb, until the run ends."""
        return Functions(
            residual,
            lambda: self._arrays(found if now is None else (*found, now.climb.best_pair)),
            lambda: self._arrays(found if now is None else (*found, self.closed(found, now))),
            judged=judged,
            ending=ending,
            state={
                "found": found,
                "now": now,
                "removed": [view.removed for view in self.every_view],
                "beginning": self.beginning,
            },
        )

    def resume(self, state: Functions) -> None:
        """Remove the variates of an earlier run again."""
        for view, removed in zip(self.every_view, state["removed"], strict=False):
            view.removed = removed

    def _arrays(self, found: Sequence[PointPair]) -> dict[str, Any]:
        """Arguments of `problem.conclude`: the pairs, with spare points in place of pairs not yet found."""
        spare, k = self.beginning["spare"], int(self.problem.k)
        x, y = (
            view.home.place(np.hstack([*(pair.points[i] for pair in found), spare[i][:, len(found) : k]]))
            for i, view in enumerate(self.views)
        )
        agreeing = np.zeros(int(x.shape[1]), dtype=np.int64)
        agreeing[: len(found)] = [pair.agreeing for pair in found]
        return {
            "x_preimages": x,
            "y_preimages": y,
            "agreeing": agreeing,
            "starts": self.starts,
            "kernels": self.kernels,
        }
