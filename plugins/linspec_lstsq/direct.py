"""Least squares by factorisation.

Problem: min ‖A x − B‖² + r ‖x‖²; at r = 0 the solution of least norm.
Method: one pass forms AᵀA and AᵀB. A Cholesky factorisation of the diagonally scaled Gram matrix gives the solution,
and one refinement follows. If the condition number shows that squaring loses too many digits, orthogonal
transformations reduce the rows [A B] = Q [R QᵀB; 0 ·] instead (a second pass), and an SVD of R determines the rank.
With more columns than rows the dual system (AAᵀ + rI) z = B, x = Aᵀz is smaller. A path of ridges shares the passes and
the reduction. Rows that can be read once are reduced at once.
Source: Golub & Van Loan 2013, sections 5.3 and 5.5; the dual form is the matrix inversion lemma.
Where we differ: the rank is that of columns of one length (`_by_rows`).

Inverses of positive definite matrices of least squares, with a check of their condition.

Problem: (G + rI)⁻¹ for a Gram matrix G, without the digits that squaring has lost.
Method: a Cholesky factor of G + rI scaled to a unit diagonal, and one refinement (Golub & Van Loan 2013, section 5.3).
Where we differ: a Gram matrix larger than a block stays on the device of the data, where it is inverted: the array API
has no triangular solves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from scipy.linalg import lapack

import linspec as ls
from linspec import option
from linspec.arrays import Array, Device, HostArray, from_host, namespace, reciprocal, to_host
from linspec.certificates import Metric
from linspec.cost import CHOLESKY_RATE, Estimate, Sizes, gram_seconds
from linspec.iteration import Context, Iterate
from linspec.linalg import EPS, Step, rank_cut
from linspec.rows import Moments, row_gram
from linspec.solving import Solver

SQUARED_LIMIT, MOST_LOST = 1e10, 1e-13
"""Above this condition number of the scaled Gram matrix, or this error that means and confounds leave in it, orthogonal
transformations are used instead."""

BLOCK_WIDTH = 512
"""Up to this order, matrices of a device are factorised on the host."""


Apply = Callable[[Array], Array]


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
    device = Device.of(G)
    if device.on_host or G.shape[0] <= BLOCK_WIDTH:
        host = _by_cholesky(to_host(G), ridge, spare=spare and device.on_host)
        return None if host is None else lambda rhs: from_host(host(to_host(rhs)), like=rhs)
    return _by_inverse(G, ridge, device)


def solved(G: Array, B: Array, ridges: Sequence[float], *, spare: bool = False) -> Array | None:
    """(G + rI)⁻¹B for all ridges side by side, or None if G is too ill-conditioned for one of them."""
    solutions = []
    for ridge in ridges:
        apply = factorised(G, ridge, spare=spare)
        if apply is None:
            return None
        solutions.append(apply(B))
    return Device.of(B).concat(solutions)


def _by_cholesky(G: HostArray, ridge: float, *, spare: bool) -> Apply | None:
    """`factorised` on the host, by a Cholesky factor of G + rI scaled to a unit diagonal."""
    S = G if spare else G.copy()
    np.fill_diagonal(S, S.diagonal() + ridge)
    d = np.sqrt(np.maximum(S.diagonal(), 0.0))
    if not (d > 0).all():
        return None
    S /= d[:, None]
    S /= d[None, :]
    norm = float(np.abs(S).sum(axis=0).max())
    factor, failed = lapack.dpotrf(S, lower=1, clean=0)
    if failed or lapack.dpocon(factor, norm, uplo="L")[0] < 1 / SQUARED_LIMIT:
        return None

    def apply(rhs: HostArray) -> HostArray:
        rhs = rhs / d[:, None]
        x = lapack.dpotrs(factor, rhs, lower=1)[0]
        x += lapack.dpotrs(factor, rhs - S @ x, lower=1)[0]  # one refinement
        return x / d[:, None]

    return apply


def _by_inverse(G: Array, ridge: float, device: Device) -> Apply | None:
    """`factorised` on a device, by the inverse of the scaled G + rI, whose norm gives the condition number."""
    xp = namespace(G)
    d = xp.sqrt(xp.linalg.diagonal(G) + ridge)
    inverse_d = reciprocal(d)
    S = (G + device.eye(G.shape[0]) * ridge) * inverse_d[:, None] * inverse_d[None, :]
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


@dataclass(frozen=True, kw_only=True)
class DirectLeastSquares(Solver):
    """Cholesky of the Gram matrix; QR and SVD if it is ill-conditioned (Golub & Van Loan 2013, 5.3 and 5.5)."""

    rank_tol: float | None = option(
        None,
        "singular values below this share of the largest are zero; none: rounding",
        above=0,
        below=1,
    )

    def iterate(
        self, problem: ls.LeastSquares, moments: Moments, context: Context, start: Any
    ) -> Iterator[Iterate]:
        """Yield the answer."""
        A, B = moments.operators
        wide = A.shape[0] < A.shape[1] and not moments.once and not problem.A.streamed
        x, rank, device = None, None, A.device.blocks
        if wide:  # x = Aᵀ (AAᵀ + rI)⁻¹ B
            product, K = moments.operator(), row_gram(moments)
            rhs = device.asarray(moments.operator(1).matmat(B.device.blocks.eye(moments.widths[1])))
            z = solved(K, rhs, problem.ridges, spare=len(problem.ridges) == 1)
            x, rank = (None, None) if z is None else (product.rmatmat(z), len(rhs))
        elif not moments.once:
            AtA, AtB = map(_dense, moments.gram()[0])
            x = solved(AtA, AtB, problem.ridges) if moments.error_of_means() <= MOST_LOST else None
        if x is None:
            x, rank = self._by_rows(problem, moments)
        if wide:
            moments.root = None  # no smaller than the rows, which certificates may read again
        yield Iterate(0.0, partial(dict, x=x, **({} if rank is None else {"rank": rank})), final=True)

    def _by_rows(self, problem: ls.LeastSquares, moments: Moments) -> tuple[Array, int]:
        """Solve by the reduced rows [R QᵀB], with least norm.

        The rank is determined after the columns are scaled to unit length, with the rows of the ridge below them unless
        R has fewer rows than columns. If it is full, the scaled problem has the same solution and a smaller condition
        number. If not, the norm must be least in the unscaled variables, so R itself is decomposed.
        """
        A, p, triangle = moments.operators[0], moments.widths[0], moments.triangle()
        n = max(int(moments.fitted[0].total), 1)
        shape = (n, p) if n >= p or A.shape[0] >= p else (p, n)
        dtype, both = "float32" if A.rounding > 1e-10 else "float64", []
        for ridge in problem.ridges:
            cut = rank_cut(shape, dtype, ridge) if self.rank_tol is None else self.rank_tol
            R, QtB, added = triangle[:, :p], triangle[:, p:], ridge
            if ridge > 0 and len(R) >= p:
                R = np.vstack([R, np.sqrt(ridge) * np.eye(p)])
                QtB = np.vstack([QtB, np.zeros((p, QtB.shape[1]))])
                added = 0.0
            d = np.linalg.norm(R, axis=0)
            d, U, s, Vt, rank = decomposed(R, np.where(d > 0, d, 1.0), cut)
            filtered = s[:rank] / (s[:rank] ** 2 + added)
            both.append((Vt[:rank].T @ (filtered[:, None] * (U[:, :rank].T @ QtB)) / d[:, None], rank))
        x = moments.device.asarray(np.hstack([x for x, _ in both]))
        return x, min(rank for _, rank in both)

    def begins(
        self, moments: Moments, i: int, ridge: float, context: Context
    ) -> Callable[[Array], Iterator[Step]]:
        """Factorise a Gram matrix of Xᵢ once; return what solves (XᵢᵀXᵢ + rI) x = G for blocks G = Xᵢᵀ(…)."""
        A = moments.operators[i]
        wide = A.shape[0] < A.shape[1] and A.readings > 1
        apply = _in_row_space(moments, i, ridge) if wide else _by_gram(moments, i, ridge)

        def steps(G: Array) -> Iterator[Step]:
            x = apply(G)
            yield Step(lambda: [x], np.zeros(G.shape[1]), G[:, :0], lambda: 0.0 * G)

        return steps

    @classmethod
    def estimate(cls, sizes: Sizes) -> Estimate | None:
        """Estimated cost of one Gram matrix of the shorter side and its factorisations."""
        if not sizes.readable:
            return None
        side = min(sizes.n, sizes.p)
        ridges = max(1, sizes.k // max(sizes.q, 1))
        seconds = gram_seconds(sizes) + ridges * side**3 / 3 / CHOLESKY_RATE
        memory = 24.0 * side**2 + 8.0 * sizes.k * (sizes.n + sizes.p)
        return Estimate(seconds, memory, "Gram matrix and its Cholesky factor")


def _by_gram(moments: Moments, i: int, ridge: float) -> Apply:
    """G -> (XᵀX + rI)⁻¹ G by the Gram matrix."""
    S = _dense(moments.gram()[i][i])
    device = moments.operators[i].device.blocks
    apply = factorised(S, ridge)
    if apply is not None:
        return apply
    metric = Metric.of_gram(to_host(S), ridge, moments.operators[i].rounding).on(device)
    return lambda G: metric.shortest(metric.solve(G))


def _dense(G: Any) -> Array:
    """A Gram matrix, which is sparse where rows are and nothing is taken out of them, as an array."""
    return G.toarray() if hasattr(G, "toarray") else G


def _in_row_space(moments: Moments, i: int, ridge: float) -> Apply:
    """G = XᵀB -> (XᵀX + rI)⁻¹ G = Xᵀ (XXᵀ + rI)⁻¹ (XXᵀ)⁺ X G, by the eigenpairs of XXᵀ: nothing leaves Xᵀ's range."""
    X, device = moments.operator(i), moments.operators[i].device.blocks
    values, U = np.linalg.eigh(to_host(row_gram(moments, i)))
    live = values > len(values) * EPS * values.max(initial=0.0)
    U, values = U[:, live], values[live]

    def apply(G: Array) -> Array:
        factors = (U.T @ to_host(X.matmat(G))) / (values * (values + ridge))[:, None]
        return X.rmatmat(device.asarray(U @ factors))

    return apply


def decomposed(
    R: HostArray, d: HostArray, cut: float
) -> tuple[HostArray, HostArray, HostArray, HostArray, int]:
    """d, U, s, Vᵀ and the numerical rank of R/d = U diag(s) Vᵀ; d is 1 unless the rank is full."""
    U, s, Vt = np.linalg.svd(R / d, full_matrices=False)
    rank = int(np.sum(s > cut * s[:1]))
    if rank < len(d) and (d != 1).any():
        d = np.ones(len(d))
        U, s, Vt = np.linalg.svd(R, full_matrices=False)
        rank = min(rank, int(np.sum(s > 0)))
    return d, U, s, Vt, rank
