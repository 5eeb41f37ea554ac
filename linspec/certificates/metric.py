"""Lengths in S⁻¹ for S = XᵀX + rI: one norm for all certificates.

Problem: the gradient g of a system S x = b says nothing of the error e = S⁻¹g unless it is measured in the right norm:
‖Xe‖² + r‖e‖² = gᵀS⁻¹g, with no condition number in it.
Method: from rows M with MᵀM close to XᵀX, a sketch of X or a triangle of it, columns are scaled by D, the roots of the
diagonal of S, and the singular value decomposition

    [M; √r I] D⁻¹ = U diag(s) Vᵀ,    N = D⁻¹ V diag(1/s),    S⁻¹ ≈ N Nᵀ    (1)

is cut where s is rounding of the data. So units of columns do not matter, digits are not squared, and directions in
which X is zero to rounding are left out. A sketch of SKETCH_ROWS rows a column (`linspec.rows.reductions.Sketch`)
changes lengths by at most `UP` (measured; with four rows a column the constant had no margin). A Gram matrix serves as
well where it is held: then s² are its eigenvalues, and s below 1e-8 are rounding.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from linspec.algebra import EPS
from linspec.arrays import HostArray

__all__ = ["EPS", "SKETCH_ROWS", "UP", "Euclidean", "Metric"]

SKETCH_ROWS = 6
"""Rows of a sketch for each column of the data."""

UP = 1.6
"""Factor by which lengths from a sketch may be too small."""

ROUNDING = 8.0
"""Singular values up to this many roundings, times the root of their number and the largest, count as zero."""


class Metric:
    """The norm of S⁻¹ on the numerical range of S.

    Parameters
    ----------
    s, V : numpy.ndarray of shapes (p,) and (p, p)
        As in (1), ascending or descending.
    D : numpy.ndarray of shape (p,)
        The units of the columns.
    cut : float
        Singular values up to this fraction of the largest are left out.
    up : float
        Factor by which lengths may be too small.

    Attributes
    ----------
    rank : int
        The dimension of the numerical range.
    least : float
        The smallest singular value that is kept, in units of the columns; 1 / least is the condition number.
    reach : float
        ‖N‖₂, the largest length of e for gᵀS⁻¹g = 1.
    null : numpy.ndarray of shape (p, p - rank)
        Orthonormal directions that are left out.
    """

    def __init__(self, s: HostArray, V: HostArray, D: HostArray, cut: float, up: float) -> None:
        live = s > cut * s.max(initial=0.0)
        self.D, self.up, self.rank = D, up, int(live.sum())
        self.N = V[:, live] / s[live] / D[:, None]  # (1)
        self._inverse = (V[:, live] * s[live]).T * D
        self.least = float(s[live].min(initial=np.inf)) if self.rank else 1.0
        self.reach = float(np.linalg.norm(self.N, 2)) if self.rank else 0.0
        self.null = np.linalg.qr(V[:, ~live] / D[:, None])[0]

    @classmethod
    def of_rows(
        cls, M: HostArray, ridge: float, squares: HostArray, rounding: float, *, exact: bool
    ) -> Metric:
        """Make the metric from rows M: a sketch, or a triangle if `exact`.

        Parameters
        ----------
        M : numpy.ndarray of shape (m, p)
        ridge : float
        squares : numpy.ndarray of shape (p,)
            Sums of squares of the columns of X.
        rounding : float
            That of the data.
        exact : bool
        """
        p = M.shape[1]
        D = _units(squares + ridge)
        below = [M / D] if ridge == 0 else [M / D, np.diag(np.sqrt(ridge) / D)]
        _, s, Vt = np.linalg.svd(np.linalg.qr(np.vstack(below))[1])
        s = np.append(s, np.zeros(p - len(s)))
        cut = ROUNDING * np.sqrt(p) * rounding if ridge == 0 else 0.0
        return cls(s, Vt.T, D, cut, 1.0 if exact else UP)

    @classmethod
    def of_gram(cls, G: HostArray, ridge: float, rounding: float) -> Metric:
        """Make the metric from the Gram matrix G = XᵀX."""
        p = len(G)
        D = _units(np.diagonal(G) + ridge)
        values, V = np.linalg.eigh(G / D[:, None] / D + np.diag(ridge / D**2))
        cut = max(ROUNDING * np.sqrt(p) * rounding, np.sqrt(p * EPS)) if ridge == 0 else np.sqrt(p * EPS)
        return cls(np.sqrt(np.maximum(values, 0.0)), V, D, cut, 1.0)

    def lengths(self, g: HostArray) -> HostArray:
        """The lengths of columns in S⁻¹, which are not too small."""
        lengths: HostArray = self.up * np.linalg.norm(self.N.T @ g, axis=0)
        return lengths

    def dual(self, g: HostArray) -> HostArray:
        """Nᵀg: its Euclidean length is that of g in S⁻¹."""
        dual: HostArray = self.N.T @ g
        return dual

    def coordinates(self, W: HostArray) -> HostArray:
        """Return y with N y = W, but for the null part of W; its Euclidean length is that of W in S."""
        y: HostArray = self._inverse @ W
        return y

    def lift(self, y: HostArray) -> HostArray:
        """Return N y."""
        W: HostArray = self.N @ y
        return W

    def solve(self, g: HostArray) -> HostArray:
        """S⁻¹g, as exact as the metric."""
        x: HostArray = self.N @ (self.N.T @ g)
        return x


class Euclidean(Metric):
    """The metric of S = I, of p numbers."""

    def __init__(self, p: int) -> None:
        self.D, self.up, self.rank, self.least, self.reach = np.ones(p), 1.0, p, 1.0, 1.0
        self.null = np.zeros((p, 0))

    def dual(self, g: HostArray) -> HostArray:
        return g

    def coordinates(self, W: HostArray) -> HostArray:
        return W

    def lift(self, y: HostArray) -> HostArray:
        return y

    def lengths(self, g: HostArray) -> HostArray:
        lengths: HostArray = np.linalg.norm(g, axis=0)
        return lengths

    def solve(self, g: HostArray) -> HostArray:
        return g


def _units(squares: HostArray) -> Any:
    return np.sqrt(np.where(squares > 0, squares, 1.0))
