"""Facts about least squares that measuring scripts compute without linspec: the law, the optimum.

Problem: a figure that a solver reports about itself proves nothing, and f(x) − f(x*) cancels to nothing.
Method: the residual is recomputed from data and answer by NumPy and SciPy alone. The objective's distance from
its least value is the quadratic form (x − x*)ᵀ(AᵀA + rI)(x − x*) = ‖A(x − x*)‖² + r‖x − x*‖², which does not
cancel. x* comes from a QR decomposition, from a refined Cholesky factorisation, or from conjugate gradients run to
the end, whichever the size allows.
Source: Golub & Van Loan (2013), sections 5.3 and 11.3.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse

QR_ROWS = 200_000
"""Rows up to which a dense reference is taken from a QR decomposition."""


def residual(A: Any, B: np.ndarray, x: np.ndarray, ridge: float) -> float:
    """max over columns of ‖Aᵀ(b − A x) − ridge x‖ / ‖Aᵀb‖."""
    B, x = B.reshape(len(B), -1), np.asarray(x, dtype=np.float64).reshape(A.shape[1], -1)
    gaps = np.linalg.norm(A.T @ (B - A @ x) - ridge * x, axis=0)
    scales = np.linalg.norm(A.T @ B, axis=0)
    return max(0.0 if gap == 0 else float(gap / scale) for gap, scale in zip(gaps, scales, strict=True))


def objective(A: Any, B: np.ndarray, x: np.ndarray, ridge: float) -> float:
    """‖A x − B‖² + ridge ‖x‖²."""
    B = B.reshape(len(B), -1)
    return float(np.sum((A @ x - B) ** 2) + ridge * np.sum(x**2))


def above(A: Any, x: np.ndarray, best: np.ndarray, ridge: float) -> float:
    """f(x) − f(best) for the minimiser `best`, without cancellation."""
    gap = np.asarray(x, dtype=np.float64).reshape(best.shape) - best
    return float(np.sum((A @ gap) ** 2) + ridge * np.sum(gap**2))


def reference(A: Any, B: np.ndarray, ridge: float) -> np.ndarray:
    """The minimiser for a positive ridge, p x m."""
    B = B.reshape(len(B), -1)
    if scipy.sparse.issparse(A):
        return iterated(A, B, ridge)
    return by_qr(A, B, ridge) if len(A) <= QR_ROWS else by_cholesky(A, B, ridge)


def by_qr(A: np.ndarray, B: np.ndarray, ridge: float) -> np.ndarray:
    """The ridge enters as rows; one step of refinement."""
    p = A.shape[1]
    root = np.sqrt(ridge)
    Q, R = np.linalg.qr(np.vstack([A, root * np.eye(p)]))
    x = scipy.linalg.solve_triangular(R, Q[: len(A)].T @ B)
    rest = Q[: len(A)].T @ (B - A @ x) - Q[len(A) :].T @ (root * x)
    return x + scipy.linalg.solve_triangular(R, rest)


def by_cholesky(A: np.ndarray, B: np.ndarray, ridge: float) -> np.ndarray:
    """For tall data of moderate condition: two steps of refinement against the data themselves."""
    factor = scipy.linalg.cho_factor(A.T @ A + ridge * np.eye(A.shape[1]))
    x = scipy.linalg.cho_solve(factor, A.T @ B)
    for _ in range(2):
        x = x + scipy.linalg.cho_solve(factor, A.T @ (B - A @ x) - ridge * x)
    return x


def iterated(A: Any, B: np.ndarray, ridge: float, tol: float = 1e-13, steps: int = 5000) -> np.ndarray:
    """Conjugate gradients on the normal equations, each column its own step lengths."""
    transpose = A.T.tocsr()
    x = np.zeros((A.shape[1], B.shape[1]))
    r = transpose @ B
    p, rr = r, np.sum(r * r, axis=0)
    least = tol**2 * rr
    for _ in range(steps):
        if (rr <= least).all():
            break
        Mp = transpose @ (A @ p) + ridge * p
        a = np.where(rr > least, rr, 0.0) / np.maximum(np.sum(p * Mp, axis=0), 1e-300)
        x, r = x + a * p, r - a * Mp
        rr, old = np.sum(r * r, axis=0), rr
        p = r + p * (rr / np.maximum(old, 1e-300))
    return x
