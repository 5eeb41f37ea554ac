"""Orthonormal basis by eigen-decompositions of the Gram matrix, and the sums that all Gram methods share.

Problem: a block whose columns are nearly dependent, or differ by orders of magnitude, or whose rank is
unknown.
Method: G = VᵀMV, in units that make its diagonal 1, is decomposed as WΛWᵀ. Eigenvalues that may be only
rounding are dropped, Q = V D W Λ^(−1/2) with the diagonal scaling D, and a second pass removes the error of the
first one.
Source: Stathopoulos and Wu 2002 (their SVQB), doi:10.1137/S1064827500370883.
Where we differ:

- They replace eigenvalues at rounding level by that level and keep the noise. We drop them, so r is the
  numerical rank that a Gram matrix resolves: directions below about √(kε) of the largest (1e-7 in float64) are
  dropped. ``cholesky-qr`` and ``qr`` keep them.
- The cut depends on the source of G. With M = I, G is accumulated in float64 from V itself. Its own rounding
  counts (kε λ_max with float64's ε), and the entries of V have the rounding ε of their dtype, which is a relative
  change of ε² in G. With a metric, MV has an error of ε‖M‖‖V‖ with the ε of its dtype, and the cut is kε
  λ_max with this ε.
- Float32 data are multiplied in float64. Columns shorter than 1e-145 count as zeros.

Orthonormal basis of a block by the symmetric inverse square root of its Gram matrix.

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

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from linspec import Normalizer
from linspec.arrays import Array, Device, HostArray, host_dtype, namespace, reciprocal, to_host
from linspec.errors import InvalidProblem, NonFiniteData, UnsupportedData
from linspec.linalg import EPS

MAX_PASSES = 6  # usually two; the worst conditioning in float64 takes four

LEAST = 1e-290
"""Squared lengths below this have lost digits to underflow."""


@dataclass(frozen=True, kw_only=True)
class RankRevealing(Normalizer):
    """Scaled eigen-decomposition of the Gram matrix, twice, cut at its numerical rank.

    The columns of T for a block of well-scaled columns are in the order of decreasing eigenvalues.
    """

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
            Q = V T with QᵀMQ = I; r is the rank that the Gram matrix resolves.
        T : ndarray, shape (k, r)
            On the host, float64.

        Raises
        ------
        NonFiniteData
            V or MV holds NaN or infinity.
        """
        block = eigen_basis(Block.of(V, MV))
        return block.Q, block.T


@dataclass(frozen=True)
class Block:
    """A block that is being orthonormalised: Q = V T, together with MQ.

    Parameters
    ----------
    Q : array, shape (p, r)
    MQ : array, shape (p, r), or None
        None: M = I.
    T : ndarray, shape (k, r)
    """

    Q: Array
    MQ: Array | None
    T: HostArray

    @classmethod
    def of(cls, V: Array, MV: Array | None = None) -> Block:
        """Make the block with Q = V, MQ = MV and T = I, after a check of shapes and dtypes."""
        blocks = [V] if MV is None else [V, MV]
        namespace(*blocks)
        if len(V.shape) != 2 or any(A.shape != V.shape for A in blocks):
            shapes = " and ".join(str(tuple(A.shape)) for A in blocks)
            raise InvalidProblem(
                f"V and MV must be blocks of one shape (p, k); got {shapes}. Reshape a vector to (p, 1)."
            )
        if any(host_dtype(A) not in (np.float32, np.float64) for A in blocks):
            raise UnsupportedData(f"V and MV must be float32 or float64; got {V.dtype}. Convert them first.")
        return cls(V, MV, np.eye(V.shape[1]))

    @property
    def eps(self) -> float:
        """Relative spacing of the dtype, or of the coarser one if Q and MQ differ."""
        return max(float(np.finfo(host_dtype(A)).eps) for A in (self.Q, self.MQ) if A is not None)

    @property
    def cut(self) -> tuple[float, float]:
        """A relative and an absolute bound: eigenvalues of the Gram matrix up to the larger of both are rounding."""
        k = self.Q.shape[1]
        return (k * EPS, k * self.eps**2) if self.MQ is None else (k * self.eps, 0.0)

    def gram(self) -> tuple[HostArray, HostArray]:
        """QᵀMQ in float64, in units that make its diagonal 1, and the units of the columns; 0 for columns of zeros."""
        asarray = Device.of(self.Q).blocks.asarray
        Q = asarray(self.Q)
        with np.errstate(all="ignore"):
            G = to_host(Q.T @ (Q if self.MQ is None else asarray(self.MQ)))
        require_finite(G)
        squares = G.diagonal()
        scale = reciprocal(np.sqrt(np.where(squares > LEAST, squares, 0.0)))
        matrix = scale[:, None] * G * scale
        return (matrix + matrix.T) / 2, scale

    def times(self, step: HostArray) -> Block:
        """Multiply the block by `step` from the right."""
        placed = Device.of(self.Q).blocks.asarray(step)  # once for both
        MQ = None if self.MQ is None else product(self.MQ, placed)
        return Block(product(self.Q, placed), MQ, self.T @ step)


def eigen_basis(block: Block, turn: Callable[[HostArray], HostArray] | None = None) -> Block:
    """Orthonormalise a block by cut eigen-decompositions of its Gram matrix.

    `turn` takes the T of the basis, and returns the rotation by which both are multiplied.
    """
    for number in range(MAX_PASSES):
        G, scale = block.gram()
        values, vectors = np.linalg.eigh(G)
        keep = values > max(block.cut[0] * values.max(initial=0.0), block.cut[1])
        values = values[keep][::-1]
        vectors = vectors[:, keep][:, ::-1]
        inner = vectors / np.sqrt(values)
        if number > 0 and keep.all():
            inner = inner @ vectors.T  # G is near I and its eigenvectors arbitrary: do not turn the basis
        step = scale[:, None] * inner
        last = not values.size or settled(float(values[0] / values[-1]), block.eps)
        if last and turn is not None:
            step = step @ turn(block.T @ step)
        block = block.times(step)
        if last:
            break
    return block


def settled(condition: float, eps: float) -> bool:
    """Whether a pass with a Gram matrix of this condition number leaves the basis orthonormal to rounding.

    The departure from orthogonality is the rounding of the Gram matrix, which is always float64, times its
    condition number. So a float32 block is finished after one pass, except in extreme cases.
    """
    return EPS * condition <= 4 * eps


def product(A: Array, step: HostArray) -> Array:
    """Compute ``A @ step`` in float64, rounded to A's dtype."""
    device = Device.of(A)
    return device.asarray(device.blocks.asarray(A) @ device.blocks.asarray(step), host_dtype(A))


def require_finite(M: HostArray) -> None:
    """Refuse a block by a small matrix that it determines."""
    if not np.isfinite(M).all():
        raise NonFiniteData(
            "V and MV must be finite, and their squares, too, to be orthonormalised. Look for missing values in the "
            "data, for an iteration that diverges, or scale the data down."
        )


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
