"""The randomized Nyström approximation of AᵀA, and the preconditioner that follows from it.

Problem: leading eigenvectors of AᵀA from one product with a random block, for preconditioners of all ridges.
Method: with Y = AᵀAΩ, Y(ΩᵀY)⁺Yᵀ = UΛUᵀ, and P = U (Λ + r)/(λ_l + r) Uᵀ + (I − UUᵀ).
Source: Frangella, Tropp & Udell 2023, doi:10.1137/21M1466244, Algorithms 2.1 and 5.1.
Where we differ: UΛUᵀ comes from eigenvectors of FᵀF, F = Y (ΩᵀY)^(-1/2), over the directions above rounding, and not
from a shifted Cholesky factor; see nystrom_pcg.py for scaled columns and for sketches that cover the whole range.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from linspec.algebra import EPS, whitening
from linspec.arrays import Array, Home, HostArray, to_host
from linspec_lstsq.nystrom_costs import Outlook

SPREAD = 1e4
"""Columns count as badly scaled above this ratio of the largest to the smallest squared norm, ridge included."""


@dataclass(frozen=True, eq=False)
class NystromSketch:
    """Ω and Y = AᵀAΩ, and the preconditioners that follow from them for any ridge.

    Parameters
    ----------
    Omega, Y : array of shape (p, l)
    diagonal : array of shape (p,)
        The diagonal of AᵀA, or an estimate if it is unknown.
    home : Home
    outlook : Outlook
    scaled : bool
        Whether columns are scaled to equal length, ridge included.
    """

    Omega: Array
    Y: Array
    diagonal: Array
    home: Home
    outlook: Outlook
    scaled: bool = False

    def __post_init__(self) -> None:
        if self.scaled:  # the diagonal is 1, then
            vars(self)["outlook"] = replace(self.outlook, trace=float(self.diagonal.shape[0]))

    @cached_property
    def _found(self) -> dict[float, Nystrom]:
        return {}

    @property
    def columns(self) -> int:
        """Number of columns of Ω."""
        return int(self.Omega.shape[1])

    @property
    def norm(self) -> float:
        """A lower bound of the norm of AᵀA."""
        values = [] if self.scaled else self.nystrom(0.0).values[:1].tolist()
        return max(values, default=float(to_host(self.home.xp.max(self.diagonal))))

    def widened(self, Omega: Array, Y: Array) -> NystromSketch:
        """Return the sketch with further columns Ω and their products Y."""
        concat = self.home.concat
        return replace(self, Omega=concat([self.Omega, Omega]), Y=concat([self.Y, Y]))

    def unequal(self, ridge: float) -> bool:
        """Whether lengths of columns differ enough for a scaling; never at ridge 0."""
        d = to_host(self.diagonal) + ridge
        return ridge > 0 and bool(d.max() > SPREAD * d.min())

    def roots(self, ridge: float) -> Array:
        """√(diag AᵀA + r), with 1 instead of 0."""
        xp = self.home.xp
        d = xp.sqrt(self.diagonal + ridge)
        return xp.where(d > 0, d, xp.ones_like(d))

    def nystrom(self, ridge: float) -> Nystrom:
        """The Nyström approximation of AᵀA, or of AᵀA + rI with columns scaled to equal length."""
        key = ridge if self.scaled else 0.0
        if key not in self._found:
            Omega, Y = self.Omega, self.Y
            if self.scaled:
                roots = self.roots(ridge)[:, None]
                Omega, Y = Omega * roots, (Y + Omega * ridge) / roots
            self._found[key] = Nystrom.of(Omega, Y, self.home)
        return self._found[key]

    def shift(self, ridge: float) -> float:
        """The term to add to the eigenvalues: the ridge, or 0 for the scaled matrix, whose eigenvalues include it."""
        return 0.0 if self.scaled else ridge

    def pays(self, ridge: float) -> bool:
        """Whether twice as many columns would save more than they cost."""
        found = self.nystrom(ridge)
        full = not found.complete and len(found.values) > 1
        return full and self.outlook.pays(found.values, self.shift(ridge))


@dataclass(frozen=True)
class Nystrom:
    """The approximation UΛUᵀ; `complete` if the sketch covers the whole numerical range."""

    U: Array
    values: HostArray
    complete: bool

    @classmethod
    def of(cls, Omega: Array, Y: Array, home: Home) -> Nystrom:
        """Compute eigenvectors and eigenvalues of Y (ΩᵀY)⁺ Yᵀ over the directions above rounding."""
        T = whitening(to_host(Omega.T @ Y), cut=10 * EPS)
        F = Y @ home.place(T)
        U, values = _eigenvectors(F, home)
        # The condition number of FᵀF limits orthonormality: eigenvectors of small eigenvalues have parts of others.
        L = np.linalg.cholesky(to_host(U.T @ U))
        upright = np.linalg.inv(L).T
        return cls(U @ home.place(upright), values, len(values) < Omega.shape[1])


def _eigenvectors(F: Array, home: Home) -> tuple[Array, HostArray]:
    """Eigenvectors and eigenvalues of FFᵀ, decreasing, down to rounding."""
    values, vectors = np.linalg.eigh(to_host(F.T @ F))
    keep = values > 10 * len(values) * EPS * max(values[-1], 0.0) if len(values) else np.zeros(0, dtype=bool)
    values, vectors = values[keep][::-1], vectors[:, keep][:, ::-1]
    return F @ home.place(vectors / np.sqrt(values)), values


@dataclass(frozen=True)
class NystromPreconditioner:
    """H = D^(-1/2) P^(-1/2): the iteration multiplies by HᵀMH, where M = AᵀA + rI.

    If the sketch scales columns, D is the diagonal of M, and P preconditions D^(-1/2) M D^(-1/2); otherwise D = I.

    Parameters
    ----------
    U : array of shape (p, l)
        Eigenvectors in P; no columns if the iteration is cheaper without P.
    shrink : array of shape (l, 1)
        The factors by which P^(-1/2) multiplies components along U.
    roots : array of shape (p, 1), or None
        The diagonal of D^(1/2); None if D = I.
    """

    U: Array
    shrink: Array
    roots: Array | None

    @classmethod
    def of(cls, sketch: NystromSketch, ridge: float) -> NystromPreconditioner:
        """The preconditioner for one ridge; without U if the iteration is cheaper without it."""
        found, shift, home = sketch.nystrom(ridge), sketch.shift(ridge), sketch.home
        values = found.values
        useful = len(values) > 0 and sketch.outlook.useful(values, shift)
        count = len(values) if useful else 0
        floor = 0.0 if found.complete and shift > 0 else values[-1] if useful else 0.0
        shrink = np.sqrt((floor + shift) / (values[:count] + shift))
        roots = sketch.roots(ridge)[:, None] if sketch.scaled else None
        return cls(found.U[:, :count], home.place(shrink)[:, None], roots)

    def forward(self, V: Array) -> Array:
        """H V."""
        V = self._stretched(V, self.shrink)
        return V if self.roots is None else V / self.roots

    def back(self, MV: Array) -> Array:
        """Hᵀ MV for a product MV."""
        return self._stretched(MV if self.roots is None else MV / self.roots, self.shrink)

    def answer(self, Y: Array) -> Array:
        """H Y."""
        return self.forward(Y)

    @property
    def growth(self) -> float:
        """‖P^(1/2)‖, the factor by which H⁻ᵀ enlarges the rounding of products with Hᵀ."""
        return 1 / float(to_host(self.shrink).min(initial=1.0))

    def gradient(self, G: Array) -> Array:
        """H⁻ᵀ G."""
        G = self._stretched(G, 1 / self.shrink)
        return G if self.roots is None else G * self.roots

    def _stretched(self, V: Array, factors: Array) -> Array:
        """V with its component along each column of U multiplied by the entry of `factors` for this column."""
        return V if self.U.shape[1] == 0 else V + self.U @ ((factors - 1) * (self.U.T @ V))
