"""Partial least squares by SVD: the problem and its law."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np

import linspec as ls
from linspec.algebra import selection_matrix, signs_of_columns
from linspec.arrays import Array, Home, HostArray, reciprocal, to_host
from linspec.solving import (
    DEFAULT_TERMS,
    Terms,
    check_home,
    check_k,
    check_rows,
    fewer_than_asked,
    refuse_iterators,
)
from linspec_pls.solution import PLSSolution


@dataclass(frozen=True, eq=False, repr=False)
class PLS(ls.Problem[PLSSolution]):
    """The k leading singular triplets of XᵀY: the directions of two views with the largest covariance.

    Parameters
    ----------
    X : data of shape (n, p)
        Anything that `linspec.as_operator` takes.
    Y : data of shape (n, q)
    k : int
        The number of triplets, at most min(n, p, q).
    center : bool, default True
        Subtract the column means; sparse data stay sparse.

    Notes
    -----
    Residual: the largest of ‖XᵀY v − σ u‖ and ‖YᵀX u − σ v‖ over the triplets (u, σ, v), divided by σ₁.
    """

    X: Any
    Y: Any
    k: int
    center: bool = True

    name: ClassVar[str] = "pls"
    tolerance: ClassVar[float] = 1e-6
    solution: ClassVar[type[ls.Solution]] = PLSSolution
    matrix_names: ClassVar[tuple[str, ...]] = ("X", "Y")
    means: ClassVar[Mapping[str, str]] = MappingProxyType({"X": "x_mean", "Y": "y_mean"})

    def __post_init__(self) -> None:
        refuse_iterators({"X": self.X, "Y": self.Y})
        X, Y = self.adopt("X", self.X), self.adopt("Y", self.Y)
        check_home("X", X, "Y", Y)
        self.check_sizes()

    def __repr__(self) -> str:
        return f"PLS(X={self.X.shape}, Y={self.Y.shape}, k={self.k}, center={self.center})"

    def check_sizes(self) -> None:
        """X and Y have equally many rows, and k is at most what the shapes allow."""
        check_rows("X", self.X, "Y", self.Y)
        (n, p), (m, q) = self.X.shape, self.Y.shape
        limits = {"rows": min(n, m), "columns of X": p, "columns of Y": q}
        object.__setattr__(self, "k", check_k(self.k, limits))

    def moments(self, form: str, expect: tuple[int, int]) -> ls.Moments:
        """The moments of X and Y."""
        return ls.Moments(self.X, self.Y, center=self.center, form=form, expect=expect)

    def conclude(  # type: ignore[override]
        self, moments: ls.Moments, terms: Terms = DEFAULT_TERMS, *, x_weights: Array, y_weights: Array
    ) -> ls.Conclusion:
        """Scale the vectors of a solver to length 1, compute their singular values, order, signs and residual."""
        home = moments.home
        U, V = (of_unit_length(home.place(W), home) for W in (x_weights, y_weights))
        XtXU, CV, CtU, YtYV = moments.products(U, V)  # one sweep, with C = XᵀY
        values = inner(U, CV, home)
        # σ is the product of X u and Y v. If it is not above the rounding that the entries cause in this product, the
        # vectors are arbitrary.
        length = np.sqrt(inner(U, XtXU, home).max(initial=0.0) * inner(V, YtYV, home).max(initial=0.0))
        rounding = max(float(np.finfo(self.dtype).eps), moments.columns.centring_error())
        known = np.abs(values) > 10 * np.sqrt(self.X.shape[1] + self.Y.shape[1]) * rounding * length
        order = np.argsort(-np.abs(values), kind="stable")
        order = order[known[order]][: self.k]
        # If a value is negative, v changes its sign.
        turns, values = np.sign(values[order]), np.abs(values[order])
        T = selection_matrix(len(known), order)
        U, CtU = (W @ home.place(T) for W in (U, CtU))
        V, CV = (W @ home.place(T * turns) for W in (V, CV))
        sigma = home.place(values)[None, :]
        gaps = [*home.column_norms(CV - U * sigma), *home.column_norms(CtU - V * sigma)]
        residual = max(gaps) / values[0] if len(values) else 0.0
        flips = home.place(signs_of_columns(U, home))[None, :]
        fields: dict[str, Any] = {"singular_values": values}
        for name, A, W in (("x_weights", self.X, U), ("y_weights", self.Y, V)):
            fields[name] = A.home.place(W * flips, A.dtype)
        fields |= self.fields_of_adjustments(moments)  # the means, where the problem centres
        found = fewer_than_asked(len(values), self.k, "singular values that can be distinguished from zero")
        return ls.Conclusion(fields, float(residual), (*found, *self.lost_to_centring(moments)))


def of_unit_length(W: Array, home: Home) -> Array:
    """Columns divided by their lengths."""
    return W * reciprocal(home.place(home.column_norms(W)))[None, :]


def inner(V: Array, W: Array, home: Home) -> HostArray:
    """vᵀw for each pair of columns."""
    return to_host(home.xp.sum(V * W, axis=0))
