"""What one pass over the known entries of rows gives under probabilistic principal components.

Problem: rows x = μ + W z + σ ε, where z has k and ε has p standard normal numbers. Of row i the entries in Oᵢ are known.
Method: r = x − μ, and W without a row for each entry that is missing, give the posterior of z, with mean z and
covariance C, and minus twice the log-likelihood f:

    K = I + WᵀW / σ²,  C = K⁻¹,  z = C Wᵀr / σ²                                          (1)
    f = Σᵢ |Oᵢ| log 2πσ² + log det K + (rᵀr − rᵀW z) / σ²                                (2)

For column j, sums over the rows in which it is known give the system of its row [wⱼ, μⱼ] in the next step of EM:

    Aⱼ = Σ [C + zzᵀ, z; zᵀ, 1],  bⱼ = Σ rᵢⱼ [z; 1],  Gⱼ = bⱼ − Aⱼ [wⱼ; 0]                (3)

−2 Gⱼ/σ² is the gradient of f. EM adds Aⱼ⁻¹Gⱼ. For its expected squares s = Σ (r − Wz)² and N known entries

    residual² = Σ Gⱼᵀ Aⱼ⁻¹ Gⱼ / (N σ²) + log²(s / (N σ²)) / 2                            (4)

Source: Tipping & Bishop 1999, J. R. Stat. Soc. B 61:611, section 3 and appendix B; Ilin & Raiko 2010, JMLR 11:1957,
equations 12 to 17.
Where we differ: the matrices K of all rows are one product, of the mask of known entries with the products of pairs of
columns of W, and so are all Aⱼ. Symmetric matrices are packed: half of their entries. σ² has a lower limit, because f
has no minimum where W and z meet all known entries.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse

from linspec.arrays import Array, HostArray, all_finite, to_host_together
from linspec.errors import InvalidProblem, NonFiniteData
from linspec.linalg import EPS
from linspec.rows import LOCAL, Block, Passes, Reduction

LEAST_NOISE = 1e-10
"""Lower limit of σ², as a share of the variance of known entries about the means of their columns."""


class Model(NamedTuple):
    """W of shape (p, k), μ of shape (p,), and σ²."""

    W: Array
    mean: Array
    noise: float


class Pairs(NamedTuple):
    """Rows and columns of the upper triangle of a matrix of order k, and the place of each entry of all in a packed row.

    A packed row has the triangle of the first k rows and columns, then the last column of order k + 1.
    """

    rows: HostArray
    columns: HostArray
    places: HostArray

    @classmethod
    def of(cls, k: int) -> Pairs:
        """Return those of order k, with the places of a matrix of order k + 1."""
        rows, columns = np.triu_indices(k)
        places = np.zeros((k + 1, k + 1), dtype=np.int64)
        places[rows, columns] = places[columns, rows] = np.arange(len(rows))
        places[k, :] = places[:, k] = len(rows) + np.arange(k + 1)
        return cls(rows, columns, places)


class Known(NamedTuple):
    """R = X − 1μᵀ with zeros for missing entries, 1 for each entry that is known, and the entries of R that are stored.

    Both matrices are arrays, or sparse.
    """

    R: Any
    mask: Any
    stored: Array


def known_entries(block: Block, mean: Array, place: Any) -> Known:
    """Return the known entries of some rows less a mean: those that are not NaN, and that are stored in sparse rows."""
    if hasattr(block, "matrix"):
        return _known_of_sparse(block, mean)
    xp, X = place.xp, block.dense()
    missing = xp.isnan(X) | xp.isnan(mean)[None, :]
    R = xp.where(missing, xp.zeros_like(X), X - mean)
    return Known(R, xp.astype(~missing, xp.float64), R)


def _known_of_sparse(block: Any, mean: HostArray) -> Known:
    rows = scipy.sparse.csr_array(block.matrix[block.start : block.start + block.rows], dtype=np.float64)
    rows.sum_duplicates()
    gaps = rows.data - mean[rows.indices]
    missing = np.isnan(gaps)
    gaps[missing] = 0.0
    R, mask = (
        scipy.sparse.csr_array((entries, rows.indices, rows.indptr), shape=rows.shape)
        for entries in (gaps, 1.0 - missing)
    )
    return Known(R, mask, gaps)


class Posterior:
    """z and C of some rows, by (1).

    Attributes
    ----------
    z : array of shape (n, k)
    C, K : array of shape (n, k, k)
    products : array of shape (n, k)
        rᵀW.
    pairs_of_columns : array of shape (p, k(k + 1)/2)
        Products of pairs of columns of W.
    """

    def __init__(self, known: Known, model: Model, pairs: Pairs, place: Any) -> None:
        xp, W = place.xp, model.W
        n, k = known.R.shape[0], W.shape[1]
        self.rows, self.columns, places = (
            xp.asarray(part, device=place.native)
            for part in (pairs.rows, pairs.columns, pairs.places[:k, :k].ravel())
        )
        self.pairs_of_columns = xp.take(W, self.rows, axis=1) * xp.take(W, self.columns, axis=1)
        squares = xp.take(known.mask @ self.pairs_of_columns, places, axis=1)
        self.K = xp.reshape(squares, (n, k, k)) / model.noise + place.eye(k)[None, :, :]  # (1)
        self.C = xp.linalg.inv(self.K)
        self.products = known.R @ W
        self.z = (self.C @ self.products[:, :, None])[:, :, 0] / model.noise
        self.place = place

    def packed(self, M: Array) -> Array:
        """The upper triangle of a matrix of each row."""
        n, k = self.z.shape
        return self.place.xp.take(self.place.xp.reshape(M, (n, k * k)), self.rows * k + self.columns, axis=1)

    def leverages(self, noise: float) -> Array:
        """wⱼᵀC wⱼ/σ² of every row and column, of shape (n, p)."""
        twice = 2.0 - self.place.xp.astype(self.rows == self.columns, self.place.xp.float64)
        return (self.packed(self.C) * twice) @ self.pairs_of_columns.T / noise


class _OverKnown(Reduction):
    """A sum over rows whose known entries are about a mean."""

    raw = True

    def __init__(self, mean: Array, place: Any) -> None:
        self.mean, self.place = place.asarray(mean), place

    def add(self, total: list[Array], blocks: list[Block], rows: slice) -> None:
        known = known_entries(blocks[0], self.mean, self.place)
        if not all_finite(known.stored):
            raise NonFiniteData(
                f"X must have known entries that are finite; got infinity in the rows from {self.first + rows.start} "
                "on. Mark missing entries by NaN."
            )
        self.collect(total, known)

    def collect(self, total: list[Array], known: Known) -> None:
        """Add the known entries of some rows."""
        raise NotImplementedError


class Statistics(_OverKnown):
    """Counts of known entries, their sums and their squares, of each column."""

    def zero(self) -> list[Array]:
        return [self.place.zeros(self.mean.shape) for _ in range(3)]

    def collect(self, total: list[Array], known: Known) -> None:
        ones = self.place.ones((known.R.shape[0],))
        total[0] += known.mask.T @ ones
        total[1] += known.R.T @ ones
        total[2] += (known.R * known.R).T @ ones


class FilledProducts(_OverKnown):
    """RᵀR V: missing entries are zeros, as if they were the means."""

    def __init__(self, mean: Array, place: Any, V: HostArray) -> None:
        super().__init__(mean, place)
        self.V = place.asarray(V)
        self.columns = V.shape[1]
        self.multiplied = 2.0 * self.columns

    def zero(self) -> list[Array]:
        return [self.place.zeros(self.V.shape)]

    def collect(self, total: list[Array], known: Known) -> None:
        total[0] += known.R.T @ (known.R @ self.V)


class PosteriorSums(_OverKnown):
    """The sums of (3), packed; the sums over all rows of [C + zzᵀ, z; zᵀ, 1]; and f without its first term, and rᵀr."""

    def __init__(self, model: Model, place: Any) -> None:
        super().__init__(model.mean, place)
        self.model = Model(place.asarray(model.W), self.mean, model.noise)
        self.pairs = Pairs.of(model.W.shape[1])
        self.columns = int(self.pairs.places[-1, -1]) + 1
        self.multiplied = 2.0 * self.columns

    def zero(self) -> list[Array]:
        p, k = self.model.W.shape
        return [self.place.zeros(shape) for shape in ((p, self.columns), (p, k + 1), (self.columns,), (2,))]

    def collect(self, total: list[Array], known: Known) -> None:
        xp, place, noise = self.place.xp, self.place, self.model.noise
        rows = Posterior(known, self.model, self.pairs, place)
        z = rows.z
        second = rows.packed(rows.C + z[:, :, None] * z[:, None, :])
        packed = xp.concat([second, z, place.ones((z.shape[0], 1))], axis=1)
        total[0] += known.mask.T @ packed  # (3)
        total[1] += known.R.T @ packed[:, second.shape[1] :]
        total[2] += xp.sum(packed, axis=0)
        squares = xp.sum(known.stored * known.stored)
        logarithms = xp.sum(xp.linalg.slogdet(rows.K)[1])
        total[3] += xp.stack([logarithms + (squares - xp.sum(rows.products * z)) / noise, squares])  # (2)


@dataclass(frozen=True, eq=False)
class Expectation:
    """What one pass says of a model: f, its gradient, and the next step of EM.

    Attributes
    ----------
    model : Model
    A : numpy.ndarray of shape (p, k + 1, k + 1)
    b : numpy.ndarray of shape (p, k + 1)
    second : numpy.ndarray of shape (k + 1, k + 1)
        The sum over all rows of [C + zzᵀ, z; zᵀ, 1].
    loss : float
        f.
    squares : float
        rᵀr, of all known entries.
    known : float
        N.
    least : float
        The lower limit of σ².
    """

    model: Model
    A: HostArray
    b: HostArray
    second: HostArray
    loss: float
    squares: float
    known: float
    least: float

    @cached_property
    def gaps(self) -> HostArray:
        """Gⱼ, of shape (p, k + 1)."""
        k = self.model.W.shape[1]
        return self.b - (self.A[:, :, :k] @ self.model.W[:, :, None])[:, :, 0]

    @cached_property
    def change(self) -> HostArray:
        """Aⱼ⁻¹Gⱼ, of shape (p, k + 1); 0 for a column without known entries."""
        size = np.trace(self.A, axis1=1, axis2=2)
        shift = np.where(size > 0, EPS * size, 1.0)[:, None, None] * np.eye(self.A.shape[1])
        solved: HostArray = np.linalg.solve(self.A + shift, self.gaps[:, :, None])[:, :, 0]
        return solved

    @cached_property
    def gain(self) -> float:
        """By how much the change lowers the expected squares."""
        return float(np.sum(self.gaps * self.change))

    @cached_property
    def noise(self) -> float:
        """The expected squares of a known entry about Wz."""
        W, k = self.model.W, self.model.W.shape[1]
        return (self.squares - float(np.sum((self.b + self.gaps)[:, :k] * W))) / self.known

    @cached_property
    def residual(self) -> float:
        """Formula (4); σ² at its limit must only not want to rise."""
        noise = self.model.noise
        ratio = max(self.noise, self.least) / noise
        return math.sqrt(max(self.gain, 0.0) / (self.known * noise) + math.log(ratio) ** 2 / 2)

    @property
    def maximised(self) -> Model:
        """The next model of EM."""
        W, mean = self.model.W + self.change[:, :-1], self.model.mean + self.change[:, -1]
        return Model(W, mean, max(self.noise - self.gain / self.known, self.least))


class KnownEntries:
    """Passes over the known entries of the rows of a problem.

    Attributes
    ----------
    counts, mean : numpy.ndarray of shape (p,)
        Of the known entries of each column; the mean of none is 0. Known after `fit`.
    variance : float
        Of known entries about the means of their columns.
    n : float
    """

    def __init__(self, problem: Any, passes: Passes) -> None:
        self.rows, self.passes = problem.X.in_blocks("X"), passes
        self.place = self.rows.device.blocks
        self.counts = self.mean = np.zeros(0)
        self.variance, self.n = 0.0, 0.0
        passes.reserved += problem.certificate_products

    def _pass(self, begin: Callable[[list[Block]], Reduction]) -> list[HostArray]:
        """Make one pass, and return its total on the host."""
        self.passes.take()
        executor, between = self.rows.executor or LOCAL, self.passes.between(self.rows.shape[0])
        reduction, total, count, entries = executor.reduce([self.rows], begin, between)
        self.passes.columns += reduction.multiplied
        self.passes.flops += 2.0 * entries * reduction.multiplied
        self.n = float(count)
        return to_host_together(*total)

    def fit(self) -> None:
        """Make the pass that counts known entries, unless it is made."""
        if len(self.mean):
            return
        origin = np.zeros(0)

        def begin(blocks: list[Block]) -> Reduction:
            nonlocal origin
            zeros = self.place.zeros((self.rows.shape[1],))
            first = Statistics(zeros, self.place)
            total = first.zero()
            first.add(total, [blocks[0].cut(0, 1)] if blocks[0].divisible else blocks, slice(0, 1))
            origin = to_host_together(*total)[1]
            return Statistics(self.place.asarray(origin), self.place)

        counts, sums, squares = self._pass(begin)
        over = np.maximum(counts, 1.0)
        left = float(np.sum(squares - sums**2 / over))
        self.counts, self.mean = counts, np.where(counts > 0, origin + sums / over, 0.0)
        self.variance = left / max(float(counts.sum()), 1.0)
        if not left > EPS * float(squares.sum()):
            raise InvalidProblem(
                f"X must have known entries that differ from others of their column; got {counts.sum():.0f} known "
                "entries, each equal to those of its column. Mark missing entries by NaN."
            )

    def filled(self, V: HostArray) -> HostArray:
        """Compute RᵀR V about the means of known entries, in one pass."""
        return self._pass(lambda _: FilledProducts(self.mean, self.place, V))[0]

    def expectation(self, model: Model) -> Expectation:
        """Make one pass with a model; the means of known entries are computed before."""
        self.fit()
        sums = PosteriorSums(model, self.place)
        A, b, second, numbers = self._pass(lambda _: sums)
        known, places = float(self.counts.sum()), sums.pairs.places
        loss = known * math.log(2 * math.pi * model.noise) + float(numbers[0])
        least = LEAST_NOISE * self.variance
        return Expectation(model, A[:, places], b, second[places], loss, float(numbers[1]), known, least)
