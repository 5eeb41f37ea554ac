"""The common parts of the SVD solvers: the operator to decompose, the other side's vectors, and the numerical rank.

Vectors of the other side. From right vectors V the left ones are A V / σ, and for small σ these are far from
orthonormal: rounding of size eps·σ₁ is divided by σ. So A V = Q R by orthogonalisation and R = X s Yᵀ by a small
SVD. U = Q X is orthonormal to rounding for any σ, V Y are its right vectors, and s comes from A itself and not from its
square (Chan 1982, doi:10.1145/355984.355990).

The factors Q, R are those of Cholesky QR, made twice (Yamamoto, Nakatsukasa, Yanagisawa & Fukaya 2015, ETNA 44,
306-326), in units of the columns' norms. It consists of products, while Householder transformations work column by
column. The columns of A V are nearly orthogonal even if some are small, so σ has no influence. If the condition number
of the scaled Gram matrix is large nevertheless, Householder transformations are used.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import blas, lapack

from linspec import LinearOperator, Run
from linspec.algebra import EPS, rank_cut
from linspec.arrays import Array, Home, HostArray, host_dtype, to_host
from linspec.moments import reduce_rows
from linspec.sweeps import KeptRows, Step, row_images

NULL = 8
"""The product A V counts as zero if none of its columns is longer than NULL times the rounding of the entries of A: the
fraction `share_below_rounding` of the largest singular value."""

ROUNDED_PRODUCT = 4
"""Bound on the error of the eigenvalues of AᵀA from float32 products, in multiples of the machine epsilon of float32
times the largest eigenvalue. The largest measured error was 0.7 of these units."""

CONDITION = 1e-10
"""Cholesky QR made twice is exact to rounding if the reciprocal condition number of the scaled Gram matrix is at least
this."""

ROWS = 2**10
"""The number of rows of a block that are multiplied in place at a time."""

ORTHOGONAL = 1e-2
"""Cholesky QR made once is exact to rounding above this reciprocal condition number; its error is eps over it."""

SMALLEST_SQUARE = 1e-250
"""Above this squared norm of columns no digits are lost by underflow."""


def share_below_rounding(A: LinearOperator) -> float:
    """Return the fraction of the largest singular value of A below which singular values are only rounding errors.

    The rounding is that of the entries: of float32 if they are stored so, otherwise of the dtype of products.
    """
    n, p = A.shape
    return rank_cut((max(n, p), min(n, p)), A.rounded_dtype)


def size_of_means(run: Run) -> float:
    """Return a bound on the norm of the matrix that products subtract from A for means and confounds.

    It is 0 if nothing is subtracted, or if only means are subtracted, from the entries themselves. A column that is
    constant, or explained by confounds, becomes zero by the subtraction, up to the rounding of this norm. So singular
    values below that rounding may be only rounding errors.
    """
    return math.sqrt(run.moments("implicit").columns.subtracted_from_products(0))


def squared_cuts(A: LinearOperator, *, by_products: bool = False) -> tuple[float, float]:
    """Return two fractions of the largest eigenvalue of AᵀA. Eigenvalues below either fraction are only rounding.

    The first fraction is the rounding of squaring, that is of AᵀA or of products with it. The second is the rounding of
    the entries of A, as the square of `share_below_rounding`.

    Parameters
    ----------
    A : LinearOperator
    by_products : bool, default False
        Whether only products with AᵀA were computed, which are rounded to the dtype of A. Otherwise the matrix AᵀA was
        summed in float64.
    """
    narrow = by_products and A.dtype != np.float64
    squaring = ROUNDED_PRODUCT * float(np.finfo(A.dtype).eps) if narrow else min(A.shape) * EPS
    return squaring, share_below_rounding(A) ** 2


def left_vectors(A: LinearOperator, V: Array) -> tuple[Array, HostArray | None, Array]:
    """Return (U, S, V) such that U is orthonormal and A V = U diag(S), in one sweep.

    The columns of the returned V are combinations of those of the given V. For float32 data S is None, because the
    products with A are rounded to float32; the caller then keeps the singular values that it has from sums in float64.
    If the rows are in blocks on other machines, U is an operator whose rows stay there.
    """
    if KeptRows.possible(A) and V.shape[1]:
        return _left_elsewhere(A, V)
    U, s, Y = _other_side(A.matmat(V), A.home, spare=A.readable)
    return U, s if A.dtype == np.float64 else None, V @ A.home.blocks.place(Y)


@dataclass(frozen=True)
class Image(Step[int]):
    """Step that computes A V on the machines of the rows, keeps it there, and counts the rows.

    Parameters
    ----------
    V : array of shape (p, k)
    """

    V: HostArray

    def made(self, rows: Sequence[LinearOperator], before: HostArray | None) -> tuple[HostArray, int]:
        return rows[0].matmat(self.V).astype(np.float64, copy=False), rows[0].shape[0]

    def merge(self, left: int, right: int) -> int:
        """Sum of two numbers of rows."""
        return left + right


def _left_elsewhere(A: LinearOperator, V: Array) -> tuple[Any, HostArray | None, Array]:
    """`left_vectors` for rows in blocks elsewhere: A V is made orthonormal there, twice because of rounding."""
    kept = KeptRows({"A": A}, V.shape[1])
    kept.advance(Image(V))
    Q, R = kept.operator("A V"), np.eye(V.shape[1])
    for _ in range(2):
        (T,) = reduce_rows({"A V": Q})
        T = np.vstack([T, np.zeros((max(V.shape[1] - len(T), 0), V.shape[1]))])
        X, s, Yt = np.linalg.svd(T)
        if not s[-1] > EPS * s[0]:  # a singular value is zero: orthonormalise A V here
            U, s, Y = _other_side(Q.brought_here(), A.home, spare=True)
            return U, s if A.dtype == np.float64 else None, V @ Y
        Q, R = row_images(Q, Yt.T / s), (s[:, None] * Yt) @ R
    X, s, Yt = np.linalg.svd(R)
    return row_images(Q, X), s if A.dtype == np.float64 else None, V @ Yt.T


def right_vectors(
    A: LinearOperator, U: Array, k: int | None = None, *, spare: bool = False
) -> tuple[Array, HostArray, Array]:
    """Return (U, S, V) such that V is orthonormal and Aᵀ U = V diag(S), in one sweep.

    The columns of the returned U are combinations of those of the given U. If k is given, U and V are the vectors of
    the k largest values only, and S still has all values. If `spare` is True, the memory of the given U may be
    overwritten.
    """
    home = A.home.blocks
    V, s, Y = _other_side(A.rmatmat(A.home.place(U, A.dtype)), home, k, spare=A.readable)
    return multiplied_in_place(U, Y, home) if spare else U @ home.place(Y), s, V


def vectors_of_product(product: Array, home: Home, k: int) -> tuple[Array, HostArray]:
    """Return the left singular vectors of the k largest singular values of a tall block, and all its singular values.

    The block `product` is overwritten.
    """
    U, s, _ = _other_side(product, home, k, spare=True)
    return U, s


def _other_side(
    product: Array, home: Home, k: int | None = None, *, spare: bool
) -> tuple[Array, HostArray, HostArray]:
    """Return left singular vectors of a tall block, all its singular values, and right singular vectors on the host.

    If k is given, only the first k vectors of each side are returned. The left vectors are orthonormal. If `spare` is
    True, the memory of the block may be overwritten. It must be False for the product of an operator that defines only
    products, because such an operator may use the memory again.
    """
    Q, turn, R = _cholesky(product, home) or _householder(product, home)
    X, s, Yt = np.linalg.svd(R)
    turn = X if turn is None else turn @ X
    turn = turn[:, :k]
    ours = spare or Q is not product
    U = multiplied_in_place(Q, turn, home) if ours else Q @ home.place(turn, host_dtype(Q))
    return U, s, Yt.T[:, :k]


def multiplied_in_place(Q: Array, Z: HostArray, home: Home) -> Array:
    """Q Z; on the host in the memory of Q, because writing to new memory would take longer than the product."""
    rows, columns = Q.shape[0], Z.shape[1]
    fits = home.on_host and columns <= Q.shape[1]
    if not (fits and Q.flags.c_contiguous and Q.flags.writeable):
        return Q @ home.place(Z, host_dtype(Q))
    packed = Q.reshape(-1)[: rows * columns].reshape(rows, columns)
    buffer = np.empty((min(rows, ROWS), columns), np.result_type(Q.dtype, Z.dtype))
    for start in range(0, rows, ROWS):  # rows of the result end before the rows that are not read yet
        stop = min(start + ROWS, rows)
        packed[start:stop] = np.matmul(Q[start:stop], Z, out=buffer[: stop - start])
    return packed


def _householder(product: Array, home: Home) -> tuple[Array, HostArray | None, HostArray]:
    """(Q, None, R) with P = Q R and orthonormal Q, for any block P."""
    Q, R = home.xp.linalg.qr(product, mode="reduced")
    return Q, None, to_host(R).astype(np.float64)


def _cholesky(P: Array, home: Home) -> tuple[Array, HostArray, HostArray] | None:
    """(Q, T, R) with Q T orthonormal and P = (Q T) R; None if the Gram matrix is too ill-conditioned.

    Nearly orthogonal columns, such as products with singular vectors, need only one pass.
    """
    if home.on_host:
        P = home.place(P)  # float32 columns are orthogonalised in float64
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
    """Return the upper Cholesky factor of a matrix C with unit diagonal, and the reciprocal condition number of C.

    The reciprocal condition number is 0 if C is not positive definite.
    """
    R, failed = lapack.dpotrf(C, clean=1)
    return R, 0.0 if failed else float(lapack.dpocon(R, np.linalg.norm(C, 1))[0])


def _solved(P: Array, R: HostArray, home: Home) -> Array:
    """P R⁻¹, in new memory."""
    if not home.on_host:
        return P @ home.place(lapack.dtrtri(R)[0])
    if P.flags.f_contiguous and not P.flags.c_contiguous:
        return blas.dtrsm(1.0, R, P, side=1)
    return blas.dtrsm(1.0, R, P.T, trans_a=1).T  # BLAS reads rows in this memory order as columns


def vanish(A: LinearOperator, V: Array, largest: float) -> bool:
    """Whether A V is only rounding compared with the largest singular value; one sweep."""
    home = A.home.blocks
    norms = home.column_norms(home.place(A.matmat(V)))
    return bool(np.all(norms <= NULL * share_below_rounding(A) * largest))
