"""The exact answer and the law of multiset CCA, computed a second time by NumPy alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import scipy.linalg

from linspec.arrays import HostArray
from linspec.testing import Spectrum, spectral_testing


def _pencil(views: Sequence[HostArray], parameters: Mapping[str, Any]) -> tuple[HostArray, HostArray]:
    """Return A and B from their definitions."""
    ridge = parameters["ridge"]
    ridges = ridge if isinstance(ridge, tuple | list) else (ridge,) * len(views)
    weights = parameters.get("view_weights") or (1.0,) * len(views)
    metrics = [X.T @ X + r * np.eye(X.shape[1]) for X, r in zip(views, ridges, strict=True)]
    B = scipy.linalg.block_diag(*(w * S for w, S in zip(weights, metrics, strict=True)))
    Z = np.hstack([w * X for w, X in zip(weights, views, strict=True)])
    A = Z.T @ Z
    start = 0
    for S, w in zip(metrics, weights, strict=True):
        stop = start + len(S)
        A[start:stop, start:stop] = w**2 * S
        start = stop
    return A, B


def exact(views: Sequence[HostArray], parameters: Mapping[str, Any]) -> Spectrum:
    """Return all solutions of A w = λ B w for a B that is not singular."""
    A, B = _pencil(views, parameters)
    size = np.sqrt(np.diag(B))  # columns in other units lose no digits
    values, vectors = scipy.linalg.eigh(A / np.outer(size, size), B / np.outer(size, size))
    vectors = vectors[:, ::-1] / size[:, None]
    largest = float(sum(parameters.get("view_weights") or (1.0,) * len(views)))
    return Spectrum(values[::-1], {"weights": vectors}, scale=largest, metrics={"weights": B})


def residual(views: Sequence[HostArray], parameters: Mapping[str, Any], answer: Any) -> float:
    """Return the largest ‖A w − λ B w‖ in the norm of B⁻¹, divided by λ₁."""
    values, W = answer.eigenvalues, answer.weights
    if not len(values):
        return 0.0
    A, B = _pencil(views, parameters)
    R = A @ W - B @ W * values
    size = np.sqrt(np.diag(B))[:, None]
    half = scipy.linalg.solve_triangular(np.linalg.cholesky(B / size / size.T), R / size, lower=True)
    return float(np.linalg.norm(half, axis=0).max() / values.max())


TESTING = spectral_testing(
    "multiset-cca",
    exact,
    residual,
    views=3,
    parameters={"ridge": 0.5},
    residual_kinds=frozenset({"exact", "preconditioned"}),
)
