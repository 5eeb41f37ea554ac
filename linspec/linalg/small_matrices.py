"""Small matrices on the host, k x k for blocks of k columns, and orthonormal bases of thin blocks.

Ranks are decided up to rounding. Small matrices are NumPy float64; larger arrays stay on the device of the data.

Leading singular vectors of a matrix that fits into memory, and the rounding of squared matrices.

Problem: of a large matrix few singular triplets are wanted, and all of them take long.
Method: the leading eigenvectors of the smaller of T Tᵀ and TᵀT, and a second step within their span. Where the square
has lost a wanted value, the SVD of T itself.
Source: Golub & Van Loan 2013, Matrix Computations, 4th edition, section 8.6.
"""

from __future__ import annotations

import math
from contextlib import suppress
from typing import Any

import numpy as np
import scipy.linalg

from linspec.arrays import Array, Device, HostArray, namespace, reciprocal, to_host

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


def leading_svd(T: Array, k: int, device: Device) -> tuple[Array, HostArray, Array]:
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
    device : Device

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


def _by_square(T: Array, k: int, device: Device) -> tuple[Array, HostArray, Array]:
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


EPS = float(np.finfo(np.float64).eps)
"""The machine epsilon of float64, 2⁻⁵²: the distance from 1 to the next number."""

ALL_AT_ONCE = 16
"""Up to this order of a matrix, computing all eigenvectors takes no longer than computing some."""

CROOKED = 1e-12
"""Eigenvectors V count as orthonormal if no entry of VᵀV − I is larger than this."""

ORDINARY = 1e70
"""Lengths of columns between this and its reciprocal have squares without over- and underflow."""

DEPENDENT = 1e-13
"""A column counts as dependent on others if less of its length is left."""


def ratio(a: float, b: float) -> float:
    """a / b for numbers that are not negative: 0 if a is 0, and infinity if only b is 0.

    Parameters
    ----------
    a, b : float

    Returns
    -------
    float

    Examples
    --------
    >>> from linspec.linalg import ratio
    >>> ratio(1.0, 4.0), ratio(0.0, 0.0), ratio(1.0, 0.0)
    (0.25, 0.0, inf)
    """
    a, b = float(a), float(b)
    if a == 0:
        return 0.0
    return a / b if b > 0 else math.inf


def risen(values: HostArray, coupled: HostArray, outside: float) -> HostArray:
    """To what Ritz values rise when their residuals widen the space.

    Parameters
    ----------
    values : numpy.ndarray of shape (m,)
        The Ritz values Θ.
    coupled : numpy.ndarray of shape (m, m)
        The Gram matrix G of the residuals.
    outside : float
        The Rayleigh quotients of all that the residuals add are at most this.

    Returns
    -------
    numpy.ndarray of shape (m,)
        The leading eigenvalues of [[Θ, √G], [√G, outside·I]].

    Examples
    --------
    >>> import numpy as np
    >>> from linspec.linalg import risen
    >>> risen(np.array([2.0]), np.array([[2.25]]), 0.0)
    array([2.80277564])
    """
    w, V = np.linalg.eigh(coupled)
    root = (V * np.sqrt(np.maximum(w, 0.0))) @ V.T
    whole = np.block([[np.diag(values), root], [root, outside * np.eye(len(values))]])
    every: HostArray = np.linalg.eigvalsh(whole)[::-1]
    return every[: len(values)]


def rank_cut(shape: tuple[int, int], dtype: Any, ridge: float = 0.0) -> float:
    """Fraction of the largest singular value below which other singular values are rounding errors, for columns of
    length 1.

    The fraction does not change if all columns are multiplied by √n, so that their entries have size about 1. Then
    rounding of every entry perturbs the singular values by about eps (√n + √p), and the largest singular value is at
    least √n. A factor of √p allows for the sums over columns in a decomposition.

    Parameters
    ----------
    shape : (int, int)
        Rows n and columns p; n is positive.
    dtype : numpy.dtype
        The dtype of the data.
    ridge : float, default 0.0
        With a ridge the entries count as exact.

    Returns
    -------
    float
        8 eps (1 + √p) (1 + √(p / n)).

    Examples
    --------
    >>> import numpy as np
    >>> from linspec.linalg import rank_cut
    >>> A = np.random.default_rng(0).standard_normal((50, 2)) @ np.ones((2, 4))
    >>> s = np.linalg.svd(A / np.linalg.norm(A, axis=0), compute_uv=False)
    >>> int(np.sum(s > rank_cut(A.shape, A.dtype) * s[0]))
    1
    """
    n, p = shape
    eps = EPS if ridge > 0 else float(np.finfo(dtype).eps)
    return float(8 * eps * (1 + np.sqrt(p)) * (1 + np.sqrt(p / n)))


def metric_rounding(columns: int, dtype: Any) -> float:
    """The relative rounding error of the entries of VᵀSV for a Gram matrix S = XᵀX known by products.

    Sums are float64. Products with float32 data round V to float32, and the error does not grow with the number of
    rows of V.

    Parameters
    ----------
    columns : int
        The number p of columns of X, over which float64 sums run.
    dtype : numpy.dtype
        The dtype of the products, float32 or float64.

    Returns
    -------
    float
        10 eps for float32, p eps for float64: a value of `cut` for `whitening_above_noise`.

    Examples
    --------
    >>> import numpy as np
    >>> from linspec.linalg import metric_rounding
    >>> f"{metric_rounding(100, np.float32):.1e}", f"{metric_rounding(100, np.float64):.1e}"
    ('1.2e-06', '2.2e-14')
    """
    eps = float(np.finfo(dtype).eps)
    return 10 * eps if np.dtype(dtype) == np.float32 else columns * eps


def eigenpairs(G: HostArray) -> tuple[HostArray, HostArray]:
    """Eigenvalues, increasing, and orthonormal eigenvectors of a symmetric matrix.

    LAPACK's divide and conquer computes them. It may fail on a finite matrix if many off-diagonal entries are only
    rounding errors. Then QR iteration, which is slower, computes them.

    Parameters
    ----------
    G : numpy.ndarray of shape (k, k)
        Only the lower triangle is read.

    Returns
    -------
    values : numpy.ndarray of shape (k,)
    vectors : numpy.ndarray of shape (k, k)
        One in each column.

    Raises
    ------
    numpy.linalg.LinAlgError
        The matrix has an entry that is not finite, and LAPACK reports it.

    Examples
    --------
    >>> import numpy as np
    >>> from linspec.linalg import eigenpairs
    >>> G = np.array([[2.0, 1.0], [1.0, 2.0]])
    >>> values, vectors = eigenpairs(G)
    >>> values.round(12), bool(np.allclose(G @ vectors, vectors * values))
    (array([1., 3.]), True)
    """
    try:
        values, vectors = np.linalg.eigh(G)
    except np.linalg.LinAlgError:
        if not np.isfinite(G).all():
            raise
        values, vectors = scipy.linalg.eigh(G, driver="ev")
    return values, vectors


def leading_eigenpairs(G: HostArray, k: int) -> tuple[HostArray, HostArray]:
    """The k largest eigenvalues, increasing, and orthonormal eigenvectors of a symmetric matrix.

    LAPACK's routine for some of the eigenvalues may fail if many are equal, as for a matrix near the identity: it
    reports an error, or returns too few eigenpairs, or eigenvectors that are not orthogonal. Then all eigenpairs are
    computed.

    Parameters
    ----------
    G : numpy.ndarray of shape (m, m)
        Only the lower triangle is read.
    k : int
        At most m.

    Returns
    -------
    values : numpy.ndarray of shape (k,)
    vectors : numpy.ndarray of shape (m, k)
        One in each column.

    Raises
    ------
    numpy.linalg.LinAlgError
        As for `eigenpairs`.

    Examples
    --------
    >>> import numpy as np
    >>> from linspec.linalg import leading_eigenpairs
    >>> values, vectors = leading_eigenpairs(np.diag([4.0, 1.0, 9.0]), 2)
    >>> values, abs(vectors[:, 1])
    (array([4., 9.]), array([0., 0., 1.]))
    """
    order = len(G)
    if k < order > ALL_AT_ONCE:
        with suppress(np.linalg.LinAlgError):
            some = [order - k, order - 1]
            values, vectors = scipy.linalg.eigh(G, subset_by_index=some, check_finite=False)
            if len(values) == k and np.abs(vectors.T @ vectors - np.eye(k)).max() <= CROOKED:
                return values, vectors
    values, vectors = eigenpairs(G)
    return values[order - k :], vectors[:, order - k :]


def whitening(G: HostArray, cut: float = EPS) -> HostArray:
    """T with Tᵀ G T = I over the numerical range of a symmetric positive semidefinite G.

    The diagonal is scaled to ones first, so that the rank does not depend on the lengths of columns.

    Parameters
    ----------
    G : numpy.ndarray of shape (k, k)
        G may be slightly unsymmetric or indefinite because of rounding.
    cut : float, default machine epsilon
        Eigenvalues of the scaled matrix up to k · cut times the largest count as zero.

    Returns
    -------
    numpy.ndarray of shape (k, r)
        r is the numerical rank.

    Examples
    --------
    >>> import numpy as np
    >>> from linspec.linalg import whitening
    >>> G = np.array([[4.0, 2.0, 0.0], [2.0, 1.0, 0.0], [0.0, 0.0, 9.0]])  # of rank 2
    >>> T = whitening(G)
    >>> T.shape, bool(np.allclose(T.T @ G @ T, np.eye(2)))
    ((3, 2), True)
    """
    d = np.sqrt(np.maximum(np.diag(G), 0.0))
    scale = reciprocal(d)
    values, vectors = eigenpairs((G + G.T) / 2 * np.outer(scale, scale))
    keep = values > len(G) * cut * max(values[-1], 0.0) if len(G) else np.zeros(0, dtype=bool)
    return scale[:, None] * (vectors[:, keep] / np.sqrt(values[keep]))


def inverse_root(G: HostArray, cut: float = EPS) -> tuple[HostArray, float]:
    """G^(-1/2) of a symmetric positive semidefinite G on its numerical range, and the trace of G^(1/2).

    Unlike the result of `whitening`, the root is symmetric: for G = VᵀV, V G^(-1/2) is the orthonormal block nearest
    to V.

    Parameters
    ----------
    G : numpy.ndarray of shape (k, k)
        G may be slightly unsymmetric or indefinite because of rounding.
    cut : float, default machine epsilon
        Eigenvalues up to k · cut times the largest count as zero.

    Returns
    -------
    root : numpy.ndarray of shape (k, k)
        Symmetric, with the numerical rank of G.
    trace : float

    Examples
    --------
    >>> import numpy as np
    >>> from linspec.linalg import inverse_root
    >>> G = np.array([[4.0, 2.0, 0.0], [2.0, 1.0, 0.0], [0.0, 0.0, 9.0]])  # of rank 2
    >>> T, trace = inverse_root(G)
    >>> bool(np.allclose(T @ G @ T @ G, G)), round(trace - 5**0.5, 12)
    (True, 3.0)
    """
    values, vectors = eigenpairs((G + G.T) / 2)
    keep = values > len(G) * cut * values.max(initial=0.0)
    roots = np.sqrt(values[keep])
    root: HostArray = (vectors[:, keep] / roots) @ vectors[:, keep].T
    return root, float(roots.sum())


def whitening_above_noise(
    G: HostArray, H: HostArray, cut: float, dependent: float = EPS, least: float = 0.0
) -> HostArray:
    """T with Tᵀ G T = I over the directions in which G = WᵀSW is larger than its rounding errors.

    Parameters
    ----------
    G : numpy.ndarray of shape (k, k)
        WᵀSW for a block W of k columns and a Gram matrix S.
    H : numpy.ndarray of shape (k, k)
        Wᵀ diag(S) W. If S almost annihilates a vector Wv, vᵀGv is far below vᵀHv, whatever the length of Wv, and vᵀGv
        is only rounding.
    cut : float
        Directions v with vᵀGv / vᵀHv below `cut` times the largest are omitted: see `metric_rounding`.
    dependent : float, default machine epsilon
        The `cut` with which H is whitened: it treats columns of W as dependent if they differ only by rounding.
    least : float, default 0.0
        A lower limit for the largest value of vᵀGv / vᵀHv. The rounding error of a product with S is relative to the
        norm of S: if S annihilates all of W, even the largest value is rounding.

    Returns
    -------
    numpy.ndarray of shape (k, r)

    Examples
    --------
    >>> import numpy as np
    >>> from linspec.linalg import whitening_above_noise
    >>> G, H = np.diag([4.0, 1e-15]), np.diag([2.0, 2.0])  # W of two columns, the second nearly annihilated by S
    >>> whitening_above_noise(G, H, cut=1e-12)
    array([[0.5],
           [0. ]])
    """
    first = whitening(H, dependent)
    values, vectors = eigenpairs(first.T @ ((G + G.T) / 2) @ first)
    keep = values > cut * max(values[-1], least) if len(values) else np.zeros(0, dtype=bool)
    whitened: HostArray = first @ (vectors[:, keep] / np.sqrt(values[keep]))
    # Whiten again in the new metric, because the error of the first step grows with the condition number of H.
    return whitened @ whitening(whitened.T @ G @ whitened)


def lengths_of(X: HostArray) -> HostArray:
    """Return the Euclidean lengths of columns, as `numpy.linalg.norm` computes them.

    Parameters
    ----------
    X : numpy.ndarray of shape (p, k)
        Real numbers.

    Examples
    --------
    >>> import numpy as np
    >>> from linspec.linalg import lengths_of
    >>> lengths_of(np.array([[3.0], [4.0]]))
    array([5.])
    """
    return np.sqrt(np.add.reduce(X * X, axis=0))


def orthonormal(S: Array) -> tuple[Array, HostArray]:
    """Return Q and τ with S = Q τ and orthonormal Q, which has as many columns as S has independent ones.

    Parameters
    ----------
    S : array of shape (p, k)

    Returns
    -------
    Q : array of shape (p, r)
        Where S is.
    tau : numpy.ndarray of shape (r, k)

    Examples
    --------
    >>> import numpy as np
    >>> from linspec.linalg import orthonormal
    >>> Q, tau = orthonormal(np.array([[3.0, 6.0], [4.0, 8.0]]))
    >>> Q.shape, bool(np.allclose(Q @ tau, [[3.0, 6.0], [4.0, 8.0]]))
    ((2, 1), True)
    """
    if S.shape[1] == 1:
        size = Device.of(S).norm(S)
        return (S / size, np.array([[size]])) if size > 0 else (S[:, :0], np.zeros((0, 1)))
    fast = _by_cholesky(S)
    if fast is not None:
        return fast
    Q, R = namespace(S).linalg.qr(S, mode="reduced")
    tau = to_host(R)
    length = lengths_of(tau)
    live = np.abs(tau.diagonal()) > DEPENDENT * length[: min(tau.shape)]
    if tau.shape[0] == tau.shape[1] and live.all():
        return Q, tau
    length = np.where(length > 0, length, 1.0)
    turn, s, Vt = np.linalg.svd(tau / length, full_matrices=False)
    rank = int((s > DEPENDENT * max(s.max(initial=0.0), DEPENDENT)).sum())
    return Q @ Device.of(S).asarray(turn[:, :rank]), s[:rank, None] * Vt[:rank] * length


def _by_cholesky(S: Array) -> tuple[Array, HostArray] | None:
    """Q and τ by Cholesky factors of SᵀS, made once or twice; None if S is too ill-conditioned for that.

    Yamamoto, Nakatsukasa, Yanagisawa & Fukaya 2015, ETNA 44, 306-326: products in place of reflections.
    """
    G = to_host(S.T @ S)
    asarray = Device.of(S).asarray
    d = np.sqrt(np.maximum(G.diagonal(), 0.0))
    if S.shape[1] == 0 or not ((d > 1 / ORDINARY) & (d < ORDINARY)).all():
        return None
    try:
        R = np.linalg.cholesky(G / d[:, None] / d).T
    except np.linalg.LinAlgError:
        return None
    least = float(R.diagonal().min())
    if least < 1e-3:
        return None
    R = R * d
    Q = S @ asarray(np.linalg.inv(R))
    if least > 0.5:
        return Q, R
    again = np.linalg.cholesky(to_host(Q.T @ Q)).T
    return Q @ asarray(np.linalg.inv(again)), again @ R


def inverse(G: HostArray) -> HostArray:
    """Return the inverse of symmetric positive matrices on their numerical range, with a unit diagonal in between.

    Parameters
    ----------
    G : numpy.ndarray of shape (..., k, k)

    Examples
    --------
    >>> import numpy as np
    >>> from linspec.linalg import inverse
    >>> inverse(np.diag([4.0, 0.0]))
    array([[0.25, 0.  ],
           [0.  , 0.  ]])
    """
    if G.shape[-1] == 1:
        return reciprocal(G)
    d = np.sqrt(np.maximum(np.diagonal(G, axis1=-2, axis2=-1), 0.0))
    d = np.where(d > 0, d, np.inf)[..., None]
    values, vectors = np.linalg.eigh(G / d / d.swapaxes(-1, -2))
    live = values > G.shape[-1] * EPS * values.max(axis=-1, initial=0.0, keepdims=True)
    half = vectors / np.sqrt(np.where(live, values, np.inf))[..., None, :] / d
    return half @ half.swapaxes(-1, -2)


def inverse_triangle(R: HostArray) -> HostArray:
    """Return T with (R T)ᵀ(R T) = I, on the range of R that is above its rounding after squaring.

    Parameters
    ----------
    R : numpy.ndarray of shape (r, k)
        Its columns are scaled to length 1 first.

    Examples
    --------
    >>> import numpy as np
    >>> from linspec.linalg import inverse_triangle
    >>> inverse_triangle(np.array([[2.0]]))
    array([[0.5]])
    """
    lengths = lengths_of(R)
    scale = reciprocal(lengths)
    _, s, Wt = np.linalg.svd(R * scale, full_matrices=False)
    keep = s**2 > len(scale) * EPS * s.max(initial=0.0) ** 2
    return scale[:, None] * (Wt[keep].T / s[keep])


def tall_svd(B: Array) -> tuple[Array, HostArray, HostArray]:
    """Return (U, s, Y) with B Y = U diag(s) and orthonormal U and Y, of a block with few columns.

    B = QR by orthogonalisation, and R = X s Yᵀ: U = QX is orthonormal to rounding for any s (Chan 1982,
    doi:10.1145/355984.355990). Columns that are nearly orthogonal, of any lengths, need no reflections.

    Parameters
    ----------
    B : array of shape (p, k)

    Returns
    -------
    U : array of shape (p, min(p, k))
        Where B is.
    s : numpy.ndarray of shape (min(p, k),)
        Decreasing.
    Y : numpy.ndarray of shape (k, min(p, k))

    Examples
    --------
    >>> import numpy as np
    >>> from linspec.linalg import tall_svd
    >>> tall_svd(np.array([[3.0], [4.0]]))[1]
    array([5.])
    """
    Q, R = _by_cholesky(B) or namespace(B).linalg.qr(B, mode="reduced")
    X, s, Yt = np.linalg.svd(to_host(R), full_matrices=False)
    return Q @ Device.of(B).asarray(X), s, Yt.T


# ---- the normal form of returned vectors: unit length in a metric, fixed signs, and a fixed order -----

TIE = 1e-6
"""When signs are fixed, entries count as equally large up to this relative difference."""


def selection_matrix(count: int, order: HostArray) -> HostArray:
    """The matrix T that selects columns of V in a given order: V T = V[:, order].

    Parameters
    ----------
    count : int
        The number of columns of V.
    order : numpy.ndarray of int, shape (m,)

    Returns
    -------
    numpy.ndarray of shape (count, m)
        float64, with a single 1 in each column.

    Examples
    --------
    >>> import numpy as np
    >>> from linspec.linalg import selection_matrix
    >>> np.array([[5.0, 6.0, 7.0]]) @ selection_matrix(3, np.array([2, 0]))
    array([[7., 5.]])
    """
    T = np.zeros((count, len(order)))
    T[order, np.arange(len(order))] = 1.0
    return T


def signs_of_columns(V: Array, device: Device) -> HostArray:
    """The sign of the largest entry of each column, by which vectors are multiplied to fix their signs.

    If several entries are within a millionth of the largest, the first one counts.

    Parameters
    ----------
    V : array of shape (p, k)
    device : Device

    Returns
    -------
    numpy.ndarray of shape (k,)
        −1 or 1; 1 for a column of zeros.

    Examples
    --------
    >>> import numpy as np
    >>> from linspec.linalg import signs_of_columns
    >>> from linspec.arrays import HOST
    >>> signs_of_columns(np.array([[1.0, -2.0, 0.0], [-3.0, 2.0, 0.0]]), HOST)
    array([-1., -1.,  1.])
    """
    xp = device.xp
    size = xp.abs(V)
    near = size >= xp.max(size, axis=0)[None, :] * (1 - TIE)
    if device.on_host:
        signs = np.sign(V[near.argmax(axis=0), np.arange(V.shape[1])])
    else:
        first = xp.argmax(xp.astype(near, xp.int8), axis=0)
        index = xp.arange(V.shape[0], device=device.native)
        picked = xp.where(index[:, None] == first[None, :], V, xp.zeros_like(V))
        signs = np.sign(to_host(xp.sum(picked, axis=0)))
    return np.where(signs == 0, 1.0, signs)


def unit_columns(W: Array, device: Device) -> Array:
    """Divide columns by their lengths; a column of zeros stays.

    Examples
    --------
    >>> import numpy as np
    >>> from linspec.linalg import unit_columns
    >>> from linspec.arrays import HOST
    >>> unit_columns(np.array([[3.0, 0.0], [4.0, 0.0]]), HOST)
    array([[0.6, 0. ],
           [0.8, 0. ]])
    """
    W = device.asarray(W)
    return W * reciprocal(device.asarray(device.column_norms(W)))[None, :]


def inner_products(V: Array, W: Array, device: Device) -> HostArray:
    """Compute the inner product of each column of V with the column of W at the same position, on the host.

    Examples
    --------
    >>> import numpy as np
    >>> from linspec.linalg import inner_products
    >>> from linspec.arrays import HOST
    >>> inner_products(np.eye(2), np.array([[1.0, 2.0], [3.0, 4.0]]), HOST)
    array([1., 4.])
    """
    return to_host(device.column_sums(V * W))


def leading(values: HostArray, k: int, above: float = 0.0) -> HostArray:
    """Return the indices of the k largest values, the largest first; fewer if fewer than k values exceed a bound.

    Examples
    --------
    >>> import numpy as np
    >>> from linspec.linalg import leading
    >>> leading(np.array([1.0, 3.0, 1e-17, 2.0]), 3, above=1e-15)
    array([1, 3, 0])
    """
    order: HostArray = np.argsort(-values, kind="stable")
    return order[values[order] > above][:k]


def picked(W: Array, order: HostArray, factors: HostArray, device: Device) -> Array:
    """Return columns of W in an order, each multiplied by a factor.

    Examples
    --------
    >>> import numpy as np
    >>> from linspec.linalg import picked
    >>> from linspec.arrays import HOST
    >>> picked(np.array([[5.0, 6.0, 7.0]]), np.array([2, 0]), np.array([1.0, -1.0]), HOST)
    array([[ 7., -5.]])
    """
    return W @ device.asarray(selection_matrix(W.shape[1], order) * factors)


def leading_triplets(
    U: Array, V: Array, CV: Array, CtU: Array, k: int, above: float, device: Device
) -> tuple[Array, Array, Array, Array, HostArray]:
    """Arrange pairs of unit vectors as singular triplets of a matrix C: σ = uᵀC v, positive and in decreasing order.

    Parameters
    ----------
    U, V : array of shape (p, m), (q, m)
    CV, CtU : array of shape (p, m), (q, m)
        The products C V and CᵀU.
    k : int
        The largest number of triplets.
    above : float
        Values up to this bound are only rounding, and are left out.
    device : Device

    Returns
    -------
    U, V, CV, CtU : array
        The chosen columns. The largest entry of each u is positive; where uᵀC v was negative, v has changed its sign.
    sigma : numpy.ndarray of shape (at most k,)

    Examples
    --------
    >>> import numpy as np
    >>> from linspec.linalg import leading_triplets
    >>> from linspec.arrays import HOST
    >>> C = np.diag([1.0, -3.0])
    >>> U, V, CV, CtU, sigma = leading_triplets(np.eye(2), np.eye(2), C, C.T, 1, 0.0, HOST)
    >>> sigma, V[:, 0]
    (array([3.]), array([ 0., -1.]))
    """
    values = inner_products(U, CV, device)
    order = leading(np.abs(values), k, above)
    flips = signs_of_columns(picked(U, order, np.ones(len(order)), device), device)
    turns = flips * np.sign(values[order])
    U = picked(U, order, flips, device)
    CtU = picked(CtU, order, flips, device)
    V = picked(V, order, turns, device)
    CV = picked(CV, order, turns, device)
    return U, V, CV, CtU, np.abs(values[order])
