"""Least squares by factorisation.

Problem: min ‖A x − B‖² + r ‖x‖²; at r = 0 the solution of least norm.
Method: one sweep forms AᵀA and AᵀB. A Cholesky factorisation of the diagonally scaled Gram matrix gives the
solution, and one refinement follows. If the condition number shows that squaring loses too many digits,
orthogonal transformations reduce the rows instead (a second sweep), and an SVD of the small factor determines
the rank. With more columns than rows the dual system (AAᵀ + rI) z = B, x = Aᵀz is smaller; then the columns
are reduced. A path of ridges shares the sweeps and the reduction. Rows that can be read once are reduced at once.
Source: Golub & Van Loan 2013, sections 5.3 and 5.5; the dual form is the matrix inversion lemma.
Where we differ: a Gram matrix larger than a block stays on the device of the data, where it is inverted: the array
API has no triangular solves.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import scipy.linalg

from linspec import LeastSquaresState, LinearOperator, Moments, Run, Solution, Solver, option
from linspec.algebra import rank_cut, whitening
from linspec.arrays import Array, Home, HostArray, from_host, namespace, reciprocal, to_host
from linspec.cost import CHOLESKY_RATE, Estimate, Sizes, gram_seconds
from linspec.moments import RowGram, reduce_rows, reduce_rows_of
from linspec_lstsq.golub_kahan import cross_product, start_of, sweeps_of

SQUARED_LIMIT = 1e10
"""Above this condition number of the scaled Gram matrix, orthogonal transformations are used instead."""

BLOCK_WIDTH = 512
"""Up to this order, matrices of a device are factorised on the host."""


@dataclass(frozen=True, kw_only=True)
class DirectLeastSquares(Solver):
    """Cholesky of the Gram matrix; QR and SVD if it is ill-conditioned (Golub & Van Loan 2013, 5.3 and 5.5)."""

    preparation: ClassVar[float] = 1.0

    rank_tol: float | None = option(
        None,
        "singular values below this share of the largest are zero; none: rounding",
        above=0,
        below=1,
    )

    def solve(self, problem: Any, run: Run) -> Solution:
        """Solve a least-squares problem."""
        n, p = problem.A.shape
        if problem.sweeps == 1:
            return self._by_rows(problem, run)
        # No slice has whole columns: AAᵀ is never formed of slices.
        return self._dual(problem, run) if p > n and not problem.A.streamed else self._primal(problem, run)

    def _primal(self, problem: Any, run: Run) -> Solution:
        """Solve (AᵀA + rI) x = AᵀB, or reduce the rows if AᵀA is too ill-conditioned."""
        home = problem.A.home.blocks
        AtA, AtB, _ = run.moments("dense").dense()
        found = [_solved(AtA, AtB, ridge) for ridge in problem.ridges]
        if all(x is not None for x in found):
            return run.finish(x=home.concat(found))
        return self._by_rows(problem, run)

    def _by_rows(self, problem: Any, run: Run) -> Solution:
        """Solve by the reduced rows [R QᵀB] of [A B] = Q [R QᵀB]; one sweep."""
        home = problem.A.home.blocks
        R, QtB = (to_host(M) for M in reduce_rows_of(problem, run))
        A = problem.A
        both = [minimum_norm(*_with_ridge(R, QtB, ridge), self._cut(A, ridge)) for ridge in problem.ridges]
        x = home.place(np.hstack([x for x, _ in both]))
        return run.finish(x=x, rank=min(rank for _, rank in both))

    def _dual(self, problem: Any, run: Run) -> Solution:
        """Solve by x = Aᵀ (AAᵀ + rI)⁻¹ B, or reduce the columns if AAᵀ is too ill-conditioned."""
        A, n = problem.A, problem.A.shape[0]
        run.plan(setup=2.0)
        home = A.home.blocks
        B = home.place(problem.B.dense())
        K = RowGram(A).form()
        found = [_solved(K, B, ridge, spare=len(problem.ridges) == 1) for ridge in problem.ridges]
        if all(z is not None for z in found):
            return run.finish(x=A.rmatmat(home.concat(found)), rank=n)
        del K
        run.plan(setup=4.0)
        x, rank = self._by_columns(A, home.concat([B] * len(problem.ridges)), problem.column_ridges)
        return run.finish(x=x, rank=rank)

    def _by_columns(self, A: LinearOperator, rhs: Array, ridges: HostArray) -> tuple[Array, int]:
        """x = Aᵀz from Aᵀ = QR with one refinement, so that AAᵀ = RᵀR is never formed; and the rank."""
        home = A.home.blocks
        (R,) = (to_host(M) for M in reduce_rows({"A": A.H}))
        _, s, Vt = np.linalg.svd(R, full_matrices=False)
        keep = s > self._cut(A.H, float(min(ridges))) * max(s[0], 0.0)
        V = home.place(np.ascontiguousarray(Vt.T))
        inverse = home.place(keep[:, None] / (np.where(keep, s, 1.0)[:, None] ** 2 + ridges[None, :]))
        z = V @ (inverse * (V.T @ rhs))
        x = A.rmatmat(z)
        rest = rhs - home.place(A.matmat(x)) - z * home.place(ridges)[None, :]
        return x + A.rmatmat(V @ (inverse * (V.T @ rest))), int(keep.sum())

    def _cut(self, A: LinearOperator, ridge: float) -> float:
        return rank_cut(A.shape, A.rounded_dtype, ridge) if self.rank_tol is None else self.rank_tol

    def prepare(self, A: LinearOperator | Moments, ridge: float, run: Run) -> PreparedFactor:
        """Factorise once for many right-hand sides."""
        return PreparedFactor(A, ridge, run)

    @classmethod
    def estimate(cls, sizes: Sizes) -> Estimate | None:
        """Estimated cost of one Gram matrix of the shorter side and its factorisations."""
        if not sizes.readable:
            return None
        side = min(sizes.n, sizes.p)
        paths = max(1, sizes.k // max(sizes.q, 1))
        seconds = gram_seconds(sizes) + paths * side**3 / 3 / CHOLESKY_RATE
        note = f"Gram matrix of order {side} and its Cholesky factor"
        return Estimate(seconds, 24.0 * side**2 + 8.0 * sizes.k * (sizes.n + sizes.p), note)


class PreparedFactor(LeastSquaresState):
    """A factorisation of the Gram matrix, applied to each right-hand side."""

    def __init__(self, A: LinearOperator | Moments, ridge: float, run: Run) -> None:
        self.A, self.run = A, run
        moments = A if isinstance(A, Moments) else Moments(A, form="dense")
        self.home, self.X = moments.home, moments.X
        S = moments.dense()[0]
        self.apply = factorised(S, ridge)
        if self.apply is None:
            M = to_host(S).copy()
            M[np.diag_indices_from(M)] += ridge
            T = self.home.place(whitening(M))
            self.apply = lambda rhs: T @ (T.T @ rhs)

    def solve(
        self,
        B: LinearOperator,
        x0: Array | None = None,
        tol: float | None = None,
        AtB: Array | None = None,
        AtAx0: Array | None = None,
    ) -> Array:
        """See `LeastSquaresState.solve`. `tol` is not used; `x0` is returned if the budget allows no sweep for AᵀB."""
        if AtB is None:
            if not self.run.budget.affords(sweeps_of(self.X)):
                return start_of(self.X, B, x0)
            AtB = cross_product(self.A, B)
        assert self.apply is not None  # noqa: S101 (one of the two ways above has been found)
        return self.apply(AtB)


Apply = Callable[[Array], Array]


def _solved(G: Array, rhs: Array, ridge: float, *, spare: bool = False) -> Array | None:
    """(G + rI)⁻¹ rhs with one refinement, or None if G is too ill-conditioned."""
    apply = factorised(G, ridge, spare=spare)
    return None if apply is None else apply(rhs)


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
    S[np.diag_indices_from(S)] += ridge
    d = np.sqrt(np.maximum(np.diag(S), 0.0))
    if not (d > 0).all():
        return None
    S /= d[:, None]
    S /= d[None, :]
    norm = float(np.abs(S).sum(axis=0).max())
    try:
        factor = scipy.linalg.cho_factor(S, lower=True, check_finite=False)
    except np.linalg.LinAlgError:
        return None
    rcond, _ = scipy.linalg.lapack.dpocon(factor[0], norm, uplo="L")
    if rcond < 1 / SQUARED_LIMIT:
        return None

    def apply(rhs: HostArray) -> HostArray:
        rhs = rhs / d[:, None]
        x = scipy.linalg.cho_solve(factor, rhs, check_finite=False)
        x += scipy.linalg.cho_solve(factor, rhs - S @ x, check_finite=False)  # one refinement
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


def _with_ridge(R: HostArray, QtB: HostArray, ridge: float) -> tuple[HostArray, HostArray]:
    """[R; √r I] and [QᵀB; 0]: the reduced rows with those of the ridge below them."""
    if ridge == 0:
        return R, QtB
    p = R.shape[1]
    return np.vstack([R, np.sqrt(ridge) * np.eye(p)]), np.vstack([QtB, np.zeros((p, QtB.shape[1]))])


def minimum_norm(R: HostArray, QtB: HostArray, cut: float) -> tuple[HostArray, int]:
    """The solution of least norm of min ‖R x − QᵀB‖, and the numerical rank of R.

    The rank is determined after the columns are scaled to unit length. If it is full, the scaled problem has
    the same solution and a smaller condition number. If not, the norm must be least in the unscaled
    variables, so R itself is decomposed.
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
