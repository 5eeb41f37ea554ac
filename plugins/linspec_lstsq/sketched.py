"""Results of a sketch S A: a preconditioner, the solution of the sketched problem, rank and column norms of A.

Problem: the singular values and right singular vectors of S A are nearly those of A, but only nearly. The rank must be
reliable nevertheless, and an iteration must end where its steps have become rounding.
Method: an SVD of the sketch, S A D⁻¹ = U Σ Vᵀ, where D has column lengths if that changes no solution; and

    N = D⁻¹ V (Σ² + r)^(-1/2)                                    (1)
    x = D⁻¹ V Σ (Σ² + r)⁻¹ Uᵀ S b                                (2)
    rounding of A x:  ε (Σⱼ ‖aⱼ‖² xⱼ²)^(1/2), at least ε ‖b‖     (3)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from linspec.arrays import Array, Home, HostArray, reciprocal

SHARE = 1 / 8
"""A step that changes A x by less than this share of (3) is the last one."""


@dataclass(frozen=True)
class RightPreconditioner:
    """x = N y by (1), where each column has its own ridge.

    Attributes
    ----------
    V : array of shape (p, k)
    scale : array of shape (p, 1)
        The diagonal of D⁻¹.
    lengths : array of shape (k, columns)
        (σ² + r)^(-1/2), or 0 for directions that are left out.
    """

    V: Array
    scale: Array
    lengths: Array

    def forward(self, Y: Array) -> Array:
        """N y."""
        return self.scale * (self.V @ (self.lengths * Y))

    def adjoint(self, Z: Array) -> Array:
        """Nᵀ z."""
        return self.lengths * (self.V.T @ (self.scale * Z))

    def undone(self, Y: Array) -> Array:
        """z in the span of D V with Nᵀ z = y."""
        return (self.V @ (reciprocal(self.lengths) * Y)) / self.scale


@dataclass(frozen=True)
class SketchedFactor:
    """SVD of a sketch.

    Attributes
    ----------
    rank : int
    s : numpy.ndarray of shape (k,)
        Singular values.
    V : array of shape (p, k)
    UtSB : numpy.ndarray of shape (k, m)
    scale : array of shape (p, 1)
        The diagonal of D⁻¹.
    column_norms : array of shape (p, 1)
        Approximate column norms of A.
    """

    rank: int
    s: HostArray
    V: Array
    UtSB: HostArray
    scale: Array
    column_norms: Array

    @classmethod
    def of(cls, SA: HostArray, SB: HostArray, home: Home, cut: float, *, scaled: bool) -> SketchedFactor:
        """Decompose a sketch.

        Parameters
        ----------
        SA, SB : numpy.ndarray of shape (d, p) and (d, m)
        home : Home
            Where thin blocks are.
        cut : float
            Singular values below this fraction of the largest count as zero.
        scaled : bool
            Decompose with columns of unit length. If these have full rank, the solution is the same, and the rank is
            more reliable. Otherwise the columns keep their lengths: the least norm is that of the unscaled variables.
        """
        p, norms = SA.shape[1], np.linalg.norm(SA, axis=0)
        d = np.where(norms > 0, norms, 1.0) if scaled else np.ones(p)
        U, s, Vt = np.linalg.svd(SA / d, full_matrices=False)
        rank = int(np.sum(s > cut * s[0]))
        if scaled and rank < p:
            d = np.ones(p)
            U, s, Vt = np.linalg.svd(SA, full_matrices=False)
            rank = min(rank, int(np.sum(s > 0)))
        place = home.place
        return cls(rank, s, place(Vt.T), U.T @ SB, place(1.0 / d)[:, None], place(norms)[:, None])

    def lengths(self, ridges: HostArray) -> HostArray:
        """(σ² + r)^(-1/2) for every direction and ridge; 0 for directions of rounding."""
        kept = np.arange(len(self.s))[:, None] < self.rank
        squares = self.s[:, None] ** 2 + ridges
        live = (kept | (ridges > 0)) & (squares > 0)
        lengths: HostArray = np.divide(1.0, np.sqrt(squares), out=np.zeros_like(squares), where=live)
        return lengths

    def preconditioner(self, ridges: HostArray) -> RightPreconditioner:
        """N with a column of lengths for each of `ridges`."""
        return RightPreconditioner(self.V, self.scale, Home.of(self.V).place(self.lengths(ridges)))  # (1)

    def solution(self, ridges: HostArray) -> Array:
        """Solution of the sketched problem, with all right-hand sides for each ridge."""
        parts = np.tile(self.UtSB, (1, len(ridges) // self.UtSB.shape[1]))
        y = self.s[:, None] * self.lengths(ridges) ** 2 * parts
        return self.scale * (self.V @ Home.of(self.V).place(y))  # (2)

    def rounding(self, x: Array, least: HostArray, unit: float) -> HostArray:
        """Changes of A x below which steps are the last ones, where `least` has ‖b‖ of every column."""
        sizes = Home.of(x).column_norms(self.column_norms * x)
        rounding: HostArray = SHARE * unit * np.maximum(sizes, least)  # (3)
        return rounding
