"""The exact answer and the law of multiset CCA, computed a second time by NumPy alone; and the law of SUMCOR.

No oracle knows the best components of SUMCOR. It is known that the sums of the cases come from what the views have in
common, so that there are as many components as common variables; that scores are orthonormal; and an upper bound, from
the eigenvalues of the whitened cross matrices.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import scipy.linalg

from linspec.arrays import HostArray
from linspec.testing import (
    ROUNDING,
    Case,
    Law,
    Reading,
    Spectrum,
    as_host,
    precision,
    shift_of,
    spectral_testing,
)


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


# ---- SUMCOR ---------------------------------------------------------------------------------------


class SumcorOracle:
    """Facts that are known about the components of a case.

    Parameters
    ----------
    case : Case
    reading : Reading
    """

    def __init__(self, case: Case, reading: Reading) -> None:
        views, given = [A.astype(np.float64) for A in case.arrays.values()], precision(case)
        center, ridge = bool(case.parameters["center"]), case.parameters["ridge"]
        self.unit = reading.rounding(given, max(map(shift_of, views)) if center else 1.0)
        self.k, self.in_metric = int(case.parameters["k"]), 1.0
        ridges = ridge if isinstance(ridge, tuple | list) else (ridge,) * len(views)
        self.turns, bases = list[HostArray](), list[HostArray]()  # Tᵢ with TᵢᵀSᵢTᵢ = I, and XᵢTᵢ
        for A, r in zip(views, ridges, strict=True):
            X = A - A.mean(axis=0) if center else A
            S = X.T @ X + r * np.eye(X.shape[1])
            size = np.sqrt(np.diag(S))
            values, vectors = np.linalg.eigh(S / np.outer(size, size))
            T = vectors / np.sqrt(values) / size[:, None]
            sizes = np.einsum("ij,ij->j", np.abs(T), np.abs(S) @ np.abs(T))
            self.in_metric = max(self.in_metric, float(sizes.max()))
            self.turns.append(T)
            bases.append(X @ T)
        self.cross = [[B.T @ C * (B is not C) for C in bases] for B in bases]
        ranks = [int(np.sum(np.linalg.svd(np.hstack(C), compute_uv=False) > 100 * given)) for C in self.cross]
        self.count = min(self.k, *ranks)
        self.most = len(views) * float(np.linalg.eigvalsh(np.block(self.cross))[-1]) / 2

    @property
    def attainable(self) -> float:
        """The residual that rounding alone may leave."""
        return ROUNDING * self.unit * self.in_metric

    def _whitened(self, solution: Any) -> tuple[list[HostArray], list[HostArray]]:
        """Return the weights in coordinates where each Sᵢ is the identity, and their products with the others."""
        u = [np.linalg.solve(T, as_host(W)) for T, W in zip(self.turns, solution.weights, strict=True)]
        return u, [np.hstack(C) @ np.vstack(u) for C in self.cross]

    def law(self, solution: Any) -> Law:
        """Compute the largest length of gᵢ − |gᵢ|uᵢ over all views, divided by twice the first sum."""
        sums = as_host(solution.sums)
        if not len(sums):
            return Law(0.0, self.attainable)
        squares = np.zeros(len(sums))
        for own, products in zip(*self._whitened(solution), strict=True):
            for c in range(len(sums)):
                before = own[:, :c]
                g = products[:, c] - before @ (before.T @ products[:, c])
                squares[c] += np.sum((g - np.linalg.norm(g) * own[:, c]) ** 2)
        scale = 2 * float(sums[0])
        return Law(float(np.sqrt(squares.max())) / scale, self.attainable * len(self.turns) / scale)

    def errors(self, solution: Any) -> list[str]:
        """Describe what contradicts the definition of the components."""
        sums, bounds, found = as_host(solution.sums), as_host(solution.bounds), list[str]()
        if len(sums) != self.count:
            return [f"there are {self.count} components to return; got {len(sums)}"]
        u, products = self._whitened(solution)
        rounding = self.attainable * len(u) ** 2
        exact = np.sum(np.vstack(u) * np.vstack(products), axis=0) / 2
        if not np.abs(sums - exact).max(initial=0.0) <= rounding:
            found.append(
                f"a sum is wrong by {np.abs(sums - exact).max():.2g}; rounding explains {rounding:.2g}"
            )
        crooked = max(np.abs(part.T @ part - np.eye(len(sums))).max(initial=0.0) for part in u)
        if not crooked <= rounding:
            found.append(f"scores must be orthonormal; the Gram matrix differs from I by {crooked:.2g}")
        if not (np.all(bounds >= sums) and np.all(bounds <= self.most + rounding)):
            found.append(f"bounds must be from the sums to {self.most:.6g}; got {bounds}")
        return found


SUMCOR = replace(
    spectral_testing(
        "sumcor-cca",
        exact,
        residual,
        views=3,
        parameters={"ridge": 20.0},
        residual_kinds=frozenset({"exact"}),
    ),
    oracle=SumcorOracle,
    start_case=None,
)
"""The testing of SUMCOR, with the cases of a spectrum."""
