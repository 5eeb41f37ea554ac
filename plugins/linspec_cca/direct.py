"""CCA by orthogonal transformations: the oracle.

Problem: the canonical correlations of X and Y, to full accuracy even where the Gram matrices are singular.
Method: Björck & Golub (1973). With orthonormal bases Qx, Qy of the two column spaces the correlations are the
singular values of QxᵀQy. The bases come rank-revealing: columns scaled to unit length, then an SVD with a cut.
Where we differ: the rows are first reduced by orthogonal transformations (one sweep, R instead of Q), so that
no n x p basis is stored; a leading column of ones centres; a ridge is appended as rows of √ridge.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from linspec import Run, Solution, Solver, option
from linspec.arrays import Array, Home, reciprocal, to_host
from linspec.block_algebra import rank_cut
from linspec.cost import FACTOR_RATE, Estimate, Sizes
from linspec.evidence import Evidence
from linspec.inverse_norm import BasisNorm
from linspec.row_reduction import reduce_rows


@dataclass(frozen=True, kw_only=True)
class Direct(Solver):
    """Orthogonal bases of both views and the SVD of their product (Björck & Golub 1973)."""

    rank_tol: float | None = option(
        None,
        "singular values below this share of the largest are zero; none: rounding",
        above=0,
        below=1,
    )

    def solve(self, problem: Any, run: Run) -> Solution:
        """Solve a CCA problem."""
        run.plan(setup=1.0 + run.moments("implicit").setup_cost)
        home = problem.X.home.blocks
        rows = reduce_rows(problem.matrices, center=problem.center, ridges=problem.ridge)
        bases = [
            _orthonormal_basis(R, self._cut(A), home)
            for R, A in zip(rows, (problem.X, problem.Y), strict=True)
        ]
        (Ux, Wx, _), (Uy, Wy, _) = bases
        conditions = [condition for _, _, condition in bases]
        P, rho, Qt = home.xp.linalg.svd(Ux.T @ Uy, full_matrices=False)
        k = min(problem.k, rho.shape[0])
        return run.finish(
            x_weights=Wx @ P[:, :k],
            y_weights=Wy @ Qt.T[:, :k],
            correlations=to_host(rho)[:k],
            ranks=(Wx.shape[1], Wy.shape[1]),
            evidence=Evidence(
                norms=(BasisNorm(Wx, conditions[0] ** 2, home), BasisNorm(Wy, conditions[1] ** 2, home)),
                carried=float(to_host(rho)[k]) if k < rho.shape[0] else 0.0,
                resolution=float(max(Ux.shape[0], 1) * max(conditions) * np.finfo(problem.dtype).eps),
            ),
        )

    def _cut(self, A: Any) -> float:
        return rank_cut(A.shape, A.dtype) if self.rank_tol is None else self.rank_tol

    @classmethod
    def estimate(cls, sizes: Sizes) -> Estimate | None:
        """One orthogonal reduction of all columns, then three small decompositions."""
        width = sizes.p + sizes.q
        flops = 2.5 * sizes.n * width**2 + 20.0 * width**3
        return Estimate(flops / FACTOR_RATE, 80.0 * width**2, f"orthogonal reduction to order {width}")


def _orthonormal_basis(R: Array, cut: float, home: Home) -> tuple[Array, Array, float]:
    """(U, W) with R W = U orthonormal over the numerical rank of R, and the condition of its scaled columns there."""
    xp = home.xp
    d = xp.sqrt(xp.sum(R * R, axis=0))
    scale = reciprocal(d)
    U, s, Vt = xp.linalg.svd(R * scale[None, :], full_matrices=False)
    values = to_host(s)
    rank = int(np.sum(values > cut * np.max(values, initial=0.0)))  # one row, centred, leaves none
    condition = float(values[0] / values[rank - 1]) if rank else 1.0
    return U[:, :rank], scale[:, None] * (Vt.T[:, :rank] / s[:rank][None, :]), condition
