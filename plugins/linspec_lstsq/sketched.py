"""Results of a sketch S A: a preconditioner, the solution of the sketched problem, rank and column norms of A.

Problem: the singular values and right singular vectors of S A are nearly those of A, but only nearly. The rank must be
reliable nevertheless, and an iteration must end where its steps have become rounding.
Method: an SVD of the sketch, with columns of unit length if that changes no solution; and the backward error of one
unit of rounding, by the column norms.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from linspec import Iterate
from linspec.arrays import Array, Home, HostArray, to_host
from linspec_lstsq.golub_kahan import RightHandSides, RightPreconditioner
from linspec_lstsq.gradients import column_norms
from linspec_lstsq.lsqr_iterate import LSQRIterate


@dataclass(frozen=True)
class SketchedFactor:
    """SVD of a sketch, and the preconditioner from it for a ridge.

    Attributes
    ----------
    home : Home
        The home of blocks.
    rank : int
    s : numpy.ndarray of shape (k,)
        Singular values.
    V : array of shape (p, k)
        Right singular vectors.
    scale : array of shape (p,)
        Factors by which the columns of the sketch were multiplied.
    column_norms : array of shape (p,)
        Approximate column norms of A.
    """

    home: Home
    rank: int
    s: HostArray
    V: Array
    scale: Array
    column_norms: Array

    def lengths(self, ridges: HostArray) -> HostArray:
        """1/√(σ² + r) for every direction and ridge; 0 for directions of rounding."""
        kept = np.arange(len(self.s))[:, None] < self.rank
        squares = self.s[:, None] ** 2 + ridges
        keep = (kept | (ridges > 0)) & (squares > 0)
        lengths: HostArray = np.divide(1.0, np.sqrt(squares), out=np.zeros_like(squares), where=keep)
        return lengths

    def preconditioner(self, ridges: HostArray) -> RightPreconditioner:
        """Preconditioner N with one column of lengths for each of `ridges`."""
        return RightPreconditioner(self.V, self.scale[:, None], self.home.place(self.lengths(ridges)))

    def solution(self, UtSB: HostArray, ridges: HostArray) -> Array:
        """Solution of the sketched problem for right-hand sides repeated ridge by ridge."""
        parts = np.tile(UtSB, (1, len(ridges) // UtSB.shape[1]))
        y = self.s[:, None] * self.lengths(ridges) ** 2 * parts
        return self.scale[:, None] * (self.V @ self.home.place(y))


def decomposed(SA: HostArray, home: Home, cut: float, *, scaled: bool) -> tuple[SketchedFactor, HostArray]:
    """Decompose a sketch; return its factor and its left singular vectors.

    Parameters
    ----------
    SA : numpy.ndarray of shape (d, p)
    home : Home
        The home of blocks.
    cut : float
        Singular values below this fraction of the largest count as zero.
    scaled : bool
        Decompose with columns of unit length. If these have full rank, the solution is the same, and the rank is more
        reliable. Otherwise the columns keep their lengths: the least norm is that of the unscaled variables.
    """
    p = SA.shape[1]
    norms = np.linalg.norm(SA, axis=0)
    d = np.where(norms > 0, norms, 1.0) if scaled else np.ones(p)
    U, s, Vt = np.linalg.svd(SA / d, full_matrices=False)
    rank = int(np.sum(s > cut * s[0]))
    if scaled and rank < p:
        d = np.ones(p)
        U, s, Vt = np.linalg.svd(SA, full_matrices=False)
        rank = min(rank, int(np.sum(s > 0)))
    return SketchedFactor(home, rank, s, home.place(Vt.T), home.place(1.0 / d), home.place(norms)), U


class SketchedIterate(Iterate):
    """Iterate of LSQR, with the rank and column norms of A from the sketch.

    Attributes
    ----------
    lsqr : LSQRIterate
        Iterate of LSQR, with its preconditioner.
    rank : int
    column_norms : array of shape (p,)
        Approximate column norms of A.
    left : int
        Number of corrections still to be solved for.
    known : numpy.ndarray of shape (pairs,)
        `known` of `Rounding`.
    """

    def __init__(
        self,
        residual: float,
        lsqr: LSQRIterate,
        rank: int,
        column_norms: Array,
        left: int,
        known: HostArray,
        *,
        shown: bool = True,
    ) -> None:
        super().__init__(residual)
        self.shown = shown
        self.lsqr, self.rank, self.column_norms = lsqr, rank, column_norms
        self.left, self.known = left, known

    def weights(self) -> Mapping[str, Any]:
        """The iterates x."""
        return self.lsqr.weights()

    def answer(self) -> Mapping[str, Any]:
        """The iterates x, and the rank."""
        return {**self.weights(), "rank": self.rank}


class Rounding:
    """Test whether the steps of LSQR are rounding.

    A backward-stable method may solve for data with an error of one unit of rounding: the errors are relative to the
    length of b, and to the length of each column of A. The error of A x is then the sum of the errors of the columns
    times the entries of x. A step that changes A x by less than an eighth of this error is the last step.

    Parameters
    ----------
    data : RightHandSides
    norms : array of shape (p,)
        Column norms of A.
    known : numpy.ndarray of shape (pairs,), optional
        For each pair, an eighth of the error of A x at the last iterate for which it was computed; infinite before.
    """

    def __init__(self, data: RightHandSides, norms: Array, known: HostArray | None = None) -> None:
        self._norms, self._home = norms[:, None], data.home
        sizes = np.sqrt(to_host(data.squares(data.B)))
        self._least = np.tile(sizes, len(data.ridges) // data.columns)
        self._unit = float(np.finfo(data.A.dtype).eps) / 8
        self.known = np.full(len(data.ridges), np.inf) if known is None else known

    def leaves(self, it: LSQRIterate) -> HostArray:
        """Mask of the live pairs whose last step was only rounding."""
        steps = it.steps[it.live]
        if (steps <= self.known[it.live]).any():  # x changes: compute its error again before deciding
            sizes = column_norms(self._norms * it.solution(), self._home)
            self.known = self._unit * np.maximum(sizes, self._least)
        found: HostArray = steps <= self.known[it.live]
        return found
