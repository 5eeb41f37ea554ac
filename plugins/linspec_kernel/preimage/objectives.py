"""What is maximised over two points: the correlation of two variates, or how much they depend on each other.

Problem: the value of two variates (columns with n rows), and its derivative by each of them; many pairs at once.
Method: the correlation is the cosine of the variates. HSIC, the Hilbert-Schmidt independence criterion, is
‖ΦᵀHΨ‖²_F/(n − 1)² for features Φ and Ψ of Gaussian kernels exp(−(s − t)²/2), where s and t are variates over their root
mean square. The features are √(2hφ(jh)) (cos jhs, sin jhs), j = 1, 2, …, with the normal density φ: by the trapezoid
rule their inner products are the Gaussian kernel, less a constant that H takes out, up to exp(−(2π/h − d)²/2) at the
distance d. That is below 1e-7 for variates that differ by 25 standard deviations. It takes O(n) operations, where a
kernel matrix takes O(n²).
Source: Gretton, Bousquet, Smola & Schölkopf 2005, ALT, doi:10.1007/11564089_7; the trapezoid rule, Trefethen &
Weideman 2014, SIAM Rev. 56(3), doi:10.1137/130932132.
Where we differ: variates are divided by their own root mean square, and not by a median of distances, which would take
O(n²); the derivative goes through that division.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import ClassVar

import numpy as np

from linspec.arrays import Array, Home, HostArray, to_host

STEP, FREQUENCIES = 0.2, 28
"""The trapezoid rule: 28 frequencies reach to 5.6, where the normal density is 1e-7 of its peak."""

ROUGH_STEP, ROUGH_FREQUENCIES = 0.6, 4
"""The same where many pairs are compared."""


class Objective(ABC):
    """A function of two variates that does not change with their lengths.

    Attributes
    ----------
    name : str
        As `PreimageCCA` takes it.
    width : int
        Columns that `of_all` makes of each variate.
    """

    name: ClassVar[str]
    width: ClassVar[int] = 1

    @abstractmethod
    def of_all(self, P: Array, Q: Array, home: Home) -> HostArray:
        """Of every column of P with every column of Q, perhaps roughly: for a comparison of pairs.

        Parameters
        ----------
        P, Q : array of shape (n, a), (n, b)

        Returns
        -------
        numpy.ndarray of shape (a, b)
        """

    @abstractmethod
    def values(self, P: Array, Q: Array, home: Home) -> HostArray:
        """Of pairs of columns.

        Parameters
        ----------
        P, Q : array of shape (n, m)
            Variates, centred where the problem centres; columns may be zero.
        home : Home

        Returns
        -------
        numpy.ndarray of shape (m,)
            0 where a column is zero.
        """

    @abstractmethod
    def slopes(self, P: Array, Q: Array, home: Home) -> tuple[Array, Array]:
        """The derivatives of the values by the variates.

        Parameters
        ----------
        P, Q : array of shape (n, m)

        Returns
        -------
        pair of arrays of shape (n, m)
            Zero where a column is zero.
        """


class Correlation(Objective):
    """The cosine of two variates."""

    name: ClassVar[str] = "correlation"

    def of_all(self, P: Array, Q: Array, home: Home) -> HostArray:
        p, _ = _over(P, home.column_norms(P), home)
        q, _ = _over(Q, home.column_norms(Q), home)
        return np.asarray(to_host(p.T @ q), dtype=np.float64)

    def values(self, P: Array, Q: Array, home: Home) -> HostArray:
        p, _ = _over(P, home.column_norms(P), home)
        q, _ = _over(Q, home.column_norms(Q), home)
        found: HostArray = np.clip(to_host(home.xp.sum(p * q, axis=0)), -1.0, 1.0)
        return found

    def slopes(self, P: Array, Q: Array, home: Home) -> tuple[Array, Array]:
        p, a = _over(P, home.column_norms(P), home)
        q, b = _over(Q, home.column_norms(Q), home)
        rho = home.xp.sum(p * q, axis=0)[None, :]
        return (q - rho * p) * a, (p - rho * q) * b


class HSIC(Objective):
    """The Hilbert-Schmidt independence criterion of two variates, with Gaussian kernels of unit width."""

    name: ClassVar[str] = "hsic"
    width: ClassVar[int] = 2 * ROUGH_FREQUENCIES

    def of_all(self, P: Array, Q: Array, home: Home) -> HostArray:
        n, sides = int(P.shape[0]), []
        for V in (P, Q):
            Z, _ = _over(V, _root_mean_squares(V, home), home)
            columns = range(int(Z.shape[1]))
            sides.append(
                home.concat([_features(Z[:, j], home, ROUGH_STEP, ROUGH_FREQUENCIES)[0] for j in columns])
            )
        M = np.asarray(to_host(sides[0].T @ sides[1]), dtype=np.float64)
        blocks = M.reshape(int(P.shape[1]), self.width, int(Q.shape[1]), self.width)
        found: HostArray = np.sum(blocks**2, axis=(1, 3)) / max(n - 1, 1) ** 2
        return found

    def values(self, P: Array, Q: Array, home: Home) -> HostArray:
        n = int(P.shape[0])
        (Z, _), (W, _) = (_over(V, _root_mean_squares(V, home), home) for V in (P, Q))
        found = [
            float(home.xp.sum((_features(Z[:, j], home)[0].T @ _features(W[:, j], home)[0]) ** 2))
            for j in range(int(Z.shape[1]))
        ]
        return np.asarray(found, dtype=np.float64) / max(n - 1, 1) ** 2

    def slopes(self, P: Array, Q: Array, home: Home) -> tuple[Array, Array]:
        n, xp = int(P.shape[0]), home.xp
        (Z, a), (W, b) = (_over(V, _root_mean_squares(V, home), home) for V in (P, Q))
        columns: tuple[list[Array], list[Array]] = ([], [])
        for j in range(int(Z.shape[1])):
            (F, dF), (G, dG) = _features(Z[:, j], home), _features(W[:, j], home)
            M = F.T @ G
            for into, z, G_, dF_, C in ((columns[0], Z, G, dF, M.T), (columns[1], W, F, dG, M)):
                slope = xp.sum(dF_ * (G_ @ C), axis=1) * (2.0 / max(n - 1, 1) ** 2)
                along = xp.sum(slope * z[:, j]) / n
                into.append((slope - along * z[:, j])[:, None])
        return home.concat(columns[0]) * a, home.concat(columns[1]) * b


OBJECTIVES: dict[str, Objective] = {found.name: found for found in (Correlation(), HSIC())}
"""By name."""


def _features(z: Array, home: Home, step: float = STEP, count: int = FREQUENCIES) -> tuple[Array, Array]:
    """Features of a Gaussian kernel at the entries of a variate, less their means, and the derivatives of features."""
    xp = home.xp
    w = step * np.arange(1, count + 1)
    root = home.place(np.sqrt(2 * step * np.exp(-(w**2) / 2) / math.sqrt(2 * math.pi)))[None, :]
    angles = z[:, None] * home.place(w)[None, :]
    cos, sin = xp.cos(angles) * root, xp.sin(angles) * root
    frequencies = home.place(w)[None, :]
    F = home.concat([cos, sin])
    return F - xp.mean(F, axis=0)[None, :], home.concat([-sin * frequencies, cos * frequencies])


def _root_mean_squares(V: Array, home: Home) -> HostArray:
    found: HostArray = home.column_norms(V) / math.sqrt(max(int(V.shape[0]), 1))
    return found


def _over(V: Array, lengths: HostArray, home: Home) -> tuple[Array, Array]:
    """Columns over lengths, and one over these lengths; zero where a length is."""
    inverse = np.divide(1.0, lengths, out=np.zeros(len(lengths)), where=lengths > 0)
    placed = home.place(inverse)[None, :]
    return V * placed, placed
