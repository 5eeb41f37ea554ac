"""Inverses of positive definite matrices of least squares, with a check of their condition.

Problem: (G + rI)⁻¹ for a Gram matrix G, without the digits that squaring has lost.
Method: a Cholesky factor of G + rI scaled to a unit diagonal, and one refinement (Golub & Van Loan 2013, section 5.3).
Where we differ: a Gram matrix larger than a block stays on the device of the data, where it is inverted: the array API
has no triangular solves.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.linalg import lapack

from linspec.arrays import Array, Home, HostArray, from_host, namespace, reciprocal, to_host

SQUARED_LIMIT = 1e10
"""Above this condition number of the scaled Gram matrix, orthogonal transformations are used instead."""

BLOCK_WIDTH = 512
"""Up to this order, matrices of a device are factorised on the host."""


Apply = Callable[[Array], Array]


def factorised(G: Array, ridge: float, *, spare: bool = False) -> Apply | None:
    """A function that applies (G + rI)⁻¹ with one refinement, or None if G is too ill-conditioned.

    Parameters
    ----------
    G : array of shape (p, p)
        Symmetric and positive semidefinite, float64.
    ridge : float
    spare : bool, default False
        Whether G may be overwritten.
    """
    home = Home.of(G)
    if home.on_host or G.shape[0] <= BLOCK_WIDTH:
        host = _by_cholesky(to_host(G), ridge, spare=spare and home.on_host)
        return None if host is None else lambda rhs: from_host(host(to_host(rhs)), like=rhs)
    return _by_inverse(G, ridge, home)


def _by_cholesky(G: HostArray, ridge: float, *, spare: bool) -> Apply | None:
    """`factorised` on the host, by a Cholesky factor of G + rI scaled to a unit diagonal."""
    S = G if spare else G.copy()
    np.fill_diagonal(S, S.diagonal() + ridge)
    d = np.sqrt(np.maximum(S.diagonal(), 0.0))
    if not (d > 0).all():
        return None
    S /= d[:, None]
    S /= d[None, :]
    norm = float(np.abs(S).sum(axis=0).max())
    factor, failed = lapack.dpotrf(S, lower=1, clean=0)
    if failed or lapack.dpocon(factor, norm, uplo="L")[0] < 1 / SQUARED_LIMIT:
        return None

    def apply(rhs: HostArray) -> HostArray:
        rhs = rhs / d[:, None]
        x = lapack.dpotrs(factor, rhs, lower=1)[0]
        x += lapack.dpotrs(factor, rhs - S @ x, lower=1)[0]  # one refinement
        found: HostArray = x / d[:, None]
        return found

    return apply


def _by_inverse(G: Array, ridge: float, home: Home) -> Apply | None:
    """`factorised` on a device, by the inverse of the scaled G + rI, whose norm gives the condition number."""
    xp = namespace(G)
    d = xp.sqrt(xp.linalg.diagonal(G) + ridge)
    inverse_d = reciprocal(d)
    S = (G + home.eye(G.shape[0]) * ridge) * inverse_d[:, None] * inverse_d[None, :]
    try:
        inverse = xp.linalg.inv(S)
    except (np.linalg.LinAlgError, RuntimeError):  # some libraries raise, others return infinities
        return None
    norms = [float(to_host(xp.max(xp.sum(xp.abs(M), axis=0)))) for M in (S, inverse)]
    if not 0 < norms[0] * norms[1] < SQUARED_LIMIT:
        return None

    def apply(rhs: Array) -> Array:
        rhs = rhs * inverse_d[:, None]
        x = inverse @ rhs
        return (x + inverse @ (rhs - S @ x)) * inverse_d[:, None]

    return apply
