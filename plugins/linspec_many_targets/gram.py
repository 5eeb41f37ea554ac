"""The choice for many targets from the Gram matrices of the folds, in one pass.

Problem: p columns whose p x p Gram matrix is small beside the data, and any number of targets.
Method: one pass forms S = XᵀX, C = XᵀY and the squares of Y for each fold; those of training rows follow by merging.
With D = diag(√γ) and D S D = V Λ Vᵀ, a target c has z = VᵀD c, and its solution for a ridge r is w = D V (Λ + r)⁻¹ z.
Its squared error on held-out rows, whose moments are S_v, c_v and y_v², is y_v² − 2 c_vᵀw + wᵀS_v w: no row is read
again.
Source: Nunez-Elizalde, Huth & Gallant 2019, doi:10.1016/j.neuroimage.2019.04.012 (bands as scaled columns).
Where we differ: targets have products with the columns of X alone, so memory is (folds + 1) p (p + m) numbers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from typing import Any

import numpy as np

from linspec.arrays import HostArray, to_host
from linspec.cost import DENSE_RATE, FACTOR_RATE, Estimate, Sizes
from linspec.iteration import Context, Iterate
from linspec.rows import Cell, Moments
from linspec.solving import Solver
from linspec.studies import cells_of, split_of, training_and_held_out
from linspec_many_targets.choice import (
    Images,
    blocks_of,
    chosen,
    eigenbasis,
    fitted,
)

FOLDS, RIDGES, SETTINGS = 5, 20, 4
"""Usual numbers of folds, ridges and settings, for estimates of time and memory."""


def errors_of_moments(cross: HostArray, gram: HostArray, squares: HostArray, c: HostArray) -> HostArray:
    """Return y² − 2 cᵀx + cᵀG c for each target, whose terms cancel where the fit is good."""
    return np.maximum(squares + np.einsum("ij,ij->j", c, gram @ c - 2 * cross), 0.0)


class MomentFolds:
    """The moments of the folds of a problem; those of all rows are held.

    Attributes
    ----------
    rank : int
        The largest rank of all rows, less what is subtracted from them.
    """

    def __init__(self, problem: Any, moments: Moments) -> None:
        self.problem, self.lone_rows = problem, problem.lone_rows
        self.cells, whole, _ = cells_of(problem, problem.splits, diagonal=True, moments=moments)
        moments.hold_cell(whole)
        self.order, self.targets = moments.widths
        self.rank = whole.rows - moments.pre.directions
        self._cached: tuple[slice | None, list[Any], Any] = (None, [], None)

    def _splits(self, block: slice) -> tuple[list[Any], HostArray]:
        """The preprocessed moments of each fold with a block of targets, kept, and their squares over all folds."""
        if self._cached[0] != block:
            cells = [cell.with_diagonal(block) for cell in self.cells]
            pairs = list(training_and_held_out(cells, self.problem.splits))
            whole = reduce(Cell.merged, [held_out for _, held_out in pairs])
            splits = [split_of(self.problem, *pair) for pair in pairs]
            self._cached = block, splits, whole.variation[len(whole.gram) :]
        return self._cached[1:]

    def decomposed(self, gamma: HostArray) -> list[tuple[HostArray, HostArray, HostArray]]:
        """Return (λ, D V, G) of each fold, with G the Gram matrix of held-out rows in the eigenbasis."""
        d = np.sqrt(gamma)[self.problem.band_of]
        decompositions = []
        for split in self._splits(next(blocks_of(self.targets, self.order)))[0]:
            values, R = _scaled_basis(split.training["X", "X"], d, split.rank)
            decompositions.append((values, R, R.T @ split.held_out["X", "X"] @ R))
        return decompositions

    def images(self, decomposed: Sequence[Any], block: slice) -> tuple[list[Any], HostArray]:
        """Return the images of a block of targets for each fold, and their squares over all folds."""
        splits, totals = self._splits(block)
        images = []
        for (values, R, G), split in zip(decomposed, splits, strict=True):
            squares = split.held_out.squares("Y")
            errors = partial(errors_of_moments, R.T @ split.held_out["X", "Y"], G, squares)
            products = R.T @ split.training["X", "Y"]
            images.append(Images(errors, values, products, split.spreads["Y"], squares))
        return images, totals


def _scaled_basis(S: HostArray, d: HostArray, rank: int) -> tuple[HostArray, HostArray]:
    """Return λ and D V of the scaled Gram matrix D S D of rows of at most this rank."""
    values, V = eigenbasis(d[:, None] * S * d, min(rank, int(np.count_nonzero(d * np.diag(S)))))
    return values, d[:, None] * V


@dataclass(frozen=True, kw_only=True)
class Gram(Solver):
    """One pass, then an eigendecomposition for each fold and setting (Nunez-Elizalde, Huth & Gallant 2019)."""

    def iterate(self, problem: Any, moments: Moments, context: Context, start: Any) -> Iterator[Iterate]:
        """Choose for every target, and fit all rows with what was chosen."""
        data = MomentFolds(problem, moments)
        best = chosen(data, problem.ridges, problem.settings)
        problem.note(context, best)
        S = to_host(moments.gram()[0][0])
        C = to_host(moments.cross())

        def basis(number: int) -> tuple[HostArray, HostArray]:
            return _scaled_basis(S, np.sqrt(problem.settings[number])[problem.band_of], data.rank)

        weights, least = fitted(best, C, basis)
        yield Iterate(
            0.0, partial(dict, best.arrays(problem.settings), weights=weights, least=least), final=True
        )

    @classmethod
    def estimate(cls, sizes: Sizes) -> Estimate | None:
        """Estimated cost of the moments, of the decompositions, and of the errors of all candidates."""
        if not sizes.readable:
            return None
        p, m = float(sizes.p), float(sizes.q)
        per_fold = 20 * p**3 / FACTOR_RATE + (RIDGES + 4) * 2 * p * p * m / DENSE_RATE
        seconds = 2.0 * sizes.n * p * (p + m) / DENSE_RATE + SETTINGS * (FOLDS + 1) * per_fold
        return Estimate(seconds, 8.0 * (FOLDS + 4) * p * (p + m), "Gram matrices of the folds")
