"""What the measuring scripts know of discriminant subspaces without asking linspec: distance, optimum, the old way.

Problem: how far WWᵀ is from W₀W₀ᵀ, both p x p and of low rank, and what W₀ is.
Method: with [W W₀] = QR the difference is Q R diag(I, −I) Rᵀ Qᵀ, whose norm is that of the small matrix in the middle.
W₀ comes from the singular value decomposition X = UΣVᵀ of the centred data, as V(Σ² + γ)^(-1/2) P with the left
singular vectors P of Σ(Σ² + γ)^(-1/2) UᵀH. `by_columns` is the two-stage method as it was published: LSQR for one
column of H after the other, then the eigenvectors of W₁ᵀXᵀH.
Source: Sun, Ceran & Ye 2010, doi:10.1145/1835804.1835846, Theorem 4 and Algorithm 2.
"""

from __future__ import annotations

import resource
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.linalg
import scipy.sparse.linalg

import linspec as ls

LSQR_TOL = 1e-10
"""Of SciPy's lsqr, atol and btol."""

SEED = 20_240_101


def distance(W: np.ndarray, best: np.ndarray) -> float:
    """‖WWᵀ − W₀W₀ᵀ‖ / ‖W₀W₀ᵀ‖ in the spectral norm."""
    R = np.linalg.qr(np.hstack([W, best]), mode="r")
    signs = np.repeat([1.0, -1.0], [W.shape[1], best.shape[1]])
    return float(np.abs(np.linalg.eigvalsh((R * signs) @ R.T)).max() / np.linalg.norm(best, 2) ** 2)


def target(labels: Any, technique: str) -> Any:
    """H, by the name of the technique."""
    return getattr(ls.targets, technique)(labels)


def dense_targets(H: Any) -> np.ndarray:
    """H as an array."""
    return np.asarray(ls.as_operator(H).dense())


def by_svd(X: Any, H: np.ndarray, ridge: float, k: int | None) -> np.ndarray:
    """W₀."""
    A = X.toarray() if scipy.sparse.issparse(X) else X
    U, s, Vt = scipy.linalg.svd(A - A.mean(axis=0), full_matrices=False)
    kept = s > max(A.shape) * np.finfo(float).eps * s[0]
    U, s, V = U[:, kept], s[kept], Vt[kept].T
    root = np.sqrt(s**2 + ridge)
    P, values, _ = scipy.linalg.svd((s / root)[:, None] * (U.T @ (H - H.mean(axis=0))), full_matrices=False)
    P = P[:, values > 1e-12 * values[0]][:, :k]
    return np.asarray((V / root) @ P)


class Columns(NamedTuple):
    """What LSQR column by column took."""

    weights: np.ndarray | None
    """None where only some columns were solved."""
    eigenvalues: np.ndarray | None
    columns: int
    solved: int
    sweeps: float
    """Of all columns; from the mean where only some were solved."""
    seconds: float
    cpu: float


def by_columns(X: Any, H: Any, ridge: float, k: int | None, sample: int | None = None) -> Columns:
    """Two stages as published, on all columns of H or on some of them; seconds and sweeps are of all."""
    begin = time.perf_counter(), time.process_time()
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
    few = sample is not None and sample < t
    chosen = np.random.default_rng(SEED).choice(t, sample, replace=False) if few else np.arange(t)
    before = time.perf_counter(), time.process_time()
    W, sweeps = np.empty((X.shape[1], len(chosen))), 0
    for i, column in enumerate(chosen):
        W[:, i], _, steps = scipy.sparse.linalg.lsqr(
            A, B[:, column], np.sqrt(ridge), LSQR_TOL, LSQR_TOL, conlim=0, iter_lim=20_000
        )[:3]
        sweeps += steps
    done = time.perf_counter(), time.process_time()
    times = [(c - b) * t / len(chosen) + b - a for a, b, c in zip(begin, before, done, strict=True)]
    if few:
        return Columns(None, None, t, len(chosen), sweeps * t / len(chosen), *times)
    C = XT @ B - np.outer(mean, B.sum(axis=0))
    D = W.T @ C
    values, vectors = np.linalg.eigh((D + D.T) / 2)
    order = np.argsort(-values)[:k]
    order = order[values[order] > 1e-12 * values[order[0]]]
    rest = time.perf_counter() - done[0], time.process_time() - done[1]
    times = [spent + more for spent, more in zip(times, rest, strict=True)]
    return Columns(W @ (vectors[:, order] / np.sqrt(values[order])), values[order], t, t, sweeps, *times)


def forget_peak() -> float:
    """Begin anew with the largest resident set of this process; what it is now, in mebibytes."""
    Path("/proc/self/clear_refs").write_text("5", "ascii")
    return peak()


def peak() -> float:
    """The largest resident set since `forget_peak`, in mebibytes."""
    lines = Path("/proc/self/status").read_text("ascii").splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM"))


def limit_memory(gigabytes: float) -> None:
    """Above this, allocations fail with a MemoryError instead of bringing the machine down."""
    most = int(gigabytes * 2**30)
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
