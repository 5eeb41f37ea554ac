"""CCA by locally optimal block preconditioned conjugate gradients on both subspaces at once.

Problem: the leading canonical pairs of views too large for their Gram matrices, or for factoring them.
Method: with the stacked vector w = (φ, ψ) canonical pairs are the eigenvectors of the pencil

    [0 C; Cᵀ 0] w = ρ diag(Sx, Sy) w                                       (1)

Each view has a subspace, and the pairs are the Rayleigh-Ritz pairs within the two. Their residuals

    ϱx = CΨ − SxΦ diag(ρ),    ϱy = CᵀΦ − SyΨ diag(ρ)                        (2)

are measured in the norm of S⁻¹, and multiplied by a preconditioner:

    Zx = Px⁻¹ϱx,    Zy = Py⁻¹ϱy                                            (3)

are the next directions of the subspaces. One pass multiplies both by all four matrices; everything else is small.
Source: Knyazev 2001, doi:10.1137/S1064827500366124 (LOBPCG); restarts with the pairs before the last step as in
Stathopoulos 2007, doi:10.1137/050631574 (GD+k). `linspec.linalg.lobpcg_steps` has both, for any pencil.
Where we differ: there is a subspace for each view, and not one of stacked vectors, so a block gives twice the
directions. The preconditioner is that of the norm: the inverse of held Gram matrices, or of a sketch that rides on the
first pass, or else one made of random signs beside the first block. More columns than k are carried, because
convergence then depends on how far the correlations after them lie below the k-th. Their number depends on the cost of
a pass. Pairs with a residual far below the tolerance stay in the subspace and need no more products.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import linspec as ls
from linspec import cost, form_option, limit_option, option, part, tol_option
from linspec.arrays import Array, HostArray
from linspec.cost import Estimate, Sizes
from linspec.families.cca import Gains, block_width, first_blocks, multiplied
from linspec.iteration import Context, Iterate, ritz_iterates
from linspec.linalg import RitzBlocks, lobpcg_steps, ratio
from linspec.rows import Moments
from linspec.solving import Solver

EXPECTED = 30
"""Expected number of passes, for the decision whether to hold Gram matrices."""

OVERSAMPLED_HELD, OVERSAMPLED = 16, 50
"""Number of columns beyond k if products cost no pass, and if each costs one."""

DEPTH_HELD, DEPTH = 4, 3
"""Largest number of blocks in a subspace, if products cost no pass, and if each costs one. A deeper subspace takes
more memory, but is reduced less often."""

SETTLED = 0.01
"""Pairs get no more directions if their residual is below this part of the tolerance."""

FLOPS_BETWEEN = 57.0
"""Operations between two passes, in units of (p + q) m² for blocks of m columns."""

BLOCKS_HELD = 13
"""Blocks of m columns that are held at the peak: nine of the subspaces, and two for each of two threads."""


@dataclass(frozen=True, kw_only=True)
class LOBPCG(Solver):
    """Locally optimal block preconditioned conjugate gradients (Knyazev 2001, doi:10.1137/S1064827500366124)."""

    tol: float | None = tol_option()
    max_iterations: int = limit_option(500, "passes")
    oversample: int | None = option(
        None, "columns carried beyond k; none: 16 with held Gram matrices, else 50", kind=int, at_least=0
    )
    depth: int | None = option(
        None, "blocks of a subspace at most; none: 4 with held Gram matrices, else 3", kind=int, at_least=3
    )
    test_matrix: Any = part("gaussian", "random start", kind="test-matrix")
    form: str = form_option()

    def iterate(self, problem: ls.CCA, moments: Moments, context: Context, start: Any) -> Iterator[Iterate]:
        """Yield the canonical pairs within subspaces that grow."""
        k, ridges = problem.k, problem.ridge
        moments.expect(EXPECTED, k + OVERSAMPLED, self.form)
        more, depth = (OVERSAMPLED_HELD, DEPTH_HELD) if moments.holds else (OVERSAMPLED, DEPTH)
        width = block_width(problem, more if self.oversample is None else self.oversample)
        W = first_blocks(moments, context, start, width, self.test_matrix)
        begun, metrics = multiplied(problem, moments, W)
        steps = lobpcg_steps(
            partial(_products, moments, ridges),
            begun.W,
            begun.noise,
            width,
            depth=self.depth or depth,
            limit=1.0,
            products=(begun.SW, ((None, begun.CW[1]), (begun.CW[0], None))),
        )
        del W, begun
        gains = Gains(metrics)

        def residual_and_live(pairs: RitzBlocks, squares: HostArray) -> tuple[float, HostArray]:
            """The residual of (2), of φ and ψ of length 1 each, and which pairs need more directions."""
            rho = pairs.values
            measured = ratio(2.0 * float(squares[:k].sum()), float(rho[:k].sum()))
            residual = measured if pairs.exhausted else gains.residual(measured, rho[:k])
            return residual, 2.0 * squares > SETTLED * min(context.tol, measured) * rho

        def weights(pairs: RitzBlocks) -> dict[str, Array]:
            """The pairs as weights, of length 1 each."""
            phi, psi = pairs.vectors(width)
            return {"x_weights": phi * math.sqrt(2), "y_weights": psi * math.sqrt(2)}

        again = start is not None
        yield from ritz_iterates(
            steps, metrics, context, k, residual_and_live, weights, begun=again, what="pair"
        )  # (3)

    @classmethod
    def estimate(cls, sizes: Sizes) -> Estimate:
        """Estimated cost of some dozens of products, held or swept, and of the algebra between them."""
        width = min(sizes.k + OVERSAMPLED, sizes.p, sizes.q)
        form, products = cost.moments_form(sizes, EXPECTED, width)
        if form != "implicit":
            width = min(sizes.k + OVERSAMPLED_HELD, sizes.p, sizes.q)
            products = cost.moments_estimates(sizes, EXPECTED, width)[form]
        entries = float(sizes.p + sizes.q) * width
        between = EXPECTED * entries * width * FLOPS_BETWEEN / cost.DENSE_RATE
        held = products.bytes + 8.0 * BLOCKS_HELD * entries
        return Estimate(products.seconds + between, held, products.note)


def _products(moments: Moments, ridges: Sequence[float], Z: Sequence[Array]) -> tuple[Any, Any]:
    """SxZx and SyZy, ridges included, and CᵀZx and CZy: one pass."""
    (Sx, CtZx), (CZy, Sy) = moments.products(*Z)
    SZ = [P if r == 0 else P + z * r for P, z, r in zip((Sx, Sy), Z, ridges, strict=True)]
    return SZ, ((None, CtZx), (CZy, None))
