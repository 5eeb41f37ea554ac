"""Block conjugate gradients as a kernel: a step on a device waits for the host once.

Problem, paper and formulas: see `linspec.linalg.conjugate_gradients`.
Where we differ: rank is cut in two ways. Directions in which the new residuals depend on each other up to rounding are
left out of Q, and so are directions in which no right-hand side has a residual above rounding. At the start more counts
as rounding (`System.least_share`). The host factorises G and SᵀS, S = Q − MP G⁻¹. The second depends on the first, and
so a step would wait for a device twice. Thus a device inverts G itself, and both are transferred together; the results
return to the device together. If G is singular up to rounding, the host inverts it on its numerical range, and the step
waits twice.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from linspec_lstsq.parts.block_step import (
    above_rounding,
    begun,
    column_lengths,
    inverse,
    orthonormal,
    placed,
    projected,
    rounding_weights,
    shifted,
    turned,
)
from linspec_lstsq.parts.normal_equations import Kernel, System


def block_conjugate_gradients(system: System, point: Any = None) -> Kernel:
    """Kernel of Dubrulle's iteration for the smallest ridge, and of its shifts for the others."""
    home, r, path = system.home, min(system.ridges), range(len(system.ridges))
    delta = [ridge - r for ridge in system.ridges]
    point = begun(system) if point is None else point  # AᵀB = Qρ, P = Q, z = ρ, Δ = δI
    weights, least = rounding_weights(system), point.least
    while True:
        AtAP = yield point
        Q, X, P, z, Delta = point.Q, point.X, point.P, point.z, point.Delta
        if not Q.shape[1]:  # nothing is left
            continue
        MP = AtAP + P[least] * r
        G, Ginv, S, StS = projected(Q, P[least], MP, home)  # G = PᵀMP, S = Q − MP G⁻¹
        Dinv = [inverse(G + Delta[i]) if delta[i] else Ginv for i in path]  # D = G + Δ
        step = [Dinv[i] @ z[i] for i in path]  # D⁻¹z
        GDz = [G @ step[i] if delta[i] else z[i] for i in path]  # G D⁻¹z
        DG = [Dinv[i] @ G if delta[i] else np.eye(len(G)) for i in path]  # D⁻¹G
        S, turns, tau = orthonormal(S, StS, home)  # Qτ = S
        turns, tau = above_rounding(turns, tau, GDz, weights, point.others)
        z = [tau @ GDz[i] for i in path]  # z ← τ G D⁻¹z
        Delta = [shifted(delta[i], tau, DG[i], Delta[i]) for i in path]  # Δ ← δI + τ G D⁻¹Δ τᵀ
        beta = [DG[i] @ tau.T for i in path]  # D⁻¹G τᵀ
        (coordinates,), step, beta, turns = placed(home, [np.hstack(z)], step, beta, turns)
        X = [X[i] + P[i] @ step[i] for i in path]  # X ← X + P D⁻¹z
        Q = turned(S, turns)
        P = [Q + P[i] @ beta[i] for i in path]  # P ← Q + P D⁻¹G τᵀ
        known, others = column_lengths(z), tau @ point.others
        point = replace(
            point,
            known=known,
            Q=Q,
            X=X,
            P=P,
            z=z,
            coordinates=coordinates,
            Delta=Delta,
            tau=tau,
            others=others,
        )
