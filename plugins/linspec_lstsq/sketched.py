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
class SketchedFactor:
    """SVD of a sketch, for one or several columns, each with its own ridge.

    Attributes
    ----------
    V : array of shape (p, k)
    s, lengths : array of shape (k, 1), (k, columns)
        Singular values, and (σ² + r)^(-1/2), or 0 for directions that are left out.
    UtSB : array of shape (k, columns)
    scale, column_norms : array of shape (p, 1)
        The diagonal of D⁻¹, and approximate column norms of A.
    """

    V: Array
    s: Array
    lengths: Array
    UtSB: Array
    scale: Array
    column_norms: Array

    @classmethod
    def of(cls, SA: HostArray, SB: HostArray, home: Home, cut: float, ridges: HostArray) -> SketchedFactor:
        """Decompose a sketch.

        Without a ridge, the columns have unit length first. If these have full rank, the solution is the same, and the
        rank is more reliable. Otherwise the columns keep their lengths: the least norm is that of the unscaled
        variables.

        Parameters
        ----------
        SA, SB : numpy.ndarray of shape (d, p) and (d, m)
        home : Home
            Where thin blocks are.
        cut : float
            Singular values below this fraction of the largest count as zero.
        ridges : numpy.ndarray of shape (columns,)
        """
        p, norms, place = SA.shape[1], np.linalg.norm(SA, axis=0), home.place
        d = np.ones(p) if ridges.any() else np.where(norms > 0, norms, 1.0)
        U, s, Vt = np.linalg.svd(SA / d, full_matrices=False)
        rank = int(np.sum(s > cut * s[0]))
        if rank < p and not ridges.any():
            d = np.ones(p)
            U, s, Vt = np.linalg.svd(SA, full_matrices=False)
            rank = min(rank, int(np.sum(s > 0)))
        squares = s[:, None] ** 2 + ridges
        live = ((np.arange(len(s))[:, None] < rank) | (ridges > 0)) & (squares > 0)
        lengths = np.divide(1.0, np.sqrt(squares), out=np.zeros_like(squares), where=live)
        UtSB = np.tile(U.T @ SB, (1, len(ridges) // SB.shape[1]))
        columns = (s[:, None], lengths, UtSB, 1.0 / d[:, None], norms[:, None])
        return cls(place(Vt.T), *map(place, columns))

    def forward(self, Y: Array) -> Array:
        """N y (1)."""
        return self.scale * (self.V @ (self.lengths * Y))

    def adjoint(self, Z: Array) -> Array:
        """Nᵀ z."""
        return self.lengths * (self.V.T @ (self.scale * Z))

    def undone(self, Y: Array) -> Array:
        """z in the span of D V with Nᵀ z = y."""
        return (self.V @ (reciprocal(self.lengths) * Y)) / self.scale

    def solution(self) -> Array:
        """Solution of the sketched problem, with all right-hand sides for each ridge (2)."""
        return self.forward(self.s * self.lengths * self.UtSB)

    def rounding(self, x: Array, least: HostArray, unit: float) -> HostArray:
        """Changes of A x below which steps are the last ones, where `least` has ‖b‖ of every column."""
        sizes = Home.of(x).column_norms(self.column_norms * x)
        rounding: HostArray = SHARE * unit * np.maximum(sizes, least)  # (3)
        return rounding
