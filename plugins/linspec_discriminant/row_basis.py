"""The norm of the inverse metric, from the data themselves.

Problem: rᵀM⁻¹r for the columns r of a thin block and M = XᵀX + γI, of any condition number.
Method: the rows of X are reduced by orthogonal transformations, X = QR, so that nothing is squared. With R = UΣVᵀ,

    rᵀM⁻¹r = ‖(Σ² + γ)^(-1/2) Vᵀr‖² + ‖r − VVᵀr‖² / γ,

without the second part at γ = 0, where M⁻¹ is the pseudo-inverse.
Source: Golub & Van Loan 2013, section 5.2; the reduction is `linspec.row_reduction`.
Where we differ: at γ = 0 columns are scaled to unit length first where they then have full rank. Rows that cannot be
read are had by a product with the identity, where X has few columns. Wider data are reduced only where their Gram
matrix says that squares are not enough.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from linspec import Moments, Run, Status
from linspec.arrays import Array, Home, HostArray, reciprocal, to_host
from linspec.block_algebra import EPS, rank_cut
from linspec.cost import DENSE_RATE, FACTOR_RATE, SPARSE_RATE
from linspec.operators import DenseOperator, LinearOperator
from linspec.row_reduction import LEAST_LENGTH, reduce_rows
from linspec.whitener import Whitener, squared_cut

ALWAYS, SQUARED = 0.1, 1.0
"""Seconds that the reduction may take in any case, and where squares have lost what decides."""

TOO_DEAR = (
    "X is so ill-conditioned that eigenvalues may be lost that the residual does not show, and it would take "
)
TOO_DEAR += 'long to measure them. Choose "direct", or add a ridge.'

SHARE = 0.1
"""Of the time that products have taken, what the reduction of wider data may take."""

MOST_ENTRIES = 2**25
"""Entries of a block of rows that the reduction works on, at most."""

SQUARED_LIMIT = 1e8
"""Condition number of a Gram matrix above which nothing squared is trusted."""

FEW = 60
"""Columns of X that are multiplied by the identity in any case, where rows cannot be read: a share of the products
otherwise."""

TOLD = 10 * EPS
"""‖Xv‖ / ‖X‖‖v‖ up to which reduced rows do not tell it from zero."""


@dataclass(frozen=True, eq=False)
class RowBasis:
    """Lengths in the norm of M⁻¹.

    Attributes
    ----------
    basis : array of shape (p, r)
        W with WᵀMW = I over the numerical range of X.
    image : array of shape (m, r)
        RW, from the decomposition and not by a product.
    rank : int
        The numerical rank of X, as the solver "direct" decides it.
    outside : array of shape (p, r), or None
        An orthonormal basis of the span of W, where M has eigenvalues outside it.
    rows : array of shape (min(n, p), p)
        R, whose inner products of columns are those of X.
    ridge : float
    home : Home
    short : array of shape (p, s), or None
        Directions beyond the rank that are longer than rounding makes them, divided by ‖X‖: images longer than
        `row_reduction.LEAST_LENGTH` roundings are there.
    """

    basis: Array
    image: Array
    rank: int
    outside: Array | None
    rows: Array
    ridge: float
    home: Home
    short: Array | None = None

    def of_rank(self) -> RowBasis:
        """The same without directions beyond the rank."""
        return replace(self, basis=self.basis[:, : self.rank], image=self.image[:, : self.rank])

    def product(self, W: Array) -> Array:
        """XᵀX W by the reduced rows: nothing squared is held."""
        return self.rows.T @ (self.rows @ W)

    def within(self, C: Array) -> Array:
        """XᵀH without the rounding that is outside of the span of the rows, where the norm of M⁻¹ is large."""
        return C if self.outside is None else self.outside @ (self.outside.T @ C)

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
    """The basis for the data of a problem; None where it would cost too much.

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
    X = problem.X
    n, p = X.shape
    if not run.affords(1.0) or min(n, max(4 * p, 4096)) * p > MOST_ENTRIES:
        return None
    if not X.readable:
        if p > max(FEW, SHARE * run.columns) or n * p > MOST_ENTRIES:
            return None
        X = DenseOperator(X.by_identity())
    elif not _is_cheap(X, run, _seconds(X)):
        if not _squared_away(problem, ridge, run, moments):
            return None
        if moments.form != "dense" and _seconds(X) > SQUARED:
            run.note(Status.ILL_CONDITIONED, TOO_DEAR)
            return None
    (R,) = reduce_rows({"X": X}, center=problem.center)
    return basis_of(R, ridge, rank_cut((n, p), X.dtype), problem.X.home.blocks, problem.X.dtype)


def _seconds(X: LinearOperator) -> float:
    """What the reduction takes."""
    n, p = X.shape
    return float(4.0 * n * p * min(n, p) / FACTOR_RATE)


def _is_cheap(X: LinearOperator, run: Run, seconds: float, always: float = ALWAYS) -> bool:
    """Whether so many seconds are few, or few beside those of the products so far."""
    rate = SPARSE_RATE if X.nnz < X.shape[0] * X.shape[1] else DENSE_RATE
    return seconds <= max(always, SHARE * run.flops / rate)


def _squared_away(problem: Any, ridge: float, run: Run, moments: Moments) -> bool:
    """Whether the Gram matrix is too ill-conditioned to be trusted.

    Where it is not held it is formed, if that is cheap; of wide data it is taken for too ill-conditioned where the
    ridge does not show the contrary.
    """
    X, home = problem.X, moments.home
    n, p = X.shape
    if moments.form == "dense":
        if p > n:
            return False
        S, spread = moments.dense()[0], 1.0
    else:
        d = to_host(moments.diagonal()[0])
        if float(d.sum()) <= SQUARED_LIMIT * ridge or not run.affords(2.0):
            return False
        if p > n:
            return _seconds(X) <= SQUARED
        if not _is_cheap(X, run, 2.0 * n * p**2 / DENSE_RATE, SQUARED / 8):
            return False
        S = Moments(X, center=problem.center, form="dense").dense()[0]
        d = to_host(home.xp.linalg.diagonal(S)) + ridge
        spread = float(d.max() / d.min()) if d.min() > 0 else 1.0
    factor = Whitener(S, ridge, squared_cut(X), home)
    return factor.rank < p or factor.condition * spread > SQUARED_LIMIT


def basis_of(R: Array, ridge: float, cut: float, home: Home, dtype: Any = np.float64) -> RowBasis:
    """The basis from reduced rows.

    Parameters
    ----------
    R : array of shape (m, p)
    ridge : float
    cut : float
        Singular values below this share of the largest are outside the rank.
    home : Home
    dtype : dtype, default float64
        Of the data, whose rounding is what directions are compared with.
    """
    xp, least = home.xp, LEAST_LENGTH * float(np.finfo(dtype).eps)
    scale = reciprocal(xp.sqrt(xp.sum(R * R, axis=0)))
    U, s, Vt = xp.linalg.svd(R * scale[None, :], full_matrices=False)
    sizes = to_host(s)
    rank = int((sizes > cut * sizes.max(initial=0.0)).sum())
    longer = int((sizes > least * sizes.max(initial=0.0)).sum())
    beyond = longer > rank and ridge == 0
    short = scale[:, None] * Vt.T[:, rank:longer] / float(sizes[0]) if beyond else None
    keep = rank
    if rank < R.shape[1] or ridge > 0:
        scale = xp.ones_like(scale)
        U, s, Vt = xp.linalg.svd(R, full_matrices=False)
        sizes = to_host(s)
        # With a ridge, nothing that can be told is null.
        keep = int((sizes > (TOLD if ridge > 0 else least) * sizes.max(initial=0.0)).sum())
    V, root = Vt.T[:, :keep], (sizes[:keep] ** 2 + ridge) ** 0.5
    W = scale[:, None] * V / home.place(root)[None, :]
    image = U[:, :keep] * home.place(sizes[:keep] / root)[None, :]
    outside = V if ridge > 0 and keep < R.shape[1] else None
    return RowBasis(W, image, min(rank, keep), outside, R, ridge, home, short)
