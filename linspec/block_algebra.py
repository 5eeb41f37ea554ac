"""Host algebra of matrices as wide as a block: whitening, and exact canonical pairs within two spans.

All of it is NumPy float64. What is larger than a block stays with the data.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import scipy.linalg

from linspec.arrays import HostArray

EPS = float(np.finfo(np.float64).eps)


def ratio(a: float, b: float) -> float:
    """a / b as the laws take it: 0 where a is, infinity where b alone is."""
    a, b = float(a), float(b)
    if a == 0:
        return 0.0
    return a / b if b > 0 else math.inf


def rank_cut(shape: tuple[int, int], dtype: Any) -> float:
    """Share of the largest singular value below which one of an n x p matrix with unit columns is rounding.

    Rounding every entry perturbs the singular values by about eps (√n + √p), beside a largest one of √n at
    least; a factor of √p is for what the columns add up to in a decomposition.
    """
    n, p = shape
    eps = float(np.finfo(dtype).eps)
    return float(8 * eps * (1 + np.sqrt(p)) * (1 + np.sqrt(p / n)))


def metric_rounding(columns: int, dtype: Any) -> float:
    """The relative rounding of VᵀSV: sums are float64, float32 data round the vectors they multiply."""
    eps = float(np.finfo(dtype).eps)
    return 10 * eps if np.dtype(dtype) == np.float32 else columns * eps


def eigenpairs(G: HostArray) -> tuple[HostArray, HostArray]:
    """Eigenvalues, increasing, and orthonormal eigenvectors of a symmetric matrix.

    By divide and conquer; where LAPACK's gives up on a finite matrix, which it may where many couplings are no more
    than rounding, by QR iteration, which is slower.

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
    """T with Tᵀ G T = I over the directions in which G is more than the rounding of what it was made of.

    Parameters
    ----------
    G : numpy.ndarray of shape (k, k)
        WᵀSW for a block W.
    H : numpy.ndarray of shape (k, k)
        Wᵀ diag(S) W. A vector that S all but annihilates has a G far below its H, however it is scaled: what G
        says of it then is rounding.
    cut : float
        Directions with G below `cut` times the largest, in units of H, are left out.
    dependent : float, default machine epsilon
        Share below which the columns of W differ by rounding: the `cut` with which H is whitened.
    least : float, default 0.0
        What the largest is taken for at least, in units of H. The rounding of a product with S is a share of the whole
        S: of a block that S annihilates altogether, what is largest is rounding too.

    Returns
    -------
    numpy.ndarray of shape (k, r)
    """
    first = whitening(H, dependent)
    values, vectors = eigenpairs(first.T @ ((G + G.T) / 2) @ first)
    keep = values > cut * max(values[-1], least) if len(values) else np.zeros(0, dtype=bool)
    whitened: HostArray = first @ (vectors[:, keep] / np.sqrt(values[keep]))
    # Once more in the metric found: the first step is exact only to the condition of H.
    return whitened @ whitening(whitened.T @ G @ whitened)


def whitening_of_products(G: HostArray, H: HostArray, cut: float) -> HostArray:
    """T with Tᵀ G T = I where G = (XW)ᵀ(XW) comes from products, which are rounded to a share of ‖X‖‖W‖.

    G is then as exact, direction by direction, as XW is: small directions are found beside large ones.

    Parameters
    ----------
    G : numpy.ndarray of shape (k, k)
    H : numpy.ndarray of shape (k, k)
        Wᵀ diag(XᵀX) W, the squares of the lengths that have been rounded.
    cut : float
        Directions with a root of G below `cut`, in units of that of H, are left out.

    Returns
    -------
    numpy.ndarray of shape (k, r)
    """
    T = whitening(G)
    # The long ones in this metric are the null ones: they are what eigenvalues tell well.
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
        Pairs wanted.
    noise : pair of (numpy.ndarray, float), optional
        Per span, the `H` and `cut` of `whitening_above_noise`.

    Returns
    -------
    (Tx, Ty), correlations
        Wx Tx and Wy Ty are canonical; at most k pairs, fewer when a span has lower rank.
    """
    if noise is None:
        Ux, Uy = whitening(Gx), whitening(Gy)
    else:
        Ux, Uy = (whitening_above_noise(G, *level) for G, level in zip((Gx, Gy), noise, strict=True))
    P, rho, Qt = np.linalg.svd(Ux.T @ C @ Uy, full_matrices=False)
    return (Ux @ P[:, :k], Uy @ Qt[:k].T), np.clip(rho[:k], 0.0, 1.0)
