"""Discriminant subspaces by factorisation.

Problem: the k leading eigenvectors of XᵀHHᵀX w = λ M w, M = XᵀX + rI.
Method: with N Nᵀ = M⁻¹ and the thin singular value decomposition NᵀXᵀH = UΣVᵀ,

    (1)  W = N U,   λ = Σ²
    (2)  W = (XᵀX + rI)⁻¹XᵀH = Xᵀ(XXᵀ + rI)⁻¹H, and the eigenvectors within its span

where (1) takes one pass that forms XᵀX and XᵀH. With more columns than rows the dual system of (2) is smaller.
Source: Sun, Ceran & Ye 2010, doi:10.1145/1835804.1835846: the direct approach of section 5.3, W₀ of Theorem 4.
Where we differ: (a) The thin NᵀXᵀH is decomposed, and the matrix NᵀXᵀHHᵀXN of order p is never formed. (b) If the
condition number shows that forming XᵀX has lost too many digits, or a column depends on others, orthogonal
transformations reduce the rows instead, and an SVD of the small factor determines the rank. Rows that can be read once
are reduced at once. (c) (2) is the least-squares solver "direct", which reduces columns where XXᵀ is ill-conditioned.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np

import linspec as ls
from linspec import get_solver, option
from linspec.arrays import Device
from linspec.cost import (
    CHOLESKY_RATE,
    DENSE_RATE,
    FACTOR_RATE,
    SPARSE_RATE,
    Estimate,
    Sizes,
    gram_seconds,
)
from linspec.families.discriminant import directions_of
from linspec.iteration import Context, Iterate
from linspec.rows import Moments
from linspec.solving import Solver


@dataclass(frozen=True, kw_only=True)
class DirectDiscriminant(Solver):
    """Factorisation of the Gram matrix, or of the data if squares lose too much (Sun, Ceran & Ye 2010, section 5.3)."""

    rank_tol: float | None = option(
        None,
        "singular values below this share of the largest are zero; none: rounding",
        above=0,
        below=1,
    )

    def iterate(
        self, problem: ls.Discriminant, moments: Moments, context: Context, start: Any
    ) -> Iterator[Iterate]:
        """Yield the answer."""
        X = moments.operators[0]
        if X.shape[0] < X.shape[1] and not (moments.once or problem.X.streamed or moments.holds):
            lstsq: Any = get_solver("direct", "least-squares")
            ridges = np.full(moments.widths[1], problem.ridge)
            system = SimpleNamespace(A=problem.X, ridges=(problem.ridge,), column_ridges=ridges)
            solution = dict(lstsq(rank_tol=self.rank_tol).answered(system, moments, context))
            W = solution.pop("x")
            W = W if problem.factor is None else W @ Device.of(W).asarray(problem.factor)
            yield Iterate(0.0, partial(dict, weights=W, complete=True, **solution), final=True)  # (2)
            return
        by_rows = moments.once or self.rank_tol is not None
        if not by_rows:
            moments.gram()
        known = directions_of(problem, moments, by_rows=by_rows, cut=self.rank_tol)
        U, sigma = known.triplets
        U = U[:, : min(problem.k, len(sigma))]
        yield Iterate(0.0, partial(dict, weights=known.metric.lift(U)), final=True)  # (1)

    @classmethod
    def estimate(cls, sizes: Sizes) -> Estimate | None:
        """Estimated cost of a Gram matrix of the shorter side, its factor, and singular vectors of a thin matrix."""
        if not sizes.readable:
            return None
        side = float(min(sizes.n, sizes.p))
        t = float(min(max(sizes.q, sizes.k), sizes.p, sizes.n))
        rate = SPARSE_RATE if sizes.scattered else DENSE_RATE
        forming = gram_seconds(sizes) if sizes.p <= sizes.n else sizes.shared(sizes.nnz * side / rate)
        factoring = side**3 / 3 / CHOLESKY_RATE + 6 * side * t * (t + side) / FACTOR_RATE
        memory = 24.0 * side**2 + 8.0 * (sizes.n + sizes.p) * t
        return Estimate(forming + factoring, memory, "Gram matrix and its Cholesky factor")
