"""An iterate whose answer is computed only if it is inspected or the run ends."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from linspec import Iterate


class Functions(Iterate):
    """Functions of the views, as keywords of `problem.conclude` that are computed on request.

    Parameters
    ----------
    residual : float
    current : callable
        Returns the keywords, without a product. It is called at most once and is not in checkpoints.
    closed : callable, optional
        Returns the keywords for the end of a run, and may take products for them; by default `current`.
    **more
        As `Iterate` takes them.
    """

    def __init__(
        self,
        residual: float,
        current: Callable[[], Mapping[str, Any]],
        closed: Callable[[], Mapping[str, Any]] | None = None,
        **more: Any,
    ) -> None:
        super().__init__(residual, **more)
        self._current, self._closed = cache(current), cache(closed or current)

    def weights(self) -> Mapping[str, Any]:
        """Keywords of `problem.conclude`, without a product."""
        return self._current()

    def answer(self) -> Mapping[str, Any]:
        """Keywords of `problem.conclude` where the run ends."""
        return self._closed()
