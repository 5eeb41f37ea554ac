"""Host algebra of matrices as wide as a block: whitening, and exact canonical pairs within two spans.

All of it is NumPy float64. Larger arrays stay with the data.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import scipy.linalg

from linspec.arrays import HostArray

EPS = float(np.finfo(np.float64).eps)

ALL_AT_ONCE = 16
"""Up to this order, all eigenvectors are computed as quickly as some."""

CROOKED = 1e-12
"""Eigenvectors that are this close to orthonormal differ only by rounding."""


LEAST_LENGTH = 10.0
"""A direction is null if the length of its image is at most this, in units of rounding."""


def ratio(a: float, b: float) -> float:
    """a / b for the laws: 0 if a is 0, and infinity if only b is 0."""
    a, b = float(a), float(b)
    if a == 0:
        return 0.0
    return a / b if b > 0 else math.inf


def raised(gap: HostArray, squares: HostArray) -> HostArray:
    """The larger eigenvalue of [[g, e], [e, 0]] minus g, for e² = squares; e if the gap g is not positive.

    By so much a value rises that is g above another one, with which it has e in common.

    Examples
    --------
    >>> import numpy as np
    >>> from linspec.algebra.small_matrices import raised
    >>> raised(np.asarray([1.5, 0.0]), np.asarray([1.0, 4.0]))
    array([0.5, 2. ])
    """
    half = np.maximum(gap, 0.0) / 2
    root = np.sqrt(half**2 + squares)
    found: HostArray = np.divide(squares, root + half, out=np.zeros_like(root), where=root > 0)
    return found


def rounding_of_rows(dtype: Any, ridge: float = 0.0) -> float:
    """The rounding of one number of rows that are decomposed in float64.

    Parameters
    ----------
    dtype : numpy.dtype
        Of the data.
    ridge : float, default 0.0
        Where there is one, √ridge·I stands below the rows: no direction is null, so the entries count as exact, and
        only the decomposition rounds.
    """
    return EPS if ridge > 0 else float(np.finfo(dtype).eps)


def rank_cut(shape: tuple[int, int], dtype: Any, ridge: float = 0.0) -> float:
    """The fraction of the largest singular value below which others are rounding, for unit columns.

    Rounding of every entry perturbs the singular values by about eps (√n + √p), and the largest one is at
    least √n. A factor of √p allows for the sums over columns in a decomposition.

    Parameters
    ----------
    shape : tuple
        (n, p).
    dtype, ridge
        See `rounding_of_rows`.
    """
    n, p = shape
    eps = rounding_of_rows(dtype, ridge)
    return float(8 * eps * (1 + np.sqrt(p)) * (1 + np.sqrt(p / n)))


def metric_rounding(columns: int, dtype: Any) -> float:
    """The relative rounding of VᵀSV: sums are float64, but products with float32 data round V to float32."""
    eps = float(np.finfo(dtype).eps)
    return 10 * eps if np.dtype(dtype) == np.float32 else columns * eps


def eigenpairs(G: HostArray) -> tuple[HostArray, HostArray]:
    """Eigenvalues, increasing, and orthonormal eigenvectors of a symmetric matrix.

    They are computed by divide and conquer. LAPACK's routine may fail on a finite matrix if many couplings
    are only rounding. Then they are computed by QR iteration, which is slower.

    Parameters
    ----------
    G : numpy.ndarray of shape (k, k)

    Returns
    -------
    numpy.ndarray of shape (k,), numpy.ndarray of shape (k, k)
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

    LAPACK's routine for some of the eigenvalues may fail where many are equal, as those of a matrix near the
    identity are: it ends with an error, or returns fewer than requested, or eigenvectors that are not orthogonal.
    Then all are computed.

    Parameters
    ----------
    G : numpy.ndarray of shape (m, m)
    k : int
        At most m.

    Returns
    -------
    numpy.ndarray of shape (k,), numpy.ndarray of shape (m, k)
    """
    order = len(G)
    if k < order > ALL_AT_ONCE:
        try:
            some = (order - k, order - 1)
            values, vectors = scipy.linalg.eigh(G, subset_by_index=some, check_finite=False)
        except np.linalg.LinAlgError:
            values, vectors = G[:0, 0], G[:, :0]
        if len(values) == k and np.abs(vectors.T @ vectors - np.eye(k)).max() <= CROOKED:
            return values, vectors
    values, vectors = eigenpairs(G)
    return values[order - k :], vectors[:, order - k :]


def whitening(G: HostArray, cut: float = EPS) -> HostArray:
    """T with Tᵀ G T = I over the numerical range of a symmetric positive semidefinite G.

    The diagonal is scaled to ones first, so that columns of very different length count alike.

    Parameters
    ----------
    G : numpy.ndarray of shape (k, k)
    cut : float, default machine epsilon
        Eigenvalues of the scaled matrix below k · cut times the largest are taken for zero.

    Returns
    -------
    numpy.ndarray of shape (k, r)
    """
    d = np.sqrt(np.maximum(np.diag(G), 0.0))
    scale = np.divide(1.0, d, out=np.zeros_like(d), where=d > 0)
    values, vectors = eigenpairs((G + G.T) / 2 * np.outer(scale, scale))
    keep = values > len(G) * cut * max(values[-1], 0.0) if len(G) else np.zeros(0, dtype=bool)
    whitened: HostArray = scale[:, None] * (vectors[:, keep] / np.sqrt(values[keep]))
    return whitened


def whitening_above_noise(
    G: HostArray, H: HostArray, cut: float, dependent: float = EPS, least: float = 0.0
) -> HostArray:
    """T with Tᵀ G T = I over the directions in which G is larger than the rounding of its factors.

    Parameters
    ----------
    G : numpy.ndarray of shape (k, k)
        WᵀSW for a block W.
    H : numpy.ndarray of shape (k, k)
        Wᵀ diag(S) W. If S almost annihilates a vector, its G is far below its H, whatever its length, and G
        is only rounding there.
    cut : float
        Directions with G below `cut` times the largest, in units of H, are left out.
    dependent : float, default machine epsilon
        The `cut` with which H is whitened: columns of W that differ by less differ only by rounding.
    least : float, default 0.0
        A lower limit for the largest value, in units of H. The rounding of a product with S is relative to
        the whole of S. If S annihilates a whole block, even the largest value is rounding.

    Returns
    -------
    numpy.ndarray of shape (k, r)
    """
    first = whitening(H, dependent)
    values, vectors = eigenpairs(first.T @ ((G + G.T) / 2) @ first)
    keep = values > cut * max(values[-1], least) if len(values) else np.zeros(0, dtype=bool)
    whitened: HostArray = first @ (vectors[:, keep] / np.sqrt(values[keep]))
    # Whiten again in the metric found, because the error of the first step grows with the condition of H.
    return whitened @ whitening(whitened.T @ G @ whitened)


def whitening_of_products(G: HostArray, H: HostArray, cut: float) -> HostArray:
    """T with Tᵀ G T = I for G = (XW)ᵀ(XW) from products, whose rounding is relative to ‖X‖‖W‖.

    G is then as accurate as XW in each direction, so small directions are found together with large ones.

    Parameters
    ----------
    G : numpy.ndarray of shape (k, k)
    H : numpy.ndarray of shape (k, k)
        Wᵀ diag(XᵀX) W, the squares of the lengths that have been rounded.
    cut : float
        Directions are left out if the square root of G is below `cut`, in units of the square root of H.

    Returns
    -------
    numpy.ndarray of shape (k, r)
    """
    T = whitening(G)
    # Null directions are long in this metric, and eigenvalues determine long directions well.
    values, vectors = np.linalg.eigh(T.T @ ((H + H.T) / 2) @ T)
    T = T @ vectors[:, values * cut**2 < 1]
    whitened: HostArray = T @ whitening(T.T @ G @ T)
    return whitened


def canonical_rotation(
    Gx: HostArray,
    C: HostArray,
    Gy: HostArray,
    k: int,
    noise: tuple[tuple[HostArray, float], tuple[HostArray, float]] | None = None,
) -> tuple[tuple[HostArray, HostArray], HostArray]:
    """Exact CCA of two spans, given their metrics and cross products.

    Parameters
    ----------
    Gx, C, Gy : numpy.ndarray
        WxᵀSxWx, WxᵀCWy and WyᵀSyWy for bases Wx, Wy.
    k : int
        The number of pairs to compute.
    noise : pair of (numpy.ndarray, float), optional
        Per span, the `H` and `cut` of `whitening_above_noise`.

    Returns
    -------
    (Tx, Ty), correlations
        Wx Tx and Wy Ty are canonical weights, of at most k pairs: fewer if a span has lower rank.
    """
    if noise is None:
        Ux, Uy = whitening(Gx), whitening(Gy)
    else:
        Ux, Uy = (whitening_above_noise(G, *level) for G, level in zip((Gx, Gy), noise, strict=True))
    P, rho, Qt = np.linalg.svd(Ux.T @ C @ Uy, full_matrices=False)
    return (Ux @ P[:, :k], Uy @ Qt[:k].T), np.clip(rho[:k], 0.0, 1.0)
