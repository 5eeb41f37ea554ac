"""G-CCA: alternating least squares with gradient descent.

Problem: the leading canonical pairs of views whose singular values are not far apart.
Method: t₁ orthogonal iterations with t₂ steps of gradient descent instead of each projection. This is L-CCA without
principal components.
Source: Lu 2015 (thesis), section 3.5; Lu & Foster 2014, arXiv:1407.4508.
Where we differ: see `rounds.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from linspec import get_solver
from linspec_cca.rounds import FixedRounds


@dataclass(frozen=True, kw_only=True)
class GCCA(FixedRounds):
    """Alternating least squares with gradient descent, t₁ iterations of t₂ steps (Lu 2015, section 3.5)."""

    def lstsq(self) -> Any:
        """Gradient descent with t₂ steps."""
        descent: Callable[..., Any] = get_solver("gd", "least-squares")
        return descent(max_iterations=self.inner_iterations)
