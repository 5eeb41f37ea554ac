"""The penalty of sparse weights, and how far weights are from the best ones within its bound.

Problem: for a vector a, maximise aᵀt over tᵀSt ≤ 1 and P(t) ≤ c. P is |t|₁, or for columns in groups g of p_g columns
Σ √p_g ‖t_g‖. All vectors are in units of their columns: S has a unit diagonal, or is the identity.
Law: with r_j the root mean square of t over the group of column j, P(t) = Σ r_j, and r_j = |t_j| without groups. The
problem is convex, so t with tᵀSt = 1 and P(t) ≤ c is best exactly if there are λ, μ ≥ 0 with

    a − λSt = μ t/r                        where r > 0,                          (1)
    rms(a − λSt) ≤ μ                       where r = 0,                          (2)
    μ (c − P(t)) = 0.                                                            (3)

The violation is the largest gap of these, in units of the largest rms(a): zero only at the best t.
Source: Karush-Kuhn-Tucker; Yuan & Lin 2006, J. R. Stat. Soc. B 68:49, doi:10.1111/j.1467-9868.2005.00532.x (groups).
Where we differ: λ and μ are those of the least squares of (1), or one of them alone. Where t has one group only, St and
t/r are parallel, and the least squares do not tell λ from μ.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from linspec.arrays import HostArray, reciprocal


@dataclass(frozen=True, eq=False)
class Penalty:
    """P(t) ≤ bound for the columns of one matrix.

    Attributes
    ----------
    bound : float
        c, infinity for none.
    index : numpy.ndarray of int, shape (p,)
        The number of the group of each column; without groups each column is one.
    """

    bound: float
    index: HostArray

    @property
    def sizes(self) -> HostArray:
        """The number of columns of each group."""
        return np.bincount(self.index)

    @property
    def grouped(self) -> bool:
        """Whether some group has several columns."""
        return len(self.sizes) < len(self.index)

    def rms(self, T: HostArray) -> HostArray:
        """The root mean square of each column of T over the groups of its rows."""
        if not self.grouped:
            return np.abs(T)
        sums = np.zeros((len(self.sizes), T.shape[1]))
        np.add.at(sums, self.index, T * T)
        return np.sqrt(sums / self.sizes[:, None])[self.index]

    def violation(self, a: HostArray, t: HostArray, St: HostArray) -> float:
        """How far t is from the best point for a: see above.

        Parameters
        ----------
        a, t, St : numpy.ndarray of shape (p,)
            t is not zero, and tᵀSt is 1.
        """
        r, sizes = self.rms(np.column_stack([t, a])).T
        largest, total = float(sizes.max()), float(r.sum())
        if largest == 0:
            return 0.0
        h = t * reciprocal(r)
        gaps = [self._gap(a / largest, St, h, *pair, total) for pair in multipliers(a / largest, St, h)]
        return max(min(gaps), total / self.bound - 1.0)

    def _gap(
        self, a: HostArray, St: HostArray, h: HostArray, slope: float, price: float, total: float
    ) -> float:
        """The largest gap of (1), (2) and (3) for λ and μ."""
        left = a - slope * St
        live = np.max(np.abs(left - price * h)[h != 0])  # (1)
        dead = np.max(self.rms(left[:, None])[h == 0, 0] - price, initial=0.0)  # (2)
        slack = price * max(1.0 - total / self.bound, 0.0)  # (3)
        return float(max(live, dead, slack))


def multipliers(a: HostArray, St: HostArray, h: HostArray) -> list[tuple[float, float]]:
    """Candidates for λ and μ of (1): least squares of both, and of one alone; none is negative."""
    live = h != 0
    pairs = [np.linalg.lstsq(np.column_stack([St, h])[live], a[live], rcond=None)[0]]
    pairs += [np.array([a[live] @ St[live] / (St[live] @ St[live]), 0.0])]
    pairs += [np.array([0.0, a[live] @ h[live] / (h[live] @ h[live])])]
    return [(max(float(slope), 0.0), max(float(price), 0.0)) for slope, price in pairs]
