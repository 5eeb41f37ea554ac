"""Golub-Kahan bidiagonalisation, and LSQR on it, for several right-hand sides and a path of ridges.

Problem: min ‖A x - b‖² + r ‖x‖² for ill-conditioned A, without squaring its condition number.
Papers: Golub & Kahan 1965 (doi:10.1137/0702016) for the bidiagonalisation; Paige & Saunders 1982
(doi:10.1145/355984.355989) for LSQR, with λ = √r as its `damp`. Each column of b has a bidiagonalisation of its own:

    β₁u₁ = b,  α₁v₁ = Aᵀu₁                            (1)
    βu ← A v - α u,   αv ← Aᵀu - β v                  (2)
    ρ̂ = √(ρ̄² + λ²),  ψ = λ φ̄/ρ̂,  φ̂ = ρ̄ φ̄/ρ̂          (3)
    ρ = √(ρ̂² + β²),  c = ρ̂/ρ,  s = β/ρ               (4)
    θ = s α,  ρ̄ ← -c α,  φ = c φ̂,  φ̄ ← s φ̂           (5)
    x ← x + (φ/ρ) w,  w ← v - (θ/ρ) w                 (6)
    ‖Aᵀ(b - A x) - r x‖ = α |s φ|                     (7)

Where we differ: (2) is one step of `long_step`, which reads A once: rows of u are used for Aᵀu while they are there.
All ridges share u and v. A column that is solved exactly stands still. From a start x₀ they share nothing: the
matrix is then [A; √r I] and the right-hand side [b - A x₀; -√r x₀], without λ (8).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from linspec.arrays import Array, Device, HostArray, reciprocal

LongStep = Callable[[Array, Array, HostArray], tuple[Array, HostArray]]
"""(V, U, alpha) -> Aᵀ(AV - U diag(alpha)) and the lengths of AV - U diag(alpha), which replaces U in place."""


class Bidiagonal(NamedTuple):
    """One step: the numbers alpha and beta of every column, and V.

    Attributes
    ----------
    alpha, beta : numpy.ndarray of shape (k,)
        0 where a column has ended.
    V : array of shape (p, k)
    """

    alpha: HostArray
    beta: HostArray
    V: Array


def golub_kahan(step: LongStep, adjoint: Array, U: Array, beta: HostArray) -> Iterator[Bidiagonal]:
    """Yield the steps of the bidiagonalisation of A, which begins with b.

    Parameters
    ----------
    step : callable
        Makes (2) in one pass.
    adjoint : array of shape (p, k)
        Aᵀb.
    U : array of shape (n, k)
        b; it is overwritten.
    beta : numpy.ndarray of shape (k,)
        The lengths of the columns of b.
    """
    asarray = Device.of(adjoint).asarray
    V = 0.0 * adjoint
    while True:
        scale = reciprocal(beta)
        U *= asarray(scale)[None, :]
        V = adjoint * asarray(scale)[None, :] - V * asarray(beta)[None, :]  # (1), (2)
        alpha = np.where(beta > 0, Device.of(V).column_norms(V), 0.0)
        V = V * asarray(reciprocal(alpha))[None, :]
        yield Bidiagonal(alpha, beta, V)
        adjoint, beta = step(V, U, alpha)
        beta = np.where(alpha > 0, beta, 0.0)


def lsqr(
    steps: Iterator[Bidiagonal], ridges: Sequence[float] = (0.0,)
) -> Iterator[tuple[list[Array], HostArray]]:
    """Yield solutions and the lengths of their gradients, after each step.

    Parameters
    ----------
    steps : iterator of Bidiagonal
    ridges : sequence of float, default (0,)

    Yields
    ------
    X : list of array of shape (p, k)
        For every ridge. The arrays are not changed later.
    lengths : numpy.ndarray of shape (ridges, k)
        By (7).
    """
    first = next(steps)
    V = first.V
    asarray = Device.of(first.V).asarray
    lam = np.sqrt(np.array(ridges))[:, None]
    X = [0.0 * V for _ in ridges]
    W = [V for _ in ridges]
    phi_bar = np.tile(first.beta, (len(ridges), 1))
    rho_bar = np.tile(first.alpha, (len(ridges), 1))
    yield list(X), rho_bar * phi_bar
    for alpha, beta, v in steps:
        rho_hat = np.hypot(rho_bar, lam)  # (3)
        phi_hat = rho_bar * phi_bar * reciprocal(rho_hat)
        rho = np.hypot(rho_hat, beta)  # (4)
        c = rho_hat * reciprocal(rho)
        s = beta * reciprocal(rho)
        theta, rho_bar, phi, phi_bar = s * alpha, -c * alpha, c * phi_hat, s * phi_hat  # (5)
        for i in range(len(X)):
            X[i] = X[i] + W[i] * asarray(phi[i] * reciprocal(rho[i]))[None, :]  # (6)
            W[i] = v - W[i] * asarray(theta[i] * reciprocal(rho[i]))[None, :]
        yield list(X), alpha * np.abs(s * phi)


def stacked(step: LongStep, roots: Array) -> LongStep:
    """The step of [A; √r I] from that of A (8): the last p rows of U belong to √r I.

    Parameters
    ----------
    step : callable
        Makes (2) for A.
    roots : array of shape (1, k)
        √r of each column.

    Returns
    -------
    callable
    """

    def longer(V: Array, U: Array, alpha: HostArray) -> tuple[Array, HostArray]:
        n = U.shape[0] - V.shape[0]
        device = Device.of(V)
        Z, lengths = step(V, U[:n, :], alpha)
        below = V * roots - U[n:, :] * device.asarray(alpha)[None, :]
        U[n:, :] = below
        return Z + below * roots, np.hypot(lengths, device.column_norms(below))

    return longer
