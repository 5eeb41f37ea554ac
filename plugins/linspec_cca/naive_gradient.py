"""Projected gradient descent for CCA, which does not lead to the answer: a demonstration.

Problem: the same as AppGrad's.
Method: Ma, Lu & Foster (2015), Algorithm 2 (Lu 2015, Algorithm 8): Φ ← Φ − η Xᵀ(XΦ − YΨ)/n on the normalised
blocks themselves, then normalised again. A canonical pair with correlation ρ < 1 has the gradient
(Sx − C Ψ Φ⁻¹…)Φ = (1 − ρ) Sx φ ≠ 0, which is not parallel to φ: the step leaves it (Proposition 2.1, Example
4.2.3). Do not choose this solver to compute an answer.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

from linspec import Run, Solution, Solver, Status, form_option, limit_option, option, part, tol_option
from linspec_cca.pairs import next_pair, start


@dataclass(frozen=True, kw_only=True)
class NaiveGradient(Solver):
    """Projected gradient descent, a demonstration of failure (Ma, Lu & Foster 2015, Algorithm 2)."""

    step: float = option(0.05, "step for XᵀX/n", above=0)
    normalizer: Any = part("inverse-sqrt", "normalizer of the blocks", kind="normalizer")
    test_matrix: Any = part("gaussian", "random start", kind="test-matrix")
    tol: float | None = tol_option()
    max_iterations: int = limit_option(500)
    form: str = form_option()

    def solve(self, problem: Any, run: Run) -> Solution:
        """Take steps on a CCA problem."""
        moments = run.moments(self.form, expect=(500, problem.k))
        run.plan(setup=moments.setup_cost + moments.sweep_cost, iteration=moments.sweep_cost)
        normalizer = run.part(self.normalizer)
        pair = start(problem, run, moments, run.part(self.test_matrix), problem.k).normalized(normalizer)
        step = self.step / moments.total
        while run.proceed(
            residual=pair.canonical_residual(),
            current=partial(pair.weights, problem.k),
        ):
            phi = pair.phi - (pair.Sphi - pair.Cpsi) * step
            psi = pair.psi - (pair.Spsi - pair.Ctphi) * step
            pair = next_pair(problem, moments, pair, phi, psi).normalized(normalizer)
        text = "naive-gradient does not converge to canonical pairs; it exists to demonstrate this."
        run.note(Status.APPROXIMATE, text)
        return run.finish(x_weights=pair.phi, y_weights=pair.psi)
