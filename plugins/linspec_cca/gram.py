"""CCA from the Gram matrices.

Problem: the leading singular values of Sx^(-1/2) C Sy^(-1/2).
Method: one pass forms Sx, C and Sy (Lu 2015, Lemma 4.1.2). With Cholesky factors Sx = LxLxᵀ, Sy = LyLyᵀ the small
matrix Lx⁻¹ C Ly⁻ᵀ has the same singular values.
Where we differ: the Gram matrices are first scaled to unit diagonal. If one is singular or nearly so, an
eigen-decomposition with a rank cut replaces its Cholesky factor. Forming a Gram matrix squares the condition number. So
directions below √eps of the largest one of a view cannot be told from zero; the solver "direct" tells them.

CCA by orthogonal transformations: the oracle.

Problem: the canonical correlations of X and Y, to full accuracy even if the Gram matrices are singular.
Method: Björck & Golub (1973). With orthonormal bases Qx, Qy of the two column spaces the correlations are the singular
values of QxᵀQy. The bases reveal the rank: columns are scaled to unit length, and an SVD is cut.
Where we differ: the rows are first reduced by orthogonal transformations (one pass, R instead of Q), so that no n x p
basis is stored; a ridge enters as rows of √ridge below R.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import linspec as ls
from linspec.cost import CHOLESKY_RATE, DENSE_RATE, FACTOR_RATE, SPARSE_RATE, Estimate, Sizes, gram_seconds
from linspec.families.cca import all_pairs
from linspec.iteration import Context, Iterate
from linspec.rows import Moments
from linspec.solving import Solver

BLOCK_ROWS = 4096
"""For the estimate of memory: number of rows that the reduction holds at its peak, besides triangles. It is the number
of rows of a block of data, times the number of its copies."""


@dataclass(frozen=True, kw_only=True)
class DirectCCA(Solver):
    """Orthogonal bases of both views and the SVD of their product (Björck & Golub 1973)."""

    def iterate(self, problem: ls.CCA, moments: Moments, context: Context, start: Any) -> Iterator[Iterate]:
        """Yield the answer."""
        moments.triangle()
        yield Iterate(0.0, partial(all_pairs, problem, moments), final=True)

    @classmethod
    def estimate(cls, sizes: Sizes) -> Estimate:
        """Estimated cost of one orthogonal reduction of all columns and three small decompositions."""
        width = sizes.p + sizes.q
        seconds = sizes.shared(2.5 * sizes.n * width**2 / FACTOR_RATE) + 20.0 * width**3 / FACTOR_RATE
        entries = 10.0 * width**2 + BLOCK_ROWS * width  # triangles, and some copies of a block of rows
        return Estimate(seconds, 8.0 * entries, f"orthogonal reduction to order {width}")


@dataclass(frozen=True, kw_only=True)
class GramCCA(Solver):
    """One pass, Cholesky whitening and a small SVD (Lu 2015, Lemma 4.1.2)."""

    def iterate(self, problem: ls.CCA, moments: Moments, context: Context, start: Any) -> Iterator[Iterate]:
        """Yield the answer."""
        moments.gram()
        yield Iterate(0.0, partial(all_pairs, problem, moments), final=True)

    @classmethod
    def estimate(cls, sizes: Sizes) -> Estimate | None:
        """Estimated cost of three Gram matrices, two Cholesky factors, two triangular solves and an SVD."""
        shorter, longer = sorted((float(sizes.p), float(sizes.q)))
        rate = SPARSE_RATE if sizes.scattered else DENSE_RATE
        forming = gram_seconds(sizes) if sizes.readable else 3.0 * sizes.nnz * (sizes.p + sizes.q) / rate
        flops = longer**3 / 3 + 3.0 * shorter * longer**2 + 3.0 * shorter**3
        memory = 8.0 * (2 * sizes.gram_entries + shorter * longer)
        return Estimate(forming + flops / CHOLESKY_RATE, memory, "Gram matrices and their factors")
