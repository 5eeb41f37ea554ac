"""Steps of block conjugate gradients that a device makes without a word from the host.

Problem: half steps of an outer method take a few steps each, on blocks so small that the device waits for the host
longer than it computes.
Method: the iteration of block_conjugate_gradients.py for one ridge, with the small matrices on the device as well. It
makes as many steps as the last half step took, as if every Gram matrix were well conditioned and no step the last. Then
all small matrices come down together, and the host judges the steps in their order. The first one within the tolerance
is the answer. Where a step is not sound, the usual iteration goes on from the state before it; where none is within the
tolerance, from the last.
Where we differ: nothing else than the place changes. Steps beyond the last one needed are wasted, so this is for
products that cost no sweep.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from linspec.arrays import Array, HostArray, symmetric_inverse, to_host_together, triangular_factors
from linspec_lstsq.block_conjugate_gradients import (
    BlockConjugateGradients,
    inverts,
    rounding_weights,
    squares_known,
    triangles,
)
from linspec_lstsq.gradients import relative
from linspec_lstsq.normal_equations import Ahead, System, largest_finite


@dataclass(frozen=True)
class Step:
    """What a step leaves on the device.

    Attributes
    ----------
    P, X, S : array of shape (p, m)
        The directions, the iterate, and a block that spans its residuals.
    """

    P: Array
    X: Array
    S: Array


def steps_ahead(
    system: System, multiply: Callable[[Array], Array], count: int, tolerance: Callable[[float], float]
) -> Ahead:
    """Make steps from the start of a system with one ridge: see `GoAhead`."""
    steps, there = _made(system, multiply, count)
    squares, before, *small = to_host_together(system.home.xp.sum(system.AtB * system.AtB, axis=0), *there)
    system.know(squares, before)
    with np.errstate(invalid="ignore"):
        start = relative(np.sqrt(np.diag(before)), system.scales)
    tol = tolerance(largest_finite(start))
    if start.max(initial=0.0) <= tol:
        return Ahead(x=system.at_start[0], tol=tol)
    begun = Ahead(tol=tol)
    for i, step in enumerate(steps):
        z, G, after = small[3 * i : 3 * i + 3]
        if triangles(before) is None or not _sound(z, G, rounding_weights(system) if i else None):
            break
        before = after
        squares_of_rest = squares_known(after, z)
        continued = BlockConjugateGradients.continued(system, step.P, step.X, (step.S, after), z)
        begun = Ahead(iterations=[continued], made=i + 1, tol=tol)
        if squares_of_rest is None:
            break
        if relative(np.sqrt(squares_of_rest), system.scales).max(initial=0.0) <= tol:
            return Ahead(x=step.X, made=i + 1, tol=tol)
    return begun


def _made(system: System, multiply: Callable[[Array], Array], count: int) -> tuple[list[Step], list[Array]]:
    """The steps; SᵀS at the start, and of every step z, PᵀMP and SᵀS, where the blocks are."""
    (ridge,) = system.ridges
    X, S = system.at_start
    products = S.T @ S
    steps: list[Step] = []
    small = [products]
    P = z = None
    with np.errstate(all="ignore"):
        for _ in range(count):
            T, tau = triangular_factors(products)
            Q = S @ T
            P = Q if P is None else Q + P @ tau.T
            z = tau if z is None else tau @ z
            MP = multiply(P) + P * ridge
            G = P.T @ MP
            Ginv = symmetric_inverse(G)
            X, S = X + P @ (Ginv @ z), Q - MP @ Ginv
            products = S.T @ S
            steps.append(Step(P, X, S))
            small += [z, G, products]
    return steps, small


def _sound(z: HostArray, G: HostArray, weights: HostArray | None) -> bool:
    """Whether a step is what the usual iteration would have made: G is regular, and no direction is rounding."""
    if not inverts(z, (G + G.T) / 2):
        return False
    return weights is None or bool((np.linalg.svd(z * weights, compute_uv=False) > 1).all())
