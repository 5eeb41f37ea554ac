"""Few rows that stand for all rows so far, to which rows that come later are added.

Problem: rows come in batches, from several places or over months, and are not kept. What is solved from second
moments should be solved for all of them, without a loss of digits by means or by the number of batches.
Method: a batch is reduced to R of the QR factorisation of √D [1 X - origin] in one pass. Parts of several batches are
stacked about one origin and reduced again. Then the origin moves to the mean of all their rows, as in the updates of
Chan, Golub & LeVeque (1983, doi:10.1080/00031305.1983.10483115), and only the rounding of the mean stays in the row of
the ones. If more than 2 `rank` rows are held, an SVD keeps their `rank` leading combinations ΣVᵀ (Brand 2006,
doi:10.1016/j.laa.2005.07.021; with means Ross, Lim, Lin & Yang 2008, doi:10.1007/s11263-007-0075-7).
What is discarded is summed: the Gram matrix of all rows is that of the held rows plus E ≥ 0, where ‖E‖₂ is at most the
sum of the largest discarded squares, and tr E the sum of all of them (cf. Baker, Gallivan & Van Dooren 2012,
doi:10.1016/j.laa.2011.07.018).
Where we differ: orthogonal transformations of rows take the place of sums of products, so no condition number is
squared. A cut waits until there are twice the rows that it keeps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from linspec.arrays import Array, Device, HostArray, all_finite, to_host, triangle_below, triangular_factor
from linspec.blocks.base import LinearOperator
from linspec.rows.reductions import RowData, Triangle

__all__ = ["Discarded", "FewRows", "LeadingRows", "merged"]


class Discarded(NamedTuple):
    """Bounds of what is missing from a Gram matrix: the norm ‖E‖₂ and the trace tr E of the missing part E ≥ 0."""

    norm: float = 0.0
    trace: float = 0.0


@dataclass(frozen=True, eq=False)
class FewRows:
    """R of the QR factorisation of √D [1 X - origin], or fewer rows.

    Attributes
    ----------
    R : array of shape (m, 1 + p)
    origin : array of shape (p,)
    rows : int
        The number of rows that they stand for.
    total : float
        The sum of their weights.
    discarded : Discarded
        What the Gram matrix of R lacks.
    """

    R: Array
    origin: Array
    rows: int
    total: float
    discarded: Discarded

    def about(self, origin: Array) -> Array:
        """The rows about another origin."""
        roots = self.R[:, :1]
        return Device.of(roots).concat([roots, self.R[:, 1:] + roots * (self.origin - origin)[None, :]])

    def placed(self, device: Device, order: Sequence[int]) -> FewRows:
        """The same rows at another place, their columns in another order."""
        columns = device.xp.asarray([0, *(1 + i for i in order)], device=device.native)
        R = device.xp.take(device.asarray(self.R), columns, axis=1)
        origin = device.xp.take(device.asarray(self.origin), columns[1:] - 1, axis=0)
        return replace(self, R=R, origin=origin)

    def standing(self, *, counts: bool) -> tuple[Array, HostArray]:
        """Return rows Z and weights w of these means and second moments; Z is minus the origin, and R is triangular.

        With the roots r of w, scaled to length 1, a reflection takes the first unit vector to −r and the rows of R
        about their mean to rows orthogonal to r. Divided by the roots, they are rows of mean zero. The weights are 1
        but for the first, so that their sum is exactly `total` for rows that count once. If the weights of the rows do
        not count them, those here are 1/2 but for the first, so that they are no counts either.
        """
        device, n, total = Device.of(self.R), self.R.shape[0], self.total
        B = device.xp.concat([device.zeros((1, self.R.shape[1] - 1)), self.R[1:, 1:]], axis=0)
        w = np.full(n, min(1.0, total / n) if counts else min(0.5, total / n / 2))
        w[0] = total - w[1:].sum()
        u = np.sqrt(w / total)
        u[0] += 1.0  # u = r + e₁, and 1 + r₁ is half its squared length
        Z = B - device.asarray(u)[:, None] * (device.asarray(u / u[0]) @ B)[None, :]
        return Z / device.asarray(np.sqrt(w))[:, None] + (self.R[0, 1:] / self.R[0, 0])[None, :], w


class LeadingRows(Triangle):
    """The triangle of √D [1 X₁ X₂ …], or its leading rows, and what these lack."""

    def __init__(self, data: RowData, operators: Sequence[LinearOperator], rank: int | None) -> None:
        super().__init__(data, operators)
        self.rank, self.height = rank, rank or self.height

    def zero(self) -> list[Any]:
        return [*super().zero(), np.zeros(2)]

    def include(self, total: list[Any], X: Array) -> None:
        super().include(total, X)
        total[0], lost = _leading(total[0], self.rank)
        total[1] += lost

    def merge(self, left: list[Any], right: list[Any]) -> list[Any]:
        left[1] += right[1]
        return super().merge(left, right)


def merged(parts: Sequence[FewRows], rank: int | None) -> FewRows:
    """Return few rows that stand for those of all parts: a triangle about their mean.

    Parameters
    ----------
    parts : sequence of FewRows
        Two or more.
    rank : int or None
        More than twice as many rows are cut to so many. None: nothing is discarded.
    """
    origin, device = parts[0].origin, Device.of(parts[0].R)
    rest = device.xp.concat([part.about(origin) for part in parts[1:]], axis=0)
    R, lost = _leading(triangle_below(parts[0].R, rest), rank)
    mean = origin + R[0, 1:] / R[0, 0]
    rounding = R[0, 1:] - (mean - origin) * R[0, 0]
    R = device.xp.concat([device.concat([R[:1, :1], rounding[None, :]]), R[1:, :]], axis=0)
    discarded = Discarded(*np.sum([lost, *(part.discarded for part in parts)], axis=0).tolist())
    return FewRows(R, mean, sum(part.rows for part in parts), sum(part.total for part in parts), discarded)


def _leading(R: Array, rank: int | None) -> tuple[Array, tuple[float, float]]:
    """Keep the leading combinations of the rows about the mean, if there are more than twice `rank`."""
    if rank is None or R.shape[0] - 1 <= 2 * rank or not all_finite(R):  # what is not finite is refused later
        return R, (0.0, 0.0)
    L = triangular_factor(R[1:, 1:].T).T  # has the singular values of these rows, and their left vectors U
    device = Device.of(R)
    U, s, _ = device.xp.linalg.svd(L, full_matrices=False)
    squares = to_host(s[rank:]) ** 2
    rows = device.xp.concat([R[:1, :], U[:, :rank].T @ R[1:, :]], axis=0)
    return rows, (squares[0], squares.sum())
