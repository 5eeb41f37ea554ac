"""Growing subspaces of both views: a CCA is solved exactly within them, and each sweep adds a block.

Each view has panels V with SV (ridge included), and the cross product KV of the other view's panels. A Rayleigh-Ritz
step needs only these, and no product. Panels stay with the data, in their precision. Matrices with one row and one
column for each column of a basis are float64 on the host. A transfer waits for the device, however small it is.
So the small products of a step move to the host together, and the matrices that turn panels move back together.

Panels are stored as they were multiplied; they are not orthonormalised. Instead, small coordinates W make Q = VW
orthonormal in S, and only small matrices are turned. When the space has reached its depth, all panels are folded into
one.

A space changes by steps, but its arrays are never overwritten: `copy` returns one that shares them. A fold turns one
panel after another, and frees each as soon as it has been turned, if no copy has it.
"""

from __future__ import annotations

import copy
import operator
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, reduce
from typing import Any

import numpy as np

from linspec.algebra import whitening, whitening_above_noise
from linspec.arrays import Array, Home, HostArray, cast, reciprocal, to_host, to_host_together

CACHED_NUMBERS = 2**18
"""Numbers that the host processes at a time: two megabytes."""

DEPENDENT = {8: 1e-12, 4: 1e-7}
"""Limit below which a combination of the columns of a block is only rounding. The columns are scaled to length 1 in the
norm of diag(S), and combined with coefficients of norm 1. The squared length of a combination is compared with this
fraction, times the number of columns, of the largest squared length of a combination. The keys are the bytes of a
number in the panels: 8 for float64, 4 for float32."""

SAME = {8: 1e-10, 4: 1e-5}
"""A vector counts as within a space if less than this fraction of its length is outside; keys as in `DEPENDENT`."""

INSIDE = 0.1
"""A second projection is made if the first leaves less than this fraction of a vector's length."""

EARLIER = 1e-8
"""Earlier pairs are kept if more than this fraction of their length is outside the current pairs."""

ABOVE = 0.01
"""Rounding dominates if a correlation exceeds 1 by this much."""


@dataclass(eq=False)
class SubspaceView:
    """Growing subspace of one view.

    Attributes
    ----------
    home : Home
        Home of the panels.
    dtype : numpy.dtype
        Precision of the panels.
    diagonal : array of shape (p,)
        diag(S), ridge included: lengths are compared in its norm.
    cut : float
        A direction v of a new block counts as rounding if vᵀSv / vᵀ diag(S) v is at most this fraction of the largest
        such quotient in the block, or of 1 if the largest quotient is below 1.
    panels : three lists of arrays
        Blocks V, SV (ridge included) and KV, the cross product times the other view's V.
    coordinates : numpy.ndarray of shape (d, r)
        W with (VW)ᵀ S (VW) = I.
    longest : float
        Largest squared length, in the norm of the diagonal, of a vector of length 1 in S: a lower bound on the
        condition number of the scaled columns.
    annihilated : bool
        Whether S annihilated a vector up to rounding.
    """

    home: Home
    dtype: Any
    diagonal: Array
    cut: float
    panels: tuple[list[Array], list[Array], list[Array]] = field(default_factory=lambda: ([], [], []))
    coordinates: HostArray = field(default_factory=lambda: np.zeros((0, 0)))
    longest: float = 0.0
    annihilated: bool = False

    def copy(self) -> SubspaceView:
        """View with the same panels in lists of its own."""
        same = copy.copy(self)
        V, SV, KV = (list(panels) for panels in self.panels)
        same.panels = V, SV, KV
        return same

    @property
    def rows(self) -> int:
        """Number of rows of a block V: the columns of the data."""
        return int(self.diagonal.shape[0])

    @cached_property
    def live(self) -> int:
        """Number of columns of the data that are not zero."""
        return int(np.sum(to_host(self.diagonal) > 0))

    @property
    def columns(self) -> int:
        """Number of columns of all panels."""
        return sum(int(V.shape[1]) for V in self.panels[0])

    def combined(self, parts: Sequence[tuple[int, Array]]) -> Array:
        """Sums of panels times small matrices, in float64.

        Parameters
        ----------
        parts : sequence of (int, array)
            0 for V, 1 for SV, 2 for KV, and the matrix that multiplies it, on their device.
        """
        width = parts[0][1].shape[1]
        out = self.home.zeros((self.rows, width))
        for rows in _runs(self.home, self.rows, max(width, self.columns)):
            out[rows, :] = self._sum(parts, rows)
        return out

    def _sum(self, parts: Sequence[tuple[int, Array]], rows: slice) -> Array:
        total: Array = None
        for which, T in parts:
            first = 0
            for V in self.panels[which]:
                last = first + V.shape[1]
                term = cast(V[rows, :], np.float64) @ T[first:last, :]
                total = term if total is None else total + term
                first = last
        return total

    def against(self, which: int, Z: Array) -> Array:
        """VᵀZ, (SV)ᵀZ or (KV)ᵀZ for all panels, as `which` is 0, 1 or 2."""
        products = [self.inner(V, Z) for V in self.panels[which]]
        return self.home.xp.concat(products, axis=0) if products else self.home.zeros((0, Z.shape[1]))

    def inner(self, V: Array, Z: Array) -> Array:
        """VᵀZ with float64 sums."""
        if V.dtype == Z.dtype and self.dtype == np.float64:
            return V.T @ Z
        return self._over_rows(
            V.shape[1] + Z.shape[1],
            lambda rows: cast(V[rows, :], np.float64).T @ cast(Z[rows, :], np.float64),
        )

    def weighted_squares(self, Z: Array) -> Array:
        """ZᵀDZ with D = diag(S), some rows at a time."""

        def part(rows: slice) -> Array:
            some = cast(Z[rows, :], np.float64)
            return some.T @ (some * self.diagonal[rows][:, None])

        return self._over_rows(2 * Z.shape[1], part)

    def lengths(self, Z: Array) -> Array:
        """Lengths of columns in the norm of the diagonal."""
        xp = self.home.xp
        squares = self._over_rows(
            Z.shape[1], lambda rows: xp.sum(Z[rows, :] ** 2 * self.diagonal[rows][:, None], axis=0)
        )
        return xp.sqrt(squares)

    def _over_rows(self, width: int, part: Callable[[slice], Array]) -> Array:
        """Sum of `part` over runs of rows."""
        return reduce(operator.add, (part(rows) for rows in _runs(self.home, self.rows, width)))

    def directions(self, Z: Array, W: Array) -> Array:
        """Remove from Z its projection on the space; scale the columns to length 1 in the norm of the diagonal, or 0.

        A column that lies in the space up to rounding becomes 0: scaled to length 1, its rounding would look like a
        direction.

        Parameters
        ----------
        Z : array of shape (p, m)
            Overwritten.
        W : array of shape (d, r)
            The coordinates, on the device of the panels.
        """
        given = left = self.lengths(Z)
        xp = self.home.xp
        for turn in range((2 if self.dtype == np.float64 else 1) if self.columns else 0):
            # On a device the test would be a wait; there the second projection is cheaper.
            if turn and self.home.on_host and bool(xp.all(left >= INSIDE * given)):
                break
            inside = W @ (W.T @ self.against(1, Z))
            for rows in _runs(self.home, self.rows, max(self.columns, Z.shape[1])):
                Z[rows, :] -= self._sum([(0, inside)], rows)
            left = self.lengths(Z)
        outside = left > SAME[self.dtype.itemsize] * given
        Z *= reciprocal(xp.where(outside, left, xp.zeros_like(left)))[None, :]
        return Z

    def without_dead(self, V: Array) -> Array:
        """V with zeros in the rows where the diagonal of S is zero, because the column of the data is zero.

        S and C have only zeros in these rows, so residuals do, too, and no later step would change the entries of V.
        """
        live, xp = self.diagonal > 0, self.home.xp
        return V if bool(to_host(xp.all(live))) else V * xp.astype(live, xp.float64)[:, None]

    def measured(self, Z: Array, SZ: Array) -> tuple[Array, Array, Array]:
        """Inner products of a block that `append` needs: (SV)ᵀZ of the panels, ZᵀSZ and ZᵀDZ."""
        return self.against(1, Z), self.inner(Z, SZ), self.weighted_squares(Z)

    def append(self, blocks: list[Array], inside: HostArray, G: HostArray, H: HostArray) -> None:
        """Add the blocks Z, SZ and KZ to the panels and empty the list `blocks`, which has them in this order.

        `inside`, `G` and `H` are the inner products (SV)ᵀZ, ZᵀSZ and Zᵀ diag(S) Z from `measured`. Only directions of
        Z outside the space get coordinates.
        """
        E = self.coordinates.T @ inside
        dependent = DEPENDENT[self.dtype.itemsize]
        T = whitening_above_noise(G - E.T @ E, H, self.cut, dependent, least=1.0)
        old, (d, r) = self.coordinates, self.coordinates.shape
        # If there seem to be more vectors than the data have columns, the longest ones are rounding of the
        # others. They do no harm, and carry no information.
        lengths = np.sort(np.sum(T * (H @ T), axis=0))[: max(self.live - r, 0)]
        self.longest = max(self.longest, float(np.max(lengths, initial=0.0)))
        self.annihilated |= T.shape[1] < min(whitening(H, dependent).shape[1], self.live - r)
        W = np.zeros((d + H.shape[0], r + T.shape[1]))
        W[:d, :r], W[:d, r:], W[d:, r:] = old, -old @ (E @ T), T
        self.coordinates = W
        for panels in self.panels:
            panels.append(cast(blocks.pop(0), self.dtype))

    def fold(self, T: Array, T_other: Array) -> None:
        """Replace all panels by one: VT, SVT, KVT_other. The matrices are on the device of the panels."""
        columns = self.columns
        for which, turn in (
            (1, T),
            (2, T_other),
            (0, T),
        ):  # the products first: there may be no copy of them
            panels = self.panels[which]
            out = self.home.zeros((self.rows, turn.shape[1]), self.dtype)
            for rows in _runs(self.home, self.rows, columns):
                out[rows, :] = cast(self._sum([(which, turn)], rows), self.dtype)
            panels[:] = [out]  # the old panels are freed before the next ones are turned
        self.coordinates = np.eye(T.shape[1])


def add_multiple(V: Array, W: Array, factor: float, home: Home) -> None:
    """Add factor · W to V in place, some rows at a time."""
    for rows in _runs(home, V.shape[0], V.shape[1]):
        V[rows, :] += cast(W[rows, :], np.float64) * factor


def _runs(home: Home, rows: int, width: int) -> Iterator[slice]:
    """Slices of rows: some rows at a time on the host, all rows at once on a device."""
    step = max(CACHED_NUMBERS // max(width, 1), 256) if home.on_host else max(rows, 1)
    for start in range(0, rows, step):
        yield slice(start, min(start + step, rows))


class SearchSpace:
    """Subspaces of both views and the canonical pairs within them.

    Attributes
    ----------
    views : pair of SubspaceView
    correlations : numpy.ndarray
        Correlations of the canonical pairs within the space, decreasing.
    cross : numpy.ndarray
        VxᵀC Vy of all panels.
    turns : pair of numpy.ndarray
        Singular vectors of `cross` in the coordinates of both views.
    before : pair of numpy.ndarray
        The `turns` before the last block was added.
    last : numpy.ndarray
        The `correlations` before the last block was added.
    folded : int
        Number of pairs that are columns of the panels.
    """

    _there: list[Array] | None = None  # recomputed if missing

    def __init__(self, views: tuple[SubspaceView, SubspaceView]) -> None:
        self.views = views
        self.correlations = np.zeros(0)
        self.cross = np.zeros((0, 0))
        self.turns: tuple[HostArray, HostArray] = (np.zeros((0, 0)), np.zeros((0, 0)))
        self.before = self.turns
        self.last = self.correlations
        self.folded = 0

    def copy(self) -> SearchSpace:
        """Copy that shares the arrays; steps of the copy do not change this space."""
        same = copy.copy(self)
        same.views = (self.views[0].copy(), self.views[1].copy())
        return same

    def without_products(self) -> SearchSpace:
        """Copy without the panels SV and KV, which weights do not need."""
        bare = self.copy()
        for view in bare.views:
            view.panels = (view.panels[0], [], [])
        return bare

    def append(self, blocks: list[Array], products: list[Array]) -> None:
        """Add a block of each view with SxZx, CZy, CᵀZx, SyZy, and compute the canonical pairs anew.

        The lists `blocks` and `products` are emptied, so that their float64 arrays are freed. The panels keep copies in
        the precision of the data.
        """
        x, y = self.views
        self.folded = 0
        *small, VKZy, VKZx, ZKZ = self._inner_products(blocks, products)
        d, e = self.cross.shape
        cross = np.zeros((d + blocks[0].shape[1], e + blocks[1].shape[1]))
        cross[:d, :e], cross[:d, e:] = self.cross, VKZy
        cross[d:, :e], cross[d:, e:] = VKZx.T, ZKZ
        self.cross, self.last = cross, self.correlations
        y.append([blocks.pop(), products.pop(), products.pop()], *small[3:])
        x.append([blocks.pop(), products.pop(0), products.pop()], *small[:3])
        self.before = self.turns
        P, self.correlations, Qt = np.linalg.svd(x.coordinates.T @ cross @ y.coordinates)
        self.turns, self._there = (P, Qt.T), None

    def _inner_products(self, blocks: Sequence[Array], products: Sequence[Array]) -> list[HostArray]:
        """Inner products of new blocks that `append` needs, and the new parts of the cross product, in one transfer."""
        x, y = self.views
        Zx, Zy = blocks
        SZx, CZy, CtZx, SZy = products
        crosses = x.against(0, CZy), y.against(0, CtZx), x.inner(Zx, CZy)
        return to_host_together(*x.measured(Zx, SZx), *y.measured(Zy, SZy), *crosses)

    @property
    def _placed(self) -> list[Array]:
        """Return the coordinates and rotations of both views, and the correlations, on the device of the panels."""
        if self._there is None:
            coordinates = [view.coordinates for view in self.views]
            self._there = self.views[0].home.place_together(*coordinates, *self.turns, self.correlations)
        return self._there

    def directions(self, blocks: list[Array]) -> list[Array]:
        """Blocks of both views by `SubspaceView.directions`, in the precision of the panels.

        The list is emptied.
        """
        places = zip(self.views, self._placed, strict=False)
        return [cast(view.directions(blocks.pop(0), W), view.dtype) for view, W in places]

    def undo(self) -> None:
        """Remove the last block."""
        for view, turn in zip(self.views, self.before, strict=True):
            for panels in view.panels:
                panels.pop()
            view.coordinates = view.coordinates[: view.columns, : turn.shape[0]]
        self.turns, self.correlations, self._there = self.before, self.last, None
        self.cross = self.cross[: self.views[0].columns, : self.views[1].columns]

    @property
    def whole(self) -> bool:
        """Whether both subspaces are the whole spaces."""
        return all(view.coordinates.shape[1] >= view.live for view in self.views)

    @property
    def broken(self) -> bool:
        """Whether a correlation is so far above 1 that rounding dominates."""
        return bool(self.correlations.max(initial=0.0) > 1 + ABOVE)

    def coefficients(self, k: int) -> tuple[Array, Array]:
        """Matrices that turn the panels into the first k pairs, on their device."""
        Wx, Wy, P, Q, _ = self._placed
        return Wx @ P[:, :k], Wy @ Q[:, :k]

    def weights(self, k: int) -> dict[str, Array]:
        """Weights of the first k pairs: `x_weights` of shape (p, k), and `y_weights` of shape (q, k).

        They are orthonormal in Sx and Sy. There are fewer columns if the space has fewer pairs.
        """
        x, y = self.coefficients(min(k, len(self.correlations)))
        return {"x_weights": self.views[0].combined([(0, x)]), "y_weights": self.views[1].combined([(0, y)])}

    def residuals(self, k: int) -> tuple[Array, Array]:
        """CΨ − SxΦ diag(ρ) and CᵀΦ − SyΨ diag(ρ) of the first k pairs."""
        k = min(k, len(self.correlations))
        if k <= self.folded:
            r = self._placed[-1][:k][None, :]
            ours = [[panels[0][:, :k] for panels in view.panels] for view in self.views]
            return ours[0][2] - ours[0][1] * r, ours[1][2] - ours[1][1] * r
        (x, y), rho = self.coefficients(k), self._placed[-1][:k]
        return (
            self.views[0].combined([(2, y), (1, -x * rho)]),
            self.views[1].combined([(2, x), (1, -y * rho)]),
        )

    def make_room(self, columns: int, width: int, depth: int) -> None:
        """Reduce the subspaces to the pairs if `columns` further columns exceeded `depth` blocks of `width` columns."""
        if max(view.columns for view in self.views) + columns > depth * width:
            self.shrink(width)

    def shrink(self, width: int) -> None:
        """Keep the first pairs, and the pairs before the last step: together they span the conjugate directions.

        Then the pairs are columns of the panels, and their residuals cost nothing.
        """
        turns = []
        for i, view in enumerate(self.views):
            kept = self.turns[i][:, :width]
            turns.append(view.coordinates @ np.hstack([kept, self._earlier(i, kept, width)]))
        self._fold(turns, width)

    def _fold(self, turns: list[HostArray], width: int) -> None:
        """Turn the panels, which then begin with the first `width` pairs."""
        x, y = turns
        self.cross = x.T @ self.cross @ y
        self.turns = (np.eye(x.shape[1]), np.eye(y.shape[1]))
        # The panels now begin with the pairs; rounded to float32 they would make the residuals rougher.
        precise = all(view.dtype == np.float64 for view in self.views)
        self.folded = min(width, x.shape[1], y.shape[1]) if precise else 0
        home, rho = self.views[0].home, self._placed[-1]
        Tx, Ty = home.place_together(x, y)
        self.views[0].fold(Tx, Ty)
        self.views[1].fold(Ty, Tx)
        same = [home.eye(x.shape[1]), home.eye(y.shape[1])]
        self._there = [*same, *same, rho]

    def keep(self, width: int) -> None:
        """Keep the first pairs alone."""
        turns = [
            view.coordinates @ turn[:, :width] for view, turn in zip(self.views, self.turns, strict=True)
        ]
        self._fold(turns, width)

    def _earlier(self, i: int, kept: HostArray, width: int) -> HostArray:
        """Orthonormal coordinates of the pairs before the last step, with their projection on `kept` removed.

        The coordinates of earlier panels do not change when a block is added.
        """
        P = np.zeros((kept.shape[0], min(width, self.before[i].shape[1])))
        P[: self.before[i].shape[0]] = self.before[i][:, : P.shape[1]]
        for _ in range(2):
            P = P - kept @ (kept.T @ P)
        U, lengths, _ = np.linalg.svd(P, full_matrices=False)
        U = U[:, lengths > EARLIER]
        U = U - kept @ (kept.T @ U)
        basis: HostArray = np.linalg.qr(U)[0]
        return basis
