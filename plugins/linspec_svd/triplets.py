"""What the SVD solvers share: the operator that is decomposed, the other side's vectors, and the numerical rank.

Vectors of the other side. From right vectors V the left ones are A V / σ, and for small σ those are far from
orthonormal: rounding of size eps·σ₁ is divided by σ. So A V = Q R by orthogonalisation and R = X s Yᵀ by a small
SVD: U = Q X is orthonormal to rounding whatever σ, V Y goes with it, and s comes from A itself and not from its square
(Chan 1982, doi:10.1145/355984.355990).

The factors Q, R are those of Cholesky QR, made twice (Yamamoto, Nakatsukasa, Yanagisawa & Fukaya 2015, ETNA 44,
306-326), in units of the columns' norms: products, where Householder transformations work column by column. The columns
of A V are nearly orthogonal, however small some are, so that this is no matter of σ; where the condition number of the
scaled Gram matrix says otherwise, Householder transformations are what remains.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy.linalg import blas, lapack

from linspec import LinearOperator, Run
from linspec.arrays import Array, Home, HostArray, host_dtype, to_host
from linspec.block_algebra import EPS, rank_cut, whitening

NULL = 8
"""Multiple of the rank cut that products with a vector of the numerical null space may reach."""

ROUNDED_PRODUCT = 4
"""Roundings of the largest eigenvalue of AᵀA that products in float32 leave in the others; measured: up to 0.7."""

CONDITION = 1e-10
"""One over the condition number of a scaled Gram matrix down to which Cholesky QR, twice, is exact to rounding."""

ROWS = 2**10
"""Rows of a block that are multiplied in place at a time."""

ORTHOGONAL = 1e-2
"""The same, above which once is exact to rounding: Cholesky QR loses the condition of the Gram matrix times eps."""

SMALLEST_SQUARE = 1e-250
"""Squared norms of columns above which no digits are lost to underflow."""


def decomposed(problem: Any, run: Run) -> LinearOperator:
    """A, or A with its column means taken out and never formed."""
    A: LinearOperator = problem.A
    return A.centered(run.moments("implicit").column_means()[0]) if problem.center else A


def share_below_rounding(A: LinearOperator) -> float:
    """The share of the largest singular value below which one of A is rounding of its entries."""
    n, p = A.shape
    return rank_cut((max(n, p), min(n, p)), A.dtype)


def size_of_means(run: Run) -> float:
    """√n ‖μ‖, a bound on what products are corrected by where means are taken out of them; 0 where of entries.

    Singular values below its rounding are what the correction of constant columns leaves.
    """
    return math.sqrt(run.moments("implicit").subtracted(0))


def squared_cuts(A: LinearOperator, *, by_products: bool = False) -> tuple[float, float]:
    """Shares of the largest eigenvalue of AᵀA that are rounding: of squaring, and of the entries.

    Parameters
    ----------
    A : LinearOperator
    by_products : bool, default False
        Whether AᵀA was known by products alone, which are rounded to the dtype of A; else its sums are float64.
    """
    narrow = by_products and A.dtype != np.float64
    squaring = ROUNDED_PRODUCT * float(np.finfo(A.dtype).eps) if narrow else min(A.shape) * EPS
    return squaring, share_below_rounding(A) ** 2


def left_vectors(A: LinearOperator, V: Array) -> tuple[Array, HostArray | None, Array]:
    """(U, S, V): orthonormal U with A V = U diag(S), V turned within its span; one sweep.

    For float32 data S is None: their products are rounded, and the singular values are better had of sums in float64.
    """
    U, s, Y = _other_side(A.matmat(V), A.home, spare=A.readable)
    return U, s if A.dtype == np.float64 else None, V @ A.home.blocks.place(Y)


def right_vectors(A: LinearOperator, U: Array, k: int | None = None) -> tuple[Array, HostArray, Array]:
    """(U, S, V): orthonormal V with Aᵀ U = V diag(S), U turned within its span; one sweep.

    With k the vectors of the k largest values alone, and all the values.
    """
    home = A.home.blocks
    V, s, Y = _other_side(A.rmatmat(A.home.place(U, A.dtype)), home, k, spare=A.readable)
    return U @ home.place(Y), s, V


def _other_side(
    product: Array, home: Home, k: int | None = None, *, spare: bool
) -> tuple[Array, HostArray, HostArray]:
    """Orthonormal left vectors of a tall block, its singular values, and its right vectors on the host.

    With k the first k vectors of either side, and all the values. What is `spare` may be overwritten: products of
    operators that are known by products may be anyone's memory.
    """
    Q, turn, R = _cholesky(product, home) or _householder(product, home)
    X, s, Yt = np.linalg.svd(R)
    turn = X if turn is None else turn @ X
    turn = turn[:, :k]
    ours = spare or Q is not product
    U = multiplied_in_place(Q, turn, home) if ours else Q @ home.place(turn, host_dtype(Q))
    return U, s, Yt.T[:, :k]


def multiplied_in_place(Q: Array, Z: HostArray, home: Home) -> Array:
    """Q Z; on the host in the memory of Q, because touching as much anew would take longer than the product."""
    rows, columns = Q.shape[0], Z.shape[1]
    fits = home.on_host and columns <= Q.shape[1] and Q.dtype == Z.dtype
    if not (fits and Q.flags.c_contiguous and Q.flags.writeable):
        return Q @ home.place(Z, host_dtype(Q))
    packed = Q.reshape(-1)[: rows * columns].reshape(rows, columns)
    buffer = np.empty((min(rows, ROWS), columns), Q.dtype)
    for start in range(0, rows, ROWS):  # rows of the result end before those that are yet to be read
        stop = min(start + ROWS, rows)
        packed[start:stop] = np.matmul(Q[start:stop], Z, out=buffer[: stop - start])
    return packed


def _householder(product: Array, home: Home) -> tuple[Array, HostArray | None, HostArray]:
    """(Q, None, R), whatever the block."""
    Q, R = home.xp.linalg.qr(product, mode="reduced")
    return Q, None, to_host(R).astype(np.float64)


def _cholesky(P: Array, home: Home) -> tuple[Array, HostArray, HostArray] | None:
    """(Q, T, R) with Q T orthonormal and P = (Q T) R; None where the Gram matrix does not tell all of P.

    Columns that are all but orthogonal, as products with singular vectors are, need to be made so only once.
    """
    if home.on_host:
        P = home.place(P)  # float32 columns are orthogonalised as they are, not as their rounded sums
    if host_dtype(P) != np.float64 or P.shape[1] == 0 or P.shape[0] < P.shape[1]:
        return None
    with np.errstate(all="ignore"):
        G = to_host(P.T @ P)
        d = np.sqrt(np.diag(G))
        if not (np.all(np.isfinite(G)) and np.all(G.diagonal() > SMALLEST_SQUARE)):
            return None
    first, reciprocal = _factor(G / d / d[:, None])
    if reciprocal <= CONDITION:
        return None
    first = first * d
    if reciprocal > ORTHOGONAL:
        return P, lapack.dtrtri(first)[0], first
    Q = _solved(P, first, home)
    second, reciprocal = _factor(to_host(Q.T @ Q))
    return (Q, lapack.dtrtri(second)[0], second @ first) if reciprocal > CONDITION else None


def _factor(C: HostArray) -> tuple[HostArray, float]:
    """The upper factor of a matrix with unit diagonal, and one over its condition: 0 where it is not positive."""
    R, failed = lapack.dpotrf(C, clean=1)
    return R, 0.0 if failed else float(lapack.dpocon(R, np.linalg.norm(C, 1))[0])


def _solved(P: Array, R: HostArray, home: Home) -> Array:
    """P R⁻¹, in new memory."""
    if not home.on_host:
        return P @ home.place(lapack.dtrtri(R)[0])
    if P.flags.f_contiguous and not P.flags.c_contiguous:
        return blas.dtrsm(1.0, R, P, side=1)
    return blas.dtrsm(1.0, R, P.T, trans_a=1).T  # rows as they lie are columns to BLAS


def vanish(A: LinearOperator, V: Array, largest: float) -> bool:
    """Whether A V is no more than rounding beside the largest singular value; one sweep."""
    norms = np.linalg.norm(to_host(A.matmat(V)).astype(np.float64), axis=0)
    return bool(np.all(norms <= NULL * share_below_rounding(A) * largest))


def orthonormal(Y: Array, home: Home) -> Array:
    """An orthonormal basis of the columns, over what is not rounding; twice, for the condition of the first."""
    for _ in range(2):
        Y = Y @ home.place(whitening(to_host(Y.T @ Y)))
    return Y
