"""Facts about discriminant subspaces that measuring scripts compute without linspec: distance, optimum, the old way.

Problem: how far WWᵀ is from W₀W₀ᵀ, both p x p and of low rank, and what W₀ is.
Method: with [W W₀] = QR the difference is Q R diag(I, −I) Rᵀ Qᵀ, whose norm is that of the small matrix in the middle.
W₀ comes from the singular value decomposition X = UΣVᵀ of the centred data, as V(Σ² + γ)^(-1/2) P with the left
singular vectors P of Σ(Σ² + γ)^(-1/2) UᵀH. `by_columns` is the two-stage method as it was published: LSQR for one
column of H after the other, then the eigenvectors of W₁ᵀXᵀH.
Source: Sun, Ceran & Ye 2010, doi:10.1145/1835804.1835846, Theorem 4 and Algorithm 2.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse.linalg
from timing import Stopwatch

import linspec as ls

LSQR_TOL = 1e-10
"""Tolerances atol and btol of SciPy's lsqr."""

NO_DIRECTION = 1e-10
"""Singular values below this share of the largest are no directions of the oracle."""

SEED = 20_240_101


def difference(W: np.ndarray, best: np.ndarray) -> float:
    """‖WWᵀ − W₀W₀ᵀ‖ in the spectral norm."""
    R = np.linalg.qr(np.hstack([best, W]), mode="r")
    signs = np.r_[np.ones(best.shape[1]), -np.ones(W.shape[1])]
    return float(np.abs(np.linalg.eigvalsh((R * signs) @ R.T)).max())


def distance(W: np.ndarray, best: np.ndarray) -> float:
    """The same, over ‖W₀W₀ᵀ‖."""
    return difference(W, best) / float(np.linalg.norm(best, 2) ** 2)


TARGETS: dict[str, Callable[[Any], Any]] = {
    "LDA": ls.targets.lda,
    "CCA": ls.targets.cca,
    "OPLS": ls.targets.opls,
    "HSL clique": partial(ls.targets.hsl, laplacian="clique"),
    "HSL star": partial(ls.targets.hsl, laplacian="star"),
    "HSL Zhou": partial(ls.targets.hsl, laplacian="zhou"),
}
"""Functions that turn labels into targets, by technique."""


def dense_targets(H: Any) -> np.ndarray:
    """H as an array."""
    return np.asarray(ls.as_operator(H).dense())


@dataclass(frozen=True)
class Rows:
    """The singular value decomposition of centred rows, over the singular values above rounding."""

    U: np.ndarray
    s: np.ndarray
    Vt: np.ndarray

    @classmethod
    def of(cls, X: Any) -> Rows:
        """Decompose rows that are not centred yet."""
        A = X.toarray() if scipy.sparse.issparse(X) else X
        U, s, Vt = np.linalg.svd(A - A.mean(axis=0), full_matrices=False)
        rank = int(np.sum(s > max(A.shape) * np.finfo(float).eps * s[0]))
        return cls(U[:, :rank], s[:rank], Vt[:rank])

    def oracle(self, H: np.ndarray, ridge: float, k: int | None = None) -> np.ndarray:
        """W₀ for targets and a ridge."""
        H, root = H - H.mean(axis=0), np.sqrt(self.s**2 + ridge)
        _, b, VBt = np.linalg.svd((H.T @ self.U) * (self.s / root), full_matrices=False)
        return np.asarray(self.Vt.T @ (VBt[b > NO_DIRECTION * b[0]][:k].T / root[:, None]))

    def condition(self, ridge: float) -> float:
        """Condition number of XᵀX + γI within the span of the rows."""
        return float((self.s[0] ** 2 + ridge) / (self.s[-1] ** 2 + ridge))


class Columns(NamedTuple):
    """The result and the cost of LSQR column by column."""

    weights: np.ndarray | None
    """None where only some columns were solved."""
    eigenvalues: np.ndarray | None
    columns: int
    solved: int
    sweeps: float
    """Sweeps for all columns; estimated from the mean if only some were solved."""
    seconds: float
    cpu: float


def by_columns(X: Any, H: Any, ridge: float, k: int | None, sample: int | None = None) -> Columns:
    """Two stages as published, on all columns of H or on some of them; seconds and sweeps are of all."""
    whole, solving = Stopwatch(), Stopwatch()
    few = sample is not None and sample < H.shape[1]
    with whole:
        mean = np.asarray(X.mean(axis=0)).ravel()
        XT = X.T.tocsr() if scipy.sparse.issparse(X) else X.T
        A = scipy.sparse.linalg.LinearOperator(
            X.shape,
            matvec=lambda v: X @ v - mean @ v,
            rmatvec=lambda u: XT @ u - mean * u.sum(),
            dtype=np.float64,
        )
        B = dense_targets(H)
        t = B.shape[1]
        chosen = np.random.default_rng(SEED).choice(t, sample, replace=False) if few else np.arange(t)
        W, sweeps = np.empty((X.shape[1], len(chosen))), 0
        with solving:
            for i, column in enumerate(chosen):
                W[:, i], _, steps = scipy.sparse.linalg.lsqr(
                    A, B[:, column], np.sqrt(ridge), LSQR_TOL, LSQR_TOL, conlim=0, iter_lim=20_000
                )[:3]
                sweeps += steps
        weights = values = None
        if not few:
            D = W.T @ (XT @ B - np.outer(mean, B.sum(axis=0)))
            values, vectors = np.linalg.eigh((D + D.T) / 2)
            order = np.argsort(-values)[:k]
            order = order[values[order] > 1e-12 * values[order[0]]]
            weights, values = W @ (vectors[:, order] / np.sqrt(values[order])), values[order]
    share = t / len(chosen)
    clock, cpu = (getattr(whole, name) + (share - 1) * getattr(solving, name) for name in ("clock", "cpu"))
    return Columns(weights, values, t, len(chosen), sweeps * share, clock, cpu)
