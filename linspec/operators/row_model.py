"""The row model that all matrices of a problem share: weights, centring, and confounds.

Problem: rows may count more than once, and the part of every column that nuisance variables explain must be subtracted.
Method: in products, one formula covers weights, means and confounds. With weights w and D = diag(√w), a matrix A is
replaced by

    (I − QQᵀ) D A,    Q an orthonormal basis of the columns of D [1 Z],

where 1 is included if the columns are centred and Z holds the confounds. Centring is the case without Z. The Gram
matrix of the result is AᵀD²A − T Tᵀ for T = AᵀDQ: nothing with n rows is formed, and sparse rows stay sparse. Q
depends on w and Z alone and is known before a row of A is read. Without centring, Q spans D Z, and A may have large
means, whose products would cancel. So with confounds the means are always subtracted first, and then the component q
of D1 that D Z does not explain is added again: the constant is "kept". With Q₊ a basis of D [1 Z], whose span
contains q, (I − QQᵀ) D A = (I − Q₊Q₊ᵀ) D A + q tᵀ for t = AᵀDq, and the two terms are orthogonal to each other.
Source: Frisch & Waugh 1933, Econometrica 1:387; Lovell 1963, JASA 58:993: regressing the residuals of Y on those of X
gives the same coefficients as the regression with Z among its columns.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from linspec.arrays import Array, Home, HostArray, check_bare, host_dtype, to_host
from linspec.errors import InvalidProblem, NonFiniteData, called, shown
from linspec.frames import is_frame, is_series, numbers_of
from linspec.operators.range_of_entries import Magnitude, check_magnitude
from linspec.operators.sparse import SparseOperator, is_scipy_sparse

EXPLAINED = 1e-13
"""A column counts as zero if means and confounds leave at most this share of its squared length, which is rounding."""

DEPENDENT = 64
"""Factor in the bound by which confounds count as linearly dependent.

The columns of D Z, centred if the model is, are scaled to length 1. A singular value of the result counts as zero if it
is at most DEPENDENT · eps · (number of confounds) times the largest singular value.
"""


@dataclass(frozen=True, eq=False)
class Constant:
    """The part of the constant column 1 that is kept if columns have confounds but are not centred.

    D is diag(√w) for the weights w of the rows, and B (n x r) is `RowModel.basis`, the basis of the confounds.

    Attributes
    ----------
    kept : numpy.ndarray of shape (1 + r,), or None
        The coefficients of the unit vector q along the part of D1 that the confounds do not explain: q is the product
        of the n x (1 + r) matrix D [1 B] and these coefficients. None if the confounds explain all of D1.
    slopes : numpy.ndarray of shape (c,)
        The coefficients of the weighted regression of the column 1 on the confounds.
    """

    kept: HostArray | None
    slopes: HostArray


Change = Callable[[Any], Any]
"""Function that maps the weights and directions of rows to their replacement."""


@dataclass(frozen=True, eq=False)
class RowModel:
    """Weights of rows, and the directions that are subtracted from all columns.

    Attributes
    ----------
    center : bool
        Whether the (weighted) column means are subtracted.
    weights : numpy.ndarray of shape (n,), or None
        None: all rows count once.
    basis : numpy.ndarray of shape (n, r), or None
        Combinations B of the confounds with BᵀD²B = I; with `center` also 1ᵀD²B = 0.
    confound_mean : numpy.ndarray of shape (c,), or None
        The weighted means of the confounds, or zeros if `center` is False. None without confounds, and in a model of
        some rows that `of_rows` returns.
    turn : numpy.ndarray of shape (c, r), or None
        B = (Z − confound_mean) turn.
    first : int, default 0
        The number of the first row of `weights` and `basis`, if they belong to some rows only.
    constant : Constant or None
        None in most models. If columns have confounds and shall not be centred, `center` is True nevertheless, because
        subtracting the means first is more accurate. The part of D1 that D Z does not explain must then be added to the
        columns again: `constant` describes its direction q (see the head of this file).
    condition : float, default 1
        The condition number of the confounds with columns of length 1. Rounding errors of the explained part of a
        column grow by this factor.
    counted_by : str, default "sample_weight"
        The parameter that the weights come from, for errors.
    """

    center: bool
    weights: HostArray | None = None
    basis: HostArray | None = None
    confound_mean: HostArray | None = None
    turn: HostArray | None = None
    first: int = 0
    constant: Constant | None = None
    condition: float = 1.0
    counted_by: str = "sample_weight"

    @property
    def source(self) -> str:
        """The parameter from which `rows` is known, for errors."""
        return "confounds" if self.weights is None else self.counted_by

    @property
    def rows(self) -> float:
        """The number of rows of the weights and confounds; infinity if there are none."""
        for array in (self.weights, self.basis):
            if array is not None:
                return len(array)
        return math.inf

    @property
    def is_plain(self) -> bool:
        """Whether there are neither weights nor confounds; `center` may be True or False."""
        return self.weights is None and self.basis is None

    def total(self, n: float) -> float:
        """The total count of n rows: n, or the sum of the weights."""
        return n if self.weights is None else float(np.sum(self.weights))

    def weights_of(self, first: int, n: int, home: Home) -> Array | None:
        """The weights of rows `first` to `first` + n − 1, float64, in the library and on the device of p x k blocks."""
        return None if self.weights is None else home.place(self.weights[self._places(first, n)])

    def roots_of(self, first: int, n: int, home: Home) -> Array | None:
        """Square roots of the weights that `weights_of` returns."""
        return None if self.weights is None else home.place(np.sqrt(self.weights[self._places(first, n)]))

    def basis_of(self, first: int, n: int, home: Home) -> Array | None:
        """Rows `first` to `first` + n − 1 of B, float64, in the library and on the device of p x k blocks."""
        return None if self.basis is None else home.place(self.basis[self._places(first, n)])

    @property
    def signs(self) -> HostArray:
        """Vector with 1 for each column of B, whose products are subtracted, and -1 for q, whose products are added."""
        columns = 0 if self.basis is None else self.basis.shape[1]
        return np.append(np.ones(columns), [-1.0] * self.keeps_constant)

    @property
    def keeps_constant(self) -> bool:
        """Whether the unit vector q along the unexplained part of D1 is added again."""
        return self.constant is not None and self.constant.kept is not None

    def kept_of(self, first: int, n: int, home: Home) -> Array | None:
        """Entries `first` to `first` + n − 1 of q, of shape (n, 1)."""
        if self.constant is None or self.constant.kept is None:
            return None
        roots, basis = self.roots_of(first, n, home), self.basis_of(first, n, home)
        kept = home.place(self.constant.kept)
        q = kept[0] + (basis @ kept[1:] if basis is not None else home.zeros((n,)))
        return (q if roots is None else q * roots)[:, None]

    def taken_of(self, first: int, n: int, home: Home) -> Array:
        """Rows `first` to `first` + n − 1 of D [1 B]; the column of ones is included only with `center`.

        Shape (n, 0) if nothing is subtracted.
        """
        weights, basis = self.roots_of(first, n, home), self.basis_of(first, n, home)
        roots = home.ones((n, 1)) if weights is None else weights[:, None]
        columns = [roots] if self.center else []
        if basis is not None:
            columns.append(basis * roots)
        return home.concat(columns) if columns else home.zeros((n, 0))

    def projected(self, U: Array) -> Array:
        """(I − QQᵀ) U for a block with all rows."""
        home, n = Home.of(U).blocks, U.shape[0]
        L = self.taken_of(0, n, home)
        if L.shape[1] == 0:
            return U
        L = L / home.xp.sqrt(home.xp.sum(L * L, axis=0))[None, :]  # D1 is not of unit length
        left: Array = U - L @ (L.T @ U)
        kept = self.kept_of(0, n, home)
        return left if kept is None else left + kept @ (kept.T @ U)

    def _places(self, first: int, n: int) -> slice:
        """Slice of the stored arrays for rows `first` to `first` + n − 1."""
        return slice(first - self.first, first - self.first + n)

    def of_rows(self, start: int, stop: int) -> Self:
        """The model of rows start to stop - 1: their weights and their rows of B."""
        own = self._places(start, stop - start)
        weights = None if self.weights is None else self.weights[own]
        basis = None if self.basis is None else self.basis[own]
        return replace(self, weights=weights, basis=basis, first=start, confound_mean=None, turn=None)

    def chosen(self, selection: HostArray) -> RowModel:
        """The model of the rows with the given numbers, in that order."""
        weights = None if self.weights is None else self.weights[selection]
        return replace(self, weights=weights, basis=None if self.basis is None else self.basis[selection])


PLAIN = RowModel(center=False)
"""Model of rows that count once and from which nothing is subtracted."""


def row_model(
    *,
    center: bool,
    weights: HostArray | None,
    confounds: HostArray | None,
    about_means: bool = False,
    counted_by: str = "sample_weight",
) -> RowModel:
    """The model of the rows of a problem.

    Parameters
    ----------
    center : bool
    weights : numpy.ndarray of shape (n,), or None
    confounds : numpy.ndarray of shape (n, c), or None
        As `weights_and_confounds` returns them.
    about_means : bool, default False
        For columns with confounds and without centring: subtract the means for accuracy, and add q again.
    counted_by : str, default "sample_weight"
        The parameter that the weights come from, for errors.
    """
    if confounds is None:
        return RowModel(center=center, weights=weights, counted_by=counted_by)
    shift = about_means and not center
    mean, turn, basis, condition = _orthonormal(confounds, weights, center=center or shift)
    constant = _constant(confounds, weights, basis, mean) if shift else None
    return RowModel(
        center or shift,
        weights,
        basis,
        mean,
        turn,
        constant=constant,
        condition=condition,
        counted_by=counted_by,
    )


def weights_and_confounds(
    sample_weight: Any, confounds: Any, rows: float
) -> tuple[HostArray | None, HostArray | None]:
    """Weights and confounds as float64 arrays on the host, after a check that they fit the rows.

    Parameters
    ----------
    sample_weight : array of shape (n,), or None
        How often each row counts: zero or more.
    confounds : array of shape (n, c) or (n,), or None
        Nuisance variables; the part of a column that they explain is subtracted.
    rows : int or infinity
        Rows of the data; infinity for streams.

    Raises
    ------
    InvalidProblem
        A weight is negative, all weights are zero, or the number of rows differs from `rows`.
    NonFiniteData
        A weight or a confound is not finite.
    DataOutOfRange
        The largest confound is too small or too large.
    """
    w = None if sample_weight is None else _weights(sample_weight, rows)
    if confounds is None:
        return w, None
    Z = _confounds(confounds, rows if w is None else len(w))
    sizes = np.max(np.abs(Z) * (1.0 if w is None else np.sqrt(w)[:, None]), axis=0, initial=0.0)
    column = int(np.argmax(sizes))
    check_magnitude("confounds", Magnitude(float(sizes[column]), column), ridge=False)
    return w, Z


def _numbers(values: Any, name: str, dimensions: str) -> HostArray:
    check_bare(values, name)
    if is_frame(values) or is_series(values):
        found = numbers_of(values, name).values
        values = found[:, 0] if is_series(values) else found
    if hasattr(values, "dense"):  # an operator, such as `labelled` makes
        values = values.dense()
    if is_scipy_sparse(values):
        with called(name):
            values = SparseOperator(values, np.float64).dense()
    if hasattr(values, "toarray"):
        values = values.toarray()
    host = to_host(values)
    if host.dtype.kind not in "biuf":
        raise InvalidProblem(
            f"{name} must be {dimensions} of real numbers; got {host_dtype(host)} in {shown(values)}."
        )
    return np.array(host, dtype=np.float64)


def _weights(values: Any, rows: float) -> HostArray:
    w = _numbers(values, "sample_weight", "an array")
    if w.ndim != 1 or (rows != math.inf and len(w) != rows):
        wanted = "n" if rows == math.inf else f"{rows:g}"
        raise InvalidProblem(
            f"sample_weight must have shape ({wanted},), one number for each row; got {tuple(w.shape)}."
        )
    if not np.isfinite(w).all():
        at = int(np.argmin(np.isfinite(w)))
        raise NonFiniteData(
            f"sample_weight must be finite; got {w[at]} for row {at}. Weight 0 leaves a row out."
        )
    if len(w) and w.min() < 0:
        at = int(np.argmin(w))
        raise InvalidProblem(
            f"sample_weight must be zero or more; got {w[at]:g} for row {at}. Weight 0 leaves it out."
        )
    if not w.any():
        raise InvalidProblem("sample_weight must have a positive number; got zeros only, which leave no row.")
    return w


def _confounds(values: Any, rows: float) -> HostArray:
    Z = _numbers(values, "confounds", "an array")
    Z = Z[:, None] if Z.ndim == 1 else Z
    if Z.ndim != 2 or (rows != math.inf and len(Z) != rows) or Z.shape[1] == 0:
        wanted = "n" if rows == math.inf else f"{rows:g}"
        raise InvalidProblem(
            f"confounds must have shape ({wanted}, c), one row for each row of the data; got {tuple(Z.shape)}."
        )
    if not np.isfinite(Z).all():
        row, column = np.argwhere(~np.isfinite(Z))[0].tolist()
        raise NonFiniteData(
            f"confounds must be finite; got {Z[row, column]} at row {row}, column {column}. Drop or impute such rows."
        )
    return Z


def _orthonormal(
    Z: HostArray, w: HostArray | None, *, center: bool
) -> tuple[HostArray, HostArray, HostArray, float]:
    """Return (mean, turn, B, condition number) of the confounds, with B = (Z − mean) turn and BᵀD²B = I."""
    mean = np.average(Z, axis=0, weights=w) if center else np.zeros(Z.shape[1])
    Z = Z - mean
    if center:  # the rounding of large means is left; subtract it, too
        rest = np.average(Z, axis=0, weights=w)
        mean, Z = mean + rest, Z - rest
    roots = np.ones((len(Z), 1)) if w is None else np.sqrt(w)[:, None]
    units = column_units(Z * roots)  # columns may have any size
    lengths = np.sqrt(np.sum((Z / units * roots) ** 2, axis=0)) * units
    noise = DEPENDENT * np.finfo(np.float64).eps * np.abs(mean) * math.sqrt(float(np.sum(roots**2)))
    live = np.where(lengths > noise, lengths, np.inf)
    _, R = np.linalg.qr(Z / live * roots)
    _, s, Vt = np.linalg.svd(R)
    rank = int(np.sum(s > DEPENDENT * Z.shape[1] * np.finfo(np.float64).eps * max(s[:1], default=0.0)))
    # The longest directions come first, unaffected by the rounding of the shortest: R⁻¹ is triangular.
    turn = Vt.T[:, :rank] / s[:rank] / live[:, None]
    B = Z @ turn
    if center and rank:  # short directions were scaled up, with the mean that rounding has left in them
        B = B - np.average(B, axis=0, weights=w)
    inverse = np.linalg.inv(np.linalg.qr(B * roots, mode="r"))
    return mean, turn @ inverse, B @ inverse, float(s[0] / s[rank - 1]) if rank else 1.0


def column_units(Z: HostArray) -> HostArray:
    """The power of two just above the largest entry of each column; 2 for a column of zeros."""
    sizes = np.max(np.abs(Z), axis=0)
    units: HostArray = np.ldexp(1.0, np.frexp(np.where(sizes > 0, sizes, 1.0))[1])
    return units


def _constant(Z: HostArray, w: HostArray | None, basis: HostArray, mean: HostArray) -> Constant:
    """Compute the part of D1 that the confounds do not explain, and the regression of the constant on them.

    In the basis D[1/total, B] the confounds have the coordinates [c; L], with c from their means and L from what is
    left of them without the means. So q is along [1; -v] with c = Lᵀv. Where means are large, the singular vectors of
    [c; L] have lost the digits that L has.
    """
    roots = np.ones(len(Z)) if w is None else np.sqrt(w)
    units, left = column_units(Z * roots[:, None]), column_units((Z - mean) * roots[:, None])
    units = np.where(
        left > DEPENDENT * np.finfo(np.float64).eps * units, left, units
    )  # L keeps the digits of each
    total = float(np.linalg.norm(roots))
    c = total * mean / units
    L = (basis * roots[:, None]).T @ ((Z - mean) / units * roots[:, None])
    v = np.linalg.lstsq(L.T, c, rcond=None)[0]
    noise = (
        DEPENDENT
        * len(c)
        * np.finfo(np.float64).eps
        * float(np.linalg.norm(c))
        * (1 + float(np.linalg.norm(v)))
    )
    if np.linalg.norm(c - L.T @ v) > noise:
        slopes = np.linalg.lstsq(np.vstack([c, L]), np.eye(len(L) + 1)[0] * total, rcond=None)[0]
        return Constant(None, slopes / units)
    share = 1 / (1 + float(v @ v))  # q₀²
    q = np.append(1 / total, -v) * math.sqrt(share)
    return Constant(q, np.linalg.lstsq(L, total * share * v, rcond=None)[0] / units)
