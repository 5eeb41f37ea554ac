"""Regression models whose truth is known: the risk of an estimate is a number, not a guess.

Problem: say what an approximate solution of a ridge regression costs as a *prediction*, on data whose
spectrum is steep, flat, or flat but for a few directions.
Method: y = Aβ + ε with a fixed matrix A = U D Vᵀ of chosen singular values, random orthonormal U and V, random
coefficients β and Gaussian noise. Drawn from its singular value decomposition, a matrix has every risk in
closed form.
Source: Lu 2015, Fast linear algorithms for machine learning (thesis, University of Pennsylvania), section
2.4.1 (the three models) and Theorem 2.3.3 (the risk of ridge regression).
Where we differ: the thesis states a ridge as λ, with nλ added to AᵀA; here a ridge is r = nλ, what is added.
It prints neither the small singular values of its first model nor the variance of its noise: U(0.5, 13.8) and
σ = 1 are our choice. Lemma 2.3.2, which leads to the theorem, has nλ² where n²λ² is meant; the theorem is right.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from linspec.arrays import HostArray, is_array, to_host
from linspec.errors import InvalidProblem, NonFiniteData

__all__ = ["RegressionModel", "flat_spectrum", "spiked_spectrum", "steep_spectrum"]

COEFFICIENTS = (-2.5, 2.5)
"""The interval from which coefficients are drawn."""

STEEP = 1.3 ** np.arange(40.0, 10.0, -1.0)
"""The thirty leading singular values of the first model."""

SPIKES = 15
"""The singular values of the third model that stand out."""

SPIKE = 10.0
"""By how much they do."""


@dataclass(frozen=True, eq=False)
class RegressionModel:
    """y = Aβ + ε with fixed A, known β and Gaussian noise; made by `steep_spectrum` and its like.

    Attributes
    ----------
    A : numpy.ndarray of shape (n, p)
        The matrix, float64.
    beta : numpy.ndarray of shape (p,)
        The true coefficients.
    singular_values : numpy.ndarray of shape (p,)
        Of A, in decreasing order.
    alpha : numpy.ndarray of shape (p,)
        The true coefficients in the basis of the right singular vectors, Vᵀβ.
    sigma : float
        Standard deviation of the noise.

    Examples
    --------
    >>> import linspec
    >>> model = linspec.datasets.flat_spectrum(0, n=60, p=20)
    >>> solution = linspec.solve(linspec.LeastSquares(model.A, model.draw(1), ridge=1.0), "direct")
    >>> 0.1 < model.risk(solution.x) / model.ridge_risk(1.0) < 10
    True
    """

    A: HostArray
    beta: HostArray
    singular_values: HostArray
    alpha: HostArray
    sigma: float

    @property
    def mean(self) -> HostArray:
        """The expectation of y, Aβ: the best prediction there is. Shape (n,)."""
        return self.A @ self.beta

    def draw(self, rng: Any = None) -> HostArray:
        """Responses with fresh noise.

        Parameters
        ----------
        rng : None, int or numpy.random.Generator
            A generator goes on from where it is: one draw after another differs.

        Returns
        -------
        numpy.ndarray of shape (n,)
        """
        noise = np.random.default_rng(rng).standard_normal(self.A.shape[0])
        drawn: HostArray = self.mean + self.sigma * noise
        return drawn

    def risk(self, x: Any) -> Any:
        """How far the predictions of given coefficients are from the expectation of y: ‖Aβ − A x‖² / n.

        Parameters
        ----------
        x : array of shape (p,) or (p, m)
            One estimate of β, or one a column.

        Returns
        -------
        float, or numpy.ndarray of shape (m,)

        Raises
        ------
        InvalidProblem
            x has another number of rows than β.
        """
        x = to_host(x) if is_array(x) else np.asarray(x, dtype=np.float64)
        n, p = self.A.shape
        if x.ndim not in {1, 2} or x.shape[0] != p:
            raise InvalidProblem(
                f"x must have the shape of β, ({p},), or one estimate a column, ({p}, m); got {x.shape}. Pass "
                "solution.x of one ridge."
            )
        gap = self.A @ (x.T - self.beta).T
        risks = np.sum(gap * gap, axis=0) / n
        return float(risks) if x.ndim == 1 else risks

    def ridge_risk(self, ridge: float) -> float:
        """The expected risk of exact ridge regression, over the noise.

        Parameters
        ----------
        ridge : float
            r, what is added to the diagonal of AᵀA; 0 for plain least squares.

        Returns
        -------
        float
            (1/n) Σᵢ (dᵢ⁴σ² + r²dᵢ²αᵢ²) / (dᵢ² + r)², with dᵢ the singular values and αᵢ the coefficients in
            the basis of the right singular vectors: what the noise adds, and what shrinkage takes away.

        Raises
        ------
        InvalidProblem
            The ridge is negative, infinite or not a number.
        """
        ridge = _number(ridge, "ridge", at_least=0.0)
        squares = self.singular_values**2
        total = squares + ridge
        safe = np.where(total > 0, total, 1.0)  # a direction without a singular value contributes nothing
        noise = (squares / safe * self.sigma) ** 2
        shrinkage = squares * (ridge / safe * self.alpha) ** 2
        return float(np.sum(noise + shrinkage) / self.A.shape[0])


def steep_spectrum(
    seed: Any = None,
    *,
    n: int = 2000,
    p: int = 1500,
    tail: tuple[float, float] = (0.5, 13.8),
    sigma: float = 1.0,
) -> RegressionModel:
    """A steep spectrum: thirty singular values that fall by a factor of 1.3 each, and many small ones.

    Principal components hold almost all of A; gradient descent is slow. Model 1 of Lu 2015, section 2.4.1.

    Parameters
    ----------
    seed : None, int or numpy.random.Generator
        Of A and β.
    n, p : int, default 2000 and 1500
        Rows and columns, n ≥ p ≥ 30.
    tail : pair of floats, default (0.5, 13.8)
        The interval from which the other singular values are drawn uniformly. The thesis does not print it.
        It must end below the least of the thirty, 1.3¹¹ ≈ 17.9.
    sigma : float, default 1.0
        Standard deviation of the noise, which the thesis does not print either.

    Returns
    -------
    RegressionModel
        With singular values 1.3⁴⁰, 1.3³⁹, …, 1.3¹¹ and the tail, all coefficients from U(−2.5, 2.5).

    Raises
    ------
    InvalidProblem
        For sizes, a tail or a sigma out of range.
    """
    n, p = _sizes(n, p, least=len(STEEP))
    low, high = _tail(tail)
    rng = np.random.default_rng(seed)
    return _rotated(rng, n, np.concatenate([STEEP, _uniform(rng, low, high, p - len(STEEP))]), sigma)


def flat_spectrum(seed: Any = None, *, n: int = 2000, p: int = 1500, sigma: float = 1.0) -> RegressionModel:
    """A flat spectrum: all singular values within a factor of two.

    The signal lies in all directions alike: gradient descent is fast, principal components miss most of it.
    Model 2 of Lu 2015, section 2.4.1.

    Parameters
    ----------
    seed : None, int or numpy.random.Generator
        Of A and β.
    n, p : int, default 2000 and 1500
        Rows and columns, n ≥ p ≥ 1.
    sigma : float, default 1.0
        Standard deviation of the noise, which the thesis does not print.

    Returns
    -------
    RegressionModel
        With singular values from U(√n/2, √n), all coefficients from U(−2.5, 2.5).

    Raises
    ------
    InvalidProblem
        For sizes or a sigma out of range.
    """
    n, p = _sizes(n, p, least=1)
    rng = np.random.default_rng(seed)
    return _rotated(rng, n, _flat(rng, n, p), sigma)


def spiked_spectrum(seed: Any = None, *, n: int = 2000, p: int = 1500, sigma: float = 1.0) -> RegressionModel:
    """A flat spectrum with fifteen singular values ten times as large, and a signal there and at the other end.

    Neither gradient descent nor principal components suffice alone. Model 3 of Lu 2015, section 2.4.1.

    Parameters
    ----------
    seed : None, int or numpy.random.Generator
        Of A and β.
    n, p : int, default 2000 and 1500
        Rows and columns, n ≥ p ≥ 45.
    sigma : float, default 1.0
        Standard deviation of the noise, which the thesis does not print.

    Returns
    -------
    RegressionModel
        With singular values from U(√n/2, √n), the largest fifteen multiplied by ten, and orthogonal columns,
        A = U D. Coefficients are from U(−2.5, 2.5) in the first fifteen places and in the last two thirds of
        them (1000 of 1500), and 0 elsewhere.

    Raises
    ------
    InvalidProblem
        For sizes or a sigma out of range.
    """
    n, p = _sizes(n, p, least=3 * SPIKES)
    sigma = _number(sigma, "sigma", at_least=0.0)
    rng = np.random.default_rng(seed)
    singular_values = _flat(rng, n, p)
    singular_values[:SPIKES] *= SPIKE
    beta = rng.uniform(*COEFFICIENTS, size=p)
    beta[SPIKES : p - 2 * p // 3] = 0.0
    A = _orthonormal(rng, n, p) * singular_values
    return RegressionModel(A, beta, singular_values, beta.copy(), sigma)


# ---- drawing ---------------------------------------------------------------------------------------


def _rotated(rng: np.random.Generator, n: int, singular_values: HostArray, sigma: float) -> RegressionModel:
    """A = U D Vᵀ with random U and V, and coefficients in all places."""
    sigma = _number(sigma, "sigma", at_least=0.0)
    p = len(singular_values)
    beta = rng.uniform(*COEFFICIENTS, size=p)
    U, V = _orthonormal(rng, n, p), _orthonormal(rng, p, p)
    return RegressionModel((U * singular_values) @ V.T, beta, singular_values, V.T @ beta, sigma)


def _orthonormal(rng: np.random.Generator, n: int, p: int) -> HostArray:
    """Orthonormal columns from the Haar distribution: without the signs QR would prefer some of them."""
    Q, R = np.linalg.qr(rng.standard_normal((n, p)))
    turned: HostArray = Q * np.where(np.diag(R) < 0, -1.0, 1.0)
    return turned


def _flat(rng: np.random.Generator, n: int, p: int) -> HostArray:
    return _uniform(rng, math.sqrt(n) / 2, math.sqrt(n), p)


def _uniform(rng: np.random.Generator, low: float, high: float, count: int) -> HostArray:
    """Uniform numbers in decreasing order."""
    return np.sort(rng.uniform(low, high, size=count))[::-1].copy()


# ---- arguments -------------------------------------------------------------------------------------


def _sizes(n: int, p: int, least: int) -> tuple[int, int]:
    for name, size in (("n", n), ("p", p)):
        if isinstance(size, bool) or not isinstance(size, int | np.integer):
            raise InvalidProblem(f"{name} must be a whole number; got {size!r}. Pass an int.")
    if not n >= p >= least:
        raise InvalidProblem(
            f"a model of this kind needs n ≥ p ≥ {least}; got n={n}, p={p}. Take more rows, or other columns."
        )
    return int(n), int(p)


def _tail(tail: Any) -> tuple[float, float]:
    if not isinstance(tail, tuple | list) or len(tail) != 2:
        raise InvalidProblem(f"tail must be a pair of numbers; got {tail!r}. Pass (lowest, highest).")
    low, high = (_number(end, "tail", at_least=0.0) for end in tail)
    if not low <= high < STEEP[-1]:
        raise InvalidProblem(
            f"tail must lie below the leading singular values, lowest ≤ highest < {STEEP[-1]:.4g}; got "
            f"({low:g}, {high:g}). Shorten it."
        )
    return low, high


def _number(value: Any, name: str, at_least: float) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating):
        raise InvalidProblem(f"{name} must be a number; got {value!r}. Pass a float.")
    if not math.isfinite(value):
        raise NonFiniteData(f"{name} must be finite; got {value!r}.")
    if value < at_least:
        raise InvalidProblem(f"{name} must be at least {at_least:g}; got {value!r}.")
    return float(value)
