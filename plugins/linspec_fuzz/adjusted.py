"""Weights, confounds, centring and scale, as they are defined, in extended precision.

Problem: linspec applies weights and subtracts means and confounds in products. The truth must come from the entries.
Method: rows times √w; the residuals of a regression of each column on √w [1 Z], by an orthonormal basis from
the singular value decomposition of the confounds less their means, applied twice; columns divided by the root
of their mean square, which counts rows by their weights. A column whose remainder is only rounding is zero, and its
scale is 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from linspec_fuzz.extended import EPS, Extended, column_norms, extended, svd

__all__ = ["Adjusted", "RowTerms"]

NOTHING = 1000 * EPS
"""The remainder of a column is only rounding of the extended precision if its relative length is below this."""

DEPENDENT = 1e-15
"""A combination of confounds is only rounding if its singular value is below this fraction of the largest."""


@dataclass(frozen=True)
class Adjusted:
    """A matrix after weights, means, confounds and scale.

    Attributes
    ----------
    entries : array of shape (n, p)
    scale : array of shape (p,)
        The divisors of the columns; ones without scaling.
    live : array of shape (p,) of bool
        Whether columns vary, after means and confounds are subtracted.
    mean : array of shape (p,)
        The weighted column means; zeros without centring.
    shift : float
        The largest factor by which subtracting means and confounds shortens a column.
    """

    entries: Extended
    scale: Extended
    live: Any
    mean: Extended
    shift: float


class RowTerms:
    """The terms that all columns share: weights, the constant and confounds.

    Parameters
    ----------
    n : int
        The number of rows.
    weights : array of shape (n,), or None
    confounds : array of shape (n, c) or (n,), or None
    center : bool
    """

    def __init__(self, n: int, weights: Extended | None, confounds: Extended | None, *, center: bool) -> None:
        self.w = np.ones(n, np.longdouble) if weights is None else extended(weights)
        # In units of the largest weight: squares of weights such as 1e3000 have no place in the checks below.
        self.roots = np.sqrt(self.w)[:, None]
        self.total = np.sum(self.w)
        self.center = center
        self.basis: Extended | None = None
        if confounds is not None:
            Z = extended(confounds)
            Z = Z[:, None] if Z.ndim == 1 else Z
            size = column_norms(self.roots * Z)
            Z = self.roots * (self._centred(Z)[0] if center else Z)
            length = column_norms(Z)
            live = length > NOTHING * size
            if live.any():
                U, s, _ = svd(Z[:, live] / length[live])
                self.basis = self._without_constant(U[:, s > DEPENDENT * s[0]]) if len(s) else None

    def _centred(self, X: Extended) -> tuple[Extended, Extended]:
        """Subtract the weighted means of columns; return the centred columns and the means."""
        mean = np.sum(self.w[:, None] * X, axis=0) / self.total
        X = X - mean
        rest = np.sum(self.w[:, None] * X, axis=0) / self.total
        return X - rest, mean + rest

    def _without_constant(self, U: Extended) -> Extended:
        """Make a basis of confounds orthogonal to the constant; return it unchanged without centring.

        If confounds nearly depend on each other, rounding adds parts of the constant to the basis. So these parts are
        subtracted twice.
        """
        if not self.center:
            return U
        for _ in range(2):
            U = svd(U - self.roots @ (self.roots.T @ U) / self.total)[0]
        return U

    def adjusted(self, X: Extended, *, scale: bool = False) -> Adjusted:
        """Apply weights, means, confounds and scale to a matrix.

        Parameters
        ----------
        X : array of shape (n, p)
        scale : bool, default False

        Returns
        -------
        Adjusted
        """
        size = column_norms(self.roots * X)
        mean = np.zeros(X.shape[1], np.longdouble)
        if self.center:
            X, mean = self._centred(X)
        X = self.roots * X
        if self.basis is not None:
            for _ in range(2):
                X = X - self.basis @ (self.basis.T @ X)
        taken = self.center or self.basis is not None
        length = column_norms(X)
        if taken:
            X = X * (length > NOTHING * size)
            length = np.where(length > NOTHING * size, length, 0)
        live = length > 0
        shift = float(np.max(size[live] / length[live], initial=1.0)) if taken else 1.0
        factor = np.ones(X.shape[1], np.longdouble)
        if scale:
            factor[live] = length[live] / np.sqrt(self.total)
        return Adjusted(X / factor, factor, live, mean, shift)
