"""Projected gradient descent for CCA, which does not lead to the answer: a demonstration.

Problem: the same as AppGrad's.
Method: on the normalised blocks themselves, which are then normalised again,

    (1)  Φ ← Φ − (η/n) (SxΦ − CΨ),    Ψ ← Ψ − (η/n) (SyΨ − CᵀΦ),
    (2)  Φ ← Φ (ΦᵀSxΦ)^(-1/2),        Ψ ← Ψ (ΨᵀSyΨ)^(-1/2).

A canonical pair with correlation ρ < 1 has the gradient (1 − ρ) Sx φ ≠ 0, which is not parallel to φ: a step moves
away from the pair (Proposition 2.1, Example 4.2.3). Do not choose this solver to compute an answer.
Source: Ma, Lu & Foster 2015, ICML, Algorithm 2; Lu 2015 (thesis), Algorithm 8.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from linspec import Status, form_option, limit_option, option, part, tol_option
from linspec.families.cca import Pairs
from linspec.iteration import Context, Iterate
from linspec.rows import Moments
from linspec.solving import Solver
from linspec_cca.appgrad import begun, moved, normalized

TEXT = "naive-gradient does not converge to canonical pairs; it exists to demonstrate this."


@dataclass(frozen=True, kw_only=True)
class NaiveGradient(Solver):
    """Projected gradient descent, a demonstration of failure (Ma, Lu & Foster 2015, Algorithm 2)."""

    step: float = option(0.05, "step for XᵀX/n", above=0)
    normalizer: Any = part("inverse-sqrt", "normalizer of the blocks", kind="normalizer")
    test_matrix: Any = part("gaussian", "random start", kind="test-matrix")
    tol: float | None = tol_option()
    max_iterations: int = limit_option(500)
    form: str = form_option()

    def iterate(self, problem: Any, moments: Moments, context: Context, start: Any) -> Iterator[Iterate]:
        """Yield normalised blocks after each step."""
        context.note(Status.APPROXIMATE, TEXT)
        first, metrics = begun(self, problem, moments, context, start)
        pairs = normalized(first, self.normalizer)
        step = self.step / moments.fitted[0].total
        while True:
            yield Iterate(pairs.canonical().residual(metrics, problem.k), pairs.arrays)
            W = [moved(pairs, i, pairs.CW[i], step) for i in (0, 1)]  # (1)
            pairs = normalized(Pairs.of(moments, problem.ridge, W), self.normalizer)  # (2)
