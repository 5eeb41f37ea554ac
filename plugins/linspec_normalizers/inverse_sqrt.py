"""Orthonormal basis of a block by the symmetric inverse square root of its Gram matrix.

Problem: normalise a block without turning it: of all orthonormal bases of the range of V, V (VᵀMV)^(−1/2) is
the one nearest to V. Gradient methods need this basis, because their steps have no meaning in another one.
Method: a basis Q = V T is found by scaled eigen-decompositions with a rank cut, as in ``rank-revealing``. With the
singular value decomposition T = UΣWᵀ, T WUᵀ = UΣUᵀ = (VᵀMV)^(−1/2), and the basis is Q WUᵀ; the rotation is part of
the last pass and costs nothing.
Source: Ma, Lu and Foster 2015, AppGrad for rank-k canonical correlations.
Where we differ:

- They compute G^(−1/2) from G, which is accurate to the rounding of G times its condition number. Computed
  from Q, the basis is orthonormal to rounding.
- A block of rank r < k has no inverse square root. Q and T are then those of ``rank-revealing``.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from linspec import Normalizer
from linspec.arrays import Array, HostArray
from linspec_normalizers.rank_revealing import Block, eigen_basis


@dataclass(frozen=True, kw_only=True)
class InverseSqrt(Normalizer):
    """Symmetric inverse square root of the Gram matrix; any basis of its range if it is singular."""

    def orthonormalize(self, V: Array, MV: Array | None = None) -> tuple[Array, HostArray]:
        """Make the columns of a block orthonormal.

        Parameters
        ----------
        V : array, shape (p, k)
            The block.
        MV : array, shape (p, k), optional
            M V for a metric M; by default M = I.

        Returns
        -------
        Q : array, shape (p, r)
            Q = V T with QᵀMQ = I; for r = k the M-orthonormal block nearest to V.
        T : ndarray, shape (k, r)
            On the host, float64. For r = k it is (VᵀMV)^(−1/2), symmetric positive definite to rounding.

        Raises
        ------
        NonFiniteData
            V or MV holds NaN or infinity.
        """
        block = eigen_basis(Block.of(V, MV), _turn)
        return block.Q, block.T


def _turn(T: HostArray) -> HostArray:
    """The rotation that makes a square T symmetric."""
    U, _, Wt = np.linalg.svd(T, full_matrices=False)
    return Wt.T @ U.T if len(U) == len(Wt) else np.eye(len(Wt))
