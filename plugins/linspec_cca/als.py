"""CCA by alternating least squares.

Problem: the leading canonical pairs of X and Y.
Method: from bases Φ, Ψ of both views, with Sx = XᵀX + rx I and Sy = YᵀY + ry I,

    (1)  Φ ← argmin ‖XΦ − YΨ‖² + rx ‖Φ‖²,   orthonormal in Sx,
    (2)  Ψ ← argmin ‖YΨ − XΦ‖² + ry ‖Ψ‖²,   orthonormal in Sy,

by any least-squares solver that has `begins`. The half steps are those of L-CCA with "ling", and of G-CCA with "gd";
these solvers also make fixed numbers of rounds and steps, and carry no more than k columns (see `l_cca.py`).
Source: Golub & Zha 1995, The canonical correlations of matrix pairs; Lu 2015 (thesis), Algorithms 4 and 7.
Where we differ: (a) The least-squares solver begins at Φ diag ρ, the best point within the span of the last block,
whose gradient is known, and only reduces the gradient there by a factor. (b) Some columns more than k are carried,
because the convergence depends on how far the correlations after them lie below the k-th. (c) After each half step both
bases are turned to the canonical pairs of their spans, so a run can be judged and stopped at any step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count
from typing import Any

from linspec import form_option, limit_option, option, part, tol_option
from linspec.arrays import Array
from linspec.families.cca import Gains, Pairs, block_width, first_blocks, multiplied
from linspec.iteration import Context, Iterate
from linspec.linalg import Step
from linspec.rows import Moments
from linspec.solving import Solver

INNER_REDUCTION = 0.1
"""The factor by which a half step reduces the largest relative gradient of its columns."""

ROUNDED = 1e-8
"""A relative gradient at which a half step of all steps ends early: further steps would be rounding."""

EXPECTED = 200
"""Expected products, for the decision whether to hold Gram matrices."""

Solves = Callable[[Array], Iterator[Step]]


@dataclass(frozen=True, kw_only=True)
class AlternatingLeastSquares(Solver):
    """Alternating least squares (Golub & Zha 1995; Lu 2015, Algorithms 4 and 7)."""

    lstsq: Any = part(
        "cg", "least-squares solver of the half steps", problem="least-squares", method="begins"
    )
    normalizer: Any = part("cholesky-qr", "normalizer of the blocks", kind="normalizer")
    test_matrix: Any = part("gaussian", "random start", kind="test-matrix")
    oversample: int = option(10, "columns carried beyond k", at_least=0)
    tol: float | None = tol_option()
    max_iterations: int = limit_option(500)
    form: str = form_option()

    def iterate(self, problem: Any, moments: Moments, context: Context, start: Any) -> Iterator[Iterate]:
        """Yield canonical pairs after each iteration."""
        return self.alternate(problem, moments, context, start)

    def alternate(
        self,
        problem: Any,
        moments: Moments,
        context: Context,
        start: Any,
        rounds: int | None = None,
        *,
        from_zero: bool = False,
    ) -> Iterator[Iterate]:
        """Yield canonical pairs after each iteration, for a fixed number of iterations if `rounds` is given.

        In these the least-squares solver makes all its steps. Otherwise a half step ends when the gradient is reduced
        by `INNER_REDUCTION`. `from_zero` begins half steps at zero, and not at the answer for the last block.
        """
        k = problem.k
        width = block_width(problem, self.oversample)
        ridges = problem.ridge
        moments.expect(EXPECTED, width, self.form)
        W = first_blocks(moments, context, start, width, self.test_matrix)
        pairs, metrics = multiplied(problem, moments, W)
        solves = [self.lstsq.begins(moments, i, r, context) for i, r in enumerate(ridges)]
        reduction = INNER_REDUCTION if rounds is None else None
        pairs, gains = pairs.canonical(self.normalizer), Gains(metrics)
        for made in count():
            residual = gains.residual(pairs.residual(metrics, k), pairs.rho[:k])
            yield Iterate(residual, pairs.arrays, final=made == rounds)
            for i in (0, 1):
                V = self._half_step(solves[i], pairs, i, reduction, from_zero=from_zero)  # (1), (2)
                pairs = pairs.renewed(moments, ridges, i, V).canonical(self.normalizer, new=(i,))

    def _half_step(
        self, solve: Solves, pairs: Pairs, i: int, reduction: float | None, *, from_zero: bool
    ) -> Array:
        """Minimise ‖XW − YΨ‖² + r‖W‖² from W = Φ diag ρ or from zero: (1), and (2) for the other view."""
        scales = pairs.home.column_norms(pairs.CW[i])
        W = pairs.W[i] * (0.0 * pairs.there if from_zero else pairs.there)
        enough = 0.0
        for made, step in enumerate(solve(pairs.CW[i] if from_zero else pairs.gap(i))):
            worst = float((step.lengths / scales)[scales > 0].max(initial=0.0))
            if made == 0:
                enough = ROUNDED if reduction is None else reduction * worst
            if worst <= enough or made >= self.lstsq.max_iterations:
                break
        return W + step.X()[0]
