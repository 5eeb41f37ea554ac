"""CCA by alternating least squares.

Problem: the leading canonical pairs of X and Y.
Method: from bases Φ, Ψ of both views, with Sx = XᵀX + rx I and Sy = YᵀY + ry I,

    (1)  Φ ← argmin ‖XΦ − YΨ‖² + rx ‖Φ‖²,   orthonormal in Sx,
    (2)  Ψ ← argmin ‖YΨ − XΦ‖² + ry ‖Ψ‖²,   orthonormal in Sy,

by any least-squares solver that has `begins`. The half steps are those of L-CCA with "ling", and of G-CCA with "gd";
these solvers also make fixed numbers of rounds and steps, and carry no more than k columns (see below).
Source: Golub & Zha 1995, The canonical correlations of matrix pairs; Lu 2015 (thesis), Algorithms 4 and 7.
Where we differ: (a) The least-squares solver begins at Φ diag ρ, the best point within the span of the last block,
whose gradient is known, and only reduces the gradient there by a factor. (b) Some columns more than k are carried,
because the convergence depends on how far the correlations after them lie below the k-th. (c) After each half step both
bases are turned to the canonical pairs of their spans, so a run can be certified and stopped at any step.

L-CCA: alternating least squares with LING.

Problem: the leading canonical pairs of views with a few long directions, if the correlations are in short directions.
Method: orthogonal iteration with LING for its projections. LING is exact on k_pc principal components of each view, and
makes t₂ gradient steps for the rest. The long directions no longer slow these steps down. After t₁ iterations it ends.
Source: Lu 2015 (thesis), Algorithm 6; Lu & Foster 2014, Large scale canonical correlation analysis with iterative least
squares, arXiv:1407.4508.
Where we differ: as in the solver "als", but with a fixed number of steps instead of a tolerance. Its bases are turned
to canonical pairs at each half step, so gradient steps are made for these. Both views
begin at random blocks and X is regressed first; the source begins from XG and regresses Y first (see below). The
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

The common part of L-CCA and G-CCA: alternating least squares with fixed numbers of outer and inner iterations.

Problem: approximate the leading canonical pairs at a cost that is known beforehand.
Method: t₁ iterations of "als". In each, a least-squares solver makes t₂ steps for each view.
Source: Lu 2015 (thesis), Algorithm 6 and section 3.5; Lu & Foster 2014, arXiv:1407.4508.
Where we differ: (a) The steps begin at the answer for the last block, and not at zero, which costs no pass;
`inner_start="zero"` is as printed. (b) Algorithm 6 draws G for X alone, begins from XG, and regresses Y first:
Y₁ from XG, X₁ from Y₁, … Here both views begin at random blocks, and X comes first, so the last block is Y's. (c) The
bases are the canonical pairs of the two spans, and not those of a QR decomposition. The spans are the same if
projections are exact. The length of gradient steps is chosen column by column, and is thus chosen for each pair. (d) It
ends before t₁ iterations if the residual is within the tolerance.

G-CCA: alternating least squares with gradient descent.

Problem: the leading canonical pairs of views whose singular values are not far apart.
Method: t₁ orthogonal iterations with t₂ steps of gradient descent instead of each projection. This is L-CCA without
principal components.
Source: Lu 2015 (thesis), section 3.5; Lu & Foster 2014, arXiv:1407.4508.
Where we differ: as above.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count
from typing import Any

import linspec as ls
from linspec import Status, form_option, get_solver, limit_option, option, part, tol_option
from linspec.families.cca import Gains, block_width, first_blocks, multiplied
from linspec.iteration import Context, Iterate
from linspec.rows import Moments
from linspec.solving import Solver

INNER_REDUCTION = 0.1
"""The factor by which a half step reduces the largest relative gradient of its columns."""

ROUNDED = 1e-8
"""A relative gradient at which a half step of all steps ends early: further steps would be rounding."""

EXPECTED = 200
"""Expected products, for the decision whether to hold Gram matrices."""


@dataclass(frozen=True, kw_only=True)
class Alternating(Solver):
    """Half steps of least squares for one view after the other."""

    normalizer: Any = part("cholesky-qr", "normalizer of the blocks", kind="normalizer")
    test_matrix: Any = part("gaussian", "random start", kind="test-matrix")
    tol: float | None = tol_option()
    form: str = form_option()

    def alternate(
        self,
        problem: ls.CCA,
        moments: Moments,
        context: Context,
        start: Any,
        lstsq: Any,
        oversample: int,
        rounds: int | None = None,
        *,
        from_zero: bool = False,
    ) -> Iterator[Iterate]:
        """Yield canonical pairs after each iteration, for a fixed number of iterations if `rounds` is given.

        In these the least-squares solver makes all its steps. Otherwise a half step ends when the gradient is reduced
        by `INNER_REDUCTION`. `from_zero` begins half steps at zero, and not at the answer for the last block.
        """
        k = problem.k
        width = block_width(problem, oversample)
        ridges = problem.ridge
        moments.expect(EXPECTED, width, self.form)
        W = first_blocks(moments, context, start, width, self.test_matrix)
        pairs, metrics = multiplied(problem, moments, W)
        solves = [lstsq.begins(moments, i, r, context) for i, r in enumerate(ridges)]
        pairs, gains = pairs.canonical(self.normalizer), Gains(metrics)
        for iterations in count():
            residual = gains.residual(pairs.residual(metrics, k), pairs.rho[:k])
            yield Iterate(residual, pairs.arrays, final=iterations == rounds)
            for i in (0, 1):
                scales = pairs.device.column_norms(pairs.CW[i])
                G = pairs.CW[i] if from_zero else pairs.gap(i)
                enough = ROUNDED
                for taken, step in enumerate(solves[i](G)):
                    worst = float((step.lengths / scales)[scales > 0].max(initial=0.0))
                    if taken == 0 and rounds is None:
                        enough = INNER_REDUCTION * worst
                    if worst <= enough or taken >= lstsq.max_iterations:
                        break
                V = pairs.W[i] * (0.0 * pairs.there if from_zero else pairs.there) + step.X()[0]  # (1), (2)
                pairs = pairs.renewed(moments, ridges, i, V).canonical(self.normalizer, new=(i,))


@dataclass(frozen=True, kw_only=True)
class AlternatingLeastSquares(Alternating):
    """Alternating least squares (Golub & Zha 1995; Lu 2015, Algorithms 4 and 7)."""

    lstsq: Any = part(
        "cg", "least-squares solver of the half steps", problem="least-squares", method="begins"
    )
    oversample: int = option(10, "columns carried beyond k", at_least=0)
    max_iterations: int = limit_option(500)

    def iterate(self, problem: ls.CCA, moments: Moments, context: Context, start: Any) -> Iterator[Iterate]:
        """Yield canonical pairs after each iteration."""
        return self.alternate(problem, moments, context, start, self.lstsq, self.oversample)


ENDED = (
    "It ends after fixed numbers of iterations and of steps in each: the residual shows how good the answer is. "
    'Raise both numbers, or choose "als", which iterates to a tolerance.'
)


@dataclass(frozen=True, kw_only=True)
class FixedRounds(Alternating):
    """Alternating least squares with fixed numbers of iterations (Lu 2015, section 3.5)."""

    iterations: int = option(5, "outer iterations t₁", at_least=1)
    inner_iterations: int = option(20, "steps t₂ of each least-squares problem", at_least=1)
    inner_start: str = option(
        "last", "where steps begin: at the answer for the last block or at zero", choices=("last", "zero")
    )

    @abstractmethod
    def lstsq(self) -> Any:
        """The least-squares solver, limited to t₂ steps for each problem."""

    def iterate(self, problem: ls.CCA, moments: Moments, context: Context, start: Any) -> Iterator[Iterate]:
        """Yield canonical pairs after each iteration."""
        context.note(Status.APPROXIMATE, ENDED)
        lstsq, zero = self.lstsq(), self.inner_start == "zero"
        return self.alternate(problem, moments, context, start, lstsq, 0, self.iterations, from_zero=zero)


@dataclass(frozen=True, kw_only=True)
class GCCA(FixedRounds):
    """Alternating least squares with gradient descent, t₁ iterations of t₂ steps (Lu 2015, section 3.5)."""

    def lstsq(self) -> Any:
        """Gradient descent with t₂ steps."""
        descent: Callable[..., Any] = get_solver("gd", "least-squares")
        return descent(max_iterations=self.inner_iterations)


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
