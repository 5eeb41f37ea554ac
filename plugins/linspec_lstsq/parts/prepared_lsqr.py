"""LSQR for columns that end one by one, with a preconditioner for each, as a part of other methods.

Problem: min ‖A x − b‖² + r ‖x‖²; at r = 0 the solution of least norm.
Method: Paige & Saunders (1982), doi:10.1145/355984.355989, with a ridge r as damping √r. With α, β, u, v from

    (1)  β₁u₁ = b,  α₁v₁ = Aᵀu₁;   x₀ = 0,  w₁ = v₁,  φ̄₁ = β₁,  ρ̄₁ = α₁
    (2)  the loop
    (3)  β u ← A v − α u,  α v ← Aᵀu − β v
    (4)  φ̄ ← φ̄ ρ̄/ρ̂,  ρ̂ = √(ρ̄² + r);   ρ = √(ρ̂² + β²),  c = ρ̂/ρ,  s = β/ρ,
         θ = s α,  ρ̄ ← −c α,  φ = c φ̄,  φ̄ ← s φ̄
    (5)  x ← x + (φ/ρ) w,  w ← v − (θ/ρ) w
    (6)  ‖Aᵀ(b − A x) − r x‖ = φ̄ α |c|

Where we differ: columns that have converged leave the block. With a start, or with a preconditioner that depends on the
ridge, every pair of a column and a ridge r is a separate column, for the matrix [A; √r I] (`golub_kahan`), without
damping; else the ridges of a column share (3) (Saunders 1995, doi:10.1007/BF01739829).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

import numpy as np

from linspec import LeastSquaresState, LinearOperator, Moments, Run
from linspec.arrays import Array, HostArray, reciprocal, to_host_together
from linspec_lstsq.parts.golub_kahan import Stacked, matrix_of, right_hand_sides, start_of
from linspec_lstsq.parts.gradients import column_norms
from linspec_lstsq.parts.lsqr_iterate import LSQRIterate, owned, ratio


def lsqr(A: Stacked, it: LSQRIterate, leaves: Callable[[LSQRIterate], HostArray]) -> Iterator[LSQRIterate]:
    """Run LSQR from a given iterate.

    Parameters
    ----------
    A : Stacked
    it : LSQRIterate
        The first iterate, as `begun` returns it (1).
    leaves : callable
        Returns the mask of an iterate's live pairs that have converged. They leave the block; the loop ends when no
        pair is left.

    Yields
    ------
    LSQRIterate
    """
    home = A.home
    while True:  # (2)
        if it.leaving is None:
            it = replace(it, leaving=leaves(it))
        yield it
        it = it.remaining(A)
        if not len(it.live):
            return
        # (3) βu = A v − αu, αv = Aᵀu − βv; u here is βu, not divided by β
        u, uu, Z = A.advance(it.v, it.u, it.shift)
        beta_there = home.xp.sqrt(uu)
        Z = Z * reciprocal(beta_there)[None, :] - it.v * beta_there[None, :]
        vv = A.squares(Z)
        v = Z * reciprocal(home.xp.sqrt(vv))[None, :]
        # the length of v in the gradient of x
        units = () if A.N is None else (A.squares(A.units(v, u)),)
        beta, alpha, *unit = (np.sqrt(each) for each in to_host_together(uu, vv, *units))
        norm = max(it.norm, float(np.hypot(it.alpha, beta).max(initial=0.0)))
        alpha = alpha * (beta > 0)
        # (4) the rotations: of √r, then of β
        own_alpha, own_beta = alpha[it.owner], beta[it.owner]
        rho_hat = np.hypot(it.rho_bar, it.damping)
        phi_bar = ratio(it.rho_bar, rho_hat) * it.phi_bar
        rho = np.hypot(rho_hat, own_beta)
        c, s = ratio(rho_hat, rho), ratio(own_beta, rho)
        theta, rho_bar = s * own_alpha, -c * own_alpha
        phi, phi_bar = c * phi_bar, s * phi_bar
        # (5) x ← x + (φ/ρ) w, w ← v − (θ/ρ) w
        step, turn, shift = home.place_together(ratio(phi, rho), ratio(theta, rho), ratio(alpha, beta))
        x = it.x + it.w * step[None, :]
        w = owned(v, it.owner, home) - it.w * turn[None, :]
        # (6) the norms, without a product: φ̄ α |c| with the new φ̄, and c φ̄ = s φ
        gradients, steps = it.gradients.copy(), it.steps.copy()
        gradients[it.live] = own_alpha * np.abs(s * phi) * (unit[0][it.owner] if unit else 1.0)
        steps[it.live] = np.abs(phi)
        it = replace(it, x=x, w=w, v=v, u=u, shift=shift, alpha=alpha, beta=beta, norm=norm, leaving=None)
        it = replace(it, rho_bar=rho_bar, phi_bar=phi_bar, gradients=gradients, steps=steps)
        it.residual = it.worst()


def begun(A: Stacked, x0: Array | None, scales: HostArray | None = None) -> LSQRIterate:
    """The first iterate (1) for b − A x₀.

    Parameters
    ----------
    A : Stacked
    x0 : array of shape (p, columns times ridges), or None
        The start. With a start, each ridge has separate columns. Without one, A must have no preconditioner.
    scales : numpy.ndarray of shape (columns times ridges,), optional
        ‖Aᵀb‖; by default the norms of the gradients at x₀.
    """
    home, pairs = A.home, len(A.data.ridges)
    u, squares, G = A.residuals(x0)
    Z = G if A.N is None else A.N.adjoint(G)
    beta, length, gradients = (
        np.sqrt(each) for each in to_host_together(squares, A.squares(Z), A.squares(G))
    )
    owner = np.arange(pairs) % len(beta)
    alpha, gradients = ratio(length, beta), gradients[owner]
    scales = gradients if scales is None else scales
    inverse, shift = home.place_together(ratio(np.ones_like(length), length), ratio(alpha, beta))
    v = Z * inverse[None, :]
    found = LSQRIterate(
        residual=np.inf,
        copyable=not A.data.stay,
        home=home,
        N=A.N,
        x0=x0,
        x=home.zeros((v.shape[0], pairs)),
        w=owned(v, owner, home),
        v=v,
        u=u,
        alpha=alpha,
        beta=beta,
        shift=shift,
        live=np.arange(pairs),
        owner=owner,
        damping=np.sqrt(A.data.ridges) if x0 is None else np.zeros(pairs),
        phi_bar=beta[owner],
        rho_bar=alpha[owner],
        scales=scales,
        gradients=gradients,
        steps=np.full(pairs, np.inf),
        sizes=beta[owner],
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
        A = Stacked(right_hand_sides(self.A, B, (self.ridge,)))
        yield from lsqr(A, _begun(A, x0, AtB), partial(within, tol))


def within(tol: float, it: LSQRIterate) -> HostArray:
    """Mask of the live pairs whose relative gradient is within the tolerance."""
    found: HostArray = it.gradients[it.live] <= tol * it.scales[it.live]
    return found


def _begun(A: Stacked, x0: Array | None, AtB: Array | None = None) -> LSQRIterate:
    """The first iterate: from zero, or from `x0` with its columns set to zero where AᵀB is zero."""
    if x0 is None:
        return begun(A, None)  # at x = 0 the gradients are AᵀB
    norms = column_norms(A.data.cross() if AtB is None else AtB, A.home)
    scales = np.tile(norms, len(A.data.ridges) // A.data.columns)
    there = A.home.place((scales > 0).astype(np.float64))
    return begun(A, A.home.place(x0) * there[None, :], scales)
