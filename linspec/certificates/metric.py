"""Lengths in S⁻¹ for S = XᵀX + rI: one norm for all certificates.

Problem: the gradient g of a system S x = b says nothing of the error e = S⁻¹g unless it is measured in the right norm:
‖Xe‖² + r‖e‖² = gᵀS⁻¹g, with no condition number in it.
Method: from rows M with MᵀM close to XᵀX, a sketch of X or a triangle of it, columns are scaled by D, the roots of the
diagonal of S, and the singular value decomposition

    [M; √r I] D⁻¹ = U diag(s) Vᵀ,    N = D⁻¹ V diag(1/s),    S⁻¹ ≈ N Nᵀ    (1)

is cut where s is rounding of the data. Where the triangle R of the rows is far from that, N = D⁻¹R⁻¹ serves without a
decomposition, with bounds of its norm and of the smallest s. So units of columns do not matter, digits are not squared,
and directions in which X is zero to rounding are left out. A sketch of SKETCH_ROWS rows a column
(`linspec.rows.reductions.Sketch`) changes lengths by at most `UP` (measured; with four rows a column the constant had
no margin). A Gram matrix serves as well
where it is held: then s² are its eigenvalues, and s below 1e-8 are rounding.
"""

from __future__ import annotations

from contextlib import suppress
from functools import cached_property
from typing import Any

import numpy as np
from scipy.linalg.lapack import dtrtri

from linspec.arrays import HOST, Array, Device, HostArray, is_array, reciprocal, to_host
from linspec.linalg import EPS, lengths_of, preconditioner_from_sketch, raised_diagonal

SKETCH_ROWS = 6
"""Rows of a sketch for each column of the data."""

UP = 1.6
"""Factor by which lengths from a sketch may be too small."""

ROUNDING = 8.0
"""Singular values up to this many roundings, times the root of their number and the largest, count as zero."""


SQUARED, FAR = 1e-5, 100.0
"""Smallest singular value, in units of the columns, that a Gram matrix has with digits enough; and how far above the
cut a triangle needs no decomposition."""


TINY = 1e-300
"""In place of 0 below a fraction."""

POWERS, SMALL = 16, 64
"""Steps of the power method for the largest length, and the order up to which it is computed exactly."""


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
    null : numpy.ndarray of shape (p, p - rank)
        Orthonormal directions that are left out.
    source : str
        Whether lengths are "exact", or "sketched", or those of another matrix: "preconditioned".
    """

    source: str = "exact"
    N: Any
    _inverse: Any

    def __init__(self, s: HostArray, V: HostArray, D: HostArray, cut: float, up: float) -> None:
        live = s > cut * s.max(initial=0.0)
        self.D, self.up, self.rank = D, up, int(live.sum())
        self.N = V[:, live] / s[live] / D[:, None]  # (1)
        self._inverse = (V[:, live] * s[live]).T * D
        self.least = float(s[live].min(initial=np.inf)) if self.rank else 1.0
        self.null = np.linalg.qr(V[:, ~live] / D[:, None])[0]

    @classmethod
    def of_rows(
        cls,
        M: HostArray,
        ridge: float,
        squares: HostArray,
        rounding: float,
        *,
        exact: bool,
        cut: float | None = None,
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
        cut : float, optional
            Singular values up to this fraction of the largest are left out; by default those that are rounding.
        """
        p, up = M.shape[1], 1.0 if exact else UP
        D = _units(squares + ridge)
        below = [M / D] if ridge == 0 else [M / D, np.diag(np.sqrt(ridge) / D)]
        R = np.linalg.qr(np.vstack(below)).R
        if cut is None:
            cut = ROUNDING * np.sqrt(p) * rounding if ridge == 0 else 0.0
        metric = cls._of_triangle(R, D, max(FAR * cut, np.sqrt(EPS)), up)
        if metric is None:
            _, s, Vt = np.linalg.svd(R)
            metric = cls(np.append(s, np.zeros(p - len(s))), Vt.T, D, cut, up)
        metric.source = "exact" if exact else "sketched"
        return metric

    @classmethod
    def of_gram(cls, G: HostArray, ridge: float, rounding: float) -> Metric:
        """Make the metric from the Gram matrix G = XᵀX."""
        p = len(G)
        D = _units(G.diagonal() + ridge)
        S = G / D[:, None] / D
        np.fill_diagonal(S, S.diagonal() + ridge / D**2)
        with suppress(np.linalg.LinAlgError):
            metric = cls._of_triangle(np.linalg.cholesky(S).T, D, SQUARED, 1.0)
            if metric is not None:
                return metric
        values, V = np.linalg.eigh(S)
        return cls(np.sqrt(np.maximum(values, 0.0)), V, D, _cut(p, ridge, rounding), 1.0)

    @classmethod
    def of_held(cls, moments: Any, i: int, ridge: float, cut: float | None = None) -> Metric:
        """Make the metric of matrix i from the triangle or the Gram matrices that moments hold.

        Parameters
        ----------
        moments : linspec.rows.Moments
        i : int
        ridge : float
        cut : float, optional
            As for `of_rows`, where a triangle is held.
        """
        A = moments.operators[i]
        if moments.root is not None:
            squares = moments.fitted[i].squares
            return cls.of_rows(to_host(moments.root[i]), ridge, squares, A.rounding, exact=True, cut=cut)
        G = moments.held[i][i]
        return cls.of_gram(to_host(G) if is_array(G) else G.toarray(), ridge, A.rounding)

    @classmethod
    def of_sketch(cls, moments: Any, i: int, ridge: float) -> Metric:
        """Make the metric of matrix i from the sketch that moments have, or make in a pass."""
        squares = moments.fitted[i].squares
        rounding = moments.operators[i].rounding
        return cls.of_rows(moments.sketch()[i], ridge, squares, rounding, exact=False)

    @classmethod
    def _of_triangle(cls, R: HostArray, D: HostArray, least: float, up: float) -> Metric | None:
        """The metric for S = D RᵀR D, if no singular value of R is below `least`."""
        if R.shape[0] < R.shape[1] or not R.diagonal().all():
            return None
        T, _ = dtrtri(R)
        metric = cls.__new__(cls)
        metric.D = D
        metric.up = up
        metric.rank = len(D)
        metric.null = np.zeros((len(D), 0))
        metric.N = T / D[:, None]
        metric._inverse = R * D
        metric.least = 1.0 / _bound(T)
        return metric if metric.least > least else None

    @cached_property
    def reach(self) -> float:
        """‖N‖₂, the largest length of e for gᵀS⁻¹g = 1."""
        return _largest(to_host(self.N))

    def on(self, device: Device) -> Metric:
        """Place what multiplies blocks where these are."""
        self.N = device.asarray(self.N)
        self._inverse = device.asarray(self._inverse)
        return self

    def lengths(self, g: HostArray) -> HostArray:
        """The lengths of columns in S⁻¹, which are not too small."""
        return self.up * lengths_of(to_host(self.dual(g)))

    def dual(self, g: Array) -> Array:
        """Nᵀg: its Euclidean length is that of g in S⁻¹."""
        return self.N.T @ g

    def coordinates(self, W: Array) -> Array:
        """Return y with N y = W, but for the null part of W; its Euclidean length is that of W in S."""
        return self._inverse @ W

    def lift(self, y: Array) -> Array:
        """Return N y."""
        return self.N @ y

    def solve(self, g: Array) -> Array:
        """S⁻¹g, as exact as the metric."""
        return self.lift(self.dual(g))

    def shortest(self, W: Array) -> Array:
        """W without what lies in the null space: the shortest of the solutions that differ by it."""
        null = Device.of(W).asarray(self.null)
        return W - null @ (null.T @ W) if null.shape[1] else W


class NearDiagonal(Metric):
    """The norm of S⁻¹ for S that is diagonal but for few directions: for any number of columns.

    With W = diag(root²) and orthonormal columns U,

        S⁻¹ = N Nᵀ,    N = W^(1/2) (I - U diag(1 - stretch) Uᵀ).    (2)

    Parameters
    ----------
    root : array of shape (p,)
        0 for columns of zeros.
    U : array of shape (p, m)
    stretch : numpy.ndarray of shape (m,)
        0 for directions that are left out.
    device : Device, optional
        Where `root` and `U` are.
    """

    def __init__(self, root: Array, U: Array, stretch: HostArray, device: Device = HOST) -> None:
        self.device = device
        self.root = root[:, None]
        self.back = reciprocal(root)[:, None]
        self.U, self.stretch, live = U, stretch, stretch > 0
        D = to_host(self.back)[:, 0]
        longest = float(stretch.max(initial=1.0))
        self.D = np.where(D > 0, D, 1.0)
        self.up = 1.0
        self.rank = int(np.count_nonzero(D)) - int(np.sum(~live))
        self.least = float(stretch[live].min(initial=1.0)) / longest
        self.reach = longest * float(to_host(root).max(initial=0.0))
        left_out = to_host(self.root * U)[:, ~live]
        self.null = np.linalg.qr(left_out)[0] if left_out.shape[1] else left_out

    @classmethod
    def of_thin(cls, d: HostArray, L: HostArray, ridge: float, rounding: float) -> NearDiagonal:
        """Make the metric of diag(d) - L Lᵀ + ridge I: with the SVD W^(1/2) L = U Σ Yᵀ, stretch = (I - Σ²)^(-1/2).

        Parameters
        ----------
        d : numpy.ndarray of shape (p,)
        L : numpy.ndarray of shape (p, m)
            Few columns.
        ridge, rounding : float
            Of the data.
        """
        root = np.sqrt(reciprocal(d + ridge))
        U, sizes, _ = np.linalg.svd(root[:, None] * L, full_matrices=False)
        left = np.sqrt(np.maximum(1.0 - sizes**2, 0.0))
        live = left > _cut(len(d), ridge, rounding)
        return cls(root, U, np.divide(1.0, left, out=np.zeros_like(left), where=live))

    @classmethod
    def of_diagonal(cls, d: Array, device: Device) -> NearDiagonal:
        """Make the metric of diag(d), for d of shape (p, 1)."""
        return cls(device.xp.sqrt(reciprocal(d[:, 0])), device.zeros((d.shape[0], 0)), np.zeros(0), device)

    @property
    def N(self) -> Array:
        """N, of shape (p, p)."""
        return self.lift(self.device.eye(len(self.D)))

    def on(self, device: Device) -> Metric:
        return self

    def dual(self, g: Array) -> Array:
        return self._stretched(self.root * g, self.stretch)

    def lift(self, y: Array) -> Array:
        return self.root * self._stretched(y, self.stretch)  # (2)

    def coordinates(self, W: Array) -> Array:
        return self._stretched(self.back * W, reciprocal(self.stretch))

    def _stretched(self, y: Array, stretch: HostArray) -> Array:
        """Stretch y along U."""
        return (
            y + self.U @ (self.device.asarray(stretch - 1.0)[:, None] * (self.U.T @ y)) if len(stretch) else y
        )


class Preconditioned(NearDiagonal):
    """The norm of P⁻¹ for a preconditioner P of S.

    P⁻¹ = W - L Lᵀ, so U has the directions of the columns of W^(-1/2) L, whose squared lengths are 1 - stretch².

    Parameters
    ----------
    weights : array of shape (p,)
        The diagonal of W.
    L : array of shape (p, r)
    device : Device
        Where they are.
    """

    source = "preconditioned"

    def __init__(self, weights: Array, L: Array, device: Device) -> None:
        root = device.xp.sqrt(weights)
        U = L * reciprocal(root)[:, None]
        c = to_host(device.column_sums(U * U))
        U = U * device.asarray(1.0 / np.sqrt(np.maximum(c, TINY)))[None, :]
        super().__init__(root, U, np.sqrt(np.maximum(1.0 - c, EPS)), device)

    @classmethod
    def of_signs(
        cls, Z: Array, SZ: Array, ridge: float, squares: HostArray | None, device: Device
    ) -> Preconditioned:
        """Make the norm from S Z for random signs Z, which also estimate squares of columns that are not known.

        Parameters
        ----------
        Z, SZ : array of shape (p, m)
        ridge : float
            It is in S.
        squares : numpy.ndarray of shape (p,), or None
            Sums of squares of the columns of X.
        device : Device
            Where blocks are.
        """
        d = raised_diagonal(Z, SZ, ridge, device) if squares is None else device.asarray(squares)
        return cls(*preconditioner_from_sketch(Z, SZ, ridge, d, device), device)


def _cut(p: int, ridge: float, rounding: float) -> float:
    """The fraction of the largest singular value below which those from a Gram matrix of order p are rounding."""
    squared = float(np.sqrt(p * EPS))
    return max(ROUNDING * float(np.sqrt(p)) * rounding, squared) if ridge == 0 else squared


def _largest(M: HostArray) -> float:
    """‖M‖₂; of large matrices by the power method, which may miss some per cent."""
    if len(M) <= SMALL:
        return float(np.linalg.svd(M, compute_uv=False)[0]) if M.size else 0.0
    v = np.random.default_rng(0).standard_normal((M.shape[1], 2))
    for _ in range(POWERS):
        v = M.T @ (M @ (v / lengths_of(v)))
    return min(float(np.sqrt(lengths_of(v).max(initial=0.0))), _bound(M))


def _bound(M: HostArray) -> float:
    """A bound of ‖M‖₂, by the sums of rows and of columns."""
    sizes = np.abs(M)
    return float(np.sqrt(sizes.sum(axis=0).max(initial=0.0)) * np.sqrt(sizes.sum(axis=1).max(initial=0.0)))


def _units(squares: HostArray) -> Any:
    return np.sqrt(np.where(squares > 0, squares, 1.0))
