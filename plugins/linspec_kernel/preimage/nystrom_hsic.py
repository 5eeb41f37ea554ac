"""HSIC of two variates by the kernel functions of some rows.

Problem: the Hilbert-Schmidt independence criterion of two variates, and its derivative, without an n x n matrix.
Method: m rows are landmarks. With the values C (n x m) of the Gaussian kernel of a variate at the landmarks, among them
A (m x m) at the landmarks themselves, and W = (A + εI)⁻¹, the features C W^½ have the criterion

    tr(Wx M Wy Mᵀ)/(n − 1)²,    M = CxᵀH Cy.

Its derivative by Cx is 2 H Cy Wy MᵀWx and that by Ax is −Wx M Wy MᵀWx; landmarks move with the variate, so both count.
Source: Uurtio, Bhadra, Rousu 2018, ICDM, Sparse non-linear CCA through Hilbert-Schmidt independence criterion,
doi:10.1109/ICDM.2018.00172, with ε = 1e-3; Zhang, Filippi, Gretton & Sejdinovic 2018, Stat. Comput. 28,
doi:10.1007/s11222-016-9721-7.
Where we differ: variates are divided by their root mean square, as for the quadrature, and the derivative goes through
all of it. Published are landmarks for a tenth of the rows, n²/10 values; some tens suffice for one variable.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import scipy.linalg

from linspec.arrays import Array, Home, HostArray, to_host
from linspec_kernel.preimage.objectives import HSIC

SHIFT = 1e-3
"""Added to the diagonal of the landmarks' kernel matrix, as published."""


class _Side:
    """The kernel functions of the landmarks, for one variate over its root mean square."""

    def __init__(self, z: Array, index: HostArray, home: Home) -> None:
        self.index, self.home = index, home
        where = home.xp.asarray(index, device=home.device)
        self.gaps = z - home.xp.take(z, where, axis=0).T
        self.C = home.xp.exp(-0.5 * self.gaps**2)
        self.HC = self.C - home.xp.mean(self.C, axis=0)[None, :]
        self.A, self.differences = (
            np.asarray(to_host(home.xp.take(V, where, axis=0)), dtype=np.float64) for V in (self.C, self.gaps)
        )
        self.factor = scipy.linalg.cho_factor(self.A + SHIFT * np.eye(len(index)))

    def over(self, B: HostArray) -> HostArray:
        """W B."""
        return np.asarray(scipy.linalg.cho_solve(self.factor, B), dtype=np.float64)

    def slope(self, by_C: Array, by_A: HostArray) -> Array:
        """The derivative by the variate, from those by C and by A."""
        R = -by_C * self.gaps * self.C
        S = -by_A * self.differences * self.A
        at_landmarks = np.zeros(int(self.C.shape[0]))
        fallen = np.asarray(to_host(self.home.xp.sum(R, axis=0)), dtype=np.float64)
        np.add.at(at_landmarks, self.index, S.sum(axis=1) - S.sum(axis=0) - fallen)
        return (self.home.xp.sum(R, axis=1) + self.home.place(at_landmarks))[:, None]


class NystromHSIC(HSIC):
    """The criterion by the kernel functions of landmarks.

    Parameters
    ----------
    index : numpy.ndarray of shape (m,)
        The numbers of the rows that are landmarks.
    """

    name: ClassVar[str] = "hsic"

    def __init__(self, index: HostArray) -> None:
        self.index = index

    def value(self, z: Array, w: Array, home: Home) -> float:
        """The sum of squares of the products of features, of two variates over their root mean squares, both n x 1."""
        x, y = _Side(z, self.index, home), _Side(w, self.index, home)
        M = _product(x, y)
        return float(np.sum(x.over(M) * y.over(M.T).T))

    def slope(self, z: Array, w: Array, home: Home) -> tuple[Array, Array]:
        """The derivatives of `value` by both."""
        x, y = _Side(z, self.index, home), _Side(w, self.index, home)
        M = _product(x, y)
        WM, MW = x.over(M), y.over(M.T).T
        by_x, by_y = x.over(MW).T, y.over(WM.T).T
        return (
            x.slope(2.0 * (y.HC @ home.place(by_x)), -(WM @ by_x)),
            y.slope(2.0 * (x.HC @ home.place(by_y)), -(MW.T @ by_y)),
        )


def _product(x: _Side, y: _Side) -> HostArray:
    return np.asarray(to_host(x.HC.T @ y.HC), dtype=np.float64)
