"""Orthogonal factorisations in extended precision, for answers that float64 cannot judge.

Problem: to decide whether an answer is right to 1e-6 at a condition number of 1e14, the truth must have more
digits, and a larger range, than float64 has.
Method: NumPy's ``longdouble`` (80 bits on x86: eps 1e-19, exponents to 4932). NumPy has no factorisations for
it. So this module has the singular value decomposition by Householder QR with column pivoting and one-sided
Jacobi rotations on the transposed triangle. This order gives small singular values to high relative accuracy
even if rows or columns of the matrix are badly scaled (Drmač & Veselić 2008). The pairs of a round of
rotations are disjoint and rotated at once.
Source: Demmel & Veselić 1992, doi:10.1137/0613074; Drmač & Veselić 2008, doi:10.1137/050639193.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

__all__ = ["EPS", "SVD", "available", "column_norms", "extended", "svd"]

Extended: TypeAlias = np.ndarray[Any, np.dtype[Any]]
"""An array of ``numpy.longdouble``."""

SVD: TypeAlias = tuple[Extended, Extended, Extended]

EPS = float(np.finfo(np.longdouble).eps)
"""The unit roundoff of the extended precision."""

SWEEPS = 40
"""The largest number of rounds over all pairs of columns; about ten are needed."""


def available() -> bool:
    """Whether this machine's ``longdouble`` is more precise than float64."""
    return EPS < 1e-18


def extended(x: Any) -> Extended:
    """Convert numbers to extended precision."""
    return np.asarray(x, dtype=np.longdouble)


def column_norms(A: Extended) -> Extended:
    """Return Euclidean lengths of columns; squares of float64 numbers are in the range of extended precision."""
    norms: Extended = np.sqrt(np.sum(A * A, axis=0))
    return norms


def svd(A: Extended) -> SVD:
    """Compute the thin singular value decomposition A = U diag(s) Vᵀ without zero singular values.

    Parameters
    ----------
    A : array of shape (n, p)

    Returns
    -------
    U, s, V : arrays of shape (n, r), (r,), (p, r)
        In decreasing order; r counts the nonzero singular values. The last of them may be rounding.
    """
    A = extended(A)
    if A.shape[0] < A.shape[1]:
        V, s, U = svd(A.T)
        return U, s, V
    reflectors, R, order = _pivoted_qr(A)
    J, s, W = _jacobi(R.T)
    V = np.zeros_like(W)
    V[order] = W
    U = np.zeros((A.shape[0], len(s)), dtype=np.longdouble)
    U[: J.shape[0]] = J
    for column, v in reversed(list(enumerate(reflectors))):
        U[column:] -= np.outer(v, 2 * (v @ U[column:]))
    return U, s, V


def _pivoted_qr(A: Extended) -> tuple[list[Extended], Extended, Any]:
    """Factorise A; return unit Householder vectors, the triangle, and the order of the columns."""
    R = A.copy()
    p = R.shape[1]
    order = np.arange(p)
    reflectors: list[Extended] = []
    for j in range(p):
        best = j + int(np.argmax(np.sum(R[j:, j:] * R[j:, j:], axis=0)))
        if best != j:
            R[:, [j, best]] = R[:, [best, j]]
            order[[j, best]] = order[[best, j]]
        v = R[j:, j].copy()
        length = np.sqrt(np.sum(v * v))
        if length > 0:
            v[0] += length if v[0] >= 0 else -length
            v /= np.sqrt(np.sum(v * v))
            R[j:, j:] -= np.outer(v, 2 * (v @ R[j:, j:]))
        reflectors.append(v)
    return reflectors, np.triu(R[:p]), order


def _jacobi(L: Extended) -> SVD:
    """Compute J, s, W with L J = W diag(s) by rotating pairs of columns until all are orthogonal."""
    B = L.copy()
    p = B.shape[1]
    J = np.eye(p, dtype=np.longdouble)
    rounds = _rounds(p)
    for _ in range(SWEEPS):
        worst = 0.0
        for left, right in rounds:
            worst = max(worst, _rotate(B, J, left, right))
        if worst <= 4 * EPS * p:
            break
    s = column_norms(B)
    turn = np.argsort(-s, kind="stable")
    turn = turn[s[turn] > 0]
    return J[:, turn], s[turn], B[:, turn] / s[turn]


def _rotate(B: Extended, J: Extended, left: Any, right: Any) -> float:
    """Make disjoint pairs of columns orthogonal, and return the largest cosine found before."""
    P, Q = B[:, left], B[:, right]
    a, b, c = np.sum(P * P, axis=0), np.sum(Q * Q, axis=0), np.sum(P * Q, axis=0)
    size = np.sqrt(a) * np.sqrt(b)
    turning = np.abs(c) > EPS * size
    if not turning.any():
        return 0.0
    worst = float(np.max(np.abs(c[turning]) / size[turning]))
    safe = np.where(turning, c, 1)
    zeta = np.where(turning, (b - a) / (2 * safe), 0)
    t = np.where(zeta >= 0, 1, -1) / (np.abs(zeta) + np.sqrt(1 + zeta * zeta))
    t = np.where(turning, t, 0)
    cos = 1 / np.sqrt(1 + t * t)
    sin = cos * t
    B[:, left], B[:, right] = P * cos - Q * sin, P * sin + Q * cos
    P, Q = J[:, left], J[:, right]
    J[:, left], J[:, right] = P * cos - Q * sin, P * sin + Q * cos
    return worst


def _rounds(p: int) -> list[tuple[Any, Any]]:
    """Return every pair of columns once, in rounds of disjoint pairs, as in a round-robin tournament."""
    players = [*range(p), *([-1] * (p % 2))]
    half = len(players) // 2
    rounds = []
    for _ in range(max(len(players) - 1, 0)):
        pairs = [
            (min(i, j), max(i, j))
            for i, j in zip(players[:half], reversed(players[half:]), strict=True)
            if min(i, j) >= 0
        ]
        if pairs:
            left, right = (np.array(side) for side in zip(*pairs, strict=True))
            rounds.append((left, right))
        players = [players[0], players[-1], *players[1:-1]]
    return rounds
