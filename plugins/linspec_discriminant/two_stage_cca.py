"""CCA with a narrow view in two stages: least squares on all its columns, then a CCA of their size.

Problem: the k leading canonical pairs of X (n x p) and Y (n x q), if q is so small that q columns can be iterated.
Method: W₁ = (XᵀX + rI)⁻¹XᵀY by any least-squares solver. The weights of X in every canonical pair lie in the span of
W₁, so an exact CCA of that span and all of Y finds them.
Source: Sun, Ceran & Ye 2010, doi:10.1145/1835804.1835846, Algorithm 2 with the target Y(YᵀY)^(-1/2).
Where we differ: Y is not whitened first, because its span is that of the target; it has a ridge of its own. The error
of stage 1 enters a correlation as its square, so stage 1 needs half the digits.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from linspec import IterativeSolver, Moments, Run, Status, cost, form_option, limit_option, part, tol_option
from linspec.algebra import canonical_rotation, ratio
from linspec.arrays import Array, Home, reciprocal, to_host_together
from linspec.cost import Estimate, Sizes
from linspec_discriminant.regression import (
    Answer,
    Judged,
    Regression,
    Task,
    chosen,
    column_scale,
    product,
    setup,
    told_apart,
    unequal,
)
from linspec_discriminant.row_basis import RowBasis, row_basis

EXPECTED = 40
"""Expected iterations of stage 1, for the estimate of costs."""

NAMES = ("x_weights", "y_weights")
"""Names of the weights of both views."""


@dataclass(kw_only=True, eq=False)
class SpanOfX(Judged):
    """Answer of stage 1 with the canonical pairs of stage 2."""

    home: Home

    def answer(self) -> Mapping[str, Any]:
        """Span of stage 1 and all of Y, in which the certificate computes the pairs again."""
        if self.stage_1 is None:
            return self.found
        W, home = self.stage_1.W, self.home
        return {"x_weights": W, "y_weights": home.eye(self.found["y_weights"].shape[0])}


@dataclass(frozen=True, kw_only=True)
class TwoStageCCA(IterativeSolver):
    """Least squares of a narrow Y on X, then a small CCA (Sun, Ceran & Ye 2010, Algorithm 2)."""

    lstsq: Any = part(
        None,
        "least-squares solver of stage 1; none: cg on sparse data, nystrom-pcg on others",
        problem="least-squares",
    )
    tol: float | None = tol_option()
    max_iterations: int = limit_option(10000, "iterations of stage 1")
    form: str = form_option()

    kept: ClassVar = (SpanOfX, Answer, RowBasis)
    resumes_after_law: ClassVar[bool] = False

    def iterates(self, problem: Any, run: Run, state: SpanOfX | None = None) -> Iterator[SpanOfX]:
        """Yield each answer of stage 1 with the pairs and the residual of stage 2."""
        moments = run.moments(self.form, expect=(EXPECTED, problem.Y.shape[1]))
        lstsq, home = run.part(chosen(self.lstsq, problem.X)), moments.home
        run.plan(setup=setup(lstsq, moments, begun=state is not None))
        C, ridge = moments.products(cross=True).cross, problem.ridge[0]
        cut = 10 * math.sqrt(sum(C.shape)) * float(np.finfo(problem.dtype).eps)
        turn = home.place(told_apart(C, cut, 0.0, home))
        unit = home.eye(C.shape[1])
        if state is None:
            none = {name: home.zeros((rows, 0)) for name, rows in zip(NAMES, C.shape, strict=True)}
            if turn.shape[1]:
                basis = row_basis(problem, ridge, run, moments) if unequal(moments, ridge) else None
                state = SpanOfX(shown=False, basis=basis, found=none, home=home)
            else:  # the views have nothing in common
                state = SpanOfX(residual=0.0, ending=Status.CONVERGED, found=none, home=home)
        task = Task(
            X=problem.X,
            B=product(problem.Y, None, turn),
            XtB=C @ turn,
            ridge=ridge,
            power=2,
            weights=lambda W: {"x_weights": W, "y_weights": unit},
        )
        task = replace(task, scale=column_scale(moments, ridge, state.basis))
        regression, it = Regression(lstsq, task, moments, run, math.sqrt(run.tol) / 3), state
        while True:
            yield it
            basis = it.basis
            stage_1 = regression.after(it)  # W₁ = (XᵀX + rI)⁻¹XᵀY
            if it.stage_1 is None and basis is None and not run.ended:
                # A residual that is small by the diagonal may be large in the norm of M⁻¹, and vice versa.
                with run.budget.reserving(moments.cost.sweep):  # for the next sweep
                    basis = row_basis(problem, ridge, run, moments)
            SW, _, _, Sy = moments.products(stage_1.W, unit)
            SW = SW if basis is None else basis.product(stage_1.W)
            found, residual = _second_stage(problem, moments, stage_1.W, SW, Sy, C, basis)
            it = SpanOfX(
                residual=residual,
                ending=regression.ending(residual, it),
                after=moments.cost.sweep,
                stage_1=stage_1,
                product=SW,
                basis=basis,
                found=found,
                home=home,
            )

    @classmethod
    def estimate(cls, sizes: Sizes) -> Estimate | None:
        """Estimated cost of a few dozen products with a block as wide as Y, and of YᵀY in stage 2."""
        return cost.sweeps_estimate(replace(sizes, k=sizes.q), EXPECTED, spare=sizes.q)


def _second_stage(
    problem: Any, moments: Moments, W: Array, SW: Array, Sy: Array, C: Array, basis: RowBasis | None
) -> tuple[dict[str, Array], float]:
    """Canonical pairs within the span of stage 1 and all of Y, and their residual."""
    home = moments.home
    unit = home.eye(C.shape[1])
    MW, My = SW + W * problem.ridge[0], Sy + unit * problem.ridge[1]
    G, F, Gy = to_host_together(W.T @ MW, W.T @ C, My)
    turns, rho = canonical_rotation(G, F, Gy, problem.k)
    Tx, Ty, r = home.place_together(*turns, rho[None, :])
    gaps = [C @ Ty - (MW @ Tx) * r, C.T @ (W @ Tx) - (My @ Ty) * r]
    d = [D + ridge for D, ridge in zip(moments.diagonal(), problem.ridge, strict=True)]
    squares = [home.xp.sum(g * g * reciprocal(D)[:, None]) for g, D in zip(gaps, d, strict=True)]
    x, y = (float(total) for total in to_host_together(*squares))
    missing = y + (x if basis is None else float(basis.squares(gaps[0]).sum()))
    return {"x_weights": W @ Tx, "y_weights": Ty}, ratio(missing, float(rho.sum()))
