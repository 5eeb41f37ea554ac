"""Block Krylov iteration for the leading eigenpairs of a symmetric operator S, with thick restarts.

Problem: the k largest eigenvalues of S = AᵀA, known by products with thin blocks, from few products.
Papers: Golub & Underwood 1977 (Mathematical Software III, 361-377) for the block Lanczos method; Musco & Musco 2015
(arXiv:1504.05477) for its few products from a random block; Wu & Simon 2000 (doi:10.1137/S0895479898334605) for thick
restarts. With an orthonormal basis V, its newest block Q, and T = VᵀSV:

    R = (I - VVᵀ) S Q                     (1)
    Q' β = R                              (2)
    T ← [T  .; β on Q  .]                 (3)
    T y = θ y                             (4)
    ‖S Vy - θ Vy‖ = ‖β y_Q‖               (5)

where y_Q is the part of y in the newest block that was multiplied. A restart keeps the leading Ritz vectors Vy and Q',
whose products with them are β y_Q.
Where we differ: R is orthogonalised against the blocks that S Q has a part of, and then against the whole basis (so
there are no copies of converged pairs), and what T gets is VᵀSQ and its transpose, of which β is a part up to rounding.
Where the space is exhausted a random block orthogonal to it goes on. A value that occurs more often than a block has
columns may be found that often only, as the theory says. A start that is not random may lack a leading pair: `risk`
says how probable that is. Where the number of pairs follows from their values, the blocks widen as the space grows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

import numpy as np

from linspec.arrays import Array, Device, HostArray, to_host
from linspec.linalg import selection_matrix
from linspec.linalg.small_matrices import EPS, lengths_of, orthonormal

SHORTEST, LONGEST, BLOCKS = 1, 100, 12
"""Fewest and most steps of a search for pairs that are missing, and the blocks that its basis has room for."""

RISK = 1e-6
"""Largest probability with which a search overlooks a pair."""

WIDEN = 16
"""A block becomes wider if the space has more than so many blocks, and pairs are still too few."""

SMALL = 1e-4
"""A direction of R shorter than this part of T is made orthogonal to the basis once more."""


def _unknown(_known: int, _tol: float) -> float:
    """No probability."""
    return math.nan


class RitzPairs(NamedTuple):
    """Approximate eigenpairs, largest first.

    Attributes
    ----------
    values : numpy.ndarray of shape (k,)
    vectors : callable
        Returns the array of shape (p, k); formed only when it is asked for.
    residuals : numpy.ndarray of shape (k,)
        ‖S v - θ v‖.
    exhausted : bool
        Whether the space is invariant: all eigenvectors that the start has a part of are in it.
    risk : callable
        (known, tol) -> the probability with which a larger eigenvalue is missing, if only `known` columns of the first
        block are not random; NaN after a restart.
    """

    values: HostArray
    vectors: Callable[[], Array]
    residuals: HostArray
    exhausted: bool
    risk: Callable[[int, float], float] = _unknown


def block_krylov(
    product: Callable[[Array], Array],
    start: Array,
    k: int | Callable[[HostArray], int],
    rng: np.random.Generator,
    *,
    room: int | None = None,
) -> Iterator[RitzPairs]:
    """Yield Ritz pairs after every product.

    Parameters
    ----------
    product : callable
        V -> S V for V of shape (p, b), in one pass.
    start : array of shape (p, b)
        The first block: random, or with at least some random columns.
    k : int or callable
        Pairs that are asked for; or takes all Ritz values and returns how many they are. More than there are values
        says that they are too few yet: then the space grows without restarts, and random columns double a block
        when there are more than 16 of it.
    rng : numpy.random.Generator
        For blocks that go on where a space is exhausted.
    room : int, optional
        Columns that the basis may have, at least k + 2b; by default the larger of 3k and k + 10b, or 12b if b is at
        least k.

    Examples
    --------
    >>> import numpy as np
    >>> from linspec.linalg import block_krylov
    >>> S, rng = np.diag([9.0, 4.0, 1.0, 0.0]), np.random.default_rng(0)
    >>> *_, last = block_krylov(lambda V: S @ V, rng.standard_normal((4, 2)), 2, rng)
    >>> last.values.round(12).tolist(), last.exhausted
    ([9.0, 4.0], True)
    """
    asarray = Device.of(start).asarray
    p = start.shape[0]
    Q, _ = orthonormal(start)
    b = first = max(Q.shape[1], 1)
    rows = _with_room(Q, b)
    T = np.zeros((0, 0))
    near = 0
    while True:
        SQ = product(Q)
        V = rows[: T.shape[1] + Q.shape[1], :].T
        part = _coefficients(V[:, near:], SQ)
        R = SQ - _combination(V[:, near:], part)  # (1) for what S Q has a part of
        rest = _coefficients(V, R)
        R = R - _combination(V, rest)  # (1) for what rounding has left
        column = np.array(to_host(rest))
        column[near:] += to_host(part)
        T = _bordered(T, column)  # (3)
        size = np.abs(T).max(initial=0.0)
        new, beta = _independent(R, EPS * size)
        if new.shape[1] and np.linalg.norm(beta, -2) < SMALL * size:
            # What rounding has left of V in short directions
            new, turn = orthonormal(new - _combination(V, _coefficients(V, new)))
            beta = turn @ beta
        theta, Y = _leading(T)  # (4)
        wanted = k(theta) if callable(k) else k
        usual = max(3 * wanted, wanted + 10 * b) if b < wanted else 12 * b
        most = min(p, max(room or usual, wanted + 2 * b))
        left = beta @ Y[len(T) - Q.shape[1] :]
        exhausted = new.shape[1] == 0
        count = min(wanted, len(theta))
        risk = partial(_risk, theta, Y, left, count, first, p)
        vectors = lambda V=V, Y=Y[:, :count]: _combination(V, asarray(Y))  # noqa: E731
        yield RitzPairs(theta[:count], vectors, lengths_of(left[:, :count]), exhausted, risk)  # (5)
        if V.shape[1] >= p:
            return
        if exhausted or (callable(k) and wanted > len(theta) > WIDEN * b):
            new = _widened(V, new, b, rng)
            b = max(b, new.shape[1])
            if new.shape[1] == 0:
                return
        near = V.shape[1] - Q.shape[1]
        if V.shape[1] + new.shape[1] > most:
            restart = min(len(theta), wanted + (most - wanted) // 3)
            rows = _with_room(_combination(V, asarray(Y[:, :restart])), most + b)
            T = np.diag(theta[:restart])
            first = near = 0
        rows = _appended(rows, len(T), new, most + b)
        Q = new


def _with_room(V: Array, columns: int) -> Array:
    """The columns of V as rows of an array with room for others."""
    rows = Device.of(V).zeros((max(columns, V.shape[1]), V.shape[0]))
    rows[: V.shape[1], :] = V.T
    return rows


def _appended(rows: Array, m: int, new: Array, columns: int) -> Array:
    """The rows with a block behind the first m of them, with room for so many columns where there is none left."""
    if m + new.shape[1] > rows.shape[0]:
        rows = _with_room(rows[:m, :].T, columns)
    rows[m : m + new.shape[1], :] = new.T
    return rows


def _widened(V: Array, new: Array, b: int, rng: np.random.Generator) -> Array:
    """A block with b random columns beside it, orthogonal to all."""
    join = Device.of(V).concat
    return join([new, _outside(join([V, new]), b, rng)])


def _coefficients(V: Array, Y: Array) -> Array:
    """VᵀY as (YᵀV)ᵀ: of columns in contiguous memory and thin Y, BLAS takes half the time."""
    return (Y.T @ V).T


def _combination(V: Array, H: Array) -> Array:
    """V H as (HᵀVᵀ)ᵀ, as above."""
    return (H.T @ V.T).T


def search(
    product: Callable[[Array], Array], pairs: RitzPairs, b: int, rng: np.random.Generator, tol: float
) -> tuple[RitzPairs, bool]:
    """Search for pairs that a Krylov space may lack: copies beyond the width of its blocks, and what a start lacks.

    A Krylov space of S on the complement of the pairs, from a random block, is built until its largest Ritz values are
    exact, or so far below the given ones that a larger eigenvalue is improbable (`_improbable`). Pairs from it that
    belong among the given ones take their places, and the search begins anew.

    Parameters
    ----------
    product : callable
        V -> S V.
    pairs : RitzPairs
        Converged.
    b : int
        Columns of a block.
    rng : numpy.random.Generator
    tol : float
        Values that differ by less, relative to the largest, count as equal.

    Returns
    -------
    RitzPairs
        As many as there were.
    settled : bool
        Whether the search came to its end.
    """
    V = pairs.vectors()
    k = len(pairs.values)
    while V.shape[1] < V.shape[0]:
        near, least = (unit * float(pairs.values[0]) for unit in (tol, 10 * EPS * math.sqrt(len(V))))
        last = float(pairs.values[-1])

        def complement(W: Array, V: Array = V) -> Array:
            SW = product(W)
            return SW - V @ (V.T @ SW)

        start = _outside(V, b, rng)
        for step, more in enumerate(block_krylov(complement, start, b, rng, room=BLOCKS * b)):
            equal = int((more.values >= max(last - near, least)).sum())
            exact = more.residuals[: max(equal, 1)].max() <= near
            below = not equal and _improbable(1 - more.values[0] / last, min(step + 1, BLOCKS), start.shape)
            settled = more.exhausted or (step >= SHORTEST and (exact or below))
            if settled or step == LONGEST:
                break
        if not equal or not settled:
            return pairs, settled
        new = _orthogonal_to(V, more.vectors()[:, :equal])
        V, both = (Device.of(V).concat([old, new]) for old in (V, pairs.vectors()))
        values = np.concatenate([pairs.values, more.values[:equal]])
        order = np.argsort(-values, kind="stable")
        pairs = _rayleigh_ritz(
            product, both @ Device.of(V).asarray(selection_matrix(len(values), order[:k])), pairs
        )
        if equal < b:
            break
    return pairs, True


def _improbable(gap: float, steps: int, shape: tuple[int, int]) -> bool:
    """Whether Lanczos steps from b random vectors hardly end with all Ritz values so far below the largest eigenvalue.

    Kuczyński & Woźniakowski 1992 (doi:10.1137/0613066), Theorem 4.2: with the probability 1.648 √p exp(-√gap (2m - 1))
    for each vector.
    """
    p, b = shape
    return gap > 0 and 1.648 * np.sqrt(p) * np.exp(-np.sqrt(gap) * (2 * steps - 1)) <= RISK ** (1 / b)


def _rayleigh_ritz(product: Callable[[Array], Array], V: Array, pairs: RitzPairs) -> RitzPairs:
    """The Ritz pairs in the span of V, by one product."""
    V, _ = orthonormal(V)
    SV, asarray = product(V), Device.of(V).asarray
    theta, Y = _leading(_bordered(np.zeros((0, 0)), to_host(V.T @ SV)))
    vectors = V @ asarray(Y)
    residuals = Device.of(V).column_norms(SV @ asarray(Y) - vectors * asarray(theta)[None, :])
    return pairs._replace(values=theta, vectors=lambda: vectors, residuals=to_host(residuals))


def _bordered(T: HostArray, column: HostArray) -> HostArray:
    """T with the columns VᵀSQ of the newest block, symmetric."""
    above, corner = np.split(column, [len(T)])
    return np.block([[T, above], [above.T, (corner + corner.T) / 2]])


def _leading(T: HostArray) -> tuple[HostArray, HostArray]:
    theta, Y = np.linalg.eigh(T)
    return theta[::-1], Y[:, ::-1]


def _independent(R: Array, rounding: float) -> tuple[Array, HostArray]:
    """Formula (2), without directions that are rounding."""
    new, beta = orthonormal(R)
    left, sizes, Vt = np.linalg.svd(beta, full_matrices=False)
    live = sizes > 8 * np.sqrt(R.shape[0]) * rounding
    if live.all():
        return new, beta
    return new @ Device.of(R).asarray(left[:, live]), sizes[live, None] * Vt[live]


def _outside(V: Array, b: int, rng: np.random.Generator) -> Array:
    """A random block that is orthogonal to V; empty if V is the whole space."""
    p, m = V.shape
    Z = Device.of(V).asarray(rng.standard_normal((p, min(b, p - m))))
    return _orthogonal_to(V, Z)


def _orthogonal_to(V: Array, Z: Array) -> Array:
    """Z without what lies along V, orthonormal."""
    for _ in range(2):
        Z = Z - V @ (V.T @ Z)
        Z, _ = orthonormal(Z)
    return Z


def _risk(
    theta: HostArray,
    Y: HostArray,
    left: HostArray,
    k: int,
    first: int,
    p: int,
    known: int,
    tol: float,
) -> float:
    """The probability that an eigenvector x of a λ above the k-th Ritz value is orthogonal to k converged pairs.

    By (1) and (4), xᵀV₁ = (xᵀQ') X for the first block V₁, with X = Σ_{j>k} β y_jQ (y_j1)ᵀ / (λ - θ_j), and X falls
    with λ. If ‖X‖ ≤ 1/2, most of x is outside the known columns of V₁. Its coefficients in the b random columns have at
    most the length σ = ‖X_random‖: with at most the probability (2p/3)^(b/2) σᵇ / Γ(b/2 + 1), by the volume of a ball.
    """
    b = first - known
    if first == 0:
        return math.nan
    if b < 1 or len(theta) <= k or theta[0] <= 0:
        return 1.0
    least = theta[k - 1] + tol * theta[0]
    X = (left[:, k:] / (least - theta[k:])) @ Y[:first, k:].T
    if np.linalg.norm(X, 2) > 0.5:
        return 1.0
    size = max(float(np.linalg.norm(X[:, known:], 2)), EPS)
    return math.exp(min(b / 2 * math.log(2 * p / 3) - math.lgamma(b / 2 + 1) + b * math.log(size), 0.0))
