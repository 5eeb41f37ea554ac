"""The singular value decomposition by orthogonal transformations: the oracle.

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

from linspec.arrays import to_host
from linspec.cost import FACTOR_RATE, Estimate, Sizes
from linspec.iteration import Context, Iterate
from linspec.rows import Moments
from linspec.solving import Solver


@dataclass(frozen=True, kw_only=True)
class DirectSVD(Solver):
    """Orthogonal reduction of the rows and the SVD of the triangle (Chan 1982)."""

    def iterate(self, problem: Any, moments: Moments, context: Context, start: Any) -> Iterator[Iterate]:
        """Yield the answer."""
        yield direct(moments, problem.k)

    @classmethod
    def estimate(cls, sizes: Sizes) -> Estimate | None:
        """Estimated cost of an orthogonal reduction of all rows and the SVD of a square of the shorter side's order."""
        if not sizes.readable:
            return None
        short, long = sorted((sizes.n, sizes.p))
        seconds = sizes.shared(2.5 * long * short**2 / FACTOR_RATE) + 20.0 * short**3 / FACTOR_RATE
        entries = 10.0 * short**2 if sizes.n >= sizes.p else 4.0 * long * short
        memory = 8.0 * (entries + sizes.k * (sizes.n + sizes.p))
        return Estimate(seconds, memory, f"orthogonal reduction to order {short}")


def direct(moments: Moments, k: int) -> Iterate:
    """The leading triplets: k, or as many as are above rounding."""
    place = moments.operators[0].backend.blocks
    R = place.place(moments.triangle())
    _, s, Vt = place.xp.linalg.svd(R, full_matrices=False)
    S = to_host(s)[:k]
    known = int((moments.least_value() * S.max(initial=0.0) < S).sum())
    return Iterate(0.0, partial(dict, Vh=Vt[:known, :], S=S[:known]), final=True)
