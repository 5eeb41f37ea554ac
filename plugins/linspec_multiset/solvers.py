"""Multiset CCA from the Gram matrices, or by locally optimal block preconditioned conjugate gradients.

Problem: the leading solutions of A w = λ B w, where the Gram matrices of all views fit into memory, and where not.
Method: "gram" forms them in one pass. The eigenvectors of one symmetric matrix in whitened coordinates are the answer
(`linspec_multiset.pencil`). In "lobpcg" the Ritz vectors of the pencil within subspaces of the views have the residual

    ϱ = A w − λ B w,    measured in the norm of B⁻¹.    (1)

Its part of view i is multiplied by a preconditioner of Sᵢ,

    Zᵢ = Pᵢ⁻¹ϱᵢ,    (2)

and added to the subspace of the view. One pass multiplies all new blocks by all Gram and cross matrices.
Source: Kettenring 1971, doi:10.1093/biomet/58.3.433; Knyazev 2001, doi:10.1137/S1064827500366124 (LOBPCG); restarts
with the vectors before the last step as in Stathopoulos 2007, doi:10.1137/050631574 (GD+k).
`linspec.linalg.lobpcg_steps` has both, for any pencil.
Where we differ: nearly singular Gram matrices are cut at the rounding of their entries, as in CCA. There is a subspace
for each view, and not one of stacked vectors. The preconditioner is that of the norm: the inverse of held Gram
matrices, or of a sketch that rides on the first pass, or one made of random signs beside the first block. Vectors with
a residual far below the tolerance stay in the subspaces, and need no more products.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from linspec import cost, form_option, limit_option, option, tol_option
from linspec.arrays import Array, HostArray
from linspec.certificates import norms_of_held
from linspec.cost import CHOLESKY_RATE, FACTOR_RATE, Estimate, Sizes
from linspec.iteration import Context, Iterate, ritz_iterates
from linspec.linalg import RitzBlocks, leading_eigenpairs, lobpcg_steps, ratio
from linspec.rows import Moments
from linspec.solving import Solver
from linspec_multiset.pencil import Pencil, forming
from linspec_multiset.problem import MultisetCCA


@dataclass(frozen=True, kw_only=True)
class GramMultiset(Solver):
    """One pass, Cholesky whitening and one eigendecomposition (Kettenring 1971)."""

    def iterate(
        self, problem: MultisetCCA, moments: Moments, context: Context, start: Any
    ) -> Iterator[Iterate]:
        """Yield the answer."""
        pencil = Pencil(moments, problem.ridge, problem.view_weights)
        moments.gram()
        metrics = norms_of_held(moments, problem.ridge, every=True) or []
        moments.metrics = metrics
        M = pencil.whitened(metrics)
        values, U = leading_eigenpairs(M, min(problem.k, len(M)))
        answer = {"weights": pencil.split(U[:, ::-1], metrics), "eigenvalues": values[::-1]}
        yield Iterate(0.0, lambda: answer, final=True)

    @classmethod
    def estimate(cls, sizes: Sizes) -> Estimate:
        """Estimated cost of the Gram matrices, their factors, and the eigenvectors of order Σpᵢ."""
        side = float(sizes.p + sizes.q)
        seconds = forming(sizes) + side**3 * (1.0 / CHOLESKY_RATE + 4.0 / 3.0 / FACTOR_RATE)
        return Estimate(seconds, 8.0 * 4.0 * side**2, "Gram matrices and eigenvectors")


EXPECTED = 30
"""Expected number of passes, for the decision whether to hold Gram matrices."""

OVERSAMPLED = 20
"""Columns of the block beyond k."""

SETTLED = 0.1
"""Vectors get no more directions if their residual is below this fraction of the tolerance."""

BLOCKS_HELD = 10
"""Blocks that are held at the peak for each view and each product of it."""


@dataclass(frozen=True, kw_only=True)
class LOBPCGMultiset(Solver):
    """Locally optimal block preconditioned conjugate gradients (Knyazev 2001, doi:10.1137/S1064827500366124)."""

    tol: float | None = tol_option()
    max_iterations: int = limit_option(500, "passes")
    oversample: int = option(OVERSAMPLED, "columns carried beyond k", at_least=0)
    form: str = form_option()

    def iterate(
        self, problem: MultisetCCA, moments: Moments, context: Context, start: Any
    ) -> Iterator[Iterate]:
        """Yield the Ritz vectors within subspaces that grow."""
        k, width = problem.k, problem.k + self.oversample
        pencil = Pencil(moments, problem.ridge, problem.view_weights)
        moments.expect(EXPECTED, width, self.form)
        start_weights = [None] * len(moments.widths) if start is None else start["weights"]
        first = [
            pencil.device.asarray(context.filled(W, p, width))
            for W, p in zip(start_weights, moments.widths, strict=True)
        ]
        products, metrics = pencil.with_norms(first, k)
        steps = lobpcg_steps(
            pencil.products,
            first,
            pencil.noise(first, products[0]),
            width,
            limit=sum(problem.view_weights),
            products=products,
        )
        del first, products

        def residual_and_live(ritz: RitzBlocks, squares: HostArray) -> tuple[float, HostArray]:
            """The residual (1), and which vectors need more directions."""
            lengths, largest = np.sqrt(squares), float(ritz.values.max(initial=0.0))
            residual = ratio(float(lengths[:k].max(initial=0.0)), largest)
            return residual, lengths > SETTLED * min(context.tol, residual) * largest

        def weights(ritz: RitzBlocks) -> dict[str, tuple[Array, ...]]:
            """The Ritz vectors of all views."""
            return {"weights": tuple(ritz.vectors(min(width, len(ritz.values))))}

        begun, shares = start is not None, problem.view_weights
        yield from ritz_iterates(  # (2)
            steps,
            metrics,
            context,
            k,
            residual_and_live,
            weights,
            begun=begun,
            what="component",
            shares=shares,
        )

    @classmethod
    def estimate(cls, sizes: Sizes) -> Estimate:
        """Estimated cost of some dozens of products, held or swept, and of the algebra between them."""
        width = min(sizes.k + OVERSAMPLED, sizes.p + sizes.q)
        side = float(sizes.p + sizes.q)
        _, products = cost.moments_form(sizes, EXPECTED, width)
        between = EXPECTED * side * width**2 * (60.0 / cost.DENSE_RATE + 100.0 / cost.FACTOR_RATE)
        held = 24.0 * side * width * BLOCKS_HELD
        return Estimate(products.seconds + between, products.bytes + held, products.note)
