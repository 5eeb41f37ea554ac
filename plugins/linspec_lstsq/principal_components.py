"""The leading singular triplets of A by a randomized method, in the form that regression needs.

Problem: for min ‖A x − B‖ only the products of the leading left singular vectors U with B and with coefficients are
needed; the n x k matrix U need not exist.
Method: randomized SVD with one power iteration (Halko, Martinsson & Tropp 2011, doi:10.1137/090771806, Algorithms
4.4 and 5.1). With W = orth(AᵀAΩ) and Q = orth(A W): QᵀA = U₀ d Vᵀ and U = QU₀. Everything follows from
G = WᵀAᵀAW and AᵀAW: for G = R⁻ᵀR⁻¹, Q = A W R. So Z = W R U₀ has A Z = U exactly, Aᵀ U = V d exactly, and
Uᵀ B = Zᵀ AᵀB. This takes two sweeps in total, including AᵀB.
Where we differ: the power iteration is made on the p side, where a sweep is one product with AᵀA. Triplets below
rounding are left out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from linspec import Moments, Run
from linspec.algebra import EPS, orthonormal_columns
from linspec.arrays import Array, HostArray, to_host

OVERSAMPLING = 10
"""Number of columns of the random block beyond the requested components."""


@dataclass(frozen=True)
class PrincipalComponents:
    """Leading singular triplets of A, and AᵀB.

    Attributes
    ----------
    d : numpy.ndarray of shape (k,)
        Singular values, decreasing.
    V : array of shape (p, k)
        Right singular vectors.
    Z : array of shape (p, k)
        Coefficients of the left singular vectors: A Z = U.
    Q, AtAQ : array of shape (p, l)
        Orthonormal approximate eigenvectors of AᵀA from the same block, and the products of these vectors with AᵀA.
    theta : numpy.ndarray of shape (l,)
        Rayleigh quotients of the columns of Q, decreasing.
    AtB : array of shape (p, m), or None
    """

    d: HostArray
    V: Array
    Z: Array
    Q: Array
    AtAQ: Array
    theta: HostArray
    AtB: Array


SWEEPS = 2
"""Number of sweeps over the data that `principal_components` takes."""


def principal_components(moments: Moments, rank: int, test_matrix: Any, run: Run) -> PrincipalComponents:
    """Compute at most `rank` components, fewer if A has lower numerical rank.

    Parameters
    ----------
    moments : Moments
        Moments of A and B, or of A alone: then AᵀB is None.
    rank : int
    test_matrix : TestMatrix
    run : Run
    """
    home, p = moments.home, moments.shape[1]
    Omega = home.place(test_matrix.draw(p, min(rank + OVERSAMPLING, p), run.rng))
    alone = moments.Y is None
    products = moments.products(Omega, cross=not alone)
    AtAOmega, AtB = products[0], products.cross
    W = orthonormal_columns(AtAOmega, home)
    AtAW = moments.gram(W)
    G = to_host(W.T @ AtAW)
    theta, C = np.linalg.eigh((G + G.T) / 2)
    keep = theta > len(theta) * EPS * max(theta[-1], 0.0) if len(theta) else np.zeros(0, dtype=bool)
    theta, C = theta[keep][::-1], C[:, keep][:, ::-1]
    R = C / np.sqrt(theta)
    H = AtAW @ home.place(R)  # Aᵀ Q for the orthonormal Q = A W R
    squares, U0 = np.linalg.eigh(to_host(H.T @ H))
    squares, U0 = squares[::-1][:rank], U0[:, ::-1][:, :rank]
    d = np.sqrt(np.maximum(squares, 0.0))
    d, U0 = d[d > 0], U0[:, d > 0]
    turn = home.place(C[:, :rank])
    return PrincipalComponents(
        d=d,
        V=H @ home.place(U0 / d),
        Z=W @ home.place(R @ U0),
        Q=W @ turn,
        AtAQ=AtAW @ turn,
        theta=theta[:rank],
        AtB=AtB,
    )
