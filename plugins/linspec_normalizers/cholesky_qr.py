"""Orthonormal basis of a block by Cholesky QR, repeated and shifted if the conditioning requires it.

Problem: Householder QR of a tall block is an order of magnitude slower than the products around it.
Method: with a Cholesky factor R of G = VᵀMV, Q = V R⁻¹ is orthonormal up to an error of the rounding of G
times the condition number of G, κ(V)². So one pass makes a basis whose own condition number is near 1, and a
second one makes it orthonormal to rounding (CholeskyQR2). Each pass decides the next step:

1. If the factor exists and its estimated condition number leaves the next Gram matrix near I: a Cholesky step. If
   the condition number is so small that the result is orthonormal already, this is the last step; otherwise
   another pass follows.
2. Otherwise, with M = I and float64: a shifted step. It cannot orthonormalise, but it reduces any condition
   number by a factor of about 1e7, and the next pass decides anew. After the basis is found, the singular values
   of the accumulated R give the rank.
3. Otherwise, with a metric or float32: the directions in question are at the rounding of MV, or of the entries of
   V. The eigen-decomposition of the Gram matrix with its rank cut finishes the block.
4. If the passes do not settle: Householder QR on the host.

Source: Yamamoto, Nakatsukasa, Yanagisawa and Fukaya 2015, ETNA 44, 306-326; Fukaya, Kannan, Nakatsukasa,
Yamamoto and Yanagisawa 2020 (shifted CholeskyQR3), doi:10.1137/18M1218212.
Where we differ:

- G is accumulated in float64 for float32 data too, and in units that make its diagonal 1. Float32 blocks then
  need one pass where the papers need two or three.
- The array API has no triangular solve, so V is multiplied by an explicit inverse. This is as stable as a
  solve if R is graded, each row no larger than its diagonal entry; hence the Cholesky factorisation is
  pivoted. The last pass turns the basis back (by a rotation known from the accumulated R), so that T is upper
  triangular: leading columns of Q have the span of the leading columns of V.
- The shift replaces small eigenvalues of G instead of being added to all: Q = V W max(Λ, s)^(−1/2).
  Directions above the shift are done at once. Directions below it become short columns nearly orthogonal to the
  others, and the next scaling to unit diagonal restores them. With s = 10 k ε λ_max, κ = 1e15 takes three
  passes. This shift is smaller than that of their proof by a factor of about half the number of rows; if the ScaledGram
  matrix is less accurate, the next pass finds the error.
- The rank cut. Unit columns with rounded entries are accurate to √k ε/2 in norm; singular values of R (in
  units of the columns' norms) up to four times that are dropped. (Measured: rounding of dependent columns
  leaves up to √k ε, κ = 1e15 at least 3√k ε.)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import lapack

from linspec import Normalizer
from linspec.arrays import Array, HostArray, from_host, to_host
from linspec_normalizers.qr import householder
from linspec_normalizers.rank_revealing import (
    EPS,
    MAX_PASSES,
    Block,
    ScaledGram,
    eigen_basis,
    rank_cut,
    settled,
)


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
            dropped (see step 3 and the rank cut at the top of this module).
        T : ndarray, shape (k, r)
            On the host, float64; upper triangular with positive diagonal if Cholesky steps sufficed.

        Raises
        ------
        NonFiniteData
            V or MV holds NaN or infinity.
        """
        basis = _passes(V, MV)
        if basis is None and MV is None:
            Q, T = householder(to_host(V))
            return from_host(Q, like=V), T
        if basis is None:
            basis = eigen_basis(Block.of(V, MV))
        return basis.Q, basis.T


def _passes(V: Array, MV: Array | None) -> Block | None:
    """Make Cholesky, shifted and eigenvalue steps until the basis is orthonormal; None if they do not settle."""
    block = Block.of(V, MV)
    exact = MV is None and block.eps == EPS  # otherwise short directions are noise of the data
    units: ScaledGram | None = None
    root = np.eye(block.T.shape[0])  # V = (block) root, both in units of their columns' norms
    shifted = False
    for _ in range(MAX_PASSES):
        gram = block.gram()
        if units is None:
            units, root = gram, np.eye(gram.kept.size)
        else:
            root = root[gram.kept] / gram.scale[:, None]
        found = _cholesky_step(gram.matrix, 10 * max(rank_cut(block)))
        if found is None and not exact:
            return eigen_basis(block, gram)
        step = found or _shifted_step(gram.matrix)
        inner, root = step.inner, step.factor @ root
        if found is None:
            shifted = True
        elif settled(step.condition, block.eps):
            rotation, T = _finish(root, cut=shifted)
            return block.times(gram.step(inner @ rotation), units.step(T))
        block = block.times(gram.step(inner))
    return None


@dataclass(frozen=True)
class _Step:
    """One step, which multiplies the block by the matrix `inner`; `factor` is the inverse of `inner`.

    `condition` is an estimate of the condition number of the scaled Gram matrix; infinity for a shifted step.
    """

    inner: HostArray
    factor: HostArray
    condition: float


def _cholesky_step(C: HostArray, least: float) -> _Step | None:
    """Return the step that multiplies the block by the inverse of the pivoted Cholesky factor of C.

    C is the Gram matrix of the block in units that make its diagonal 1. Returns None if C is numerically rank
    deficient, or if the estimated reciprocal condition number of C is below `least`.
    """
    if C.size == 0:
        return _Step(C, C, 1.0)
    packed, pivots, _, deficient = lapack.dpstrf(C)
    if deficient:
        return None
    R = np.triu(packed)
    reciprocal = float(lapack.dpocon(R, np.linalg.norm(C, 1))[0])
    if reciprocal < least:
        return None
    inner, factor = np.empty_like(C), np.empty_like(C)
    inner[pivots - 1] = lapack.dtrtri(R)[0]
    factor[:, pivots - 1] = R
    return _Step(inner, factor, 1 / reciprocal)


def _shifted_step(C: HostArray) -> _Step:
    """Compute W max(Λ, s)^(−1/2) for C = WΛWᵀ, columns in the order of decreasing Λ."""
    values, vectors = np.linalg.eigh(C)
    roots = np.sqrt(np.maximum(values, 10 * C.shape[0] * EPS * values[-1]))[::-1]
    vectors = vectors[:, ::-1]
    return _Step(vectors / roots, roots[:, None] * vectors.T, np.inf)


def _finish(root: HostArray, *, cut: bool) -> tuple[HostArray, HostArray]:
    """Return W and T with B W = V T, for a block V = B root with unit columns and its orthonormal basis B.

    B W is the final basis; W has orthonormal columns. T is upper triangular if no direction is dropped. If `cut` is
    set, directions are dropped that may be only rounding of V's entries: those with singular values of `root` up to
    2√k eps for k columns. If directions are dropped, the columns of B W and T are in the order of decreasing singular
    values.
    """
    wide = root.shape[0] < root.shape[1]  # columns that became exactly zero are already dropped
    if cut or wide:
        # Values alone: with vectors, divide and conquer drops values small beside the largest (LAPACK, dlasd2).
        values = np.linalg.svd(root, compute_uv=False)
        rank = int(np.sum(values > 2 * np.sqrt(root.shape[1]) * EPS))
        if wide or rank < values.size:
            left, _, right = np.linalg.svd(root, full_matrices=False)
            return left[:, :rank], right[:rank].T / values[:rank]
    rotation, R = np.linalg.qr(root)
    signs = np.where(R.diagonal() < 0, -1.0, 1.0)
    T = lapack.dtrtri(R)[0] if R.size else R
    return rotation * signs, T * signs
