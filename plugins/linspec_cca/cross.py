"""The SVD of the cross product, with or without scaled columns, instead of the SVD of the whitened cross product.

Problem: approximate the leading canonical pairs without a product with an inverse of a Gram matrix.
Method: the leading singular triplets of T = Dx^(-1/2) C Dy^(-1/2), C = XᵀY. "nw-cca" takes the identity for D: it finds
directions of large covariance. "dw-cca" takes the diagonals of the Gram matrices, ridge included: it is exact where the
columns of each view do not overlap, as those of one-hot rows do. With T = U diag(σ) Vᵀ,

    (1)  [0 T; Tᵀ 0] [u; v] = σ [u; v],
    (2)  Φ = Dx^(-1/2) U,   Ψ = Dy^(-1/2) V.

Source: Ma, Lu & Foster 2015, arXiv:1506.08170, section 4; Lu 2015 (thesis), section 4.4. Covariance instead of
correlation is partial least squares: Wegelin 2000; Witten, Tibshirani & Hastie 2009, doi:10.1093/biostatistics/kxp008.
The matrix of (1) is that of Golub & Kahan 1965, doi:10.1137/0702016.
Where we differ: the SVD comes from a block Krylov space of (1), and not from a random sketch. One pass multiplies by T
and by Tᵀ, so it is one step (`linspec.linalg.krylov`). The first pass multiplies random blocks by C, as in
"randomized". The iteration ends when its residual is small. At the end the pairs are made canonical within the spans
found, so the method determines only the spans. Their residual is that of CCA: the status is APPROXIMATE unless they
solve CCA, too.

D-CCA: for one-hot rows the Gram matrices are diagonal, and whitening is a scaling. The source takes the steps of "als"
with diagonals in place of the projections, Φ ← Dx⁻¹ C Ψ and Ψ ← Dy⁻¹ CᵀΦ: a power iteration with the limit of "dw-cca".
Source: Lu 2015 (thesis), section 3.3.1.
Where we differ: "d-cca" is "dw-cca" with more columns. Its Krylov space has all iterates of the alternating steps.
Centring couples all columns by a matrix of rank one; a warning says so.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

import linspec as ls
from linspec import Status, form_option, limit_option, option, part, tol_option
from linspec.arrays import Array, reciprocal, to_host
from linspec.errors import AccuracyWarning, warn
from linspec.families.cca import Pairs, block_width, first_blocks
from linspec.iteration import Context, Iterate
from linspec.linalg import block_krylov, ratio
from linspec.rows import Moments
from linspec.solving import Solver

MATERIAL = 1e-6
"""Centring spoils a diagonal Gram matrix if it takes more than this fraction out of a column's sum of squares."""

COUPLED = """d-cca treats the Gram matrix of {name} as diagonal, but centring subtracts a matrix of rank one that \
couples all columns (up to {share:.2g} of a column). Pass center=False, or choose "als" or "gram"."""


BLOCKS = 10
"""Blocks of a basis before it is restarted."""

NOISE = 1e-13
"""Singular values of at most this part of the largest are rounding."""

ENDED = (
    "It leads to singular vectors of the scaled XᵀY, which are canonical pairs only where the Gram matrices are as the "
    'scaling has them. Choose "als", which whitens, for others.'
)


@dataclass(frozen=True, kw_only=True)
class CrossSVD(Solver):
    """The leading singular triplets of a scaled cross product (Ma, Lu & Foster 2015, section 4)."""

    oversample: int = option(10, "columns of a block beyond k", at_least=0)
    test_matrix: Any = part("gaussian", "random start", kind="test-matrix")
    tol: float | None = tol_option()
    max_iterations: int = limit_option(300, "iterations, a pass each,")
    form: str = form_option()

    @abstractmethod
    def metric(self, diagonal: Array) -> Array:
        """D of a view, from the diagonal of its Gram matrix with the ridge."""

    def iterate(self, problem: ls.CCA, moments: Moments, context: Context, start: Any) -> Iterator[Iterate]:
        """Yield the leading triplets within a space, after each pass."""
        k, width, (p, _) = problem.k, block_width(problem, self.oversample), moments.widths
        moments.expect(30, width, self.form)
        W = first_blocks(moments, context, start, width, self.test_matrix)
        pairs = Pairs.of(moments, problem.ridge, W)
        device = pairs.device
        roots = [device.xp.sqrt(reciprocal(self.metric(d))) for d, _ in pairs.noise]

        def joined(CW: tuple[Array, Array]) -> Array:
            """Both blocks, in coordinates in which D is the identity."""
            both = [root * V for root, V in zip(roots, CW, strict=True)]
            return device.xp.concat(both, axis=0)

        def weights(Z: Array) -> dict[str, Array]:
            return {"x_weights": roots[0] * Z[:p, :], "y_weights": roots[1] * Z[p:, :]}  # (2)

        def product(Z: Array) -> Array:
            (_, CtPhi), (CPsi, _) = moments.products(*weights(Z).values())
            return joined((CPsi, CtPhi))  # (1)

        context.note(Status.APPROXIMATE, ENDED)
        for ritz in block_krylov(product, joined(pairs.CW), k, context.rng, room=BLOCKS * width):
            sigma, first = ritz.values, float(ritz.values.max(initial=0.0))
            # ‖Tv - σu‖² + ‖Tᵀu - σv‖² is twice the square for [u; v] of length 1
            residual = ratio(2 * float(np.sum(ritz.residuals**2)), first * float(sigma.sum()))
            # of the pairs ±σ those below 0 are no triplets: more blocks will find directions with σ = 0
            complete = len(sigma) == k and float(sigma.min()) >= -NOISE * first
            final = residual <= context.tol and complete
            arrays = partial(lambda pairs: weights(pairs.vectors()), ritz)
            yield Iterate(residual if complete else 1.0, arrays, final=final)
            if final:
                return


@dataclass(frozen=True, kw_only=True)
class NoWhitening(CrossSVD):
    """Singular vectors of XᵀY (Ma, Lu & Foster 2015, section 4)."""

    def metric(self, diagonal: Array) -> Array:
        """The mean of `diagonal`, the identity in the units of the data; 0 for columns of zeros."""
        return diagonal * reciprocal(diagonal) * float(to_host(diagonal).mean())


@dataclass(frozen=True, kw_only=True)
class DiagonalWhitening(CrossSVD):
    """Singular vectors of XᵀY between columns of unit length (Ma, Lu & Foster 2015, section 4)."""

    def metric(self, diagonal: Array) -> Array:
        """The diagonal itself."""
        return diagonal


@dataclass(frozen=True, kw_only=True)
class DiagonalCCA(DiagonalWhitening):
    """The limit of alternating steps with the diagonals of the Gram matrices (Lu 2015, section 3.3.1)."""

    oversample: int = option(20, "columns of a block beyond k", at_least=0)

    def iterate(self, problem: ls.CCA, moments: Moments, context: Context, start: Any) -> Iterator[Iterate]:
        """Yield the same triplets, with a warning where the Gram matrices are not diagonal."""
        steps = super().iterate(problem, moments, context, start)
        first = next(steps)
        warn_of_means(moments)
        yield first
        yield from steps


def warn_of_means(moments: Moments) -> None:
    """Warn where centring takes much out of a column, so that the Gram matrix is not diagonal."""
    for i, name in enumerate(moments.names if moments.pre.center else ()):
        share = 1 - 1 / moments.fitted[i].about_zero
        if share > MATERIAL:
            warn(COUPLED.format(name=name, share=share), AccuracyWarning)
