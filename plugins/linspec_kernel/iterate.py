"""An iterate of kernel CCA whose answer is computed only if it is inspected or the run ends."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from linspec import Iterate


class Functions(Iterate):
    """Iterate of kernel CCA, with functions of both views that are computed on request.

    Parameters
    ----------
    residual : float
    answer : callable
        Returns the keywords of `problem.conclude`. It is called at most once and is not in checkpoints.
    **more
        As `Iterate` takes them.
    """

    def __init__(self, residual: float, answer: Callable[[], Mapping[str, Any]], **more: Any) -> None:
        super().__init__(residual, **more)
        self._answer = cache(answer)

    def weights(self) -> Mapping[str, Any]:
        """Functions of both views and the kernels, as `problem.conclude` takes them."""
        return self._answer()
