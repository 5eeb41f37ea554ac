"""The common part of L-CCA and G-CCA: alternating least squares with fixed numbers of outer and inner iterations.

Problem: approximate the leading canonical pairs at a cost that is known beforehand.
Method: t₁ iterations of "als". In each, a least-squares solver makes t₂ steps for each view.
Source: Lu 2015 (thesis), Algorithm 6 and section 3.5; Lu & Foster 2014, arXiv:1407.4508.
Where we differ: (a) The steps begin at the answer for the last block, and not at zero, which costs no pass;
`inner_start="zero"` is as printed. (b) Algorithm 6 draws G for X alone, begins from XG, and regresses Y first:
Y₁ from XG, X₁ from Y₁, … Here both views begin at random blocks, and X comes first, so the last block is Y's. (c) The
bases are the canonical pairs of the two spans, and not those of a QR decomposition. The spans are the same if
projections are exact. The length of gradient steps is chosen column by column, and is thus chosen for each pair. (d) It
ends before t₁ iterations if the residual is within the tolerance.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from linspec import Status, form_option, option, part, tol_option
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
        outers, inners = count_of(self.iterations, "iteration"), count_of(self.inner_iterations, "step")
        context.note(Status.APPROXIMATE, ENDED.format(outer=outers, inner=inners))
        zero = self.inner_start == "zero"
        return outer.alternate(problem, moments, context, start, self.iterations, from_zero=zero)
