"""A preconditioner of one Gram matrix: a diagonal and a part of low rank, from one product with a thin block.

Problem: approximate S⁻¹ R for S = XᵀX + rI, if one product SΩ and the diagonal D are known.
Method: the Nyström approximation N = FFᵀ, F = SΩ(ΩᵀSΩ)^(-1/2) without the ridge, has the large eigenvalues.
The rest of the diagonal, E = D − diag N, replaces the other eigenvalues: P = FFᵀ + E, inverted by Woodbury's
identity.
Source: Frangella, Tropp & Udell 2023, doi:10.1137/21M1466244, have a multiple of the identity for E.
Where we differ: with a diagonal E, one form serves two kinds of data. For word counts, whose columns rarely
share a row, N explains little of the diagonal, and P is Jacobi's. For pixels N explains nearly all of it, and
P is Nyström's. The rank depends on the data: a direction of E^(-1/2) F is kept if it is several times longer
than the diagonal alone explains.

If the diagonal is known only from random signs Ω, each entry is the mean of z (Sz) over the signs plus twice
its standard error. An entry that is too large costs almost nothing. An entry that is too small makes its
column dominate every direction. (Measured with 60 signs: plain means cost a third more sweeps than the exact
diagonal, and raised means cost no more.)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from linspec.algebra.small_matrices import EPS, whitening
from linspec.arrays import Array, Home, reciprocal, to_host

WORTH = 3.0
"""The squared length, in units of the diagonal, of the shortest direction that is kept."""

LEAST = 1e-4
"""The least fraction of the diagonal that remains in E."""

ERRORS = 2.0
"""The number of standard errors by which an estimated diagonal is raised."""

ROUNDING = 1e-12
"""An estimated entry below this fraction of the largest entry of the diagonal is zero."""


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
        """The number of columns in the part of low rank."""
        return int(self.L.shape[1])

    def solve(self, R: Array) -> Array:
        """P⁻¹ R, which overwrites R."""
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
    """The preconditioner from a product with a block.

    Parameters
    ----------
    Omega, SOmega : array of shape (p, l)
        A block and its product with the Gram matrix, ridge included.
    ridge : float
    diagonal : array of shape (p,)
        The diagonal of the Gram matrix, without the ridge.
    rank : int or None
        The largest rank of the part of low rank; by default the data decide.
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
    """A safe estimate of the diagonal of a Gram matrix, without ridge, from its product with random signs."""
    xp = home.xp
    samples = signs * (Ssigns - signs * ridge)
    count = signs.shape[1]
    mean = xp.sum(samples, axis=1) / count
    spread = xp.sqrt(xp.sum((samples - mean[:, None]) ** 2, axis=1) / (count * max(count - 1, 1)))
    raised = xp.max(xp.stack([mean, xp.zeros_like(mean)]), axis=0) + ERRORS * spread
    # For a column that is zero after centring, the products are only rounding.
    return xp.where(raised > ROUNDING * xp.max(raised), raised, xp.zeros_like(raised))
