"""L-CCA: alternating least squares with LING.

Problem: the leading canonical pairs of views with a few long directions, if the correlations are in short directions.
Method: orthogonal iteration with LING for its projections. LING is exact on k_pc principal components of each view, and
makes t₂ gradient steps for the rest. The long directions no longer slow these steps down. After t₁ iterations it ends.
Source: Lu 2015 (thesis), Algorithm 6; Lu & Foster 2014, Large scale canonical correlation analysis with iterative least
squares, arXiv:1407.4508.
Where we differ: as in the solver "als", which this solver calls, but with a fixed number of steps instead of a
tolerance. Its bases are turned to canonical pairs at each half step, so gradient steps are made for these. Both views
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
from typing import Any

from linspec import Status, form_option, get_solver, option, part, tol_option
from linspec.iteration import Context, Iterate
from linspec.process import count_of
from linspec.rows import Moments
from linspec.solving import Solver
from linspec_cca.als import AlternatingLeastSquares

ENDED = "It ends after {outer} with {inner} each: the residual shows how good the answer is. "
ENDED += 'Raise both numbers, or choose "als", which iterates to a tolerance.'


@dataclass(frozen=True, kw_only=True)
class FixedRounds(Solver):
    """Alternating least squares with fixed numbers of iterations (Lu 2015, section 3.5)."""

    iterations: int = option(5, "outer iterations t₁", at_least=1)
    inner_iterations: int = option(20, "steps t₂ of each least-squares problem", at_least=1)
    inner_start: str = option(
        "last", "where steps begin: at the answer for the last block or at zero", choices=("last", "zero")
    )
    normalizer: Any = part("cholesky-qr", "normalizer of the blocks", kind="normalizer")
    test_matrix: Any = part("gaussian", "random start", kind="test-matrix")
    tol: float | None = tol_option()
    form: str = form_option()

    @abstractmethod
    def lstsq(self) -> Any:
        """The least-squares solver, limited to t₂ steps for each problem."""

    def iterate(self, problem: Any, moments: Moments, context: Context, start: Any) -> Iterator[Iterate]:
        """Yield canonical pairs after each iteration."""
        outer = AlternatingLeastSquares(
            lstsq=self.lstsq(),
            normalizer=self.normalizer,
            test_matrix=self.test_matrix,
            oversample=0,
            form=self.form,
        )
        outers = count_of(self.iterations, "iteration")
        inners = count_of(self.inner_iterations, "step")
        context.note(Status.APPROXIMATE, ENDED.format(outer=outers, inner=inners))
        zero = self.inner_start == "zero"
        return outer.alternate(problem, moments, context, start, self.iterations, from_zero=zero)


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
