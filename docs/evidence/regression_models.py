"""Models of regression with a known risk: spectra that are steep, flat, or flat but for some directions.

Problem: measure the loss in *prediction* of an approximate ridge regression.
Method: y = Aβ + ε with a fixed matrix A = U D Vᵀ of chosen singular values, random orthonormal U and V, random
coefficients β and Gaussian noise. Every risk has a closed form.
Source: Lu 2015, Fast linear algorithms for machine learning (thesis, University of Pennsylvania), section 2.4.1 (the
three models) and Theorem 2.3.3 (the risk of ridge regression).
Where we differ: the thesis states a ridge as λ and adds nλ to AᵀA. Here a ridge is r = nλ, the number that is added.
The thesis gives neither the small singular values of its first model nor the variance of its noise: U(0.5, 13.8) and
σ = 1 are our choice. Lemma 2.3.2, which leads to the theorem, has nλ² instead of n²λ²; the theorem is right.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

# The interval of coefficients, the leading singular values of "steep", the number and factor of those of "spiked".
COEFFICIENTS, STEEP, SPIKES, SPIKE = (-2.5, 2.5), 1.3 ** np.arange(40.0, 10.0, -1.0), 15, 10.0
TAIL = (0.5, 13.8)
"""The interval of the small singular values of "steep"."""


@dataclass(frozen=True, eq=False)
class RegressionModel:
    """A, β, the singular values of A, Vᵀβ, and the deviation of the noise."""

    A: np.ndarray
    beta: np.ndarray
    singular_values: np.ndarray
    alpha: np.ndarray
    sigma: float = 1.0

    @property
    def mean(self) -> np.ndarray:
        """The expectation of y."""
        return self.A @ self.beta

    def draw(self, rng: np.random.Generator) -> np.ndarray:
        """Responses with new noise."""
        return self.mean + self.sigma * rng.standard_normal(self.A.shape[0])

    def risk(self, x: np.ndarray) -> Any:
        """‖Aβ − A x‖² / n, of one estimate or of each column."""
        gap = self.A @ (x.T - self.beta).T
        return np.sum(gap * gap, axis=0) / len(gap)

    def ridge_risk(self, ridge: float) -> float:
        """The expected risk of ridge regression: (1/n) Σᵢ (dᵢ⁴σ² + r²dᵢ²αᵢ²) / (dᵢ² + r)²."""
        squares = self.singular_values**2
        noise = (squares / (squares + ridge) * self.sigma) ** 2
        shrinkage = squares * (ridge / (squares + ridge) * self.alpha) ** 2
        return float(np.sum(noise + shrinkage) / self.A.shape[0])


def model(name: str, rng: np.random.Generator, n: int, p: int) -> RegressionModel:
    """One of the three models: "steep", "flat" or "spiked"."""
    if name == "steep":
        return _rotated(rng, n, np.concatenate([STEEP, _uniform(rng, *TAIL, p - len(STEEP))]))
    values = _uniform(rng, np.sqrt(n) / 2, np.sqrt(n), p)
    if name == "flat":
        return _rotated(rng, n, values)
    values[:SPIKES] *= SPIKE
    beta = rng.uniform(*COEFFICIENTS, size=p)
    beta[SPIKES : p - 2 * p // 3] = 0.0
    return RegressionModel(_orthonormal(rng, n, p) * values, beta, values, beta.copy())


def _rotated(rng: np.random.Generator, n: int, values: np.ndarray) -> RegressionModel:
    """A = U D Vᵀ for random U and V, and all coefficients random."""
    p = len(values)
    beta = rng.uniform(*COEFFICIENTS, size=p)
    U, V = _orthonormal(rng, n, p), _orthonormal(rng, p, p)
    return RegressionModel((U * values) @ V.T, beta, values, V.T @ beta)


def _orthonormal(rng: np.random.Generator, n: int, p: int) -> np.ndarray:
    """Orthonormal columns of the uniform distribution: Q of QR of normal numbers, R with a positive diagonal."""
    Q, R = np.linalg.qr(rng.standard_normal((n, p)))
    return Q * np.where(np.diag(R) < 0, -1.0, 1.0)


def _uniform(rng: np.random.Generator, low: float, high: float, count: int) -> np.ndarray:
    """Uniform numbers, in decreasing order."""
    return np.sort(rng.uniform(low, high, size=count))[::-1].copy()
