"""Orthonormal basis of a block by the symmetric inverse square root of its Gram matrix.

Problem: normalise a block without turning it: of all orthonormal bases of the range of V, V (VᵀMV)^(−1/2) is
the one nearest to V. Gradient methods need this basis, because their steps have no meaning in another one.
Method: V = Q R is found by scaled eigen-decompositions with a rank cut, as in ``rank-revealing``. From the
singular value decomposition R = UΣWᵀ follow G = WΣ²Wᵀ, hence T = WΣ⁻¹Wᵀ = G^(−1/2), and the basis Q U Wᵀ; the
rotation is part of the last pass and costs nothing.
Source: Ma, Lu and Foster 2015, AppGrad for rank-k canonical correlations.
Where we differ:

- They compute G^(−1/2) from G, which is accurate to the rounding of G times its condition number. Computed
  from Q, the basis is orthonormal to rounding. Jacobi rotations give the singular values of R, so T is
  accurate even if columns differ by orders of magnitude.
- A block of rank r < k has no inverse square root. Q then consists of the r left singular vectors of V that
  survive the cut, in decreasing order, and T is k x r: G^(−1/2) restricted to the range of G and written in
  the eigenvectors of G. Only T's part in that range is determined; T is taken from the steps that made Q, so
  that Q = VT to rounding.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import lapack

from linspec import Normalizer
from linspec.arrays import Array, HostArray
from linspec_normalizers.rank_revealing import MAX_PASSES, Block, decompose, rank_cut, settled


@dataclass(frozen=True, kw_only=True)
class InverseSqrt(Normalizer):
    """Symmetric inverse square root of the Gram matrix; restricted to its range if it is singular."""

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
            On the host, float64. For r = k it is (VᵀMV)^(−1/2), symmetric positive definite; for r < k, that
            square root restricted to the range of VᵀMV, in its eigenvectors.

        Raises
        ------
        NonFiniteData
            V or MV holds NaN or infinity.
        """
        block = Block.of(V, MV)
        root = np.eye(block.T.shape[0])  # V = (block) root
        for _ in range(MAX_PASSES):
            gram = block.gram()
            values, vectors = decompose(gram, rank_cut(block))
            roots = np.sqrt(values)
            step = gram.step(vectors / roots)
            root = gram.root(roots[:, None] * vectors.T) @ root
            if values.size == 0 or settled(float(values[0] / values[-1]), block.eps):
                rotation, inverse = _polar(root)
                block = block.times(step @ rotation, inverse)
                break
            block = block.times(step)
        return block.Q, block.T


def _polar(root: HostArray) -> tuple[HostArray, HostArray | None]:
    """Return the orthogonal polar factor of `root` and (rootᵀ root)^(−1/2); singular vectors and None if it is wide."""
    if root.shape[0] < root.shape[1]:
        return _jacobi_svd(root.T)[2], None
    left, values, right = _jacobi_svd(root)
    T = (right / values) @ right.T
    return left @ right.T, 0.5 * (T + T.T)


def _jacobi_svd(A: HostArray) -> tuple[HostArray, HostArray, HostArray]:
    """Compute U, σ, W with A = U diag(σ) Wᵀ, each σ to high relative accuracy for any scaling of A."""
    if 0 in A.shape:
        return A, np.zeros(0), np.zeros((0, 0))
    # joba=2: rows and columns may be badly scaled; jobr, jobp: no value is small enough to drop.
    values, U, W, work, _, failed = lapack.dgejsv(A, joba=2, jobu=0, jobv=0, jobr=0, jobp=0)
    if failed:
        raise np.linalg.LinAlgError(f"dgejsv failed with code {failed}")
    return U[:, : A.shape[1]], values * (work[0] / work[1]), W
