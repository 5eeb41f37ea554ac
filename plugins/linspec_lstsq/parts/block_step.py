"""The point of block conjugate gradients, and the small matrices of a step, which the host factorises.

Problem: a step multiplies blocks by small matrices, and a device should wait for the host once.
Method: see block_cg_kernel.py. All matrices that the host needs are transferred together, and all results of the
host are transferred together.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.linalg

from linspec.algebra import whitening
from linspec.arrays import Array, Home, HostArray, symmetric_inverse, to_host, to_host_together
from linspec_lstsq.parts.normal_equations import Point, System

WELL_CONDITIONED = 1e-8
"""The Cholesky factor of a Gram matrix orthonormalises well enough if the reciprocal condition number is above this."""

DEPENDENT = 1e-14
"""A column counts as dependent on the others if the fraction of it outside their span is smaller than this."""


@dataclass(kw_only=True, eq=False)
class Blocks(Point):
    """Point of block conjugate gradients.

    Attributes
    ----------
    Q : array of shape (p, k)
        An orthonormal basis of the residuals.
    X, P : arrays of shapes (p, m) and (p, k)
        The iterate and the directions.
    z : numpy.ndarray of shape (k, m)
        The residuals are Qz.
    coordinates : array of shape (k, m)
        z in the home of Q.
    tau : numpy.ndarray of shape (k, k before), optional
        τ of the previous step, whose directions are P₋: P = Q + P₋τᵀ.
    """

    Q: Array
    X: Array
    P: Array
    z: HostArray
    coordinates: Array
    tau: HostArray | None = None

    @property
    def V(self) -> Array:
        """The directions."""
        return self.P

    @property
    def x(self) -> Array:
        """The iterates."""
        return self.X

    @property
    def gradient(self) -> Array:
        """The gradients Qz."""
        return self.Q @ self.coordinates


def column_lengths(z: HostArray) -> HostArray:
    """The norms ‖Qz‖ = ‖z‖ of the columns."""
    with np.errstate(over="ignore"):  # an iteration may diverge
        lengths: HostArray = np.linalg.norm(z, axis=0)
        return lengths


def begun(system: System) -> Blocks:
    """The first point: AᵀB = Qρ, P = Q, z = ρ.

    Directions that may be only rounding are left out of Q (`System.least_share`), such as that of centred indicators of
    classes, whose sum is zero. A direction that is left out later breaks the recurrence: up to twice as many steps.
    After a start they are kept for the first step, for which they serve as random columns do.
    """
    x, S = system.at_start
    S, turns, rho = orthonormal(S, system.gradient_gram, system.home)
    if system.start is None:
        weights = rounding_weights(system) * (system.noise / system.least_share)
        turns, rho = above_rounding(turns, rho, np.eye(rho.shape[1]), weights)
    coordinates, *turns = system.home.place_together(rho, *turns)
    Q = turned(S, turns)
    return Blocks(home=system.home, known=column_lengths(rho), Q=Q, X=x, P=Q, z=rho, coordinates=coordinates)


def projected(Q: Array, P: Array, MP: Array, home: Home) -> tuple[HostArray, Array, HostArray]:
    """The inverse of G = PᵀMP, S = Q − MP G⁻¹, and SᵀS."""
    there = P.T @ MP
    if not home.on_host:
        Ginv = symmetric_inverse(there)
        S = Q - MP @ Ginv
        G, inverted, StS = to_host_together(there, Ginv, S.T @ S)
        G = (G + G.T) / 2
        if inverts(inverted, G):
            return inverted, S, StS
        there = G
    G = to_host(there)
    G = (G + G.T) / 2
    inverted = inverse(G)
    S = Q - MP @ home.place(inverted)
    return inverted, S, to_host(S.T @ S)


def orthonormal(S: Array, StS: HostArray, home: Home) -> tuple[Array, list[HostArray], HostArray]:
    """Factor S = Qτ with orthonormal Q.

    Returns a block (S or Q), the matrices by which it must be multiplied to give Q (none if it is Q), and τ. The
    factors come from a Cholesky factor of SᵀS if SᵀS is well conditioned, otherwise from a pivoted QR of S itself.
    """
    if (found := triangles(StS)) is not None:
        T, tau = found
        return S, [T], tau
    d = np.sqrt(np.diag(StS))
    Q, R, order = scipy.linalg.qr(to_host(S) / np.where(d > 0, d, 1.0), mode="economic", pivoting=True)
    sizes = np.abs(np.diag(R))
    rank = int(np.sum(sizes > DEPENDENT * sizes.max(initial=0.0)))
    tau = np.zeros((rank, len(d)))
    tau[:, order] = R[:rank]
    return home.place(np.ascontiguousarray(Q[:, :rank])), [], tau * d


def above_rounding(
    turns: list[HostArray], tau: HostArray, z: HostArray, weights: HostArray
) -> tuple[list[HostArray], HostArray]:
    """Remove directions of Q in which no residual is above rounding; Q is given by its factors `turns`.

    The new residuals are Q τ z. `weights` has, for each right-hand side, the reciprocal of the largest norm of a
    residual that is only rounding. The remaining factors and τ are returned.
    """
    left, sizes, _ = np.linalg.svd(tau @ z * weights, full_matrices=False)
    if (sizes > 1).all():
        return turns, tau
    turn = left[:, sizes > 1]
    return [*turns, turn], turn.T @ tau


def turned(Q: Array, turns: list[Array]) -> Array:
    """Multiply Q by one matrix after the other."""
    for turn in turns:
        Q = Q @ turn
    return Q


def rounding_weights(system: System) -> HostArray:
    """1/(noise ‖AᵀB‖) of every column, the inverse of the largest residual that is rounding; 0 where AᵀB is 0."""
    with np.errstate(over="ignore"):
        weights: HostArray = np.divide(
            1 / system.noise, system.scales, out=np.zeros_like(system.scales), where=system.scales > 0
        )
    return np.minimum(weights, np.finfo(np.float64).max)


def inverts(Ginv: HostArray, G: HostArray) -> bool:
    """Whether G⁻¹ from a device is valid: its entries are finite, and G is positive definite."""
    d = np.sqrt(np.maximum(np.diag(G), 0.0))
    if not (d > 0).all() or not np.isfinite(Ginv).all():
        return False
    try:
        np.linalg.cholesky(G / np.outer(d, d))
    except np.linalg.LinAlgError:
        return False
    return True


def inverse(G: HostArray) -> HostArray:
    """Return G⁻¹; if G is singular up to rounding, the inverse on its numerical range."""
    d = np.sqrt(np.maximum(np.diag(G), 0.0))
    if len(G) and (d > 0).all():
        scaled = G / np.outer(d, d)
        try:
            factor = np.linalg.cholesky(scaled)
        except np.linalg.LinAlgError:
            pass
        else:
            half = scipy.linalg.solve_triangular(factor, np.diag(1 / d), lower=True, check_finite=False)
            found: HostArray = half.T @ half
            return found
    T = whitening(G)
    return T @ T.T


def triangles(G: HostArray) -> tuple[HostArray, HostArray] | None:
    """T that makes Q = ST orthonormal, and τ with S = Qτ, from a Cholesky factor of G = SᵀS.

    None if G is not well conditioned.
    """
    d = np.sqrt(np.maximum(np.diag(G), 0.0))
    if not len(G) or not (d > 0).all():
        return None
    try:
        L = np.linalg.cholesky(G / np.outer(d, d))
    except np.linalg.LinAlgError:
        return None
    diagonal = np.diag(L)
    if not diagonal.min() ** 2 > WELL_CONDITIONED * diagonal.max() ** 2:
        return None
    upper = scipy.linalg.solve_triangular(L, np.diag(1 / d), lower=True, check_finite=False)
    return upper.T, L.T * d
