"""Small matrices on the host, and orthonormal bases of thin blocks; ranks are decided up to rounding."""

from __future__ import annotations

import numpy as np
import scipy.linalg

from linspec.algebra import EPS
from linspec.arrays import Array, Home, HostArray, namespace, to_host

__all__ = ["EPS", "inverse", "inverse_triangle", "lengths_of", "orthonormal", "tall_svd"]

ORDINARY = 1e70
"""Lengths of columns between this and its reciprocal have squares without over- and underflow."""

DEPENDENT = 1e-13
"""A column counts as dependent on others if less of its length is left."""


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
    lengths: HostArray = np.sqrt(np.add.reduce(X * X, axis=0))
    return lengths


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
    turn, R, order = scipy.linalg.qr(tau / length, mode="economic", pivoting=True)
    rank = int((np.abs(R.diagonal()) > DEPENDENT * max(abs(R[0, 0]), DEPENDENT)).sum()) if R.size else 0
    pivoted = np.empty((rank, S.shape[1]))
    pivoted[:, order] = R[:rank]
    return Q @ Home.of(S).place(turn[:, :rank]), pivoted * length


def _by_cholesky(S: Array) -> tuple[Array, HostArray] | None:
    """Q and τ by Cholesky factors of SᵀS, made once or twice; None if S is too ill-conditioned for that.

    Yamamoto, Nakatsukasa, Yanagisawa & Fukaya 2015, ETNA 44, 306-326: products in place of reflections.
    """
    G, place = to_host(S.T @ S), Home.of(S).place
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
    Q = S @ place(np.linalg.inv(R))
    if least > 0.5:
        return Q, R
    again = np.linalg.cholesky(to_host(Q.T @ Q)).T
    return Q @ place(np.linalg.inv(again)), again @ R


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
        return np.divide(1.0, G, out=np.zeros_like(G), where=G > 0)
    d = np.sqrt(np.maximum(np.diagonal(G, axis1=-2, axis2=-1), 0.0))
    d = np.where(d > 0, d, np.inf)[..., None]
    values, vectors = np.linalg.eigh(G / d / d.swapaxes(-1, -2))
    live = values > G.shape[-1] * EPS * values.max(axis=-1, initial=0.0, keepdims=True)
    half = vectors / np.sqrt(np.where(live, values, np.inf))[..., None, :] / d
    pseudoinverse: HostArray = half @ half.swapaxes(-1, -2)
    return pseudoinverse


def inverse_triangle(R: HostArray, unit: float = EPS) -> HostArray:
    """Return T with (R T)ᵀ(R T) = I, on the range of R that is above its rounding after squaring.

    Parameters
    ----------
    R : numpy.ndarray of shape (r, k)
        Its columns are scaled to length 1 first.
    unit : float, default that of float64
        The rounding of squares.

    Examples
    --------
    >>> import numpy as np
    >>> from linspec.linalg import inverse_triangle
    >>> inverse_triangle(np.array([[2.0]]))
    array([[0.5]])
    """
    lengths = lengths_of(R)
    scale = np.divide(1.0, lengths, out=np.zeros_like(lengths), where=lengths > 0)
    _, s, Wt = np.linalg.svd(R * scale, full_matrices=False)
    keep = s**2 > len(scale) * unit * s.max(initial=0.0) ** 2
    inverse: HostArray = scale[:, None] * (Wt[keep].T / s[keep])
    return inverse


def tall_svd(B: Array) -> tuple[Array, HostArray, HostArray]:
    """Return (U, s, Y) with B Y = U diag(s) and orthonormal U and Y, of a block with few columns.

    B = QR by orthogonalisation, and R = X s Yᵀ: U = QX is orthonormal to rounding for any s (Chan 1982,
    doi:10.1145/355984.355990).

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
    Q, R = namespace(B).linalg.qr(B, mode="reduced")
    X, s, Yt = np.linalg.svd(to_host(R), full_matrices=False)
    return Q @ Home.of(B).place(X), s, Yt.T
