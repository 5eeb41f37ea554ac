"""Two published randomized singular value decompositions, for comparison: dashSVD, and PCAone's windows.

Problem: the k leading singular triplets of A. Both take a sketch of l = k + `more` columns, and are written for a
matrix with at least as many rows as columns; of another one they decompose the transpose.

dashSVD. Method: Q = orth(AᵀΩ), then Q = orth(AᵀA Q − α Q), where the shift α grows to the mean of itself and the least
singular value of that block, which is at most half the l-th eigenvalue of AᵀA; at the end the decomposition of A Q.
Blocks are made orthonormal by the eigenvectors of their Gram matrix. Two products with A and Aᵀ a power, and two more.
Source: Feng, Yu, Xie & Tang 2024, ACM TOMS Algorithm 1043, doi:10.1145/3660629, and the authors'
program, with a given number of powers.

Windows. Method: rows in random order, cut into windows. An epoch reads all of them once: G_b = A_b Ω, H += A_bᵀ G_b,
and Ω becomes orth(H) after each half of a band of windows, with H from the last two halves. Bands have two windows in
the first epoch and twice as many in each that follows, until a band is everything. Then G = AΩ and H = AᵀG have one Ω,
and with G = QR the decomposition of R⁻ᵀHᵀ = QᵀA ends it without another product. Two products an epoch.
Source: Li, Meisner & Albrechtsen 2023, doi:10.1101/gr.277525.122. Details are those of the authors' program: columns of
Ω keep their signs, and the last half band of an epoch counts once more in a quarter of the first band of the next one.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.linalg

WINDOWS = 64
"""How many windows there are at most."""

Triplets = tuple[np.ndarray, np.ndarray, np.ndarray]
"""U, S and Vh."""


def dash_svd(A: Any, k: int, *, more: int, powers: int, rng: np.random.Generator) -> Triplets:
    """Decompose by power iterations with dynamic shifts."""
    if A.shape[0] < A.shape[1]:
        return _turned(dash_svd(A.T, k, more=more, powers=powers, rng=rng))
    Q, _, _ = _eig_svd(A.T @ rng.standard_normal((A.shape[0], k + more)))
    alpha = 0.0
    for _ in range(powers):
        Q, S, _ = _eig_svd(A.T @ (A @ Q) - alpha * Q)
        if alpha < S[-1]:
            alpha = (alpha + S[-1]) / 2
    U, S, V = _eig_svd(A @ Q)
    return U[:, :k], S[:k], (Q @ V[:, :k]).T


def window_svd(A: Any, k: int, *, more: int, epochs: int, rng: np.random.Generator) -> Triplets:
    """Decompose by power iterations on growing windows of rows."""
    if A.shape[0] < A.shape[1]:
        return _turned(window_svd(A.T, k, more=more, epochs=epochs, rng=rng))
    rows = rng.permutation(A.shape[0])
    count = windows(A.shape[0], epochs)
    blocks = [A[part] for part in np.array_split(rows, count)]
    Omega = rng.standard_normal((A.shape[1], k + more))
    H1, H2 = np.zeros_like(Omega), np.zeros_like(Omega)  # of the first and the second half of a band
    for epoch in range(epochs):
        band, G, place = min(2 ** (epoch + 1), count), [], 0
        whole = 2**epoch >= count
        again = 2 ** (epoch - 1) if epoch and not whole else 0
        if whole:
            H1[:], H2[:] = 0.0, 0.0
        for b, A_b in enumerate(blocks, 1):
            place += 1
            G.append(A_b @ Omega)
            half = H1 if place <= band // 2 else H2
            half += A_b.T @ G[-1]
            if b == again or (b >= band and place in (band // 2, band)):
                H = H1 + H2
                Omega = _next(H, Omega)
                (H1 if place == band else H2)[:] = 0.0
                place %= band
    Q, R = np.linalg.qr(np.vstack(G))
    U, S, Vh = np.linalg.svd(scipy.linalg.solve_triangular(R, H.T, trans="T"), full_matrices=False)
    left = np.empty((A.shape[0], k))
    left[rows] = Q @ U[:, :k]
    return left, S[:k], Vh[:k]


def windows(rows: int, epochs: int) -> int:
    """Number of windows: a power of two, so that the last epoch is one band, and a window has as many rows."""
    most = min(WINDOWS, 2 ** (epochs - 1), int(np.sqrt(rows)))
    return int(2 ** np.floor(np.log2(most)))


def _next(H: np.ndarray, Omega: np.ndarray) -> np.ndarray:
    """Orthonormal columns that span those of H, with the signs of those before."""
    Q = np.linalg.qr(H)[0]
    return Q * np.where(np.sum(Q * Omega, axis=0) < 0, -1.0, 1.0)


def _eig_svd(Y: np.ndarray) -> Triplets:
    """U, S and V of a tall block, by the eigenvectors of its Gram matrix."""
    values, V = np.linalg.eigh(Y.T @ Y)
    S, V = np.sqrt(values[::-1]), V[:, ::-1]
    return Y @ (V / S), S, V


def _turned(found: Triplets) -> Triplets:
    """Those of the transpose."""
    U, S, Vh = found
    return Vh.T, S, U.T
