"""The block iteration of conjugate gradients, for a whole path of ridges.

Problem: (AᵀA + rI) X = AᵀB, symmetric and positive (semi)definite, for m right-hand sides at once and for one or
several ridges r.
Method: the block iteration of O'Leary (1980) in the form of Dubrulle (2001), which orthonormalises the residuals
and so needs no inverse of a matrix that becomes singular as columns converge. With M = AᵀA + rI and R = Qτ
standing for an orthonormal factor and a small one:

    AᵀB = Q ρ,  P = Q
    G = PᵀMP,  X ← X + P G⁻¹ρ,  Q τ ← Q − MP G⁻¹,  ρ ← τρ,  P ← Q + P τᵀ

so the residuals are Qρ, and their norms are those of the columns of ρ. All right-hand sides search the space that
they span together, with fewer readings of the data than column by column. For one column it is the iteration of
Hestenes & Stiefel (1952). From X = 0 at ridge 0 it leads to the solution of least norm.

A path: the spaces do not depend on r. The iteration for M + δI takes the same Q and τ and no product (the shifted
form of Futamura, Sakurai, Furuya & Imakura 2013). With D = G + Δ, Δ = δI at the start:

    X ← X + P D⁻¹z,  Δ ← δI + τ G D⁻¹Δ τᵀ,  z ← τ G D⁻¹z,  P ← Q + P D⁻¹G τᵀ

where P, z, Δ belong to the shift, and G, τ belong to the smallest ridge. For δ = 0 this is the iteration above.

Where we differ: rank is cut in two ways. Directions in which the new residuals depend on each other up to rounding are
left out of Q, and so are directions in which no right-hand side has a residual above rounding. Then Q has fewer
columns, and nothing else changes. The update of Δ is written as a sum of positive matrices, while the source
subtracts. The host factorises G and SᵀS, S = Q − MP G⁻¹. The second depends on the first, and so a step would wait for
a device twice. Thus a device inverts G itself, and both come down together; what follows from them travels back
together. Where G is singular up to rounding, the host inverts it on its numerical range, and the step waits twice.
If SᵀS is ill-conditioned, S itself is factorised, but only when the next directions are asked for: SᵀS gives the norms
of residuals, and the iteration may end there, as it does where the space is exhausted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
import scipy.linalg

from linspec.algebra import EPS, whitening
from linspec.arrays import Array, Home, HostArray, symmetric_inverse, to_host, to_host_together
from linspec_lstsq.normal_equations import Iteration, System

WELL_CONDITIONED = 1e-8
"""From this reciprocal condition number of a Gram matrix on, its Cholesky factor orthonormalises well enough."""

KNOWN = 1e6
"""Norms that follow from SᵀS are right if their squares are larger than its rounding by this factor."""

DEPENDENT = 1e-14
"""A column depends on the others if a smaller part of it lies outside them."""


def block_conjugate_gradients(system: System) -> Sequence[Iteration]:
    """One iteration for all columns and ridges."""
    return [BlockConjugateGradients(system)]


class BlockConjugateGradients(Iteration):
    """Dubrulle's iteration for the smallest ridge, and its shifts for the others."""

    def __init__(self, system: System) -> None:
        self.home = system.home
        self.ridge = min(system.ridges)
        start, gradient = system.at_start
        Q, T, rho = factors(gradient, self.home, system.gradient_gram)
        self.weights = rounding_weights(system)
        *turns, self._z = self.home.place_together(*_given(T), np.tile(rho, len(system.ridges)))
        self.Q = _turned(Q, turns)
        self.shifts = [
            Shifted(r - self.ridge, self.Q, rho, (r - self.ridge) * np.eye(len(rho)), start)
            for r in system.ridges
        ]
        self.seed = self.shifts[system.ridges.index(self.ridge)]
        self.tau = np.eye(len(rho))
        self._left: tuple[Array, HostArray] | None = None  # S and SᵀS, until the next directions are needed

    def state(self) -> dict[str, Any] | None:
        """What the iteration is, for a checkpoint."""
        self._settle()
        return {
            "ridge": self.ridge,
            "weights": self.weights,
            "Q": self.Q,
            "tau": self.tau,
            "z": self._z,
            "seed": self.shifts.index(self.seed),
            "shifts": [dict(vars(shifted)) for shifted in self.shifts],
        }

    @classmethod
    def again(cls, state: Mapping[str, Any], home: Home) -> Self:
        """The iteration of a checkpoint."""
        found = cls.__new__(cls)
        found.home, found.ridge, found.weights = home, state["ridge"], state["weights"]
        found.Q, found.tau, found._z = home.place(state["Q"]), state["tau"], home.place(state["z"])
        found.shifts = [Shifted.again(shifted, home) for shifted in state["shifts"]]
        found.seed, found._left = found.shifts[state["seed"]], None
        return found

    @classmethod
    def continued(
        cls, system: System, P: Array, X: Array, left: tuple[Array, HostArray], carried: HostArray
    ) -> Self:
        """The iteration for one ridge after steps that something else has made.

        Parameters
        ----------
        system : System
        P, X : array of shape (p, k), array of shape (p, m)
            The last directions, and the iterate.
        left : array of shape (p, k), numpy.ndarray of shape (k, k)
            S and SᵀS.
        carried : numpy.ndarray of shape (k, m)
            The residuals are S times these.
        """
        found = cls.__new__(cls)
        (found.ridge,) = system.ridges
        found.home, found.weights = system.home, rounding_weights(system)
        found.shifts = [Shifted(0.0, P, carried, np.zeros((len(carried),) * 2), X)]
        found.seed, found.tau, found._left = found.shifts[0], np.eye(len(carried)), left
        found.Q = found._z = None
        return found

    def ask(self) -> Array:
        """The search directions."""
        self._settle()
        return self.seed.P

    def tell(self, AtAV: Array) -> None:
        """The step and the next directions."""
        home, P = self.home, self.seed.P
        if P.shape[1] == 0:
            return
        MP = AtAV + P * self.ridge
        S, G, Ginv, products = self._residuals(MP)
        steps = [shifted.step(G, Ginv) for shifted in self.shifts]
        found = triangles(products)
        if found is not None:
            self._turn(S, *found, steps)
        else:
            self._move(home.place_together(*steps))
            self._left = S, products

    def _settle(self) -> None:
        """Find the next directions, if that has been put off."""
        if self._left is not None:
            S, products = self._left
            self._left = None
            self._turn(*factors(S, self.home, products), [])

    def _turn(self, S: Array, T: HostArray | None, tau: HostArray, steps: list[HostArray]) -> None:
        """Make the step, if it is still to be made, and the next directions."""
        turns, self.tau = self._without_rounding(_given(T), tau)
        conjugate = [shifted.turn(self.tau) for shifted in self.shifts]
        z = np.hstack([shifted.z for shifted in self.shifts])
        self._z, *placed = self.home.place_together(z, *conjugate, *steps, *turns)
        count = len(self.shifts)
        self._move(placed[count : count + len(steps)])
        self.Q = _turned(S, placed[count + len(steps) :])
        for shifted, C in zip(self.shifts, placed, strict=False):
            shifted.P = self.Q + shifted.P @ C

    def _move(self, steps: Sequence[Array]) -> None:
        for shifted, step in zip(self.shifts, steps, strict=False):
            shifted.X = shifted.X + shifted.P @ step

    def _residuals(self, MP: Array) -> tuple[Array, HostArray, HostArray, HostArray]:
        """S = Q − MP G⁻¹, G, G⁻¹ and SᵀS."""
        home, there = self.home, self.seed.P.T @ MP
        if not home.on_host:
            Ginv = symmetric_inverse(there)
            S = self.Q - MP @ Ginv
            G, inverted, products = to_host_together(there, Ginv, S.T @ S)
            G = (G + G.T) / 2
            if inverts(inverted, G):
                return S, G, inverted, products
            there = G
        G = to_host(there)
        G = (G + G.T) / 2
        inverted = inverse(G)
        S = self.Q - MP @ home.place(inverted)
        return S, G, inverted, to_host(S.T @ S)

    def _without_rounding(self, turns: list[HostArray], tau: HostArray) -> tuple[list[HostArray], HostArray]:
        """Leave out directions in which the residuals of all right-hand sides are rounding."""
        weighted = np.hstack([tau @ shifted.carried for shifted in self.shifts])
        left, sizes, _ = np.linalg.svd(
            weighted * np.tile(self.weights, len(self.shifts)), full_matrices=False
        )
        if (sizes > 1).all():
            return turns, tau
        turn = left[:, sizes > 1]
        return [*turns, turn], turn.T @ tau

    def x(self) -> Array:
        """The iterates of all ridges."""
        return self.home.concat([shifted.X for shifted in self.shifts])

    def gradient(self) -> Array:
        """AᵀB − (AᵀA + rI) x of all ridges."""
        self._settle()
        return self.Q @ self._z

    def gradient_norms(self) -> HostArray:
        """‖Q z‖ = ‖z‖ of every column."""
        if self._left is not None:  # those of S times what is carried
            squares = squares_known(self._left[1], np.hstack([shifted.carried for shifted in self.shifts]))
            if squares is not None:
                return np.asarray(np.sqrt(squares))
            self._settle()
        with np.errstate(over="ignore"):  # an iteration may diverge
            return np.concatenate([np.linalg.norm(shifted.z, axis=0) for shifted in self.shifts])


class Shifted:
    """The state of one ridge: its iterate, its directions, and its residuals in terms of the common Q."""

    def __init__(self, delta: float, P: Array, z: HostArray, Delta: HostArray, X: Array) -> None:
        self.delta, self.P, self.z, self.Delta, self.X = delta, P, z, Delta, X
        self.carried = z  # G D⁻¹ z
        self.gain = np.eye(len(z))  # D⁻¹ G

    @classmethod
    def again(cls, state: Mapping[str, Any], home: Home) -> Shifted:
        """That of a checkpoint."""
        found = cls.__new__(cls)
        vars(found).update(state)
        found.P, found.X = home.place(found.P), home.place(found.X)
        return found

    def step(self, G: HostArray, Ginv: HostArray) -> HostArray:
        """D⁻¹z, the coefficients of the step to the lowest point over the directions."""
        if self.delta == 0:
            self.gain, self.carried = np.eye(len(G)), self.z
            return np.asarray(Ginv @ self.z)
        Dinv = inverse(G + self.Delta)
        self.gain = Dinv @ G
        step: HostArray = Dinv @ self.z
        self.carried = G @ step
        return step

    def turn(self, tau: HostArray) -> HostArray:
        """D⁻¹G τᵀ, by which the directions enter the next ones."""
        self.z = tau @ self.carried
        if self.delta:
            Delta = tau @ self.gain.T @ self.Delta @ tau.T
            self.Delta = self.delta * np.eye(len(tau)) + (Delta + Delta.T) / 2
        conjugate: HostArray = self.gain @ tau.T
        return conjugate


def rounding_weights(system: System) -> HostArray:
    """For every column the inverse of a residual that is rounding; 0 where AᵀB is 0."""
    with np.errstate(over="ignore"):
        weights: HostArray = np.divide(
            1 / system.noise, system.scales, out=np.zeros_like(system.scales), where=system.scales > 0
        )
    return np.minimum(weights, np.finfo(np.float64).max)


def squares_known(products: HostArray, carried: HostArray) -> HostArray | None:
    """‖S c‖² for the columns c of `carried`, from SᵀS; None where that loses too many digits."""
    squares: HostArray = np.sum(carried * (products @ carried), axis=0)
    lengths = np.sqrt(np.maximum(np.diag(products), 0.0)) @ np.abs(carried)
    return squares if (squares > KNOWN * EPS * lengths**2).all() else None


def inverts(Ginv: HostArray, G: HostArray) -> bool:
    """Whether G⁻¹ of a device is one: G is regular, and entries are finite."""
    d = np.sqrt(np.maximum(np.diag(G), 0.0))
    if not (d > 0).all() or not np.isfinite(Ginv).all():
        return False
    try:
        np.linalg.cholesky(G / np.outer(d, d))
    except np.linalg.LinAlgError:
        return False
    return True


def inverse(G: HostArray) -> HostArray:
    """G⁻¹; on its numerical range if G is singular up to rounding."""
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


def _given(T: HostArray | None) -> list[HostArray]:
    return [] if T is None else [T]


def _turned(Q: Array, turns: Sequence[Array]) -> Array:
    for turn in turns:
        Q = Q @ turn
    return Q


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


def factors(S: Array, home: Home, G: HostArray | None = None) -> tuple[Array, HostArray | None, HostArray]:
    """Q or S itself, T that makes Q = ST of S, or None, and τ with S = Q τ.

    A Cholesky factor of G = SᵀS if this is well conditioned; otherwise a pivoted QR of S itself.
    """
    G = to_host(S.T @ S) if G is None else G
    if (found := triangles(G)) is not None:
        return S, *found
    d = np.sqrt(np.diag(G))
    Q, R, order = scipy.linalg.qr(to_host(S) / np.where(d > 0, d, 1.0), mode="economic", pivoting=True)
    sizes = np.abs(np.diag(R))
    rank = int(np.sum(sizes > DEPENDENT * sizes.max(initial=0.0)))
    tau = np.zeros((rank, len(d)))
    tau[:, order] = R[:rank]
    return home.place(np.ascontiguousarray(Q[:, :rank])), None, tau * d
