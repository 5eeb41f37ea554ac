"""LSQR for columns that end one by one, as a part of other methods.

Problem: min ‖A x − b‖² + r ‖x‖²; at r = 0 the solution of least norm.
Method: Paige & Saunders (1982), doi:10.1145/355984.355989, with a ridge r as damping √r. With α, β, u, v from

    (1)  β₁u₁ = b,  α₁v₁ = Aᵀu₁;   x₀ = 0,  w₁ = v₁,  φ̄₁ = β₁,  ρ̄₁ = α₁
    (2)  the loop
    (3)  β u ← A v − α u,  α v ← Aᵀu − β v
    (4)  φ̄ ← φ̄ ρ̄/ρ̂,  ρ̂ = √(ρ̄² + r);   ρ = √(ρ̂² + β²),  c = ρ̂/ρ,  s = β/ρ,
         θ = s α,  ρ̄ ← −c α,  φ = c φ̄,  φ̄ ← s φ̄
    (5)  x ← x + (φ/ρ) w,  w ← v − (θ/ρ) w
    (6)  ‖Aᵀ(b − A x) − r x‖ = φ̄ α |c|

Where we differ: columns that have converged leave the block. With a start, the matrix is [A; √r I] (`golub_kahan`), and
there is no damping.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import numpy as np

from linspec import LeastSquaresState, LinearOperator, Moments, Run
from linspec.arrays import Array, HostArray, reciprocal, to_host_together
from linspec_lstsq.parts.golub_kahan import Stacked, matrix_of, right_hand_sides, start_of
from linspec_lstsq.parts.lsqr_iterate import LSQRIterate, ratio


def lsqr(A: Stacked, it: LSQRIterate, tol: float) -> Iterator[LSQRIterate]:
    """Run LSQR from a given iterate.

    Parameters
    ----------
    A : Stacked
    it : LSQRIterate
        The first iterate, as `begun` returns it (1).
    tol : float
        The relative gradient with which a column leaves the block; the loop ends when none is left.

    Yields
    ------
    LSQRIterate
    """
    home = A.home
    while True:  # (2)
        yield it
        it = it.remaining(A, tol)
        if not len(it.live):
            return
        # (3) βu = A v − αu, αv = Aᵀu − βv; u here is βu, not divided by β
        u, uu, Z = A.advance(it.v, it.u, it.shift)
        beta_there = home.xp.sqrt(uu)
        Z = Z * reciprocal(beta_there)[None, :] - it.v * beta_there[None, :]
        vv = A.squares(Z)
        v = Z * reciprocal(home.xp.sqrt(vv))[None, :]
        beta, alpha = (np.sqrt(each) for each in to_host_together(uu, vv))
        alpha = alpha * (beta > 0)
        # (4) the rotations: of √r, then of β
        rho_hat = np.hypot(it.rho_bar, it.damping)
        phi_bar = ratio(it.rho_bar, rho_hat) * it.phi_bar
        rho = np.hypot(rho_hat, beta)
        c, s = ratio(rho_hat, rho), ratio(beta, rho)
        theta, rho_bar = s * alpha, -c * alpha
        phi, phi_bar = c * phi_bar, s * phi_bar
        # (5) x ← x + (φ/ρ) w, w ← v − (θ/ρ) w
        step, turn, shift = home.place_together(ratio(phi, rho), ratio(theta, rho), ratio(alpha, beta))
        x = it.x + it.w * step[None, :]
        w = v - it.w * turn[None, :]
        # (6) the norms, without a product: φ̄ α |c| with the new φ̄, and c φ̄ = s φ
        gradients = it.gradients.copy()
        gradients[it.live] = alpha * np.abs(s * phi)
        it = replace(it, x=x, w=w, v=v, u=u, shift=shift, alpha=alpha, beta=beta, gradients=gradients)
        it = replace(it, rho_bar=rho_bar, phi_bar=phi_bar)
        it.residual = it.worst()


def begun(A: Stacked, x0: Array | None, scales: HostArray | None = None) -> LSQRIterate:
    """The first iterate (1) for b − A x₀.

    Parameters
    ----------
    A : Stacked
    x0 : array of shape (p, columns), or None
        The start.
    scales : numpy.ndarray of shape (columns,), optional
        ‖Aᵀb‖; by default the norms of the gradients at x₀.
    """
    home = A.home
    u, squares, G = A.residuals(x0)
    beta, gradients = (np.sqrt(each) for each in to_host_together(squares, A.squares(G)))
    alpha = ratio(gradients, beta)
    inverse, shift = home.place_together(ratio(np.ones_like(gradients), gradients), ratio(alpha, beta))
    v = G * inverse[None, :]
    found = LSQRIterate(
        residual=np.inf,
        home=home,
        x0=x0,
        x=home.zeros(tuple(v.shape)),
        w=v,
        v=v,
        u=u,
        alpha=alpha,
        beta=beta,
        shift=shift,
        live=np.arange(len(beta)),
        damping=A.root if x0 is None else 0.0,
        phi_bar=beta,
        rho_bar=alpha,
        scales=gradients if scales is None else scales,
        gradients=gradients,
    )
    found.residual = found.worst()
    return found


class PreparedLSQR(LeastSquaresState):
    """LSQR as the least-squares part of an outer method; it uses the matrix, even if the Gram matrix is held."""

    def __init__(self, A: LinearOperator | Moments, ridge: float, run: Run, limit: int, tol: float) -> None:
        self.A, self.ridge, self.run, self.limit, self.tol = matrix_of(A), ridge, run, limit, tol

    def solve(
        self,
        B: LinearOperator,
        x0: Array | None = None,
        tol: float | None = None,
        AtB: Array | None = None,
        AtAx0: Array | None = None,
    ) -> Array:
        """See `LeastSquaresState.solve`. The columns of B are formed, because LSQR needs more than AᵀB."""
        tol = self.tol if tol is None else tol
        start = partial(start_of, self.A, B, x0)
        return self.driven(self._iterates(B, x0, tol, AtB), start, tol=tol, limit=self.limit)

    def _iterates(
        self, B: LinearOperator, x0: Array | None, tol: float, AtB: Array | None
    ) -> Iterator[LSQRIterate]:
        """Yield the iterates for one right-hand side."""
        A = Stacked(right_hand_sides(self.A, B), self.ridge)
        yield from lsqr(A, _begun(A, x0, AtB), tol)


def _begun(A: Stacked, x0: Array | None, AtB: Array | None = None) -> LSQRIterate:
    """The first iterate: from zero, or from `x0` with its columns set to zero where AᵀB is zero."""
    if x0 is None:
        return begun(A, None)  # at x = 0 the gradients are AᵀB
    scales = A.home.column_norms(A.data.cross() if AtB is None else AtB)
    there = A.home.place((scales > 0).astype(np.float64))
    return begun(A, A.home.place(x0) * there[None, :], scales)
