"""The truth about kernel CCA in extended precision: kernels by their formulas, pair by pair of rows.

Method: K = U diag(w) Uᵀ is the centred kernel matrix, so U diag(√w) is a matrix of features, and kernel CCA is the
CCA of these features. A function Σ aᵢ k(·, xᵢ) has the feature weights √w Uᵀa.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from linspec.features import KernelMap
from linspec.kernels import RBF, Linear, Polynomial
from linspec_fuzz.adjusted import Adjusted
from linspec_fuzz.extended import EPS, Extended, extended, svd
from linspec_fuzz.truth import PERTURBATION, CCATruth, Findings, TrueView, Truth, host, length, ratio

__all__ = ["KernelCCATruth", "KernelRidgeTruth", "kernel_matrix"]


EQUAL = 1e-7
"""Rows count as equal if their relative distance is below this, the error of distances computed from products."""


def kernel_matrix(kernel: Any, A: Extended) -> Extended:
    """Compute a linear, polynomial, Gaussian or Laplacian kernel for all pairs of rows."""
    if isinstance(kernel, Linear | Polynomial):
        products = A @ A.T
        if isinstance(kernel, Linear):
            return products
        gamma = extended(kernel.gamma) if not isinstance(kernel.gamma, str) else None
        if gamma is None:
            mean = np.mean(np.sum(A * A, axis=1))
            gamma = 1 / mean if mean > 0 else extended(0)  # rows of zeros are refused
        powers: Extended = (gamma * products + extended(kernel.offset)) ** kernel.degree
        return powers
    gaps = A[:, None, :] - A[None, :, :]
    gaussian = isinstance(kernel, RBF)
    distances = np.sqrt(np.sum(gaps * gaps, axis=2)) if gaussian else np.sum(np.abs(gaps), axis=2)
    scale = kernel.scale
    if isinstance(scale, str):
        scale = _median(distances[np.triu_indices(len(A), 1)]) * kernel.factor
    relative = distances / scale if scale > 0 else 0 * distances
    values: Extended = np.exp(-relative * relative / 2) if gaussian else np.exp(-relative)
    return values


def _median(distances: Extended) -> Any:
    """Return the median distance, or the median over pairs of different rows if most pairs are equal."""
    differ = distances > EQUAL * np.max(distances, initial=0)
    most_are_equal = differ.any() and 2 * np.count_nonzero(differ) < len(distances)
    return np.median(distances[differ] if most_are_equal else distances) if len(distances) else extended(0)


def with_rounding(K: Extended, unit: float) -> Extended:
    """Return a kernel matrix perturbed by rounding of its entries, relative to k(x, x) and k(z, z)."""
    noise = extended(np.random.default_rng(1).standard_normal(K.shape))
    roots = np.sqrt(np.diag(K))
    off: Extended = K + PERTURBATION * unit * (noise + noise.T) / 2 * np.outer(roots, roots)
    return off


class KernelView(TrueView):
    """One view, given by the eigenvectors of its centred kernel matrix; weights are coefficients of the rows."""

    @classmethod
    def of(cls, K: Extended, ridge: float, *, center: bool) -> KernelView:
        """Make the view of a kernel matrix."""
        trace = np.sum(np.diag(K))
        if center:
            K = K - K.mean(axis=0)
            K = K - K.mean(axis=1)[:, None]
        U, w, _ = svd((K + K.T) / 2)
        live = w > 100 * EPS * trace
        ones = np.ones(len(K), np.longdouble)
        return cls(
            U[:, live], np.sqrt(w[live]), U[:, live], ones, ridge, Adjusted(K, ones, ones > 0, 0 * ones, 1.0)
        )

    def coordinates(self, W: Extended) -> tuple[Extended, Extended]:
        inside = (self.shrunk * self.s)[:, None] * (self.U.T @ W)
        return inside, np.zeros((0, W.shape[1]), np.longdouble)

    def weights(self, a: Extended) -> Extended:
        found: Extended = self.U @ (a / (self.shrunk * self.s)[:, None])
        return found


class KernelCCATruth(CCATruth):
    """Truth about the k leading pairs of functions; the loss is defined as for CCA."""

    def _read(self, data: Mapping[str, Extended], views: Any) -> list[Any]:
        given = self.case.parameters
        kernel_x = given["kernel_x"]
        both = []
        for name, kernel, ridge in zip(
            "XY", (kernel_x, given.get("kernel_y") or kernel_x), self._ridges, strict=True
        ):
            K = kernel_matrix(kernel, data[name])
            if views is not None:
                K = with_rounding(K, self.case.matrices[name].precision)
            both.append(KernelView.of(K, ridge, center=self.center))
        return [self._pair(*both)]

    def _columns(self, solution: Any) -> dict[str, float]:
        return {}

    def lies_in_the_spaces(self, solution: Any) -> bool:
        """Whether the functions of a solution are combinations of kernel functions at rows.

        False for functions of random features. The law is not defined for these functions, and is not computed.
        """
        return isinstance(solution.x_map.map, KernelMap)

    def answer(self, solution: Any) -> dict[str, Any]:
        n = len(self.exact["X"])
        found = super().answer(solution)
        for view in "xy":
            name = f"{view}_weights"
            if not self.lies_in_the_spaces(solution):
                found[name] = np.zeros((n, len(solution.correlations)), np.longdouble)
                continue
            landmarks = getattr(solution, f"{view}_landmarks")
            if landmarks is not None:
                scattered = np.zeros((n, found[name].shape[1]), np.longdouble)
                scattered[landmarks] = found[name]
                found[name] = scattered
            if self.center:
                found[name] = found[name] - found[name].mean(axis=0)
        return found


class KernelRidgeTruth(Truth):
    """Kernel ridge regression: (M + r) b = T with centred and weighted M and T. The law bounds what fits lose."""

    centers = False

    def _read(self, data: Mapping[str, Extended], views: Any) -> list[Any]:
        K = kernel_matrix(self.case.parameters["kernel"], data["X"])
        K = K if views is None else with_rounding(K, self.case.precision)
        rows = self.rows(data)
        roots = rows.roots
        H = np.eye(len(K)) - (roots @ roots.T / np.sum(roots**2) if self.center else 0)
        return [(K, H @ (roots * K * roots.T) @ H, rows.adjusted(data["Y"]).entries, roots, data["Y"])]

    def _views(self, reading: Any) -> Any:
        return 0

    @property
    def ridges(self) -> Extended:
        return np.atleast_1d(extended(self.case.parameters["ridge"]))

    def _exact(self, reading: Any) -> list[Extended]:
        """Return b for each ridge."""
        _, M, T, _, _ = reading
        U, s, _ = svd((M + M.T) / 2)
        return [(T - U @ ((s / (s + r))[:, None] * (U.T @ T))) / r for r in self.ridges]

    def _intercept(self, reading: Any, a: Extended) -> Extended:
        K, _, _, roots, Y = reading
        found: Extended = np.sum(roots**2 * (Y - K @ a), axis=-2) / np.sum(roots**2)
        return found if self.center else 0 * found

    def _best(self, reading: Any) -> dict[str, Extended]:
        dual = reading[3] * np.array(self._exact(reading))
        return {"dual": dual, "intercept": self._intercept(reading, dual)}

    def answer(self, solution: Any) -> dict[str, Any]:
        shape = len(self.ridges), len(self.exact["X"]), -1
        found: dict[str, Any] = {"dual": host(solution.dual).reshape(shape)}
        for name in ("intercept", "bounds"):
            value = getattr(solution, name)
            found[name] = 0 if value is None else host(value).reshape(len(self.ridges), -1)
        return found

    def judge(self, reading: Any, answer: Mapping[str, Any]) -> Findings:
        _, M, T, roots, Y = reading
        size, law, low = np.sqrt(np.sum(T**2, axis=0)), 0.0, 0.0
        dual, bounds = answer["dual"], answer.get("bounds", [np.inf] * len(self.ridges))
        for r, a, bound, exact in zip(self.ridges, dual, bounds, self._exact(reading), strict=True):
            b = np.divide(
                a, roots, out=1e300 * extended(a), where=roots > 0
            )  # no row of weight 0 has a coefficient
            b = np.where(a == 0, 0, b)
            law = max(law, *map(ratio, np.sqrt(np.sum((T - M @ b - r * b) ** 2, axis=0)), size))
            error, whole = (np.sqrt(np.maximum(np.sum(x * (M @ x), axis=0), 0)) for x in (b - exact, exact))
            low = max(low, *map(ratio, np.maximum(error - 1.01 * extended(bound), 0), whole))
        off = length(self._intercept(reading, dual) - answer["intercept"])
        notes = {
            "bounds are below the error": low,
            "intercept is off": ratio(off, length(Y) / np.sqrt(len(Y))),
        }
        return Findings(law=law, loss=0.0, notes=notes)
