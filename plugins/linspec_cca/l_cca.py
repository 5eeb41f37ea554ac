"""L-CCA: alternating least squares with LING.

Problem: the leading canonical pairs of views with a few long directions, if the correlations are in short directions.
Method: orthogonal iteration with LING for its projections. LING is exact on k_pc principal components of each view, and
makes t₂ gradient steps for the rest. The long directions no longer slow these steps down. After t₁ iterations it ends.
Source: Lu 2015 (thesis), Algorithm 6; Lu & Foster 2014, Large scale canonical correlation analysis with iterative least
squares, arXiv:1407.4508.
Where we differ: as in the solver "als", which this solver calls, but with a fixed number of steps instead of a
tolerance. Its bases are turned to canonical pairs at each half step, so gradient steps are made for these. Both views
begin at random blocks and X is regressed first; the source begins from XG and regresses Y first (see `rounds.py`). The
default variant of LING converges even if the randomized components miss something, and the components come from a few
columns more than k_pc (see "ling"). Remark A.3.1 of the source projects the coefficients onto the complement of the
components after each gradient step; the default variant has a projection of its own instead.
`ling_variant="projection"` with `inner_start="zero"` has the steps of Algorithm 6. A ridge enters the least-squares
problems.

The variant "projection" iterates with the whole view. Rounding, or an inexact component, leaves a part in a long
direction, and each step multiplies this part by about (σ₁/σ)², where σ is a short singular value. The variants "ridge"
and "simplified" also remove the long directions from the view, and avoid this growth. For exact components and without
a ridge "simplified" has the same iterates.

The error bound printed as Theorem 3.4.5 falls with r^(2 t₂) in the number of gradient steps. Its proof confuses a
squared error from Theorem 3.4.2 with an error. The correct rate is r^(t₂), and this rate is observed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from linspec import get_solver, option
from linspec_cca.rounds import FixedRounds


@dataclass(frozen=True, kw_only=True)
class LCCA(FixedRounds):
    """Alternating least squares with LING, t₁ iterations of t₂ steps (Lu 2015, Algorithm 6)."""

    components: int = option(100, "principal components k_pc of each view", at_least=1)
    inner_iterations: int = option(5, "gradient steps t₂ of each least-squares problem", at_least=1)
    ling_variant: str = option(
        "deflated",
        "the variant of LING",
        choices=("deflated", "ridge", "simplified", "projection"),
    )

    def lstsq(self) -> Any:
        """LING with t₂ gradient steps."""
        ling: Callable[..., Any] = get_solver("ling", "least-squares")
        return ling(
            rank=self.components,
            variant=self.ling_variant,
            inner="gd",
            max_iterations=self.inner_iterations,
            test_matrix=self.test_matrix,
        )
