"""The randomized Nyström approximation of AᵀA, and the preconditioner that follows from it.

Problem: leading eigenvectors of AᵀA from one product with a random block, for preconditioners of all ridges.
Method: with Y = AᵀAΩ,

    Y (ΩᵀY)⁺ Yᵀ = U Λ Uᵀ                                  (1)
    P = U (Λ + r)/(λ_l + r) Uᵀ + (I - UUᵀ)                (2)

Source: Frangella, Tropp & Udell 2023, doi:10.1137/21M1466244, Algorithms 2.1 and 5.1.
Where we differ: UΛUᵀ comes from eigenvectors of FᵀF, F = Y (ΩᵀY)^(-1/2), over the directions above rounding, and not
from a shifted Cholesky factor. If the sketch covers the whole range and there is a ridge, eigenvalues are reduced to r
and not to λ_l + r.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from linspec.arrays import Array, Home, HostArray, to_host
from linspec.linalg import EPS, Step, whitening


@dataclass(frozen=True)
class Nystrom:
    """The approximation UΛUᵀ; `complete` if the sketch covers the whole numerical range."""

    U: Array
    values: HostArray
    complete: bool

    @classmethod
    def of(cls, Omega: Array, Y: Array) -> Nystrom:
        """Compute (1) over the directions above rounding."""
        place = Home.of(Y).place
        F = Y @ place(whitening(to_host(Omega.T @ Y), cut=10 * EPS))
        values, vectors = np.linalg.eigh(to_host(F.T @ F))
        live = values > 10 * len(values) * EPS * np.max(values, initial=0.0)
        values, vectors = values[live][::-1], vectors[:, live][:, ::-1]
        U = F @ place(vectors / np.sqrt(values))
        # The condition number of FᵀF limits orthonormality: eigenvectors of small eigenvalues have parts of others.
        L = np.linalg.cholesky(to_host(U.T @ U))
        return cls(U @ place(np.linalg.inv(L).T), values, len(values) < Omega.shape[1])

    def exact(self, ridge: float) -> bool:
        """Whether the preconditioner is the inverse."""
        return self.complete and ridge > 0


@dataclass(frozen=True)
class NystromPreconditioner:
    """x = H y, H = P^(-1/2): the iteration multiplies by HᵀMH, where M = AᵀA + rI.

    Attributes
    ----------
    U : array of shape (p, l)
        Eigenvectors in P.
    shrink : array of shape (l, 1)
        The factors by which P^(-1/2) multiplies components along U.
    ridge : float
    """

    U: Array
    shrink: Array
    ridge: float

    @classmethod
    def of(cls, N: Nystrom, ridge: float) -> NystromPreconditioner:
        """The preconditioner for one ridge."""
        floor = 0.0 if N.exact(ridge) else N.values[-1]
        shrink = np.sqrt((floor + ridge) / (N.values + ridge))  # (2)
        return cls(N.U, Home.of(N.U).place(shrink)[:, None], ridge)

    def forward(self, P: Array) -> Array:
        """H P."""
        return self._stretched(P, self.shrink)

    def back(self, V: Array, SV: Array) -> Array:
        """Hᵀ M V, and H is symmetric."""
        return self.forward(SV + self.ridge * V)

    def answer(self, Y: Array) -> Array:
        """H Y."""
        return self.forward(Y)

    def lengths(self, step: Step) -> HostArray:
        """The lengths of H⁻¹ R."""
        R = self._stretched(step.residual(), 1 / self.shrink)
        return Home.of(R).column_norms(R)

    def _stretched(self, V: Array, factors: Array) -> Array:
        """V with its component along each column of U multiplied by the entry of `factors` for this column."""
        return V + self.U @ ((factors - 1) * (self.U.T @ V))
