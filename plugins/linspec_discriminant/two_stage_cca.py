"""CCA with a narrow view in two stages: least squares on all its columns, then a CCA of their size.

Problem: the k leading canonical pairs of X (n x p) and Y (n x q), if q is so small that q columns can be iterated.
Method: with Sx = XᵀX + rx I and C = XᵀY,

    (1)  W = argmin ‖XW - YT‖² + rx ‖W‖²,  so that Sx W = CT
    (2)  the canonical pairs of the span of W and all of Y

by any least-squares solver that has `begins`. The weights of X in every canonical pair lie in the span of Sx⁻¹C.
Source: Sun, Ceran & Ye 2010, doi:10.1145/1835804.1835846, Algorithm 2 with the target Y(YᵀY)^(-1/2).
Where we differ: (a) Y is not whitened first, because its span is that of the target; it has a ridge of its own. (b) T
leaves out the combinations of Y of which X has nothing. (c) Each step of (1) knows its Sx W, so that (2) and its
residual cost no pass. The error of (1) enters a correlation as its square: (1) needs half the digits.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from linspec import cost, form_option, limit_option, part, tol_option
from linspec.cost import Estimate, Sizes
from linspec.families.cca import multiplied
from linspec.iteration import Context, Iterate
from linspec.rows import Moments
from linspec.solving import Solver
from linspec_discriminant.regression import chosen, regressed, told_apart

EXPECTED = 40
"""Expected iterations of stage 1, for the estimate of costs."""


@dataclass(frozen=True, kw_only=True)
class TwoStageCCA(Solver):
    """Least squares of a narrow Y on X, then a small CCA (Sun, Ceran & Ye 2010, Algorithm 2)."""

    lstsq: Any = part(
        None,
        "least-squares solver of stage 1; none: cg on sparse data, nystrom-pcg on others",
        problem="least-squares",
        method="begins",
    )
    tol: float | None = tol_option()
    max_iterations: int = limit_option(10000, "iterations of stage 1")
    form: str = form_option()

    def iterate(self, problem: Any, moments: Moments, context: Context, start: Any) -> Iterator[Iterate]:
        """Yield the pairs after each iteration of stage 1."""
        place, q = moments.operators[0].backend.blocks, moments.widths[1]
        unit = moments.operators[1].backend.blocks.eye(q)
        moments.expect(EXPECTED, q, self.form)
        phi = place.zeros((moments.widths[0], 0)) if start is None else place.place(start["x_weights"])
        pairs, metrics = multiplied(problem, moments, [phi, unit])
        C, Sy = pairs.CW[0], pairs.SW[1]
        cut = 10 * math.sqrt(sum(C.shape)) * float(np.finfo(problem.dtype).eps)
        CT = C @ told_apart(C, cut, 0.0, place)
        if not CT.shape[1]:  # the views have nothing in common
            yield Iterate(0.0, partial(dict, x_weights=CT, y_weights=unit[:, :0]), final=True)
            return
        begun, lstsq = pairs.canonical(), chosen(self.lstsq, problem.X)
        B = begun.W[0].T @ CT
        W, R = begun.W[0] @ B, CT - begun.SW[0] @ B  # the best W within the span of a start
        ridge = problem.ridge[0]
        for V, worst, step in regressed(lstsq, moments, ridge, CT, W, R, metrics[0], context):  # (1)
            residual = worst**2
            if residual <= context.tol:
                SV = CT - step.residual()
                span = replace(pairs, W=(V, unit), SW=(SV, Sy), CW=(C, C.T @ V), GW=None)
                residual = span.canonical().residual(metrics, problem.k)  # (2)
            yield Iterate(residual, partial(dict, x_weights=V, y_weights=unit))

    @classmethod
    def estimate(cls, sizes: Sizes) -> Estimate | None:
        """Estimated cost of a few dozen products with a block as wide as Y, and of YᵀY in stage 2."""
        return cost.sweeps_estimate(replace(sizes, k=sizes.q), EXPECTED, spare=sizes.q)
