"""Growing subspaces of several views: the pencil is solved exactly within them, and each sweep adds a block to each.

Problem: an iteration for the leading eigenvectors of A w = λ B w multiplies one block of each view in a sweep, and the
sweep returns all products CᵢⱼVⱼ. An iteration with stacked vectors would use only their sums.
Method: each view has a subspace of its own. The Rayleigh-Ritz pairs are those of the pencil in the product of the
subspaces. Their matrices come from the panels Vᵢ, SᵢVᵢ and CⱼᵢVᵢ (`linspec.moments.Basis`) without a product.
Source: Knyazev 2001, doi:10.1137/S1064827500366124; the Rayleigh-Ritz pairs before the last step are kept as in
Stathopoulos 2007, doi:10.1137/050631574.
Where we differ: both are about stacked vectors. A subspace for each view has more directions at equal products.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from linspec.algebra import eigenpairs, whitening
from linspec.arrays import Array, HostArray, reciprocal, to_host, to_host_together
from linspec.moments import Basis
from linspec_multiset.pencil import Pencil

DEPENDENT = 1e-12
"""Columns of length 1 in Sᵢ count as dependent if a combination with coefficients of length 1 is shorter than the root
of this number per column."""

EARLIER = 1e-8
"""Earlier vectors are kept if more than this fraction of their length is outside the current ones."""

ABOVE = 1e-8
"""Rounding dominates if a Ritz value is above its limit, or their sum below the sum of a smaller space, by this
fraction."""

INSIDE = 1e-10
"""A new direction counts as within the subspace if less than this fraction of its length is outside."""


@dataclass(frozen=True, eq=False)
class Subspaces:
    """A subspace for each view with its products, and the eigenpairs of the pencil within.

    Attributes
    ----------
    pencil : Pencil
    bases : tuple of Basis
        The panels of each view.
    grams : tuple of numpy.ndarray of shape (dᵢ, dᵢ)
        VᵢᵀSᵢVᵢ of the panels.
    turns : tuple of numpy.ndarray of shape (dᵢ, rᵢ)
        Tᵢ with (VᵢTᵢ)ᵀSᵢ(VᵢTᵢ) = I.
    values : numpy.ndarray of shape (Σrᵢ,)
        The Ritz values, decreasing.
    vectors : tuple of numpy.ndarray of shape (rᵢ, Σrᵢ)
        The Ritz vectors: wᵢ = VᵢTᵢuᵢ / √ωᵢ.
    longest : float
        The largest squared length, in the norm of diag(Sᵢ), of a vector of length 1 in Sᵢ: a lower bound of the
        condition number of the scaled columns.
    """

    pencil: Pencil
    bases: tuple[Basis, ...]
    grams: tuple[HostArray, ...]
    turns: tuple[HostArray, ...]
    values: HostArray
    vectors: tuple[HostArray, ...]
    longest: float

    @classmethod
    def of(cls, pencil: Pencil, bases: Sequence[Basis]) -> Subspaces:
        """Solve the pencil within the spans of some bases."""
        grams, turns, longest = [], [], 0.0
        for basis, d, cut in zip(bases, pencil.diagonals, pencil.cuts, strict=True):
            V = basis.V
            G, H = to_host_together(V.T @ basis.SV, V.T @ (V * d[:, None]))
            T = _coordinates(G, H, cut)
            longest = max(longest, float(np.max(np.einsum("ij,ik,kj->j", T, H, T), initial=0.0)))
            grams.append(G)
            turns.append(T)
        ends = np.cumsum([0, *(T.shape[1] for T in turns)])
        M = np.diag(np.repeat(np.asarray(pencil.weights), np.diff(ends)))
        for j in range(len(bases)):
            for i in range(j + 1):
                product = bases[i].CV[j]
                if product is not None:
                    C = to_host(bases[j].V.T @ product)  # VⱼᵀCⱼᵢVᵢ
                    M[ends[j] : ends[j + 1], ends[i] : ends[i + 1]] += (
                        turns[j].T @ C @ turns[i] * np.sqrt(pencil.weights[i] * pencil.weights[j])
                    )
        values, U = eigenpairs(M)
        parts = tuple(np.split(np.ascontiguousarray(U[:, ::-1]), ends[1:-1]))
        return cls(pencil, tuple(bases), tuple(grams), tuple(turns), values[::-1].copy(), parts, longest)

    def total(self, count: int) -> float:
        """Return the sum of the leading Ritz values."""
        return float(self.values[:count].sum())

    def loses(self, before: float, count: int) -> bool:
        """Return whether rounding dominates: the sum has fallen in a larger space, or a value is above its limit."""
        limit = sum(self.pencil.weights) * (1 + ABOVE)
        grown = self.total(count) >= before * (1 - ABOVE)
        return not (grown and float(np.max(self.values, initial=0.0)) <= limit)

    def ritz_bases(self, count: int) -> list[Basis]:
        """Return the leading Ritz vectors with their products, without a product with the views."""
        place, weights = self.pencil.home.place, self.pencil.weights
        return [
            basis @ place(T @ U[:, :count] / np.sqrt(weight))
            for basis, T, U, weight in zip(self.bases, self.turns, self.vectors, weights, strict=True)
        ]

    def weights(self, count: int) -> tuple[Array, ...]:
        """Return the leading Ritz vectors."""
        place, weights = self.pencil.home.place, self.pencil.weights
        return tuple(
            basis.V @ place(T @ U[:, :count] / np.sqrt(weight))
            for basis, T, U, weight in zip(self.bases, self.turns, self.vectors, weights, strict=True)
        )

    def residuals(self, count: int) -> list[Array]:
        """Return the parts of A w − λ B w of the leading Ritz vectors."""
        values = self.pencil.home.place(self.values[:count])[None, :]
        return self.pencil.shifted_image(self.ritz_bases(count), values)

    def shrunk(self, width: int) -> tuple[Basis, ...]:
        """Return orthonormal bases of the leading Ritz vectors, and of the first `width` panels.

        These panels are the Ritz vectors before the last step, if the panels were made by this method.
        """
        found = []
        for basis, G, T, U in zip(self.bases, self.grams, self.turns, self.vectors, strict=True):
            now = _orthonormal(U[:, :width], np.zeros((len(U), 0)))
            before = _orthonormal(T.T @ G[:, :width], now)
            found.append(basis @ self.pencil.home.place(T @ np.hstack([now, before])))
        return tuple(found)

    def directions(self, i: int, Z: Array, basis: Basis) -> Array:
        """Subtract from Z its projection on an orthonormal basis of view i, and scale it to length 1, or to 0."""
        home, d = self.pencil.home, self.pencil.diagonals[i][:, None]
        before = to_host(home.column_sums(Z * Z * d))
        for _ in range(2):
            Z = Z - basis.V @ (basis.SV.T @ Z)
        after = to_host(home.column_sums(Z * Z * d))
        outside = np.where(after > INSIDE**2 * before, after, 0.0)
        return Z * home.place(np.sqrt(reciprocal(outside)))[None, :]


def joined(parts: Sequence[Basis], pencil: Pencil) -> Basis:
    """Return the panels of several bases of one view side by side."""
    concat = pencil.home.concat
    others = zip(*(part.CV for part in parts), strict=True)
    CV = tuple(None if panels[0] is None else concat(list(panels)) for panels in others)
    return Basis(concat([part.V for part in parts]), concat([part.SV for part in parts]), CV)


def _coordinates(G: HostArray, H: HostArray, cut: float) -> HostArray:
    """Return T with TᵀGT = I over the directions that are more than rounding.

    G is VᵀSV, and H is Vᵀdiag(S)V. Panels are nearly orthonormal in S. In the norm of H they may be nearly parallel,
    because all of them have parts along the shortest directions; so G is whitened, and not H.
    """
    live = np.diag(G) > cut * np.diag(H)
    T = whitening(G * np.outer(live, live), DEPENDENT)
    lengths, U = eigenpairs(T.T @ H @ T)
    kept = lengths * cut < np.min(lengths, initial=np.inf)
    found: HostArray = T @ U[:, kept]
    return found


def _orthonormal(P: HostArray, given: HostArray) -> HostArray:
    """Return an orthonormal basis of the part of P outside of orthonormal columns."""
    sizes = np.linalg.norm(P, axis=0)
    P = P * reciprocal(sizes)
    for _ in range(2):
        P = P - given @ (given.T @ P)
    U, lengths, _ = np.linalg.svd(P, full_matrices=False)
    U = U[:, lengths > EARLIER]
    U = U - given @ (given.T @ U)
    basis: HostArray = np.linalg.qr(U)[0]
    return basis
