"""Host algebra of matrices as wide as a block: whitening, and exact canonical pairs within two spans.

All of it is NumPy float64. What is larger than a block stays with the data.
"""

from __future__ import annotations

import numpy as np

from linspec.arrays import HostArray

EPS = float(np.finfo(np.float64).eps)


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
    values, vectors = np.linalg.eigh((G + G.T) / 2 * np.outer(scale, scale))
    keep = values > len(G) * cut * max(values[-1], 0.0) if len(G) else np.zeros(0, dtype=bool)
    whitened: HostArray = scale[:, None] * (vectors[:, keep] / np.sqrt(values[keep]))
    return whitened


def canonical_rotation(
    Gx: HostArray, C: HostArray, Gy: HostArray, k: int
) -> tuple[tuple[HostArray, HostArray], HostArray]:
    """Exact CCA of two spans, given their metrics and cross products.

    Parameters
    ----------
    Gx, C, Gy : numpy.ndarray
        WxᵀSxWx, WxᵀCWy and WyᵀSyWy for bases Wx, Wy.
    k : int
        Pairs wanted.

    Returns
    -------
    (Tx, Ty), correlations
        Wx Tx and Wy Ty are canonical; at most k pairs, fewer when a span has lower rank.
    """
    Ux, Uy = whitening(Gx), whitening(Gy)
    P, rho, Qt = np.linalg.svd(Ux.T @ C @ Uy, full_matrices=False)
    return (Ux @ P[:, :k], Uy @ Qt[:k].T), np.clip(rho[:k], 0.0, 1.0)
