"""Locally optimal block preconditioned conjugate gradients for H w = θ S w, with a subspace for each view.

Problem: the largest θ of a symmetric pencil whose S = diag(S₁, S₂, …) is block diagonal over one or several views, and
positive semidefinite, from few products with thin blocks. One view is the ordinary pencil.
Papers: Knyazev 2001 (doi:10.1137/S1064827500366124) for the method; Stathopoulos 2007 (doi:10.1137/050631574) for
restarts with the pairs before the last step. With bases Vᵢ of the views, VᵢᵀSᵢVᵢ = I, and directions Zᵢ:

    Vᵢ ← [Vᵢ  (Zᵢ - Vᵢ VᵢᵀSᵢZᵢ) Tᵢ]                  (1)
    M = (VᵢᵀHᵢⱼVⱼ),  M u = θ u,  wᵢ = Vᵢuᵢ           (2)
    ϱᵢ = Σⱼ Hᵢⱼwⱼ - θ Sᵢwᵢ,  Zᵢ ← Pᵢ⁻¹ϱᵢ             (3)
    Vᵢ ← an orthonormal basis of (wᵢ, wᵢ before)     (4)

where Tᵢ whitens, and (4) is a restart, made when there is no room for another block. With room for three blocks every
step restarts, and the directions are those of conjugate gradients.
Where we differ: Knyazev's vectors are stacked, and have one subspace. Here each view has its own, so the products of a
block give several times the directions. Whoever runs the iteration preconditions (3): it may leave out pairs that need
no more directions, which stay in the subspace (soft locking). Bases are kept as V T with small T, whose columns are
fewer than those of V where directions are rounding. Two views whose Hᵢᵢ are zero have a singular value decomposition
in place of (2): values that are zero stay pairs.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from linspec.arrays import Array, Device, HostArray, reciprocal, to_host, to_host_together
from linspec.linalg import whitening_above_noise
from linspec.linalg.small_matrices import eigenpairs, orthonormal

DEPENDENT, INSIDE = 1e-12, 1e-10
"""Directions count as dependent, or as inside the subspace, if less than this is left of their squared length, or of
their length; or a tenth of the rounding of products, or ten times it."""

NEAR = 0.01
"""A second projection is made if the first leaves less than this part of a squared length."""

EARLIER = 1e-8
"""Pairs before the last step are kept if more than this part of their length is outside the current pairs."""

FALLEN, ABOVE = 1e-8, 0.01
"""Rounding prevails if the sum of the values falls by this part of it, or one exceeds its limit by this part."""

Products = tuple[Sequence[Array], Sequence[Sequence[Array | None]]]
"""SᵢZᵢ for every view i, and for every view j the Hᵢⱼ Zⱼ for every i; None where Hᵢⱼ is zero."""


class RitzBlocks(NamedTuple):
    """Ritz pairs within the subspaces, largest first.

    Attributes
    ----------
    values : numpy.ndarray of shape (m,)
    vectors : callable
        Takes a number of columns, and returns wᵢ for every view, with Σ wᵢᵀSᵢwᵢ = 1. They are not changed later.
    residuals : list of array of shape (pᵢ, m)
        ϱᵢ for every view.
    exhausted : bool
        Whether nothing is left to add: the subspaces are whole, or what is left is rounding.
    """

    values: HostArray
    vectors: Callable[[int], list[Array]]
    residuals: list[Array]
    exhausted: bool


def lobpcg_steps(
    product: Callable[[Sequence[Array]], Products],
    first: Sequence[Array],
    noise: Sequence[tuple[Array, float]],
    width: int,
    *,
    depth: int = 3,
    limit: float = np.inf,
    products: Products | None = None,
) -> Generator[RitzBlocks, Sequence[Array] | None, None]:
    """Yield Ritz pairs after every product, and receive the directions (3); by default the residuals themselves.

    Parameters
    ----------
    product : callable
        Takes a block for each view, and returns their `Products`, in one pass.
    first : sequence of array of shape (pᵢ, m)
        The first blocks: random, or with at least some random columns.
    noise : sequence of (array of shape (pᵢ, 1), float)
        For each view the diagonal of Sᵢ, and the part of the largest vᵀSᵢv / vᵀdiag(Sᵢ)v that is rounding of products.
    width : int
        The number of pairs.
    depth : int, default 3
        Blocks of so many columns that a subspace has room for.
    limit : float, default infinity
        What no value exceeds.
    products : Products, optional
        Those of the first blocks, if they are known.

    Examples
    --------
    >>> import numpy as np
    >>> from linspec.linalg import lobpcg_steps
    >>> H, S = np.diag([8.0, 3.0, 1.0, 0.0]), np.diag([2.0, 1.0, 1.0, 1.0])
    >>> first = np.random.default_rng(0).standard_normal((4, 2))
    >>> product = lambda Z: ([S @ Z[0]], [[H @ Z[0]]])
    >>> *_, last = lobpcg_steps(product, [first], [(np.diagonal(S)[:, None], 1e-13)], 2)
    >>> last.values.round(12).tolist(), last.exhausted
    ([4.0, 3.0], True)
    """
    space = _Space([_View(d, cut, int(np.sum(to_host(d) > 0))) for d, cut in noise])
    Z = [view.live_rows(z) for view, z in zip(space.views, first, strict=True)]
    images = products or product(Z)
    while True:
        grown = space.grown(Z, images)  # (1), (2)
        if grown.broken(space, width, limit):
            yield space.pairs(width, exhausted=True)
            return
        columns = Z[0].shape[1]
        exhausted = grown.whole or grown.rank == space.rank
        space = grown
        del grown, Z, images
        if not exhausted and space.columns + columns > depth * width:
            space.restart(width)  # (4)
        pairs = space.pairs(width, exhausted=exhausted)
        sent = yield pairs
        if exhausted:
            return
        Z = space.outside(pairs.residuals if sent is None else sent)
        del pairs, sent
        if not Z[0].shape[1]:
            yield space.pairs(width, exhausted=True)
            return
        images = product(Z)


@dataclass(eq=False)
class _View:
    """One view: the panels V, SV and HⱼᵢV for every j where Hⱼᵢ is not zero, and W, with which VW is orthonormal in S.

    Attributes
    ----------
    D : array of shape (p, 1)
        The diagonal of S.
    cut : float
        The part that is rounding of products.
    live : int
        The columns of the data that are not zero.
    """

    D: Array
    cut: float
    live: int
    V: list[Array] = field(default_factory=list)
    SV: list[Array] = field(default_factory=list)
    HV: dict[int, list[Array]] = field(default_factory=dict)
    W: HostArray = field(default_factory=lambda: np.zeros((0, 0)))

    def grown(
        self, Z: Array, SZ: Array, HZ: Sequence[Array | None], inside: HostArray, G: HostArray, H: HostArray
    ) -> _View:
        """The view with another block (1), from (SV)ᵀZ, ZᵀSZ and Zᵀ diag(S) Z."""
        E = self.W.T @ inside
        T = whitening_above_noise(G - E.T @ E, H, self.cut, max(DEPENDENT, self.cut / 10), least=1.0)
        (d, r), (m, new) = self.W.shape, T.shape
        W = np.zeros((d + m, r + new))
        W[:d, :r], W[:d, r:], W[d:, r:] = self.W, -self.W @ (E @ T), T
        HV = {j: [*self.HV.get(j, []), P] for j, P in enumerate(HZ) if P is not None}
        return replace(self, V=[*self.V, Z], SV=[*self.SV, SZ], HV=HV, W=W)

    def outside(self, Z: Array, W: Array) -> Array:
        """Z without its part in the subspace, of length 1 in the norm of diag(S), or 0 where rounding is left."""
        there = Device.of(Z)
        before = left = there.column_sums(Z * Z * self.D)
        for turn in range(2):
            # On a device the test would be a wait; there the second projection is cheaper.
            if turn and there.on_host and bool(np.all(left >= NEAR * before)):
                break
            Z = Z - _combined(self.V, W @ (W.T @ _against(self.SV, Z)))
            left = there.column_sums(Z * Z * self.D)
        least = max(INSIDE, 10 * self.cut) ** 2
        left = there.xp.where(left > least * before, left, 0.0 * left)
        return self.live_rows(Z * there.xp.sqrt(reciprocal(left))[None, :])

    def live_rows(self, Z: Array) -> Array:
        """Z with zeros for the columns of the data that are zero: no residual tells of these rows."""
        xp = Device.of(Z).xp
        return xp.where(self.D > 0, Z, xp.zeros_like(Z))

    def fold(self, T: Array) -> None:
        """Turn the panels; each is freed before the next one is turned."""
        for panels in (self.SV, *self.HV.values(), self.V):
            panels[:] = [_combined(panels, T)]
        self.W = np.eye(T.shape[1])


class _Space:
    """The subspaces of all views, and the pencil within them.

    Attributes
    ----------
    M : dict of numpy.ndarray
        VᵢᵀHᵢⱼVⱼ of the panels, for i ≤ j where Hᵢⱼ is not zero.
    values : numpy.ndarray of shape (r,)
        Decreasing.
    U, before : list of numpy.ndarray of shape (rᵢ, r)
        Coordinates of the Ritz vectors in each view, now and before the last block.
    """

    def __init__(self, views: Sequence[_View], before: Sequence[HostArray] = ()) -> None:
        self.views, self.before = list(views), before
        self.M: dict[tuple[int, int], HostArray] = {}
        self.values = np.zeros(0)
        self.U: list[HostArray] = [np.zeros((0, 0)) for _ in views]

    @property
    def rank(self) -> int:
        """The dimensions of all subspaces together."""
        return sum(view.W.shape[1] for view in self.views)

    @property
    def whole(self) -> bool:
        """Whether every subspace has all the dimensions that the columns of the data allow."""
        return all(view.W.shape[1] >= view.live for view in self.views)

    @property
    def columns(self) -> int:
        """The columns of the widest panels."""
        return max(len(view.W) for view in self.views)

    def grown(self, Z: Sequence[Array], products: Products) -> _Space:
        """The subspaces with another block in each (1), and the pairs within them (2)."""
        (SZ, HZ), views = products, self.views
        inner: list[Array] = []
        for view, z, Sz in zip(views, Z, SZ, strict=True):
            inner += [_against(view.SV, z), z.T @ Sz, z.T @ (z * view.D)]
        there = [(i, j) for j, parts in enumerate(HZ) for i, part in enumerate(parts) if part is not None]
        crosses = [_against([*views[i].V, Z[i]], HZ[j][i]) for i, j in there]
        small = to_host_together(*inner, *crosses)
        new = dict(zip(there, small[len(inner) :], strict=True))
        space = _Space([], self.U)
        for i, view in enumerate(views):
            space.views.append(view.grown(Z[i], SZ[i], HZ[i], *small[3 * i : 3 * i + 3]))
        for i, j in there:
            if i <= j:
                d = len(views[i].W)
                e = len(views[j].W)
                M = np.zeros((len(new[i, j]), len(new[j, i])))
                M[:, e:] = new[i, j]
                M[d:, :e] = new[j, i][:e].T
                M[:d, :e] = self.M.get((i, j), 0.0)
                space.M[i, j] = M
        space.solve()
        return space

    def solve(self) -> None:
        """The pairs (2)."""
        W = [view.W for view in self.views]
        K = {(i, j): W[i].T @ M @ W[j] for (i, j), M in self.M.items()}
        if list(K) == [(0, 1)]:
            P, self.values, Qt = np.linalg.svd(K[0, 1], full_matrices=False)
            self.U = [P / np.sqrt(2), Qt.T / np.sqrt(2)]
            return
        edges = np.cumsum([0, *(w.shape[1] for w in W)]).tolist()
        whole = np.zeros((edges[-1], edges[-1]))
        for (i, j), block in K.items():
            whole[edges[j] : edges[j + 1], edges[i] : edges[i + 1]] = block.T
        values, U = eigenpairs(whole)
        self.values = values[::-1]
        self.U = [U[a:b, ::-1] for a, b in pairwise(edges)]

    def broken(self, before: _Space, width: int, limit: float) -> bool:
        """Whether rounding prevails: a value is above its limit, or their sum below that in a smaller space."""
        count = min(len(before.values), width)
        fallen = max(FALLEN, *(10 * view.cut for view in self.views))
        least = float(before.values[:count].sum()) - fallen * float(np.abs(before.values[:count]).sum())
        above = float(self.values.max(initial=0.0)) > limit * (1 + ABOVE)
        return bool(count) and (above or float(self.values[:count].sum()) < least)

    def restart(self, width: int) -> None:
        """Reduce the subspaces to the Ritz vectors, now and before the last block (4)."""
        turns = []
        for i, (view, U, before) in enumerate(zip(self.views, self.U, self.before, strict=True)):
            now, tau = orthonormal(U[:, :width])
            basis = np.hstack([now, _complement(now, before[:, :width])])
            turns.append(view.W @ basis)
            self.U[i] = np.vstack([tau, np.zeros((basis.shape[1] - len(tau), tau.shape[1]))])
        self.M = {(i, j): turns[i].T @ M @ turns[j] for (i, j), M in self.M.items()}
        placed = Device.of(self.views[0].V[0]).asarrays(*turns)
        for view, turn in zip(self.views, placed, strict=True):
            view.fold(turn)

    def pairs(self, width: int, *, exhausted: bool) -> RitzBlocks:
        """The leading pairs, with their residuals (3)."""
        values = self.values[:width]
        views = self.views
        n = len(self.views)
        w = [view.W @ U[:, :width] for view, U in zip(views, self.U, strict=True)]
        small = [*w, *(-c * values for c in w), *(view.W for view in views)]
        placed = Device.of(views[0].V[0]).asarrays(*small)
        w = placed[:n]
        scaled = placed[n : 2 * n]
        self.W = placed[2 * n :]
        residuals = []
        for i, view in enumerate(views):
            R = _combined(view.SV, scaled[i])
            for partner, c in zip(views, w, strict=True):
                if i in partner.HV:
                    R = R + _combined(partner.HV[i], c)
            residuals.append(R)
        vectors = partial(_vectors, [tuple(view.V) for view in views], w)
        return RitzBlocks(values, vectors, residuals, exhausted)

    def outside(self, Z: Sequence[Array]) -> list[Array]:
        """The parts of directions that are outside the subspaces."""
        return [view.outside(z, W) for view, z, W in zip(self.views, Z, self.W, strict=True)]


def _against(panels: Sequence[Array], Z: Array) -> Array:
    """VᵀZ for all panels V."""
    if not panels:
        return Z[:0, :]
    return Device.of(Z).xp.concat([V.T @ Z for V in panels], axis=0)


def _combined(panels: Sequence[Array], T: Array) -> Array:
    """V T for all panels V."""
    edges = np.cumsum([0, *(V.shape[1] for V in panels)]).tolist()
    parts = [V @ T[a:b, :] for V, (a, b) in zip(panels, pairwise(edges), strict=True)]
    return sum(parts[1:], parts[0])


def _vectors(panels: Sequence[Sequence[Array]], coordinates: Sequence[Array], count: int) -> list[Array]:
    """The leading Ritz vectors of every view."""
    return [_combined(V, w[:, :count]) for V, w in zip(panels, coordinates, strict=True)]


def _complement(now: HostArray, before: HostArray) -> HostArray:
    """An orthonormal basis of what coordinates before the last block have outside those of now."""
    sizes = np.linalg.norm(before, axis=0)
    P = np.zeros((len(now), before.shape[1]))
    P[: len(before)] = before * reciprocal(sizes)
    for _ in range(2):
        P = P - now @ (now.T @ P)
    U, lengths, _ = np.linalg.svd(P, full_matrices=False)
    U = U[:, lengths > EARLIER]
    return np.linalg.qr(U - now @ (now.T @ U))[0]
