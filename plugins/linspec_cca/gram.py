"""CCA from the Gram matrices.

Problem: the leading singular values of Sx^(-1/2) C Sy^(-1/2).
Method: one pass forms Sx, C and Sy (Lu 2015, Lemma 4.1.2); with Cholesky factors Sx = LxLxᵀ, Sy = LyLyᵀ the
small matrix Lx⁻¹ C Ly⁻ᵀ has the same singular values.
Where we differ: the Gram matrices are scaled to unit diagonal first, and where one is singular or nearly so an
eigen-decomposition with a rank cut takes the place of its Cholesky factor. Forming a Gram matrix squares the
condition number, so what lies below √eps of the largest direction of a view cannot be told from zero: the
solver "direct" can.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg

from linspec import Run, Solution, Solver, Status
from linspec.arrays import Array, Home, reciprocal, to_host
from linspec.block_algebra import EPS, rank_cut
from linspec.cost import (
    CHOLESKY_RATE,
    DENSE_RATE,
    FACTOR_RATE,
    SPARSE_RATE,
    Estimate,
    Sizes,
    moments_estimates,
)

SMALL = 500
"""Up to this order a full SVD takes no more than some hundredths of a second."""

DIGITS_LOST = 1e-8
"""Relative error by squaring above which the solution says so."""

CHOLESKY_LIMIT = 1e-12
"""Reciprocal condition number of the scaled Gram matrix below which its rank is decided by eigenvalues."""


@dataclass(frozen=True, kw_only=True)
class Gram(Solver):
    """One pass, Cholesky whitening and a small SVD (Lu 2015, Lemma 4.1.2)."""

    def solve(self, problem: Any, run: Run) -> Solution:
        """Solve a CCA problem."""
        moments = run.moments("dense")
        run.plan(setup=moments.setup_cost)
        home = moments.home
        Sx, C, Sy = moments.dense()
        assert C is not None  # noqa: S101  # CCA has two views
        x, y = (
            _Whitener(S, r, _squared_cut(A), home)
            for S, r, A in zip((Sx, Sy), problem.ridge, (problem.X, problem.Y), strict=True)
        )
        T = x.solve(y.solve(C.T).T)
        U, rho, V = _leading_svd(T, problem.k, home)
        for name, view in (("X", x), ("Y", y)):
            if view.condition * EPS > DIGITS_LOST:
                text = f"The Gram matrix of {name} has condition number {view.condition:.0e}: correlations may be "
                text += f"off by {view.condition * EPS:.0e}, and the residual, taken from the same Gram matrix, cannot "
                text += 'show it. Choose "direct", or add a ridge.'
                run.note(Status.ILL_CONDITIONED, text)
        return run.finish(
            x_weights=x.solve_adjoint(U),
            y_weights=y.solve_adjoint(V),
            correlations=rho,
            ranks=(x.rank, y.rank),
        )

    @classmethod
    def estimate(cls, sizes: Sizes) -> Estimate | None:
        """Forming three Gram matrices, two Cholesky factors, two triangular solves and an SVD."""
        p, q = sizes.p, sizes.q
        shorter, longer = sorted((float(p), float(q)))
        whitening = (p**3 + q**3) / 3 + p * q * (p + q)
        product, decomposition = 0.0, 4.0 * longer * shorter**2
        if shorter > SMALL:
            product, decomposition = 2.0 * longer * shorter**2, 4.0 / 3 * shorter**3
        factoring = whitening / CHOLESKY_RATE + product / DENSE_RATE + decomposition / FACTOR_RATE
        note = f"{sizes.gram_entries:.2g} Gram entries, {whitening + product + decomposition:.2g} flops to factor"
        return Estimate(_forming(sizes) + factoring, 8.0 * (2 * sizes.gram_entries + p * q), note)


def _forming(sizes: Sizes) -> float:
    """Seconds until the Gram matrices are there: from the entries, or from products with the identity."""
    if sizes.readable:
        return moments_estimates(sizes, 0, sizes.k)["dense"].seconds
    return 3.0 * sizes.nnz * (sizes.p + sizes.q) / (SPARSE_RATE if sizes.scattered else DENSE_RATE)


def _squared_cut(A: Any) -> float:
    """Share of the largest eigenvalue of a scaled Gram matrix that is rounding: of the matrix, or of the data."""
    return float(max(A.shape[1] * EPS, rank_cut(A.shape, A.dtype) ** 2))


class _Whitener:
    """A factor F of S + ridge·I = F Fᵀ on its numerical range, applied as F⁻¹ and F⁻ᵀ."""

    def __init__(self, S: Array, ridge: float, cut: float, home: Home) -> None:
        xp = home.xp
        self.home = home
        S = S + ridge * home.eye(S.shape[0]) if ridge > 0 else S
        d = xp.sqrt(xp.linalg.diagonal(S))
        self.scale = reciprocal(d)
        S = S * self.scale[:, None] * self.scale[None, :]
        self.rank = int(S.shape[0])
        self.condition = 1.0
        self.lower, rcond = _cholesky(S, cut) if home.on_host and bool(np.all(d > 0)) else (None, 0.0)
        if self.lower is not None:
            self.condition = 1 / rcond
        if self.lower is None:
            values, vectors = xp.linalg.eigh(S)
            host = to_host(values)
            first = int(np.sum(host <= (cut if ridge == 0 else len(host) * EPS) * max(host[-1], 0.0)))
            self.rank = len(host) - first
            self.condition = float(host[-1] / host[first]) if first < len(host) else 1.0
            self.half = vectors[:, first:] / xp.sqrt(values[first:])[None, :] * self.scale[:, None]

    def solve(self, M: Array) -> Array:
        """F⁻¹ M."""
        if self.lower is None:
            return self.half.T @ M
        return scipy.linalg.solve_triangular(
            self.lower, M * self.scale[:, None], lower=True, check_finite=False
        )

    def solve_adjoint(self, U: Array) -> Array:
        """F⁻ᵀ U."""
        if self.lower is None:
            return self.half @ U
        solved = scipy.linalg.solve_triangular(self.lower, U, lower=True, trans="T", check_finite=False)
        return solved * self.scale[:, None]


def _cholesky(S: np.ndarray, cut: float) -> tuple[np.ndarray | None, float]:
    """The Cholesky factor of a scaled Gram matrix and its reciprocal condition; None where that forbids it."""
    lower, info = scipy.linalg.lapack.dpotrf(S, lower=1, clean=1)
    if info != 0:
        return None, 0.0
    rcond, _ = scipy.linalg.lapack.dpocon(lower, np.abs(S).sum(axis=0).max(), uplo="L")
    return (lower if rcond > max(CHOLESKY_LIMIT, 100 * cut) else None), float(rcond)


def _leading_svd(T: Array, k: int, home: Home) -> tuple[Array, np.ndarray, Array]:
    """The k leading singular triplets of a matrix that fits into memory."""
    k = min(k, *T.shape)
    if not home.on_host or min(T.shape) <= SMALL:
        U, s, Vt = home.xp.linalg.svd(T, full_matrices=False)
        return U[:, :k], to_host(s)[:k], Vt.T[:, :k]
    wide = T.shape[0] > T.shape[1]
    A = T.T if wide else T  # eigenvectors of the smaller of T Tᵀ and Tᵀ T
    m = A.shape[0]
    _, U = scipy.linalg.eigh(A @ A.T, subset_by_index=(m - k, m - 1), check_finite=False)
    # A second step on the k-dimensional span undoes the squaring for the leading values.
    Q, s, Pt = np.linalg.svd(A.T @ U, full_matrices=False)
    U, V = U @ Pt.T, Q
    return (V, s, U) if wide else (U, s, V)
