"""Starting points: pairs of columns whose single variables are related, and random points.

Problem: the objective has many stationary points, and from random starts in many columns a search ends at chance ones.
Method: single columns are the sparsest points. The functions k(X, eᵢ) and k(Y, eⱼ) of some thousand rows are compared,
all with all by one product, and the best pairs (eᵢ, eⱼ) are the starts, besides a few random points. A pair counts
for no more than four times its value in either half of the rows: two columns with one entry each may be perfectly
related by chance, in one half.
Source: screening by single pairs, Fan & Lv 2008, J. R. Stat. Soc. B 70(5), doi:10.1111/j.1467-9868.2008.00674.x.
Where we differ: Uurtio, Bhadra & Rousu 2019 begin at random points with entries from 0 to 1.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from linspec.arrays import Array, HostArray
from linspec_kernel.preimage.objectives import Objective
from linspec_kernel.preimage.views import PreimageView, share

COLUMNS = 1000
"""Largest number of columns of a view that are compared; if a view has more, this many are drawn at random."""

NUMBERS = 2**25
"""Largest number of values of functions that are held for the comparison."""

RANDOM = 4
"""One of this many starts is random; the others are screened columns."""

HALVES = 4.0
"""Limit of the value of a pair: this multiple of its value on each half of the rows, so that no single row decides."""


class Screen:
    """Functions of single columns at the rows of two views.

    Parameters
    ----------
    views : pair of PreimageView
    objective : Objective
    parities : pair of int
        For each view, the sign c for which k(·, −u) = c k(·, u); 0 if there is none.
    columns : pair of numpy.ndarray
        Indices of the compared columns, as `drawn_columns` returns them.
    """

    def __init__(
        self,
        views: tuple[PreimageView, PreimageView],
        objective: Objective,
        parities: tuple[int, int],
        columns: tuple[HostArray, HostArray],
    ) -> None:
        self.views, self.objective, self.parities = views, objective, parities
        # A sign of u matters where the kernel is neither even nor odd, unless the sign of v is free.
        signed = parities[0] == 0 and parities[1] != -1
        self.columns = signed_columns(columns[0])[: None if signed else len(columns[0])], 2 * columns[1]
        self.values: list[Array] = [
            view.at(single_columns(view, chosen)).values
            for view, chosen in zip(views, self.columns, strict=True)
        ]

    def best(self, count: int) -> tuple[HostArray, HostArray]:
        """Points of the best pairs of columns, whose functions are compared without their parts along earlier variates.

        Parameters
        ----------
        count : int

        Returns
        -------
        pair of numpy.ndarray of shape (p, count), (q, count)
            Fewer columns if there are fewer pairs.
        """
        home = self.views[0].home
        P, Q = (view.variates(K) for view, K in zip(self.views, self.values, strict=True))
        middle = int(P.shape[0]) // 2
        C, one, other = (
            self.objective.of_all(_part(self.views[0], P, rows), _part(self.views[1], Q, rows), home)
            for rows in (slice(0, None), slice(0, middle), slice(middle, None))
        )
        shares = [share(view, K, V) for view, K, V in zip(self.views, self.values, (P, Q), strict=True)]
        odd, signs = -1 in self.parities, np.where(C < 0, -1.0, 1.0)
        size = np.minimum(np.abs(C) if odd else C, HALVES * np.minimum(one * signs, other * signs))
        size *= np.outer(*shares)
        count = min(count, size.size)
        found = (
            np.argpartition(-size, count - 1, axis=None)[:count]
            if count < size.size
            else np.arange(size.size)
        )
        found = found[np.argsort(-size.reshape(-1)[found], kind="stable")]
        i, j = np.unravel_index(found, size.shape)
        U, V = (
            single_columns(view, columns[index])
            for view, columns, index in zip(self.views, self.columns, (i, j), strict=True)
        )
        if not odd:
            return U, V
        return (U * signs[i, j], V) if self.parities[0] == -1 else (U, V * signs[i, j])


def _part(view: PreimageView, V: Array, rows: slice) -> Array:
    """Variates at some of the rows; if the view is centred, the mean over these rows is subtracted."""
    V = V[rows, :]
    return V - view.home.xp.mean(V, axis=0)[None, :] if view.center else V


def random_points(view: PreimageView, count: int, rng: Any) -> HostArray:
    """Points of the set nearest to random normal directions."""
    return view.bound.nearest(rng.standard_normal((view.A.shape[1], count)) * view.bound.radius)


def drawn_columns(view: PreimageView, width: int, rng: Any) -> HostArray:
    """Indices of the columns of a view that are compared, of which each has `width` functions."""
    n, p = (int(size) for size in view.A.shape)
    most = max(min(COLUMNS, NUMBERS // max(n, 1)) // width, 1)
    return np.arange(p) if p <= most else np.sort(rng.choice(p, most, replace=False))


def signed_columns(index: HostArray) -> HostArray:
    """Columns with both signs: each is numbered by twice its index, plus one for the sign −1."""
    return np.concatenate([2 * index, 2 * index + 1])


def single_columns(view: PreimageView, chosen: HostArray) -> HostArray:
    """Points with one nonzero entry, ±b, in columns that are numbered as by `signed_columns`."""
    U = np.zeros((int(view.A.shape[1]), len(chosen)))
    U[chosen // 2, np.arange(len(chosen))] = np.where(chosen % 2, -1.0, 1.0)
    return view.bound.radius * U
