"""Data with a known truth: the exact risk of an estimate, and the planted correlations of two views.

Problem: measure the loss in *prediction* of an approximate ridge regression, on data whose spectrum is steep,
flat, or flat except for a few directions. Also provide wide sparse pairs of views, with correlations that are
clearly larger than chance; few such data can be downloaded.
Method: y = Aβ + ε with a fixed matrix A = U D Vᵀ of chosen singular values, random orthonormal U and V,
random coefficients β and Gaussian noise. The matrix is drawn from its singular value decomposition, so every
risk has a closed form. A pair of views simulates words of texts. Each row has a topic, the same in both views.
Some of its words are drawn from the topic. The others are drawn from all words, with frequencies that follow a
power law.
Source: Lu 2015, Fast linear algorithms for machine learning (thesis, University of Pennsylvania), section
2.4.1 (the three models) and Theorem 2.3.3 (the risk of ridge regression). The pairs of views are our own, shaped like
the URL features of its section 3.5.2.
Where we differ: the thesis states a ridge as λ and adds nλ to AᵀA. Here a ridge is r = nλ, the number that is
added. The thesis gives neither the small singular values of its first model nor the variance of its noise:
U(0.5, 13.8) and σ = 1 are our choice. Lemma 2.3.2, which leads to the theorem, has nλ² instead of n²λ²; the
theorem is right.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse

from linspec.arrays import HostArray, random_generator, to_host
from linspec.errors import InvalidProblem
from linspec.registry.options import is_number

__all__ = [
    "RegressionModel",
    "WordViews",
    "flat_spectrum",
    "planted_word_views",
    "spiked_spectrum",
    "steep_spectrum",
]

COEFFICIENTS = (-2.5, 2.5)
"""The interval from which coefficients are drawn."""

STEEP = 1.3 ** np.arange(40.0, 10.0, -1.0)
"""The thirty leading singular values of the model of `steep_spectrum`."""

SPIKES = 15
"""The number of large singular values in the model of `spiked_spectrum`."""

SPIKE = 10.0
"""The factor by which `spiked_spectrum` multiplies the large singular values."""

POWER, OFFSET = 1.1, 50.0
"""The frequency of a word of rank r is proportional to (r + OFFSET)^(-POWER)."""

TOPICAL = 0.1
"""The fraction of the words of a view that belong to topics; the most frequent hundredth of all words never do."""

FEWEST = 20
"""Smallest number of columns that a view must have for each topic.

`TOPICAL` of all columns belong to topics, so that each topic has at least two columns.
"""

ROWS_AT_ONCE = 2**14
"""Number of rows that are drawn together."""


@dataclass(frozen=True, eq=False)
class RegressionModel:
    """y = Aβ + ε with fixed A, known β and Gaussian noise.

    `steep_spectrum`, `flat_spectrum` and `spiked_spectrum` make such models.

    Attributes
    ----------
    A : numpy.ndarray of shape (n, p)
        The matrix, float64.
    beta : numpy.ndarray of shape (p,)
        The true coefficients.
    singular_values : numpy.ndarray of shape (p,)
        The singular values of A, in decreasing order.
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
        """The expectation of y, Aβ, which is the best prediction. Shape (n,)."""
        return self.A @ self.beta

    def draw(self, rng: Any = None) -> HostArray:
        """Draw responses with new noise.

        Parameters
        ----------
        rng : None, int or numpy.random.Generator
            A seed gives the same responses each time. A generator continues, so its draws differ.

        Returns
        -------
        numpy.ndarray of shape (n,)
        """
        noise: HostArray = random_generator(rng).standard_normal(self.A.shape[0])
        return self.mean + self.sigma * noise

    def risk(self, x: Any) -> Any:
        """The mean squared distance of predictions from the expectation of y: ‖Aβ − A x‖² / n.

        Parameters
        ----------
        x : array of shape (p,) or (p, m)
            One estimate of β, or one in each column.

        Returns
        -------
        float, or numpy.ndarray of shape (m,)

        Raises
        ------
        InvalidProblem
            x has another number of rows than β.
        """
        x = to_host(x)
        n, p = self.A.shape
        if x.ndim not in {1, 2} or x.shape[0] != p:
            raise InvalidProblem(
                f"x must have the shape of β, ({p},), or one estimate in each column, ({p}, m); got "
                f"{x.shape}. Pass solution.x of one ridge."
            )
        gap = self.A @ (x.T - self.beta).T
        risks = np.sum(gap * gap, axis=0) / n
        return float(risks) if x.ndim == 1 else risks

    def ridge_risk(self, ridge: float) -> float:
        """The expected risk of exact ridge regression, over the noise.

        Parameters
        ----------
        ridge : float
            r, which is added to the diagonal of AᵀA; 0 for plain least squares.

        Returns
        -------
        float
            (1/n) Σᵢ (dᵢ⁴σ² + r²dᵢ²αᵢ²) / (dᵢ² + r)², with dᵢ the singular values and αᵢ the coefficients in
            the basis of the right singular vectors: the variance from the noise plus the squared bias from
            shrinkage.

        Raises
        ------
        InvalidProblem
            The ridge is negative, infinite or not a number.
        """
        ridge = _number(ridge, "ridge")
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
    """A model with a steep spectrum: thirty singular values that fall by factors of 1.3, and many small ones.

    Few principal components contain almost all of A; gradient descent is slow. Model 1 of Lu 2015, section 2.4.1.

    Parameters
    ----------
    seed : None, int or numpy.random.Generator
        The seed of A and β.
    n, p : int, default 2000 and 1500
        Rows and columns, n ≥ p ≥ 30.
    tail : pair of floats, default (0.5, 13.8)
        The interval from which the other singular values are drawn uniformly. The thesis does not give it.
        It must end below the smallest of the thirty, 1.3¹¹ ≈ 17.9.
    sigma : float, default 1.0
        Standard deviation of the noise, which the thesis does not give either.

    Returns
    -------
    RegressionModel
        With singular values 1.3⁴⁰, 1.3³⁹, …, 1.3¹¹ and the tail, all coefficients from U(−2.5, 2.5).

    Raises
    ------
    InvalidProblem
        For sizes, a tail or a sigma out of range.

    Examples
    --------
    >>> import linspec as ls
    >>> ls.datasets.steep_spectrum(0, n=60, p=40).A.shape
    (60, 40)
    """
    _check_sizes(n, p, least=len(STEEP))
    low, high = tail
    if not 0 <= low <= high < STEEP[-1]:
        raise InvalidProblem(f"tail must be two numbers, 0 ≤ lowest ≤ highest < {STEEP[-1]:.4g}; got {tail}.")
    rng = random_generator(seed, "seed")
    return _rotated(rng, n, np.concatenate([STEEP, _uniform(rng, low, high, p - len(STEEP))]), sigma)


def flat_spectrum(seed: Any = None, *, n: int = 2000, p: int = 1500, sigma: float = 1.0) -> RegressionModel:
    """A model with a flat spectrum: all singular values are within a factor of two.

    The signal is spread equally over all directions. Gradient descent is fast, and principal components miss most
    of the signal. Model 2 of Lu 2015, section 2.4.1.

    Parameters
    ----------
    seed : None, int or numpy.random.Generator
        The seed of A and β.
    n, p : int, default 2000 and 1500
        Rows and columns, n ≥ p ≥ 1.
    sigma : float, default 1.0
        Standard deviation of the noise, which the thesis does not give.

    Returns
    -------
    RegressionModel
        With singular values from U(√n/2, √n), all coefficients from U(−2.5, 2.5).

    Raises
    ------
    InvalidProblem
        For sizes or a sigma out of range.

    Examples
    --------
    >>> import linspec as ls
    >>> ls.datasets.flat_spectrum(0, n=60, p=20).A.shape
    (60, 20)
    """
    _check_sizes(n, p, least=1)
    rng = random_generator(seed, "seed")
    return _rotated(rng, n, _flat(rng, n, p), sigma)


def spiked_spectrum(seed: Any = None, *, n: int = 2000, p: int = 1500, sigma: float = 1.0) -> RegressionModel:
    """A model with a flat spectrum, except for fifteen singular values that are ten times as large.

    The signal is in the directions of these and of the smallest singular values. Neither gradient descent
    nor principal components suffice alone. Model 3 of Lu 2015, section 2.4.1.

    Parameters
    ----------
    seed : None, int or numpy.random.Generator
        The seed of A and β.
    n, p : int, default 2000 and 1500
        Rows and columns, n ≥ p ≥ 45.
    sigma : float, default 1.0
        Standard deviation of the noise, which the thesis does not give.

    Returns
    -------
    RegressionModel
        With singular values from U(√n/2, √n), the largest fifteen multiplied by ten, and orthogonal columns,
        A = U D. The first fifteen coefficients and the last two thirds of all (1000 of 1500) are from U(−2.5, 2.5);
        the others are 0.

    Raises
    ------
    InvalidProblem
        For sizes or a sigma out of range.

    Examples
    --------
    >>> import numpy as np
    >>> import linspec as ls
    >>> model = ls.datasets.spiked_spectrum(0, n=80, p=50)
    >>> S = np.linalg.svd(model.A, compute_uv=False)
    >>> bool(S[14] > 2 * S[15])  # the gap after the fifteen large singular values
    True
    """
    _check_sizes(n, p, least=3 * SPIKES)
    sigma = _number(sigma, "sigma")
    rng = random_generator(seed, "seed")
    singular_values = _flat(rng, n, p)
    singular_values[:SPIKES] *= SPIKE
    beta = rng.uniform(*COEFFICIENTS, size=p)
    beta[SPIKES : p - 2 * p // 3] = 0.0
    A = _orthonormal(rng, n, p) * singular_values
    return RegressionModel(A, beta, singular_values, beta.copy(), sigma)


# ---- pairs of views --------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class WordViews:
    """Two sparse views that share topics, made by `planted_word_views`.

    Attributes
    ----------
    X : scipy.sparse.csr_matrix of shape (n, p)
        Words of each row, indices sorted.
    Y : scipy.sparse.csr_matrix of shape (n, q)
    topics : numpy.ndarray of shape (n,)
        The topic of each row, which the views share.

    Examples
    --------
    >>> import linspec as ls
    >>> views = ls.datasets.planted_word_views(0, n=100, p=80, q=60, shared=3)
    >>> type(views).__name__, views.X.shape, views.Y.shape, views.topics.shape
    ('WordViews', (100, 80), (100, 60), (100,))
    """

    X: Any
    Y: Any
    topics: HostArray


def planted_word_views(  # noqa: PLR0913 (sizes and kinds, each with a default)
    seed: Any = None,
    *,
    n: int = 300_000,
    p: int = 100_000,
    q: int = 100_000,
    per_row: int = 60,
    shared: int = 40,
    strength: tuple[float, float] = (0.35, 0.15),
    counts: bool = False,
    dtype: Any = np.float64,
) -> WordViews:
    """Two wide sparse views with words of the same texts, which share only their topics.

    Every row has one of `shared` topics, and all topics are equally frequent. With a probability that is the
    strength of the topic, a word of the row belongs to the topic; otherwise it is any word. The frequencies
    of words follow a power law. Given the topics, the views are independent.

    Without centring there are `shared` large correlations: one belongs to the column means, and shared - 1 to the
    differences between topics. With centring only these shared - 1 are large. All other correlations are due to chance.
    With the defaults, a ridge of 50 and no centring, the twentieth correlation is above 0.8. After a permutation of the
    rows of one view it is below 0.6.

    Parameters
    ----------
    seed : None, int or numpy.random.Generator
        The same seed and arguments give the same views, in float32 and in float64.
    n, p, q : int, default 300000, 100000 and 100000
        Rows, and columns of the two views.
    per_row : int, default 60
        Words drawn for each row. A word drawn twice is stored once, so rows have somewhat fewer entries.
    shared : int, default 40
        The number of topics. A view needs at least twenty columns for each.
    strength : pair of floats, default (0.35, 0.15)
        The fraction of the words of a row that come from its topic, for the first topic and the last. Between
        them it decreases linearly. Weaker topics have smaller correlations.
    counts : bool, default False
        Whether entries count how often a word was drawn; if not, all are 1.
    dtype : float64 or float32

    Returns
    -------
    WordViews

    Raises
    ------
    InvalidProblem
        For arguments out of range.

    Examples
    --------
    >>> import linspec
    >>> views = linspec.datasets.planted_word_views(0, n=2000, p=300, q=200, shared=5)
    >>> solution = linspec.solve(linspec.CCA(views.X, views.Y, 6, ridge=50.0, center=False), "gram")
    >>> [bool(rho > 0.7) for rho in solution.correlations]
    [True, True, True, True, True, False]
    """
    if min(n, per_row, shared) < 1 or min(p, q) < FEWEST * shared:
        raise InvalidProblem(
            f"views of words need n, per_row and shared of at least 1, and {FEWEST} columns for each topic shared; "
            f"got n={n}, p={p}, q={q}, per_row={per_row}, shared={shared}. Ask for fewer topics, or more columns."
        )
    first, last = strength
    if not 1 >= first >= last >= 0:
        raise InvalidProblem(
            f"strength must be fractions of a row's words, 1 ≥ first ≥ last ≥ 0; got {strength}."
        )
    if np.dtype(dtype) not in (np.dtype(np.float32), np.dtype(np.float64)):
        raise InvalidProblem(f"dtype must be float32 or float64; got {np.dtype(dtype)}.")
    rng = random_generator(seed, "seed")
    topics = rng.integers(0, shared, n)
    shares = np.linspace(first, last, shared)[topics]
    X, Y = (_words(rng, topics, shares, shared, columns, per_row, counts, dtype) for columns in (p, q))
    return WordViews(X, Y, topics)


def _words(
    rng: np.random.Generator,
    topics: HostArray,
    shares: HostArray,
    shared: int,
    columns: int,
    per_row: int,
    counts: bool,
    dtype: Any,
) -> Any:
    """Draw one view: words by rank, and then a random permutation of the columns."""
    frequency = (np.arange(columns) + OFFSET) ** -POWER
    column_of = rng.permutation(columns).astype(np.int32)
    size = max(2, int(TOPICAL * columns / shared))
    rare = np.arange(columns // 100, columns)
    topical = np.sort(rng.permutation(rare)[: shared * size].reshape(shared, size), axis=1)
    general = _cumulated(frequency)
    special = _cumulated(frequency[topical]) + np.arange(shared)[:, None]
    parts = []
    for start in range(0, len(topics), ROWS_AT_ONCE):
        topic, share = (part[start : start + ROWS_AT_ONCE, None] for part in (topics, shares))
        drawn, chosen = rng.random((2, len(topic), per_row))
        ranks = np.searchsorted(general, drawn, side="right")
        of_topic = chosen < share
        drawn, topic = drawn[of_topic], np.broadcast_to(topic, of_topic.shape)[of_topic]
        place = np.searchsorted(special.ravel(), topic + drawn, side="right")
        # Rounding of topic + drawn must not give the next topic.
        ranks[of_topic] = topical.ravel()[np.minimum(place, (topic + 1) * size - 1)]
        words = column_of[ranks]
        starts = np.arange(0, ranks.size + 1, per_row)
        part = scipy.sparse.csr_matrix(
            (np.ones(words.size, dtype), words.ravel(), starts), shape=(len(words), columns)
        )
        part.sum_duplicates()
        parts.append(part)
    view = scipy.sparse.vstack(parts, format="csr")
    if not counts:
        view.data[:] = 1
    return view


def _cumulated(frequency: HostArray) -> HostArray:
    """Cumulative probabilities along the last axis; the last one is exactly 1."""
    total: HostArray = np.cumsum(frequency, axis=-1)
    return total / total[..., -1:]


# ---- drawing ---------------------------------------------------------------------------------------


def _rotated(rng: np.random.Generator, n: int, singular_values: HostArray, sigma: float) -> RegressionModel:
    """Make a model with A = U D Vᵀ for random U and V, and all coefficients random."""
    sigma = _number(sigma, "sigma")
    p = len(singular_values)
    beta = rng.uniform(*COEFFICIENTS, size=p)
    U = _orthonormal(rng, n, p)
    V = _orthonormal(rng, p, p)
    return RegressionModel((U * singular_values) @ V.T, beta, singular_values, V.T @ beta, sigma)


def _orthonormal(rng: np.random.Generator, n: int, p: int) -> HostArray:
    """Draw n x p orthonormal columns from the Haar (uniform) distribution.

    They are Q of the factorisation QR of a Gaussian matrix, with the signs that make the diagonal of R positive.
    """
    Q, R = np.linalg.qr(rng.standard_normal((n, p)))
    return Q * np.where(np.diag(R) < 0, -1.0, 1.0)


def _flat(rng: np.random.Generator, n: int, p: int) -> HostArray:
    return _uniform(rng, math.sqrt(n) / 2, math.sqrt(n), p)


def _uniform(rng: np.random.Generator, low: float, high: float, count: int) -> HostArray:
    """Draw uniform numbers, in decreasing order."""
    return np.sort(rng.uniform(low, high, size=count))[::-1].copy()


# ---- arguments -------------------------------------------------------------------------------------


def _check_sizes(n: int, p: int, least: int) -> None:
    if not n >= p >= least:
        raise InvalidProblem(
            f"this model needs n ≥ p ≥ {least}; got n={n}, p={p}. Take more rows, or another number of "
            "columns."
        )


def _number(value: Any, name: str) -> float:
    if not is_number(value) or not 0 <= value < math.inf:
        raise InvalidProblem(f"{name} must be a finite number of at least 0; got {value!r}.")
    return float(value)
