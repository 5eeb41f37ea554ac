"""Exact answers and the residual laws, computed a second time: dense, in float64, on the host.

Problem: a kit that judges by the library's own code agrees with its mistakes.
Method: plain NumPy, from the definitions. Least squares is solved by the SVD of A. Canonical correlations
come from the SVDs of each view and of the product of their bases. Discriminant directions come from the SVDs
of the data and of the targets in their basis. The laws are evaluated on the arrays that a solver returned.
The residual of an answer bounds its allowed error: for least squares ‖x − x*‖ ≤ ‖Aᵀ(b − Ax) − rx‖ / λmin, for
eigenvectors the bound of Davis and Kahan, for singular and canonical vectors Wedin's, with the gap of the
exact values. So the kit chooses no tolerance, except for the multiple of rounding that is added.
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
"""Range of a residual that does not claim to be exact, by `residual_kind`, in multiples of the exact residual."""

ROUNDING = 30.0
"""Error of a backward-stable computation with a hundred terms, in multiples of the unit roundoff."""


@dataclass(frozen=True)
class Law:
    """A recomputed residual, and the part of it that rounding may explain.

    Attributes
    ----------
    residual : float
    floor : float
        The residual that the exact answer may have because of rounding in the working precision.
    most : float
        The largest residual that a solution may report, if this number is larger than `residual`. Some solvers report
        the error of the whole subspace that they computed, but return only a part of it.

    Examples
    --------
    >>> import linspec as ls
    >>> from linspec.testing import Reading, testing_of
    >>> case = testing_of("svd").cases()[0]
    >>> solution = ls.solve(ls.SVD(**case.arrays, **case.parameters), "direct")
    >>> law = testing_of("svd").oracle(case, Reading()).law(solution)
    >>> law.residual <= law.floor  # exact up to rounding
    True
    """

    residual: float
    floor: float
    most: float = 0.0

    def contradicts(self, claimed: float, kind: str = "exact") -> bool:
        """Whether a claimed residual of a given kind disagrees with the recomputed residual."""
        if not math.isfinite(claimed) or not math.isfinite(self.residual):
            return claimed != self.residual
        low, high = SHARES.get(kind, (1.0, 1.0))
        return not self._within(claimed, low * self.residual, high * max(self.residual, self.most))

    def between(self, low: float, high: float) -> bool:
        """Whether the residual lies between two numbers, up to rounding."""
        return self._within(self.residual, low, high)

    def _within(self, value: float, low: float, high: float) -> bool:
        """Whether √value lies between √low and √high, up to 0.5 per cent and up to √floor.

        Rounding adds to norms, and some residuals are squares of norms, so the roots are compared.
        """
        root, blur = math.sqrt(value), 1.005 * math.sqrt(self.floor)
        return 0.995 * math.sqrt(low) - blur <= root <= 1.005 * math.sqrt(high) + blur


EPS = float(np.finfo(np.float64).eps)


@dataclass(frozen=True)
class Reading:
    """The way in which a solver reads the entries, which determines the rounding of centred data.

    Attributes
    ----------
    readable : bool
        True: dense entries, which are centred in float64 before they are rounded to the working precision.
        False: the means are subtracted from products in the working precision.
    subtracted : bool
        True (sparse data): the means may also be subtracted from Gram matrices, which squares the loss of
        digits.

    Examples
    --------
    >>> from linspec.testing import Reading
    >>> Reading(readable=False)
    Reading(readable=False, subtracted=False)
    """

    readable: bool = True
    subtracted: bool = False

    def rounding(self, unit: float, shift: float) -> float:
        """Return the relative rounding of centred data whose means are `shift` times their spread."""
        if self.readable:
            return max(unit, EPS * shift)
        return max(unit * shift, EPS * shift**2 if self.subtracted else 0.0)


def precision(case: Case) -> float:
    """Return the unit roundoff of the least precise working dtype of a case.

    Examples
    --------
    >>> from linspec.testing import planted_svd, precision
    >>> precision(planted_svd(20, 4, [2.0, 1.0], k=1))
    2.220446049250313e-16
    """
    return max(float(np.finfo(working_dtype(x.dtype)).eps) for x in case.arrays.values())


def shift_of(X: HostArray) -> float:
    """Return the largest ratio of the norm of a column to that of the centred column, without constant columns.

    Examples
    --------
    >>> import numpy as np
    >>> from linspec.testing import shift_of
    >>> round(shift_of(np.array([[99.0], [101.0]])))  # the mean is 100, the standard deviation 1
    100
    """
    spread = np.linalg.norm(X - X.mean(axis=0), axis=0)
    size = np.linalg.norm(X, axis=0)
    live = spread > 1e-10 * size
    return float((size[live] / spread[live]).max(initial=1.0))


def as_host(x: Any) -> HostArray:
    """Convert an array of any library to float64 on the host.

    Examples
    --------
    >>> import numpy as np
    >>> from linspec.testing import as_host
    >>> as_host(np.array([1, 2], dtype=np.float32)).dtype
    dtype('float64')
    """
    return np.asarray(to_host(x), dtype=np.float64)


def ratio(a: float, b: float) -> float:
    """Return a / b, or 0 if a is 0."""
    return 0.0 if a == 0 else a / b if b > 0 else math.inf


class ViewOracle:
    """One view by its SVD: S = XᵀX + ridge, its inverse on its range, and its condition number after scaling.

    `factor` is orthonormal at ridge 0. With a ridge its singular values are s/√(s² + ridge). So the singular
    values of factor_xᵀ factor_y are the canonical correlations.
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
        """Squared lengths of columns in the norm of S⁻¹, or of the pseudo-inverse of S at ridge 0."""
        inside = self.V.T @ R
        found: HostArray = ((inside / self.shrunk[:, None]) ** 2).sum(axis=0)
        if self.ridge > 0:
            found = found + ((R - self.V @ inside) ** 2).sum(axis=0) / self.ridge
        return found


def centred(X: HostArray) -> HostArray:
    """Subtract the means of columns; set a column to zero if only rounding is left of it."""
    size = np.linalg.norm(X, axis=0)
    X = X - X.mean(axis=0)
    centred: HostArray = X * (np.linalg.norm(X, axis=0) > 1e-13 * size)
    return centred
