"""A preconditioner of one Gram matrix: a diagonal and a part of low rank, from one product with a thin block.

Problem: S⁻¹ R roughly, for S = XᵀX + rI of which one product SΩ is known, and the diagonal D.
Method: the Nyström approximation N = FFᵀ, F = SΩ(ΩᵀSΩ)^(-1/2) without the ridge, has the large eigenvalues, and what it
leaves of the diagonal, E = D − diag N, stands for the rest: P = FFᵀ + E, inverted by Woodbury's identity.
Source: Frangella, Tropp & Udell 2023, doi:10.1137/21M1466244, have a multiple of the identity for E.
Where we differ: with a diagonal, one form serves both kinds of data. Of counts of words, whose columns rarely meet, N
explains little of the diagonal, and P is Jacobi's; of pixels it explains nearly all, and P is Nyström's. The
rank is what the data ask for: of the directions of E^(-1/2) F those stay that are more than a few times as long as the
diagonal alone says.

Where the diagonal is known from random signs alone, Ω being the signs, each entry is the mean of z (Sz) over them
plus twice its standard error. An entry that is too large costs next to nothing; one that is too small makes its column
lead every direction (measured: from 60 signs, means alone cost a third more sweeps than the exact diagonal, and these
cost none).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from linspec.arrays import Array, Home, reciprocal, to_host
from linspec.block_algebra import EPS, whitening

WORTH = 3.0
"""Squared length, in units of the diagonal, of the shortest direction that is kept."""

LEAST = 1e-4
"""Share of the diagonal that is left to it at least."""

ERRORS = 2.0
"""Standard errors by which an estimated diagonal is raised."""

ROUNDING = 1e-12
"""Share of the largest entry of a diagonal below which an estimated one is zero."""


@dataclass(frozen=True, eq=False)
class Preconditioner:
    """P⁻¹ R = R / E − L Lᵀ R.

    Attributes
    ----------
    weights : array of shape (p,)
        1 / E.
    L : array of shape (p, r)
    """

    home: Home
    weights: Array
    L: Array

    @property
    def rank(self) -> int:
        """Columns of the part of low rank."""
        return int(self.L.shape[1])

    def solve(self, R: Array) -> Array:
        """P⁻¹ R, in the place of R."""
        inside = self.L.T @ R if self.rank else None
        R *= self.weights[:, None]
        if inside is not None:
            R -= self.L @ inside
        return R


def jacobi(diagonal: Array, home: Home) -> Preconditioner:
    """The diagonal alone, ridge included."""
    return Preconditioner(home, reciprocal(diagonal), home.zeros((diagonal.shape[0], 0)))


def from_sketch(
    Omega: Array, SOmega: Array, ridge: float, diagonal: Array, rank: int | None, home: Home
) -> Preconditioner:
    """The preconditioner that a product tells.

    Parameters
    ----------
    Omega, SOmega : array of shape (p, l)
        A block and its product with the Gram matrix, ridge included.
    ridge : float
    diagonal : array of shape (p,)
        Of the Gram matrix, the ridge left out.
    rank : int or None
        Columns of the part of low rank at most; None: as many as are worth it.
    home : Home
    """
    xp = home.xp
    if rank == 0:
        return jacobi(diagonal + ridge, home)
    Y = SOmega - Omega * ridge
    F = Y @ home.place(whitening(to_host(Omega.T @ Y), cut=10 * EPS))
    E = xp.max(xp.stack([diagonal - xp.sum(F * F, axis=1), diagonal * LEAST]), axis=0) + ridge
    weights = reciprocal(E)
    squares, vectors = np.linalg.eigh(to_host(F.T @ (F * weights[:, None])))
    squares, vectors = squares[::-1], vectors[:, ::-1]
    count = int(np.sum(squares > WORTH)) if rank is None else min(rank, int(np.sum(squares > 0)))
    if count == 0:
        return jacobi(diagonal + ridge, home)
    L = (F @ home.place(vectors[:, :count] / np.sqrt(1 + squares[:count]))) * weights[:, None]
    return Preconditioner(home, weights, L)


def raised_diagonal(signs: Array, Ssigns: Array, ridge: float, home: Home) -> Array:
    """The diagonal of a Gram matrix from its product with random signs, on the safe side; the ridge is left out."""
    xp = home.xp
    samples = signs * (Ssigns - signs * ridge)
    count = signs.shape[1]
    mean = xp.sum(samples, axis=1) / count
    spread = xp.sqrt(xp.sum((samples - mean[:, None]) ** 2, axis=1) / (count * max(count - 1, 1)))
    raised = xp.max(xp.stack([mean, xp.zeros_like(mean)]), axis=0) + ERRORS * spread
    # Of a column that centring makes zero, products leave rounding.
    return xp.where(raised > ROUNDING * xp.max(raised), raised, xp.zeros_like(raised))
