"""The randomized Nyström approximation of AᵀA, and the preconditioner that follows from it.

Problem: leading eigenvectors of AᵀA from one product with a random block, for preconditioners of all ridges.
Method: with Y = AᵀAΩ,

    Y (ΩᵀY)⁺ Yᵀ = U Λ Uᵀ                                  (1)
    P = U (Λ + r)/(λ_l + r) Uᵀ + (I - UUᵀ)                (2)

Source: Frangella, Tropp & Udell 2023, doi:10.1137/21M1466244, Algorithms 2.1 and 5.1.
Where we differ: UΛUᵀ comes from eigenvectors of FᵀF, F = Y (ΩᵀY)^(-1/2), over the directions above rounding, and not
from a shifted Cholesky factor. If the sketch covers the whole range and there is a ridge, eigenvalues are reduced to r
and not to λ_l + r. Columns of very different length may be scaled to equal length first (Jacobi), with D the diagonal
of AᵀA + rI: then (1) is of D^(-1/2) (AᵀA + rI) D^(-1/2).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

from linspec.arrays import Array, Home, HostArray, to_host
from linspec.linalg import EPS, Step, whitening
from linspec_lstsq.nystrom_costs import Outlook


@dataclass(frozen=True, eq=False)
class NystromSketch:
    """Ω and Y = AᵀAΩ, and the approximations that follow from them.

    Attributes
    ----------
    Omega, Y : array of shape (p, l)
    squares : numpy.ndarray of shape (p,)
        The diagonal of AᵀA, or an estimate.
    outlook : Outlook
    scaled : bool
        Whether columns are scaled to equal length, ridge included.
    """

    Omega: Array
    Y: Array
    squares: HostArray
    outlook: Outlook
    scaled: bool = False
    known: dict[float, Nystrom] = field(default_factory=dict, repr=False)

    def scaled_anew(self, ridge: float, product: Callable[[Array], Array]) -> NystromSketch:
        """Return a sketch of columns of equal length, with the same random numbers."""
        Omega = self.Omega / self.roots(ridge)
        outlook = replace(self.outlook, trace=float(len(self.squares)))  # the diagonal is 1
        return NystromSketch(Omega, product(Omega), self.squares, outlook, scaled=True)

    def widened(self, Omega: Array, ridge: float, product: Callable[[Array], Array]) -> NystromSketch:
        """Return the sketch with further random columns."""
        Omega = Omega / self.roots(ridge) if self.scaled else Omega
        concat = Home.of(Omega).concat
        return replace(self, Omega=concat([self.Omega, Omega]), Y=concat([self.Y, product(Omega)]), known={})

    def roots(self, ridge: float) -> Array:
        """D^(1/2) as a column, with 1 instead of 0."""
        d = np.sqrt(self.squares + ridge)
        return Home.of(self.Omega).place(np.where(d > 0, d, 1.0))[:, None]

    def nystrom(self, ridge: float) -> Nystrom:
        """The approximation of AᵀA, or of AᵀA + rI with scaled columns."""
        key = ridge if self.scaled else 0.0
        if key not in self.known:
            Omega, Y = self.Omega, self.Y
            if self.scaled:
                roots = self.roots(ridge)
                Omega, Y = Omega * roots, (Y + Omega * ridge) / roots
            self.known[key] = Nystrom.of(Omega, Y)
        return self.known[key]

    def shift(self, ridge: float) -> float:
        """What is added to the eigenvalues: the ridge, unless they include it."""
        return 0.0 if self.scaled else ridge

    def pays(self, ridge: float) -> bool:
        """Whether twice as many columns would save more than they cost."""
        N = self.nystrom(ridge)
        full = not N.complete and len(N.values) > 1
        return full and self.outlook.pays(N.values, self.shift(ridge))


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


@dataclass(frozen=True)
class NystromPreconditioner:
    """x = H y, H = D^(-1/2) P^(-1/2): the iteration multiplies by HᵀMH, where M = AᵀA + rI.

    Attributes
    ----------
    U : array of shape (p, l)
        Eigenvectors in P; no columns if the iteration is cheaper without P.
    shrink : array of shape (l, 1)
        The factors by which P^(-1/2) multiplies components along U.
    roots : array of shape (p, 1), or None
        D^(1/2); None if D = I.
    ridge : float
    """

    U: Array
    shrink: Array
    roots: Array | None
    ridge: float

    @classmethod
    def of(cls, sketch: NystromSketch, ridge: float) -> NystromPreconditioner:
        """The preconditioner for one ridge; without U if the iteration is cheaper without it."""
        N, r = sketch.nystrom(ridge), sketch.shift(ridge)
        exact = N.complete and r > 0
        useful = len(N.values) > 0 and (exact or sketch.outlook.useful(N.values, r))
        values = N.values if useful else N.values[:0]
        floor = 0.0 if not useful or exact else values[-1]
        shrink = np.sqrt((floor + r) / (values + r))  # (2)
        roots = sketch.roots(ridge) if sketch.scaled else None
        return cls(N.U[:, : len(values)], Home.of(N.U).place(shrink)[:, None], roots, ridge)

    def forward(self, P: Array) -> Array:
        """H P."""
        V = self._stretched(P, self.shrink)
        return V if self.roots is None else V / self.roots

    def adjoint(self, G: Array) -> Array:
        """Hᵀ G."""
        return self._stretched(G if self.roots is None else G / self.roots, self.shrink)

    def back(self, V: Array, SV: Array) -> Array:
        """Hᵀ M V."""
        return self.adjoint(SV + self.ridge * V)

    def answer(self, Y: Array) -> Array:
        """H Y."""
        return self.forward(Y)

    def lengths(self, step: Step) -> HostArray:
        """The lengths of H⁻ᵀ R."""
        R = self._stretched(step.residual(), 1 / self.shrink)
        return Home.of(R).column_norms(R if self.roots is None else R * self.roots)

    def _stretched(self, V: Array, factors: Array) -> Array:
        """V with its component along each column of U multiplied by the entry of `factors` for this column."""
        return V if self.U.shape[1] == 0 else V + self.U @ ((factors - 1) * (self.U.T @ V))
