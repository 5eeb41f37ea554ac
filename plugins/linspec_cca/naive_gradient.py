"""Projected gradient descent for CCA, which does not lead to the answer: a demonstration.

Problem: the same as AppGrad's.
Method: Ma, Lu & Foster (2015), Algorithm 2 (Lu 2015, Algorithm 8): Φ ← Φ − η Xᵀ(XΦ − YΨ)/n on the normalised
blocks themselves, then normalised again. A canonical pair with correlation ρ < 1 has the gradient
(Sx − C Ψ Φ⁻¹…)Φ = (1 − ρ) Sx φ ≠ 0, which is not parallel to φ: the step leaves it (Proposition 2.1, Example
4.2.3). Do not choose this solver to compute an answer.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

from linspec import Iterate, IterativeSolver, Run, Status, form_option, limit_option, option, part, tol_option
from linspec_cca.pairs import KEPT, next_pair, start

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

    def iterates(self, problem: Any, run: Run, state: Any = None) -> Iterator[Iterate]:
        """Blocks that are not led to canonical pairs."""
        run.note(Status.APPROXIMATE, TEXT)
        moments = run.moments(self.form, expect=(500, problem.k))
        run.plan(setup=moments.setup_cost + moments.sweep_cost, iteration=moments.sweep_cost)
        normalizer = run.part(self.normalizer)
        if state is None:
            pair = start(problem, run, moments, run.part(self.test_matrix), problem.k).normalized(normalizer)
        else:
            pair = state["pair"]
        step = self.step / moments.total
        while True:
            yield Iterate(pair.canonical_residual(), state={"pair": pair}, **pair.weights(problem.k))
            phi = pair.phi - (pair.Sphi - pair.Cpsi) * step  # Φ ← Φ − η (SₓΦ − CΨ)
            psi = pair.psi - (pair.Spsi - pair.Ctphi) * step  # Ψ ← Ψ − η (S_yΨ − CᵀΦ)
            pair = next_pair(problem, moments, pair, phi, psi).normalized(normalizer)
