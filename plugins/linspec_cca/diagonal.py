"""D-CCA: alternating steps with the diagonals of the Gram matrices.

Problem: CCA for views whose columns hardly overlap. For one-hot rows the Gram matrices are diagonal, and whitening is a
scaling.
Method: the power iteration of "als", with diagonals Dx, Dy of the Gram matrices in place of the projections,

    (1)  Φ ← Dx⁻¹ C Ψ,   orthonormal in Dx,
    (2)  Ψ ← Dy⁻¹ CᵀΦ,   orthonormal in Dy.

Its limit is the truncated SVD of Dx^(-1/2) C Dy^(-1/2).
Source: Lu 2015 (thesis), section 3.3.1.
Where we differ: as in "als", columns beyond k are carried, and each step makes the small SVD. The iteration stops at
its own limit. The answer is then judged as CCA. So for views that overlap, the residual is large and the status is
APPROXIMATE. Centring couples all columns by a matrix of rank one; a warning says so.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from linspec import Status, form_option, limit_option, option, part, tol_option
from linspec.arrays import Array, reciprocal
from linspec.certificates import NearDiagonal
from linspec.errors import AccuracyWarning, warn
from linspec.families.cca import Pairs, block_width, first_blocks
from linspec.iteration import Context, Iterate
from linspec.rows import Moments
from linspec.solving import Solver

MATERIAL = 1e-6
"""Centring spoils a diagonal Gram matrix if it takes more than this fraction out of a column's sum of squares."""

TEXT = "d-cca reached its own limit, which is the exact answer only if the Gram matrices are diagonal."

COUPLED = """d-cca treats the Gram matrix of {name} as diagonal, but centring subtracts a matrix of rank one that \
couples all columns (up to {share:.2g} of a column). Pass center=False, or choose "als" or "gram"."""


@dataclass(frozen=True, kw_only=True)
class DiagonalCCA(Solver):
    """Alternating steps with the diagonals of the Gram matrices (Lu 2015, section 3.3.1)."""

    normalizer: Any = part("cholesky-qr", "normalizer of the blocks", kind="normalizer")
    test_matrix: Any = part("gaussian", "random start", kind="test-matrix")
    oversample: int = option(20, "columns carried beyond k", at_least=0)
    tol: float | None = tol_option()
    max_iterations: int = limit_option(1000)
    form: str = form_option()

    def iterate(self, problem: Any, moments: Moments, context: Context, start: Any) -> Iterator[Iterate]:
        """Yield canonical pairs in the metrics of the diagonals, after each iteration."""
        k, width, ridges = problem.k, block_width(problem, self.oversample), problem.ridge
        moments.expect(200, width, self.form)
        W = first_blocks(moments, context, start, width, self.test_matrix)
        pairs = Pairs.of(moments, ridges, W)
        D = [d for d, _ in pairs.noise]
        metrics = [NearDiagonal.of_diagonal(d, pairs.home) for d in D]
        pairs = in_diagonals(pairs, D).canonical(self.normalizer)
        warn_of_means(moments)
        context.note(Status.APPROXIMATE, TEXT)
        while True:
            residual = pairs.residual(metrics, k)
            yield Iterate(residual, pairs.leading(k).arrays, final=residual <= context.tol)
            for i in (0, 1):
                V = reciprocal(D[i]) * pairs.CW[i]  # (1), and (2)
                pairs = in_diagonals(pairs.renewed(moments, ridges, i, V), D)
                pairs = pairs.canonical(self.normalizer, new=(i,))


def in_diagonals(pairs: Pairs, D: Sequence[Array]) -> Pairs:
    """Return the pairs with D V in place of S V."""
    return replace(pairs, SW=(D[0] * pairs.W[0], D[1] * pairs.W[1]))


def warn_of_means(moments: Moments) -> None:
    """Warn where centring takes much out of a column, so that the Gram matrix is not diagonal."""
    for i, name in enumerate(moments.names if moments.pre.center else ()):
        share = 1 - 1 / moments.fitted[i].about_zero
        if share > MATERIAL:
            warn(COUPLED.format(name=name, share=share), AccuracyWarning)
