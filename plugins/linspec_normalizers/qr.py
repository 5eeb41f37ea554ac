"""Orthonormal basis of a block by Householder QR.

Problem: a basis whose orthogonality does not depend on the conditioning of the block, at any cost.
Method: the QR factorisation of the array's own library. The triangular factor, in units of the columns'
norms, is decomposed on the host; if it is singular to rounding, Q is rotated to its leading left singular
vectors.
Source: Householder 1958, doi:10.1145/320941.320947.
Where we differ:

- Singular values determine the rank, without column pivoting, which the array API does not have. Unit columns
  with rounded entries are accurate to √k ε/2 in norm. The reflections add further rounding, and singular values
  up to 3√k ε are dropped.
- A metric needs a Gram matrix, because reflections in the metric need a factor of M. The Euclidean
  factorisation V = Q₀R₀ comes first. So the Gram matrix of Q₀, with MQ₀ = (MV)R₀⁻¹, has only the conditioning of
  M and no longer that of V. Then two passes of ``rank-revealing`` follow.
- Unlike the Gram methods, it works in the dtype of the block: a float32 basis is orthonormal to a modest
  multiple of float32 rounding.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import lapack

from linspec import Normalizer
from linspec.arrays import Array, HostArray, host_dtype, namespace, to_host
from linspec.linalg import lengths_of
from linspec_normalizers.rank_revealing import LEAST, Block, eigen_basis, product, require_finite


@dataclass(frozen=True, kw_only=True)
class QR(Normalizer):
    """Householder QR by the array's own library; for a metric two Gram passes follow."""

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
            Q = V T with QᵀMQ = I. r is the numerical rank of V: with columns scaled to unit length, directions with
            singular values up to 3√k ε are dropped, for the ε of the dtype of V. With a metric, directions in which
            QᵀMQ is only rounding are dropped too.
        T : ndarray, shape (k, r)
            On the host, float64; upper triangular if r = k and M = I.

        Raises
        ------
        NonFiniteData
            V or MV holds NaN or infinity.
        """
        Block.of(V, MV)  # checks shapes and dtypes
        Q, T = householder(V)
        if MV is None:
            return Q, T
        block = eigen_basis(Block(Q, product(MV, T), T))
        return block.Q, block.T


def householder(V: Array) -> tuple[Array, HostArray]:
    """Compute Q = V T with QᵀQ = I by Householder QR, without directions that are only rounding."""
    if 0 in V.shape:
        return V[:, :0], np.zeros((V.shape[1], 0))
    with np.errstate(all="ignore"):
        Q, factor = namespace(V).linalg.qr(V, mode="reduced")
        R = to_host(factor).astype(np.float64)
        norms = lengths_of(R)
    require_finite(norms)
    columns = np.flatnonzero(norms**2 > LEAST)
    unit = R[:, columns] / norms[columns]
    # Values alone: with vectors, divide and conquer drops values small beside the largest (LAPACK, dlasd2).
    values = np.linalg.svd(unit, compute_uv=False)
    rank = int(np.sum(values > 3 * np.sqrt(V.shape[1]) * float(np.finfo(host_dtype(V)).eps)))
    if rank == V.shape[1] <= V.shape[0]:
        return Q, lapack.dtrtri(unit)[0] / norms[:, None]
    left, _, right = np.linalg.svd(unit, full_matrices=False)
    T = np.zeros((V.shape[1], rank))
    T[columns] = right[:rank].T / values[:rank] / norms[columns, None]
    return product(Q, left[:, :rank]), T
