"""Exact answers and the residual laws, computed a second time: dense, float64, on the host.

Problem: a kit that judges by the library's own code agrees with its mistakes.
Method: plain NumPy from the definitions. Least squares by the SVD of A; canonical correlations by the SVD of
each view and of the product of their bases; discriminant directions by the SVD of the data and that of the targets
in their basis; singular values by the SVD. The laws are evaluated on the arrays that a solver returned. What an
answer may be off by follows from its own residual: for least squares ‖x − x*‖ ≤ ‖Aᵀ(b − Ax) − rx‖ / λmin; for
eigenvectors the bound of Davis and Kahan, for singular and canonical vectors Wedin's, with the gap of the exact
values. So a tolerance is never chosen, except for the multiple of rounding that comes with it.
Source: Björck & Golub 1973; Wedin 1972; Davis & Kahan 1970.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from linspec.arrays import HostArray, to_host, working_dtype
from linspec.testing.problems import Case

SHARES = {"quadrature": (0.85, 1.0), "preconditioned": (1 / 3, 3.0)}
"""By `residual_kind`: between which shares of the exact law a residual lies that does not claim to be exact."""

ROUNDING = 30.0
"""Multiple of the unit roundoff that a backward-stable computation with a hundred terms may lose."""


@dataclass(frozen=True)
class Law:
    """A residual recomputed, and how much of it may be rounding.

    Attributes
    ----------
    residual : float
    floor : float
        Residuals that rounding in the working precision can make of the exact answer.
    most : float
        What a residual may be, if that is more: one that counts what a whole span lacks, of which a part is returned.
    """

    residual: float
    floor: float
    most: float = 0.0

    def contradicts(self, claimed: float, kind: str = "exact") -> bool:
        """Whether a claimed residual of some kind cannot be this one."""
        if not math.isfinite(claimed) or not math.isfinite(self.residual):
            return claimed != self.residual
        low, high = SHARES.get(kind, (1.0, 1.0))
        return not self._within(claimed, low * self.residual, high * max(self.residual, self.most))

    def between(self, low: float, high: float) -> bool:
        """Whether it lies between two numbers."""
        return self._within(self.residual, low, high)

    def _within(self, value: float, low: float, high: float) -> bool:
        """But for rounding: roots are compared, since all are norms."""
        root, blur = math.sqrt(value), 1.005 * math.sqrt(self.floor)
        return 0.995 * math.sqrt(low) - blur <= root <= 1.005 * math.sqrt(high) + blur


EPS = float(np.finfo(np.float64).eps)


@dataclass(frozen=True)
class Reading:
    """How the entries reach the arithmetic: what centring them costs.

    Attributes
    ----------
    readable : bool
        Dense entries, centred in float64 before they are rounded to the working precision. Otherwise the means
        are taken out of products in working precision.
    subtracted : bool
        Sparse: the means may also be taken out of Gram matrices, which squares what centring loses.
    """

    readable: bool = True
    subtracted: bool = False

    def rounding(self, unit: float, shift: float) -> float:
        """The relative rounding of centred data whose means are `shift` times their spread."""
        if self.readable:
            return max(unit, EPS * shift)
        return max(unit * shift, EPS * shift**2 if self.subtracted else 0.0)


def precision(case: Case) -> float:
    """The unit roundoff of the least precise working dtype."""
    return max(float(np.finfo(working_dtype(x.dtype)).eps) for x in case.arrays.values())


def shift_of(X: HostArray) -> float:
    """The largest norm of a column beside that of the same column centred; constant columns are left out."""
    spread = np.linalg.norm(X - X.mean(axis=0), axis=0)
    size = np.linalg.norm(X, axis=0)
    live = spread > 1e-10 * size
    return float((size[live] / spread[live]).max(initial=1.0))


def as_host(x: Any) -> HostArray:
    """Whatever was returned as float64 on the host."""
    return np.asarray(to_host(x), dtype=np.float64)


def ratio(a: float, b: float) -> float:
    """A quotient; of a zero 0."""
    return 0.0 if a == 0 else a / b if b > 0 else math.inf


class ViewOracle:
    """One view by its SVD: S = XᵀX + ridge, its inverse on its range, and what scaling leaves of its condition.

    `factor` is orthonormal at ridge 0; with a ridge its singular values are s/√(s² + ridge), so that
    factor_xᵀ factor_y has the canonical correlations for singular values.
    """

    def __init__(self, X: HostArray, ridge: float, center: bool, unit: float) -> None:
        self.X = centred(X) if center else X
        self.ridge = ridge
        d = np.linalg.norm(self.X, axis=0)
        scale = np.where(d > 0, d, 1.0)
        s = np.linalg.svd(self.X / scale, compute_uv=False)
        self.rank = int(np.sum(s > max(X.shape) * unit * s[0])) if s[0] > 0 else 0
        U, t, Vt = np.linalg.svd(self.X, full_matrices=False)
        U, t, self.V = U[:, : self.rank], t[: self.rank], Vt[: self.rank].T
        self.shrunk = np.sqrt(t**2 + ridge)
        self.factor = U * (t / self.shrunk)
        diagonal = d**2 + ridge
        root = np.sqrt(np.where(diagonal > 0, diagonal, 1.0))
        self.S = self.X.T @ self.X + ridge * np.eye(X.shape[1])
        values = np.linalg.eigvalsh(self.S / np.outer(root, root))
        least = float(values[0] if ridge > 0 else values[-self.rank :][0] if self.rank else 1.0)
        self.condition = float(values[-1]) / least

    def squares(self, R: HostArray) -> HostArray:
        """Squared lengths of columns in the norm of S⁻¹; at ridge 0 that of the pseudo-inverse."""
        inside = self.V.T @ R
        found: HostArray = ((inside / self.shrunk[:, None]) ** 2).sum(axis=0)
        if self.ridge > 0:
            found = found + ((R - self.V @ inside) ** 2).sum(axis=0) / self.ridge
        return found


def centred(X: HostArray) -> HostArray:
    """Column means taken out; a column of which that leaves rounding alone becomes zeros."""
    size = np.linalg.norm(X, axis=0)
    X = X - X.mean(axis=0)
    centred: HostArray = X * (np.linalg.norm(X, axis=0) > 1e-13 * size)
    return centred
