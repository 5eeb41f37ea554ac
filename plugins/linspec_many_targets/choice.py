"""The choice of a ridge and of weights of bands for each target, by held-out rows.

Problem: m targets, a grid of ridges and a list of settings γ; for each target the pair with the largest mean R² over
the folds. m may be a hundred thousand. R² has no meaning within a fold in which the target does not vary: the mean
leaves this fold out. Where a fold has one row, or the target varies in none, R² is that of all held-out rows together.
Method: a setting and a fold need one eigendecomposition, of the scaled Gram matrix D S D with D = diag(√γ), or of the
kernel Σ γ_b K_b. It serves every ridge and every target: in the eigenbasis the solution is z / (λ + r), where z is the
image of the target. Targets are worked in blocks. Of each target only the best so far is kept.
Source: Dupré la Tour, Eickenberg, Nunez-Elizalde & Gallant 2022, section 2.4,
doi:10.1016/j.neuroimage.2022.119728 (random search, with a ridge of its own for each target).
Where we differ: held-out errors may come from second moments alone, without the rows. Their rounding is estimated. No
more eigenvalues are kept than training rows and columns allow: the others are zero, and would divide rounding by r.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from linspec.arrays import HostArray, reciprocal
from linspec.linalg import EPS
from linspec.process import pause

ROUNDING = 8 * EPS
"""Rounding of a product of second moments, relative to the product of norms."""

BLOCK_ENTRIES = 2**18
"""Largest number of entries of an array for a block of targets."""

DIGITS = 1e-6
"""A finding is reported if rounding may change a held-out R² by more than this."""

LEAST_BLOCK = 64
"""Smallest number of targets of a block, where products are still efficient."""


@dataclass(frozen=True, eq=False)
class Images:
    """The targets of a block in the eigenbasis of one fold: `values` λ, and `images` z of shape (r, b).

    Attributes
    ----------
    errors : callable
        The squared errors on held-out rows of the solutions c = z / (λ + r).
    totals : numpy.ndarray of shape (b,)
        The squares of the held-out targets about their own means, 0 for a target that does not vary there.
    squares : numpy.ndarray of shape (b,)
        The squares of the held-out targets.
    """

    errors: Callable[[HostArray], HostArray]
    values: HostArray
    images: HostArray
    totals: HostArray
    squares: HostArray

    def errors_for(self, ridge: float) -> tuple[HostArray, HostArray]:
        """Return the squared errors for a ridge, and their rounding: that of their terms, times a condition number."""
        sums = self.values + ridge
        errors = self.errors(self.images * inverse_of(self.values, ridge)[:, None])
        condition = sums.max(initial=0.0) / sums.min(initial=np.inf)
        return errors, ROUNDING * condition * (errors + self.squares)


@dataclass(frozen=True, eq=False)
class Choice:
    """The best candidate of each target.

    Attributes
    ----------
    setting : numpy.ndarray of int of shape (m,)
        The number of its weights of bands.
    ridges, scores, rounding : numpy.ndarray of shape (m,)
        Its ridge; its held-out R², NaN if the target does not vary; by how much rounding may change this score, or let
        another candidate be above it.
    partial : numpy.ndarray of bool of shape (m,)
        Whether R² leaves out folds, or is that of the held-out rows of all folds together.
    """

    setting: HostArray
    ridges: HostArray
    scores: HostArray
    rounding: HostArray
    partial: HostArray

    def arrays(self, settings: HostArray) -> dict[str, HostArray]:
        """What was chosen for each target, with weights of bands from a list of settings."""
        return {"ridges": self.ridges, "band_weights": settings[self.setting], "scores": self.scores}


def blocks_of(targets: int, order: int) -> Iterator[slice]:
    """Yield blocks of targets, so small that an array with `order` rows is of a few megabytes."""
    width = max(BLOCK_ENTRIES // max(order, 1), LEAST_BLOCK)
    return (slice(a, min(a + width, targets)) for a in range(0, targets, width))


def chosen(data: Any, ridges: Sequence[float], settings: HostArray) -> Choice:
    """Return the best candidate of each target; of equal ones the first setting and the first ridge.

    Parameters
    ----------
    data : MomentFolds or RowFolds
        With the number of `targets`, the `order` of the matrices that it decomposes, and `lone_rows`, whether some fold
        has only one held-out row that counts. For weights of the bands, `decomposed` has the decomposition of each
        fold. From it `images` makes those of a block of targets for each fold, and the squares of the targets about
        their means over all folds.
    ridges : sequence of float
    settings : numpy.ndarray of shape (settings, bands)
    """
    m = data.targets
    best = Choice(
        np.zeros(m, dtype=np.int64),
        np.full(m, ridges[0]),
        np.full(m, -np.inf),
        np.full(m, -np.inf),
        np.zeros(m, dtype=bool),
    )
    for number, gamma in enumerate(settings):
        decomposed = data.decomposed(gamma)
        for block in blocks_of(m, data.order):
            errors: Any = 0.0
            ratios: Any = 0.0
            used: Any = 0
            folds, total = data.images(decomposed, block)
            for fold in folds:
                fold_errors = np.array([fold.errors_for(ridge) for ridge in ridges])
                errors = errors + fold_errors
                ratios = ratios + fold_errors * reciprocal(fold.totals)
                used = used + (fold.totals > 0)
            pooled = (used == 0) | data.lone_rows  # scores of all folds together
            best.partial[block] = (total > 0) & (pooled | (used < len(folds)))
            lost = np.where(pooled, errors * reciprocal(total), ratios * reciprocal(np.maximum(used, 1.0)))
            scores = np.where(total > 0, 1.0 - lost[:, 0], -np.inf)  # R², but of targets that do not vary
            first = np.argmax(scores, axis=0)
            highest_scores = np.take_along_axis(scores, first[None], axis=0)[0]
            better = highest_scores > best.scores[block]
            best.setting[block][better] = number
            best.ridges[block][better] = np.asarray(ridges)[first[better]]
            best.scores[block][better] = highest_scores[better]
            highest = np.max(scores + lost[:, 1], axis=0)
            best.rounding[block] = np.maximum(best.rounding[block], highest)
            pause()
    known = np.where(np.isinf(best.scores), np.nan, best.scores)
    return replace(best, scores=known, rounding=best.rounding - known)


def eigenbasis(S: HostArray, rank: int) -> tuple[HostArray, HostArray]:
    """Return the eigenvalues and eigenvectors of a positive semidefinite matrix of at most this rank."""
    values, vectors = np.linalg.eigh(S)
    first = len(values) - min(max(rank, 0), len(values))
    return np.maximum(values[first:], 0.0), vectors[:, first:]


def inverse_of(values: HostArray, ridges: Any) -> HostArray:
    """Return 1 / (λ + r), and 0 where λ + r is rounding of the largest eigenvalue: solutions then have least norm."""
    sums = values + ridges
    cut = len(values) * EPS * float(values.max(initial=0.0))
    return reciprocal(np.where(sums > cut, sums, 0.0))


def fitted(
    best: Choice, C: HostArray, basis: Callable[[int], tuple[HostArray, HostArray]]
) -> tuple[HostArray, HostArray]:
    """Return V (Λ + r)⁻¹ Vᵀc for each target c, and the smallest λ + r that was inverted for it.

    Parameters
    ----------
    best : Choice
    C : numpy.ndarray of shape (p, m)
    basis : callable
        Returns λ and V of shape (p, k) for the number of a setting.
    """
    coefficients = np.empty(C.shape)
    least = np.empty(C.shape[1])
    for number in np.unique(best.setting):
        values, V = basis(number)
        columns = np.flatnonzero(best.setting == number)
        for block in blocks_of(len(columns), len(C)):
            some = columns[block]
            inverse = inverse_of(values[:, None], best.ridges[some])
            coefficients[:, some] = V @ (V.T @ C[:, some] * inverse)
            least[some] = reciprocal(inverse.max(axis=0, initial=0.0))
            pause()
    return coefficients, least
