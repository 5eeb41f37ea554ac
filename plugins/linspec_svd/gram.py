"""The singular value decomposition by the Gram matrix of the shorter side.

Problem: the k leading singular triplets of A, where one side is short enough for a matrix of its order.
Method: one pass forms S = AᵀA, whose leading eigenvectors are right singular vectors, S v = σ²v. With fewer rows than
columns it is K = AAᵀ, K u = σ²u, and one more pass gives Aᵀu = σv.
Source: Golub & Van Loan 2013, Matrix Computations, 4th edition, section 8.6.
Where we differ: squaring loses digits. Where values that are asked for fall below what a Gram matrix can tell from
zero, "direct" goes on from the rows.

The singular value decomposition by orthogonal transformations: the oracle.

Problem: the k leading singular triplets of A, to full accuracy relative to the largest.
Method: one pass reduces the rows to a triangle R by Householder transformations, block after block, and the SVD of R
has the singular values and the right vectors of A. Products with RᵀR judge it, so it takes no other pass.
Source: Chan 1982, doi:10.1145/355984.355990; the reduction in blocks is that of Demmel, Grigori, Hoemmen & Langou 2012.
Where we differ: with more columns than rows the rows themselves are decomposed, because their triangle would be as
large. Left vectors are A V made orthonormal; otherwise the transformations would have to be stored.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

import linspec as ls
from linspec import Status
from linspec.arrays import Array, HostArray, to_host
from linspec.cost import DENSE_RATE, FACTOR_RATE, Estimate, Sizes, gram_seconds
from linspec.iteration import Context, Iterate
from linspec.linalg import EPS, leading_eigenpairs
from linspec.rows import Moments, row_gram
from linspec.solving import Solver
from linspec_svd.block_krylov import right_vectors
from linspec_svd.spca import NULL


@dataclass(frozen=True, kw_only=True)
class DirectSVD(Solver):
    """Orthogonal reduction of the rows and the SVD of the triangle (Chan 1982)."""

    def iterate(self, problem: ls.SVD, moments: Moments, context: Context, start: Any) -> Iterator[Iterate]:
        """Yield the answer."""
        yield direct(problem, moments)

    @classmethod
    def estimate(cls, sizes: Sizes) -> Estimate | None:
        """Estimated cost of an orthogonal reduction of all rows and the SVD of a square of the shorter side's order."""
        if not sizes.readable:
            return None
        short, long = sorted((float(sizes.n), float(sizes.p)))
        seconds = sizes.shared(2.5 * long * short**2 / FACTOR_RATE) + 20.0 * short**3 / FACTOR_RATE
        entries = 10.0 * short**2 if sizes.n >= sizes.p else 4.0 * long * short
        memory = 8.0 * (entries + sizes.k * (short + long))
        return Estimate(seconds, memory, f"orthogonal reduction to order {short:.0f}")


def direct(problem: ls.SVD, moments: Moments) -> Iterate:
    """The leading triplets: as many as the problem asks for, or as are above rounding."""
    device = moments.device
    R = device.asarray(moments.triangle())
    _, s, Vt = device.xp.linalg.svd(R, full_matrices=False)
    S = to_host(s)
    k = problem.enough(moments, S**2)
    S = S[:k]
    known = int((moments.least_value() * S.max(initial=0.0) < S).sum())
    return Iterate(0.0, partial(dict, Vh=Vt[:known, :], S=S[:known]), final=True)


BLOCK_WIDTH = 512
"""Up to this order, matrices of a device are decomposed on the host."""

SQUARED = (
    "Singular values that were asked for are so small beside the largest that the Gram matrix, with their squares, has "
    'few of their digits, or cannot tell them from zero. The residual does not show this. Choose "direct".'
)

DIGITS_LOST = 1e-6
"""Relative error of the smallest squared value from which on the status says that squaring has lost digits."""


@dataclass(frozen=True, kw_only=True)
class GramSVD(Solver):
    """One pass and an eigen-decomposition (Golub & Van Loan 2013, section 8.6)."""

    def iterate(self, problem: ls.SVD, moments: Moments, context: Context, start: Any) -> Iterator[Iterate]:
        """Yield the answer."""
        A = moments.operators[0]
        device = moments.device
        wide = A.shape[0] < A.shape[1] and (A.resident or not A.readable)
        S = row_gram(moments) if wide else moments.gram()[0][0]
        most = int(S.shape[0]) if problem.share else problem.k
        values, U = leading(S, most, device)
        k = problem.enough(moments, values)
        values, U = values[:k], U[:, :k]
        known = _known(moments, context, values, U, wide=wide)
        if known is None:
            yield direct(problem, moments)
            return
        U = U[:, :known]
        S = np.sqrt(values[:known])
        if not wide:
            yield Iterate(0.0, partial(dict, Vh=U.T, S=S), final=True)
            return
        yield Iterate(0.0, partial(dict, right_vectors(moments, U)), final=True)

    @classmethod
    def estimate(cls, sizes: Sizes) -> Estimate:
        """Estimated cost of the Gram matrix of the shorter side and some of its eigenvectors."""
        side = min(sizes.n, sizes.p)
        forming = gram_seconds(sizes) if sizes.readable else 2.0 * sizes.nnz * side / DENSE_RATE
        seconds = forming + 2.0 * side**2 * (side + 2.0 * sizes.k) / FACTOR_RATE
        memory = 24.0 * side**2 + 16.0 * sizes.k * (sizes.n + sizes.p)
        return Estimate(seconds, memory, "Gram matrix and its eigenvectors")


def leading(S: Array, k: int, device: Any) -> tuple[HostArray, Array]:
    """The k largest eigenvalues of a symmetric matrix, decreasing, and their eigenvectors."""
    if device.on_host or S.shape[0] <= BLOCK_WIDTH:
        S = S.toarray() if hasattr(S, "toarray") else to_host(S)
        values, vectors = leading_eigenpairs(S, k)
        return values[::-1], device.asarray(np.ascontiguousarray(vectors[:, ::-1]))
    values, vectors = device.xp.linalg.eigh(S)
    return to_host(values)[::-1][:k], device.xp.flip(vectors[:, S.shape[0] - k :], axis=1)


def _known(moments: Moments, context: Context, values: HostArray, U: Array, *, wide: bool) -> int | None:
    """The number of values that the matrix can tell from zero; None if the rows can tell more."""
    largest = max(float(values[0]), 0.0)
    entries = moments.least_value() ** 2
    squaring = U.shape[0] * EPS
    rounding = max(max(squaring, entries) * largest, squaring * moments.subtracted() ** 2)
    known = int(np.count_nonzero(values > rounding))
    lost = known < len(values) and squaring > entries and largest > 0
    if lost and moments.rereads and context.passes.allows(1):
        A = moments.operator()
        V = U[:, known:]
        image = A.rmatmat(V) if wide else A.matmat(V)
        lengths = to_host(moments.device.column_norms(image))
        if (lengths <= NULL * moments.least_value() * largest**0.5).all():  # only rounding
            return known
        if moments.operators[0].readable and context.passes.allows(1):
            return None
    if lost or (known and EPS * largest > DIGITS_LOST * float(values[known - 1])):
        context.note(Status.ILL_CONDITIONED, SQUARED)
    return known
