"""Whitening by a factor F of a Gram matrix, S + ridge·I = F Fᵀ: F⁻¹ transforms the matrix into the identity.

Problem: methods that keep a Gram matrix in memory work in coordinates in which it is the identity. The matrix may be
singular, or so nearly singular that its Cholesky factor is dominated by rounding.
Method: the matrix is scaled to unit diagonal and factorised by Cholesky. If its condition number is too large, an
eigen-decomposition with a rank cut replaces the factor.
Source: Golub & Van Loan 2013, Matrix Computations, 4th edition, sections 4.2 and 8.7.
Where we differ: the condition number is kept, so that a solver can report how much accuracy the squared data lose.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.linalg

from linspec.algebra.small_matrices import EPS, leading_eigenpairs, rank_cut
from linspec.arrays import Array, Home, HostArray, reciprocal, to_host

SMALL = 500
"""Up to this order of a matrix, an SVD takes at most a few hundredths of a second. So all singular vectors are
computed, unless FEW times the requested number is below the order."""

TINY = 100
"""Up to this order of a matrix, an SVD takes less than a hundredth of a second. So all singular vectors are computed,
however few are requested."""

FEW = 4
"""Above `TINY`, only the leading singular vectors are computed if FEW times their number is below the order."""

SQUARED_AWAY = 1e-5
"""A singular value below this fraction of the largest is inaccurate if it is computed from the squared matrix."""

SHORT = 0.1
"""Kept eigenvectors with eigenvalues below this fraction of the largest are stored in `Whitener.short`, because
rounding mixes them with omitted ones. A product of both with the rows separates them."""

OF_SUMS = 4.0
"""The error of a sum of p numbers is taken to be at most this many times √p roundings; one sum in 1,500 exceeds it."""

CHOLESKY_LIMIT = 1e-12
"""Reciprocal condition number of the scaled Gram matrix below which its eigenvalues determine the rank."""


def squared_cut(A: Any) -> float:
    """The fraction of the largest eigenvalue of a scaled Gram matrix AᵀA below which eigenvalues are rounding errors.

    Parameters
    ----------
    A : LinearOperator of shape (n, p)
        The entries count as rounded to `A.rounded_dtype`.

    Returns
    -------
    float
        The larger of p eps for float64 and the square of `rank_cut`: the `cut` of a `Whitener`.

    Examples
    --------
    >>> import numpy as np
    >>> import linspec as ls
    >>> from linspec.algebra import squared_cut
    >>> A = np.ones((100, 4))
    >>> f"{squared_cut(ls.as_operator(A)):.0e}", f"{squared_cut(ls.as_operator(A.astype(np.float32))):.0e}"
    ('9e-16', '1e-11')
    """
    return float(max(A.shape[1] * EPS, rank_cut(A.shape, A.rounded_dtype) ** 2))


class Whitener:
    """A factor F of S + ridge·I = F Fᵀ on its numerical range, applied as F⁻¹ and F⁻ᵀ.

    Parameters
    ----------
    S : array of shape (p, p)
        A Gram matrix, float64, of the library and device of `home`.
    ridge : float
        Added to the diagonal; 0 for none.
    cut : float
        Eigenvalues of the scaled matrix up to this fraction of the largest count as zero: see `squared_cut`.
    home : Home
    noise : float, default 0.0
        The fraction that replaces `cut` if there is a ridge. The ridge raises all eigenvalues above the rounding of
        the data, so `noise` is needed only if S was computed by products less accurate than float64.

    Attributes
    ----------
    rank : int
        Order r of the numerical range.
    condition : float
        Condition number of the scaled matrix on the numerical range; an estimate if a Cholesky factor was used.
    cut : array of shape (p, m) or None
        The directions that were omitted as null, of length 1 in the norm of the diagonal; None if no direction was
        omitted. The rounding of S hides whether X maps them to zero or only to short vectors; a
        product with the rows tells. (The parameter of the same name is a number.)
    short : array of shape (p, l) or None
        The kept eigenvectors with small eigenvalues, of length 1 in the norm of S; None if no direction was omitted.
        Rounding mixes them with the omitted eigenvectors.
    largest : float
        The largest eigenvalue of the scaled matrix; 1 if a Cholesky factor was used.
    rounding : float
        The rounding error of X v for an omitted direction v, in units of the rounding error of one number.

    Examples
    --------
    >>> import numpy as np
    >>> from linspec.algebra import Whitener
    >>> from linspec.arrays import HOST
    >>> S = np.array([[4.0, 2.0], [2.0, 3.0]])
    >>> F = Whitener(S, 0.0, 1e-15, HOST)
    >>> F.rank, bool(np.allclose(F.solve(F.solve(S).T), np.eye(2)))  # F⁻¹ S F⁻ᵀ = I
    (2, True)
    >>> Whitener(np.ones((2, 2)), 0.0, 1e-15, HOST).rank
    1
    """

    rounding = 1.0

    def __init__(self, S: Array, ridge: float, cut: float, home: Home, noise: float = 0.0) -> None:
        xp = home.xp
        self.home = home
        S = S + ridge * home.eye(S.shape[0]) if ridge > 0 else S
        d = xp.sqrt(xp.linalg.diagonal(S))
        self.scale = reciprocal(d)
        S = S * self.scale[:, None] * self.scale[None, :]
        self.rank = int(S.shape[0])
        self.condition = self.largest = 1.0
        self.cut: Array | None = None
        self.short: Array | None = None
        self.lower, rcond = _cholesky(S, cut) if home.on_host and bool(np.all(d > 0)) else (None, 0.0)
        if self.lower is not None:
            self.condition = 1 / rcond
        if self.lower is None:
            values, vectors = xp.linalg.eigh(S)
            host = to_host(values)
            least = cut if ridge == 0 else max(len(host) * EPS, noise)
            first = int(np.sum(host <= least * max(host[-1], 0.0)))
            self.rank = len(host) - first
            self.condition = float(host[-1] / host[first]) if first < len(host) else 1.0
            self.largest = float(host[-1])
            if first:
                self.cut = vectors[:, :first] * self.scale[:, None]
            self.half = vectors[:, first:] / xp.sqrt(values[first:])[None, :] * self.scale[:, None]
            if self.cut is not None:
                self.short = self.half[:, : int(np.sum(host[first:] < SHORT * host[-1]))]

    def solve(self, M: Array) -> Array:
        """F⁻¹ M, of shape (r, k) for a block M of shape (p, k)."""
        if self.lower is None:
            return self.half.T @ M
        return _solved(self.lower, M * self.scale[:, None])

    def solve_adjoint(self, U: Array) -> Array:
        """F⁻ᵀ U, of shape (p, k) for a block U of shape (r, k)."""
        if self.lower is None:
            return self.half @ U
        return _solved(self.lower, U, adjoint=True) * self.scale[:, None]


def _solved(L: HostArray, M: HostArray, *, adjoint: bool = False) -> HostArray:
    """L⁻¹ M, or L⁻ᵀ M, for a lower triangular L; LAPACK alone, because SciPy's checks take longer on small problems."""
    solved: HostArray = scipy.linalg.lapack.dtrtrs(L, M, lower=1, trans=int(adjoint))[0]
    return solved


def _cholesky(S: HostArray, cut: float) -> tuple[HostArray | None, float]:
    """Cholesky factor of a scaled Gram matrix (None if ill-conditioned), and its reciprocal condition number."""
    lower, info = scipy.linalg.lapack.dpotrf(S, lower=1, clean=1)
    if info != 0:
        return None, 0.0
    rcond, _ = scipy.linalg.lapack.dpocon(lower, np.abs(S).sum(axis=0).max(), uplo="L")
    return (lower if rcond > max(CHOLESKY_LIMIT, 100 * cut) else None), float(rcond)


def leading_svd(T: Array, k: int, home: Home) -> tuple[Array, HostArray, Array]:
    """The leading singular triplets of a matrix that fits into memory.

    For a large T, the leading eigenvectors of the smaller of T Tᵀ and TᵀT are computed first. A second step is the SVD
    of the product of T or Tᵀ with these k vectors, which gives more accurate singular values. If a requested singular
    value is at most `SQUARED_AWAY` times the largest, the SVD of T itself is computed instead.

    Parameters
    ----------
    T : array of shape (m, n)
        float64, of the library and device of `home`, with at least one row and one column.
    k : int
        At least 1; at most min(m, n) triplets are returned.
    home : Home

    Returns
    -------
    U : array of shape (m, k)
        On the device of T.
    s : numpy.ndarray of shape (k,)
        Singular values, decreasing, on the host.
    V : array of shape (n, k)
        On the device of T.

    Examples
    --------
    >>> import numpy as np
    >>> from linspec.algebra import leading_svd
    >>> from linspec.arrays import HOST
    >>> T = np.diag([3.0, 1.0, 2.0])
    >>> U, s, V = leading_svd(T, 2, HOST)
    >>> s, bool(np.allclose(T @ V, U * s))
    (array([3., 2.]), True)
    """
    k = min(k, *T.shape)
    m = min(T.shape)
    if m > (TINY if FEW * k < m else SMALL):
        found = _by_square(T, k, home)
        if found[1][-1] > SQUARED_AWAY * found[1][0]:
            return found
    U, s, Vt = home.xp.linalg.svd(T, full_matrices=False)
    return U[:, :k], to_host(s)[:k], Vt.T[:, :k]


def _by_square(T: Array, k: int, home: Home) -> tuple[Array, HostArray, Array]:
    """Leading singular triplets from eigenvectors of the smaller of T Tᵀ and TᵀT; accurate for values near the largest.

    A second step is the SVD of the product of T or Tᵀ with the k eigenvectors. Let s₁ be the largest singular value.
    Squaring gives a singular value s an error of eps s₁²/s, which the second step reduces to eps s₁. Singular subspaces
    have an error of eps s₁² / (s² − t²), where t is the largest omitted singular value.
    """
    wide = T.shape[0] > T.shape[1]
    A = T.T if wide else T
    m = A.shape[0]
    if home.on_host:
        _, U = leading_eigenpairs(A @ A.T, k)
    else:
        U = home.xp.linalg.eigh(A @ A.T)[1][:, m - k :]
    # A second step on the k-dimensional span undoes the squaring for the leading values.
    Q, s, Pt = home.xp.linalg.svd(A.T @ U, full_matrices=False)
    U, V = U @ Pt.T, Q
    return (V, to_host(s), U) if wide else (U, to_host(s), V)
