"""AppGrad with momentum.

Problem: the k leading canonical pairs of two views.
Method: the gradient steps of AppGrad on auxiliary blocks (Ma, Lu & Foster 2015), with a share of the last step
(Polyak 1964):
Φ̃ ← Φ̃ − η (SxΦ̃ − √n C Ψ)/n + β (Φ̃ − Φ̃ before), Φ = Φ̃ (Φ̃ᵀSxΦ̃)^(-1/2), and the same for Ψ.
C is XᵀY, and Sx = XᵀX + ridge·I.
Where we differ: each iterate has the canonical pairs of both spans, so that order and residual are known.
"""

from dataclasses import dataclass

import numpy as np

import linspec as ls
from linspec.families.cca import KEPT, ExpectedGain, PairsIterate, first_pairs
from linspec.moments import multiplied

POWERS = 8  # sweeps that estimate the longest step


@dataclass(frozen=True, kw_only=True)
class HeavyBall(ls.IterativeSolver):
    """AppGrad with momentum: Polyak 1964; Ma, Lu & Foster 2015."""

    step: float = ls.option(1.0, "step η in units of n/λmax of a view", above=0, below=2)
    momentum: float = ls.option(0.6, "share β of the last step", at_least=0, below=1)
    normalizer: object = ls.part("inverse-sqrt", "normalizer of the blocks", kind="normalizer")
    test_matrix: object = ls.part("gaussian", "random start", kind="test-matrix")
    tol: float | None = ls.tol_option()
    max_iterations: int = ls.limit_option(5000)
    form: str = ls.form_option()

    kept = KEPT

    def iterates(self, problem, run, state=None):
        """The canonical pairs of the spans of Φ and Ψ after each step."""
        moments, normalizer = run.moments(self.form, expect=(500, problem.k)), run.part(self.normalizer)
        n, k = moments.total, problem.k

        def judged(tilde, pairs, before, steps, gain):
            found = pairs.canonical()
            gain = gain.after(found.residual, found.total, whole=found.exact)
            kept = {"tilde": tilde, "pairs": pairs, "before": before, "steps": steps}
            return PairsIterate(found, k, gain=gain, **kept)

        if state is None:
            pairs = first_pairs(problem, run, moments, run.part(self.test_matrix), k)
            steps = [self.step * n / size if size else 0.0 for size in largest(pairs, moments)]
            pairs = pairs.normalized(normalizer)
            zero = pairs.turned([np.zeros((k, k))] * 2)
            state = judged(zero, pairs, [B.V for B in zero.bases], steps, ExpectedGain(run.tol, apart=50))
        while True:
            yield state
            tilde, pairs, before, steps = (state[name] for name in ("tilde", "pairs", "before", "steps"))
            last = [basis.V for basis in tilde.bases]
            for i in (0, 1):  # Ψ takes the new Φ
                gradient = (tilde[i].SV - pairs.image(i) * n**0.5) / n  # (SxΦ̃ − √n C Ψ)/n
                V = last[i] - gradient * steps[i] + (last[i] - before[i]) * self.momentum
                tilde = tilde.renewed(moments, *((V, None) if i == 0 else (None, V)))  # one sweep
                pairs = pairs.replaced(i, tilde.normalized(normalizer, new=(i,))[i])  # Φ = Φ̃ (Φ̃ᵀSxΦ̃)^(-1/2)
            state = judged(tilde, pairs, last, steps, state.gain)


def largest(pairs, moments):
    """Estimates of the largest eigenvalues of Sx and Sy, by a power iteration from the first columns of Φ and Ψ."""
    home, blocks = pairs.metrics.home, [basis.V[:, :1] for basis in pairs.bases]
    for _ in range(POWERS):
        blocks = [V / (home.norm(V) or 1.0) for V in blocks]
        blocks = [basis.SV for basis in multiplied(moments, pairs.metrics.ridges, blocks)]
    return [home.norm(V) for V in blocks]
