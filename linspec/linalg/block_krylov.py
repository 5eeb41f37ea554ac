"""Block Krylov iteration for the leading eigenpairs of a symmetric operator S, with thick restarts.

Problem: the k largest eigenvalues of S = AᵀA, known by products with thin blocks, from few products.
Papers: Golub & Underwood 1977 (Mathematical Software III, 361-377) for the block Lanczos method; Musco & Musco 2015
(arXiv:1504.05477) for its few products from a random block; Wu & Simon 2000 (doi:10.1137/S0895479898334605) for thick
restarts. With an orthonormal basis V, its newest block Q, and T = VᵀSV:

    R = (I - VVᵀ) S Q                     (1)
    Q' β = R                              (2)
    T ← [T  .; β on Q  .]                 (3)
    T y = θ y                             (4)
    ‖S Vy - θ Vy‖ = ‖β y_Q‖               (5)

where y_Q is the part of y in the newest block that was multiplied. A restart keeps the leading Ritz vectors Vy and Q',
whose products with them are β y_Q.
Where we differ: R is orthogonalised twice, against the whole basis (so there are no copies of converged pairs), and T
is computed as VᵀSQ, not by recurrence. Where the space is exhausted a random block orthogonal to it goes on. A value
that occurs more often than a block has columns may be found that often only, as the theory says.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from linspec.arrays import Array, Home, HostArray, to_host
from linspec.linalg.small import EPS, orthonormal

__all__ = ["RitzPairs", "block_krylov"]

FEWEST_BLOCKS = 6
"""Blocks that a basis has room for, at least: with fewer, restarts cost products."""


class RitzPairs(NamedTuple):
    """Approximate eigenpairs, largest first.

    Attributes
    ----------
    values : numpy.ndarray of shape (k,)
    vectors : callable
        Returns the array of shape (p, k); formed only when it is asked for.
    residuals : numpy.ndarray of shape (k,)
        ‖S v - θ v‖.
    beyond : float
        The next Ritz value, or 0.
    exhausted : bool
        Whether the space is invariant: all eigenvectors that the start has a part of are in it.
    """

    values: HostArray
    vectors: Callable[[], Array]
    residuals: HostArray
    beyond: float
    exhausted: bool


def block_krylov(
    product: Callable[[Array], Array],
    start: Array,
    k: int,
    rng: np.random.Generator,
    *,
    room: int | None = None,
) -> Iterator[RitzPairs]:
    """Yield Ritz pairs after every product.

    Parameters
    ----------
    product : callable
        V -> S V for V of shape (p, b), in one pass.
    start : array of shape (p, b)
        The first block: random, or with at least some random columns.
    k : int
        Pairs that are asked for.
    rng : numpy.random.Generator
        For blocks that go on where a space is exhausted.
    room : int, optional
        Columns that the basis may have; by default the larger of 2k and k + 6b.

    Examples
    --------
    >>> import numpy as np
    >>> from linspec.linalg import block_krylov
    >>> S, rng = np.diag([9.0, 4.0, 1.0, 0.0]), np.random.default_rng(0)
    >>> *_, last = block_krylov(lambda V: S @ V, rng.standard_normal((4, 2)), 2, rng)
    >>> last.values.round(12).tolist(), last.exhausted
    ([9.0, 4.0], True)
    """
    place, p = Home.of(start).place, start.shape[0]
    Q, _ = orthonormal(start)
    b = max(Q.shape[1], 1)
    room = min(p, room or max(2 * k, k + FEWEST_BLOCKS * b))
    V, T = Q, np.zeros((0, 0))
    while True:
        SQ = product(Q)
        column = to_host(V.T @ SQ)
        T = _bordered(T, column)
        R = SQ - V @ place(column)  # (1)
        R = R - V @ (V.T @ R)
        new, beta = _independent(
            R, EPS * max(float(np.abs(T).max(initial=0.0)), float(np.abs(column).max(initial=0.0)))
        )
        theta, Y = _leading(T)  # (4)
        newest = Y[len(T) - Q.shape[1] :]
        residuals = np.linalg.norm(beta @ newest, axis=0)  # (5)
        exhausted = new.shape[1] == 0
        yield _pairs(V, theta, Y, residuals, k, exhausted=exhausted)
        if V.shape[1] >= p:
            return
        if exhausted:
            new = _outside(V, b, rng)
            beta = np.zeros((new.shape[1], Q.shape[1]))
            if new.shape[1] == 0:
                return
        if V.shape[1] + new.shape[1] > room:
            kept = min(len(theta), max(k + b, room - 2 * b))
            V, T = V @ place(Y[:, :kept]), np.diag(theta[:kept])
            beta = beta @ newest[:, :kept]
        else:
            beta = np.hstack([np.zeros((len(beta), len(T) - beta.shape[1])), beta])
        T = np.vstack([T, beta])  # (3); the columns of the new block follow with its product
        Q = new
        V = Home.of(V).concat([V, Q])


def _bordered(T: HostArray, column: HostArray) -> HostArray:
    """T with the columns VᵀSQ of the newest block, symmetric."""
    full = np.hstack([T if T.size else np.zeros((len(column), 0)), column])
    old = full.shape[0] - column.shape[1]
    full[:old, old:] = full[old:, :old].T if old else full[:old, old:]
    full[old:, old:] = (full[old:, old:] + full[old:, old:].T) / 2
    return full


def _leading(T: HostArray) -> tuple[HostArray, HostArray]:
    theta, Y = np.linalg.eigh(T)
    return theta[::-1], Y[:, ::-1]


def _independent(R: Array, rounding: float) -> tuple[Array, HostArray]:
    """Formula (2), without directions that are rounding."""
    new, beta = orthonormal(R)
    left, sizes, Vt = np.linalg.svd(beta, full_matrices=False)
    live = sizes > 8 * np.sqrt(R.shape[0]) * rounding
    if live.all():
        return new, beta
    return new @ Home.of(R).place(left[:, live]), sizes[live, None] * Vt[live]


def _outside(V: Array, b: int, rng: np.random.Generator) -> Array:
    """A random block that is orthogonal to V; empty if V is the whole space."""
    p, m = V.shape
    Z = Home.of(V).place(rng.standard_normal((p, min(b, p - m))))
    for _ in range(2):
        Z = Z - V @ (V.T @ Z)
        Z, _ = orthonormal(Z)
    return Z


def _pairs(
    V: Array, theta: HostArray, Y: HostArray, residuals: HostArray, k: int, *, exhausted: bool
) -> RitzPairs:
    place, count = Home.of(V).place, min(k, len(theta))
    beyond = float(theta[count]) if len(theta) > count else 0.0
    return RitzPairs(theta[:count], lambda: V @ place(Y[:, :count]), residuals[:count], beyond, exhausted)
