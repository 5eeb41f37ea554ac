"""Orthonormal bases of both sides of a matrix, which grow block by block, and the singular triplets between them.

Problem: iterations for the leading singular triplets of C, known only by products, need orthonormal bases U and V, the
projection B = UᵀCV, and the residuals of its triplets without a further product.
Method: block Golub-Kahan bidiagonalisation (Golub, Luk & Overton 1981). With a block Q that is multiplied next,

    C V = U B,   CᵀU = V Bᵀ + Q E.

So a triplet (s, σ, z) of B gives u = U s and v = V z with C v = σ u, and ‖Cᵀu − σ v‖ = ‖E s‖. A step multiplies Q, then
the part of C Q outside of U. Bases that are full are restarted from their leading triplets and Q (thick restart:
Baglama & Reichel 2005, doi:10.1137/04060593X).
Where we differ: each product is projected on the whole basis, twice. Directions that are only rounding are left out.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from linspec.arrays import Array, Home, HostArray, to_host
from linspec.linalg import EPS

ROUNDING = 10 * EPS
"""Directions of a product are left out if they are shorter than this multiple of the largest product."""


@dataclass(frozen=True, kw_only=True, eq=False)
class TwoSidedBasis:
    """Orthonormal U and V with C V = U B and CᵀU = V Bᵀ + Q E.

    Attributes
    ----------
    U, V : array of shape (p, l), (q, m)
    B : numpy.ndarray of shape (l, m)
    next : array of shape (q, b)
        Q: orthonormal, orthogonal to V, and not multiplied yet.
    rest : numpy.ndarray of shape (b, l)
        E.
    scale : float
        The largest singular value of a product so far.
    home : Home
    """

    U: Array
    V: Array
    B: HostArray
    next: Array
    rest: HostArray
    scale: float = 0.0
    home: Home

    @classmethod
    def begin(cls, first: Array, rows: int, home: Home) -> TwoSidedBasis:
        """Return empty bases; `first` has orthonormal columns and is multiplied first, and C has `rows` rows."""
        return cls(
            U=home.zeros((rows, 0)),
            V=home.zeros((first.shape[0], 0)),
            B=np.zeros((0, 0)),
            next=first,
            rest=np.zeros((int(first.shape[1]), 0)),
            home=home,
        )

    @property
    def columns(self) -> int:
        """The number of vectors in V."""
        return int(self.V.shape[1])

    @property
    def is_invariant(self) -> bool:
        """Whether CᵀU is in the span of V, so that there is no next block."""
        return int(self.next.shape[1]) == 0

    def grow(
        self, forward: Callable[[Array], Any], backward: Callable[[Array], Any], normalizer: Any
    ) -> TwoSidedBasis:
        """Add the next block to V and the new part of its product to U.

        Parameters
        ----------
        forward, backward : callable
            The products of C and of Cᵀ with a block.
        normalizer : linspec.Normalizer
        """
        home, Q = self.home, self.next
        P, above, beside = self._outside(forward(Q), self.U, normalizer)
        l, m = self.B.shape
        B = np.zeros((l + beside.shape[0], m + beside.shape[1]))
        B[:l, :m], B[:l, m:], B[l:, m:] = self.B, above, beside
        scale = max(self.scale, norm(B[:, m:]))
        grown = replace(self, U=home.concat([self.U, P]), V=home.concat([self.V, Q]), B=B, scale=scale)
        if not P.shape[1]:
            return replace(grown, next=Q[:, :0], rest=np.zeros((0, l)))
        following, _, own = grown._outside(backward(P), grown.V, normalizer)
        return replace(grown, next=following, rest=np.hstack([np.zeros((own.shape[0], l)), own]))

    def restart(self, keep: int) -> TwoSidedBasis:
        """Return the bases of the leading `keep` triplets, with the same next block."""
        S, sigma, Z = self.triplets
        S, sigma, Z = S[:, :keep], sigma[:keep], Z[:, :keep]
        place = self.home.place
        return replace(
            self,
            U=self.U @ place(S),
            V=self.V @ place(Z),
            B=np.diag(sigma),
            rest=self.rest @ S,
        )

    @cached_property
    def triplets(self) -> tuple[HostArray, HostArray, HostArray]:
        """Singular vectors and values of B: S, σ and Z with B = S diag(σ) Zᵀ."""
        S, sigma, Zt = np.linalg.svd(self.B, full_matrices=False)
        return S, sigma, Zt.T

    def residual(self, k: int) -> float:
        """The largest ‖Cᵀu − σ v‖ / σ₁ of the k leading triplets; 1 while there are fewer than k."""
        S, sigma, _ = self.triplets
        if len(sigma) < k and not self.is_invariant:
            return 1.0
        if not len(sigma) or sigma[0] <= 0:
            return 0.0
        return float(np.linalg.norm(self.rest @ S[:, :k], axis=0).max(initial=0.0) / sigma[0])

    def arrays(self, k: int) -> dict[str, Array]:
        """Return u and v of the k leading triplets, or of all if there are fewer."""
        S, _, Z = self.triplets
        small = self.home.place_together(S[:, :k], Z[:, :k])
        return {"x_weights": self.U @ small[0], "y_weights": self.V @ small[1]}

    def _outside(self, W: Array, V: Array, normalizer: Any) -> tuple[Array, HostArray, HostArray]:
        """Return an orthonormal basis Q of the part of W outside of V, with VᵀW and QᵀW.

        Directions of W that are only rounding are left out of Q.
        """
        within = V.T @ W
        W = W - V @ within
        again = V.T @ W
        W = W - V @ again
        coefficients = to_host(within + again)
        Q = normalizer.orthonormalize(W)[0]
        S, lengths, _ = np.linalg.svd(to_host(Q.T @ W), full_matrices=False)
        largest = max(self.scale, norm(coefficients), lengths.max(initial=0.0))
        Q = Q @ self.home.place(S[:, lengths > ROUNDING * largest])
        Q = normalizer.orthonormalize(Q - V @ (V.T @ Q))[0]  # short directions had parts along V
        return Q, coefficients, to_host(Q.T @ W)


def norm(M: HostArray) -> float:
    """The spectral norm of a small matrix; 0 if it is empty."""
    return float(np.linalg.norm(M, 2)) if M.size else 0.0
