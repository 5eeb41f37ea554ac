"""An iterate of kernel CCA: what makes the answer of it is asked for where somebody looks, or the run ends."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from linspec import Iterate


class Functions(Iterate):
    """Functions of both views, by what the next step reads of them.

    Parameters
    ----------
    residual : float
    answer : callable
        Returns what the law takes. It is asked once, and no checkpoint has it.
    **more
        As `Iterate` takes them.
    """

    def __init__(self, residual: float, answer: Callable[[], Mapping[str, Any]], **more: Any) -> None:
        super().__init__(residual, **more)
        self._answer = cache(answer)

    def weights(self) -> Mapping[str, Any]:
        """What the law takes, with the kernels."""
        return self._answer()
