"""Inner products of rows, X̃X̃ᵀ: the small side of a matrix with fewer rows than columns.

For X̃ = P √D (X - 1oᵀ) F with any row o, where P takes out the directions Q of the means and of the confounds,

    X̃X̃ᵀ = P √D (X - 1oᵀ) F² (X - 1oᵀ)ᵀ √D P,    P = I - QQᵀ,  Q = √D [1/√Σw  B]    (1)

so sparse rows stay sparse. Every pair of blocks is met once. A matrix known by its products is multiplied with the unit
columns, some at a time.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from linspec.arrays import Array
from linspec.rows.moments import Moments

__all__ = ["row_gram"]

AT_ONCE = 64
"""Unit columns that are multiplied together."""


def row_gram(moments: Moments, i: int = 0) -> Array:
    """Form the inner products of the rows of one preprocessed matrix, in one pass if its rows are in memory.

    Parameters
    ----------
    moments : Moments
    i : int, default 0
        The number of the matrix.

    Returns
    -------
    array of shape (n, n)
        In float64, where thin blocks of the matrix are.
    """
    A, device = moments.operators[i], moments.operators[i].device.blocks
    n = int(A.shape[0])
    moments.fit(i)
    if A.resident:
        moments.passes.take()
        K, w = _of_blocks(moments, i, n), moments.data.w(A)
        moments.passes.columns += n
        Q = device.asarray(moments.pre.taken(n))
        if w is not None:
            root = device.xp.sqrt(w)
            K = K * root[:, None] * root[None, :]
        K = K - (K @ Q) @ Q.T  # (1)
        return K - Q @ (Q.T @ K)
    X = moments.operator(i)
    parts = [(start, min(start + AT_ONCE, n)) for start in range(0, n, AT_ONCE)]
    return device.concat([X.matmat(X.rmatmat(device.eye(n, b - a, a))) for a, b in parts])


def _of_blocks(moments: Moments, i: int, n: int) -> Array:
    """(X - 1oᵀ) F² (X - 1oᵀ)ᵀ, block by block."""
    A = moments.operators[i]
    fitted = moments.fitted[i]
    device = moments.operators[i].device.blocks
    K: Any = device.zeros((n, n))
    row = moments.mean(i) if moments.pre.center else None
    row = None if row is None else A.thin(row)
    D = None if fitted.factors is None else device.asarray(fitted.factors**2)
    cut: list[Any] = []
    start = 0
    for block in A.blocks():
        cut += [(start + a, start + b, block.cut(a, b)) for a, b in pairwise(block.edges(8 * A.shape[1]))]
        start += block.rows
    for at, (a, b, block) in enumerate(cut):
        moments.passes.look()
        right = block.about(row if block.subtracts else None)
        for c, d, left_block in cut[: at + 1]:
            left = right if c == a else left_block.about(row if left_block.subtracts else None)
            piece = left.inner(right, D)
            K[c:d, a:b] = piece
            K[a:b, c:d] = piece.T
    return K
