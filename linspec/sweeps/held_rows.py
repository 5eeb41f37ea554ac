"""A few rows that stand for all rows so far, to which rows that come later are added.

Problem: rows come in batches, from several places or over months, and are not kept. What is solved from second
moments should be solved for all of them, without a loss of digits by means or by the number of batches.
Method: R of the QR factorisation of [ones, rows − origin], merged as in `linspec.sweeps.triangles`. After each batch
the origin moves to the mean of all rows so far, as in the updates of Chan, Golub & LeVeque (1983,
doi:10.1080/00031305.1983.10483115), and only the rounding of the mean stays in the row of the ones. If more than
2 `rank` rows are held, an SVD keeps their `rank` leading combinations ΣVᵀ (Brand 2006,
doi:10.1016/j.laa.2005.07.021; with means Ross, Lim, Lin & Yang 2008, doi:10.1007/s11263-007-0075-7).
What is discarded is summed: the Gram matrix of all rows is that of the held rows plus E ≥ 0, where ‖E‖₂ is at most the
sum of the largest discarded squares, and tr E the sum of all of them (cf. Baker, Gallivan & Van Dooren 2012,
doi:10.1016/j.laa.2011.07.018).
Where we differ: orthogonal transformations of rows take the place of sums of products, so no condition number is
squared. A cut waits until there are twice the rows that it keeps.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from linspec.arrays import Array, Home, HostArray, to_host, triangular_factor
from linspec.sweeps.triangles import NOTHING, Discarded, Triangle, TrianglePart


@dataclass(frozen=True)
class HeldRows(Triangle):
    """Task that reduces rows to few rows about their means.

    Parameters
    ----------
    rank : int, optional
        Hold at most twice this number of rows, and discard the rest. By default nothing is discarded, and there are at
        most as many rows as columns.
    """

    rank: int | None = None

    def height(self, columns: int) -> int:
        """The number of rows of a block: no more than the rows that are held."""
        usual = super().height(columns)
        return usual if self.rank is None else min(usual, self.rank)

    def reduced(
        self,
        block: Array,
        into: TrianglePart | None = None,
        about: Array | None = None,
        first_row: int = 0,
    ) -> TrianglePart:
        """Reduce a block of rows together with `into`, and cut what is more than the rank."""
        found = super().reduced(block, into, about, first_row)
        return self._cut(found, NOTHING if into is None else into.discarded)

    def merge(self, left: TrianglePart, *others: TrianglePart) -> TrianglePart:
        """The rows that stand for those of `left` and of the others together."""
        discarded = left.discarded
        for part in others:
            discarded = discarded.plus(part.discarded)
        return self._cut(super().merge(left, *others), discarded)

    def _cut(self, part: TrianglePart, discarded: Discarded) -> TrianglePart:
        """Keep the leading combinations of the rows about the mean, if there are more than twice `rank`."""
        rank, R, t = self.rank, part.R, self.taken
        if rank is not None and R.shape[0] - t > 2 * rank:
            L = triangular_factor(
                R[t:, t:].T
            ).T  # has the singular values of these rows, and their left vectors U
            U, s, _ = self.home.xp.linalg.svd(L, full_matrices=False)
            R = self.home.xp.concat([R[:t, :], U[:, :rank].T @ R[t:, :]], axis=0)
            squares = to_host(s[rank:]) ** 2
            discarded = discarded.plus(Discarded(float(squares[0]), float(squares.sum())))
        return replace(part, R=R, discarded=discarded)


def about_mean(part: TrianglePart, home: Home) -> TrianglePart:
    """Return the same rows about their mean, which becomes the origin; what it rounds stays in the row of the ones."""
    R = part.R
    mean = part.origin + R[0, 1:] / R[0, 0]
    row = R[0, 1:] - (mean - part.origin) * R[0, 0]
    first = home.concat([R[:1, :1], row[None, :]])
    return replace(part, R=home.xp.concat([first, R[1:, :]], axis=0), origin=mean)


def standing(part: TrianglePart, total: float, home: Home, counts: bool = True) -> tuple[Array, HostArray]:
    """Return few rows Z and weights w that have the mean and the second moments of all rows.

    Z is minus the origin of the part. With the roots r of w, scaled to length 1, a reflection takes the first unit
    vector to −r and the rows of R about their mean to rows orthogonal to r. Divided by the roots, they are rows of
    mean zero. The weights are 1 but for the first, so that their sum is exactly `total` for rows that count once. If
    the weights of the rows do not count them, those here are 1/2 but for the first, so that they are no counts either.
    """
    B = home.xp.concat([home.zeros((1, part.R.shape[1] - 1)), part.R[1:, 1:]], axis=0)
    n = B.shape[0]
    w = np.full(n, min(1.0, total / n) if counts else min(0.5, total / n / 2))
    w[0] = total - w[1:].sum()
    u = np.sqrt(w / total)
    u[0] += 1.0  # u = r + e₁, and 1 + r₁ is half its squared length
    Z = B - home.place(u)[:, None] * (home.place(u / u[0]) @ B)[None, :]
    return Z / home.place(np.sqrt(w))[:, None] + (part.R[0, 1:] / part.R[0, 0])[None, :], w
