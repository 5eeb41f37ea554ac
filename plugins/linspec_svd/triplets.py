"""What the SVD solvers share: the operator that is decomposed, the other side's vectors, and the numerical rank.

Vectors of the other side. From right vectors V the left ones are A V / σ, and for small σ those are far from
orthonormal: rounding of size eps·σ₁ is divided by σ. So A V = Q R by Householder transformations and R = X s Yᵀ by
a small SVD: U = Q X is orthonormal to rounding whatever σ, V Y goes with it, and s comes from A itself and not from
its square (Chan 1982, doi:10.1145/355984.355990).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from linspec import LinearOperator, Run
from linspec.arrays import Array, Home, HostArray, to_host
from linspec.block_algebra import EPS, rank_cut, whitening

NULL = 8
"""Multiple of the rank cut that products with a vector of the numerical null space may reach."""


def decomposed(problem: Any, run: Run) -> LinearOperator:
    """A, or A with its column means taken out and never formed."""
    A: LinearOperator = problem.A
    return A.centered(run.moments("implicit").column_means()[0]) if problem.center else A


def share_below_rounding(A: LinearOperator) -> float:
    """The share of the largest singular value below which one of A is rounding of its entries."""
    n, p = A.shape
    return rank_cut((max(n, p), min(n, p)), A.dtype)


def squared_cuts(A: LinearOperator) -> tuple[float, float]:
    """Shares of the largest eigenvalue of AᵀA that are rounding: of squaring, and of the entries."""
    return min(A.shape) * EPS, share_below_rounding(A) ** 2


def left_vectors(A: LinearOperator, V: Array) -> tuple[Array, HostArray | None, Array]:
    """(U, S, V): orthonormal U with A V = U diag(S), V turned within its span; one sweep.

    For float32 data S is None: their products are rounded, and the singular values are better had of sums in float64.
    """
    U, s, Y = _other_side(A.matmat(V), A.home)
    return U, s if A.dtype == np.float64 else None, V @ A.home.blocks.place(Y)


def right_vectors(A: LinearOperator, U: Array) -> tuple[Array, HostArray, Array]:
    """(U, S, V): orthonormal V with Aᵀ U = V diag(S), U turned within its span; one sweep."""
    home = A.home.blocks
    V, s, Y = _other_side(A.rmatmat(A.home.place(U, A.dtype)), home)
    return U @ home.place(Y), s, V


def _other_side(product: Array, home: Home) -> tuple[Array, HostArray, HostArray]:
    """Orthonormal left vectors of a tall block, its singular values, and its right vectors on the host."""
    Q, R = home.xp.linalg.qr(product, mode="reduced")
    X, s, Yt = np.linalg.svd(to_host(R).astype(np.float64))
    return Q @ home.place(X, to_host(R).dtype), s, Yt.T


def vanish(A: LinearOperator, V: Array, largest: float) -> bool:
    """Whether A V is no more than rounding beside the largest singular value; one sweep."""
    norms = np.linalg.norm(to_host(A.matmat(V)).astype(np.float64), axis=0)
    return bool(np.all(norms <= NULL * share_below_rounding(A) * largest))


def orthonormal(Y: Array, home: Home) -> Array:
    """An orthonormal basis of the columns, over what is not rounding; twice, for the condition of the first."""
    for _ in range(2):
        Y = Y @ home.place(whitening(to_host(Y.T @ Y)))
    return Y
