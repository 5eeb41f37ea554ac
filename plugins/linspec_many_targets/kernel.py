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
from functools import partial
from typing import Any

import numpy as np

from linspec.arrays import HostArray, reciprocal, to_host
from linspec.cost import DENSE_RATE, FACTOR_RATE, Estimate, Sizes
from linspec.iteration import Context, Iterate
from linspec.linalg import squares_about_means, varies
from linspec.rows import EXPLAINED, Moments, Preprocessing
from linspec.solving import Solver
from linspec_many_targets.choice import (
    Images,
    chosen,
    eigenbasis,
    fitted,
)
from linspec_many_targets.gram import FOLDS, RIDGES, SETTINGS

COLLINEAR = 1e-13
"""Confounds depend on each other where a singular value is below this share of the largest."""


def rows_of(moments: Moments) -> list[HostArray]:
    """The rows of each matrix as they came, on the host in float64, as they are multiplied from now on; in one pass."""
    for A in moments.operators:
        A.widen()
    moments.fit()
    moments.passes.take()
    every = np.arange(int(moments.operators[0].shape[0]))
    return [to_host(A.take(every).about(None).dense()) for A in moments.operators]


def preprocessed(moments: Moments, i: int, X: HostArray) -> HostArray:
    """√D times the preprocessed rows of matrix i."""
    f, B = moments.fitted[i], moments.pre.B
    X = (X - f.mean) - f.rest
    X = X if B is None or f.slopes is None else X - B @ f.slopes.T
    return roots_of(moments.pre, len(X))[:, None] * X * f.kept


def roots_of(pre: Preprocessing, n: int) -> HostArray:
    """The roots of the weights of n rows."""
    return np.ones(n) if pre.w is None else np.sqrt(pre.w)


def band_kernels(left: HostArray, right: HostArray, band_of: HostArray, bands: int) -> HostArray:
    """Return X_b Z_bᵀ for rows X and Z and each band b, of shape (bands, n, m)."""
    return np.stack([left[:, band_of == b] @ right[:, band_of == b].T for b in range(bands)])


def sum_of(kernels: HostArray, gamma: HostArray) -> HostArray:
    """Return Σ γ_b K_b."""
    return np.tensordot(gamma, kernels, axes=1)


def errors_of_rows(held_out: HostArray, predicts: HostArray, c: HostArray) -> HostArray:
    """Return the squares of the held-out targets less their predictions."""
    gaps = held_out - predicts @ c
    return np.einsum("ij,ij->j", gaps, gaps)


class FoldOfRows:
    """One fold: its kernels, and what is subtracted from its rows.

    Rows are multiplied by the roots of their weights, so a regression on the constant and on confounds is one on the
    columns of `design`, which are multiplied alike.
    """

    def __init__(self, problem: Any, X: HostArray, design: HostArray, roots: HostArray, split: Any) -> None:
        self.training, self.rest = split
        self.design, self.roots, self.center = design, roots, problem.center
        self.d = d = roots[self.training]
        U, s, Vt = np.linalg.svd(design[self.training], full_matrices=False)
        keep = s > COLLINEAR * s.max(initial=0.0)
        self.solve = (Vt[keep].T / s[keep]) @ U[:, keep].T
        A, Z = self.adjusted(X)
        left, before, size = (
            np.einsum("ij,ij->j", M, M)
            for M in (A, self._centred(X)[self.training], d[:, None] * X[self.training])
        )
        factors = (varies(left, size) & (left > EXPLAINED * before)) * 1.0
        self.rank = int(np.count_nonzero(d) - np.count_nonzero(keep))
        self.live = np.bincount(problem.band_of, factors, len(problem.band_names))
        if problem.scale:
            factors *= reciprocal(np.sqrt(left / (d @ d)))
        A, Z, bands = A * factors, Z * factors, len(problem.band_names)
        self.kernels = band_kernels(A, A, problem.band_of, bands)
        self.across = band_kernels(Z, A, problem.band_of, bands)

    def _centred(self, X: HostArray) -> HostArray:
        """√D times rows less the mean of the training rows, so that large means cost no digits."""
        mean = self.d**2 @ X[self.training] / (self.d @ self.d) if self.center else 0.0
        return self.roots[:, None] * (X - mean)

    def adjusted(self, X: HostArray) -> tuple[HostArray, HostArray]:
        """Return the training rows and the held-out rows of X, less what the training rows say of the design."""
        A = self._centred(X)
        A = A - self.design @ (self.solve @ A[self.training])
        return A[self.training], A[self.rest]


class RowFolds:
    """The kernels of the folds of a problem.

    Parameters
    ----------
    problem : RidgeManyTargets
    X, Y : numpy.ndarray of shape (n, p), (n, m)
        The rows as they came.
    pre : Preprocessing
    """

    def __init__(self, problem: Any, X: HostArray, Y: HostArray, pre: Preprocessing) -> None:
        self.order, self.targets = Y.shape
        self.Y, self.lone_rows, self.roots = Y, problem.lone_rows, roots_of(pre, len(Y))
        constant = np.full((len(Y), int(pre.center)), 1 / np.linalg.norm(self.roots))
        design = self.roots[:, None] * np.hstack([constant, constant[:, :0] if pre.B is None else pre.B])
        self.folds = [FoldOfRows(problem, X, design, self.roots, split) for split in problem.splits.splits]

    def decomposed(self, gamma: HostArray) -> list[tuple[HostArray, HostArray, HostArray]]:
        """Return (λ, U, M) of each fold: M multiplies coefficients in the eigenbasis to predictions."""
        decompositions = []
        for fold in self.folds:
            values, U = eigenbasis(
                sum_of(fold.kernels, gamma), min(fold.rank, int(fold.live[gamma > 0].sum()))
            )
            decompositions.append((values, U, sum_of(fold.across, gamma) @ U))
        return decompositions

    def images(self, decomposed: Sequence[Any], block: slice) -> tuple[list[Any], HostArray]:
        """Return the images of a block of targets for each fold, and their squares over all folds."""
        Y = self.Y[:, block]
        images = list[Any]()
        for (values, U, M), fold in zip(decomposed, self.folds, strict=True):
            training, rest = fold.adjusted(Y)
            totals, squares = self._spread(fold.rest, block), np.einsum("ij,ij->j", rest, rest)
            images.append(Images(partial(errors_of_rows, rest, M), values, U.T @ training, totals, squares))
        return images, self._spread(np.concatenate([fold.rest for fold in self.folds]), block)

    def _spread(self, rows: HostArray, block: slice) -> HostArray:
        """Return the squares of targets about the means of some rows, 0 where they do not vary."""
        return squares_about_means(self.Y[rows, block], self.roots[rows] ** 2)


@dataclass(frozen=True, kw_only=True)
class Kernel(Solver):
    """Kernel matrices of the bands (Dupré la Tour, Eickenberg, Nunez-Elizalde & Gallant 2022)."""

    def iterate(self, problem: Any, moments: Moments, context: Context, start: Any) -> Iterator[Iterate]:
        """Choose for every target, and fit all rows with what was chosen."""
        X, Y = rows_of(moments)
        best = chosen(RowFolds(problem, X, Y, moments.pre), problem.ridges, problem.settings)
        problem.note(context, best)
        X, Y = (preprocessed(moments, i, M) for i, M in enumerate((X, Y)))
        kernels = band_kernels(X, X, problem.band_of, len(problem.band_names))
        duals, least = fitted(
            best, Y, lambda number: eigenbasis(sum_of(kernels, problem.settings[number]), len(Y))
        )
        arrays = best.arrays(problem.settings) | {"least": least, "mixing": duals}
        if len(Y) >= min(Y.shape[1], X.shape[1]):
            arrays["weights"] = arrays["band_weights"].T[problem.band_of] * (X.T @ arrays.pop("mixing"))
        yield Iterate(0.0, partial(dict, arrays), final=True)

    @classmethod
    def estimate(cls, sizes: Sizes) -> Estimate | None:
        """Estimated cost of the kernels, of the decompositions, and of the errors of all candidates."""
        n, p, m = float(sizes.n), float(sizes.p), float(sizes.q)
        if not np.isfinite(n):
            return None
        per_fold = 20 * n**3 / FACTOR_RATE + 2 * n * n * m * (2 + RIDGES / FOLDS) / DENSE_RATE
        seconds = (FOLDS + 1) * (2 * n * n * p / DENSE_RATE + SETTINGS * per_fold)
        held = 2 * n * p + (FOLDS + 2) * SETTINGS * n * n + 3 * n * m
        return Estimate(seconds, 8.0 * held, "kernel matrices of the folds")
