"""Least squares by factorisation.

Problem: min ‖A x − B‖² + r ‖x‖²; at r = 0 the solution of least norm.
Method: one sweep forms AᵀA and AᵀB, a Cholesky factorisation of the diagonally scaled Gram matrix solves.
Where its condition number says that squaring has cost too much, the rows are reduced by orthogonal
transformations instead (a second sweep) and an SVD of the small factor decides the rank. With more columns
than rows the dual system (AAᵀ + rI) z = B, x = Aᵀz is smaller.
Source: Golub & Van Loan (2013), sections 5.3 and 5.5; the dual form is the matrix inversion lemma.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg

from linspec import LeastSquaresState, LinearOperator, Moments, Run, Solution, Solver, option
from linspec.arrays import Array, from_host, to_host
from linspec.block_algebra import rank_cut
from linspec.cost import DENSE_RATE, FACTOR_RATE, Estimate, Sizes
from linspec.row_reduction import reduce_rows

SQUARED_LIMIT = 1e10
"""Condition number of the scaled Gram matrix above which the QR route is taken."""


@dataclass(frozen=True, kw_only=True)
class Direct(Solver):
    """Cholesky of the Gram matrix, QR and SVD on evidence (Golub & Van Loan 2013, 5.3 and 5.5)."""

    rank_tol: float | None = option(
        None,
        "singular values below this share of the largest are zero; none: rounding",
        above=0,
        below=1,
    )

    def solve(self, problem: Any, run: Run) -> Solution:
        """Solve a least-squares problem."""
        A, B, ridge = problem.A, problem.B, problem.ridge
        n, p = A.shape
        if p > n:
            run.plan(setup=2.0)
            x, rank = self._dual(A, B, ridge)
            return run.finish(x=x, rank=rank if ridge == 0 and rank < n else None)
        run.plan(setup=1.0)
        AtA, AtB, _ = run.moments("dense").dense()
        x = _by_cholesky(AtA, AtB, ridge)
        if x is not None:
            return run.finish(x=x)
        run.plan(setup=1.0)
        x, rank = self._by_rows(A, B, ridge)
        return run.finish(x=x, rank=rank)

    def _by_rows(self, A: LinearOperator, B: LinearOperator, ridge: float) -> tuple[Array, int]:
        """Least norm from the SVD of the reduced rows, columns scaled to unit length first."""
        home = A.home.blocks
        R, QtB = (to_host(M) for M in reduce_rows({"A": A, "B": B}, ridges=(ridge, 0.0)))
        x, rank = minimum_norm(R, QtB, self._cut(A))
        return home.place(x), rank

    def _dual(self, A: LinearOperator, B: LinearOperator, ridge: float) -> tuple[Array, int]:
        """x = Aᵀ (AAᵀ + rI)⁻¹ B through the eigenvalues of AAᵀ, which also tell the rank."""
        home = A.home.blocks
        entries, rhs = home.place(A.dense()), to_host(home.place(B.dense()))
        values, vectors = np.linalg.eigh(to_host(entries @ entries.T))
        cut = max(len(values) * float(np.finfo(np.float64).eps), self._cut(A.H) ** 2)
        keep = values > cut * max(values[-1], 0.0)
        inverse = 1.0 / (values[keep] + ridge)
        z = vectors[:, keep] @ (inverse[:, None] * (vectors[:, keep].T @ rhs))
        return entries.T @ home.place(z), int(keep.sum())

    def _cut(self, A: LinearOperator) -> float:
        return rank_cut(A.shape, A.dtype) if self.rank_tol is None else self.rank_tol

    def prepare(self, A: LinearOperator | Moments, ridge: float, run: Run) -> FactorisedState:
        """Factorise once for many right-hand sides."""
        return FactorisedState(A, ridge)

    @classmethod
    def estimate(cls, sizes: Sizes) -> Estimate | None:
        """One Gram matrix and its factorisation, on the shorter side."""
        if not sizes.readable:
            return None
        side = min(sizes.n, sizes.p)
        seconds = sizes.nnz * side / DENSE_RATE + side**3 / 3 / FACTOR_RATE
        note = f"Gram matrix of order {side} and its Cholesky factor"
        return Estimate(seconds, 16.0 * side**2 + (8.0 * sizes.n * sizes.p if sizes.p > sizes.n else 0), note)


class FactorisedState(LeastSquaresState):
    """An eigen-decomposition of the scaled Gram matrix, applied to each right-hand side."""

    def __init__(self, A: LinearOperator | Moments, ridge: float) -> None:
        self.A = A
        moments = A if isinstance(A, Moments) else Moments(A, form="dense")
        self.home = moments.home
        S = to_host(moments.dense()[0]).copy()
        S[np.diag_indices_from(S)] += ridge
        d = np.sqrt(np.diag(S))
        scale = np.divide(1.0, d, out=np.zeros_like(d), where=d > 0)
        values, vectors = np.linalg.eigh(S * np.outer(scale, scale))
        keep = values > len(d) * np.finfo(np.float64).eps * max(values[-1], 0.0)
        half = scale[:, None] * (vectors[:, keep] / np.sqrt(values[keep]))
        self.half = self.home.place(half)

    def solve(
        self, B: LinearOperator, x0: Array | None = None, tol: float | None = None, AtB: Array | None = None
    ) -> Array:
        """See `LeastSquaresState.solve`; exact, so `x0` and `tol` are not used."""
        if AtB is None:
            AtB = Moments(self.A, B, form="implicit").products(None, self.home.eye(B.shape[1]))[1]
        return self.half @ (self.half.T @ AtB)


def _by_cholesky(AtA: Array, AtB: Array, ridge: float) -> Array | None:
    """The solution where the scaled Gram matrix is well enough conditioned; None elsewhere."""
    S, rhs = to_host(AtA).copy(), to_host(AtB)
    S[np.diag_indices_from(S)] += ridge
    d = np.sqrt(np.diag(S))
    if not (d > 0).all():
        return None
    S /= np.outer(d, d)
    try:
        factor = scipy.linalg.cho_factor(S, lower=True, check_finite=False)
    except np.linalg.LinAlgError:
        return None
    rcond, _ = scipy.linalg.lapack.dpocon(factor[0], np.abs(S).sum(axis=0).max(), uplo="L")
    if rcond < 1 / SQUARED_LIMIT:
        return None
    x = scipy.linalg.cho_solve(factor, rhs / d[:, None], check_finite=False)
    x += scipy.linalg.cho_solve(factor, rhs / d[:, None] - S @ x, check_finite=False)  # one refinement
    return from_host(x / d[:, None], like=AtA)


def minimum_norm(R: np.ndarray, QtB: np.ndarray, cut: float) -> tuple[np.ndarray, int]:
    """The solution of least norm of min ‖R x − QᵀB‖, and the numerical rank of R.

    The rank is decided after the columns are scaled to unit length; where it is full, the scaled problem has
    the same solution and a smaller condition number. Where it is not, least norm means least in the unscaled
    variables, and the decomposition is of R itself.
    """
    d = np.linalg.norm(R, axis=0)
    U, s, Vt = np.linalg.svd(R / np.where(d > 0, d, 1.0), full_matrices=False)
    rank = int(np.sum(s > cut * s[0])) if s.size and s[0] > 0 else 0
    if rank < R.shape[1]:
        d = np.ones_like(d)
        U, s, Vt = np.linalg.svd(R, full_matrices=False)
        rank = min(rank, int(np.sum(s > 0)))
    x = Vt[:rank].T @ ((U[:, :rank].T @ QtB) / s[:rank, None])
    return x / d[:, None], rank
