"""Orthonormal basis of a block by Cholesky QR, repeated if the conditioning requires it.

Problem: Householder QR of a tall block is an order of magnitude slower than the products around it.
Method: with a Cholesky factor R of G = VᵀMV, Q = V R⁻¹ is orthonormal up to an error of the rounding of G
times the condition number of G, κ(V)². So one pass makes a basis whose own condition number is near 1, and a
second one makes it orthonormal to rounding (CholeskyQR2). If the condition number is so small that the result is
orthonormal already, a pass is the last one.
Source: Yamamoto, Nakatsukasa, Yanagisawa and Fukaya 2015, ETNA 44, 306-326.
Where we differ:

- G is accumulated in float64 for float32 data too, and in units that make its diagonal 1. Float32 blocks then
  need one pass where the paper needs two.
- The array API has no triangular solve, so V is multiplied by an explicit inverse. This is as stable as a
  solve if R is graded, each row no larger than its diagonal entry; hence the Cholesky factorisation is
  pivoted. The last pass turns the basis back, so that T is upper triangular: leading columns of Q have the span of
  the leading columns of V.
- Where G is singular to rounding, or nearly so, Householder QR decides the rank ("qr"); in a metric the
  eigen-decomposition of G does ("rank-revealing").
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.linalg
from scipy.linalg import lapack

from linspec import Normalizer
from linspec.arrays import Array, HostArray
from linspec_normalizers.qr import householder
from linspec_normalizers.rank_revealing import MAX_PASSES, Block, eigen_basis, settled


@dataclass(frozen=True, kw_only=True)
class CholeskyQR(Normalizer):
    """Cholesky QR in as many passes as the block needs, usually one or two."""

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
            Q = V T with QᵀMQ = I. r is the numerical rank of V: combinations of columns that are only rounding are
            dropped.
        T : ndarray, shape (k, r)
            On the host, float64; upper triangular with positive diagonal if Cholesky steps sufficed.

        Raises
        ------
        NonFiniteData
            V or MV holds NaN or infinity.
        """
        block = Block.of(V, MV)
        G, first = block.gram()
        scale = first
        for _ in range(MAX_PASSES):
            inner, condition = _inverse_factor(G)
            if condition * 10 * max(block.cut) > 1:
                break
            step = scale[:, None] * inner
            if settled(condition, block.eps):
                T = block.T @ step / first[:, None]  # for columns of length 1
                R, turn = scipy.linalg.rq(T)
                block = block.times(step @ (turn.T * np.sign(R.diagonal())))
                return block.Q, np.triu(block.T)
            block = block.times(step)
            G, scale = block.gram()
        if MV is None:
            return householder(V)
        block = eigen_basis(Block.of(V, MV))
        return block.Q, block.T


def _inverse_factor(C: HostArray) -> tuple[HostArray, float]:
    """R⁻¹ for the pivoted Cholesky factor R of C, in the order of the columns, and the condition number of C.

    It is infinite if C has no columns, or not their rank.
    """
    packed, pivots, _, deficient = lapack.dpstrf(C) if C.size else (C, C, 0, 1)
    if deficient:
        return C, np.inf
    R, inner = np.triu(packed), np.empty_like(C)
    inner[pivots - 1] = lapack.dtrtri(R)[0]
    reciprocal = float(lapack.dpocon(R, np.linalg.norm(C, 1))[0])
    return inner, 1 / reciprocal if reciprocal > 0 else np.inf
