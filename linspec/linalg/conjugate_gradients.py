"""Block conjugate gradients for S X = B, and for a path of ridges (S + r I) X = B; and iterations that share a pass.

Problem: S = AᵀA is positive semidefinite and known by products with thin blocks; B has several columns, perhaps
dependent ones.
Papers: O'Leary 1980 (doi:10.1016/0024-3795(80)90247-5) for the method; Dubrulle 2001 (ETNA 12:216), algorithm BCGrQ,
for residuals Q z with orthonormal Q, which keep the columns independent; Futamura, Sakurai, Furuya & Imamura 2013
(doi:10.1007/978-3-642-38718-0_4) for the other ridges at no further product. With M = S + r I for the smallest ridge r
and δ = r' - r for another one, from B - M X = Q ρ, P = Q, z = ρ and Δ = δ I:

    G = PᵀMP,  D = G + Δ                  (1)
    X ← X + P D⁻¹ z                       (2)
    Q τ ← Q - M P G⁻¹                     (3)
    z ← τ G D⁻¹ z                         (4)
    Δ ← δ I + τ G D⁻¹ Δ τᵀ                (5)
    P ← Q + P D⁻¹ G τᵀ                    (6)

For δ = 0 these are BCGrQ itself: D = G, z ← τ z, P ← Q + P τᵀ. With a preconditioner W for one ridge they are the same
in the variables W^(1/2): QᵀWQ = I in place of QᵀQ = I, and P ← WQ + P τᵀ, at one product with W for each step.
Where we differ: directions in which no column has a residual above rounding leave Q, and so do dependent ones. The
iteration ends when none is left; and at its shortest residual, where it has searched twice the space for a shorter
one, as when S has eigenvalues below rounding. A ridge need not solve all columns: those that none solves only widen the
space, and columns of its own hold what a start of its own has left.

An iteration is a generator: it yields the block that it needs a product of, and receives the product. Where every ridge
of a path has a preconditioner, and so an iteration, of its own, all that wait for a product are served by the same
pass.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Iterator, Sequence
from itertools import compress, pairwise
from typing import NamedTuple, Protocol

import numpy as np

from linspec.arrays import Array, Device, HostArray, reciprocal, to_host
from linspec.linalg.small_matrices import EPS, inverse, lengths_of, orthonormal


class Step(NamedTuple):
    """One step of an iteration.

    Attributes
    ----------
    X : callable
        Returns the iterates, a list with an array for every ridge. They are not changed later.
    lengths : numpy.ndarray
        Of the columns of the residuals, the first ridge first.
    P : array of shape (p, k)
        What is to be multiplied by S next; without columns at the end.
    residual : callable
        Returns the residual of the least ridge.
    """

    X: Callable[[], list[Array]]
    lengths: HostArray
    P: Array
    residual: Callable[[], Array]


Steps = Generator[Step, Array, None]
"""Yields steps, and receives S P for each."""


class Variables(Protocol):
    """Other variables y for one system M x = b."""

    def forward(self, P: Array) -> Array:
        """Return the block that S multiplies for a block P in the other variables."""

    def back(self, V: Array, SV: Array) -> Array:
        """Return the product in the other variables, from S V for V = `forward(P)`."""

    def answer(self, Y: Array) -> Array:
        """Return x for y."""


def driven(product: Callable[[Array], Array], steps: Steps) -> Iterator[Step]:
    """Yield the steps of one iteration, which makes its own products; it ends where it needs none.

    Parameters
    ----------
    product : callable
        V -> S V.
    steps : generator of Step
    """
    step = next(steps)
    while True:
        yield step
        if not step.P.shape[1]:
            return
        step = steps.send(product(step.P))


def in_variables(steps: Steps, variables: Variables) -> Steps:
    """Run an iteration for one ridge in other variables, in which residuals are the same.

    Parameters
    ----------
    steps : generator of Step
        In the other variables.
    variables : Variables
    """
    step = next(steps)
    while True:
        V = variables.forward(step.P)
        X = lambda step=step: [variables.answer(step.X()[0])]  # noqa: E731
        SV = yield step._replace(X=X, P=V)
        step = steps.send(variables.back(V, SV))


def side_by_side(
    product: Callable[[Array], Array], iterations: Sequence[Steps], waits: Callable[[int, Step], bool]
) -> Iterator[list[Step]]:
    """Yield the steps of some iterations, which share each product; it ends where none needs one.

    Parameters
    ----------
    product : callable
        V -> S V.
    iterations : sequence of generator of Step
    waits : callable
        Takes the number of an iteration and its step; whether it is near enough to wait for others.
    """
    now = [next(steps) for steps in iterations]
    while True:
        yield list(now)
        able = [i for i, step in enumerate(now) if step.P.shape[1]]
        live = [i for i in able if not waits(i, now[i])] or able
        if not live:
            return
        SV = product(Device.of(now[0].P).concat([now[i].P for i in live]))
        edges = np.cumsum([0, *(now[i].P.shape[1] for i in live)]).tolist()
        for i, (a, b) in zip(live, pairwise(edges), strict=True):
            now[i] = iterations[i].send(SV[:, a:b])


LOST = 2
"""So many times the dimension of the space may be searched without a shorter residual: exactly, once is enough."""


def cg_steps(
    B: Array,
    ridges: Sequence[float] = (0.0,),
    columns: Sequence[HostArray] | None = None,
    preconditioner: Callable[[Array], Array] | None = None,
    enough: float = 0.0,
) -> Steps:
    """Steps from zero, which receive the products S P.

    Parameters
    ----------
    B : array of shape (p, m)
    ridges : sequence of float, default (0,)
        Zero or more, in any order.
    columns : sequence of numpy.ndarray of int, optional
        The numbers of the columns of B that each ridge solves; by default all.
    preconditioner : callable, optional
        V -> W V for a positive definite W near (S + r I)⁻¹; only for one ridge.
    enough : float, default 0
        A ridge above the least one stands still once its residuals are so short, relative to its columns of B.

    Examples
    --------
    >>> import numpy as np
    >>> from linspec.linalg import cg_steps, driven
    >>> S, B = np.diag([1.0, 2.0, 3.0]), np.ones((3, 1))
    >>> *_, step = driven(S.__matmul__, cg_steps(B, ridges=(0.0, 1.0)))
    >>> [x.ravel().round(6).tolist() for x in step.X()], bool(step.lengths.max() < 1e-12)
    ([[1.0, 0.5, 0.333333], [0.5, 0.333333, 0.25]], True)
    """
    if B.shape[1] == 1 == len(ridges):
        return _ended(_single(B, min(ridges), preconditioner), B.shape[0])
    columns = columns or [np.arange(B.shape[1])] * len(ridges)
    return _ended(_block(B, ridges, columns, preconditioner, enough), B.shape[0])


def _ended(steps: Steps, dimension: int) -> Steps:
    """The steps, of which the last one is the nearest where the space has been searched in vain."""
    best, spent, step = math.inf, 0, next(steps)
    while True:
        longest = step.lengths.max(initial=0.0)
        if longest < best:
            best, spent, nearest = longest, 0, step
        spent += step.P.shape[1]
        step = steps.send((yield step if spent <= LOST * dimension else nearest._replace(P=step.P[:, :0])))


def _block(
    B: Array,
    ridges: Sequence[float],
    columns: Sequence[HostArray],
    preconditioner: Callable[[Array], Array] | None,
    enough: float,
) -> Steps:
    """The steps for a block of columns and some ridges."""
    asarray = Device.of(B).asarray
    r, path = min(ridges), range(len(ridges))
    least = list(ridges).index(r)
    X = [B[:, : len(columns[i])] * 0.0 for i in path]
    Q, WQ, rho = _basis(B, preconditioner)
    P = [WQ for _ in path]
    z = [rho if i == least else rho[:, columns[i]] for i in path]  # of the least ridge, all columns
    rounded = [EPS * lengths_of(block) for block in z]
    short = [enough / EPS * limits for limits in rounded]
    moving = sorted(path, key=lambda i: i != least)  # the least ridge first
    delta = np.array([ridges[i] - r for i in moving])[:, None, None]
    Delta = delta * np.eye(len(rho))

    def length_of(i: int) -> HostArray:
        """Those of the residuals that a ridge solves."""
        return lengths_of(z[i][:, columns[i]] if i == least else z[i])

    lengths = list(map(length_of, path))
    while True:
        if preconditioner is not None:
            lengths = [Device.of(Q).column_norms(Q @ asarray(z[0][:, columns[0]]))]
        SP = yield Step(
            lambda X=X: X,  # type: ignore[misc]
            np.concatenate(lengths),
            P[least],
            lambda Q=Q, z=z[least]: Q @ asarray(z),  # type: ignore[misc]
        )
        MP = SP + r * P[least]
        G = _host_product(P[least], MP)  # (1)
        Dinv = inverse(G + Delta if len(moving) > 1 else G[None])
        Q, WQ, tau = _basis(Q - MP @ asarray(Dinv[0]), preconditioner)  # (3)
        steps = [D @ z[i] for i, D in zip(moving, Dinv, strict=True)]
        wanted = [steps[0][:, columns[least]], *steps[1:]]
        for i, shift, at in zip(moving, delta, steps, strict=True):
            z[i] = tau @ (z[i] if shift == 0 else G @ at)  # (4)
        residuals, limits = (np.concatenate([x[i] for i in moving], axis=-1) for x in (z, rounded))
        if (lengths_of(residuals) <= limits).any():
            turn = _above(residuals, limits)
            Q = Q @ asarray(turn)
            tau = turn.T @ tau
            for i in moving:
                z[i] = turn.T @ z[i]
            WQ = Q if preconditioner is None else WQ @ asarray(turn)
        back = tau.T[None]
        if len(moving) > 1:
            back = np.where(delta == 0, tau.T, Dinv @ (G @ tau.T))
            Delta = back.swapaxes(1, 2) @ Delta @ tau.T  # (5)
            Delta = (Delta + Delta.swapaxes(1, 2)) / 2 + delta * np.eye(len(tau))
        moves = Device.of(B).asarrays(*wanted, *back)
        X = [*X]
        for i, move, turned in zip(moving, moves, moves[len(moving) :], strict=False):
            X[i] = X[i] + P[i] @ move  # (2)
            P[i] = WQ + P[i] @ turned  # (6)
            lengths[i] = length_of(i)
        kept = [i == least or bool((lengths[i] > short[i]).any()) for i in moving]
        if not all(kept):
            moving, delta, Delta = list(compress(moving, kept)), delta[kept], Delta[kept]


def _single(B: Array, r: float, preconditioner: Callable[[Array], Array] | None) -> Steps:
    """The steps for one column and one ridge (Hestenes & Stiefel 1952), without matrices."""
    unit = Device.of(B).norm(B) or 1.0
    X, R, P, before = B * 0.0, B * (1.0 / unit), B * 0.0, math.inf
    while True:
        WR = R if preconditioner is None else preconditioner(R)
        square = _dot(R, WR)
        length = math.sqrt(square if preconditioner is None else _dot(R, R))
        P = WR + P * (square / before) if length > EPS else P[:, :0]
        SP = yield Step(
            lambda X=X: [X * unit],  # type: ignore[misc]
            np.array([unit * length]),
            P,
            lambda R=R: R * unit,  # type: ignore[misc]
        )
        MP = SP + P * r
        G = _dot(P, MP)
        alpha = square / G if G > 0 else 0.0
        X, R, before = X + P * alpha, R - MP * alpha, square


def _dot(u: Array, v: Array) -> float:
    """The product of two columns."""
    return float(u[:, 0] @ v[:, 0])


def _basis(S: Array, preconditioner: Callable[[Array], Array] | None) -> tuple[Array, Array, HostArray]:
    """Q, W Q and τ with S = Q τ and QᵀWQ = I; W = I without a preconditioner."""
    if preconditioner is None:
        Q, tau = orthonormal(S)
        return Q, Q, tau
    asarray = Device.of(S).asarray
    WS = preconditioner(S)
    tau = np.eye(S.shape[1])
    for _ in range(2):  # the second time for the rounding of the first
        G = _host_product(S, WS)
        d = np.sqrt(np.maximum(G.diagonal(), 0.0))
        scale = reciprocal(d)
        values, V = np.linalg.eigh(G * scale[:, None] * scale)
        live = values > len(G) * EPS * values.max(initial=0.0)
        roots = np.sqrt(values[live])
        T = asarray(scale[:, None] * (V[:, live] / roots))
        S, WS = S @ T, WS @ T
        tau = roots[:, None] * (V[:, live].T * d) @ tau
        if values.min(initial=1.0) > 1e-3:  # columns this independent round little
            break
    return S, WS, tau


def _host_product(P: Array, MP: Array) -> HostArray:
    """PᵀMP, symmetric on the host."""
    G = to_host(P.T @ MP)
    return (G + G.T) / 2


def _above(z: HostArray, rounding: HostArray) -> HostArray:
    """Directions in which some column has more than rounding; the columns of z are measured in it."""
    left, sizes, _ = np.linalg.svd(z / np.where(rounding > 0, rounding, np.inf), full_matrices=False)
    return left[:, sizes > 1.0]
