"""Discriminant subspaces in two stages: least squares, then an eigenproblem as small as the targets.

Problem: the leading eigenvectors of XᵀHHᵀX w = λ M w, M = XᵀX + rI, for n x t targets H, without a factor of M.
Method: with C = XᵀH and orthonormal T, t x r, which leaves out combinations of targets of which X has nothing,

    (1)  W = argmin ‖XW - HT‖² + r ‖W‖²,  so that M W = C T
    (2)  the leading eigenvectors within the span of W (Rayleigh-Ritz), or W U_D Σ_D^(-1/2) of D = WᵀCT

by any least-squares solver that has `begins`, all targets in one block. The span of M⁺C holds every eigenvector of an
eigenvalue that is not zero.
Source: Sun, Ceran & Ye 2010, doi:10.1145/1835804.1835846. `second_stage="rayleigh-ritz"` is stage 2 of Algorithm 1,
the eigenproblem (11) of the data projected onto W. With a ridge, which Algorithm 1 does not have, M replaces XᵀX.
`second_stage="printed"` is stage 2 of Algorithm 2, from the eigenvectors U_D and eigenvalues Σ_D of D, which at r = 0
gives the same for an exact W.
Where we differ: (a) T, so dependent labels and the constant of centred data cost nothing. (b) Algorithm 2 treats D as
exact, and the error of W enters to first order; the default squares this error. (c) Rayleigh-Ritz is that of the
certificate, in the norm of M⁻¹, in which short directions of X weigh as much as long ones. Where it has computed a
larger residual, (1) goes on.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from linspec import cost, form_option, limit_option, option, part, tol_option
from linspec.arrays import Array, Home, HostArray, to_host
from linspec.cost import Estimate, Sizes
from linspec.families.discriminant import directions_of, rounding_of
from linspec.iteration import Context, Iterate
from linspec.rows import Moments
from linspec.solving import Solver
from linspec_discriminant.regression import chosen, regressed, told_apart

INNER_TOL = 1e-10
"""Relative residual of stage 1 in the plain norm, unless a tolerance is given: then a tenth of it."""

EXPECTED, EXPECTED_SPARSE = 50, 20
"""Expected iterations of stage 1 on dense data and on word counts, for estimates of costs. The second number is lower,
because a sweep over word counts with a block of targets takes a third of its estimated time (measured)."""


@dataclass(frozen=True, kw_only=True)
class TwoStage(Solver):
    """Least squares, then a small eigenproblem (Sun, Ceran & Ye 2010, Algorithms 1 and 2)."""

    lstsq: Any = part(
        None,
        "least-squares solver of stage 1; none: cg on sparse data, nystrom-pcg on others",
        problem="least-squares",
        method="begins",
    )
    second_stage: str = option(
        "rayleigh-ritz",
        "eigenvectors in the span of stage 1: its pencil (Algorithm 1, with M), or D as printed in Algorithm 2",
        choices=("rayleigh-ritz", "printed"),
    )
    tol: float | None = tol_option()
    max_iterations: int = limit_option(10000, "iterations of stage 1")
    form: str = form_option()

    def iterate(self, problem: Any, moments: Moments, context: Context, start: Any) -> Iterator[Iterate]:
        """Yield the span of stage 1 after each of its iterations, or the directions of the printed stage 2."""
        X = moments.operators[0]
        scattered = problem.X.nnz < X.shape[0] * X.shape[1]
        moments.expect(EXPECTED_SPARSE if scattered else EXPECTED, problem.width, self.form)
        known = directions_of(problem, moments)
        place, C, ridge = known.device, known.C, problem.ridge
        CT = C @ told_apart(C, problem.resolution, rounding_of(problem, moments), place)
        if not CT.shape[1]:
            yield Iterate(0.0, partial(dict, weights=CT), final=True)
            return
        W, R = CT * 0.0, CT
        if start is not None and start["weights"].shape[1]:
            phi = place.place(start["weights"])
            Mphi = moments.gram_product(phi) + phi * ridge
            B = place.place(np.linalg.lstsq(to_host(phi.T @ Mphi), to_host(phi.T @ CT), rcond=None)[0])
            W, R = phi @ B, CT - Mphi @ B  # the best W within the span of a start
        inner = INNER_TOL if context.tol == problem.default_tol else context.tol / 10
        unit = context.tol / max(inner, 100 * np.finfo(problem.dtype).eps)
        lstsq, printed = chosen(self.lstsq, problem.X), self.second_stage == "printed"
        for V, worst, _ in regressed(lstsq, moments, ridge, CT, W, R, known.metric, context):  # (1)
            arrays = (
                partial(_printed, V, CT, problem) if printed else partial(dict, weights=V, complete=True)
            )  # (2)
            yield Iterate(worst * unit, arrays)

    @classmethod
    def estimate(cls, sizes: Sizes) -> Estimate | None:
        """Estimated cost of a few dozen products with a block as wide as the targets."""
        return cost.sweeps_estimate(sizes, EXPECTED_SPARSE if sizes.scattered else EXPECTED)


def _printed(W: Array, CT: Array, problem: Any) -> dict[str, Any]:
    """Stage 2 as printed: U_D Σ_D^(-1/2) and Σ_D for D = WᵀCT."""
    D = to_host(W.T @ CT)
    values, U = np.linalg.eigh((D + D.T) / 2)
    order = np.argsort(-values)[: problem.k]
    order = order[values[order] > problem.resolution**2 * max(values.max(initial=0.0), 0.0)]
    turn: HostArray = U[:, order] / np.sqrt(values[order])
    return {"weights": W @ Home.of(W).place(turn), "eigenvalues": values[order]}
