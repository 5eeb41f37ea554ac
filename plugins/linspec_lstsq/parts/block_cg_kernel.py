"""Block conjugate gradients as a kernel: a step on a device waits for the host once.

Problem, paper and formulas: see `linspec.linalg.conjugate_gradients`; here there is one ridge.
Where we differ: rank is cut in two ways. Directions in which the new residuals depend on each other up to rounding are
left out of Q, and so are directions in which no right-hand side has a residual above rounding. At the start more counts
as rounding (`System.least_share`). The host factorises G and SᵀS, S = Q − MP G⁻¹. The second depends on the first, and
so a step would wait for a device twice. Thus a device inverts G itself, and both are transferred together; the results
return to the device together. If G is singular up to rounding, the host inverts it on its numerical range, and the step
waits twice.
"""

from __future__ import annotations

from linspec_lstsq.parts.block_step import (
    Blocks,
    above_rounding,
    begun,
    column_lengths,
    orthonormal,
    projected,
    rounding_weights,
    turned,
)
from linspec_lstsq.parts.normal_equations import Kernel, System


def block_conjugate_gradients(system: System) -> Kernel:
    """Kernel of Dubrulle's iteration."""
    home, point = system.home, begun(system)  # AᵀB = Qρ, P = Q, z = ρ
    weights = rounding_weights(system)
    while True:
        AtAP = yield point
        Q, X, P, z = point.Q, point.X, point.P, point.z
        if not Q.shape[1]:  # nothing is left
            continue
        MP = AtAP + P * system.ridge
        Ginv, S, StS = projected(Q, P, MP, home)  # G = PᵀMP, S = Q − MP G⁻¹
        step = Ginv @ z  # G⁻¹z
        S, turns, tau = orthonormal(S, StS, home)  # Qτ = S
        turns, tau = above_rounding(turns, tau, z, weights)
        z = tau @ z  # z ← τ z
        coordinates, there, beta, *turns = home.place_together(z, step, tau.T.copy(), *turns)
        X = X + P @ there  # X ← X + P G⁻¹z
        Q = turned(S, turns)
        P = Q + P @ beta  # P ← Q + P τᵀ
        point = Blocks(
            home=home, known=column_lengths(z), Q=Q, X=X, P=P, z=z, coordinates=coordinates, tau=tau
        )
