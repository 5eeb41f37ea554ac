"""Discriminant subspaces in two stages: least squares, then an eigenproblem as small as the targets.

Problem: the leading eigenvectors of XᵀHHᵀX w = λ M w, M = XᵀX + rI, for n x t targets H, without a factor of M.
Method: with C = XᵀH and orthonormal T, t x r, which leaves out combinations of targets of which X has nothing,

    (1)  W = argmin ‖XW - HT‖² + r ‖W‖²,  so that M W = C T
    (2)  the leading eigenvectors within the span of W (Rayleigh-Ritz)

by any least-squares solver that has `begins`, all targets in one block. The span of M⁺C holds every eigenvector of an
eigenvalue that is not zero.
Source: Sun, Ceran & Ye 2010, doi:10.1145/1835804.1835846. Stage 2 is that of Algorithm 1, the
eigenproblem (11) of the data projected onto W. With a ridge, which Algorithm 1 does not have, M replaces XᵀX.
Where we differ: (a) T, so dependent labels and the constant of centred data cost nothing. (b) Algorithm 2
treats W as exact, and its error enters to first order; here it is squared. (c) Rayleigh-Ritz is that of the
certificate, in the norm of M⁻¹, in which short directions of X weigh as much as long ones. Where it has computed a
larger residual, (1) goes on.

Stage 1 of the two-stage approach: the targets regressed on the data, all in one block.

Problem: W = argmin ‖XW - H‖² + r ‖W‖², so that M W = G for M = XᵀX + rI and G = XᵀH, with the accuracy that the second
stage needs.
Method: the iteration of any least-squares solver that has `begins`. Where the certificate has found a larger residual,
or where no step shortens it any more, it begins again at its iterate, refined by held Gram matrices; it ends where that
no longer halves the residual.
Source: Sun, Ceran & Ye 2010, doi:10.1145/1835804.1835846, equations (10) and (27), there by LSQR target by target.

CCA with a narrow view in two stages: least squares on all its columns, then a CCA of their size.

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

import linspec as ls
from linspec import cost, form_option, get_solver, limit_option, part, tol_option
from linspec.arrays import Array, Device, to_host
from linspec.certificates import Metric
from linspec.cost import Estimate, Sizes
from linspec.families.cca import multiplied
from linspec.families.discriminant import directions_of, rounding_of
from linspec.iteration import Context, Iterate
from linspec.linalg import Step
from linspec.rows import Moments
from linspec.solving import Solver, with_parts


def above_rounding(C: Array, cut: float, least: float, device: Device) -> Array:
    """Orthonormal T, t x r, spanning the combinations of targets whose products C = XᵀH are above rounding.

    Lengths up to the fraction `cut` of the longest, and lengths up to `least`, are rounding.
    """
    if C.shape[0] > C.shape[1]:
        C = device.xp.linalg.qr(C, mode="reduced")[1]
    _, s, Vt = np.linalg.svd(to_host(C), full_matrices=False)
    return device.asarray(Vt[s > max(cut * s.max(initial=0.0), least)].T)


@dataclass(frozen=True, kw_only=True)
class FirstStage(Solver):
    """Stage 1: the targets regressed on X by any least-squares solver."""

    lstsq: Any = part(
        None,
        "least-squares solver of stage 1; none: cg on sparse data, nystrom-pcg on others",
        problem="least-squares",
        method="begins",
    )
    tol: float | None = tol_option()
    max_iterations: int = limit_option(10000, "iterations of stage 1")
    form: str = form_option()

    def regressed(
        self,
        X: Any,
        moments: Moments,
        ridge: float,
        G: Array,
        W: Array,
        R: Array,
        metric: Metric,
        context: Context,
    ) -> Iterator[tuple[Array, float, Step]]:
        """Yield W with M W = G, its largest relative residual in the plain norm, and the step that it comes from.

        It begins at W, where R is G - M W. `metric` is that of M. The spectrum of dense data decays, and a sketch of
        the leading part saves most iterations. The spectrum of word counts decays so slowly that the sketch and its
        algebra cost more than they save (measured).
        """
        solver = self.lstsq
        if solver is None:
            name = "cg" if X.nnz < X.shape[0] * X.shape[1] else "nystrom-pcg"
            solver = with_parts(get_solver(name, "least-squares")())
        solve = solver.begins(moments, 0, ridge, context)
        lengths = Device.of(G).column_norms(G)
        before = math.inf
        while True:
            tol = context.tol
            for steps, step in enumerate(solve(R)):
                worst = float((step.lengths / lengths).max())
                if steps == 0 and worst > before / 2:
                    return
                before, V = worst if steps == 0 else before, W + step.X()[0]
                yield V, worst, step
                if context.tol < tol or steps >= solver.max_iterations:
                    break
            W, R = V, G - moments.gram_product(V) - V * ridge
            if metric.source == "exact":  # columns of very different lengths have stopped the iteration
                W = W + metric.solve(R)
                R = G - moments.gram_product(W) - W * ridge


EXPECTED = 50
"""Expected iterations of stage 1, for estimates of costs."""


@dataclass(frozen=True, kw_only=True)
class TwoStageCCA(FirstStage):
    """Least squares of a narrow Y on X, then a small CCA (Sun, Ceran & Ye 2010, Algorithm 2)."""

    def iterate(
        self, problem: ls.Discriminant, moments: Moments, context: Context, start: Any
    ) -> Iterator[Iterate]:
        """Yield the pairs after each iteration of stage 1."""
        device, q = moments.device, moments.widths[1]
        unit = moments.operators[1].device.blocks.eye(q)
        moments.expect(EXPECTED, q, self.form)
        phi = device.zeros((moments.widths[0], 0)) if start is None else device.asarray(start["x_weights"])
        pairs, metrics = multiplied(problem, moments, [phi, unit])
        C, Sy = pairs.CW[0], pairs.SW[1]
        cut = 10 * math.sqrt(sum(C.shape)) * float(np.finfo(problem.dtype).eps)
        CT = C @ above_rounding(C, cut, 0.0, device)
        if not CT.shape[1]:  # the views have nothing in common
            yield Iterate(0.0, partial(dict, x_weights=CT, y_weights=unit[:, :0]), final=True)
            return
        begun = pairs.canonical()
        B = begun.W[0].T @ CT
        W, R = begun.W[0] @ B, CT - begun.SW[0] @ B  # the best W within the span of a start
        ridge = problem.ridge[0]
        for V, worst, step in self.regressed(problem.X, moments, ridge, CT, W, R, metrics[0], context):  # (1)
            residual = worst**2
            if residual <= context.tol:
                SV = CT - step.residual()
                span = replace(pairs, W=(V, unit), SW=(SV, Sy), CW=(C, C.T @ V), GW=None)
                residual = span.canonical().residual(metrics, problem.k)  # (2)
            yield Iterate(residual, partial(dict, x_weights=V, y_weights=unit))

    @classmethod
    def estimate(cls, sizes: Sizes) -> Estimate:
        """Estimated cost of a few dozen products with a block as wide as Y, and of YᵀY in stage 2."""
        return cost.sweeps_estimate(replace(sizes, k=sizes.q), EXPECTED, spare=sizes.q)


INNER_TOL = 1e-10
"""Relative residual of stage 1 in the plain norm, unless a tolerance is given: then a tenth of it."""


@dataclass(frozen=True, kw_only=True)
class TwoStage(FirstStage):
    """Least squares, then a small eigenproblem (Sun, Ceran & Ye 2010, Algorithms 1 and 2)."""

    def iterate(
        self, problem: ls.Discriminant, moments: Moments, context: Context, start: Any
    ) -> Iterator[Iterate]:
        """Yield the span of stage 1 after each of its iterations."""
        moments.expect(EXPECTED, problem.width, self.form)
        known = directions_of(problem, moments)
        device, C, ridge = known.device, known.C, problem.ridge
        CT = C @ above_rounding(C, problem.resolution, rounding_of(problem, moments), device)
        if not CT.shape[1]:
            yield Iterate(0.0, partial(dict, weights=CT), final=True)
            return
        W, R = CT * 0.0, CT
        if start is not None and start["weights"].shape[1]:
            phi = device.asarray(start["weights"])
            Mphi = moments.gram_product(phi) + phi * ridge
            B = device.asarray(np.linalg.lstsq(to_host(phi.T @ Mphi), to_host(phi.T @ CT), rcond=None)[0])
            W, R = phi @ B, CT - Mphi @ B  # the best W within the span of a start
        inner = INNER_TOL if context.tol == problem.default_tol else context.tol / 10
        unit = context.tol / max(inner, 100 * np.finfo(problem.dtype).eps)
        for V, worst, _ in self.regressed(problem.X, moments, ridge, CT, W, R, known.metric, context):  # (1)
            yield Iterate(worst * unit, partial(dict, weights=V, complete=True))  # (2)

    @classmethod
    def estimate(cls, sizes: Sizes) -> Estimate:
        """Estimated cost of a few dozen products with a block as wide as the targets."""
        return cost.sweeps_estimate(sizes, EXPECTED)
