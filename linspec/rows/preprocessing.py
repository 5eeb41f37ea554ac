"""Preprocessing: weights of rows, centring, confounds and scaling, as asked for and as learnt.

Problem: a solver should see matrices alone, and sparse rows must stay sparse.
Method: with weights w and D = diag(w), a matrix X becomes

    (X - 1 mᵀ - B sᵀ) F,    BᵀDB = I, BᵀD1 = 0,    (1)

where m are weighted means, B is a basis of the confounds, s = XᵀDB are slopes, and F has 1 / deviation of each column
(Frisch & Waugh 1933, Econometrica 1:387; Lovell 1963, JASA 58:993). B depends on the confounds alone. The other terms
are learnt in the first pass, from sums about a provisional row o: with gaps g = Σ w (x - o) / Σ w,

    m = o + g,    squares about m = Σ w (x - o)² - Σ w g².    (2)

A mean is kept as the sum of two floats, so that means far above the deviations lose no digits (Chan, Golub & LeVeque
1983, doi:10.1080/00031305.1983.10483115, for the update (2)).
Where we differ: products of matrices are formed about o as well and corrected afterwards (`linspec.rows.moments`);
so centring takes no pass of its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from linspec.arrays import Array, Device, HostArray, reciprocal
from linspec.errors import InvalidProblem
from linspec.linalg import varies

__all__ = ["DEPENDENT", "EXPLAINED", "Fitted", "Preprocessing"]

DEPENDENT = 64 * np.finfo(np.float64).eps
"""Confounds are dependent if a pivot is below this, times their number and the first pivot. So is what a column has
left, in squares, of what it had."""

EXPLAINED = 1e-13
"""A column counts as zero if means and confounds leave at most this share of its squared length, which is rounding."""

LARGEST = 1e300
"""Square of a factor, at most: squares of entries that underflow have none."""

NEARLY = 1e-8
"""A share of the squares of a column that is rounding beside what confounds explain."""


@dataclass(frozen=True, eq=False)
class Preprocessing:
    """What is asked of all rows.

    Parameters
    ----------
    center : bool
        Whether the weighted means are subtracted.
    w : numpy.ndarray of shape (n,), optional
        Weights: how often each row counts.
    B : numpy.ndarray of shape (n, r), optional
        Basis of the confounds: B = (Z - confound_mean) turn, with (1).
    scale : bool
        Whether columns are divided by their deviations.
    confound_mean, turn : numpy.ndarray, optional
        Of shapes (c,) and (c, r), for new rows.
    """

    center: bool = False
    w: HostArray | None = None
    B: HostArray | None = None
    scale: bool = False
    confound_mean: HostArray | None = None
    turn: HostArray | None = None

    @classmethod
    def of(
        cls, *, center: bool = False, weights: Any = None, confounds: Any = None, scale: bool = False
    ) -> Preprocessing:
        """Make the basis of the confounds, of shape (n, c).

        Parameters
        ----------
        center : bool, default False
        weights : array of shape (n,), optional
        confounds : array of shape (n, c), optional
        scale : bool, default False
        """
        w = None if weights is None else np.asarray(weights, np.float64)
        if confounds is None:
            return cls(center, w, scale=scale)
        Z = np.asarray(confounds, np.float64)
        mean = np.average(Z, axis=0, weights=w) if center else np.zeros(Z.shape[1])
        root = np.ones((len(Z), 1)) if w is None else np.sqrt(w)[:, None]
        rest = (Z - mean) * root
        noise = DEPENDENT * np.abs(mean) * np.linalg.norm(root)  # what rounding leaves of a constant confound
        unit = np.abs(rest).max(axis=0, initial=0.0)
        unit = np.where(unit > 0, unit, 1.0)
        length = unit * np.linalg.norm(rest / unit, axis=0)
        length = np.where(length > noise, length, np.inf)
        _, s, Vt = np.linalg.svd(rest / length, full_matrices=False)
        rank = int((s > DEPENDENT * len(s) * s.max(initial=0.0)).sum())
        turn = Vt[:rank].T / s[:rank] / length[:, None]
        if rank == 0:
            return cls(center, w, None, scale, mean, turn)
        Q, R = np.linalg.qr(rest @ turn)  # short directions, scaled up, are orthogonal to rounding only
        turn = np.linalg.solve(R.T, turn.T).T
        B = np.divide(Q, root, out=(Z - mean) @ turn, where=root > 0)
        if center:
            B -= np.average(B, axis=0, weights=w)
        return cls(center, w, B, scale, mean, turn)

    @property
    def directions(self) -> int:
        """The number of directions that are taken out of every column."""
        return int(self.center) + (0 if self.B is None else self.B.shape[1])

    def taken(self, n: int) -> HostArray:
        """Orthonormal columns that are taken out of every column of √D X, for n rows."""
        columns = [np.ones((n, 1))] * self.center + ([] if self.B is None else [self.B])
        L = np.hstack([np.zeros((n, 0)), *columns])
        L = L if self.w is None else L * np.sqrt(self.w)[:, None]
        return L / np.linalg.norm(L, axis=0)

    def check_rows(self, rows: float, *, ended: bool) -> None:
        """Raise an error unless weights and confounds have as many rows as the data."""
        for name, array in (("sample_weight", self.w), ("confounds", self.B)):
            if array is not None and (rows > len(array) or (ended and rows != len(array))):
                raise InvalidProblem(
                    f"{name} must have a number for each row; got {len(array)} for {'' if ended else 'more than '}"
                    f"{rows if ended else len(array):g} rows."
                )


class Fitted(NamedTuple):
    """The preprocessing of one matrix as the first pass has learnt it; all arrays are on the host.

    Attributes
    ----------
    mean, rest : numpy.ndarray of shape (p,)
        The means that are subtracted are mean + rest.
    average : numpy.ndarray of shape (p,)
        The means of the columns as they came.
    slopes : numpy.ndarray of shape (p, r), or None
    factors : numpy.ndarray of shape (p,), or None
        1 / deviation; 0 for a column that does not vary.
    squares : numpy.ndarray of shape (p,)
        Sums of squares of the preprocessed columns.
    total : float
        The number of rows, or the sum of their weights.
    live : numpy.ndarray of shape (p,), or None
        0 for a column of which nothing but rounding is left; None if there is none.
    explained : numpy.ndarray of shape (p,)
        Whether confounds explain all of a column but for a share of `NEARLY`.
    about_origin : float
        Largest quotient of the squares of a column about the provisional row and about its mean.
    about_zero : float
        Largest quotient of the squares about 0 and those that are left: what products lose that are formed about 0.
    explained_share : float, default 1
        Largest quotient of the squares about the mean and those that confounds leave.
    """

    mean: HostArray
    rest: HostArray
    average: HostArray
    slopes: HostArray | None
    factors: HostArray | None
    squares: HostArray
    total: float
    live: HostArray | None
    explained: HostArray
    about_origin: float
    about_zero: float
    explained_share: float = 1.0

    @classmethod
    def of(
        cls,
        pre: Preprocessing,
        origin: HostArray,
        total: float,
        sums: HostArray,
        squares: HostArray,
        cross: HostArray | None,
        *,
        estimated: bool = False,
    ) -> Fitted:
        """Compute (2) from sums about `origin`; `cross` is the sum of w (x - o) bᵀ.

        Squares that are `estimated` do not say that confounds explain a column.
        """
        gap = sums / total
        mean = origin + gap
        about_mean = squares - total * gap**2  # (2)
        size = about_mean + total * mean**2
        if not pre.center:
            about_mean = squares if not origin.any() else size
        left = about_mean if cross is None else about_mean - (cross**2).sum(axis=1)
        left = np.maximum(left, 2 * NEARLY * about_mean) if estimated else left
        explained = np.zeros(len(mean), dtype=bool)
        if cross is not None:
            explained = varies(about_mean, size) & (left <= NEARLY * about_mean)
        live = varies(left, size) & (left > (0.0 if cross is None else DEPENDENT) * about_mean)
        used: Any = slice(None) if live.all() else live
        left = np.where(live, left, 0.0)
        factors = None
        if pre.scale:
            factors = np.minimum(np.divide(total, left, out=np.zeros_like(left), where=live), LARGEST) ** 0.5
        rest = (origin - mean) + gap
        none = np.zeros(len(mean))
        return cls(
            mean if pre.center else none,
            rest if pre.center else none,
            mean,
            cross,
            factors,
            left if factors is None else left * factors**2,
            total,
            used.astype(np.float64) if used is live else None,
            explained,
            float((squares[used] / about_mean[used]).max(initial=1.0)),
            float((size[used] / left[used]).max(initial=1.0)),
            float((about_mean[used] / left[used]).max(initial=1.0)),
        )

    @classmethod
    def known(
        cls, mean: HostArray, slopes: HostArray | None = None, factors: HostArray | None = None
    ) -> Fitted:
        """What other rows have taught: the means, the slopes of shape (p, r), and 1 / deviation of each column."""
        none = np.zeros(len(mean))
        return cls(mean, none, mean, slopes, factors, none, 1.0, None, none > 0, 1.0, 1.0)

    @property
    def left(self) -> HostArray:
        """Sums of squares of the preprocessed columns, in the units in which they came."""
        return self.squares if self.factors is None else self.squares * reciprocal(self.factors) ** 2

    @property
    def kept(self) -> HostArray:
        """The diagonal of F, and 0 for a column of which nothing is left."""
        live = np.ones_like(self.mean) if self.live is None else self.live
        return live if self.factors is None else live * self.factors

    def scaled(self, V: Array) -> Array:
        """Compute F V."""
        return V if self.factors is None else V * Device.of(V).asarray(self.factors)[:, None]

    def unscaled(self, V: Array) -> Array:
        """Compute F⁻¹ V, with 0 for columns that do not vary."""
        return V if self.factors is None else V * Device.of(V).asarray(reciprocal(self.factors))[:, None]

    def gap(self, origin: HostArray | None) -> HostArray:
        """The means minus the row that was subtracted, with the digits of both floats."""
        return self.mean + self.rest if origin is None else (self.mean - origin) + self.rest
