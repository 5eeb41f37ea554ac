"""Small matrices on the host, and orthonormal bases of thin blocks; ranks are decided up to rounding."""

from __future__ import annotations

import numpy as np
import scipy.linalg

from linspec.algebra import EPS
from linspec.arrays import Array, Home, HostArray, namespace, to_host

__all__ = ["EPS", "inverse", "orthonormal"]

DEPENDENT = 1e-13
"""A column counts as dependent on others if less of its length is left."""


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
        size = Home.of(S).norm(S)
        return (S / size, np.array([[size]])) if size > 0 else (S[:, :0], np.zeros((0, 1)))
    Q, R = namespace(S).linalg.qr(S, mode="reduced")
    tau = to_host(R)
    length = np.linalg.norm(tau, axis=0)
    live = np.abs(np.diagonal(tau)) > DEPENDENT * length[: min(tau.shape)]
    if tau.shape[0] == tau.shape[1] and live.all():
        return Q, tau
    length = np.where(length > 0, length, 1.0)
    turn, R, order = scipy.linalg.qr(tau / length, mode="economic", pivoting=True)
    rank = int(np.sum(np.abs(np.diagonal(R)) > DEPENDENT * max(abs(R[0, 0]), DEPENDENT))) if R.size else 0
    pivoted = np.empty((rank, S.shape[1]))
    pivoted[:, order] = R[:rank]
    return Q @ Home.of(S).place(turn[:, :rank]), pivoted * length


def inverse(G: HostArray) -> HostArray:
    """Return the inverse of a symmetric positive matrix on its numerical range, with a unit diagonal in between.

    Parameters
    ----------
    G : numpy.ndarray of shape (k, k)

    Examples
    --------
    >>> import numpy as np
    >>> from linspec.linalg import inverse
    >>> inverse(np.diag([4.0, 0.0]))
    array([[0.25, 0.  ],
           [0.  , 0.  ]])
    """
    if len(G) == 1:
        return 1.0 / G if G[0, 0] > 0 else np.zeros((1, 1))
    d = np.sqrt(np.diagonal(G))
    d = np.where(d > 0, d, np.inf)
    values, vectors = np.linalg.eigh(G / d[:, None] / d)
    live = values > len(G) * EPS * values.max(initial=0.0)
    half = vectors[:, live] / np.sqrt(values[live]) / d[:, None]
    pseudoinverse: HostArray = half @ half.T
    return pseudoinverse
