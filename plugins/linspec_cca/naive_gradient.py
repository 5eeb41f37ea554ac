"""Projected gradient descent for CCA, which does not lead to the answer: a demonstration.

Problem: the same as AppGrad's.
Method: on the normalised blocks themselves, which are then normalised again,

    Φ ← Φ − η (SxΦ − C Ψ)/n,   Ψ ← Ψ − η (SyΨ − CᵀΦ)/n.

A canonical pair with correlation ρ < 1 has the gradient (1 − ρ) Sx φ ≠ 0, which is not parallel to φ: a step moves
away from the pair (Proposition 2.1, Example 4.2.3). Do not choose this solver to compute an answer.
Source: Ma, Lu & Foster 2015, ICML, Algorithm 2; Lu 2015 (thesis), Algorithm 8.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

from linspec import Iterate, IterativeSolver, Run, Status, form_option, limit_option, option, part, tol_option
from linspec.families.cca import KEPT, first_pairs

TEXT = "naive-gradient does not converge to canonical pairs; it exists to demonstrate this."


@dataclass(frozen=True, kw_only=True)
class NaiveGradient(IterativeSolver):
    """Projected gradient descent, a demonstration of failure (Ma, Lu & Foster 2015, Algorithm 2)."""

    step: float = option(0.05, "step for XᵀX/n", above=0)
    normalizer: Any = part("inverse-sqrt", "normalizer of the blocks", kind="normalizer")
    test_matrix: Any = part("gaussian", "random start", kind="test-matrix")
    tol: float | None = tol_option()
    max_iterations: int = limit_option(500)
    form: str = form_option()

    kept: ClassVar = KEPT
    resumes_after_law: ClassVar = False

    def iterates(self, problem: Any, run: Run, state: Iterate | None = None) -> Iterator[Iterate]:
        """Normalised blocks after each step."""
        run.note(Status.APPROXIMATE, TEXT)
        moments = run.moments(self.form, expect=(500, problem.k))
        normalizer, step = run.part(self.normalizer), self.step / moments.total
        if state is None:
            pairs = first_pairs(problem, run, moments, run.part(self.test_matrix), problem.k)
            pairs = pairs.normalized(normalizer)
        else:
            pairs = state["pairs"]
        while True:
            yield Iterate(
                pairs.canonical().residual,
                x_weights=pairs[0].V,
                y_weights=pairs[1].V,
                state={"pairs": pairs},
            )
            Phi, Psi = (pairs[i].V - (pairs[i].SV - pairs.image(i)) * step for i in (0, 1))
            pairs = pairs.renewed(moments, Phi, Psi).normalized(normalizer)
