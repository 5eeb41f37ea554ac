"""Whether a start of a block Krylov iteration lacks a leading singular vector.

Problem: vectors of an earlier answer make the first block, with random columns beside them. A residual is not enough
then: singular vectors other than the leading ones, or all but one of the leading ones, also have residual zero.
Method: the iteration ends only when the random columns have shown that nothing larger is missing. Let x be an
eigenvector of AᵀA with the eigenvalue λ > θₖ, orthogonal to the k Ritz vectors, and a = xᵀV. The recurrence
λa = aH + (xᵀQ)B, where QB is the rest of the newest block, gives the coefficients of x in the first block,

    xᵀV₁ = (xᵀQ) X,    X = B Σ_{j>k} y_j,newest y_j,firstᵀ / (λ - θ_j),

and ‖xᵀQ‖ <= 1. All coefficients in a random block are that small only with a small probability, which follows from the
volume of the ellipsoid: if ‖X‖ <= 1/2, the vectors that were known before the random block have at most a quarter of
‖x‖². The rest of x has b random coefficients in N dimensions. All of them are inside the ellipsoid of X with at most
the probability (4N/3 / 2π)^(b/2) times its volume π^(b/2) / Γ(b/2 + 1) ∏ σᵢ(X_random). X falls with λ, so the least λ
is used, which is above the k-th value by the tolerance. So the data themselves determine how many steps are enough.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from linspec import Run
from linspec.algebra import EPS, GrowingBasis, eigenpairs, orthonormal_columns
from linspec.arrays import Array, reciprocal
from linspec_svd.gram_products import GramProducts

RISK = 1e-6
"""Largest probability with which the proof overlooks a leading value that a start lacks."""

SETTLED = 1e-6
"""Largest residual of the k Ritz pairs at which the proof is attempted, unless the tolerance is larger. Below it, the
eigenvectors that may be missing count as orthogonal to the Ritz vectors."""

INSIDE = 0.5
"""If ‖X‖ is at most this, a missing eigenvector lies mostly outside the vectors known before the random block."""


def orthonormal_start(problem: Any, run: Run, AtA: GramProducts) -> Array:
    """Orthonormal basis of the start, of left vectors if the iteration uses AAᵀ; it leaves room for a random column."""
    home = AtA.home
    if run.start is None:
        return home.zeros((AtA.length, 0))
    V = home.place(run.start["Vh"]).T
    if AtA.of_rows:
        V = home.place(problem.A.matmat(V))
    S = orthonormal_columns(V * reciprocal(home.place(home.column_norms(V)))[None, :], home)
    return S[:, : min(S.shape[1], AtA.length - 1)]


@dataclass(frozen=True)
class StartProof:
    """Evidence, from the last random block, that no leading vector is missing from the span of a start.

    Attributes
    ----------
    needed : bool
        Whether the start, the vectors of an earlier answer, may still lack a leading vector; False without a start.
    known, fresh : int
        The number of vectors in the basis before the last random block, and the number of columns of that block.
    restarts : int
        The number of restarts of the basis when the last random block was added. After a further restart the
        coordinates of the block in the basis are lost, and the proof needs another random block.
    """

    needed: bool
    known: int
    fresh: int
    restarts: int = 0

    def needs_random_block(self, basis: GrowingBasis) -> bool:
        """Whether the proof has to begin again, with another random block."""
        return self.needed and basis.restarts != self.restarts

    def with_random_block(self, basis: GrowingBasis) -> StartProof:
        """Return the proof that begins again with the random block that is multiplied next."""
        return replace(self, known=basis.count, fresh=int(basis.next.shape[1]), restarts=basis.restarts)

    def seen(self, basis: GrowingBasis, k: int, residual: float, tol: float, resolution: float) -> StartProof:
        """Return the proof after a look at k Ritz pairs with this residual."""
        if not self.needed or residual > max(tol, SETTLED):
            return self
        return replace(self, needed=not (basis.is_invariant or self._shown(basis, k, resolution)))

    def _shown(self, basis: GrowingBasis, k: int, resolution: float) -> bool:
        """Whether the last random block proves that no eigenvalue above the k-th is missing.

        The proof is wrong with a probability of at most `RISK`. The result is also False if the proof cannot be made
        yet: after a restart that followed the random block, with no more than k Ritz pairs, or if ‖X‖ is above
        `INSIDE`.
        """
        theta, Y = basis.ritz
        if basis.restarts != self.restarts or len(theta) <= k or theta[0] <= 0:
            return False
        known, b = self.known, self.fresh
        least = theta[k - 1] + resolution * theta[0]
        values, vectors = eigenpairs(basis.G)
        B = vectors * np.sqrt(np.maximum(values, 0.0))
        rest = Y[:, k:] / (least - theta[k:])
        X = (B.T @ rest[basis.newest :]) @ Y[: known + b, k:].T
        if np.linalg.norm(X, 2) > INSIDE:
            return False
        sizes = np.linalg.svd(X[:, known:], compute_uv=False)
        sizes = np.maximum(sizes, EPS * max(float(sizes.max(initial=0.0)), EPS))
        ball = b / 2 * math.log(2 * basis.length / 3) - math.lgamma(b / 2 + 1)
        return bool(ball + np.log(sizes).sum() <= math.log(RISK))
