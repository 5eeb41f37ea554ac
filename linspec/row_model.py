"""What the rows of all matrices of a problem have in common: weights, a centre, and confounds.

Problem: rows may count more than once, and what some nuisance variables explain is to be left out of every column.
Method: both are one thing to a product. With weights w and D = diag(√w), a matrix A is replaced by

    (I − QQᵀ) D A,    Q an orthonormal basis of the columns of D [1 Z],

where 1 is there if the columns are centred and Z holds the confounds. Centring is the case without Z. The products
of such matrices are those of the rows times w, less T Tᵀ for T = AᵀDQ: nothing with n rows is formed, and sparse rows
stay sparse. Q depends on w and Z alone and is known before a row of A is read.
Source: Frisch & Waugh 1933, Econometrica 1:387; Lovell 1963, JASA 58:993: regressing on the residuals of both sides
gives the coefficients of the regression that has Z among its columns.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from linspec.arrays import Array, Home, HostArray, host_dtype, is_array, to_host
from linspec.errors import InvalidProblem, NonFiniteData, shown
from linspec.frames import is_frame, is_series, numbers_of

DEPENDENT = 64
"""A direction of the confounds is null if its length is at most this many roundings of the longest, times their
number."""


class OfRows(ABC):
    """What rows have beside their entries. A sweep of some rows needs that of these alone.

    Attributes
    ----------
    first : int
        The number of the row that it begins with.
    """

    first: int

    @property
    @abstractmethod
    def rows(self) -> float:
        """The number of rows; infinity where it fits any."""

    @property
    @abstractmethod
    def is_plain(self) -> bool:
        """Whether no row has anything."""

    @abstractmethod
    def of_rows(self, start: int, stop: int) -> Self:
        """What sweeps of some rows need: rows keep their numbers.

        Parameters
        ----------
        start, stop : int
            The number of the first row, and that after the last.
        """

    def _places(self, first: int, n: int) -> slice:
        """Where n rows from number `first` on lie."""
        return slice(first - self.first, first - self.first + n)


Change = Callable[[Any], Any]
"""Gives what is to take the place of an `OfRows`."""


@dataclass(frozen=True, eq=False)
class RowModel(OfRows):
    """Weights of rows, and the directions that are taken out of all columns.

    Attributes
    ----------
    center : bool
        Whether the (weighted) column means are taken out.
    weights : numpy.ndarray of shape (n,), or None
        All rows count once without them.
    basis : numpy.ndarray of shape (n, r), or None
        Combinations B of the confounds with BᵀD²B = I, and orthogonal to the constant where that is taken out.
    confound_mean : numpy.ndarray of shape (c,), or None
        The weighted means of the confounds, 0 without centring.
    turn : numpy.ndarray of shape (c, r), or None
        B = (Z − confound_mean) turn.
    first : int, default 0
        The number of the row that weights and basis begin with, where they are those of some rows.
    """

    center: bool
    weights: HostArray | None = None
    basis: HostArray | None = None
    confound_mean: HostArray | None = None
    turn: HostArray | None = None
    first: int = 0

    @property
    def rows(self) -> float:
        """The number of rows that weights and confounds have; infinity without any."""
        for array in (self.weights, self.basis):
            if array is not None:
                return len(array)
        return math.inf

    @property
    def is_plain(self) -> bool:
        """Whether all rows count once, and no confounds are taken out of them."""
        return self.weights is None and self.basis is None

    def total(self, n: float) -> float:
        """What n rows count together."""
        return n if self.weights is None else float(np.sum(self.weights))

    def weights_of(self, first: int, n: int, home: Home) -> Array | None:
        """The weights of n rows from `first` on, float64, beside p x k blocks."""
        return None if self.weights is None else home.place(self.weights[self._places(first, n)])

    def roots_of(self, first: int, n: int, home: Home) -> Array | None:
        """Their square roots."""
        return None if self.weights is None else home.place(np.sqrt(self.weights[self._places(first, n)]))

    def basis_of(self, first: int, n: int, home: Home) -> Array | None:
        """The same rows of B."""
        return None if self.basis is None else home.place(self.basis[self._places(first, n)])

    def taken_of(self, first: int, n: int, home: Home) -> Array:
        """The same rows of D [1 B], with 1 where the columns are centred; perhaps no column."""
        weights, basis = self.roots_of(first, n, home), self.basis_of(first, n, home)
        roots = home.ones((n, 1)) if weights is None else weights[:, None]
        columns = [roots] if self.center else []
        if basis is not None:
            columns.append(basis * roots)
        return home.concat(columns) if columns else home.zeros((n, 0))

    def of_rows(self, start: int, stop: int) -> Self:
        """Their weights and their rows of B."""
        own = self._places(start, stop - start)
        weights = None if self.weights is None else self.weights[own]
        basis = None if self.basis is None else self.basis[own]
        return replace(self, weights=weights, basis=basis, first=start, confound_mean=None, turn=None)

    def chosen(self, selection: HostArray) -> RowModel:
        """The model of some rows, in the order of their numbers."""
        weights = None if self.weights is None else self.weights[selection]
        return replace(self, weights=weights, basis=None if self.basis is None else self.basis[selection])


PLAIN = RowModel(center=False)
"""Rows that count once, and nothing is taken out."""


def row_model(*, center: bool, weights: HostArray | None, confounds: HostArray | None) -> RowModel:
    """The model of the rows of a problem.

    Parameters
    ----------
    center : bool
    weights : numpy.ndarray of shape (n,), or None
    confounds : numpy.ndarray of shape (n, c), or None
        As `weights_and_confounds` returns them.
    """
    if confounds is None:
        return RowModel(center=center, weights=weights)
    mean, turn, basis = _orthonormal(confounds, weights, center=center)
    return RowModel(center=center, weights=weights, basis=basis, confound_mean=mean, turn=turn)


def weights_and_confounds(
    sample_weight: Any, confounds: Any, rows: float
) -> tuple[HostArray | None, HostArray | None]:
    """Weights and confounds as float64 arrays on the host, after a check that they fit the rows.

    Parameters
    ----------
    sample_weight : array of shape (n,), or None
        Zero or more: how often each row counts.
    confounds : array of shape (n, c) or (n,), or None
        What they explain of a column is left out of it.
    rows : int or infinity
        Rows of the data; infinity for streams.

    Raises
    ------
    InvalidProblem
        A negative weight, weights that are all zero, or another number of rows.
    NonFiniteData
        A weight or a confound is not finite.
    """
    w = None if sample_weight is None else _weights(sample_weight, rows)
    return w, None if confounds is None else _confounds(confounds, rows if w is None else len(w))


def _numbers(values: Any, name: str, dimensions: str) -> HostArray:
    if is_frame(values) or is_series(values):
        found = numbers_of(values, name).values
        values = found[:, 0] if is_series(values) else found
    if hasattr(values, "toarray"):
        values = values.toarray()
    host = to_host(values) if is_array(values) else np.asarray(values)
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
) -> tuple[HostArray, HostArray, HostArray]:
    """The mean of the confounds, the turn to an orthonormal basis of what they say beside it, and that basis."""
    mean = np.average(Z, axis=0, weights=w) if center else np.zeros(Z.shape[1])
    Z = Z - mean
    if center:  # of large means a rounding is left
        rest = np.average(Z, axis=0, weights=w)
        mean, Z = mean + rest, Z - rest
    roots = np.ones((len(Z), 1)) if w is None else np.sqrt(w)[:, None]
    lengths = np.sqrt(np.sum((Z * roots) ** 2, axis=0))
    noise = DEPENDENT * np.finfo(np.float64).eps * np.abs(mean) * math.sqrt(float(np.sum(roots**2)))
    live = np.where(lengths > noise, lengths, np.inf)
    turn = np.diag(1 / live)
    for _ in range(2):  # the second turn makes up for what the first lost to nearly dependent columns
        _, R = np.linalg.qr(Z @ turn * roots)
        _, s, Vt = np.linalg.svd(R)
        rank = int(np.sum(s > DEPENDENT * Z.shape[1] * np.finfo(np.float64).eps * max(s[:1], default=0.0)))
        turn = turn @ (Vt.T[:, :rank] / s[:rank])
    return mean, turn, Z @ turn
