"""Steps of block conjugate gradients that a device makes without waiting for the host.

Problem: a half step of an outer method waits for a device once in every step of its own.
Method: the iteration of conjugate_gradients.py for one ridge, with the small matrices on the device as well, as if
every Gram matrix were well conditioned. With S for the residuals, to which z belongs,

    Qτ = S,  P ← Q + Pτᵀ,  z ← τz,  G = PᵀMP,  X ← X + P G⁻¹z,  S ← Q − MP G⁻¹.

Then all small matrices are transferred together, and the host checks the steps in their order. If a step is not sound,
or no step is left, the usual iteration continues from the last sound step.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from linspec.arrays import Array, HostArray, symmetric_inverse, to_host_together, triangular_factors
from linspec_lstsq.block_step import (
    Blocks,
    above_rounding,
    column_lengths,
    inverts,
    orthonormal,
    placed,
    rounding_weights,
    squares_known,
    triangles,
    turned,
)
from linspec_lstsq.normal_equations import System
from linspec_lstsq.prepared import Seen, StepsAhead


@dataclass(frozen=True)
class Step:
    """Results of a step on the device: directions, the iterate, and a block that spans its residuals."""

    P: Array
    X: Array
    S: Array


def steps_ahead(system: System, multiply: Callable[[Array], Array], count: int) -> StepsAhead:
    """Make steps from the start of a system with one ridge; see `StepsAhead`."""
    steps, there = made(system, multiply, count)
    squares, StS, *small = to_host_together(system.home.xp.sum(system.AtB * system.AtB, axis=0), *there)
    system.know(squares, StS)
    with np.errstate(invalid="ignore"):
        yield Seen(system.at_start[0], np.sqrt(np.diag(StS)))
    last = None
    for i, step in enumerate(steps):
        z, G, after = small[3 * i : 3 * i + 3]
        if triangles(StS) is None or not sound(z, G, rounding_weights(system) if i else None):
            break
        last, StS = (step, z, after), after
        norms = squares_known(StS, z)
        if norms is None:
            going_on = usual(system, *last)
            yield Seen(step.X, going_on.norms)
            return going_on
        yield Seen(step.X, np.sqrt(norms))
    return None if last is None else usual(system, *last)


def made(system: System, multiply: Callable[[Array], Array], count: int) -> tuple[list[Step], list[Array]]:
    """The steps, and their small matrices on the device: SᵀS at the start, then z, G and SᵀS of each step."""
    (r,) = system.ridges
    X, S = system.at_start
    StS = S.T @ S
    steps: list[Step] = []
    small = [StS]
    P = z = None
    with np.errstate(all="ignore"):
        for _ in range(count):
            T, tau = triangular_factors(StS)
            Q = S @ T  # Qτ = S
            P = Q if P is None else Q + P @ tau.T  # P ← Q + Pτᵀ
            z = tau if z is None else tau @ z  # z ← τz
            MP = multiply(P) + P * r
            G = P.T @ MP  # G = PᵀMP
            Ginv = symmetric_inverse(G)
            X = X + P @ (Ginv @ z)  # X ← X + P G⁻¹z
            S = Q - MP @ Ginv  # S ← Q − MP G⁻¹
            StS = S.T @ S
            steps.append(Step(P, X, S))
            small += [z, G, StS]
    return steps, small


def sound(z: HostArray, G: HostArray, weights: HostArray | None) -> bool:
    """Whether the usual iteration would have made the same step: G is regular, and no direction is rounding."""
    if not inverts(z, (G + G.T) / 2):
        return False
    return weights is None or bool((np.linalg.svd(z * weights, compute_uv=False) > 1).all())


def usual(system: System, step: Step, z: HostArray, StS: HostArray) -> Blocks:
    """The state after a step as a point of the usual iteration."""
    home = system.home
    S, turns, tau = orthonormal(step.S, StS, home)
    turns, tau = above_rounding(turns, tau, [z], rounding_weights(system))
    (coordinates, beta), turns = placed(home, [tau @ z, tau.T], turns)
    Q = turned(S, turns)
    return Blocks(
        home=home,
        known=column_lengths([tau @ z]),
        Q=Q,
        X=[step.X],
        P=[Q + step.P @ beta],
        z=[tau @ z],
        coordinates=coordinates,
        Delta=[np.zeros((len(tau),) * 2)],
    )
