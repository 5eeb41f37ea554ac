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
- Sums run over row blocks that are converted, scaled and multiplied in cache: float32 data are accumulated in
  float64, columns of any size are brought to order one before they are squared, and no copy of V is made. The
  second pass works in the buffer of the first.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from linspec import Normalizer
from linspec.arrays import Array, Home, HostArray, host_dtype, namespace, to_host
from linspec.errors import InvalidProblem, NonFiniteData, UnsupportedData

EPS = float(np.finfo(np.float64).eps)
MAX_PASSES = 6  # usually two; the worst conditioning in float64 takes four

_LEAST, _LARGEST = 1e-200, 1e200
"""Sums of squares outside these bounds may have lost digits to underflow or overflow."""

_MAX_SCALE = 1e292
"""A column below 1e-292 has lost digits by gradual underflow, and a T that undoes its scale would overflow."""

_HOST_BYTES, _DEVICE_BYTES = 1 << 20, 1 << 26
"""Bytes of a row block: half a second-level cache on the host, enough to fill a device."""


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
class ScaledGram:
    """Gram matrix of a block, of the columns that are not zero, in units that make its diagonal 1.

    Parameters
    ----------
    matrix : ndarray, shape (m, m)
        Symmetric, unit diagonal.
    scale : ndarray, shape (m,)
        One over the norms of the columns.
    kept : ndarray of int, shape (m,)
        The indices of the columns that are not zero.
    columns : int
        The number of columns in the block.
    """

    matrix: HostArray
    scale: HostArray
    kept: HostArray
    columns: int

    def step(self, inner: HostArray) -> HostArray:
        """Convert a matrix that multiplies the scaled nonzero columns (m x r) to one for the block (columns x r)."""
        step = np.zeros((self.columns, inner.shape[1]))
        step[self.kept] = self.scale[:, None] * inner
        return step

    def root(self, inner: HostArray) -> HostArray:
        """Convert coefficients of the scaled nonzero columns in a basis (r x m) to those of the block (r x columns)."""
        root = np.zeros((inner.shape[0], self.columns))
        root[:, self.kept] = inner / self.scale
        return root


@dataclass(frozen=True)
class Block:
    """A block that is being orthonormalised: Q = V T, together with MQ.

    Parameters
    ----------
    Q : array, shape (p, r)
    MQ : array, shape (p, r), or None
        None: M = I.
    T : ndarray, shape (k, r)
    owned : bool
        Whether Q and MQ are our own memory, which the next step may overwrite.
    """

    Q: Array
    MQ: Array | None
    T: HostArray
    owned: bool = False

    @classmethod
    def of(cls, V: Array, MV: Array | None = None) -> Block:
        """Make the block with Q = V, MQ = MV and T = I.

        InvalidProblem is raised if V or MV is not two-dimensional or if their shapes differ. UnsupportedData is raised
        if a dtype is neither float32 nor float64. The entries are not checked.
        """
        _check("V", V)
        if MV is not None:
            _check("MV", MV)
            namespace(V, MV)
            if MV.shape != V.shape:
                raise InvalidProblem(
                    f"MV must have the shape of V, {tuple(V.shape)}; got {tuple(MV.shape)}. Pass M @ V."
                )
        return cls(V, MV, np.eye(V.shape[1]))

    @property
    def eps(self) -> float:
        """Relative spacing of the dtype, or of the coarser one if Q and MQ differ."""
        return max(float(np.finfo(host_dtype(A)).eps) for A in (self.Q, self.MQ) if A is not None)

    def gram(self) -> ScaledGram:
        """Accumulate QᵀMQ in float64, in one pass over the block."""
        units = np.ones(self.Q.shape[1])
        G = _products(self.Q, self.MQ)
        if not _in_range(G):
            units = self._units()
            G = _products(self.Q, self.MQ, units)
        squares = G.diagonal().copy()
        with np.errstate(all="ignore"):
            scale = units / np.sqrt(squares)
            kept = np.flatnonzero((squares > 0) & (scale < _MAX_SCALE))  # false for NaN
        local = 1 / np.sqrt(squares[kept])
        return ScaledGram(local[:, None] * G[np.ix_(kept, kept)] * local, scale[kept], kept, G.shape[0])

    def times(self, step: HostArray, T: HostArray | None = None) -> Block:
        """Multiply the block by `step` from the right. If this block is owned, its memory may be overwritten.

        The new block has the argument `T` as its T, or by default the T of this block times `step`.
        """
        there = Home.of(self.Q).blocks.place(step)
        MQ = None if self.MQ is None else product(self.MQ, there, reuse=self.owned)
        Q = product(self.Q, there, reuse=self.owned)
        return Block(Q, MQ, self.T @ step if T is None else T, owned=True)

    def _units(self) -> HostArray:
        """Return powers of two that scale the squares of the columns to order one."""
        exponents = _column_exponents("V", self.Q)
        if self.MQ is not None:
            exponents = (exponents + _column_exponents("MV", self.MQ)) // 2
        powers: HostArray = np.ldexp(1.0, np.clip(-exponents, -1022, 1023))
        return powers


def eigen_basis(block: Block, gram: ScaledGram | None = None) -> Block:
    """Orthonormalise a block by cut eigen-decompositions of its Gram matrix (`gram`, if known)."""
    for number in range(MAX_PASSES):
        gram = gram or block.gram()
        values, vectors = decompose(gram, rank_cut(block))
        inner = vectors / np.sqrt(values)
        if number > 0 and values.size == gram.kept.size:
            inner = inner @ vectors.T  # G is near I and its eigenvectors arbitrary: do not turn the basis
        block, gram = block.times(gram.step(inner)), None
        if values.size == 0 or settled(float(values[0] / values[-1]), block.eps):
            break
    return block


def rank_cut(block: Block) -> tuple[float, float]:
    """Return a relative and an absolute bound: eigenvalues up to the larger of both are rounding."""
    k = block.Q.shape[1]
    return (k * EPS, k * block.eps**2) if block.MQ is None else (k * block.eps, 0.0)


def decompose(gram: ScaledGram, cut: tuple[float, float]) -> tuple[HostArray, HostArray]:
    """Return eigenvalues above the cut in decreasing order, with their vectors."""
    values, vectors = np.linalg.eigh(gram.matrix)
    values, vectors = values[::-1], vectors[:, ::-1]
    keep = values > max(cut[0] * float(np.max(values, initial=0.0)), cut[1])
    return values[keep], vectors[:, keep]


def settled(condition: float, eps: float) -> bool:
    """Whether a pass with a Gram matrix of this condition number leaves the basis orthonormal to rounding.

    The departure from orthogonality is the rounding of the Gram matrix, which is always float64, times its
    condition number. So a float32 block is finished after one pass, except in extreme cases.
    """
    return EPS * condition <= 4 * eps


def product(A: Array, step: Array, *, reuse: bool = False) -> Array:
    """Compute ``A @ step`` in float64, rounded to A's dtype, in A's own memory on request."""
    home = Home.of(A)
    work = home.blocks
    dtype = host_dtype(A)
    S = work.place(step)
    if reuse and step.shape[0] == step.shape[1]:
        result = A
    else:
        result = home.xp.empty((A.shape[0], step.shape[1]), dtype=A.dtype, device=home.device)
    with np.errstate(all="ignore"):
        for rows in _row_blocks(A, work):
            result[rows, :] = home.place(work.place(A[rows, :]) @ S, dtype)
    return result


def require_finite(name: str, A: Array) -> None:
    """Raise ``NonFiniteData`` with row and column if an entry is NaN or infinite."""
    work = Home.of(A).blocks
    for rows in _row_blocks(A, work):
        bad = np.argwhere(~np.isfinite(to_host(A[rows, :])))
        if bad.size:
            row, column = rows.start + int(bad[0, 0]), int(bad[0, 1])
            value = float(to_host(A[row : row + 1, :])[0, column])
            raise NonFiniteData(
                f"{name} must be finite to be orthonormalised; got {value} in row {row}, column {column}. "
                "Look for missing values in the data, or for an iteration that diverges."
            )


def _check(name: str, A: Array) -> None:
    if len(A.shape) != 2:
        raise InvalidProblem(
            f"{name} must be a block of p rows and k columns; got shape {tuple(A.shape)}. "
            "Reshape a vector to (p, 1)."
        )
    if host_dtype(A) not in (np.float32, np.float64):
        raise UnsupportedData(f"{name} must be float32 or float64; got {A.dtype}. Convert it first.")


def _row_blocks(A: Array, work: Home) -> Iterator[slice]:
    """Yield slices of rows that fit the cache in float64."""
    nbytes = _HOST_BYTES if work.on_host else _DEVICE_BYTES
    count = max(nbytes // (8 * max(A.shape[1], 1)), 1)
    for start in range(0, A.shape[0], count):
        yield slice(start, min(start + count, A.shape[0]))


def _products(A: Array, B: Array | None, units: HostArray | None = None) -> HostArray:
    """Compute AᵀB (AᵀA if B is None) in float64, symmetrised; with the columns of both multiplied by `units`."""
    work = Home.of(A).blocks
    total: Any = work.zeros((A.shape[1], A.shape[1]))
    U = None if units is None else work.place(units[None, :])
    with np.errstate(all="ignore"):
        for rows in _row_blocks(A, work):
            left = work.place(A[rows, :])
            left = left if U is None else left * U
            if B is None:
                right = left
            else:
                right = work.place(B[rows, :])
                right = right if U is None else right * U
            total = total + left.T @ right
        G = to_host(total)
        return 0.5 * (G + G.T)


def _in_range(G: HostArray) -> bool:
    squares = G.diagonal()
    return bool(np.all(np.isfinite(G)) and np.all((squares > _LEAST) & (squares < _LARGEST)))


def _column_exponents(name: str, A: Array) -> HostArray:
    """Return binary exponents of the largest entries of the columns; 0 for a column of zeros."""
    xp = namespace(A)
    largest = np.zeros(A.shape[1])
    for rows in _row_blocks(A, Home.of(A).blocks):
        largest = np.maximum(largest, to_host(xp.max(xp.abs(A[rows, :]), axis=0)))
    if not np.isfinite(largest).all():
        require_finite(name, A)
    return np.frexp(largest)[1].astype(np.int64)
