"""AppGrad with momentum.

Problem: the k leading canonical pairs of two views.
Method: the gradient steps of AppGrad on auxiliary blocks (Ma, Lu & Foster 2015), with a share of the last step
(Polyak 1964):
Φ̃ ← Φ̃ − η (SxΦ̃ − CΨ) + β (Φ̃ − Φ̃ before), Φ = Φ̃ (Φ̃ᵀSxΦ̃)^(-1/2), and the same for Ψ.
C is XᵀY, and Sx = XᵀX + ridge·I.
Where we differ: each iterate has the canonical pairs of both spans, so that order and residual are known.
"""

from dataclasses import dataclass

import numpy as np

import linspec as ls
from linspec.arrays import Home, to_host
from linspec.families.cca import Gains, first_blocks, multiplied
from linspec.iteration import Iterate
from linspec.linalg import inverse_root
from linspec.solving import Solver

POWERS = 8  # passes that estimate the longest step


@dataclass(frozen=True, kw_only=True)
class HeavyBall(Solver):
    """AppGrad with momentum: Polyak 1964; Ma, Lu & Foster 2015."""

    step: float = ls.option(1.0, "step η in units of 1/λmax of a view", above=0, below=2)
    momentum: float = ls.option(0.6, "share β of the last step", at_least=0, below=1)
    test_matrix: object = ls.part("gaussian", "random start", kind="test-matrix")
    tol: float | None = ls.tol_option()
    max_iterations: int = ls.limit_option(5000)
    form: str = ls.form_option()

    def iterate(self, problem, moments, context, start):
        """The canonical pairs of the spans of Φ and Ψ after each step."""
        moments.expect(500, problem.k, self.form)
        W = first_blocks(moments, context, start, problem.k, self.test_matrix, fresh=0)
        pairs, metrics = multiplied(problem, moments, W)
        etas = [self.step / (largest(moments, problem.ridge, i, W[i]) or 1.0) for i in (0, 1)]
        normal, gains = pairs.canonical(), Gains(metrics, apart=50, slowest=0.9999)
        tilde = normal.turned([np.diag(normal.rho)] * 2)  # where a run that is gone on from had arrived
        last = tilde.W
        while True:
            found = normal.canonical()
            yield Iterate(gains.residual(found.residual(metrics, problem.k), found.rho), found.arrays)
            before, last = last, tilde.W
            for i in (0, 1):  # Ψ takes the new Φ
                gradient = tilde.SW[i] - normal.CW[i]  # SxΦ̃ − CΨ
                V = last[i] - gradient * etas[i] + (last[i] - before[i]) * self.momentum
                tilde = tilde.renewed(moments, problem.ridge, i, V)  # one pass
                normal = tilde.turned([root(tilde, i) for i in (0, 1)])  # Φ = Φ̃ (Φ̃ᵀSxΦ̃)^(-1/2)


def root(pairs, i):
    """(Φ̃ᵀSxΦ̃)^(-1/2)."""
    return inverse_root(to_host(pairs.W[i].T @ pairs.SW[i]))[0]


def largest(moments, ridges, i, V):
    """An estimate of the largest eigenvalue of Sx or Sy, by a power iteration."""
    home = Home.of(V)
    for _ in range(POWERS):
        V = V[:, :1] / (home.norm(V[:, :1]) or 1.0)
        V = moments.gram_product(V, i) + V * ridges[i]
    return home.norm(V)
