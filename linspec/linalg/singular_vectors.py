"""Leading singular vectors of a matrix that fits into memory, and the rounding of squared matrices.

Problem: of a large matrix few singular triplets are wanted, and all of them take long.
Method: the leading eigenvectors of the smaller of T Tᵀ and TᵀT, and a second step within their span. Where the square
has lost a wanted value, the SVD of T itself.
Source: Golub & Van Loan 2013, Matrix Computations, 4th edition, section 8.6.
"""

from __future__ import annotations

from typing import Any

from linspec.arrays import Array, Home, HostArray, to_host
from linspec.linalg.small_matrices import EPS, leading_eigenpairs, rank_cut

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


def squared_cut(A: Any) -> float:
    """The fraction of the largest eigenvalue of a scaled Gram matrix AᵀA below which eigenvalues are rounding errors.

    Parameters
    ----------
    A : LinearOperator of shape (n, p)
        The entries count as rounded to `A.rounded_dtype`.

    Returns
    -------
    float
        The larger of p eps for float64 and the square of `rank_cut`.

    Examples
    --------
    >>> import numpy as np
    >>> import linspec as ls
    >>> from linspec.linalg import squared_cut
    >>> A = np.ones((100, 4))
    >>> f"{squared_cut(ls.as_operator(A)):.0e}", f"{squared_cut(ls.as_operator(A.astype(np.float32))):.0e}"
    ('9e-16', '1e-11')
    """
    return float(max(A.shape[1] * EPS, rank_cut(A.shape, A.rounded_dtype) ** 2))


def leading_svd(T: Array, k: int, device: Home) -> tuple[Array, HostArray, Array]:
    """The leading singular triplets of a matrix that fits into memory.

    For a large T, the leading eigenvectors of the smaller of T Tᵀ and TᵀT are computed first. A second step is the SVD
    of the product of T or Tᵀ with these k vectors, which gives more accurate singular values. If a requested singular
    value is at most `SQUARED_AWAY` times the largest, the SVD of T itself is computed instead.

    Parameters
    ----------
    T : array of shape (m, n)
        float64, of the library and device of `device`, with at least one row and one column.
    k : int
        At least 1; at most min(m, n) triplets are returned.
    device : Home

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
    >>> from linspec.linalg import leading_svd
    >>> from linspec.arrays import HOST
    >>> T = np.diag([3.0, 1.0, 2.0])
    >>> U, s, V = leading_svd(T, 2, HOST)
    >>> s, bool(np.allclose(T @ V, U * s))
    (array([3., 2.]), True)
    """
    k = min(k, *T.shape)
    m = min(T.shape)
    if m > (TINY if FEW * k < m else SMALL):
        triplets = _by_square(T, k, device)
        if triplets[1][-1] > SQUARED_AWAY * triplets[1][0]:
            return triplets
    U, s, Vt = device.xp.linalg.svd(T, full_matrices=False)
    return U[:, :k], to_host(s)[:k], Vt.T[:, :k]


def _by_square(T: Array, k: int, device: Home) -> tuple[Array, HostArray, Array]:
    """Leading singular triplets from eigenvectors of the smaller of T Tᵀ and TᵀT; accurate for values near the largest.

    A second step is the SVD of the product of T or Tᵀ with the k eigenvectors. Let s₁ be the largest singular value.
    Squaring gives a singular value s an error of eps s₁²/s, which the second step reduces to eps s₁. Singular subspaces
    have an error of eps s₁² / (s² − t²), where t is the largest omitted singular value.
    """
    wide = T.shape[0] > T.shape[1]
    A = T.T if wide else T
    m = A.shape[0]
    if device.on_host:
        _, U = leading_eigenpairs(A @ A.T, k)
    else:
        U = device.xp.linalg.eigh(A @ A.T)[1][:, m - k :]
    # A second step on the k-dimensional span undoes the squaring for the leading values.
    Q, s, Pt = device.xp.linalg.svd(A.T @ U, full_matrices=False)
    U, V = U @ Pt.T, Q
    return (V, to_host(s), U) if wide else (U, to_host(s), V)
