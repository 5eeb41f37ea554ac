"""Discriminant subspaces in two stages: least squares, then an eigenproblem as small as the targets.

Problem: the leading eigenvectors of XᵀHHᵀX w = λ M w, M = XᵀX + γI, for n x t targets H, without a factor of M.
Method: stage 1 solves W₁ = argmin ‖XW₁ − H‖² + γ‖W₁‖² by any least-squares solver, all targets in one block. The span
of W₁ = M⁺XᵀH holds every eigenvector of an eigenvalue that is not zero; stage 2 finds them within it.
Source: Sun, Ceran & Ye 2010, doi:10.1145/1835804.1835846. `second_stage="rayleigh-ritz"` is stage 2 of Algorithm 1,
the eigenproblem (11) of the data projected onto W₁. With a ridge, which Algorithm 1 does not have, M replaces XᵀX.
`second_stage="printed"` is stage 2 of Algorithm 2, W₁ U_D Σ_D^(-1/2) from D = W₁ᵀXᵀH, which at γ = 0 gives the same for
an exact W₁.
Where we differ: the targets are first turned to the combinations for which XᵀH is not zero, so dependent labels and the
constant of centred data cost nothing, and no direction of rounding enters. Algorithm 2 treats D as exact, and the error
of W₁ enters to first order. The default, the pencil of FFᵀ, F = W₁ᵀXᵀH, and G = W₁ᵀMW₁ (Rayleigh and Ritz), squares
this error. Labels are multiplied by a small block (CCA) after the sweep, and not before.
How W₁ is judged: short directions of X weigh as much in an eigenvalue as long ones, but nearly nothing in a gradient.
So the residual is taken in the norm of M⁻¹ if the rows of X can be reduced at a small part of the cost (see
`row_basis.py`). Its square is then the lost fraction of the eigenvalues. If it does not meet the tolerance, stage 1
continues from its answer to rounding; if a Gram matrix is held, it then uses products with the rows. The reduction also
determines the rank. At γ = 0 and with independent columns of very different length, stage 1 works on columns of equal
length: its solution is the same.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from linspec import (
    Moments,
    Run,
    Solution,
    Solver,
    Status,
    cost,
    form_option,
    limit_option,
    option,
    part,
    tol_option,
)
from linspec.arrays import Array, HostArray, to_host
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

INNER_TOL = 1e-10
"""The relative residual of stage 1, unless a tolerance is given."""

EXPECTED, EXPECTED_SPARSE = 50, 20
"""Iterations of stage 1 when "auto" compares it with a factorisation, and sweeps with a Gram matrix. On counts of words
they are fewer: sweeps with a block of targets take a third of the estimate there (measured)."""

UNJUDGED = (
    "The run ended before the rows of X were reduced, and the residual is in the plain norm, which shows little about "
    "short directions of X: eigenvalues of these may be missing."
)


@dataclass(frozen=True, eq=False)
class Found:
    """Weights and eigenvalues of the second stage, and their residual."""

    weights: Array
    values: HostArray
    residual: float


@dataclass(frozen=True, kw_only=True)
class TwoStage(Solver):
    """Least squares, then a small eigenproblem (Sun, Ceran & Ye 2010, Algorithms 1 and 2)."""

    lstsq: Any = part(
        None,
        "least-squares solver of stage 1; none: cg on sparse data, nystrom-pcg on others",
        problem="least-squares",
    )
    second_stage: str = option(
        "rayleigh-ritz",
        "eigenvectors in the span of stage 1: its pencil (Algorithm 1, with M), or D as printed in Algorithm 2",
        choices=("rayleigh-ritz", "printed"),
    )
    tol: float | None = tol_option()
    max_iterations: int = limit_option(10000, "iterations of stage 1")
    form: str = form_option()

    def solve(self, problem: Any, run: Run) -> Solution:
        """Solve a discriminant problem."""
        moments = run.moments(self._form(problem))
        lstsq, home = run.part(chosen(self.lstsq, problem.X)), moments.home
        run.plan(setup=setup(lstsq, moments))
        _, C = problem.gram_and_targets(moments, _unknown_norms(moments))
        turn = home.place(told_apart(C, problem.resolution, problem.rounding(moments), home))
        if not turn.shape[1]:
            run.end(Status.CONVERGED)
            weights = home.zeros((C.shape[0], 0))
            run.proceed(residual=0.0, current=partial(dict, weights=weights))
            basis = row_basis(problem, problem.ridge, run, moments) if problem.ridge == 0 else None
            return run.finish(weights=weights, rank=None if basis is None else basis.rank)
        turned = C @ turn

        def as_printed(W: Array) -> dict[str, Array]:
            return {"weights": W @ home.place(_printed(W, turned, problem)[0])}

        B = product(problem.H, problem.factor, turn)
        task = Task(X=problem.X, B=B, XtB=turned, ridge=problem.ridge, power=1, weights=as_printed)
        basis = row_basis(problem, problem.ridge, run, moments) if unequal(moments, problem.ridge) else None
        task = replace(task, scale=column_scale(moments, problem.ridge, basis))
        regression = Regression(lstsq, task, moments, run)
        answers = regression.answers(INNER_TOL if self.tol is None else self.tol / 10)
        judged = basis is not None
        for count, W in enumerate(answers):
            if count == 0 and basis is None and not run.ended:
                # A residual that is small in the plain norm may be large in that of M⁻¹, and vice versa.
                basis, judged = row_basis(problem, problem.ridge, run, moments), True
            SW = moments.gram_matmat(W) if basis is None else basis.product(W)
            found = self._second_stage(problem, moments, W, SW, turned, basis)
            regression.exacting = basis is not None
            if not regression.proceed(found.residual, SW, weights=found.weights):
                break
        if not judged:
            run.note(Status.INCOMPLETE, UNJUDGED)
        rank = None if basis is None else basis.rank
        if self.second_stage == "printed":
            return run.finish(weights=found.weights, eigenvalues=found.values, rank=rank, inverse=basis)
        return run.finish(weights=W, rank=rank, inverse=basis, complete=True)

    def _second_stage(
        self, problem: Any, moments: Moments, W: Array, SW: Array, turned: Array, basis: RowBasis | None
    ) -> Found:
        """Eigenvectors in the span of stage 1, and their residual."""
        home, C = moments.home, problem.gram_and_targets(moments)[1]
        C = C if basis is None else basis.within(C)
        MW, lacking = SW + W * problem.ridge, 0.0
        if self.second_stage == "printed":
            inner, values = _printed(W, turned, problem)
        else:
            inner, values = problem.within_span(W, MW, C, moments, basis)
            lacking = problem.lacking(W, MW, C, moments, basis)
        weights, image = W @ home.place(inner), MW @ home.place(inner)
        residual = problem.residual(weights, image, C, values, home, basis)
        return Found(weights, values, max(residual, lacking))

    def _form(self, problem: Any) -> str:
        """The form of the moments for products with only X."""
        if self.form != "auto":
            return self.form
        sizes = cost.sizes_of([problem.X], problem.width)
        expected = EXPECTED_SPARSE if sizes.scattered else EXPECTED
        form = cost.moments_form(sizes, expected, problem.width)[0]
        if form == "sparse" and not cost.sizes_of([problem.X, problem.H], problem.width).sparse:
            return "implicit"
        return form

    @classmethod
    def estimate(cls, sizes: Sizes) -> Estimate | None:
        """The estimate for a few dozen products with a block as wide as the targets."""
        return cost.sweeps_estimate(sizes, EXPECTED_SPARSE if sizes.scattered else EXPECTED)


def _printed(W: Array, turned: Array, problem: Any) -> tuple[HostArray, HostArray]:
    """Stage 2 as printed: U_D Σ_D^(-1/2) and Σ_D of D = W₁ᵀXᵀH, for the targets of W₁."""
    D = to_host(W.T @ turned)
    values, vectors = np.linalg.eigh((D + D.T) / 2)
    order = np.argsort(-values)[: problem.k]
    order = order[values[order] > problem.resolution**2 * max(values.max(initial=0.0), 0.0)]
    return vectors[:, order] / np.sqrt(values[order]), values[order]


def _unknown_norms(moments: Moments) -> Array | None:
    """A block without columns: a sweep with it computes column norms that only products give."""
    return None if moments.columns.exact else moments.home.zeros((moments.shape[1], 0))
