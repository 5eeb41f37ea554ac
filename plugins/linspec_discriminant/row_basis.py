"""The norm of the inverse metric, from the data themselves.

Problem: rᵀM⁻¹r for the columns r of a thin block and M = XᵀX + γI, of any condition number.
Method: the rows of X are reduced by orthogonal transformations, X = QR, so that nothing is squared. With R = UΣVᵀ,

    rᵀM⁻¹r = ‖(Σ² + γ)^(-1/2) Vᵀr‖² + ‖r − VVᵀr‖² / γ,

without the second part at γ = 0, where M⁻¹ is the pseudo-inverse.
Source: Golub & Van Loan 2013, section 5.2; the reduction is `linspec.row_reduction`.
Where we differ: at γ = 0 columns are scaled to unit length first where they then have full rank.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from linspec import Moments, Run
from linspec.arrays import Array, Home, HostArray, reciprocal, to_host
from linspec.block_algebra import EPS, rank_cut
from linspec.cost import DENSE_RATE, FACTOR_RATE, SPARSE_RATE
from linspec.operators import LinearOperator
from linspec.row_reduction import reduce_rows
from linspec.whitener import Whitener, squared_cut

ALWAYS = 0.1
"""Seconds that the reduction may take in any case."""

SHARE = 0.1
"""Of the time that products have taken, what the reduction of wider data may take."""

MOST_ENTRIES = 2**25
"""Entries of a block of rows that the reduction works on, at most."""

SQUARED_LIMIT = 1e8
"""Condition number of a scaled Gram matrix above which nothing squared is trusted."""

NULL = 10
"""‖Xv‖ / ‖X‖‖v‖, in units of the rounding of the data, up to which v is null."""


@dataclass(frozen=True, eq=False)
class RowBasis:
    """Lengths in the norm of M⁻¹.

    Attributes
    ----------
    basis : array of shape (p, r)
        W with WᵀMW = I over the numerical range of X.
    rank : int
        The numerical rank of X, as the solver "direct" decides it.
    outside : array of shape (p, r), or None
        An orthonormal basis of the span of W, where M has eigenvalues outside it.
    rows : array of shape (min(n, p), p)
        R, whose inner products of columns are those of X.
    ridge : float
    home : Home
    """

    basis: Array
    rank: int
    outside: Array | None
    rows: Array
    ridge: float
    home: Home

    def product(self, W: Array) -> Array:
        """XᵀX W by the reduced rows: nothing squared is held."""
        return self.rows.T @ (self.rows @ W)

    def squares(self, R: Array) -> HostArray:
        """Squared lengths of the columns of a block."""
        xp = self.home.xp
        T = self.basis.T @ R
        found = xp.sum(T * T, axis=0)
        if self.outside is not None:
            rest = R - self.outside @ (self.outside.T @ R)
            found = found + xp.sum(rest * rest, axis=0) / self.ridge
        return to_host(found)


def row_basis(problem: Any, ridge: float, run: Run, moments: Moments) -> RowBasis | None:
    """The basis for the data of a problem; None where it would cost too much, or rows cannot be read.

    Parameters
    ----------
    problem : Discriminant or CCA
    ridge : float
        Of X.
    run : Run
        Whose products and passes decide what is too much.
    moments : Moments
        Nothing is too much where they hold a Gram matrix that has squared too large a condition.
    """
    X, home = problem.X, problem.X.home.blocks
    n, p = X.shape
    if not X.readable or not run.affords(1.0):
        return None
    if min(n, max(4 * p, 4096)) * p > MOST_ENTRIES:
        return None
    rate = SPARSE_RATE if X.nnz < n * p else DENSE_RATE
    reducing = 4.0 * n * p * min(n, p) / FACTOR_RATE
    if reducing > max(ALWAYS, SHARE * run.flops / rate) and not _squared_away(X, ridge, moments):
        return None
    (R,) = reduce_rows({"X": X}, center=problem.center)
    return basis_of(R, ridge, rank_cut((n, p), X.dtype), home, float(np.finfo(X.dtype).eps))


def _squared_away(X: LinearOperator, ridge: float, moments: Moments) -> bool:
    """Whether a Gram matrix that is held as a dense array is too ill-conditioned to be trusted."""
    if moments.form != "dense" or X.shape[1] > X.shape[0]:
        return False
    factor = Whitener(moments.dense()[0], ridge, squared_cut(X), moments.home)
    return factor.rank < X.shape[1] or factor.condition > SQUARED_LIMIT


def basis_of(R: Array, ridge: float, cut: float, home: Home, unit: float = EPS) -> RowBasis:
    """The basis from reduced rows of data that are rounded to `unit`.

    Singular values below a share `cut` of the largest are outside the rank.
    """
    xp = home.xp
    scale = reciprocal(xp.sqrt(xp.sum(R * R, axis=0)))
    s, Vt = xp.linalg.svd(R * scale[None, :], full_matrices=False)[1:]
    sizes = to_host(s)
    rank = int((sizes > cut * sizes.max(initial=0.0)).sum())
    full = rank == R.shape[1]
    if not full or ridge > 0:
        scale = xp.ones_like(scale)
        s, Vt = xp.linalg.svd(R, full_matrices=False)[1:]
        sizes = to_host(s)
    keep = int((sizes > NULL * unit * sizes.max(initial=0.0)).sum()) if not full or ridge > 0 else rank
    V = Vt.T[:, :keep]
    W = scale[:, None] * V / home.place((sizes[:keep] ** 2 + ridge) ** 0.5)[None, :]
    outside = V if ridge > 0 and keep < R.shape[1] else None
    return RowBasis(W, min(rank, keep), outside, R, ridge, home)
