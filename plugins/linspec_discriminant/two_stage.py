"""Discriminant subspaces in two stages: least squares, then an eigenproblem as small as the targets.

Problem: the leading eigenvectors of XᵀHHᵀX w = λ M w, M = XᵀX + γI, for n x t targets H, without a factor of M. In
the code H = L K: labels L (`problem.H`) times a small matrix K (`problem.factor`), or the labels alone.
Method: stage 1 solves W₁ = argmin ‖XW₁ − H‖² + γ‖W₁‖² by any least-squares solver, all targets in one block. The span
of W₁ = M⁺XᵀH holds every eigenvector of an eigenvalue that is not zero; stage 2 finds them within it.
Source: Sun, Ceran & Ye 2010, doi:10.1145/1835804.1835846. `second_stage="rayleigh-ritz"` is stage 2 of Algorithm 1,
the eigenproblem (11) of the data projected onto W₁. With a ridge, which Algorithm 1 does not have, M replaces XᵀX.
`second_stage="printed"` is stage 2 of Algorithm 2, W₁ U_D Σ_D^(-1/2) from the eigenvectors U_D and eigenvalues Σ_D of
D = W₁ᵀXᵀHT, which at γ = 0 gives the same for an exact W₁.
Where we differ: the targets are first turned to the r combinations HT (T is orthonormal, t x r) for which XᵀHT is not
zero, and stage 1 computes W₁ for these. So dependent labels and the constant of centred data cost nothing, and no
direction of rounding enters. Algorithm 2 treats D (r x r) as exact, and the error of W₁ enters to first order. The
default squares this error: the pencil of FFᵀ and G = W₁ᵀMW₁ (Rayleigh and Ritz), with F = W₁ᵀXᵀH (r x t, all targets).
XᵀH is (XᵀL)K: K (CCA) multiplies after the sweep, and not before.
Residual of W₁: short directions of X weigh as much in an eigenvalue as long ones, but nearly nothing in a gradient.
So the residual is taken in the norm of M⁻¹ if the rows of X can be reduced at a small part of the cost (see
`row_basis.py`). Its square is then the lost fraction of the eigenvalues. If it does not meet the tolerance, stage 1
continues from its answer, down to rounding; if a Gram matrix is held, it then uses products with the rows. The
reduction also determines the rank. At γ = 0 and with independent columns of very different length, stage 1 works on
columns of equal length: its solution is the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from linspec import (
    IterativeSolver,
    Moments,
    Run,
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

INNER_TOL = 1e-10
"""Relative residual of stage 1, unless a tolerance is given."""

EXPECTED, EXPECTED_SPARSE = 50, 20
"""Expected iterations of stage 1 on dense data and on word counts, for estimates of costs. The second number is lower,
because a sweep over word counts with a block of targets takes a third of its estimated time (measured)."""

UNJUDGED = (
    "The run ended before the rows of X were reduced, and the residual is in the plain norm, which shows little about "
    "short directions of X: eigenvalues of these may be missing."
)


@dataclass(kw_only=True, eq=False)
class Subspace(Judged):
    """Answer of stage 1 with the weights of stage 2.

    Attributes
    ----------
    values : numpy.ndarray, optional
        Eigenvalues, if stage 2 is the one of the paper.
    measured : bool
        False if the run ended before `row_basis` was called for the residual of stage 1. True if `row_basis` has
        reduced the rows of X, or has found the reduction too expensive.
    """

    values: HostArray | None = None
    measured: bool = True

    def answer(self) -> Mapping[str, Any]:
        """Return the answer for the certificate.

        Before stage 1 it is a block without columns. If stage 2 is the one of the paper ("printed"), it is the weights
        of stage 2 with their eigenvalues. Otherwise it is W₁, and the certificate computes the eigenvectors in the span
        of W₁.
        """
        rank = None if self.basis is None else self.basis.rank
        if self.stage_1 is None:
            return {**self.found, "rank": rank}
        if self.values is not None:
            return {**self.found, "eigenvalues": self.values, "rank": rank, "inverse": self.basis}
        return {"weights": self.stage_1.W, "rank": rank, "inverse": self.basis, "complete": True}

    def notes(self) -> Sequence[tuple[Status | None, str]]:
        """Return a warning with `Status.INCOMPLETE` if `measured` is False, otherwise nothing.

        The warning is that the residual is in the plain norm, so that eigenvalues of directions v with short Xv may be
        missing.
        """
        return [] if self.measured else [(Status.INCOMPLETE, UNJUDGED)]


@dataclass(frozen=True, kw_only=True)
class TwoStage(IterativeSolver):
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

    kept: ClassVar = (Subspace, Answer, RowBasis)
    resumes_after_law: ClassVar[bool] = False

    def iterates(self, problem: Any, run: Run, state: Subspace | None = None) -> Iterator[Subspace]:
        """Yield each answer of stage 1 with the weights and the residual of stage 2."""
        moments = run.moments(self._form(problem))
        lstsq, home = run.part(chosen(self.lstsq, problem.X)), moments.home
        run.plan(setup=setup(lstsq, moments, begun=state is not None))
        _, C = problem.gram_and_targets(moments, _unknown_norms(moments) if state is None else None)
        turn = home.place(told_apart(C, problem.resolution, problem.rounding(moments), home))
        turned = C @ turn  # XᵀHT
        if state is None:
            state = self._begun(problem, run, moments, turned)

        def as_printed(W: Array) -> dict[str, Array]:
            return {"weights": W @ home.place(_printed(W, turned, problem)[0])}

        B = product(problem.H, problem.factor, turn)
        task = Task(X=problem.X, B=B, XtB=turned, ridge=problem.ridge, weights=as_printed)
        task = replace(task, scale=column_scale(moments, problem.ridge, state.basis))
        tol = INNER_TOL if self.tol is None else self.tol / 10
        regression, it = Regression(lstsq, task, moments, run, tol), state
        while True:
            yield it
            basis, measured = it.basis, it.stage_1 is not None or it.basis is not None
            stage_1 = regression.after(it)  # W₁ = argmin ‖XW₁ − HT‖² + γ‖W₁‖²
            if not measured and not run.ended:
                # A residual that is small in the plain norm may be large in the norm of M⁻¹, and vice versa.
                basis, measured = row_basis(problem, problem.ridge, run, moments), True
            XtXW = moments.gram(stage_1.W) if basis is None else basis.product(stage_1.W)
            weights, values, residual = self._second_stage(problem, moments, stage_1.W, XtXW, turned, basis)
            it = Subspace(
                residual=residual,
                ending=regression.ending(residual, it),
                after=moments.cost.sweep,
                stage_1=stage_1,
                product=XtXW,
                basis=basis,
                found={"weights": weights},
                values=values if self.second_stage == "printed" else None,
                measured=measured,
            )

    def _begun(self, problem: Any, run: Run, moments: Moments, turned: Array) -> Subspace:
        """First iterate, before stage 1; the run ends with it if XᵀH is zero up to rounding."""
        found = {"weights": moments.home.zeros((turned.shape[0], 0))}
        nothing = not turned.shape[1]
        measured = problem.ridge == 0 if nothing else unequal(moments, problem.ridge)
        basis = row_basis(problem, problem.ridge, run, moments) if measured else None
        if nothing:
            return Subspace(residual=0.0, ending=Status.CONVERGED, basis=basis, found=found)
        return Subspace(shown=False, basis=basis, found=found)

    def _second_stage(
        self, problem: Any, moments: Moments, W: Array, XtXW: Array, turned: Array, basis: RowBasis | None
    ) -> tuple[Array, HostArray, float]:
        """Eigenvectors in the span of stage 1, their eigenvalues and their residual."""
        home, C = moments.home, problem.gram_and_targets(moments)[1]
        C = C if basis is None else basis.within(C)
        MW, lacking = XtXW + W * problem.ridge, 0.0
        if self.second_stage == "printed":
            inner, values = _printed(W, turned, problem)  # W₁ U_D Σ_D^(-1/2), D = W₁ᵀXᵀHT
        else:
            inner, values = problem.within_span(W, MW, C, moments, basis)  # F = W₁ᵀXᵀH, G = W₁ᵀMW₁
            lacking = problem.lacking(W, MW, C, moments, basis)
        weights, image = W @ home.place(inner), MW @ home.place(inner)
        residual = problem.residual(weights, image, C, values, home, basis)
        return weights, values, max(residual, lacking)

    def _form(self, problem: Any) -> str:
        """Form of the moments for products with X only."""
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
        """Estimated cost of a few dozen products with a block as wide as the targets."""
        return cost.sweeps_estimate(sizes, EXPECTED_SPARSE if sizes.scattered else EXPECTED)


def _printed(W: Array, turned: Array, problem: Any) -> tuple[HostArray, HostArray]:
    """Stage 2 as printed: U_D Σ_D^(-1/2) and Σ_D for D = W₁ᵀXᵀHT, with the turned targets HT of W₁."""
    D = to_host(W.T @ turned)
    values, vectors = np.linalg.eigh((D + D.T) / 2)
    order = np.argsort(-values)[: problem.k]
    order = order[values[order] > problem.resolution**2 * max(values.max(initial=0.0), 0.0)]
    return vectors[:, order] / np.sqrt(values[order]), values[order]


def _unknown_norms(moments: Moments) -> Array | None:
    """Return a p x 0 block to multiply in the first sweep, or None if the column norms of X are exact without products.

    If the entries of X cannot be read, a sweep estimates the column norms from products with columns of random signs,
    which it appends to the block that it multiplies. Without a block it makes no such products.
    """
    return None if moments.columns.exact else moments.home.zeros((moments.shape[1], 0))
