"""A pair of blocks with all its products: what the iterative CCA solvers carry from sweep to sweep.

One sweep gives Sx Φ, C Ψ, Cᵀ Φ and Sy Ψ. After that, turning or scaling the columns of either block costs only
small matrices, because products turn with them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from linspec import CCA, Moments, Run
from linspec.arrays import Array, Home, to_host


@dataclass(frozen=True)
class Pair:
    """Blocks Φ (p x k) and Ψ (q x k) with Sx Φ, Sy Ψ (ridge included), C Ψ and Cᵀ Φ."""

    home: Home
    phi: Array
    psi: Array
    Sphi: Array
    Spsi: Array
    Cpsi: Array
    Ctphi: Array

    def with_x(self, phi: Array, Sphi: Array, Ctphi: Array) -> Pair:
        """Another block for X."""
        return replace(self, phi=phi, Sphi=Sphi, Ctphi=Ctphi)

    def with_y(self, psi: Array, Spsi: Array, Cpsi: Array) -> Pair:
        """Another block for Y."""
        return replace(self, psi=psi, Spsi=Spsi, Cpsi=Cpsi)

    def turned(self, Tx: np.ndarray, Ty: np.ndarray) -> Pair:
        """Φ Tx and Ψ Ty."""
        x, y = self.home.place(Tx), self.home.place(Ty)
        return Pair(
            self.home, self.phi @ x, self.psi @ y, self.Sphi @ x, self.Spsi @ y, self.Cpsi @ y, self.Ctphi @ x
        )

    def normalized(self, normalizer: Any) -> Pair:
        """Both blocks orthonormal in their metrics; what lacks rank is filled with zero columns."""
        Tx = _square(normalizer.orthonormalize(self.phi, self.Sphi)[1])
        Ty = _square(normalizer.orthonormalize(self.psi, self.Spsi)[1])
        return self.turned(Tx, Ty)

    def canonical(self) -> tuple[Pair, np.ndarray]:
        """The canonical pairs of two orthonormal blocks, and their correlations."""
        P, rho, Qt = np.linalg.svd(to_host(self.phi.T @ self.Cpsi))
        return self.turned(P, Qt.T), np.clip(rho, 0.0, None)

    def leading(self, k: int) -> Pair:
        """The first k columns."""
        return Pair(
            self.home,
            self.phi[:, :k],
            self.psi[:, :k],
            self.Sphi[:, :k],
            self.Spsi[:, :k],
            self.Cpsi[:, :k],
            self.Ctphi[:, :k],
        )

    def weights(self, k: int) -> dict[str, Array]:
        """The first k columns of both blocks, as the law of CCA takes them."""
        return {"x_weights": self.phi[:, :k], "y_weights": self.psi[:, :k]}

    def gaps(self, rho: np.ndarray) -> tuple[Array, Array]:
        """C Ψ − Sx Φ diag(ρ) and Cᵀ Φ − Sy Ψ diag(ρ)."""
        r = self.home.place(rho)[None, :]
        return self.Cpsi - self.Sphi * r, self.Ctphi - self.Spsi * r

    def canonical_residual(self, diagonals: tuple[Array, Array]) -> float:
        """The residual of the canonical pairs within two orthonormal blocks, found without turning them."""
        P, rho, Qt = np.linalg.svd(to_host(self.phi.T @ self.Cpsi))
        return self.turned(P, Qt.T).residual(np.clip(rho, 0.0, None), diagonals)

    def residual(self, rho: np.ndarray, diagonals: tuple[Array, Array]) -> float:
        """The law of CCA from the products at hand: Σ‖ϱᵢ‖² / Σρᵢ in the norm of diag(Sx, Sy)⁻¹."""
        xp = self.home.xp
        squares = []
        for gap, d in zip(self.gaps(rho), diagonals, strict=True):
            live = d > 0
            weight = xp.where(live, 1.0 / xp.where(live, d, xp.ones_like(d)), xp.zeros_like(d))
            squares.append(xp.sum(gap * gap * weight[:, None]))
        total, correlation = float(to_host(xp.stack(squares)).sum()), float(rho.sum())
        if correlation > 0:
            return total / correlation
        return 0.0 if total == 0 else np.inf


def start(problem: CCA, run: Run, moments: Moments, test_matrix: Any, columns: int) -> Pair:
    """Random blocks for both views (the same numbers on every backend) with their products."""
    phi = moments.home.place(test_matrix.draw(problem.X.shape[1], columns, run.rng))
    psi = moments.home.place(test_matrix.draw(problem.Y.shape[1], columns, run.rng))
    return with_products(problem, moments, phi, psi)


def with_products(problem: CCA, moments: Moments, phi: Array, psi: Array) -> Pair:
    """A pair from two blocks: one sweep."""
    rx, ry = problem.ridge
    Sphi, Cpsi, Ctphi, Spsi = moments.products(phi, psi)
    return Pair(moments.home, phi, psi, Sphi + phi * rx, Spsi + psi * ry, Cpsi, Ctphi)


def diagonals_of(problem: CCA, moments: Moments) -> tuple[Array, Array]:
    """The diagonals of Sx and Sy, ridge included; known after the first sweep."""
    dx, dy = moments.diagonal()
    return dx + problem.ridge[0], dy + problem.ridge[1]


def block_width(problem: CCA, oversample: int) -> int:
    """k columns and some more, as far as the shapes allow."""
    return int(min(problem.k + oversample, problem.X.shape[1], problem.Y.shape[1], problem.X.shape[0]))


def _square(T: np.ndarray) -> np.ndarray:
    k, r = T.shape
    return T if r == k else np.hstack([T, np.zeros((k, k - r))])
