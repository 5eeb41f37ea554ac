"""The choice for many targets from kernel matrices of the bands, where rows are fewer than columns.

Problem: n rows and p columns with n < p, so that an n x n matrix is smaller than XᵀX.
Method: K_b = X_b X_bᵀ for each band. The rows of the solution for a setting γ and a ridge r are w = γ ∘ Xᵀa with
(Σ γ_b K_b + r) a = y: one eigendecomposition of Σ γ_b K_b for each fold serves every ridge and target, and the held-out
rows are predicted by their kernels with the training rows. If there are more targets than rows, a is the answer and
coefficients are never stored.
Source: Dupré la Tour, Eickenberg, Nunez-Elizalde & Gallant 2022, section 2.3,
doi:10.1016/j.neuroimage.2022.119728 (multiple-kernel ridge regression).
Where we differ: means, slopes of confounds and scales are those of the training rows of each fold, as in `gram`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from linspec import Run, Solution, Solver
from linspec.algebra import squares_about_means, varies
from linspec.arrays import HostArray, reciprocal
from linspec.cost import DENSE_RATE, FACTOR_RATE, Estimate, Sizes
from linspec.operators import EXPLAINED
from linspec.process import pause
from linspec_many_targets.choice import (
    COLLINEAR,
    ROUNDING,
    FoldData,
    Images,
    blocks_of,
    chosen,
    eigenbasis,
    fitted,
)
from linspec_many_targets.gram import FOLDS, RIDGES, SETTINGS


def band_kernels(left: HostArray, right: HostArray, band_of: HostArray, bands: int) -> HostArray:
    """Return X_b Z_bᵀ for rows X and Z and each band b, of shape (bands, n, m)."""
    return np.stack([left[:, band_of == b] @ right[:, band_of == b].T for b in range(bands)])


def sum_of(kernels: HostArray, gamma: HostArray) -> HostArray:
    """Return Σ γ_b K_b."""
    found: HostArray = np.tensordot(gamma, kernels, axes=1)
    return found


@dataclass(frozen=True, eq=False)
class RowImages(Images):
    """Images of targets in one fold, with the held-out targets and the matrix that predicts them."""

    values: HostArray
    images: HostArray
    totals: HostArray
    lengths: HostArray
    predicts: HostArray
    held_out: HostArray
    size: float

    def errors(self, c: HostArray, inverse: HostArray) -> tuple[HostArray, HostArray]:
        """Return the squares of the held-out targets less their predictions, and their rounding."""
        gaps = self.held_out - self.predicts @ c
        found: HostArray = np.einsum("ij,ij->j", gaps, gaps)
        length, off = np.sqrt(found), ROUNDING * self.size * np.linalg.norm(c, axis=0)
        curvature = float(np.sum((self.predicts * inverse[:, 0]) ** 2))
        return found, off * (2 * length + off) + self.moved(c, length * np.sqrt(curvature), curvature)


class FoldOfRows:
    """One fold: its kernels, and what is subtracted from its rows.

    Rows are multiplied by the roots of their weights, so a regression on the constant and on confounds is one on the
    columns of `design`, which are multiplied alike.
    """

    def __init__(
        self, problem: Any, A: HostArray, given: HostArray, design: HostArray, roots: HostArray, split: Any
    ) -> None:
        self.training, self.rest = split
        self.design = design
        U, s, Vt = np.linalg.svd(design[self.training], full_matrices=False)
        keep = s > COLLINEAR * s.max(initial=0.0)
        self.solve = (Vt[keep].T / s[keep]) @ U[:, keep].T
        X, Z = self.adjusted(A)
        left, size = (np.einsum("ij,ij->j", rows, rows) for rows in (X, A[self.training]))
        before = [self._squares(rows[self.training], roots[self.training], problem) for rows in (A, given)]
        factors = (varies(left, size) & (left > EXPLAINED * np.maximum(*before))) * 1.0
        self.rank = int(np.count_nonzero(roots[self.training]) - np.count_nonzero(keep))
        self.live = np.bincount(problem.band_of, factors, len(problem.band_names))
        if problem.unadjusted.scale:
            factors *= reciprocal(np.sqrt(left / np.sum(roots[self.training] ** 2)))
        X, Z, bands = X * factors, Z * factors, len(problem.band_names)
        self.own = band_kernels(X, X, problem.band_of, bands)
        self.across = band_kernels(Z, X, problem.band_of, bands)
        self.size = float(np.linalg.norm(Z) * np.linalg.norm(X))

    @staticmethod
    def _squares(rows: HostArray, roots: HostArray, problem: Any) -> HostArray:
        """Return the squares of columns, about their means if the problem centres."""
        means = roots @ rows / (roots @ roots) * bool(problem.unadjusted.center)
        found: HostArray = np.sum((rows - np.outer(roots, means)) ** 2, axis=0)
        return found

    def adjusted(self, A: HostArray) -> tuple[HostArray, HostArray]:
        """Return the training rows and the held-out rows of A, less what the training rows say of the design."""
        taken = self.solve @ A[self.training]
        X = A[self.training] - self.design[self.training] @ taken
        Z = A[self.rest] - self.design[self.rest] @ taken
        return X, Z


class RowFolds(FoldData):
    """The kernels of the folds of a problem.

    Parameters
    ----------
    problem : RidgeManyTargets
    A, Y : numpy.ndarray of shape (n, p), (n, m)
        The rows, adjusted by what all rows say.
    raw : numpy.ndarray of shape (n, m)
        The targets as they were given.
    """

    def __init__(self, problem: Any, A: HostArray, Y: HostArray, raw: HostArray) -> None:
        given = problem.unadjusted
        n, self.targets = Y.shape
        self.order, self.Y, self.raw, self.lone_rows = n, Y, raw, problem.lone_rows
        w, Z = given.sample_weight, given.confounds
        self.weights = np.ones(n) if w is None else w
        roots = np.sqrt(self.weights)
        Z = np.zeros((n, 0)) if Z is None else Z
        Z = Z - Z.mean(axis=0) if given.center else Z
        design = np.hstack([np.ones((n, int(given.center))), Z])
        units = reciprocal(np.max(np.abs(design), axis=0, initial=0.0))
        design = design * units * roots[:, None]
        whole = A  # what confounds explain of columns is measured by columns as they were given
        if given.confounds is not None:
            whole = problem.rows_given("X") * roots[:, None]
        self.folds = [FoldOfRows(problem, A, whole, design, roots, split) for split in problem.splits.splits]

    def decomposed(self, gamma: HostArray) -> list[tuple[HostArray, HostArray, HostArray]]:
        """Return (λ, U, M) of each fold: M multiplies coefficients in the eigenbasis to predictions."""
        found = []
        for fold in self.folds:
            values, U = eigenbasis(sum_of(fold.own, gamma), min(fold.rank, int(fold.live[gamma > 0].sum())))
            found.append((values, U, sum_of(fold.across, gamma) @ U))
        return found

    def images(self, decomposed: Sequence[Any], block: slice) -> Iterator[Images]:
        """Yield the images of a block of targets for each fold."""
        Y = self.Y[:, block].astype(np.float64)
        for (values, U, M), fold in zip(decomposed, self.folds, strict=True):
            own, rest = fold.adjusted(Y)
            totals, lengths = self._spread(fold.rest, block), np.linalg.norm(own, axis=0)
            yield RowImages(values, U.T @ own, totals, lengths, M, rest, fold.size)

    def totals(self, block: slice) -> HostArray:
        """Return the squares of a block of targets about their means over all held-out rows."""
        return self._spread(np.concatenate([fold.rest for fold in self.folds]), block)

    def _spread(self, rows: HostArray, block: slice) -> HostArray:
        """Return the squares of targets about the means of some rows, 0 where they do not vary."""
        return squares_about_means(self.raw[rows, block], self.weights[rows])


@dataclass(frozen=True, kw_only=True)
class Kernel(Solver):
    """Kernel matrices of the bands (Dupré la Tour, Eickenberg, Nunez-Elizalde & Gallant 2022)."""

    def solve(self, problem: Any, run: Run) -> Solution:
        """Choose for every target, and fit all rows with what was chosen."""
        run.plan(setup=1.0 + run.settling + (problem.given is not None))
        A, Y = problem.rows_of("X").astype(np.float64), problem.rows_of("Y")
        best = chosen(RowFolds(problem, A, Y, problem.rows_given("Y")), problem.ridges, problem.settings)
        problem.note(run, best)
        n, m = Y.shape
        kernels = band_kernels(A, A, problem.band_of, len(problem.band_names))
        duals, least = np.empty((n, m)), np.empty(m)
        for number in np.unique(best.setting):
            values, U = eigenbasis(sum_of(kernels, problem.settings[number]), n)
            mine = np.flatnonzero(best.setting == number)
            for block in blocks_of(len(mine), n):
                some = mine[block]
                z = U.T @ Y[:, some].astype(np.float64)
                duals[:, some], least[some] = fitted(values, U, z, best.ridges[some])
                pause()
        gammas = problem.settings[best.setting]
        factored = n < min(m, A.shape[1])
        return run.finish(
            weights=A.T if factored else gammas.T[problem.band_of] * (A.T @ duals),
            mixing=duals if factored else None,
            ridges=best.ridges,
            band_weights=gammas,
            scores=best.scores,
            least=least,
        )

    @classmethod
    def estimate(cls, sizes: Sizes) -> Estimate | None:
        """Estimated cost of the kernels, of the decompositions, and of the errors of all candidates."""
        if not sizes.readable or not np.isfinite(sizes.n):
            return None
        n, p, m = float(sizes.n), float(sizes.p), float(sizes.q)
        each = 20 * n**3 / FACTOR_RATE + 2 * n * n * m * (2 + RIDGES / FOLDS) / DENSE_RATE
        seconds = (FOLDS + 1) * (2 * n * n * p / DENSE_RATE + SETTINGS * each)
        held = 2 * n * p + (FOLDS + 2) * SETTINGS * n * n + 3 * n * m
        return Estimate(seconds, 8.0 * held, "kernel matrices of the folds")
