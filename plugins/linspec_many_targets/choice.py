"""The choice of a ridge and of weights of bands for each target, by held-out rows.

Problem: m targets, a grid of ridges and a list of settings γ; for each target the pair with the largest mean R² over
the folds. m may be a hundred thousand.
Method: a setting and a fold need one eigendecomposition, of the scaled Gram matrix D S D with D = diag(√γ), or of the
kernel Σ γ_b K_b. It serves every ridge and every target: in the eigenbasis the solution is z / (λ + r), where z is the
image of the target. Targets are worked in blocks. Of each target only the best so far is kept.
Source: Dupré la Tour, Eickenberg, Nunez-Elizalde & Gallant 2022, section 2.4,
doi:10.1016/j.neuroimage.2022.119728 (random search, with a ridge of its own for each target).
Where we differ: held-out errors may come from second moments alone, without the rows. Their rounding is estimated.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from linspec.algebra import EPS
from linspec.arrays import HostArray, reciprocal
from linspec.process import pause

ROUNDING = 8 * EPS
"""Rounding of a product of second moments, relative to the product of norms."""

BLOCK_ENTRIES = 2**18
"""Largest number of entries of an array for a block of targets."""

LEAST_BLOCK = 64
"""Smallest number of targets of a block, where products are still efficient."""


class Images(ABC):
    """The targets of a block in the eigenbasis of one fold: `values` λ, and `images` z of shape (r, b).

    Attributes
    ----------
    totals : numpy.ndarray of shape (b,)
        The squares of the held-out targets about their own means.
    """

    values: HostArray
    images: HostArray
    totals: HostArray

    @abstractmethod
    def errors(self, c: HostArray) -> HostArray:
        """Return the squared errors on held-out rows of the solutions with coefficients c in the eigenbasis."""

    def rounding(self, c: HostArray) -> HostArray:
        """Return a bound of the rounding of `errors`; by default there is none."""
        return np.zeros(c.shape[1])


class FoldData(ABC):
    """Data of all folds, as the choice needs them: for a setting, each fold in an eigenbasis.

    Attributes
    ----------
    order : int
        The order of the matrices that are decomposed.
    targets : int
        The number of targets.
    """

    order: int
    targets: int

    @abstractmethod
    def decomposed(self, gamma: HostArray) -> Sequence[Any]:
        """Return the decomposition of each fold for weights of the bands."""

    @abstractmethod
    def images(self, decomposed: Sequence[Any], block: slice) -> Iterator[Images]:
        """Yield the images of a block of targets for each fold."""


@dataclass(frozen=True, eq=False)
class Choice:
    """The best candidate of each target.

    Attributes
    ----------
    setting : numpy.ndarray of int of shape (m,)
        The number of its weights of bands.
    ridges, scores, rounding : numpy.ndarray of shape (m,)
        Its ridge; its mean R² over the folds in which the target varies, NaN if there are none; a bound of the rounding
        of this score.
    """

    setting: HostArray
    ridges: HostArray
    scores: HostArray
    rounding: HostArray


def blocks_of(targets: int, order: int) -> Iterator[slice]:
    """Yield blocks of targets, so small that an array with `order` rows is of a few megabytes."""
    width = max(BLOCK_ENTRIES // max(order, 1), LEAST_BLOCK)
    return (slice(a, min(a + width, targets)) for a in range(0, targets, width))


def chosen(data: FoldData, ridges: Sequence[float], settings: HostArray) -> Choice:
    """Return the best candidate of each target; of equal ones the first setting and the first ridge."""
    m = data.targets
    best = Choice(np.zeros(m, dtype=np.int64), np.full(m, ridges[0]), np.full(m, -np.inf), np.zeros(m))
    for number, gamma in enumerate(settings):
        decomposed = data.decomposed(gamma)
        for block in blocks_of(m, data.order):
            scores, rounding = _scores(data.images(decomposed, block), ridges)
            first = np.argmax(scores, axis=0)
            found, lost = (np.take_along_axis(each, first[None], axis=0)[0] for each in (scores, rounding))
            better = found > best.scores[block]
            best.setting[block][better] = number
            best.ridges[block][better] = np.asarray(ridges)[first[better]]
            best.scores[block][better], best.rounding[block][better] = found[better], lost[better]
            pause()
    best.scores[np.isinf(best.scores)] = np.nan
    return best


def _scores(folds: Iterator[Images], ridges: Sequence[float]) -> tuple[HostArray, HostArray]:
    """Return mean R² and its rounding for each ridge and target of a block; -inf if a target never varies."""
    total: Any = 0.0
    lost: Any = 0.0
    count: Any = 0
    for fold in folds:
        varies = fold.totals > 0
        inverse = reciprocal(fold.totals)
        own, off = [], []
        for ridge in ridges:
            c = fold.images * inverse_of(fold.values, ridge)[:, None]
            own.append((1.0 - fold.errors(c) * inverse) * varies)
            off.append(fold.rounding(c) * inverse)
        total, lost, count = total + np.array(own), lost + np.array(off), count + varies
    share = reciprocal(np.asarray(count, dtype=np.float64))
    return np.where(count > 0, total * share, -np.inf), lost * share


def eigenbasis(S: HostArray) -> tuple[HostArray, HostArray]:
    """Return eigenvalues and eigenvectors of a matrix that has no negative eigenvalues but for rounding."""
    values, vectors = np.linalg.eigh(S)
    return np.maximum(values, 0.0), vectors


def inverse_of(values: HostArray, ridges: Any) -> HostArray:
    """Return 1 / (λ + r), and 0 where λ + r is rounding of the largest eigenvalue: solutions then have least norm."""
    sums = values + ridges
    cut = len(values) * EPS * float(values.max(initial=0.0))
    found: HostArray = reciprocal(np.where(sums > cut, sums, 0.0))
    return found


def fitted(
    values: HostArray, vectors: HostArray, images: HostArray, ridges: HostArray
) -> tuple[HostArray, HostArray]:
    """Return V (Λ + r)⁻¹ z for each target, and the smallest λ + r that was inverted for it.

    Parameters
    ----------
    values, vectors : numpy.ndarray of shape (k,), (p, k)
    images : numpy.ndarray of shape (k, b)
        z of each target.
    ridges : numpy.ndarray of shape (b,)
        The ridge of each target.
    """
    inverse = inverse_of(values[:, None], ridges)
    return vectors @ (images * inverse), reciprocal(inverse.max(axis=0))
