"""A pair of blocks with all its products, which the iterative CCA solvers carry from sweep to sweep.

One sweep gives Sx Φ, C Ψ, Cᵀ Φ and Sy Ψ. After that, turning or scaling the columns of either block costs only
small matrices, because products turn with them. The small matrices of a step come from a device together: the products
of the columns with each other in both metrics and across the views tell how to normalise the blocks, which of their
columns are real, and how the canonical pairs lie. A normalizer is given the products in the place of the block, whose
columns are then those of the identity. What it makes of them is right up to rounding times the condition number of the
products, so it is taken where this number is moderate; otherwise the normalizer is given the block itself.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from linspec import CCA, Moments, Run
from linspec.algebra import (
    EPS,
    NORMS,
    InverseNorm,
    diagonal_norm,
    metric_rounding,
    ratio,
    squares_together,
)
from linspec.arrays import Array, Home, largest_magnitude, to_host, to_host_together
from linspec.families.cca import Evidence, inverse_norms, probes

NOISE = 1e3 * EPS
"""A column is rounding if its length, relative to the longest column, is below this."""

MODERATE = 1e4
"""Up to this condition number of unit columns their products are enough to normalise a block."""

UNDERFLOW, OVERFLOW = 1e-200, 1e200
"""Squares of lengths between these are right."""


@dataclass(frozen=True)
class Views:
    """Facts about the two views, which do not depend on the blocks.

    Attributes
    ----------
    home : Home
        Where the blocks live.
    diagonals : pair of arrays
        diag(Sx) and diag(Sy), ridge included.
    cuts : pair of float
        Relative rounding of the metrics. A unit vector longer than 1/cut in the metric of the diagonal
        consists of directions that the view does not have.
    norms : pair of InverseNorm
        The norms of Sx⁻¹ and Sy⁻¹, or approximations.
    """

    home: Home
    diagonals: tuple[Array, Array]
    cuts: tuple[float, float]
    norms: tuple[InverseNorm, InverseNorm]


@dataclass(frozen=True)
class Pair:
    """Blocks Φ (p x k) and Ψ (q x k) with Sx Φ, Sy Ψ (ridge included), C Ψ and Cᵀ Φ; for canonical pairs, with ρ."""

    views: Views
    phi: Array
    psi: Array
    Sphi: Array
    Spsi: Array
    Cpsi: Array
    Ctphi: Array
    rho: Array = None

    def with_x(self, phi: Array, Sphi: Array, Ctphi: Array) -> Pair:
        """Another block for X."""
        return replace(self, phi=phi, Sphi=Sphi, Ctphi=Ctphi)

    def with_y(self, psi: Array, Spsi: Array, Cpsi: Array) -> Pair:
        """Another block for Y."""
        return replace(self, psi=psi, Spsi=Spsi, Cpsi=Cpsi)

    def turned(self, Tx: np.ndarray | None, Ty: np.ndarray | None, rho: np.ndarray | None = None) -> Pair:
        """Φ Tx and Ψ Ty, with ρ if they are canonical; a block without a matrix stays as it is."""
        sent = [T for T in (Tx, Ty, rho) if T is not None]
        placed, pair = iter(self.views.home.place_together(*sent)), self
        if Tx is not None:
            x = next(placed)
            pair = pair.with_x(self.phi @ x, self.Sphi @ x, self.Ctphi @ x)
        if Ty is not None:
            y = next(placed)
            pair = pair.with_y(self.psi @ y, self.Spsi @ y, self.Cpsi @ y)
        return replace(pair, rho=next(placed, None))

    def normalized(self, normalizer: Any, *, x: bool = True, y: bool = True) -> Pair:
        """The blocks made orthonormal in their metrics, with zero columns for missing rank.

        Parameters
        ----------
        normalizer : Normalizer
        x, y : bool, default True
            Which of the blocks are new. A block that is not new is orthonormal already.
        """
        found = self._turns(normalizer, (x, y), to_host_together(*self._metrics((x, y))))
        if found is not None:
            return self.turned(*found)
        basis = self._basis(normalizer, x, y)
        return basis.turned(*basis._factors((x, y), to_host_together(*basis._lengths((x, y)))))

    def _basis(self, normalizer: Any, x: bool, y: bool) -> Pair:
        real = self.turned(*self._factors((x, y), to_host_together(*self._lengths((x, y)))))
        Tx = square(normalizer.orthonormalize(real.phi, real.Sphi)[1]) if x else None
        Ty = square(normalizer.orthonormalize(real.psi, real.Spsi)[1]) if y else None
        return real.turned(Tx, Ty)

    def _metrics(self, new: tuple[bool, bool]) -> list[Array]:
        """For the new blocks the products of columns in S and in diag(S)."""
        found = []
        blocks = ((self.phi, self.Sphi), (self.psi, self.Spsi))
        for is_new, (V, SV), d in zip(new, blocks, self.views.diagonals, strict=True):
            if is_new:
                with np.errstate(all="ignore"):  # of an iteration that diverges
                    found += [V.T @ SV, V.T @ (V * d[:, None])]
        return found

    def _turns(
        self, normalizer: Any, new: tuple[bool, bool], metrics: Sequence[np.ndarray]
    ) -> tuple[np.ndarray | None, np.ndarray | None] | None:
        """What makes the new blocks orthonormal, from `_metrics`; None if a block has to be looked at itself."""
        found: list[np.ndarray | None] = []
        left = iter(metrics)
        for is_new, cut in zip(new, self.views.cuts, strict=True):
            turn = _turn(normalizer, next(left), next(left), cut) if is_new else None
            if is_new and turn is None:
                return None
            found.append(turn)
        return found[0], found[1]

    def _lengths(self, new: tuple[bool, bool]) -> list[Array]:
        """For the new blocks the squared lengths of columns in S and in diag(S)."""
        xp, found = self.views.home.xp, []
        blocks = ((self.phi, self.Sphi), (self.psi, self.Spsi))
        for is_new, (V, SV), d in zip(new, blocks, self.views.diagonals, strict=True):
            if is_new:
                with np.errstate(over="ignore"):  # of an iteration that diverges
                    found.append(xp.stack([xp.sum(V * SV, axis=0), xp.sum(V * V * d[:, None], axis=0)]))
        return found

    def _factors(
        self, new: tuple[bool, bool], lengths: Sequence[np.ndarray]
    ) -> tuple[np.ndarray | None, np.ndarray | None]:
        """What puts zeros in the place of columns that the metric almost annihilates; None if there are none.

        A deficient view has directions v with Sv = 0. Rounding gives them a length in S, which is small
        compared with their length in diag(S). Scaled to unit length, they would look like any other
        direction. The same holds for columns that, compared with the largest one, are as small as the
        rounding of their products.
        """
        factors: list[np.ndarray | None] = []
        left = iter(lengths)
        for is_new, cut in zip(new, self.views.cuts, strict=True):
            factor = None
            if is_new:
                squares, by_diagonal = next(left)
                real = _real(squares, by_diagonal, cut)
                factor = None if real.all() else np.diag(real.astype(np.float64))
            factors.append(factor)
        return factors[0], factors[1]

    def canonical(self, normalizer: Any = None, *, x: bool = True, y: bool = True) -> tuple[Pair, np.ndarray]:
        """The canonical pairs of two orthonormal blocks, and their correlations.

        Parameters
        ----------
        normalizer : Normalizer, optional
            Make the new blocks orthonormal first, see `normalized`.
        x, y : bool, default True
            Which of the blocks are new.
        """
        if normalizer is None:
            M = to_host(self.phi.T @ self.Cpsi)
            P, rho, Qt = np.linalg.svd(M)
            return self.turned(P, Qt.T, rho), rho
        return self.canonical_by(normalizer, to_host_together(*self.products(x=x, y=y)), x=x, y=y)

    def products(self, *, x: bool = True, y: bool = True) -> list[Array]:
        """The small matrices for `canonical_by`, where the blocks are: the caller may bring more with them."""
        return [*self._metrics((x, y)), self.phi.T @ self.Cpsi]

    def canonical_by(
        self, normalizer: Any, products: Sequence[np.ndarray], *, x: bool = True, y: bool = True
    ) -> tuple[Pair, np.ndarray]:
        """The same as `canonical`, from `products` that have been brought to the host."""
        *metrics, M = products
        found = self._turns(normalizer, (x, y), metrics)
        if found is not None:
            Tx, Ty = (np.eye(len(M)) if T is None else T for T in found)
            P, rho, Qt = np.linalg.svd(Tx.T @ M @ Ty)
            return self.turned(Tx @ P, Ty @ Qt.T, rho), rho
        basis = self._basis(normalizer, x, y)
        new = (x, y)
        *lengths, M = to_host_together(*basis._lengths(new), basis.phi.T @ basis.Cpsi)
        real_x, real_y = (np.eye(len(M)) if F is None else F for F in basis._factors(new, lengths))
        P, rho, Qt = np.linalg.svd(real_x @ M @ real_y)
        return basis.turned(real_x @ P, real_y @ Qt.T, rho), rho

    def leading(self, k: int) -> Pair:
        """The first k columns."""
        return Pair(
            self.views,
            self.phi[:, :k],
            self.psi[:, :k],
            self.Sphi[:, :k],
            self.Spsi[:, :k],
            self.Cpsi[:, :k],
            self.Ctphi[:, :k],
            None if self.rho is None else self.rho[:k],
        )

    def weights(self, k: int) -> dict[str, Array]:
        """The first k columns of both blocks, in the form for the law of CCA."""
        return {"x_weights": self.phi[:, :k], "y_weights": self.psi[:, :k]}

    def gaps(self) -> tuple[Array, Array]:
        """C Ψ − Sx Φ diag(ρ) and Cᵀ Φ − Sy Ψ diag(ρ) of canonical pairs."""
        r = self.rho[None, :]
        return self.Cpsi - self.Sphi * r, self.Ctphi - self.Spsi * r

    def residual(self, rho: np.ndarray) -> float:
        """The law of CCA from known products: Σ‖ϱᵢ‖² / Σρᵢ, approximately in the norm of diag(Sx, Sy)⁻¹."""
        squares = squares_together(self.views.norms, self.gaps())
        return ratio(float(sum(s.sum() for s in squares)), float(rho.sum()))

    @property
    def exact(self) -> bool:
        """Whether the norms of the residuals are exact."""
        return all(norm.kind == "exact" for norm in self.views.norms)

    def answer(self, k: int, expected_gain: float, *, complete: bool = False) -> dict[str, Any]:
        """All columns of canonical blocks, in the form for the law, with facts to judge the first k."""
        rho = self.views.home.xp.sum(self.phi * self.Cpsi, axis=0)
        carried = float(to_host(rho)[-1]) if rho.shape[0] > k else None
        gaps = replace(self, rho=rho).leading(k).gaps()
        known = Evidence(
            norms=self.views.norms,
            residuals=gaps,
            carried=carried,
            expected_gain=expected_gain,
            complete=complete,
        )
        return {"x_weights": self.phi, "y_weights": self.psi, "evidence": known}

    def canonical_residual(self) -> float:
        """The residual of the canonical pairs within two orthonormal blocks."""
        pair, rho = self.canonical()
        return pair.residual(rho)


def start(
    problem: CCA, run: Run, moments: Moments, test_matrix: Any, columns: int, *, diagonal: bool = False
) -> Pair:
    """Blocks for both views with their products, and the norms that judge residuals, in one sweep.

    The blocks are random, with the same numbers on every backend. If the run has an earlier answer, its
    weights come first. With `diagonal`, residuals are judged in the norms of the diagonals.
    """
    home, (rx, ry) = moments.home, problem.ridge
    drawn = [home.place(test_matrix.draw(A.shape[1], columns, run.rng)) for A in (problem.X, problem.Y)]
    (phi, psi), _ = behind_an_answer(run, drawn, home)
    sent = [] if diagonal else probes(problem, moments)
    blocks = [phi, psi]
    if sent:
        blocks = [home.concat([V, probe.block]) for V, probe in zip(blocks, sent, strict=True)]
    Sphi, Cpsi, Ctphi, Spsi = moments.products(*blocks)
    Sphi, Spsi = Sphi + blocks[0] * rx, Spsi + blocks[1] * ry
    dx, dy = moments.diagonal()
    cuts = tuple(metric_rounding(A.shape[1], A.dtype) for A in (problem.X, problem.Y))
    a, b = phi.shape[1], psi.shape[1]
    if diagonal:
        norms = diagonal_norm(dx + rx, rx, home), diagonal_norm(dy + ry, ry, home)
    else:
        norms = inverse_norms(problem, moments, sent, [Sphi[:, a:], Spsi[:, b:]], judging=False)
    views = Views(home, (dx + rx, dy + ry), (cuts[0], cuts[1]), norms)
    # Weights of zero columns have no product, and steps that scale blocks up would let them grow without
    # limit.
    phi, psi = (
        V * home.xp.astype(d > 0, V.dtype)[:, None] for V, d in zip((phi, psi), views.diagonals, strict=True)
    )
    return Pair(views, phi, psi, Sphi[:, :a], Spsi[:, :b], Cpsi[:, :b], Ctphi[:, :a])


def behind_an_answer(run: Run, drawn: list[Array], home: Home) -> tuple[list[Array], int]:
    """Blocks whose first columns are the run's starting weights, if any, and the number of these columns.

    The other columns are of their size: weights are in units of one over the data, and drawn numbers have no unit.
    """
    if run.start is None:
        return drawn, 0
    earlier = [home.place(run.start[name]) for name in ("x_weights", "y_weights")]
    known = int(min(drawn[0].shape[1], earlier[0].shape[1]))
    units = [2.0 ** math.frexp(largest_magnitude(V))[1] for V in earlier]
    blocks = zip(earlier, drawn, units, strict=True)
    return [home.concat([V[:, :known], W[:, known:] * unit]) for V, W, unit in blocks], known


def next_pair(problem: CCA, moments: Moments, old: Pair, phi: Array, psi: Array) -> Pair:
    """Other blocks for both views with their products: one sweep."""
    rx, ry = problem.ridge
    Sphi, Cpsi, Ctphi, Spsi = moments.products(phi, psi)
    return Pair(old.views, phi, psi, Sphi + phi * rx, Spsi + psi * ry, Cpsi, Ctphi)


def block_width(problem: CCA, oversample: int) -> int:
    """k columns and additional ones, as the shapes allow."""
    return int(min(problem.k + oversample, problem.X.shape[1], problem.Y.shape[1], problem.X.shape[0]))


def _real(squares: np.ndarray, by_diagonal: np.ndarray, cut: float) -> np.ndarray:
    """Which columns are more than rounding, from their squared lengths in S and in diag(S)."""
    real: np.ndarray = (squares > cut * by_diagonal) & (squares > NOISE**2 * squares.max(initial=0.0))
    return real


def _turn(normalizer: Any, G: np.ndarray, H: np.ndarray, cut: float) -> np.ndarray | None:
    """T with TᵀGT = I, its columns zero where there is no direction; None if G does not determine it.

    Parameters
    ----------
    normalizer : Normalizer
    G, H : numpy.ndarray of shape (k, k)
        The products of the columns of a block in S and in diag(S).
    cut : float
        The relative rounding of S.
    """
    squares = G.diagonal()
    real = np.flatnonzero(_real(squares, H.diagonal(), cut))
    if not (squares[real] > UNDERFLOW).all() or not np.abs(G).max(initial=0.0) < OVERFLOW:
        return None
    G = (G + G.T)[np.ix_(real, real)] / 2
    inner = normalizer.orthonormalize(np.eye(len(real)), G)[1]
    # ‖D T‖² is the inverse of the least eigenvalue of G with unit diagonal.
    if inner.shape[1] < len(real) or np.sum((np.sqrt(squares[real])[:, None] * inner) ** 2) > MODERATE:
        return None
    T = np.zeros_like(H)
    T[real, : len(real)] = inner
    lengths = np.zeros(len(H))
    lengths[: len(real)] = 1.0
    T *= _real(lengths, np.sum(T * (H @ T), axis=0), cut)
    return T


def square(T: np.ndarray) -> np.ndarray:
    """A normalizer's matrix with zero columns for the directions it dropped."""
    k, r = T.shape
    return T if r == k else np.hstack([T, np.zeros((k, k - r))])


KEPT = (Pair, Views, *NORMS)
"""Classes of which the state of an iteration on pairs is made."""
