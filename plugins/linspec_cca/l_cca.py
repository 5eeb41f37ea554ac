"""L-CCA: alternating least squares with LING.

Problem: the leading canonical pairs of views with a few long directions and correlations that live in short ones.
Method: orthogonal iteration with LING for its projections: exact on k_pc principal components of each view, and t₂
gradient steps for the rest, which the long directions no longer slow down. After t₁ iterations it ends.
Source: Lu 2015 (thesis), Algorithm 6; Lu & Foster 2014, Large scale canonical correlation analysis with iterative least
squares, arXiv:1407.4508.
Where we differ: as the solver "als" that it is made of, with a fixed number of steps in place of a tolerance: its
bases are turned to canonical pairs at each half step, so that gradient steps are made for these; both views begin at
random blocks and X is regressed first, where the source begins from XG and regresses Y first (see `rounds.py`). LING is
by default in the variant that converges whatever its randomized components miss, and these come from a few columns more
than k_pc (see "ling"). Remark A.3.1 of the source, a projection of the coefficients onto the complement of the
components after each gradient step, belongs to the printed variant alone, where it undoes most of what inexact
components do; the default variant has a projection of its own. `ling_variant="projection"` with `inner_start="zero"`,
`first="y"` and `components_oversample=0` is Algorithm 6 as printed, and `complement=True` adds the remark. A ridge
enters the least-squares problems.

The variant "projection" iterates with the whole view, and each step multiplies what rounding, or an inexact component,
leaves in a long direction by (σ₁/σ)² or so, σ being a short one. The variants "ridge" and "simplified" take the long
directions out of the view as well and do not suffer from it; for exact components and without a ridge "simplified" has
the same iterates.

The error bound printed as Theorem 3.4.5 falls with r^(2 t₂) in the number of gradient steps. Its proof takes from
Theorem 3.4.2 a squared error for an error: what follows is r^(t₂), and that is what is observed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from linspec import Run, Solver, get_solver, option
from linspec.errors import InvalidOption
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
    components_oversample: int = option(
        10, "random columns beyond the components that find them; 0: as printed", at_least=0
    )
    complement: bool = option(
        False,
        "project each step onto the complement of the components (Remark A.3.1; ling_variant projection)",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.complement and self.ling_variant != "projection":
            raise InvalidOption(
                f'complement belongs to ling_variant="projection"; got ling_variant={self.ling_variant!r}. '
                "Leave it out, or change the variant."
            )

    def lstsq(self, run: Run) -> Solver:
        """LING with as many gradient steps."""
        ling: Callable[..., Solver] = get_solver("ling", "least-squares")
        return ling(
            rank=self.components,
            variant=self.ling_variant,
            inner="gd",
            oversample=self.components_oversample,
            complement=self.complement,
            max_iterations=self.inner_iterations,
            test_matrix=run.part(self.test_matrix),
        )
