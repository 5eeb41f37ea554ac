"""CCA by orthogonal transformations: the oracle.

Problem: the canonical correlations of X and Y, to full accuracy even if the Gram matrices are singular.
Method: Björck & Golub (1973). With orthonormal bases Qx, Qy of the two column spaces the correlations are the
singular values of QxᵀQy. The bases reveal the rank: columns are scaled to unit length, and an SVD is cut.
Where we differ: the rows are first reduced by orthogonal transformations (one sweep, R instead of Q), so that
no n x p basis is stored; a leading column of ones centres; a ridge is appended as rows of √ridge.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from linspec import Run, Solution, Solver
from linspec.algebra import BasisNorm, rank_cut, rounding_of_rows
from linspec.arrays import to_host
from linspec.cost import FACTOR_RATE, Estimate, Sizes
from linspec.families.cca import Evidence
from linspec.moments import column_basis, reduce_rows_of, sum_with_short

BLOCK_ROWS = 4096
"""For the estimate of memory: number of rows that the reduction holds at its peak, besides triangles. It is the number
of rows of a block of data, times the number of its copies."""


@dataclass(frozen=True, kw_only=True)
class DirectCCA(Solver):
    """Orthogonal bases of both views and the SVD of their product (Björck & Golub 1973)."""

    def solve(self, problem: Any, run: Run) -> Solution:
        """Solve a CCA problem."""
        home = problem.X.home.blocks
        rows = reduce_rows_of(problem, run, ridges=problem.ridge)
        x, y = (
            column_basis(R, rank_cut(A.shape, A.rounded_dtype, r), home, rounding_of_rows(A.rounded_dtype, r))
            for R, A, r in zip(rows, (problem.X, problem.Y), problem.ridge, strict=True)
        )
        P, rho, Qt = home.xp.linalg.svd(x.U.T @ y.U, full_matrices=False)
        k, eps = min(problem.k, rho.shape[0]), np.finfo(problem.dtype).eps
        return run.finish(
            x_weights=x.W @ P[:, :k],
            y_weights=y.W @ Qt.T[:, :k],
            correlations=to_host(rho)[:k],
            ranks=(x.rank, y.rank),
            evidence=Evidence(
                norms=(BasisNorm(x.W, x.condition**2, home), BasisNorm(y.W, y.condition**2, home)),
                short=sum_with_short(x, y, k, home),
                carried=float(to_host(rho)[k]) if k < rho.shape[0] else 0.0,
                resolution=float(max(*rows[0].shape, 1) * max(x.condition, y.condition) * eps),
            ),
        )

    @classmethod
    def estimate(cls, sizes: Sizes) -> Estimate | None:
        """Estimated cost of one orthogonal reduction of all columns and three small decompositions."""
        width = sizes.p + sizes.q
        reducing = sizes.shared(2.5 * sizes.n * width**2 / FACTOR_RATE)
        # The triangle, and what decompositions of it hold; some copies of a block of rows.
        entries = 10.0 * width**2 + BLOCK_ROWS * width
        seconds = reducing + 20.0 * width**3 / FACTOR_RATE
        return Estimate(seconds, 8.0 * entries, f"orthogonal reduction to order {width}")
