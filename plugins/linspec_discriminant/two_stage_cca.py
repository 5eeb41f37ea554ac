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
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from linspec import Moments, Run, Solution, Solver, Status, cost, form_option, limit_option, part, tol_option
from linspec.algebra import canonical_rotation, ratio
from linspec.arrays import Array, reciprocal, to_host_together
from linspec.cost import Estimate, Sizes
from linspec_discriminant.regression import (
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
"""Iterations of stage 1, when "auto" compares it with other methods."""


@dataclass(frozen=True, kw_only=True)
class TwoStageCCA(Solver):
    """Least squares of a narrow Y on X, then a small CCA (Sun, Ceran & Ye 2010, Algorithm 2)."""

    lstsq: Any = part(
        None,
        "least-squares solver of stage 1; none: cg on sparse data, nystrom-pcg on others",
        problem="least-squares",
    )
    tol: float | None = tol_option()
    max_iterations: int = limit_option(10000, "iterations of stage 1")
    form: str = form_option()

    def solve(self, problem: Any, run: Run) -> Solution:
        """Solve a CCA problem."""
        moments = run.moments(self.form, expect=(EXPECTED, problem.Y.shape[1]))
        lstsq, home = run.part(chosen(self.lstsq, problem.X)), moments.home
        run.plan(setup=setup(lstsq, moments))
        C = moments.products(cross=True).cross
        cut = 10 * math.sqrt(sum(C.shape)) * float(np.finfo(problem.dtype).eps)
        turn = home.place(told_apart(C, cut, 0.0, home))
        unit = home.eye(C.shape[1])
        if not turn.shape[1]:  # the views have nothing in common
            x, y = (home.zeros((rows, 0)) for rows in C.shape)
            run.end(Status.CONVERGED)
            run.proceed(residual=0.0, current=partial(dict, x_weights=x, y_weights=y))
            return run.finish(x_weights=x, y_weights=y)
        task = Task(
            X=problem.X,
            B=product(problem.Y, None, turn),
            XtB=C @ turn,
            ridge=problem.ridge[0],
            power=2,
            weights=lambda W: {"x_weights": W, "y_weights": unit},
        )
        basis = (
            row_basis(problem, problem.ridge[0], run, moments) if unequal(moments, problem.ridge[0]) else None
        )
        task = replace(task, scale=column_scale(moments, problem.ridge[0], basis))
        regression = Regression(lstsq, task, moments, run)
        for count, W in enumerate(regression.answers(math.sqrt(run.tol) / 3)):
            if count == 0 and basis is None and not run.ended:
                # A residual that is small by the diagonal may be large in the norm of M⁻¹, and vice versa.
                with run.reserving(moments.sweep_cost):  # for the next sweep
                    basis = row_basis(problem, problem.ridge[0], run, moments)
            SW, _, _, Sy = moments.products(W, unit)
            SW = SW if basis is None else basis.product(W)
            found = _second_stage(problem, moments, W, SW, Sy, C, basis)
            regression.exacting = basis is not None
            if not regression.proceed(found.residual, SW, x_weights=found.x, y_weights=found.y):
                break
        return run.finish(x_weights=W, y_weights=unit)

    @classmethod
    def estimate(cls, sizes: Sizes) -> Estimate | None:
        """The estimate for a few dozen products with a block as wide as Y, and for YᵀY of stage 2."""
        return cost.sweeps_estimate(replace(sizes, k=sizes.q), EXPECTED, spare=sizes.q)


@dataclass(frozen=True, eq=False)
class Found:
    """Weights of the second stage, and their residual."""

    x: Array
    y: Array
    residual: float


def _second_stage(
    problem: Any, moments: Moments, W: Array, SW: Array, Sy: Array, C: Array, basis: RowBasis | None
) -> Found:
    """Canonical pairs within the span of stage 1 and all of Y."""
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
    return Found(W @ Tx, Ty, ratio(missing, float(rho.sum())))
