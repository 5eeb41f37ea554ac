"""The norm of the inverse metric M⁻¹, computed from reduced rows of the data.

Problem: rᵀM⁻¹r for the columns r of a thin block and M = XᵀX + γI, of any condition number.
Method: the rows of X are reduced by orthogonal transformations, X = QR, without squares. With R = UΣVᵀ,

    rᵀM⁻¹r = ‖(Σ² + γ)^(-1/2) Vᵀr‖² + ‖r − VVᵀr‖² / γ,

without the second part at γ = 0, where M⁻¹ is the pseudo-inverse.
Source: Golub & Van Loan 2013, section 5.2; the reduction is `linspec.moments.row_reduction`.
Where we differ: at γ = 0 columns are first scaled to unit length if they then have full rank. If the rows cannot be
read and X has few columns, a product with the identity yields the rows. Wider data are reduced only if their Gram
matrix shows that squares are not enough.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from linspec import Moments, Run, Status
from linspec.algebra import EPS, LEAST_LENGTH, Whitener, rank_cut, squared_cut
from linspec.arrays import Array, Home, HostArray, reciprocal, to_host
from linspec.cost import DENSE_RATE, FACTOR_RATE, SPARSE_RATE
from linspec.moments import reduce_rows
from linspec.operators import DenseOperator, LinearOperator

ALWAYS, SQUARED = 0.1, 1.0
"""Estimated seconds of the reduction of rows that can be read.

A reduction of up to ALWAYS seconds is made whatever the conditioning of X is. A reduction of up to SQUARED seconds is
made only if M = XᵀX + γI is, or may be, too ill-conditioned (see `SQUARED_LIMIT`)."""

TOO_DEAR = (
    "X is so ill-conditioned that eigenvalues may be lost without effect on the residual, and it would take "
)
TOO_DEAR += 'long to measure them. Choose "direct", or add a ridge.'

SHARE = 0.1
"""A reduction above the limits `ALWAYS` or `FEW` may cost at most this fraction of the products so far."""

MOST_ENTRIES = 2**25
"""Largest number of entries in a block of rows of the reduction."""

SQUARED_LIMIT = 1e8
"""Results from squares are not used above this condition number of a Gram matrix."""

FEW = 60
"""Up to this number of columns, unreadable rows are always computed by products with the identity. If there are more
columns, these products must be a small part of all products so far."""

TOLD = 10 * EPS
"""Reduced rows do not distinguish Xv from zero if ‖Xv‖ / ‖X‖‖v‖ is at most this."""


@dataclass(frozen=True, eq=False)
class RowBasis:
    """Lengths in the norm of M⁻¹, from the reduced rows of X.

    Attributes
    ----------
    basis : array of shape (p, r)
        W with WᵀMW = I, whose columns span the numerical row space of X.
    image : array of shape (m, r)
        RW, from the decomposition and not by a product.
    rank : int
        The numerical rank of X, determined as in the solver "direct".
    outside : array of shape (p, r), or None
        V with VᵀV = I and the span of W, if W has fewer than p columns and there is a ridge. It serves for vectors
        outside the span of W: r − VVᵀr is the part of r where M is the ridge times I. Otherwise None.
    rows : array of shape (min(n, p), p)
        R, whose inner products of columns are those of X.
    ridge : float
    home : Home
    short : array of shape (p, s), or None
        Directions v/‖X‖ outside the numerical rank for which Xv is longer than rounding: ‖Xv‖/‖X‖ is above
        `LEAST_LENGTH` times eps. None if there are none, or if there is a ridge.
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
        """Basis without directions beyond the rank."""
        return replace(self, basis=self.basis[:, : self.rank], image=self.image[:, : self.rank])

    def product(self, W: Array) -> Array:
        """Compute XᵀX W as Rᵀ(R W) from the reduced rows R; the Gram matrix XᵀX is not formed."""
        return self.rows.T @ (self.rows @ W)

    def within(self, C: Array) -> Array:
        """Project C = XᵀH on the span of the rows of X: its rounding outside the span is long in the norm of M⁻¹."""
        return C if self.outside is None else self.outside @ (self.outside.T @ C)

    def squares(self, R: Array) -> HostArray:
        """Squared lengths of the columns of a block in the norm of M⁻¹."""
        xp = self.home.xp
        T = self.basis.T @ R
        found = xp.sum(T * T, axis=0)
        if self.outside is not None:
            rest = (R - self.outside @ (self.outside.T @ R)) / self.ridge**0.5
            found = found + xp.sum(rest * rest, axis=0)
        return to_host(found)


def row_basis(problem: Any, ridge: float, run: Run, moments: Moments) -> RowBasis | None:
    """Row basis of the data of a problem; None if it would cost too much.

    Parameters
    ----------
    problem : Discriminant or CCA
    ridge : float
        The ridge of X.
    run : Run
        Its products and passes limit the cost.
    moments : Moments
        If they hold the Gram matrix and its condition number is above `SQUARED_LIMIT`, the estimated time of the
        reduction is not limited. If they do not hold it, the limit for such a Gram matrix is `SQUARED` seconds.
    """
    X = problem.X
    n, p = X.shape
    if not run.budget.affords(1.0) or min(n, max(4 * p, 4096)) * p > MOST_ENTRIES:
        return None
    if not X.readable and X.access != "blocks":  # rows on another device are reduced there
        if p > max(FEW, SHARE * run.counts.columns) or n * p > MOST_ENTRIES:
            return None
        X = X if X.streamed else DenseOperator(X.by_identity())
    elif not _is_cheap(X, run, _seconds(X)):
        if not _squared_away(problem, ridge, run, moments):
            return None
        if moments.form != "dense" and _seconds(X) > SQUARED:
            run.note(Status.ILL_CONDITIONED, TOO_DEAR)
            return None
    (R,) = reduce_rows({"X": X})
    home = problem.X.home.blocks
    R = home.xp.asarray(R, copy=True)  # part of a larger array: products would differ where a run continues
    return basis_of(R, ridge, rank_cut((n, p), X.rounded_dtype), home, problem.X.rounded_dtype)


def _seconds(X: LinearOperator) -> float:
    """Estimated seconds of the reduction."""
    n, p = X.shape
    return float(4.0 * n * p * min(n, p) / FACTOR_RATE)


def _is_cheap(X: LinearOperator, run: Run, seconds: float, always: float = ALWAYS) -> bool:
    """Whether `seconds` is at most `always`, or at most the fraction `SHARE` of the time of the products so far."""
    rate = SPARSE_RATE if X.nnz < X.shape[0] * X.shape[1] else DENSE_RATE
    return seconds <= max(always, SHARE * run.counts.flops / rate)


def _squared_away(problem: Any, ridge: float, run: Run, moments: Moments) -> bool:
    """Whether the rows should be reduced because the Gram matrix is, or may be, too ill-conditioned.

    A Gram matrix that the moments hold is tested for tall data; for wide data the result is False. Without a held Gram
    matrix the result is False if the ridge bounds the condition number, or if the budget does not allow two passes.
    Otherwise, for wide data, the result is True if the reduction takes at most `SQUARED` seconds. For tall data
    the Gram matrix is formed and tested if that is cheap, and if it is not, the result is False.
    """
    X, home = problem.X, moments.home
    n, p = X.shape
    if moments.form == "dense":
        if p > n:
            return False
        S, spread = moments.dense()[0], 1.0
    else:
        d = to_host(moments.diagonal()[0])
        if float(d.sum()) <= SQUARED_LIMIT * ridge or not run.budget.affords(2.0):
            return False
        if p > n:
            return _seconds(X) <= SQUARED
        if not _is_cheap(X, run, 2.0 * n * p**2 / DENSE_RATE, SQUARED / 8):
            return False
        S = Moments(X, form="dense").dense()[0]
        d = to_host(home.xp.linalg.diagonal(S)) + ridge
        spread = float(d.max() / d.min()) if d.min() > 0 else 1.0
    factor = Whitener(S, ridge, squared_cut(X), home)
    return factor.rank < p or factor.condition * spread > SQUARED_LIMIT


def basis_of(R: Array, ridge: float, cut: float, home: Home, dtype: Any = np.float64) -> RowBasis:
    """Row basis from reduced rows.

    Parameters
    ----------
    R : array of shape (m, p)
    ridge : float
    cut : float
        Singular values below this fraction of the largest are outside the rank.
    home : Home
    dtype : dtype, default float64
        The dtype of the data. Its rounding is the measure of short directions.
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
        # With a ridge, no direction that can be distinguished is null.
        keep = int((sizes > (TOLD if ridge > 0 else least) * sizes.max(initial=0.0)).sum())
    V, root = Vt.T[:, :keep], (sizes[:keep] ** 2 + ridge) ** 0.5
    W = scale[:, None] * V / home.place(root)[None, :]
    image = U[:, :keep] * home.place(sizes[:keep] / root)[None, :]
    outside = V if ridge > 0 and keep < R.shape[1] else None
    return RowBasis(W, image, min(rank, keep), outside, R, ridge, home, short)
